/* SPDX-License-Identifier: MIT */
/*
 * transition.c - agreement, attributes, transitions
 *
 * The rules come from the kernel's qp_state_table (drivers/infiniband/core/verbs.c),
 * ibv_modify_qp(3) and the InfiniBand specification, volume 1, chapters 9 and 11.
 */
#include "config.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/verbs/transition.h"
#include "lib/base/error.h"
#include "lib/base/ipaddr.h"

#define MIN(a, b) ((a) < (b) ? (a) : (b))

/* A P_Key's top bit is full membership; two limited members may not talk. */
#define PKEY_FULL 0x8000
#define PKEY_BASE 0x7fff

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

int beest_transition_mtu_bytes(int mtu)
{
	return 128 << mtu;
}

/* ---------------------------------------------------------- agreement --- */

/* One disagreement, told with both sides' values. */
static int differ(int err, const char *what, const struct beest_end *end, const char *mine,
		  const struct beest_peer *peer, const char *theirs)
{
	char who[BEEST_AUTHOR_TEXT];

	return beest_fail(err, "%s differs: %s here (%s) but %s at the peer (%s, %s)",
			  what, mine, end->card.device, theirs, peer->card.device,
			  beest_author_text(&peer->author, who, sizeof(who)));
}

static int agree_on_transport(const struct beest_end *end, const struct beest_peer *peer)
{
	const struct beest_endpoint *me = &end->card, *it = &peer->card;

	if (me->qp_type != it->qp_type)
		return differ(EPROTOTYPE, "the transport", end, beest_transition_type_text(me->qp_type),
			      peer, beest_transition_type_text(it->qp_type));
	if (me->link_layer != it->link_layer)
		return differ(EPROTOTYPE, "the link layer", end,
			      link_layer_text(me->link_layer), peer,
			      link_layer_text(it->link_layer));
	return 0;
}

/*
 * Version 1 against 2 is not refused by any kernel: both ends reach RTS and every
 * packet is lost.  Mixed families are refused, but only with EINVAL.
 */
static int agree_on_roce(const struct beest_end *end, const struct beest_peer *peer)
{
	const struct beest_endpoint *me = &end->card, *it = &peer->card;

	if (me->roce != it->roce)
		return differ(EPROTO, "the RoCE version", end, beest_endpoint_roce_text(me->roce),
			      peer, beest_endpoint_roce_text(it->roce));
	if (beest_ipaddr_is_ipv4((const struct beest_ipaddr *)me->gid) != beest_ipaddr_is_ipv4((const struct beest_ipaddr *)it->gid))
		return differ(EPROTO, "the address family of the GID", end,
			      beest_ipaddr_is_ipv4((const struct beest_ipaddr *)me->gid) ? "IPv4" : "IPv6", peer,
			      beest_ipaddr_is_ipv4((const struct beest_ipaddr *)it->gid) ? "IPv4" : "IPv6");
	return 0;
}

static int agree_on_lid(const struct beest_end *end, const struct beest_peer *peer)
{
	int64_t path_bits = end->options->src_path_bits;

	if (peer->card.lid == 0)
		return beest_fail(EPROTO, "the peer's port %s has no LID: is a subnet manager "
				  "running?", peer->card.device);
	if (path_bits >> end->card.lmc)
		return beest_fail(EINVAL, "option qp_attr.ah_attr.src_path_bits is %" PRId64
				  ", but port %s has LMC %d: at most %d", path_bits,
				  end->card.device, end->card.lmc, (1 << end->card.lmc) - 1);
	return 0;
}

static int agree_on_pkey(const struct beest_end *end, const struct beest_peer *peer)
{
	uint16_t me = end->card.pkey, it = peer->card.pkey;
	char mine[24], theirs[24];

	if ((me & PKEY_BASE) == (it & PKEY_BASE) && ((me | it) & PKEY_FULL))
		return 0;

	snprintf(mine, sizeof(mine), "P_Key 0x%04x", me);
	snprintf(theirs, sizeof(theirs), "0x%04x", it);
	return differ(EPROTO, (me & PKEY_BASE) == (it & PKEY_BASE) ?
		      "the partition membership (two limited members cannot talk)" :
		      "the partition", end, mine, peer, theirs);
}

