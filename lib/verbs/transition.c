/* SPDX-License-Identifier: MIT */
/*
 * transition.c - agreement, attributes, transitions
 *
 * The rules are those of the kernel's qp_state_table (drivers/infiniband/core/verbs.c),
 * ibv_modify_qp(3) and of the InfiniBand specification, volume 1, chapters 9 and 11.
 */
#include "config.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "lib/verbs/transition.h"
#include "lib/base/error.h"
#include "lib/base/ipaddr.h"
#include "lib/base/text.h"
#include "lib/verbs/quota.h"

/* ------------------------------------------------------------- words --- */

static const struct {
	int type;
	const char *text;
} transports[BEEST_TRANSPORTS] = {
	[BEEST_RC] = { IBV_QPT_RC, "RC" },
	[BEEST_UC] = { IBV_QPT_UC, "UC" },
	[BEEST_UD] = { IBV_QPT_UD, "UD" },
};

int beest_transition_transport(int qp_type)
{
	int transport;

	for (transport = 0; transport < BEEST_TRANSPORTS; transport++)
		if (transports[transport].type == qp_type)
			return transport;

	return beest_fail(EOPNOTSUPP, "queue pair type %d is not supported: RC (%d), UC (%d) "
			  "and UD (%d) are", qp_type, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD);
}

const char *beest_transition_type_text(int qp_type)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(transports); i++)
		if (transports[i].type == qp_type)
			return transports[i].text;

	return "unknown type";
}

static const char *link_layer_text(uint8_t link_layer)
{
	return link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
}

static const char *family_text(const struct beest_ipaddr *gid)
{
	return beest_ipaddr_is_ipv4(gid) ? "IPv4" : "IPv6";
}

int beest_transition_mtu_bytes(int mtu)
{
	return 128 << mtu;
}

#define FLOW_LABEL_MASK 0xfffff

/* From this LID on, they are of multicast groups. */
#define LID_MULTICAST 0xc000

/* ---------------------------------------------------------- agreement --- */

/* What the two ends must have alike, and what to do if they do not. */
enum disagreement { TRANSPORT, LINK_LAYER, ROCE_VERSION, FAMILY, PARTITION, MEMBERSHIP };

static const struct {
	int err;
	const char *what, *cure;
} disagreements[] = {
	[TRANSPORT] = { EPROTOTYPE, "the transport", "give both queue pairs the same type" },
	[LINK_LAYER] = { EPROTOTYPE, "the link layer",
			 "choose ports of the same kind by HARTEBEEST_DEVICE (device.name)" },
	[ROCE_VERSION] = { EPROTO, "the RoCE version",
			   "set device.roce to the same version at both ends" },
	[FAMILY] = { EPROTO, "the address family of the GID", "set device.family to the same at "
		     "both ends, whose interfaces must have such an address" },
	[PARTITION] = { EPROTO, "the partition",
			"set qp_attr.pkey to a P_Key that both ports have" },
	[MEMBERSHIP] = { EPROTO, "the partition membership (two limited members cannot talk)",
			 "make one of them a full member in the subnet manager, or set "
			 "qp_attr.pkey to another partition" },
};

/* Reports a disagreement with the values of both sides. */
static int fail_differing(enum disagreement what, const struct beest_local *local,
			  const char *mine, const struct beest_endpoint *remote,
			  const char *theirs)
{
	return beest_fail(disagreements[what].err, "%s differs: %s here (%s) but %s at %s: %s",
			  disagreements[what].what, mine, local->label, theirs,
			  BEEST_PEER_TEXT(remote), disagreements[what].cure);
}

static int agree_on_transport(const struct beest_local *local,
			      const struct beest_endpoint *remote)
{
	const struct beest_endpoint *own = &local->endpoint;

	if (own->qp_type != remote->qp_type)
		return fail_differing(TRANSPORT, local,
				      beest_transition_type_text(own->qp_type), remote,
				      beest_transition_type_text(remote->qp_type));
	if (own->link_layer != remote->link_layer)
		return fail_differing(LINK_LAYER, local,
				      link_layer_text(own->link_layer), remote,
				      link_layer_text(remote->link_layer));
	return 0;
}

/*
 * No kernel refuses RoCE v1 against v2: both ends reach RTS, and every packet is lost.
 * Mixed address families are refused, but only with EINVAL.
 */
