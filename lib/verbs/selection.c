/* SPDX-License-Identifier: MIT */
/*
 * selection.c - see selection.h
 *
 * Opening a device walks over devices and ports, and keeps the best port so far.  It notes each
 * that it passes over and why: for the error when no port is left, for the log when one is.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/nearest.h"
#include "lib/base/text.h"
#include "lib/verbs/names.h"
#include "lib/verbs/near.h"
#include "lib/verbs/network.h"
#include "lib/verbs/node.h"
#include "lib/verbs/quota.h"
#include "lib/verbs/selection.h"
#include "lib/verbs/source.h"

#define RXE_VENDOR_ID 0xffffff
#define DEVICES_MAX 64		/* a choice among devices ignores the rest */

/* ----------------------------------------------------------- the walk --- */

struct walk {
	struct beest_names names;
	bool filters;			/* names has patterns, or what is excluded */
	struct beest_names_entry wanted;	/* text "": any device */
	int local_rank;			/* -1: unknown */
	const struct beest_gid_policy *policy;
	const struct beest_log *log;
	struct beest_device *best;	/* the best port so far; verbs NULL: none */
	struct beest_gid_entry gid;	/* the best GID of that port; zero: it has none */
	char offer[BEEST_REASON_SIZE / 2];	/* what that port has, in words */
	bool alone;			/* only one device is eligible */
	int ret;			/* the weightiest refusal; 0: none */
	char choice[96];		/* choice of struct beest_device */
	int level;			/* log level of the choice */
	struct beest_text passed;		/* passed_over of struct beest_device */
};

/* Takes the entry of "mlx5_0,mlx5_1" that is for this local rank. */
static void walk_take_turn(struct walk *walk)
{
	const int count = walk->names.count;
	const int turn = walk->local_rank < 0 ? 0 : walk->local_rank % count;

	walk->wanted = walk->names.entries[turn];
	if (count == 1)
		return;
	walk->level = walk->local_rank < 0 ? BEEST_LOG_WARN : BEEST_LOG_INFO;
	if (walk->local_rank < 0)
		snprintf(walk->choice, sizeof(walk->choice), "the first of %d in device.name, "
			 "since no launcher gives a local rank", count);
	else
		snprintf(walk->choice, sizeof(walk->choice), "number %d of %d in device.name by "
			 "local rank %d", turn + 1, count, walk->local_rank);
}

/* What the names mean on a machine with these devices. */
static void walk_take_names(struct walk *walk, struct ibv_device **list)
{
	const char *devices[DEVICES_MAX];
	int count = 0;

	for (; *list && count < DEVICES_MAX; list++)
		devices[count++] = (*list)->name;
	beest_names_widen(&walk->names, devices, count);
	if (beest_names_is_list(&walk->names))
		walk_take_turn(walk);
	else
		walk->filters = true;
}

int beest_selection_check(const char *name)
{
	struct beest_names names;

	if (!name)
		return 0;
	return beest_near_is(name) ? beest_near_check(name) : beest_names_parse(&names, name);
}

/* How much a refusal reveals about the cause; of several, the weightiest is returned. */
static int refusal_weight(int ret)
{
	static const int rising[] = { 0, -EPROTONOSUPPORT, -EIO, -ENETDOWN, -ENXIO, -ENODATA };
	int i;

	for (i = BEEST_COUNT(rising) - 1; i > 0 && rising[i] != ret; i--)
		;
	return i || !ret ? i : 2;	/* other trouble with opening weighs as -EIO */
}

/* Notes the refusal @ret with its sentence.  True if @ret is 0, no refusal. */
static bool walk_accepts(struct walk *walk, int ret)
{
	if (ret == 0)
		return true;

	beest_text_item(&walk->passed, "%s", beest_error_text());
	if (refusal_weight(ret) > refusal_weight(walk->ret))
		walk->ret = ret;
	return false;
}

/* Does a port have to have a GID that the policy names? */
static bool policy_is_strict(const struct beest_gid_policy *policy)
{
	return policy->rule != BEEST_GID_AUTO && policy->rule != BEEST_GID_INDEX;
}

/* Do the GIDs of ports count?  Not those of one that is alone, which may get them later. */
static bool walk_reads_gids(const struct walk *walk, const struct beest_device *device)
{
	return walk->policy && !walk->wanted.port &&
	       (policy_is_strict(walk->policy) || !walk->alone || device->attr.phys_port_cnt > 1);
}

/*
 * Finds the best GID of a port, zero if it has none.  Without one the port is the last resort,
 * since addresses are added while a job runs.
 */
static int port_find_gid(const struct walk *walk, const struct beest_device *device,
			 struct beest_gid_entry *gid)
{
	char reason[BEEST_REASON_SIZE];
	int ret;