/* A configured rq_psn is a claim about the peer: check it, do not believe it. */
static int agree_on_psn(const struct beest_end *end, const struct beest_peer *peer)
{
	int64_t wanted = end->options->rq_psn;

	if (wanted == BEEST_AUTO || wanted == (int64_t)peer->card.sq_psn)
		return 0;

	return beest_fail(EPROTO, "option qp_attr.rq_psn is %" PRId64 ", but the peer (%s) "
			  "starts at sequence number %" PRIu32 ": set its qp_attr.sq_psn too, "
			  "or neither", wanted, peer->card.device, peer->card.sq_psn);
}

static bool same_subnet(const struct beest_end *end, const struct beest_peer *peer)
{
	return memcmp(end->card.gid, peer->card.gid, 8) == 0;
}

static bool needs_grh(const struct beest_end *end, const struct beest_peer *peer)
{
	return end->card.link_layer == IBV_LINK_LAYER_ETHERNET ||
	       end->card.grh_required || peer->card.grh_required ||
	       end->options->is_global || !same_subnet(end, peer);
}

/*
 * Across InfiniBand subnets a GID may carry the LID of the router that leads to it
 * (FLID, bytes 4 and 5); within one, the LID is the peer's own.
 */
static uint16_t destination_lid(const struct beest_end *end, const struct beest_peer *peer)
{
	uint16_t flid = (uint16_t)(peer->card.gid[4] << 8 | peer->card.gid[5]);

	return flid && !same_subnet(end, peer) ? flid : peer->card.lid;
}

static void address(const struct beest_end *end, const struct beest_peer *peer,
		    struct ibv_ah_attr *ah)
{
	const struct beest_qp_options *options = end->options;

	memset(ah, 0, sizeof(*ah));
	ah->port_num = end->port;		/* the own one: the kernel compares it */
	ah->sl = (uint8_t)options->sl;
	ah->static_rate = (uint8_t)options->static_rate;
	if (end->card.link_layer != IBV_LINK_LAYER_ETHERNET) {
		ah->dlid = destination_lid(end, peer);
		ah->src_path_bits = (uint8_t)options->src_path_bits;
	}
	if (!needs_grh(end, peer))
		return;

	ah->is_global = 1;
	memcpy(ah->grh.dgid.raw, peer->card.gid, sizeof(ah->grh.dgid.raw));
	ah->grh.sgid_index = end->sgid_index;
	ah->grh.flow_label = (uint32_t)options->flow_label;
	ah->grh.hop_limit = (uint8_t)options->hop_limit;
	ah->grh.traffic_class = (uint8_t)options->traffic_class;
}

int beest_transition_agree(const struct beest_end *end, const struct beest_peer *peer,
			   struct beest_connection *path)
{
	int ret;

	ret = agree_on_transport(end, peer);
	if (ret < 0)
		return ret;

	if (end->card.link_layer == IBV_LINK_LAYER_ETHERNET)
		ret = agree_on_roce(end, peer);
	else
		ret = agree_on_lid(end, peer);
	if (ret < 0)
		return ret;

	ret = agree_on_pkey(end, peer);
	if (ret < 0)
		return ret;

	ret = agree_on_psn(end, peer);
	if (ret < 0)
		return ret;

	path->mtu = MIN(end->card.mtu, peer->card.mtu);
	path->max_rd_atomic = MIN(MIN(end->options->max_rd_atomic, end->max_init_rd_atomic),
				  peer->card.max_dest_rd_atomic);
	path->dest_qp_num = peer->card.qp_num;
	path->rq_psn = peer->card.sq_psn;
	address(end, peer, &path->ah);
	return 0;
}

/* ----------------------------------------------------- a path of rdma_cm --- */

static int agree_on_way(const struct beest_end *end, const struct beest_pathrec *route)
{
	char label[80], to[INET6_ADDRSTRLEN];

	beest_ipaddr_text(&route->dgid, to, sizeof(to));
	snprintf(label, sizeof(label), "%s:%d", route->device, route->port);
	if (strcmp(label, end->card.device) != 0)
		return beest_fail(EXDEV, "the path to %s leaves by port %s, but this end is port "
				  "%s: set device.addr to an address of the port", to, label,
				  end->card.device);
	if (!route->ethernet && (route->pkey & PKEY_BASE) != (end->card.pkey & PKEY_BASE))
		return beest_fail(EPROTO, "the path to %s is in the partition of P_Key 0x%04x, but "
				  "this end (%s) in that of 0x%04x: set qp_attr.pkey, or choose the "
				  "interface of its partition", to, route->pkey, end->card.device,
				  end->card.pkey);
	return 0;
}