static int agree_on_roce(const struct beest_local *local, const struct beest_endpoint *remote)
{
	const struct beest_endpoint *own = &local->endpoint;

	if (own->roce != remote->roce)
		return fail_differing(ROCE_VERSION, local,
				      beest_endpoint_roce_text(own->roce), remote,
				      beest_endpoint_roce_text(remote->roce));
	if (beest_ipaddr_is_ipv4(&own->gid) != beest_ipaddr_is_ipv4(&remote->gid))
		return fail_differing(FAMILY, local, family_text(&own->gid), remote,
				      family_text(&remote->gid));
	return 0;
}

static int agree_on_lid(const struct beest_local *local, const struct beest_endpoint *remote)
{
	int64_t path_bits = local->options->src_path_bits;

	/* On Omni-Path, a LID of more than 16 bits is 0 here, and part of the GID. */
	if (remote->lid == 0 && !remote->grh_required)
		return beest_fail(EPROTO, "the port of %s has no LID: is a subnet manager running?",
				  BEEST_PEER_TEXT(remote));
	if (path_bits >> local->lmc)
		return beest_fail(EINVAL, "option qp_attr.ah_attr.src_path_bits is %" PRId64
				  ", but port %s has LMC %d: at most %d", path_bits,
				  local->label, local->lmc, (1 << local->lmc) - 1);
	return 0;
}

static bool is_same_partition(uint16_t a, uint16_t b)
{
	return (a & BEEST_PKEY_BASE) == (b & BEEST_PKEY_BASE);
}

static int agree_on_pkey(const struct beest_local *local, const struct beest_endpoint *remote)
{
	uint16_t own = local->endpoint.pkey, its = remote->pkey;
	bool same = is_same_partition(own, its);
	char mine[24], theirs[24];

	if (same && ((own | its) & BEEST_PKEY_FULL))
		return 0;

	snprintf(mine, sizeof(mine), "P_Key 0x%04x", own);
	snprintf(theirs, sizeof(theirs), "0x%04x", its);
	return fail_differing(same ? MEMBERSHIP : PARTITION, local, mine, remote, theirs);
}

/* A configured rq_psn is a claim about the peer: check it, do not believe it. */
static int agree_on_psn(const struct beest_local *local, const struct beest_endpoint *remote)
{
	int64_t wanted = local->options->rq_psn;

	if (wanted == BEEST_AUTO || wanted == (int64_t)remote->psn)
		return 0;

	return beest_fail(EPROTO, "option qp_attr.rq_psn is %" PRId64 ", but %s starts at "
			  "sequence number %" PRIu32 ": set its qp_attr.sq_psn too, or neither",
			  wanted, BEEST_PEER_TEXT(remote), remote->psn);
}

/* ------------------------------------------------------ address vector --- */

/* The first half of a GID is the prefix of its subnet. */
static bool is_same_subnet(const struct beest_local *local, const struct beest_endpoint *remote)
{
	return beest_ipaddr_has_prefix(&local->endpoint.gid, &remote->gid, 64);
}

/*
 * A GID with a site-local prefix may carry the LID of the router that leads to it from other
 * subnets (FLID, bytes 4 and 5).  0: it does not; other prefixes have other things there.
 */
static uint16_t router_lid(const struct beest_endpoint *remote)
{
	static const uint8_t site_local[] = { 0xfe, 0xc0, 0, 0 };
	const uint8_t *raw = remote->gid.raw;
	uint16_t flid = (uint16_t)(raw[4] << 8 | raw[5]);

	return memcmp(raw, site_local, sizeof(site_local)) == 0 && flid < LID_MULTICAST ? flid : 0;
}

/* Within a subnet, packets go to the LID of the peer; to another one, to that of a router. */
static int agree_on_subnet(const struct beest_local *local, const struct beest_endpoint *remote)
{
	if (is_same_subnet(local, remote) || local->asks_rdmacm || router_lid(remote))
		return 0;

	return beest_fail(EPROTO, "%s (%s) is in another InfiniBand subnet than this end (%s, %s), "
			  "and its GID has no LID of a router: set HARTEBEEST_RESOLVER=rdmacm "
			  "(device.resolver) at both ends, which asks the subnet manager for the "
			  "way", BEEST_PEER_TEXT(remote), BEEST_GID_TEXT(&remote->gid),
			  local->label, BEEST_GID_TEXT(&local->endpoint.gid));
}

