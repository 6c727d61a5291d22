/* SPDX-License-Identifier: MIT */
/*
 * device.c - see device.h
 *
 * Opening walks over devices and ports.  It notes what it passes over, and why: for the
 * sentence when no port is left, for the log when one is.
 */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/verbs/device.h"
#include "lib/base/error.h"
#include "lib/verbs/gidtable.h"
#include "lib/base/netdev.h"
#include "lib/base/nearest.h"
#include "lib/base/parse.h"
#include "lib/base/text.h"

#define RXE_VENDOR_ID 0xffffff
#define HOP_LIMIT 64
#define REASON_SIZE BEEST_REASON_SIZE

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

/* ----------------------------------------------------------- the walk --- */

/* Why nothing was found.  The most telling reason, the last one, gives the errno. */
enum fault {
	FAULT_NONE,		/* there is no device */
	FAULT_IWARP,
	FAULT_OPEN,
	FAULT_STATE,
	FAULT_PORT,
	FAULT_POLICY,
};

struct walk {
	char name[64];			/* "": any device */
	int port;			/* 0: any port */
	const struct beest_gid_policy *policy;
	const struct beest_log *log;
	enum fault fault;
	int err;
	struct beest_text passed;
	char passed_buffer[REASON_SIZE];
};

/* Notes why something was passed over. */
static void BEEST_PRINTF(4, 5) walk_pass_over(struct walk *walk, enum fault fault, int err,
					      const char *format, ...)
{
	char why[BEEST_ERROR_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	beest_text_item(&walk->passed, "%s", why);
	if (fault <= walk->fault)
		return;
	walk->fault = fault;
	walk->err = err;
}

/* "mlx5_0:1" -> name and port.  A name in sysfs holds no colon. */
static int walk_parse_name(struct walk *walk, const char *text)
{
	size_t length = strcspn(text, ":");
	int64_t port = 0;

	if (length == 0 || length >= sizeof(walk->name))
		return beest_fail(EINVAL, "%s is not the name of a device, such as mlx5_0 or "
				  "mlx5_0:1", BEEST_QUOTE(text));

	if (text[length] && beest_parse_int(text + length + 1, 1, UINT8_MAX, &port) < 0)
		return beest_fail_prefix(-EINVAL, "the port in device %s", BEEST_QUOTE(text));

	memcpy(walk->name, text, length);
	walk->name[length] = '\0';
	walk->port = (int)port;
	return 0;
}

int beest_device_name_check(const char *name)
{
	struct walk walk;

	return name ? walk_parse_name(&walk, name) : 0;
}

/* Looked up each time: addresses move between interfaces while a job runs. */
static struct beest_gid_policy gid_policy_now(const struct beest_gid_policy *policy)
{
	struct beest_gid_policy now = *policy;

	if (now.rule == BEEST_GID_IP)
		beest_netdev_of(&now.gid, now.holder);
	return now;
}

/* A port that was asked for by number is taken as it is; its GID is chosen later. */
static bool port_suits(struct walk *walk, const struct beest_device *device)
{
	struct beest_gid_policy policy;
	struct beest_gid_entry *entries;
	char reason[REASON_SIZE];
	int count, ret;

	if (walk->port || !walk->policy || walk->policy->rule == BEEST_GID_AUTO ||
	    walk->policy->rule == BEEST_GID_INDEX)
		return true;

	policy = gid_policy_now(walk->policy);
	count = beest_device_gids(device, &entries);
	ret = count;
	if (count >= 0) {
		ret = beest_gid_choose(entries, (size_t)count, NULL, &policy, reason,
				       sizeof(reason));
		free(entries);
	}
	if (ret >= 0)
		return true;

	walk_pass_over(walk, count < 0 ? FAULT_OPEN : FAULT_POLICY, -ret, "port %s: %s",
		       device->label, beest_error_text());
	return false;
}

static bool port_is_active(struct walk *walk, struct beest_device *device)
{
	struct ibv_port_attr attr;
	int ret;

	ret = beest_device_port(device, &attr);
	if (ret < 0) {
		walk_pass_over(walk, FAULT_OPEN, -ret, "%s", beest_error_text());
		return false;
	}
	device->ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	if (attr.state == IBV_PORT_ACTIVE)
		return true;

	walk_pass_over(walk, FAULT_STATE, ENETDOWN, "port %s is %s", device->label,
		       beest_device_state_text(attr.state));
	return false;
}

static bool port_find(struct walk *walk, struct beest_device *device)
{
	int port, count = device->attr.phys_port_cnt;

	if (walk->port > count)
		walk_pass_over(walk, FAULT_PORT, ENXIO, "device %s has no port %d: its ports are "
			       "1 to %d", device->name, walk->port, count);

	for (port = 1; port <= count; port++) {
		if (walk->port && walk->port != port)
			continue;
		device->port = (uint8_t)port;
		snprintf(device->label, sizeof(device->label), "%s:%d", device->name, port);
		if (port_is_active(walk, device) && port_suits(walk, device))
			return true;
	}
	return false;
}

static bool device_open_verbs(struct walk *walk, struct ibv_device *from,
			      struct beest_device *device)
{
	int err;

	errno = 0;
	device->verbs = ibv_open_device(from);
	if (device->verbs)
		return true;

	/*
	 * ENOENT says that sysfs knows the device, but that its node cannot be opened:
	 * libibverbs does not tell a missing node from one it may not read.
	 */
	err = -beest_error_errno();
	walk_pass_over(walk, FAULT_OPEN, err, "device %s cannot be opened: %s%s", device->name,
		       strerror(err), err == EACCES || err == EPERM || err == ENOENT ?
		       " (is there a /dev/infiniband/uverbs* that this user may read and write?)" :
		       "");
	return false;
}

static bool device_query_limits(struct walk *walk, struct beest_device *device)
{
	int ret = beest_error_verbs(ibv_query_device(device->verbs, &device->attr));

	if (ret < 0)
		walk_pass_over(walk, FAULT_OPEN, -ret, "the limits of device %s cannot be read: "
			       "%s", device->name, strerror(-ret));
	return ret == 0;
}

/* Kernels before 5.11 have vendor 0, and rxe_cfg(8) called all of them rxe. */
static bool device_is_soft_roce(const struct beest_device *device)
{
	return device->attr.vendor_id == RXE_VENDOR_ID ||
	       (device->attr.vendor_id == 0 && strncmp(device->name, "rxe", 3) == 0);
}

static bool device_try(struct walk *walk, struct ibv_device *from, struct beest_device *device)
{
	if (from->transport_type == IBV_TRANSPORT_IWARP) {
		walk_pass_over(walk, FAULT_IWARP, EPROTONOSUPPORT, "device %s is iWARP, whose "
			       "connections only rdma_cm can make", from->name);
		return false;
	}

	memset(device, 0, sizeof(*device));
	snprintf(device->name, sizeof(device->name), "%s", from->name);
	if (device_open_verbs(walk, from, device) && device_query_limits(walk, device) &&
	    port_find(walk, device)) {
		device->soft_roce = device_is_soft_roce(device);
		return true;
	}

	beest_device_close(device);
	return false;
}

/* ------------------------------------------------------------ opening --- */

static int device_unknown(const struct walk *walk, struct ibv_device **list)
{
	struct beest_nearest nearest;
	char known[REASON_SIZE];
	struct beest_text text;

	beest_nearest_start(&nearest, walk->name);
	beest_text_start(&text, known, sizeof(known));
	for (; *list; list++) {
		beest_nearest_offer(&nearest, (*list)->name);
		beest_text_item(&text, "%s", (*list)->name);
	}

	return beest_fail(ENODEV, "there is no RDMA device %s%s%s%s: this machine has %s",
			  BEEST_QUOTE(walk->name), nearest.best ? " (did you mean '" : "",
			  nearest.best ? nearest.best : "", nearest.best ? "'?)" : "", known);
}

static int walk_devices(struct walk *walk, struct ibv_device **list,
			struct beest_device *device)
{
	struct ibv_device **from;
	bool found = false;

	for (from = list; *from; from++) {
		if (walk->name[0] && strcmp(walk->name, (*from)->name) != 0)
			continue;
		found = true;
		if (!device_try(walk, *from, device))
			continue;

		snprintf(device->passed_over, sizeof(device->passed_over), "%s",
			 walk->passed_buffer);
		beest_log(walk->log, BEEST_LOG_INFO, "using port %s%s%s%s", device->label,
			  device->soft_roce ? " (Soft-RoCE)" : "",
			  walk->passed.used ? "; passed over: " : "", walk->passed_buffer);
		return 0;
	}

	if (!found)
		return device_unknown(walk, list);
	return beest_fail(walk->err, "%s%s", walk->name[0] ? "" :
			  "no port of any RDMA device can be used: ", walk->passed_buffer);
}

/* Without the uverbs module, errno is minus 38: a slip of libibverbs. */
static int device_list_failed(int err)
{
	if (abs(err) == ENOSYS)
		return beest_fail(ENOSYS, "this machine has no RDMA support: is the kernel module "
				  "ib_uverbs loaded?");
	err = err ? abs(err) : EIO;
	return beest_fail(err, "the RDMA devices cannot be listed: %s", strerror(err));
}

int beest_device_open(struct beest_device *device, const char *name,
		      const struct beest_gid_policy *policy, const struct beest_log *log)
{
	struct walk walk = { .policy = policy, .log = log };
	struct ibv_device **list;
	int ret, count = 0;

	beest_text_start(&walk.passed, walk.passed_buffer, sizeof(walk.passed_buffer));
	ret = name ? walk_parse_name(&walk, name) : 0;
	if (ret < 0)
		return ret;

	errno = 0;
	list = ibv_get_device_list(&count);
	if (!list)
		return device_list_failed(errno);

	if (count == 0)
		ret = beest_fail(ENODEV, "this machine has no RDMA device: see ibv_devices(1)");
	else
		ret = walk_devices(&walk, list, device);
	ibv_free_device_list(list);
	return ret;
}

void beest_device_close(struct beest_device *device)
{
	if (device->verbs)
		ibv_close_device(device->verbs);
	memset(device, 0, sizeof(*device));
}

/* --------------------------------------------------------- port, GIDs --- */

int beest_device_port(const struct beest_device *device, struct ibv_port_attr *attr)
{
	int ret = beest_error_verbs(ibv_query_port(device->verbs, device->port, attr));

	if (ret < 0)
		return beest_fail(-ret, "port %s cannot be queried: %s", device->label,
				  strerror(-ret));
	return 0;
}

static struct beest_gidtable gidtable_of(const struct beest_device *device)
{
	struct beest_gidtable table = {
		.verbs = device->verbs, .port = device->port, .ethernet = device->ethernet,
	};

	return table;
}

int beest_device_gids(const struct beest_device *device, struct beest_gid_entry **entries)
{
	struct beest_gidtable table = gidtable_of(device);
	struct ibv_port_attr attr;
	int ret;

	ret = beest_device_port(device, &attr);
	if (ret < 0)
		return ret;

	table.ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	table.size = attr.gid_tbl_len;
	return beest_gidtable_entries(&table, entries);
}

/* An address handle to oneself: what cannot reach its own end reaches nobody. */
static int gid_try_address(const struct beest_device *device, struct ibv_pd *pd,
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
 * Does this errno of a trial handle speak of the GID?  An entry may be empty or without
 * an interface (ENODATA from Soft-RoCE, EINVAL, ENXIO from old kernels), belong to another
 * network namespace (ENODEV), or have an address that the IP stack does not reach any
 * more (the others).  Lack of memory or a device that is busy or broken says nothing
 * about it: whoever chose another GID then would be unreachable for its peers for good.
 */
static bool gid_is_condemned_by(int err)
{
	static const int errors[] = {
		EINVAL, ENODATA, ENODEV, ENXIO, ENETUNREACH, EHOSTUNREACH, EADDRNOTAVAIL,
		ETIMEDOUT,
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(errors); i++)
		if (errors[i] == err)
			return true;

	return false;
}

/* A choice until an entry proves good: notes what failed, and leaves it out. */
struct trial {
	const struct beest_device *device;
	struct ibv_pd *pd;
	struct beest_gid_policy policy;
	const struct beest_log *log;
	const struct beest_gid_entry *entries;
	size_t count;
	bool *skip;
	char reason[REASON_SIZE];
	char failed[REASON_SIZE / 2];
	struct beest_text failures;
};

/* The position among the entries. */
static int trial_choose(struct trial *trial)
{
	const struct beest_gid_entry *entry;
	char gid[INET6_ADDRSTRLEN];
	int position, ret;

	for (;;) {
		position = beest_gid_choose(trial->entries, trial->count, trial->skip,
					    &trial->policy, trial->reason,
					    sizeof(trial->reason));
		if (position < 0 || !trial->pd || !trial->entries[position].roce)
			return position;

		entry = &trial->entries[position];
		ret = gid_try_address(trial->device, trial->pd, entry);
		if (ret == 0)
			return position;

		beest_ipaddr_text(&entry->gid, gid, sizeof(gid));
		if (!gid_is_condemned_by(-ret))
			return beest_fail(-ret, "an address handle from GID %d (%s) to itself "
					  "failed: %s", entry->index, gid, strerror(-ret));

		trial->skip[position] = true;
		beest_text_item(&trial->failures, "an address handle from GID %d (%s) failed: %s",
				entry->index, gid, strerror(-ret));
		beest_log(trial->log, BEEST_LOG_WARN, "port %s: an address handle from GID %d (%s) "
			  "to itself failed: %s", trial->device->label, entry->index, gid,
			  strerror(-ret));
	}
}

int beest_device_gid(const struct beest_device *device, struct ibv_pd *pd,
		     const struct beest_gid_policy *policy, const struct beest_log *log,
		     struct beest_gid_entry *chosen, char *reason)
{
	struct trial trial = {
		.device = device, .pd = pd, .policy = gid_policy_now(policy), .log = log,
	};
	struct beest_gid_entry *entries;
	int ret;

	ret = beest_device_gids(device, &entries);
	if (ret < 0)
		return ret;

	beest_text_start(&trial.failures, trial.failed, sizeof(trial.failed));
	trial.entries = entries;
	trial.count = (size_t)ret;
	trial.skip = calloc(trial.count + 1, sizeof(*trial.skip));
	if (!trial.skip) {
		ret = beest_fail(ENOMEM, "no memory for %zu GIDs", trial.count);
	} else {
		ret = trial_choose(&trial);
		if (ret < 0)
			beest_fail_prefix(ret, "port %s%s%s", device->label,
					  trial.failures.used ? ": " : "", trial.failed);
	}
	if (ret >= 0) {
		*chosen = entries[ret];
		memcpy(reason, trial.reason, sizeof(trial.reason));
	}

	free(trial.skip);
	free(entries);
	return ret < 0 ? ret : 0;
}

/* ------------------------------------------------- a GID that was chosen --- */

/* Link-local GIDs of several interfaces of one port (VLANs) are often the same. */
bool beest_device_gid_same(const struct beest_gid_entry *a, const struct beest_gid_entry *b)
{
	return memcmp(&a->gid, &b->gid, sizeof(a->gid)) == 0 && a->roce == b->roce &&
	       (!a->netdev[0] || !b->netdev[0] || strcmp(a->netdev, b->netdev) == 0);
}

bool beest_device_gid_holds(const struct beest_device *device,
			    const struct beest_gid_entry *entry)
{
	struct beest_gidtable table = gidtable_of(device);
	struct beest_gid_entry now;

	return beest_gidtable_at(&table, entry->index, &now) &&
	       beest_device_gid_same(&now, entry);
}

static int gid_is_gone(const struct beest_device *device, const struct beest_gid_entry *entry,
		       const struct beest_gid_entry *entries, int count)
{
	char gid[INET6_ADDRSTRLEN], known[REASON_SIZE / 2];
	struct beest_text text;
	int i;

	beest_text_start(&text, known, sizeof(known));
	for (i = 0; i < count; i++)
		beest_text_item(&text, "index %d: %s, %s", entries[i].index,
				beest_ipaddr_text(&entries[i].gid, gid, sizeof(gid)),
				beest_endpoint_roce_text(entries[i].roce));

	return beest_fail(ENODATA, "the GID %s (%s) of this end is no longer in the table of port "
			  "%s: was its address removed?  hartebeest_qp_reset() and "
			  "hartebeest_qp_publish() choose again among %s",
			  beest_ipaddr_text(&entry->gid, gid, sizeof(gid)),
			  beest_endpoint_roce_text(entry->roce), device->label,
			  count ? known : "nothing that can be read");
}

int beest_device_gid_relocate(const struct beest_device *device, bool search,
			      struct beest_gid_entry *entry)
{
	struct beest_gid_entry *entries;
	int i, count, ret;

	if (!search && beest_device_gid_holds(device, entry))
		return 0;

	count = beest_device_gids(device, &entries);
	if (count < 0)
		return count;

	for (i = 0; i < count; i++)
		if (beest_device_gid_same(&entries[i], entry))
			break;
	if (i == count) {
		ret = gid_is_gone(device, entry, entries, count);
	} else {
		ret = entries[i].index != entry->index;
		entry->index = entries[i].index;
	}
	free(entries);
	return ret;
}

void beest_device_ip(const struct beest_gid_entry *entry, const struct beest_gid_policy *policy,
		     struct beest_ipaddr *ip)
{
	if (policy->rule == BEEST_GID_IP)
		*ip = policy->gid;
	else if (entry->roce && !beest_ipaddr_is_link_local(&entry->gid))
		*ip = entry->gid;
	else if (!beest_netdev_ip(entry->netdev, policy->family, ip) && entry->roce)
		*ip = entry->gid;
}

/* -------------------------------------------------------------- P_Key --- */

/* A zero base marks a free entry of the table. */
static bool pkey_suits(uint16_t pkey, uint16_t wanted)
{
	return (pkey & BEEST_PKEY_BASE) &&
	       (!wanted || (pkey & BEEST_PKEY_BASE) == (wanted & BEEST_PKEY_BASE));
}

static int pkey_find(const struct beest_device *device, int count, uint16_t wanted,
		     uint16_t *index, uint16_t *pkey)
{
	struct beest_text seen;
	char buffer[REASON_SIZE];
	bool found = false;
	uint16_t each;
	__be16 raw;
	int i;

	beest_text_start(&seen, buffer, sizeof(buffer));
	for (i = 0; i < count; i++) {
		if (ibv_query_pkey(device->verbs, device->port, i, &raw) != 0)
			continue;
		each = be16toh(raw);
		if (each & BEEST_PKEY_BASE)
			beest_text_item(&seen, "index %d: 0x%04x%s", i, each,
					each & BEEST_PKEY_FULL ? "" : " (limited member)");
		if (!pkey_suits(each, wanted) ||
		    (found && (*pkey & BEEST_PKEY_FULL || !(each & BEEST_PKEY_FULL))))
			continue;
		found = true;
		*index = (uint16_t)i;
		*pkey = each;
	}
	if (found)
		return 0;
	if (!seen.used)
		beest_text_add(&seen, "no P_Key that can be read");
	if (wanted)
		return beest_fail(ENODATA, "port %s has no P_Key 0x%04x: it has %s",
				  device->label, wanted, buffer);
	return beest_fail(ENODATA, "port %s has %s", device->label, buffer);
}

int beest_device_pkey(const struct beest_device *device, uint16_t wanted,
		      uint16_t *index, uint16_t *pkey)
{
	struct ibv_port_attr attr;
	int ret;

	ret = beest_device_port(device, &attr);
	if (ret < 0)
		return ret;
	if (attr.link_layer != IBV_LINK_LAYER_ETHERNET)
		return pkey_find(device, attr.pkey_tbl_len, wanted, index, pkey);

	/* RoCE has no partitions: one entry, 0xffff. */
	*index = 0;
	*pkey = BEEST_PKEY_FULL | BEEST_PKEY_BASE;
	return 0;
}
