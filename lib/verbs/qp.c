/* SPDX-License-Identifier: MIT */
/* qp.c - see qp.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/text.h"
#include "lib/verbs/elsewhere.h"
#include "lib/verbs/newer.h"
#include "lib/verbs/qp.h"
#include "lib/verbs/quota.h"
#include "lib/verbs/source.h"

#define PSN_MASK 0xffffff

/* ----------------------------------------------------------- life, death --- */

/* Ignores errors: only on a device that is gone can a handle not be destroyed. */
static void ud_peers_drop(struct beest_qp *qp)
{
	struct beest_ud_peer *address;

	while ((address = qp->addresses)) {
		qp->addresses = address->next;
		ibv_destroy_ah(address->ah);
		free(address);
	}
}

struct ibv_qp *beest_qp_alloc(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *verbs;

	errno = 0;
	verbs = ibv_create_qp(pd, attr);
	if (verbs)
		beest_quota_count(BEEST_QUOTA_QP, 1, 0);

	return verbs;
}

int beest_qp_free(struct ibv_qp *verbs)
{
	return beest_quota_count(BEEST_QUOTA_QP, -1, beest_error_verbs(ibv_destroy_qp(verbs)));
}

static int qp_release(struct beest_node *node)
{
	return beest_qp_free(BEEST_CONTAINER(node, struct beest_qp, node)->qp);
}

static void qp_dispose(struct beest_node *node)
{
	struct beest_qp *qp = BEEST_CONTAINER(node, struct beest_qp, node);

	ud_peers_drop(qp);
	free(qp->regions);
	free(qp->refusal);
}

const struct beest_kind beest_qp_kind = {
	.noun = "queue pair", .size = sizeof(struct beest_qp), .release = qp_release,
	.dispose = qp_dispose,
};

static void cap_fit_one(uint32_t *size, int64_t initial, int limit)
{
	if (*size == 0)
		*size = (uint32_t)initial;
	if (*size > (uint32_t)limit)
		*size = (uint32_t)limit;
}

static void cap_fit(struct ibv_qp_cap *cap, const struct beest_qp_options *options,
		    const struct ibv_device_attr *limits)
{
	cap_fit_one(&cap->max_send_wr, options->max_send_wr, limits->max_qp_wr);
	cap_fit_one(&cap->max_recv_wr, options->max_recv_wr, limits->max_qp_wr);
	cap_fit_one(&cap->max_send_sge, options->max_send_sge, limits->max_sge);
	cap_fit_one(&cap->max_recv_sge, options->max_recv_sge, limits->max_sge);
	cap_fit_one(&cap->max_inline_data, options->max_inline_data, INT32_MAX);
}

/*
 * No query returns how much inline data a device takes, and drivers refuse too much with any errno.
 * A failed try may have changed attr->cap, so each try starts from the wanted sizes.
 */
static struct ibv_qp *qp_create_inline(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_cap wanted = attr->cap;
	struct ibv_qp *qp;

	for (;;) {
		attr->cap = wanted;
		qp = beest_qp_alloc(pd, attr);
		if (qp || wanted.max_inline_data == 0 ||
		    errno == EMFILE || errno == EPERM || errno == EAGAIN)
			return qp;
		wanted.max_inline_data /= 2;
	}
}

static int qp_new(const struct beest_device *device, const struct beest_qp_options *options,
		  int qp_type, struct beest_qp **qpp)
{
	int transport = beest_transition_transport(qp_type);
	struct beest_qp *qp;

	if (transport < 0)
		return transport;
	qp = beest_table_new(&beest_qp_kind);
	if (!qp)
		return -ENOMEM;

	qp->device = device;
	qp->local.transport = (enum beest_transport)transport;
	qp->local.options = &options[transport];
	qp->local.port = device->port;
	qp->local.endpoint.qp_type = (uint8_t)qp_type;
	qp->local.endpoint.rank = -1;
	qp->local.label = device->label;
	*qpp = qp;
	return 0;
}

static void qp_name_parts(struct beest_qp *qp)
{
	qp->local.endpoint.qp_num = qp->qp->qp_num;
	qp->node.handle = qp->qp;
	qp->node.needs[0] = qp->qp->pd;
	qp->node.needs[1] = qp->qp->send_cq;
	qp->node.needs[2] = qp->qp->recv_cq;
	qp->node.needs[3] = qp->qp->srq;
	qp->local.ece = beest_newer_ece_of(qp->qp);
}