/*
 * The label that rdma_cm and the kernel's drivers derive from both numbers (rdma_calc_flow_label()
 * in include/rdma/ib_verbs.h): the same at both ends.
 */
static uint32_t flow_label_of(uint32_t a, uint32_t b)
{
	uint64_t label = (uint64_t)a * b;

	label ^= label >> 20;
	label ^= label >> 40;

	return (uint32_t)label & FLOW_LABEL_MASK;
}

/* The UDP source port that follows from a label: rdma_flow_label_to_udp_sport() there. */
static unsigned int udp_port_of(uint32_t label)
{
	return 0xc000 | ((label & 0x3fff) ^ (label >> 14));
}

/* RoCE always has a GRH; @global adds one on InfiniBand. */
static void fill_address(const struct beest_local *local, const struct hartebeest_path *way,
			 bool global, uint8_t sgid_index, struct ibv_ah_attr *ah)
{
	bool ethernet = way->link_layer == IBV_LINK_LAYER_ETHERNET;

	memset(ah, 0, sizeof(*ah));
	ah->port_num = local->port;		/* the local port, which the kernel compares */
	ah->sl = way->sl;
	ah->static_rate = way->rate;
	if (!ethernet) {
		ah->dlid = way->dlid;
		ah->src_path_bits = way->src_path_bits;
	}
	if (!ethernet && !global)
		return;

	ah->is_global = 1;
	memcpy(ah->grh.dgid.raw, way->dgid.raw, sizeof(ah->grh.dgid.raw));
	ah->grh.sgid_index = sgid_index;
	ah->grh.flow_label = way->flow_label;
	ah->grh.hop_limit = way->hop_limit ? way->hop_limit : (uint8_t)local->options->hop_limit;
	ah->grh.traffic_class = way->traffic_class;
}

/* Fills the address from the options and the peer's endpoint. */
static void fill_address_of(const struct beest_local *local, const struct beest_endpoint *remote,
			    struct ibv_ah_attr *ah)
{
	const struct beest_qp_options *options = local->options;
	struct hartebeest_path way = {
		.link_layer = local->endpoint.link_layer,
		.dlid = is_same_subnet(local, remote) ? remote->lid : router_lid(remote),
		.sl = (uint8_t)options->sl,
		.src_path_bits = (uint8_t)options->src_path_bits,
		.rate = (uint8_t)options->static_rate,
		.flow_label = options->flow_label != BEEST_AUTO ? (uint32_t)options->flow_label :
			      flow_label_of(local->endpoint.qp_num, remote->qp_num),
		.hop_limit = (uint8_t)options->hop_limit,
		.traffic_class = (uint8_t)options->traffic_class,
	};

	memcpy(way.dgid.raw, remote->gid.raw, sizeof(way.dgid.raw));
	fill_address(local, &way, local->endpoint.grh_required || remote->grh_required ||
		     options->is_global || !is_same_subnet(local, remote), local->sgid_index, ah);
}

struct beest_ece beest_transition_ece(const struct beest_ece *a, const struct beest_ece *b)
{
	const uint32_t options = a->vendor == b->vendor ? a->options & b->options : 0;

	return (struct beest_ece){ .vendor = a->vendor, .options = options };
}

int beest_transition_agree(const struct beest_local *local, const struct beest_endpoint *remote,
			   struct beest_connection *path)
{
	const struct beest_endpoint *own = &local->endpoint;
	int ret;

	ret = agree_on_transport(local, remote);
	if (ret == 0)
		ret = own->link_layer == IBV_LINK_LAYER_ETHERNET ? agree_on_roce(local, remote) :
								   agree_on_lid(local, remote);
	if (ret == 0 && own->link_layer != IBV_LINK_LAYER_ETHERNET)
		ret = agree_on_subnet(local, remote);
	if (ret == 0)
		ret = agree_on_pkey(local, remote);
	if (ret == 0)
		ret = agree_on_psn(local, remote);
	if (ret < 0)
		return ret;

