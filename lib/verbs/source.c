/* SPDX-License-Identifier: MIT */
/* source.c - see source.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/netdev.h"
#include "lib/base/text.h"
#include "lib/verbs/gidtable.h"
#include "lib/verbs/source.h"

#define HOP_LIMIT 64

/* ----------------------------------------------------- a choice, and its trial --- */

/* Makes an address handle to the GID itself: if it cannot reach itself, it reaches no peer. */
static int source_try(const struct beest_device *device, struct ibv_pd *pd,
		      const struct beest_gid_entry *entry)
{
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;

	memset(&attr, 0, sizeof(attr));
	attr.port_num = device->port;
	attr.is_global = 1;
	memcpy(attr.grh.dgid.raw, entry->gid.raw, sizeof(attr.grh.dgid.raw));
	attr.grh.sgid_index = (uint8_t)entry->index;
	attr.grh.hop_limit = HOP_LIMIT;

	errno = 0;
	ah = ibv_create_ah(pd, &attr);
	if (!ah)
		return beest_error_errno();
	ibv_destroy_ah(ah);
	return 0;
}

/*
 * Does this errno of a trial handle speak of the GID?  Its entry may be empty or without an
 * interface (ENODATA from Soft-RoCE, EINVAL, ENXIO from old kernels), belong to another
 * network namespace (ENODEV), or have an address that the IP stack no longer reaches (the
 * others).  Lack of memory, or a device that is busy or broken, shows nothing about the GID:
 * choosing another one then would make this end unreachable for its peers for good.
 */
static bool gid_is_condemned_by(int err)
{
	return err == EINVAL || err == ENODATA || err == ENODEV || err == ENXIO ||
	       err == ENETUNREACH || err == EHOSTUNREACH || err == EADDRNOTAVAIL ||
	       err == ETIMEDOUT;
}

/* Returns the position of the choice.  Entries that failed their trial are marked. */
static int source_choose(const struct beest_device *device, struct ibv_pd *pd,
			 const struct beest_gid_policy *policy, const struct beest_log *log,
			 struct beest_gid_entry *entries, size_t count, char *reason, size_t size)
{
	struct beest_gid_entry *entry;
	int position, ret;

	for (;;) {
		position = beest_gid_choose(entries, count, policy, reason, size);
		if (position < 0 || !pd || !entries[position].roce)
			return position;

		entry = &entries[position];
		ret = source_try(device, pd, entry);
		/* The rdma cgroup may leave no room for a trial, which is not needed to connect. */
		if (ret == 0 || ret == -EAGAIN)
			return position;

		beest_fail_errno(ret, "an address handle from GID %d (%s) to itself failed",
				 entry->index, BEEST_GID_TEXT(&entry->gid));
		if (!gid_is_condemned_by(-ret))
			return ret;
		entry->trial_error = -ret;
		beest_log(log, BEEST_LOG_WARN, "port %s: %s", device->label, beest_error_text());
	}
}

int beest_source_choose(const struct beest_device *device, struct ibv_pd *pd,
			const struct beest_gid_policy *policy, const struct beest_log *log,
			struct beest_gid_entry *chosen, char *reason, size_t size)
{
	struct beest_gid_policy now = *policy;
	struct beest_gid_entry *entries;
	int ret;

	/* Looked up each time, since addresses move between interfaces while a job runs. */
	if (now.rule == BEEST_GID_IP)
		beest_netdev_of(&now.gid, now.netdev);

	ret = beest_gidtable_entries(device, now.netdev, &entries);
	if (ret < 0)
		return ret;
	if (ret == 0 && !device->ethernet) {
		free(entries);
		return beest_fail(ENODATA, "port %s has no GID that can be read: that of an "
				  "InfiniBand port is at index 0, and has the port's GUID%s",
				  device->label, beest_device_virtual_text(device->verbs, false));
	}
	ret = source_choose(device, pd, &now, log, entries, (size_t)ret, reason, size);
	if (ret >= 0)
		*chosen = entries[ret];
	free(entries);
	return ret < 0 ? beest_fail_prefix(ret, "port %s", device->label) : 0;
}

/* ------------------------------------------------- a GID that was chosen --- */

/* Interfaces count, since several of one port (VLANs) often have the same link-local GID. */
bool beest_source_same(const struct beest_gid_entry *a, const struct beest_gid_entry *b)
{
	return memcmp(&a->gid, &b->gid, sizeof(a->gid)) == 0 && a->roce == b->roce &&
	       (!a->netdev[0] || !b->netdev[0] || strcmp(a->netdev, b->netdev) == 0);
}

bool beest_source_holds(const struct beest_device *device, const struct beest_gid_entry *source)
{
	struct beest_gid_entry now;

	return beest_gidtable_at(device, source->index, &now) && beest_source_same(&now, source);
}

static int source_is_gone(const struct beest_device *device, const struct beest_gid_entry *source,
			  const struct beest_gid_entry *entries, int count)
{
	struct beest_text known = BEEST_TEXT(BEEST_REASON_SIZE / 2);
	int i;

	for (i = 0; i < count; i++)
		if (entries[i].index <= BEEST_GID_INDEX_MAX)
			beest_text_item(&known, "index %d: %s, %s", entries[i].index,
					BEEST_GID_TEXT(&entries[i].gid),
					beest_endpoint_roce_text(entries[i].roce));

	return beest_fail(ENODATA, "the GID %s (%s) of this end is no longer in the table of port "
			  "%s: was its address removed?  hartebeest_qp_reset() and "
			  "hartebeest_qp_publish() choose again among %s",
			  BEEST_GID_TEXT(&source->gid), beest_endpoint_roce_text(source->roce),
			  device->label, known.used ? known.buffer : "nothing that can be read");
}

int beest_source_relocate(const struct beest_device *device, bool search,
			  struct beest_gid_entry *source)
{
	struct beest_gid_entry *entries;
	int i, count, ret;

	if (!search && beest_source_holds(device, source))
		return 0;

	count = beest_gidtable_entries(device, source->netdev, &entries);
	if (count < 0)
		return count;

	for (i = 0; i < count; i++)
		if (entries[i].index <= BEEST_GID_INDEX_MAX &&
		    beest_source_same(&entries[i], source))
			break;
	if (i == count) {
		ret = source_is_gone(device, source, entries, count);
	} else {
		ret = entries[i].index != source->index;
		source->index = entries[i].index;
	}
	free(entries);
	return ret;
}

void beest_source_ip(const struct beest_gid_entry *source, const struct beest_gid_policy *policy,
		     struct beest_ipaddr *ip)
{
	if (policy->rule == BEEST_GID_IP)
		*ip = policy->gid;
	else if (source->roce && !beest_ipaddr_is_link_local(&source->gid))
		*ip = source->gid;
	else if (!beest_netdev_ip(source->netdev, policy->family, ip) && source->roce)
		*ip = source->gid;
}