	ret = beest_source_choose(device, NULL, walk->policy, walk->log, gid, reason,
				  sizeof(reason));
	return ret == -ENODATA && !policy_is_strict(walk->policy) ? 0 : ret;
}

static int port_check(const struct walk *walk, struct beest_device *device,
		      struct beest_gid_entry *gid)
{
	const struct beest_network *network;
	struct ibv_port_attr attr;
	int ret;

	ret = beest_device_port(device, &attr);
	if (ret < 0)
		return ret;
	network = beest_network_of(device->verbs->device->transport_type, attr.link_layer);
	if (network->refusal)
		return beest_fail(EPROTONOSUPPORT, "port %s is %s", device->label,
				  network->refusal);
	if (attr.state != IBV_PORT_ACTIVE)
		return beest_fail(ENETDOWN, "port %s is %s%s", device->label,
				  beest_device_state_text(attr.state),
				  beest_device_virtual_text(device->verbs, attr.link_layer ==
							    IBV_LINK_LAYER_ETHERNET));

	device->ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET;
	memset(gid, 0, sizeof(*gid));
	return walk_reads_gids(walk, device) ? port_find_gid(walk, device, gid) : 0;
}

static void walk_keep(struct walk *walk, const struct beest_device *device,
		      const struct beest_gid_entry *gid, const char *offer)
{
	if (walk->best->verbs != device->verbs)
		beest_device_close(walk->best);
	*walk->best = *device;
	walk->gid = *gid;
	strcpy(walk->offer, offer);
}

/* Notes a port whose GID @lacks what that of another one has.  Without a GID, @offer has all. */
static void walk_pass(struct walk *walk, const struct beest_gid_entry *gid, const char *offer,
		      const char *lacks)
{
	if (beest_ipaddr_is_zero(&gid->gid))
		beest_text_item(&walk->passed, "%s", offer);
	else
		beest_text_item(&walk->passed, "%s (%s)", offer, lacks);
}

/*
 * Keeps @device if its GID has something that the best one lacks.  For a port without a GID, the
 * last sentence has the reason.  True: no port can be better than the best.
 */
static bool walk_weigh(struct walk *walk, const struct beest_device *device,
		       const struct beest_gid_entry *gid)
{
	struct beest_text offer = BEEST_TEXT(sizeof(walk->offer));
	char what[BEEST_GID_ENTRY_SIZE];
	bool is_first = !walk->best->verbs;
	const char *lacks;

	if (beest_ipaddr_is_zero(&gid->gid))
		beest_text_add(&offer, "%s", beest_error_text());
	else
		beest_text_add(&offer, "port %s offers %s", device->label,
			       beest_gid_entry_text(gid, what));

	lacks = is_first ? NULL : beest_gid_lacks(gid, &walk->gid, walk->policy);
	if (lacks) {
		walk_pass(walk, gid, offer.buffer, lacks);
		return false;
	}
	lacks = is_first ? NULL : beest_gid_lacks(&walk->gid, gid, walk->policy);
	if (lacks)
		walk_pass(walk, &walk->gid, walk->offer, lacks);
	if (lacks || is_first)
		walk_keep(walk, device, gid, offer.buffer);
	return !beest_gid_lacks(&walk->gid, NULL, walk->policy);
}

/* Tries the ports of @device, or the wanted one.  True: no port can be better than the best. */
static bool port_find(struct walk *walk, struct beest_device *device)
{
	int port, count = device->attr.phys_port_cnt;
	struct beest_gid_entry gid;

	if (walk->wanted.port > count)
		walk_accepts(walk, beest_fail(ENXIO, "device %s has no port %d: its ports are 1 to "
					      "%d", device->name, walk->wanted.port, count));

	for (port = 1; port <= count; port++) {
		if (walk->wanted.port && walk->wanted.port != port)
			continue;
		device->port = (uint8_t)port;
		snprintf(device->label, sizeof(device->label), "%s:%u", device->name, device->port);
		if (walk->filters && !beest_names_has(&walk->names, device->name, port)) {
			walk_accepts(walk, beest_fail(ENODEV, "device.name rules out port %s",
						      device->label));
			continue;
		}
		if (!walk_accepts(walk, port_check(walk, device, &gid)))
			continue;
		if (walk_reads_gids(walk, device)) {
			if (walk_weigh(walk, device, &gid))
				return true;
			continue;
		}
		walk_keep(walk, device, &gid, "");
		return true;
	}
	return false;
}

static int device_open_verbs(struct ibv_device *from, struct beest_device *device)
{
	int ret, node;

	errno = 0;
	device->verbs = ibv_open_device(from);
	if (device->verbs)
		return 0;

	ret = beest_error_errno();
	node = beest_node_check(device->name, from->dev_name);
	if (node < 0 && (ret == -EACCES || ret == -EPERM || ret == -ENOENT))
		return node;
	return beest_quota_fail(BEEST_QUOTA_NONE, NULL, ret, "device %s cannot be opened",
				device->name);
}