	memset(&path->attr, 0, sizeof(path->attr));
	path->attr.path_mtu = BEEST_MIN(own->mtu, remote->mtu);
	path->attr.max_rd_atomic = BEEST_MIN(BEEST_MIN(local->options->max_rd_atomic,
						       local->max_init_rd_atomic),
					     remote->max_dest_rd_atomic);
	path->attr.dest_qp_num = remote->qp_num;
	path->attr.rq_psn = remote->psn;
	path->ece = beest_transition_ece(&own->ece, &remote->ece);
	fill_address_of(local, remote, &path->attr.ah_attr);
	return 0;
}

/* ----------------------------------------------------- a path by rdma_cm --- */

static int agree_on_path(const struct beest_local *local, const struct hartebeest_path *route)
{
	const char *to = BEEST_GID_TEXT((const struct beest_ipaddr *)route->dgid.raw);
	char label[80];

	snprintf(label, sizeof(label), "%s:%d", route->device, route->port);
	if (strcmp(label, local->label) != 0)
		return beest_fail(EXDEV, "the path to %s leaves by port %s, but this end is port "
				  "%s: set device.addr to an address of the port", to, label,
				  local->label);
	if (route->link_layer != IBV_LINK_LAYER_ETHERNET &&
	    !is_same_partition(route->pkey, local->endpoint.pkey))
		return beest_fail(EPROTO, "the path to %s is in the partition of P_Key 0x%04x, but "
				  "this end (%s) in that of 0x%04x: set qp_attr.pkey, or choose "
				  "the interface of its partition", to, route->pkey, local->label,
				  local->endpoint.pkey);
	return 0;
}

int beest_transition_apply_path(const struct beest_local *local,
				const struct hartebeest_path *route, uint8_t sgid_index,
				struct beest_connection *path)
{
	struct ibv_ah_attr *ah = &path->attr.ah_attr;
	uint32_t label = ah->grh.flow_label;
	int ret;

	ret = agree_on_path(local, route);
	if (ret < 0)
		return ret;

	fill_address(local, route, ah->is_global || route->hop_limit > 0, sgid_index, ah);
	if (local->options->flow_label == BEEST_AUTO && ah->is_global && !route->flow_label)
		ah->grh.flow_label = label;
	if (route->mtu >= IBV_MTU_256 && route->mtu < path->attr.path_mtu)
		path->attr.path_mtu = (enum ibv_mtu)route->mtu;
	return 0;
}

const char *beest_transition_agreed_text(const struct beest_local *local,
					 const struct beest_endpoint *remote,
					 const struct beest_connection *path, char *text,
					 size_t size)
{
	const struct ibv_ah_attr *ah = &path->attr.ah_attr;
	struct beest_text agreed;

	beest_text_start(&agreed, text, size);
	beest_text_add(&agreed, "path MTU %d (%d here, %d at the peer)",
		       beest_transition_mtu_bytes(path->attr.path_mtu),
		       beest_transition_mtu_bytes(local->endpoint.mtu),
		       beest_transition_mtu_bytes(remote->mtu));
	if (local->transport == BEEST_RC)
		beest_text_add(&agreed, ", reads out %d (of %d wanted, %d of the device, %d at "
			       "the peer), in %d", path->attr.max_rd_atomic,
			       (int)local->options->max_rd_atomic, local->max_init_rd_atomic,
			       remote->max_dest_rd_atomic, local->endpoint.max_dest_rd_atomic);
	if (ah->is_global && ah->grh.flow_label)
		beest_text_add(&agreed, ", flow label 0x%x", ah->grh.flow_label);
	if (ah->is_global && ah->grh.flow_label && remote->roce == BEEST_ROCE_V2)
		beest_text_add(&agreed, " (UDP source port %u)", udp_port_of(ah->grh.flow_label));
	if (local->endpoint.ece.vendor || remote->ece.vendor)
		beest_text_add(&agreed, ", ECE options 0x%x (0x%x of vendor 0x%x here, 0x%x of "
			       "0x%x at the peer)", path->ece.options, local->endpoint.ece.options,
			       local->endpoint.ece.vendor, remote->ece.options,
			       remote->ece.vendor);
	return text;
}

/* --------------------------------------------------------- attributes --- */

/* A mask with a bit missing, or with one too many, fails with EINVAL. */
enum {
	TO_INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT,
	TO_RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	TO_RTS = IBV_QP_STATE | IBV_QP_SQ_PSN,
};