int beest_qp_create(const struct beest_device *device, struct ibv_pd *pd,
		    const struct beest_qp_options *options, struct ibv_qp_init_attr *attr,
		    struct beest_qp **qpp)
{
	struct ibv_qp_cap asked = attr->cap;
	struct beest_qp *qp = NULL;
	int ret;

	ret = qp_new(device, options, attr->qp_type, &qp);
	if (ret < 0)
		return ret;

	cap_fit(&attr->cap, qp->local.options, &device->attr);
	qp->qp = qp_create_inline(pd, attr);
	if (!qp->qp) {
		ret = beest_quota_fail(BEEST_QUOTA_QP, device->verbs, beest_error_errno(),
				       "%s: cannot create a %s queue pair (%u send, %u receive "
				       "requests, %u and %u elements, %u bytes inline)",
				       device->label, beest_transition_type_text(attr->qp_type),
				       attr->cap.max_send_wr, attr->cap.max_recv_wr,
				       attr->cap.max_send_sge, attr->cap.max_recv_sge,
				       attr->cap.max_inline_data);
		attr->cap = asked;
		free(qp);
		return ret;
	}

	qp->cap = attr->cap;
	qp_name_parts(qp);
	*qpp = qp;
	return 0;
}

int beest_qp_adopt(const struct beest_device *device, const struct beest_qp_options *options,
		   struct ibv_qp *verbs, struct beest_qp **qpp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct beest_qp *qp = NULL;
	int ret;

	ret = qp_new(device, options, verbs->qp_type, &qp);
	if (ret < 0)
		return ret;
	ret = beest_error_verbs(ibv_query_qp(verbs, &attr, IBV_QP_CAP, &init));
	if (ret < 0) {
		free(qp);
		return beest_fail_errno(ret, "cannot read the limits of queue pair number %u",
					verbs->qp_num);
	}

	qp->qp = verbs;
	qp->cap = init.cap;
	qp->node.adopted = true;
	qp_name_parts(qp);
	*qpp = qp;
	return 0;
}

int64_t beest_qp_requests(const struct beest_qp *qp, const struct ibv_cq *queue)
{
	int64_t sends = qp->node.needs[1] == queue ? qp->cap.max_send_wr : 0;

	return sends + (qp->node.needs[2] == queue && !qp->node.needs[3] ? qp->cap.max_recv_wr : 0);
}

/* ------------------------------------------------------------ this end --- */

/*
 * libibverbs keeps the state that each ibv_modify_qp(3) set, the program's calls included,
 * and a queue pair leaves RESET and INIT by such a call only.
 */
int beest_qp_state(const struct beest_qp *qp, enum ibv_qp_state *state)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int ret;

	*state = qp->qp->state;
	if (*state == IBV_QPS_RESET || *state == IBV_QPS_INIT)
		return 0;

	ret = beest_error_verbs(ibv_query_qp(qp->qp, &attr, IBV_QP_STATE, &init));
	if (ret < 0)
		return beest_fail_errno(ret, "cannot read the state of queue pair '%s'",
					qp->node.name);

	*state = attr.qp_state;
	return 0;
}

/* The default is all that a peer can ask of this transport; LOCAL_WRITE is for receives. */
static int access_flags_of(const struct beest_local *local,
			   const struct ibv_device_attr *limits)
{
	int flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

	if (local->options->access_flags != BEEST_AUTO)
		return (int)local->options->access_flags;
	if (local->transport == BEEST_RC)
		flags |= IBV_ACCESS_REMOTE_READ;
	if (local->transport == BEEST_RC && limits->atomic_cap != IBV_ATOMIC_NONE)
		flags |= IBV_ACCESS_REMOTE_ATOMIC;
	return flags;
}

/* A number of reads as it fits into a record, whatever a driver reports. */
static uint8_t reads_fit(int64_t reads)
{
	return (uint8_t)BEEST_MAX(BEEST_MIN(reads, 255), 0);
}

/* Without an option, no queue pair takes more than this part of what a device has in total. */
#define READS_IN 16
#define READS_SHARE 16