static int device_read_limits(struct beest_device *device)
{
	int ret = beest_error_verbs(ibv_query_device(device->verbs, &device->attr));

	/* The errno of old calls in a new kernel, and of new ones in an old kernel. */
	if (ret == -ENOTTY || ret == -ENOSYS)
		return beest_fail(-ret, "the limits of device %s cannot be read: %s; the "
				  "libibverbs of this process and the driver in the kernel are of "
				  "different releases, such as MLNX_OFED and rdma-core: install "
				  "both from one source, and load the driver again", device->name,
				  strerror(-ret));
	if (ret < 0)
		return beest_fail_errno(ret, "the limits of device %s cannot be read",
					device->name);

	/*
	 * Before kernel 5.11 the vendor ID is 0, but rxe_cfg(8) names the devices rxe0,
	 * rxe1...
	 */
	device->soft_roce = device->attr.vendor_id == RXE_VENDOR_ID ||
			    (device->attr.vendor_id == 0 && strncmp(device->name, "rxe", 3) == 0);
	return 0;
}

/* Is the device on a network for this library, as far as is known before it is opened? */
static int device_check_network(const struct ibv_device *from)
{
	const struct beest_network *network = beest_network_of(from->transport_type,
							       IBV_LINK_LAYER_ETHERNET);

	return network->refusal ? beest_fail(EPROTONOSUPPORT, "device %s is %s", from->name,
					     network->refusal) : 0;
}

/*
 * Tries the ports of @from.  @verbs: opened by the program; NULL: opened here.  True: no port of
 * another device can be better than the best.
 */
static bool device_try(struct walk *walk, struct ibv_device *from, struct ibv_context *verbs)
{
	struct beest_device device = { .verbs = verbs, .borrowed = verbs != NULL };
	bool is_enough;

	beest_text_copy(device.name, sizeof(device.name), from->name);
	is_enough = walk_accepts(walk, device_check_network(from)) &&
		    walk_accepts(walk, verbs ? 0 : device_open_verbs(from, &device)) &&
		    walk_accepts(walk, device_read_limits(&device)) && port_find(walk, &device);
	if (walk->best->verbs != device.verbs)
		beest_device_close(&device);
	return is_enough;
}

static int walk_end(const struct walk *walk)
{
	struct beest_device *device = walk->best;

	if (!device->verbs)
		return beest_fail(-walk->ret, "%s%s", walk->wanted.text[0] ? "" :
				  "no port of any RDMA device can be used: ", walk->passed.buffer);

	strcpy(device->choice, walk->choice);
	strcpy(device->passed_over, walk->passed.buffer);
	beest_log(walk->log, walk->level, "using port %s%s%s%s%s%s", device->label,
		  device->soft_roce ? " (Soft-RoCE)" : "", walk->choice[0] ? ", " : "",
		  walk->choice, walk->passed.used ? "; passed over: " : "", walk->passed.buffer);
	return 0;
}

/* ------------------------------------------------------------ by distance --- */

struct distant {
	struct ibv_device *from;
	int distance;
};

static int distant_compare(const void *a, const void *b)
{
	const struct distant *one = a, *other = b;

	return one->distance != other->distance ? one->distance - other->distance :
	       strcmp(one->from->name, other->from->name);
}

/*
 * Tries @count equally near devices.  Each local rank starts with a different one, or else
 * all would take the first.  False: one that is farther away may be better, since none of these
 * has a GID.
 */
static bool walk_try_equals(struct walk *walk, const struct distant *equals, int count,
			    const char *wish)
{
	int i, first = walk->local_rank < 0 ? 0 : walk->local_rank % count;
	const struct ibv_context *previous = walk->best->verbs;
	struct beest_text choice;
	bool is_enough = false;

	for (i = 0; i < count && !is_enough; i++)
		is_enough = device_try(walk, equals[(first + i) % count].from, NULL);
	if (walk->best->verbs == previous)
		return false;

	beest_text_start(&choice, walk->choice, sizeof(walk->choice));
	beest_text_add(&choice, "%s, at distance %d", wish, equals->distance);
	if (count > 1)
		beest_text_add(&choice, " like %d other%s", count - 1, count == 2 ? "" : "s");
	return is_enough || !beest_ipaddr_is_zero(&walk->gid.gid);
}