static const struct {
	const char *text;
	enum ibv_qp_state state;
	int mask[BEEST_TRANSPORTS];
} steps[BEEST_TRANSITIONS] = {
	[BEEST_TO_INIT] = { "RESET -> INIT", IBV_QPS_INIT, {
		[BEEST_RC] = TO_INIT | IBV_QP_ACCESS_FLAGS,
		[BEEST_UC] = TO_INIT | IBV_QP_ACCESS_FLAGS,
		[BEEST_UD] = TO_INIT | IBV_QP_QKEY,
	} },
	[BEEST_TO_RTR] = { "INIT -> RTR", IBV_QPS_RTR, {
		[BEEST_RC] = TO_RTR | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		[BEEST_UC] = TO_RTR,
		[BEEST_UD] = IBV_QP_STATE,	/* it has no peer */
	} },
	[BEEST_TO_RTS] = { "RTR -> RTS", IBV_QPS_RTS, {
		[BEEST_RC] = TO_RTS | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_MAX_QP_RD_ATOMIC,
		[BEEST_UC] = TO_RTS,		/* no acknowledgements, and so no retries */
		[BEEST_UD] = TO_RTS,
	} },
};

int beest_transition_attr(enum beest_transition step, const struct beest_local *local,
			  const struct beest_connection *path, struct ibv_qp_attr *attr)
{
	const struct beest_qp_options *options = local->options;

	if (path)
		*attr = path->attr;
	else
		memset(attr, 0, sizeof(*attr));
	attr->qp_state = steps[step].state;
	attr->pkey_index = local->pkey_index;
	attr->port_num = local->port;
	attr->qp_access_flags = (unsigned int)local->access_flags;
	attr->qkey = local->endpoint.qkey;
	attr->max_dest_rd_atomic = local->endpoint.max_dest_rd_atomic;
	attr->min_rnr_timer = (uint8_t)options->min_rnr_timer;
	attr->sq_psn = local->endpoint.psn;
	attr->timeout = (uint8_t)options->timeout;
	attr->retry_cnt = (uint8_t)options->retry_cnt;
	attr->rnr_retry = (uint8_t)options->rnr_retry;
	return steps[step].mask[local->transport];
}

/* ------------------------------------------------------------- doing --- */

/* For the causes: an address handle is made instead of RTR. */
#define HANDLE BEEST_TRANSITIONS
#define RTR_OR_HANDLE (1 << BEEST_TO_RTR | 1 << HANDLE)

/*
 * The causes that users found behind these errors, by transition.  @more follows the peer's
 * address; NULL: that is not the matter.
 */
static const struct cause {
	int steps;
	int err;
	const char *text, *more;
} causes[] = {
	{ 1 << BEEST_TO_INIT, EINVAL, "the access flags or the P_Key index do not suit the "
	  "device", NULL },
	{ RTR_OR_HANDLE, ETIMEDOUT, "the peer's address", " does not answer to ARP or neighbour "
	  "discovery: is its interface up, and in the same network?" },
	{ RTR_OR_HANDLE, ENETUNREACH, "there is no route to the peer's address", "" },
	{ RTR_OR_HANDLE, EHOSTUNREACH, "there is no route to the peer's address", "" },
	{ RTR_OR_HANDLE, ENODATA, "the GID at this index is gone: was the address removed?", NULL },
	{ RTR_OR_HANDLE, ENODEV, "the GID belongs to no interface of this network name space",
	  NULL },
	{ RTR_OR_HANDLE, ENXIO, "the GID at this index has no network interface", NULL },
	{ 1 << HANDLE, EINVAL, "the device rejects one of these values, or the GID table "
	  "changed", NULL },
	{ 1 << BEEST_TO_RTR, EINVAL, "the device rejects one of these values (it may have no "
	  "resources left for incoming reads: qp_attr.max_dest_rd_atomic), or the GID table "
	  "changed", NULL },
	{ 1 << BEEST_TO_RTR, ENOMEM, "the device has no resources left, perhaps for incoming "
	  "reads: lower qp_attr.max_dest_rd_atomic", NULL },
	{ 1 << BEEST_TO_RTS, EINVAL, "max_rd_atomic, timeout or retry counts exceed the device",
	  NULL },
};