/* Some devices have resources for a few reads and atomics only, for all queue pairs together. */
static uint8_t reads_in_of(const struct beest_qp_options *options,
			   const struct ibv_device_attr *limits)
{
	int64_t wanted = options->max_dest_rd_atomic;

	if (wanted == BEEST_AUTO)
		wanted = READS_IN;
	if (options->max_dest_rd_atomic == BEEST_AUTO && limits->max_res_rd_atom > 0)
		wanted = BEEST_MIN(wanted, BEEST_MAX(limits->max_res_rd_atom / READS_SHARE, 1));

	return reads_fit(BEEST_MIN(wanted, limits->max_qp_rd_atom));
}

/* Takes what the subnet manager or the host may change while the port stays active. */
static void qp_take_port(struct beest_qp *qp, const struct ibv_port_attr *port)
{
	const struct beest_qp_options *options = qp->local.options;
	struct beest_endpoint *own = &qp->local.endpoint;

	own->lid = port->lid;
	own->mtu = (uint8_t)port->active_mtu;
	if (options->path_mtu != BEEST_AUTO)
		own->mtu = (uint8_t)BEEST_MIN(options->path_mtu, (int64_t)port->active_mtu);
	qp->local.lmc = port->lmc & 7;		/* it has 3 bits */
}

static void qp_describe_port(struct beest_qp *qp, const struct ibv_port_attr *port)
{
	const struct ibv_device_attr *limits = &qp->device->attr;
	const struct beest_qp_options *options = qp->local.options;
	struct beest_endpoint *own = &qp->local.endpoint;

	qp_take_port(qp, port);
	own->link_layer = port->link_layer == IBV_LINK_LAYER_ETHERNET ?
			  IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	own->grh_required = !!(port->flags & IBV_QPF_GRH_REQUIRED);
	own->max_dest_rd_atomic = reads_in_of(options, limits);
	own->ece = options->ece ? qp->local.ece : (struct beest_ece){ .vendor = 0 };
	if (!qp->taken_over) {
		own->qkey = (uint32_t)options->qkey;
		qp->local.access_flags = access_flags_of(&qp->local, limits);
	}
	qp->local.asks_rdmacm = qp->port->pathcache != NULL;
	qp->local.max_init_rd_atomic = reads_fit(limits->max_qp_init_rd_atom);
}

static int qp_choose_pkey(struct beest_qp *qp)
{
	int64_t wanted = qp->local.options->pkey;
	struct beest_endpoint *own = &qp->local.endpoint;
	struct beest_port_pkey found = { 0 };
	int ret;

	ret = beest_port_pkey(qp->port, qp->local.transport,
			      wanted == BEEST_AUTO ? 0 : (uint16_t)wanted, &found);
	if (ret < 0)
		return ret;

	qp->local.pkey_index = found.index;
	own->pkey = found.pkey;
	if (own->link_layer == IBV_LINK_LAYER_ETHERNET && wanted != BEEST_AUTO &&
	    wanted != own->pkey)
		beest_log(qp->port->log, beest_log_once(qp->port->log, BEEST_LOG_WARN, "pkey"),
			  "queue pair '%s': option qp_attr.pkey (0x%04x) is not used on RoCE: port "
			  "%s has 0x%04x only", qp->node.name, (unsigned int)wanted,
			  qp->device->label, own->pkey);
	return 0;
}

static int qp_choose_address(struct beest_qp *qp)
{
	struct beest_port_choice choice;
	int ret;

	ret = beest_port_choose(qp->port, qp->qp->pd, &choice);
	if (ret < 0)
		return ret;

	qp_describe_port(qp, &choice.attr);
	qp->source = choice.gid;
	qp->local.sgid_index = (uint8_t)choice.gid.index;
	qp->local.endpoint.roce = (uint8_t)choice.gid.roce;
	qp->local.endpoint.gid = choice.gid.gid;
	qp->local.endpoint.ip = choice.ip;
	return qp->taken_over ? 0 : qp_choose_pkey(qp);
}

/* All queue pairs draw from one row, since devices reuse QP numbers. */
static void qp_draw_generation(struct beest_qp *qp)
{
	static uint32_t generations;

	qp->local.endpoint.generation = __atomic_add_fetch(&generations, 1, __ATOMIC_RELAXED);
}

/*
 * The sequence number is random, so that late packets of an earlier connection on the
 * same queue pair number do not pass for new ones.
 */
static int qp_draw_psn(struct beest_qp *qp)
{
	int64_t wanted = qp->local.options->sq_psn;
	uint32_t psn;
	int ret;

	qp_draw_generation(qp);
	if (wanted != BEEST_AUTO) {
		qp->local.endpoint.psn = (uint32_t)wanted;
		return 0;
	}

	ret = beest_random(&psn, sizeof(psn));
	if (ret == 0)
		qp->local.endpoint.psn = psn & PSN_MASK;
	return ret;
}