static int walk_by_distance(struct walk *walk, struct ibv_device **list, const char *wish)
{
	struct distant all[DEVICES_MAX];
	struct beest_near near;
	int i, ret, count = 0, equals;

	ret = beest_near_start(&near, wish);
	if (ret < 0)
		return ret;
	for (; *list && count < DEVICES_MAX; list++) {
		ret = beest_near_distance(&near, (*list)->ibdev_path);
		if (ret < 0)
			walk_accepts(walk, beest_fail_prefix(ret, "device %s", (*list)->name));
		else
			all[count++] = (struct distant){ *list, ret };
	}

	walk->alone = count == 1;
	qsort(all, (size_t)count, sizeof(*all), distant_compare);
	for (i = 0; i < count; i += equals) {
		for (equals = 1; i + equals < count; equals++)
			if (all[i + equals].distance != all[i].distance)
				break;
		if (walk_try_equals(walk, &all[i], equals, wish))
			break;
	}
	return walk_end(walk);
}

/* ------------------------------------------------------------ opening --- */

static int device_unknown(const struct walk *walk, const char *name, struct ibv_device **list)
{
	struct beest_text known = BEEST_TEXT(BEEST_REASON_SIZE);
	struct beest_nearest nearest = BEEST_NEAREST(walk->wanted.text);

	for (; *list; list++) {
		beest_nearest_offer(&nearest, (*list)->name, (*list)->name);
		beest_text_item(&known, "%s", (*list)->name);
	}
	if (walk->filters)
		return beest_fail(ENODEV, "no RDMA device is left by device.name %s: this machine "
				  "has %s", BEEST_QUOTE(name), known.buffer);

	return beest_fail(ENODEV, "there is no RDMA device %s%s: this machine has %s",
			  BEEST_QUOTE(walk->wanted.text), BEEST_NEAREST_TEXT(&nearest),
			  known.buffer);
}

static bool walk_wants(const struct walk *walk, const struct ibv_device *from)
{
	if (walk->filters)
		return beest_names_has(&walk->names, from->name, 0);

	return !walk->wanted.text[0] || strcmp(walk->wanted.text, from->name) == 0;
}

/* Among the devices of a pattern, each local rank starts with a different one. */
static int walk_devices(struct walk *walk, const char *name, struct ibv_device **list)
{
	struct ibv_device **from, *all[DEVICES_MAX];
	int i, first, count = 0;

	if (name)
		walk_take_names(walk, list);
	for (from = list; *from; from++)
		if (walk_wants(walk, *from) && count < DEVICES_MAX)
			all[count++] = *from;
		else if (walk->filters)
			beest_text_item(&walk->passed, "device.name rules out device %s",
					(*from)->name);
	if (!count)
		return device_unknown(walk, name, list);

	walk->alone = count == 1;
	first = walk->filters && !walk->names.excludes && walk->local_rank >= 0 ?
		walk->local_rank % count : 0;
	if (walk->filters)
		snprintf(walk->choice, sizeof(walk->choice), "one of %d device%s that device.name "
			 "leaves", count, count == 1 ? "" : "s");
	for (i = 0; i < count; i++)
		if (device_try(walk, all[(first + i) % count], NULL))
			break;
	return walk_end(walk);
}

int beest_selection_open(struct beest_device *device, const char *name, int local_rank,
			 const struct beest_gid_policy *policy, const struct beest_log *log)
{
	struct walk walk = {
		.local_rank = local_rank, .policy = policy, .log = log, .level = BEEST_LOG_INFO,
		.best = device, .passed = BEEST_TEXT(BEEST_REASON_SIZE),
	};
	bool by_distance = name && beest_near_is(name);
	struct ibv_device **list;
	int ret, count = 0;

	memset(device, 0, sizeof(*device));
	ret = name && !by_distance ? beest_names_parse(&walk.names, name) : 0;
	if (ret < 0)
		return ret;

	errno = 0;
	list = ibv_get_device_list(&count);
	/*
	 * Without the uverbs module, older versions of libibverbs set errno to ENOSYS (by
	 * mistake to -38), and newer ones report an empty list.
	 */
	if (!list && abs(errno) != ENOSYS)
		return beest_fail_errno(errno ? -abs(errno) : -EIO,
					"the RDMA devices cannot be listed");
	if (!list || count == 0)
		ret = beest_node_fail_without();
	else
		ret = by_distance ? walk_by_distance(&walk, list, name) :
				    walk_devices(&walk, name, list);
	if (list)
		ibv_free_device_list(list);
	return ret;
}

int beest_selection_borrow(struct beest_device *device, struct ibv_context *verbs, int port,
			   const struct beest_gid_policy *policy, const struct beest_log *log)
{
	struct walk walk = {
		.wanted = { .port = port }, .policy = policy, .log = log, .level = BEEST_LOG_INFO,
		.best = device, .alone = true, .passed = BEEST_TEXT(BEEST_REASON_SIZE),
	};

	memset(device, 0, sizeof(*device));
	beest_text_copy(walk.wanted.text, sizeof(walk.wanted.text), verbs->device->name);
	device_try(&walk, verbs->device, verbs);
	return walk_end(&walk);
}