#define CAUSE_SIZE 256

/* "": there is none. */
static void cause_say(int step, int err, const struct ibv_ah_attr *ah, char text[CAUSE_SIZE])
{
	const struct beest_ipaddr *to = (const void *)ah->grh.dgid.raw;
	const struct cause *cause = causes;

	while (cause < causes + BEEST_COUNT(causes) &&
	       (!(cause->steps & 1 << step) || cause->err != err))
		cause++;
	text[0] = '\0';
	if (cause < causes + BEEST_COUNT(causes))
		snprintf(text, CAUSE_SIZE, "%s%s%s%s", cause->text, cause->more ? " " : "",
			 cause->more ? BEEST_IP_TEXT(to) : "", cause->more ? cause->more : "");
}

/* "::ffff:10.0.0.2, LID 0": where packets with this address go. */
#define WAY_SIZE (INET6_ADDRSTRLEN + 16)

static const char *way_text(const struct ibv_ah_attr *ah, char text[WAY_SIZE])
{
	const struct beest_ipaddr *to = (const void *)ah->grh.dgid.raw;

	snprintf(text, WAY_SIZE, "%s%sLID %d", ah->is_global ? BEEST_GID_TEXT(to) : "",
		 ah->is_global ? ", " : "", ah->dlid);
	return text;
}

static void step_values(enum beest_transition step, const struct beest_local *local,
			const struct ibv_qp_attr *attr, char *text, size_t size)
{
	if (step == BEEST_TO_INIT)
		snprintf(text, size, "port %d, P_Key index %d, access flags 0x%x", attr->port_num,
			 attr->pkey_index, attr->qp_access_flags);
	else
		snprintf(text, size, "GID index %d (%s) to QP %" PRIu32 " at %s, path MTU %d, "
			 "reads out %d, in %d, timeout %d, retries %d", local->sgid_index,
			 BEEST_GID_TEXT(&local->endpoint.gid), attr->dest_qp_num,
			 way_text(&attr->ah_attr, (char[WAY_SIZE]){ 0 }),
			 beest_transition_mtu_bytes(attr->path_mtu), attr->max_rd_atomic,
			 attr->max_dest_rd_atomic, attr->timeout, attr->retry_cnt);
}

int beest_transition_handle(struct ibv_pd *pd, const struct beest_local *local,
			    struct beest_connection *path)
{
	struct ibv_ah_attr *ah = &path->attr.ah_attr;
	char what[256], cause[CAUSE_SIZE];
	int ret;

	errno = 0;
	path->handle = ibv_create_ah(pd, ah);
	if (path->handle)
		return 0;
	ret = beest_error_errno();

	snprintf(what, sizeof(what), "cannot make an address handle on %s from GID index %d (%s) "
		 "to %s", local->label, local->sgid_index, BEEST_GID_TEXT(&local->endpoint.gid),
		 way_text(ah, (char[WAY_SIZE]){ 0 }));
	cause_say(HANDLE, -ret, ah, cause);

	return cause[0] ? beest_fail(-ret, "%s: %s; %s", what, strerror(-ret), cause) :
	       beest_quota_fail(BEEST_QUOTA_NONE, NULL, ret, "%s", what);
}

int beest_transition_take(enum beest_transition step, struct ibv_qp *qp,
			  const struct beest_local *local, const struct beest_connection *path)
{
	struct ibv_qp_attr attr;
	char values[384], cause[CAUSE_SIZE];
	int mask, ret;

	mask = beest_transition_attr(step, local, path, &attr);
	ret = beest_error_verbs(ibv_modify_qp(qp, &attr, mask));
	if (ret == 0)
		return 0;

	step_values(step, local, &attr, values, sizeof(values));
	cause_say(step, -ret, &attr.ah_attr, cause);
	return beest_fail(-ret, "%s of QP %" PRIu32 " on %s failed: %s; %s (%s)",
			  steps[step].text, qp->qp_num, local->label, strerror(-ret),
			  cause[0] ? cause : "see dmesg(1) on this host", values);
}

int beest_transition_reset(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr;
	int ret;

	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RESET;
	ret = beest_error_verbs(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	if (ret == 0)
		return 0;

	return beest_fail_errno(ret, "resetting QP %" PRIu32 " failed", qp->qp_num);
}