/* Peers that have an earlier generation connect again, as to a queue pair that was replaced. */
int beest_qp_look_again(struct beest_qp *qp)
{
	const struct beest_endpoint *own = &qp->local.endpoint, before = *own;
	struct ibv_port_attr port;
	int ret;

	ret = beest_port_look_again(qp->port, &port);
	if (ret < 0)
		return ret;

	qp_take_port(qp, &port);
	if (own->lid == before.lid && own->mtu == before.mtu)
		return 0;

	qp_draw_generation(qp);
	if (own->lid != before.lid)
		beest_log(qp->port->log, BEEST_LOG_INFO, "queue pair '%s': the LID of port %s "
			  "changed from %d to %d: publishing again", qp->node.name,
			  qp->device->label, before.lid, own->lid);
	if (own->mtu != before.mtu)
		beest_log(qp->port->log, BEEST_LOG_INFO, "queue pair '%s': the MTU of port %s "
			  "changed from %d to %d: publishing again", qp->node.name,
			  qp->device->label, beest_transition_mtu_bytes(before.mtu),
			  beest_transition_mtu_bytes(own->mtu));
	return 1;
}

int beest_qp_init_again(struct beest_qp *qp)
{
	int ret;

	ret = beest_transition_take(BEEST_TO_INIT, qp->qp, &qp->local, NULL);
	if (ret < 0)
		beest_port_forget(qp->port);
	if (ret < 0 || !qp->refill || qp->qp->srq)
		return ret;

	ret = qp->refill(qp->refill_data, qp->qp);
	if (ret >= 0)
		return 0;

	beest_quota_refill(qp->qp, ret, "the refill function of queue pair '%s' failed",
			   qp->node.name);
	beest_transition_reset(qp->qp);	/* so that the next try calls refill again */
	return ret;
}

/* The program took the queue pair to INIT: what it chose there stays, also after a reset. */
static int qp_take_over(struct beest_qp *qp)
{
	const int mask = IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS | IBV_QP_QKEY;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int ret;

	ret = beest_error_verbs(ibv_query_qp(qp->qp, &attr, mask, &init));
	if (ret < 0)
		return beest_fail_errno(ret, "cannot read how queue pair '%s' was initialized",
					qp->node.name);
	if (attr.port_num != qp->device->port)
		return beest_fail(EINVAL, "queue pair '%s' was initialized on port %d, but this "
				  "context uses port %s", qp->node.name, attr.port_num,
				  qp->device->label);

	qp->taken_over = true;
	qp->local.access_flags = (int)attr.qp_access_flags;
	qp->local.pkey_index = attr.pkey_index;
	qp->local.endpoint.qkey = attr.qkey;
	return beest_device_pkey_at(qp->device, attr.pkey_index, &qp->local.endpoint.pkey);
}

/*
 * May it be on the port as the program took it there?  Beyond INIT, its sequence number cannot be
 * read back, which matters to no datagram.
 */
static bool qp_is_readable(const struct beest_qp *qp, enum ibv_qp_state state)
{
	return state == IBV_QPS_INIT ||
	       (state == IBV_QPS_RTS && qp->local.transport == BEEST_UD && !qp->port);
}

int beest_qp_init(struct beest_qp *qp, struct beest_port *port)
{
	struct beest_port *previous = qp->port;
	enum ibv_qp_state state;
	int ret;

	ret = beest_qp_state(qp, &state);
	if (ret < 0)
		return ret;
	if (state == IBV_QPS_INIT && qp->port)
		return 0;
	if (state != IBV_QPS_RESET && !qp_is_readable(qp, state))
		return beest_fail(EISCONN, "queue pair '%s' is beyond INIT already: "
				  "hartebeest_qp_reset() first", qp->node.name);

	qp->port = port;
	ret = state != IBV_QPS_RESET ? qp_take_over(qp) : 0;
	if (ret == 0)
		ret = qp_choose_address(qp);
	if (ret == 0)
		ret = qp_draw_psn(qp);
	if (ret == 0 && state == IBV_QPS_RESET)
		ret = beest_qp_init_again(qp);
	if (ret < 0)
		qp->port = previous;
	return ret;
}