static void address_by_route(const struct beest_end *end, const struct beest_pathrec *route,
			     uint8_t sgid_index, struct ibv_ah_attr *ah)
{
	bool global = route->ethernet || ah->is_global || route->hop_limit > 0;

	memset(ah, 0, sizeof(*ah));
	ah->port_num = end->port;
	ah->sl = route->sl;
	ah->static_rate = route->rate;
	if (!route->ethernet) {
		ah->dlid = route->dlid;
		ah->src_path_bits = route->src_path_bits;
	}
	if (!global)
		return;

	ah->is_global = 1;
	memcpy(ah->grh.dgid.raw, route->dgid.raw, sizeof(ah->grh.dgid.raw));
	ah->grh.sgid_index = sgid_index;
	ah->grh.flow_label = route->flow_label;
	ah->grh.hop_limit = route->hop_limit ? route->hop_limit :
			    (uint8_t)end->options->hop_limit;
	ah->grh.traffic_class = route->traffic_class;
}

int beest_transition_apply_path(const struct beest_end *end, const struct beest_pathrec *route,
				uint8_t sgid_index, struct beest_connection *path)
{
	int ret;

	ret = agree_on_way(end, route);
	if (ret < 0)
		return ret;

	address_by_route(end, route, sgid_index, &path->ah);
	if (route->mtu >= IBV_MTU_256 && route->mtu < path->mtu)
		path->mtu = (enum ibv_mtu)route->mtu;
	return 0;
}

const char *beest_transition_agreed_text(const struct beest_end *end, const struct beest_peer *peer,
					 const struct beest_connection *path, char *text, size_t size)
{
	int used;

	used = snprintf(text, size, "path MTU %d (%d here, %d at the peer)",
			beest_transition_mtu_bytes(path->mtu), beest_transition_mtu_bytes(end->card.mtu),
			beest_transition_mtu_bytes(peer->card.mtu));
	if (end->transport == BEEST_RC && used >= 0 && (size_t)used < size)
		snprintf(text + used, size - (size_t)used, ", reads out %d (of %d wanted, %d of the "
			 "device, %d at the peer), in %d", path->max_rd_atomic,
			 (int)end->options->max_rd_atomic, end->max_init_rd_atomic,
			 peer->card.max_dest_rd_atomic, end->card.max_dest_rd_atomic);
	return text;
}

/* --------------------------------------------------------- attributes --- */

static void fill_init(const struct beest_end *end, const struct beest_connection *path,
		      struct ibv_qp_attr *attr)
{
	(void)path;
	attr->qp_state = IBV_QPS_INIT;
	attr->pkey_index = end->pkey_index;
	attr->port_num = end->port;
	attr->qp_access_flags = (unsigned int)end->access_flags;
	attr->qkey = end->card.qkey;
}

static void fill_rtr(const struct beest_end *end, const struct beest_connection *path,
		     struct ibv_qp_attr *attr)
{
	attr->qp_state = IBV_QPS_RTR;
	if (end->transport == BEEST_UD)
		return;			/* has no peer: nothing but the state is allowed */

	attr->ah_attr = path->ah;
	attr->path_mtu = path->mtu;
	attr->dest_qp_num = path->dest_qp_num;
	attr->rq_psn = path->rq_psn;
	attr->max_dest_rd_atomic = end->card.max_dest_rd_atomic;
	attr->min_rnr_timer = (uint8_t)end->options->min_rnr_timer;
}

static void fill_rts(const struct beest_end *end, const struct beest_connection *path,
		     struct ibv_qp_attr *attr)
{
	attr->qp_state = IBV_QPS_RTS;
	attr->sq_psn = end->card.sq_psn;
	if (end->transport != BEEST_RC)
		return;			/* nothing is acknowledged, nothing retried */

	attr->timeout = (uint8_t)end->options->timeout;
	attr->retry_cnt = (uint8_t)end->options->retry_cnt;
	attr->rnr_retry = (uint8_t)end->options->rnr_retry;
	attr->max_rd_atomic = path->max_rd_atomic;
}

