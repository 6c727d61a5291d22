/* SPDX-License-Identifier: MIT */
/* device.c - see device.h */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/endpoint.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/verbs/device.h"

void beest_device_close(struct beest_device *device)
{
	if (device->verbs && !device->borrowed)
		ibv_close_device(device->verbs);
	memset(device, 0, sizeof(*device));
}

const char *beest_device_state_text(enum ibv_port_state state)
{
	static const char *const texts[] = {
		[IBV_PORT_NOP] = "in no state",
		[IBV_PORT_DOWN] = "down",
		[IBV_PORT_INIT] = "initializing: no subnet manager has set it up",
		[IBV_PORT_ARMED] = "armed: the subnet manager has not yet activated it",
		[IBV_PORT_ACTIVE] = "active",
		[IBV_PORT_ACTIVE_DEFER] = "active but failing (active defer)",
	};

	return (size_t)state < BEEST_COUNT(texts) ? texts[state] : "in an unknown state";
}

const char *beest_device_virtual_text(const struct ibv_context *verbs, bool ethernet)
{
	char path[IBV_SYSFS_PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/device/physfn", verbs->device->ibdev_path);
	if (access(path, F_OK) != 0)
		return "";
	return ethernet ? "; it is a virtual function, whose link its host sets (ip link set PF vf "
	       "NUMBER state auto)" :
	       "; it is a virtual function, which needs a GUID and a link of its host (ip link set "
	       "PF vf NUMBER node_guid GUID, port_guid GUID, state auto)";
}

int beest_device_port(const struct beest_device *device, struct ibv_port_attr *attr)
{
	int ret = beest_error_verbs(ibv_query_port(device->verbs, device->port, attr));

	if (ret < 0)
		return beest_fail_errno(ret, "port %s cannot be queried", device->label);
	return 0;
}

static int pkey_find(const struct beest_device *device, int count, uint16_t wanted,
		     uint16_t *index, uint16_t *pkey)
{
	struct beest_text seen = BEEST_TEXT(BEEST_REASON_SIZE);
	uint16_t each, best = 0;
	__be16 raw;
	int i, unread = 0;

	for (i = 0; i < count; i++) {
		if (ibv_query_pkey(device->verbs, device->port, i, &raw) != 0) {
			unread++;
			continue;
		}
		each = be16toh(raw);
		if (!(each & BEEST_PKEY_BASE))
			continue;		/* a free entry */
		beest_text_item(&seen, "index %d: 0x%04x%s", i, each,
				each & BEEST_PKEY_FULL ? "" : " (limited member)");
		if (wanted && ((each ^ wanted) & BEEST_PKEY_BASE))
			continue;
		if (best && (best & BEEST_PKEY_FULL || !(each & BEEST_PKEY_FULL)))
			continue;
		best = each;
		*index = (uint16_t)i;
	}
	if (best) {
		*pkey = best;
		return 0;
	}
	if (!seen.used)
		beest_text_add(&seen, unread ? "no P_Key that can be read" : "an empty P_Key "
			       "table: the subnet manager has put it into no partition%s",
			       beest_device_virtual_text(device->verbs, false));
	if (wanted)
		return beest_fail(ENODATA, "port %s has no P_Key 0x%04x: it has %s",
				  device->label, wanted, seen.buffer);
	return beest_fail(ENODATA, "port %s has %s", device->label, seen.buffer);
}

/* RoCE has no partitions: one entry, 0xffff. */
int beest_device_pkey_at(const struct beest_device *device, uint16_t index, uint16_t *pkey)
{
	__be16 raw = 0xffff;

	errno = 0;
	if (!device->ethernet && ibv_query_pkey(device->verbs, device->port, index, &raw) != 0)
		return beest_fail(-beest_error_errno(), "the P_Key at index %d of port %s cannot "
				  "be read", index, device->label);
	*pkey = be16toh(raw);
	return 0;
}

int beest_device_pkey(const struct beest_device *device, uint16_t wanted,
		      uint16_t *index, uint16_t *pkey)
{
	struct ibv_port_attr attr;
	int ret;

	if (device->ethernet) {
		*index = 0;
		return beest_device_pkey_at(device, 0, pkey);
	}
	ret = beest_device_port(device, &attr);
	return ret < 0 ? ret : pkey_find(device, attr.pkey_tbl_len, wanted, index, pkey);
}