int beest_qp_serve(struct beest_qp *qp)
{
	static const struct beest_connection no_peer;
	enum ibv_qp_state state;
	int ret;

	if (qp->local.transport != BEEST_UD)
		return 0;
	ret = beest_qp_look_again(qp);
	if (ret >= 0)
		ret = beest_qp_state(qp, &state);
	if (ret < 0 || state != IBV_QPS_INIT)
		return ret;

	ret = beest_transition_take(BEEST_TO_RTR, qp->qp, &qp->local, &no_peer);
	return ret < 0 ? ret : beest_transition_take(BEEST_TO_RTS, qp->qp, &qp->local, &no_peer);
}

int beest_qp_reset(struct beest_qp *qp)
{
	enum ibv_qp_state state;
	int ret;

	ret = beest_qp_state(qp, &state);
	if (ret < 0)
		return ret;

	/* Intel E810 refuses RESET -> RESET, which the specification allows. */
	if (state != IBV_QPS_RESET)
		ret = beest_transition_reset(qp->qp);
	if (ret < 0)
		return ret;

	ud_peers_drop(qp);
	free(qp->refusal);
	qp->refusal = NULL;
	qp->peer_key[0] = '\0';
	return 0;
}

/* ------------------------------------------------------------ the peer --- */

static struct beest_ud_peer *ud_peer_find(const struct beest_qp *qp, const char *key)
{
	struct beest_ud_peer *address;

	for (address = qp->addresses; address; address = address->next)
		if (strcmp(address->key, key) == 0)
			return address;

	return NULL;
}

const struct beest_endpoint *beest_qp_remote(const struct beest_qp *qp, const char *key)
{
	const struct beest_ud_peer *address = ud_peer_find(qp, key);

	if (qp->local.transport == BEEST_UD)
		return address ? &address->remote : NULL;

	return strcmp(qp->peer_key, key) == 0 ? &qp->remote : NULL;
}

int beest_qp_address(const struct beest_qp *qp, const char *key,
		     struct hartebeest_ud_address *address)
{
	const struct beest_ud_peer *found = ud_peer_find(qp, key);

	if (!found)
		return beest_fail(ENOTCONN, "queue pair '%s' has no address of '%s': "
				  "hartebeest_qp_connect() makes one", qp->node.name, key);
	*address = (struct hartebeest_ud_address){
		.ah = found->ah, .qp_num = found->remote.qp_num, .qkey = found->remote.qkey,
	};

	return 0;
}

/* --------------------------------------------------------- the source GID --- */

/*
 * The index was chosen at INIT.  Since then addresses may have been added or removed, and the index
 * may hold another GID, of which no device complains.  1: the GID moved, and the index was
 * corrected.
 */
static int source_check(struct beest_qp *qp, bool search, struct beest_connection *path)
{
	int ret;

	if (!path->attr.ah_attr.is_global)
		return 0;

	ret = beest_source_relocate(qp->device, search, &qp->source);
	if (ret != 0)
		beest_port_forget(qp->port);
	if (ret < 0)
		return ret;
	if (ret > 0)
		beest_log(qp->port->log, BEEST_LOG_INFO, "queue pair '%s': GID %s moved from index "
			  "%d to %d of port %s", qp->node.name, BEEST_GID_TEXT(&qp->source.gid),
			  qp->local.sgid_index, qp->source.index, qp->device->label);
	qp->local.sgid_index = (uint8_t)qp->source.index;
	path->attr.ah_attr.grh.sgid_index = qp->local.sgid_index;
	return ret;
}

/* Takes @step, and again if the GID turns out to have moved meanwhile. */
static int qp_source_try(struct beest_qp *qp, struct beest_connection *path,
			 int (*step)(struct beest_qp *qp, struct beest_connection *path))
{
	int moved, ret = step(qp, path);

	/* The kernel's errors for an index that holds another GID by now, or none. */
	if (ret == -EINVAL || ret == -ENODATA || ret == -ENODEV) {
		moved = source_check(qp, true, path);
		if (moved != 0)
			ret = moved < 0 ? moved : step(qp, path);
	}
	if (ret < 0)
		beest_port_forget(qp->port);
	return ret;
}

/* ------------------------------------------------------ the path by rdma_cm --- */