/* Every bit of a mask is required, and a bit too many is refused: EINVAL both. */
static const struct {
	const char *text;
	void (*fill)(const struct beest_end *end, const struct beest_connection *path,
		     struct ibv_qp_attr *attr);
	int mask[BEEST_TRANSPORTS];
} steps[BEEST_TRANSITIONS] = {
	[BEEST_TO_INIT] = {
		"RESET -> INIT", fill_init, {
		[BEEST_RC] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     IBV_QP_ACCESS_FLAGS,
		[BEEST_UC] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     IBV_QP_ACCESS_FLAGS,
		[BEEST_UD] = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	} },
	[BEEST_TO_RTR] = {
		"INIT -> RTR", fill_rtr, {
		[BEEST_RC] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			     IBV_QP_MIN_RNR_TIMER,
		[BEEST_UC] = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN,
		[BEEST_UD] = IBV_QP_STATE,
	} },
	[BEEST_TO_RTS] = {
		"RTR -> RTS", fill_rts, {
		[BEEST_RC] = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
			     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			     IBV_QP_MAX_QP_RD_ATOMIC,
		[BEEST_UC] = IBV_QP_STATE | IBV_QP_SQ_PSN,
		[BEEST_UD] = IBV_QP_STATE | IBV_QP_SQ_PSN,
	} },
};

int beest_transition_attr(enum beest_transition step, const struct beest_end *end,
			  const struct beest_connection *path, struct ibv_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	steps[step].fill(end, path, attr);
	return steps[step].mask[end->transport];
}

/* ------------------------------------------------------------- doing --- */

/* What users found behind these errors, by transition. */
static const struct {
	enum beest_transition step;
	int err;
	const char *cause;
} causes[] = {
	{ BEEST_TO_INIT, EINVAL, "the access flags or the P_Key index do not suit the device" },
	{ BEEST_TO_RTR, ETIMEDOUT, "the peer's address does not answer to ARP or neighbour "
	  "discovery: is its interface up, and in the same network?" },
	{ BEEST_TO_RTR, ENETUNREACH, "there is no route to the peer's address" },
	{ BEEST_TO_RTR, EHOSTUNREACH, "there is no route to the peer's address" },
	{ BEEST_TO_RTR, ENODATA, "the GID at this index is gone: was the address removed?" },
	{ BEEST_TO_RTR, ENODEV, "the GID belongs to no interface of this network namespace" },
	{ BEEST_TO_RTR, ENXIO, "the GID at this index has no network interface" },
	{ BEEST_TO_RTR, EINVAL, "the device takes one of these values not, or the GID table "
	  "changed" },
	{ BEEST_TO_RTS, EINVAL, "max_rd_atomic, timeout or retry counts exceed the device" },
};

static const char *likely_cause(enum beest_transition step, int err)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(causes); i++)
		if (causes[i].step == step && causes[i].err == err)
			return causes[i].cause;

	return "see dmesg(1) on this host";
}

static void path_text(enum beest_transition step, const struct beest_end *end,
		      const struct beest_connection *path, char *text, size_t size)
{
	char own[64], far[64];

	if (step == BEEST_TO_INIT || !path) {
		snprintf(text, size, "port %d, P_Key index %d, access flags 0x%x", end->port,
			 end->pkey_index, (unsigned int)end->access_flags);
		return;
	}

	beest_ipaddr_text((const struct beest_ipaddr *)end->card.gid, own, sizeof(own));
	beest_ipaddr_text((const struct beest_ipaddr *)path->ah.grh.dgid.raw, far, sizeof(far));
	snprintf(text, size, "GID index %d (%s) to QP %" PRIu32 " at %s%sLID %d, path MTU %d, "
		 "reads out %d, in %d, timeout %d, retries %d", end->sgid_index, own,
		 path->dest_qp_num, path->ah.is_global ? far : "", path->ah.is_global ? ", " : "",
		 path->ah.dlid, beest_transition_mtu_bytes(path->mtu), path->max_rd_atomic,
		 end->card.max_dest_rd_atomic, (int)end->options->timeout,
		 (int)end->options->retry_cnt);
}

int beest_transition_take(enum beest_transition step, struct ibv_qp *qp, const struct beest_end *end,
			  const struct beest_connection *path)
{
	struct ibv_qp_attr attr;
	char values[384];
	int mask, ret;

	mask = beest_transition_attr(step, end, path, &attr);
	ret = beest_error_verbs(ibv_modify_qp(qp, &attr, mask));
	if (ret == 0)
		return 0;

	path_text(step, end, path, values, sizeof(values));
	return beest_fail(-ret, "%s of QP %" PRIu32 " on %s failed: %s; %s (%s)",
			  steps[step].text, qp->qp_num, end->card.device, strerror(-ret),
			  likely_cause(step, -ret), values);
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

	return beest_fail(-ret, "resetting QP %" PRIu32 " failed: %s", qp->qp_num,
			  strerror(-ret));
}