static int source_replace(struct beest_qp *qp, const struct hartebeest_path *route)
{
	struct beest_gid_entry source = qp->source;
	int ret;

	memcpy(source.gid.raw, route->sgid.raw, sizeof(source.gid.raw));
	ret = beest_source_relocate(qp->device, true, &source);
	if (ret < 0)
		return beest_fail_prefix(ret, "the path by rdma_cm");

	qp->source = source;
	beest_log(qp->port->log, BEEST_LOG_WARN, "queue pair '%s': the path leaves from GID %s, "
		  "but %s was published: the peer must use rdma_cm, too", qp->node.name,
		  BEEST_GID_TEXT(&source.gid), BEEST_GID_TEXT(&qp->local.endpoint.gid));
	return 0;
}

static int qp_find_path(struct beest_qp *qp, const struct beest_endpoint *remote,
			const struct beest_limit *limit, struct beest_connection *path)
{
	struct hartebeest_path route;
	int ret;

	ret = beest_pathcache_find(qp->port->pathcache, &qp->local.endpoint, qp->local.label,
				   remote, if_nametoindex(qp->source.netdev),
				   (uint8_t)qp->local.options->traffic_class, limit, &route);
	if (ret == 0 && memcmp(route.sgid.raw, qp->source.gid.raw, sizeof(route.sgid.raw)) != 0)
		ret = source_replace(qp, &route);
	if (ret == 0)
		ret = beest_transition_apply_path(&qp->local, &route, (uint8_t)qp->source.index,
						  path);
	return ret < 0 ? ret : source_check(qp, false, path);
}

/* ------------------------------------------------------------- connecting --- */

static int step_handle(struct beest_qp *qp, struct beest_connection *path)
{
	return beest_transition_handle(qp->qp->pd, &qp->local, path);
}

/* A restarted peer has a new address under its old key, which replaces the old address. */
static int ud_peer_add(struct beest_qp *qp, const char *key, const struct beest_endpoint *remote,
		       struct beest_connection *path)
{
	struct beest_ud_peer *address = ud_peer_find(qp, key);
	int ret;

	ret = qp_source_try(qp, path, step_handle);
	if (ret < 0)
		return ret;

	if (address) {
		ibv_destroy_ah(address->ah);
	} else {
		address = calloc(1, sizeof(*address));
		if (!address) {
			ibv_destroy_ah(path->handle);
			return beest_fail(ENOMEM, "no memory for an address handle");
		}
		beest_text_copy(address->key, sizeof(address->key), key);
		address->next = qp->addresses;
		qp->addresses = address;
	}
	address->remote = *remote;
	address->ah = path->handle;
	return 0;
}

static int step_rtr(struct beest_qp *qp, struct beest_connection *path)
{
	return beest_transition_take(BEEST_TO_RTR, qp->qp, &qp->local, path);
}

/* Does the peer learn of what this end changes?  Not in a mesh, where all agree once. */
static bool qp_is_shown(const struct beest_qp *qp)
{
	return qp->key[0] || qp->by_bytes;
}

/*
 * May a device have refused RTR since too little is left of what all its queue pairs share for
 * reads and atomics of peers?
 */
static bool reads_may_be_why(const struct beest_qp *qp, int ret)
{
	const struct ibv_device_attr *limits = &qp->device->attr;
	int64_t all = (int64_t)limits->max_qp * qp->local.endpoint.max_dest_rd_atomic;

	return (ret == -EINVAL || ret == -ENOMEM || ret == -ENOSPC) &&
	       limits->max_res_rd_atom > 0 && limits->max_res_rd_atom < all;
}

/*
 * INIT -> RTR, with as many reads and atomics of the peer as the device still has resources for.
 * A peer that has the earlier number finds another generation in the record, and connects again.
 */
static int qp_reach_rtr(struct beest_qp *qp, struct beest_connection *path)
{
	uint8_t *reads = &qp->local.endpoint.max_dest_rd_atomic, wanted = *reads;
	char sentence[BEEST_ERROR_SIZE];
	int ret, last;

	ret = last = qp_source_try(qp, path, step_rtr);
	if (ret == 0 || !qp_is_shown(qp))
		return ret;
	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	while (last < 0 && reads_may_be_why(qp, last)) {
		*reads /= 2;
		last = step_rtr(qp, path);
	}
	if (last < 0) {
		*reads = wanted;
		return beest_fail(-ret, "%s", sentence);
	}

	qp_draw_generation(qp);
	beest_log(qp->port->log, BEEST_LOG_WARN, "queue pair '%s' answers %d reads and atomics at "
		  "once instead of %d: device %s has resources for %d in total "
		  "(qp_attr.max_dest_rd_atomic)", qp->node.name, *reads, wanted,
		  qp->device->name, qp->device->attr.max_res_rd_atom);
	return 0;
}

/* This end can do fewer than it has published: its peer has to learn that, and to do without. */
static void ece_lower(struct beest_qp *qp, uint32_t options, const char *why)
{
	uint32_t *offered = &qp->local.endpoint.ece.options;

	beest_log(qp->port->log, BEEST_LOG_WARN, "queue pair '%s': %s: device %s does with ECE "
		  "options 0x%x instead of 0x%x%s", qp->node.name, why, qp->device->name, options,
		  *offered, qp_is_shown(qp) ? "" : "; the peer may use them all: set "
		  "qp_attr.ece=off at both ends");
	*offered = options;
	qp_draw_generation(qp);
}

/*
 * Sets the options of both ends before RTR.  A queue pair that had others before a reset needs that
 * even if there are none.
 */
static void ece_enter(struct beest_qp *qp, struct beest_connection *path)
{
	char why[96];
	int ret;

	if (!qp->local.endpoint.ece.vendor)
		return;
	ret = beest_newer_ece_set(qp->qp, &path->ece);
	if (ret == 0)
		return;
	snprintf(why, sizeof(why), "ibv_set_ece(3) failed: %s", strerror(-ret));
	path->ece.options = 0;
	ece_lower(qp, 0, why);
}

/* In RTR, the device has what it made of them. */
static void ece_read_back(struct beest_qp *qp, struct beest_connection *path)
{
	struct beest_ece used;

	if (!path->ece.options)
		return;
	used = beest_newer_ece_of(qp->qp);
	used = beest_transition_ece(&path->ece, &used);
	if (used.options != path->ece.options)
		ece_lower(qp, used.options, "the device accepted fewer");
	path->ece = used;
}

/* Warns of reads and atomics that the devices make impossible, though no option forbids them. */
static void qp_warn_of_reads(const struct beest_qp *qp, const struct beest_connection *path)
{
	const struct beest_log *log = qp->port->log;
	char text[192];

	if (qp->local.transport != BEEST_RC || log->level < BEEST_LOG_WARN)
		return;
	if (path->attr.max_rd_atomic == 0 && qp->local.options->max_rd_atomic > 0) {
		snprintf(text, sizeof(text), "cannot read from its peer, nor use atomics there: %s",
			 qp->local.max_init_rd_atomic == 0 ? "the device of this end has no reads" :
			 "the peer answers none (its device, or qp_attr.max_dest_rd_atomic there)");
		beest_log(log, beest_log_once(log, BEEST_LOG_WARN, text), "queue pair '%s' %s",
			  qp->node.name, text);
	}
	if (qp->local.endpoint.max_dest_rd_atomic == 0 &&
	    qp->local.options->max_dest_rd_atomic != 0)
		beest_log(log, beest_log_once(log, BEEST_LOG_WARN, "reads in"), "queue pair '%s' "
			  "answers no reads and atomics of its peer: device %s has no resources "
			  "for them", qp->node.name, qp->device->name);
}

static void qp_log_connection(const struct beest_qp *qp, const struct beest_connection *path)
{
	const struct beest_log *log = qp->port->log;
	char agreed[384];

	if (log->level < BEEST_LOG_INFO)
		return;		/* making the text took half the instructions of a connection */
	beest_transition_agreed_text(&qp->local, &qp->remote, path, agreed, sizeof(agreed));
	beest_log(log, beest_log_once(log, BEEST_LOG_INFO, agreed),
		  "queue pair '%s' (%s, QP %" PRIu32
		  ") connected to '%s' (QP %" PRIu32 " of %s): %s%s", qp->node.name,
		  qp->local.label, qp->qp->qp_num, qp->peer_key, qp->remote.qp_num,
		  BEEST_PEER_TEXT(&qp->remote), agreed,
		  qp->port->pathcache ? ", path by rdma_cm" : "");
}

int beest_qp_agree(const struct beest_qp *qp, const struct beest_endpoint *remote,
		   struct beest_connection *path)
{
	int lost, ret = beest_transition_agree(&qp->local, remote, path);
	char sentence[BEEST_ERROR_SIZE];
	struct beest_gid_entry found;

	if (ret != -EPROTO)
		return ret;
	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	lost = beest_port_check_former(qp->port, &qp->local.endpoint, remote);
	if (lost < 0)
		return lost;
	if (beest_port_find_fitting(qp->port, &qp->local.endpoint, remote, &found)) {
		beest_port_forget(qp->port);
		return beest_fail(EPROTO, "%s; this end has the GID %s (%s) by now, which "
				  "hartebeest_qp_reset() and hartebeest_qp_publish() choose",
				  sentence, BEEST_GID_TEXT(&found.gid),
				  beest_endpoint_roce_text(found.roce));
	}

	return beest_fail(EPROTO, "%s", sentence);
}

void beest_qp_share_reads(struct beest_qp *qp, size_t count)
{
	int total = qp->device->attr.max_res_rd_atom;

	if (total > 0 && qp->local.endpoint.max_dest_rd_atomic > total / count)
		qp->local.endpoint.max_dest_rd_atomic = (uint8_t)(total / count);
}

static int qp_find_way(struct beest_qp *qp, const struct beest_endpoint *remote,
		       const struct beest_limit *limit, struct beest_connection *path)
{
	int ret = 0;

	if (qp_is_shown(qp))
		ret = beest_qp_look_again(qp);
	if (ret >= 0)
		ret = beest_qp_agree(qp, remote, path);
	if (ret < 0)
		return ret;

	ret = source_check(qp, false, path);
	return ret < 0 || !qp->port->pathcache ? ret : qp_find_path(qp, remote, limit, path);
}

/* INIT -> RTR -> RTS.  A UD queue pair goes there once, for all its peers. */
static int qp_take_steps(struct beest_qp *qp, enum ibv_qp_state state, const char *key,
			 const struct beest_endpoint *remote, const struct beest_limit *limit,
			 int64_t *ready)
{
	struct beest_connection path;
	int ret;

	ret = qp_find_way(qp, remote, limit, &path);
	if (ret >= 0 && state == IBV_QPS_INIT) {
		ece_enter(qp, &path);
		ret = qp_reach_rtr(qp, &path);
	}
	if (ret >= 0 && state == IBV_QPS_INIT)
		ece_read_back(qp, &path);
	if (ready)
		*ready = beest_clock_now();
	if (ret >= 0 && state == IBV_QPS_INIT)
		ret = beest_transition_take(BEEST_TO_RTS, qp->qp, &qp->local, &path);
	if (ret >= 0 && qp->local.transport == BEEST_UD)
		ret = ud_peer_add(qp, key, remote, &path);
	if (ret < 0)
		return ret;

	qp->remote = *remote;
	beest_text_copy(qp->peer_key, sizeof(qp->peer_key), key);
	qp_warn_of_reads(qp, &path);
	qp_log_connection(qp, &path);
	return 0;
}

/* Each port of this host may be in a network of its own, as where fabrics have rails. */
static void qp_say_elsewhere(const struct beest_qp *qp, const struct beest_endpoint *remote,
			     int ret)
{
	char sentence[BEEST_ERROR_SIZE], label[72];

	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	if (qp->source.roce && beest_elsewhere_find(qp->device, &remote->gid, label))
		beest_fail(-ret, "%s; port %s of this host is in the peer's network: set "
			   "HARTEBEEST_DEVICE=%s (device.name)", sentence, label, label);
	else
		beest_fail(-ret, "%s", sentence);
}

int beest_qp_connect(struct beest_qp *qp, const char *key, const struct beest_endpoint *remote,
		     const struct beest_limit *limit, int64_t *ready)
{
	enum ibv_qp_state state;
	int ret;

	ret = beest_qp_state(qp, &state);
	if (ret < 0)
		return ret;
	if (!qp->port ||
	    (state != IBV_QPS_INIT && !(state == IBV_QPS_RTS && qp->local.transport == BEEST_UD)))
		return beest_fail(EISCONN, "queue pair '%s' is not in INIT%s%s: "
				  "hartebeest_qp_reset() or _reconnect()", qp->node.name,
				  qp->peer_key[0] ? " but connected to " : "", qp->peer_key);

	ret = qp_take_steps(qp, state, key, remote, limit, ready);
	if ((ret == -ENETUNREACH || ret == -EHOSTUNREACH || ret == -ETIMEDOUT) &&
	    beest_limit_is_short(limit))
		qp_say_elsewhere(qp, remote, ret);
	if (ret < 0 && qp->port->pathcache)
		beest_pathcache_forget(qp->port->pathcache, &remote->ip);
	return ret;
}
