/* SPDX-License-Identifier: MIT */
/*
 * api.c - every exported function of hartebeest.h
 *
 * Each validates, looks up, delegates.  Owns what all of them share: arguments are
 * checked here, and a failure is logged here, once, as the call returns.  Exceptions:
 * context.c logs the failure of hartebeest_open(), and nobody logs those of rank, size,
 * job, origin and option_get.  hartebeest.h has the contracts.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "include/hartebeest.h"
#include "lib/verbs/address.h"
#include "lib/verbs/completion.h"
#include "lib/core/context.h"
#include "lib/verbs/cq.h"
#include "lib/base/error.h"
#include "lib/rendezvous/message.h"
#include "lib/verbs/mr.h"
#include "lib/core/bringup.h"
#include "lib/core/pathquery.h"
#include "lib/verbs/pd.h"
#include "lib/core/handshake.h"
#include "lib/verbs/qp.h"

/* Last line of a function: the failure is complete here and nowhere below. */
static int done(const struct hartebeest *hb, int ret)
{
	if (ret < 0 && hb)
		beest_log(&hb->log, BEEST_LOG_ERROR, "%s", beest_error_text());
	return ret;
}

static int refuse_argument(const struct hartebeest *hb, const char *function, const char *why)
{
	return done(hb, beest_fail(EINVAL, "%s(): %s", function, why));
}

/* First lines of a function that takes pointers. */
#define REQUIRE_ARG(argument)								\
	do {									\
		if (!(argument))						\
			return refuse_argument(hb, __func__, #argument " is NULL");	\
	} while (0)

/* Objects by name: what most functions begin with. */
#define DEFINE_FIND(type)								\
	static int find_##type(struct hartebeest *hb, const char *name,		\
			       struct beest_##type **object)			\
	{									\
		struct beest_node *node;					\
		int ret;							\
										\
		ret = beest_context_find(hb, &beest_##type##_kind, name, &node);	\
		if (ret < 0)							\
			return ret;						\
										\
		*object = BEEST_CONTAINER(node, struct beest_##type, node);	\
		return 0;							\
	}

DEFINE_FIND(pd)
DEFINE_FIND(cq)
DEFINE_FIND(mr)
DEFINE_FIND(qp)

/* ------------------------------------------------------------- context --- */

HARTEBEEST_EXPORT int hartebeest_open(struct hartebeest **hbp, const char *const *options)
{
	if (!hbp)
		return refuse_argument(NULL, __func__, "hbp is NULL");
	return beest_context_open(hbp, options);
}

HARTEBEEST_EXPORT void hartebeest_close(struct hartebeest *hb)
{
	beest_context_close(hb);
}

HARTEBEEST_EXPORT const char *hartebeest_error(void)
{
	return beest_error_text();
}

HARTEBEEST_EXPORT int hartebeest_rank(const struct hartebeest *hb)
{
	REQUIRE_ARG(hb);
	if (hb->launch.rank < 0)
		return beest_fail(ENODATA, "the rank of this process is not known: set "
				  "HARTEBEEST_NID, or start it with srun or mpirun");
	return hb->launch.rank;
}

HARTEBEEST_EXPORT int hartebeest_size(const struct hartebeest *hb)
{
	REQUIRE_ARG(hb);
	if (hb->launch.participants.count == 0)
		return beest_fail(ENODATA, "the number of ranks is not known: set "
				  "HARTEBEEST_PARTICIPANTS, or start with srun or mpirun");
	return (int)hb->launch.participants.count;
}

HARTEBEEST_EXPORT const char *hartebeest_job(const struct hartebeest *hb)
{
	if (!hb) {
		beest_fail(EINVAL, "%s(): hb is NULL", __func__);
		return NULL;
	}
	return hb->launch.job;
}

HARTEBEEST_EXPORT const char *hartebeest_origin(const struct hartebeest *hb,
						const char **warning)
{
	if (!hb) {
		beest_fail(EINVAL, "%s(): hb is NULL", __func__);
		return NULL;
	}
	if (warning)
		*warning = hb->launch.warning;
	return hb->launch.source;
}

HARTEBEEST_EXPORT int hartebeest_context(struct hartebeest *hb, struct ibv_context **verbs)
{
	const struct beest_device *device;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(verbs);
	ret = beest_context_device(hb, &device);
	if (ret == 0)
		*verbs = device->verbs;
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_port(struct hartebeest *hb)
{
	const struct beest_device *device;
	int ret;

	REQUIRE_ARG(hb);
	ret = beest_context_device(hb, &device);
	return ret == 0 ? device->port : done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_address_text(struct hartebeest *hb, char *text, size_t size)
{
	const struct beest_device *device;
	int64_t pkey;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(text);
	if (size < 4)
		return refuse_argument(hb, __func__, "size is below 4");
	pkey = hb->options.qp[BEEST_RC].pkey;
	ret = beest_context_device(hb, &device);
	if (ret == 0)
		ret = beest_address_text(device, &hb->policy,
					 pkey == BEEST_AUTO ? 0 : (uint16_t)pkey, text, size);
	return done(hb, ret);
}

static void copy_path(const struct beest_pathrec *found, struct hartebeest_path *path)
{
	memset(path, 0, sizeof(*path));
	snprintf(path->device, sizeof(path->device), "%s", found->device);
	memcpy(path->sgid.raw, found->sgid.raw, sizeof(path->sgid.raw));
	memcpy(path->dgid.raw, found->dgid.raw, sizeof(path->dgid.raw));
	path->flow_label = found->flow_label;
	path->dlid = found->ethernet ? 0 : found->dlid;
	path->pkey = found->pkey;
	path->port = found->port;
	path->link_layer = found->ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
	path->sl = found->sl;
	path->src_path_bits = found->src_path_bits;
	path->mtu = found->mtu;
	path->rate = found->rate;
	path->hop_limit = found->hop_limit;
	path->traffic_class = found->traffic_class;
	path->life_time = found->life_time;
}

HARTEBEEST_EXPORT int hartebeest_resolve(struct hartebeest *hb, const char *ip,
					 struct hartebeest_path *path)
{
	struct beest_pathrec found;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(ip);
	REQUIRE_ARG(path);
	ret = beest_pathquery_ask(hb, ip, &found);
	if (ret == 0)
		copy_path(&found, path);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_option_get(const struct hartebeest *hb, const char *name,
					    char *text, size_t size, const char **source)
{
	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(text);
	if (size == 0)
		return refuse_argument(hb, __func__, "size is 0");
	return beest_options_text(&hb->options, name, text, size, source);
}

HARTEBEEST_EXPORT int hartebeest_log_set(struct hartebeest *hb, int level,
					 void (*write)(void *data, int level,
						       const char *text), void *data)
{
	REQUIRE_ARG(hb);
	if (level < HARTEBEEST_LOG_NONE || level > HARTEBEEST_LOG_DEBUG)
		return done(hb, beest_fail(EINVAL, "log level %d is not within %d..%d", level,
					   HARTEBEEST_LOG_NONE, HARTEBEEST_LOG_DEBUG));

	hb->log.level = level;
	hb->log.write = write;
	hb->log.data = data;
	return 0;
}

/* --------------------------------------------------------------- event --- */

HARTEBEEST_EXPORT int hartebeest_event_get(struct hartebeest *hb,
					   struct hartebeest_event *event, int64_t deadline)
{
	struct beest_events *events;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(event);
	ret = beest_context_events(hb, &events);
	return done(hb, ret < 0 ? ret : beest_events_get(events, event, deadline));
}

HARTEBEEST_EXPORT int hartebeest_event_fd(struct hartebeest *hb)
{
	struct beest_events *events;
	int ret;

	REQUIRE_ARG(hb);
	ret = beest_context_events(hb, &events);
	return done(hb, ret < 0 ? ret : beest_events_fd(events));
}

/* -------------------------------------- protection domain, completion queue --- */

static int pd_create(struct hartebeest *hb, const char *name, struct ibv_pd **out)
{
	const struct beest_device *device;
	struct beest_pd *pd;
	int ret;

	ret = beest_context_name_available(hb, &beest_pd_kind, name);
	if (ret == 0)
		ret = beest_context_device(hb, &device);
	if (ret == 0)
		ret = beest_pd_create(device, &pd);
	if (ret == 0)
		ret = beest_context_add(hb, &beest_pd_kind, name, &pd->node);
	if (ret == 0 && out)
		*out = pd->pd;
	return ret;
}

HARTEBEEST_EXPORT int hartebeest_pd_create(struct hartebeest *hb, const char *name,
					   struct ibv_pd **pd)
{
	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	return done(hb, pd_create(hb, name, pd));
}

HARTEBEEST_EXPORT int hartebeest_pd_get(struct hartebeest *hb, const char *name,
					struct ibv_pd **pd)
{
	struct beest_pd *found;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(pd);
	ret = find_pd(hb, name, &found);
	if (ret == 0)
		*pd = found->pd;
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_pd_destroy(struct hartebeest *hb, const char *name)
{
	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	return done(hb, beest_context_destroy(hb, &beest_pd_kind, name));
}

static int cq_create(struct hartebeest *hb, const char *name, int64_t depth,
		     struct ibv_cq **out)
{
	const struct beest_device *device;
	struct beest_cq *cq;
	int ret;

	ret = beest_context_name_available(hb, &beest_cq_kind, name);
	if (ret == 0)
		ret = beest_context_device(hb, &device);
	if (ret == 0)
		ret = beest_cq_create(device, depth, &cq);
	if (ret == 0)
		ret = beest_context_add(hb, &beest_cq_kind, name, &cq->node);
	if (ret == 0 && out)
		*out = cq->cq;
	return ret;
}

HARTEBEEST_EXPORT int hartebeest_cq_create(struct hartebeest *hb, const char *name, int depth,
					   struct ibv_cq **cq)
{
	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	if (depth < 0)
		return done(hb, beest_fail(EINVAL, "a completion queue cannot have %d entries",
					   depth));
	return done(hb, cq_create(hb, name, depth ? depth : hb->options.cq_depth, cq));
}

HARTEBEEST_EXPORT int hartebeest_cq_get(struct hartebeest *hb, const char *name,
					struct ibv_cq **cq)
{
	struct beest_cq *found;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(cq);
	ret = find_cq(hb, name, &found);
	if (ret == 0)
		*cq = found->cq;
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_cq_destroy(struct hartebeest *hb, const char *name)
{
	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	return done(hb, beest_context_destroy(hb, &beest_cq_kind, name));
}

/* ------------------------------------------------------- memory region --- */

/* What precedes and follows each of the three ways to make a region. */
static int mr_begin(struct hartebeest *hb, const char *name, const char *pd_name,
		    size_t length, struct beest_pd **pd)
{
	int ret;

	if (length == 0)
		return beest_fail(EINVAL, "memory region '%s' would be empty", name);

	ret = beest_context_name_available(hb, &beest_mr_kind, name);
	return ret < 0 ? ret : find_pd(hb, pd_name, pd);
}

static int mr_end(struct hartebeest *hb, const char *name, int ret, struct beest_mr *mr,
		  struct ibv_mr **out)
{
	if (ret < 0)
		return beest_fail_prefix(ret, "memory region '%s'", name);

	ret = beest_context_add(hb, &beest_mr_kind, name, &mr->node);
	if (ret == 0 && out)
		*out = mr->mr;
	return ret;
}

HARTEBEEST_EXPORT int hartebeest_mr_create(struct hartebeest *hb, const char *name,
					   const char *pd, size_t length, int access,
					   struct ibv_mr **out)
{
	struct beest_pd *domain;
	struct beest_mr *mr = NULL;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(pd);
	ret = mr_begin(hb, name, pd, length, &domain);
	if (ret < 0)
		return done(hb, ret);

	ret = beest_mr_create(domain->pd, length, access,
			      hb->options.mr_huge_pages != 0, &hb->log, &mr);
	return done(hb, mr_end(hb, name, ret, mr, out));
}

HARTEBEEST_EXPORT int hartebeest_mr_register(struct hartebeest *hb, const char *name,
					     const char *pd, void *address, size_t length,
					     int access, struct ibv_mr **out)
{
	struct beest_pd *domain;
	struct beest_mr *mr = NULL;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(pd);
	REQUIRE_ARG(address);
	ret = mr_begin(hb, name, pd, length, &domain);
	if (ret < 0)
		return done(hb, ret);

	ret = beest_mr_register(domain->pd, address, length, access, &mr);
	return done(hb, mr_end(hb, name, ret, mr, out));
}

HARTEBEEST_EXPORT int hartebeest_mr_register_dmabuf(struct hartebeest *hb, const char *name,
						    const char *pd, int fd, uint64_t offset,
						    size_t length, uint64_t iova, int access,
						    struct ibv_mr **out)
{
	struct beest_pd *domain;
	struct beest_mr *mr = NULL;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(pd);
	ret = mr_begin(hb, name, pd, length, &domain);
	if (ret < 0)
		return done(hb, ret);

	ret = beest_mr_register_dmabuf(domain->pd, fd, offset, length, iova, access,
				       &mr);
	return done(hb, mr_end(hb, name, ret, mr, out));
}

HARTEBEEST_EXPORT int hartebeest_mr_get(struct hartebeest *hb, const char *name,
					struct ibv_mr **mr)
{
	struct beest_mr *found;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(mr);
	ret = find_mr(hb, name, &found);
	if (ret == 0)
		*mr = found->mr;
	return done(hb, ret);
}

/* Called after the object is destroyed: one that is in use (-EBUSY) stays published. */
static void withdraw_records(struct hartebeest *hb, uint64_t owner)
{
	if (owner)
		beest_board_withdraw(hb->board, owner);
}

HARTEBEEST_EXPORT int hartebeest_mr_destroy(struct hartebeest *hb, const char *name)
{
	struct beest_mr *mr;
	uint64_t owner = 0;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	ret = find_mr(hb, name, &mr);
	if (ret == 0) {
		owner = mr->owner;
		ret = beest_context_destroy(hb, &beest_mr_kind, name);
	}
	if (ret == 0)
		withdraw_records(hb, owner);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_mr_publish(struct hartebeest *hb, const char *name,
					    const char *key)
{
	struct beest_board *board;
	struct beest_mr *mr;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(key);
	ret = find_mr(hb, name, &mr);
	if (ret == 0)
		ret = beest_context_board(hb, &board);
	if (ret == 0)
		ret = beest_mr_publish(board, mr, key);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_mr_fetch(struct hartebeest *hb, const char *key,
					  struct hartebeest_remote_mr *mr)
{
	struct beest_mr_payload payload;
	struct beest_board *board;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(key);
	REQUIRE_ARG(mr);
	ret = beest_context_board(hb, &board);
	if (ret == 0)
		ret = beest_mr_fetch(board, key, &payload);
	if (ret < 0)
		return done(hb, ret);

	mr->address = payload.address;
	mr->length = payload.length;
	mr->rkey = payload.rkey;
	mr->access = payload.access;
	return 0;
}

/* ---------------------------------------------------------- queue pair --- */

static int qp_create(struct hartebeest *hb, const char *name, const char *pd_name,
		     struct ibv_qp_init_attr *attr, struct ibv_qp **out)
{
	const struct beest_device *device;
	struct beest_pd *pd;
	struct beest_qp *qp;
	int ret, transport;

	transport = beest_transition_transport(attr->qp_type);
	if (transport < 0)
		return transport;

	ret = beest_context_name_available(hb, &beest_qp_kind, name);
	if (ret == 0)
		ret = find_pd(hb, pd_name, &pd);
	if (ret == 0)
		ret = beest_context_device(hb, &device);
	if (ret == 0)
		ret = beest_qp_create(device, pd->pd, &hb->options.qp[transport], attr, &qp);
	if (ret == 0)
		qp->router = beest_context_pathcache(hb);
	if (ret == 0)
		ret = beest_context_add(hb, &beest_qp_kind, name, &qp->node);
	if (ret == 0)
		beest_qp_warn_of_depth(qp, &hb->log);
	if (ret == 0 && out)
		*out = qp->qp;
	return ret;
}

HARTEBEEST_EXPORT int hartebeest_qp_create(struct hartebeest *hb, const char *name,
					   const char *pd, int type, const char *send_cq,
					   const char *recv_cq, struct ibv_qp **out)
{
	struct ibv_qp_init_attr attr;
	struct beest_cq *send, *receive;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(pd);
	REQUIRE_ARG(send_cq);
	REQUIRE_ARG(recv_cq);
	ret = find_cq(hb, send_cq, &send);
	if (ret == 0)
		ret = find_cq(hb, recv_cq, &receive);
	if (ret < 0)
		return done(hb, ret);

	memset(&attr, 0, sizeof(attr));
	attr.qp_type = (enum ibv_qp_type)(type ? type : hb->options.qp[BEEST_RC].qp_type);
	attr.send_cq = send->cq;
	attr.recv_cq = receive->cq;
	return done(hb, qp_create(hb, name, pd, &attr, out));
}

HARTEBEEST_EXPORT int hartebeest_qp_create_attr(struct hartebeest *hb, const char *name,
						const char *pd,
						struct ibv_qp_init_attr *attr,
						struct ibv_qp **out)
{
	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(pd);
	REQUIRE_ARG(attr);
	REQUIRE_ARG(attr->send_cq);
	REQUIRE_ARG(attr->recv_cq);
	return done(hb, qp_create(hb, name, pd, attr, out));
}

HARTEBEEST_EXPORT int hartebeest_qp_get(struct hartebeest *hb, const char *name,
					struct ibv_qp **qp)
{
	struct beest_qp *found;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(qp);
	ret = find_qp(hb, name, &found);
	if (ret == 0)
		*qp = found->qp;
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_qp_cap(struct hartebeest *hb, const char *name,
					struct ibv_qp_cap *cap)
{
	struct beest_qp *qp;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(cap);
	ret = find_qp(hb, name, &qp);
	if (ret == 0)
		*cap = qp->cap;
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_qp_destroy(struct hartebeest *hb, const char *name)
{
	struct beest_qp *qp;
	uint64_t owner = 0;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	ret = find_qp(hb, name, &qp);
	if (ret == 0) {
		owner = qp->owner;
		beest_peer_unannounce(hb->board, qp);
		ret = beest_context_destroy(hb, &beest_qp_kind, name);
	}
	if (ret == 0)
		withdraw_records(hb, owner);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_qp_refill_set(struct hartebeest *hb, const char *name,
					       int (*refill)(void *data, struct ibv_qp *qp),
					       void *data)
{
	struct beest_qp *qp;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	ret = find_qp(hb, name, &qp);
	if (ret < 0)
		return done(hb, ret);

	qp->refill = refill;
	qp->refill_data = data;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_qp_init(struct hartebeest *hb, const char *name)
{
	struct beest_qp *qp;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	ret = find_qp(hb, name, &qp);
	if (ret == 0)
		ret = beest_bringup_init(hb, qp);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_qp_publish(struct hartebeest *hb, const char *name,
					    const char *key)
{
	struct beest_qp *qp;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(key);
	ret = find_qp(hb, name, &qp);
	if (ret == 0)
		ret = beest_bringup_publish(hb, qp, key);
	return done(hb, ret);
}

static void copy_remote(const struct beest_peer *peer, struct hartebeest_remote_qp *remote)
{
	memset(remote, 0, sizeof(*remote));
	remote->qp_type = (enum ibv_qp_type)peer->card.qp_type;
	remote->qp_num = peer->card.qp_num;
	remote->psn = peer->card.sq_psn;
	remote->qkey = peer->card.qkey;
	remote->lid = peer->card.lid;
	remote->pkey = peer->card.pkey;
	memcpy(remote->gid.raw, peer->card.gid, sizeof(remote->gid.raw));
	memcpy(remote->address.raw, peer->card.address, sizeof(remote->address.raw));
	remote->rank = peer->author.rank;
	remote->pid = peer->author.pid;
	snprintf(remote->host, sizeof(remote->host), "%s", peer->author.host);
	snprintf(remote->device, sizeof(remote->device), "%s", peer->card.device);
}

HARTEBEEST_EXPORT int hartebeest_qp_fetch(struct hartebeest *hb, const char *key,
					  struct hartebeest_remote_qp *remote)
{
	struct beest_peer peer;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(key);
	ret = beest_bringup_fetch(hb, key, &peer);
	if (ret == 0 && remote)
		copy_remote(&peer, remote);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_qp_connect(struct hartebeest *hb, const char *name,
					    const char *key)
{
	struct beest_qp *qp;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(key);
	ret = find_qp(hb, name, &qp);
	if (ret == 0)
		ret = beest_bringup_connect(hb, qp, key);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_qp_confirm(struct hartebeest *hb, const char *name,
					    const char *key)
{
	struct beest_qp *qp;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(key);
	ret = find_qp(hb, name, &qp);
	if (ret == 0)
		ret = beest_bringup_confirm(hb, qp, key);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_qp_follow(struct hartebeest *hb, const char *name,
					   const char *key,
					   struct hartebeest_remote_qp *remote)
{
	struct beest_qp *qp;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(key);
	ret = find_qp(hb, name, &qp);
	if (ret == 0)
		ret = beest_bringup_follow(hb, qp, key);
	if (ret == 1 && remote)
		copy_remote(&qp->peer, remote);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_qp_reset(struct hartebeest *hb, const char *name)
{
	struct beest_qp *qp;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	ret = find_qp(hb, name, &qp);
	if (ret == 0)
		ret = beest_bringup_reset(hb, qp);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_qp_reconnect(struct hartebeest *hb, const char *name,
					      const char *key)
{
	struct beest_qp *qp;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(key);
	ret = find_qp(hb, name, &qp);
	if (ret == 0)
		ret = beest_bringup_reconnect(hb, qp, key);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_qp_address(struct hartebeest *hb, const char *name,
					    const char *key,
					    struct hartebeest_address *address)
{
	const struct beest_ud_peer *found;
	struct beest_qp *qp;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	REQUIRE_ARG(key);
	REQUIRE_ARG(address);
	ret = find_qp(hb, name, &qp);
	if (ret == 0)
		ret = beest_qp_address(qp, key, &found);
	if (ret < 0)
		return done(hb, ret);

	address->ah = found->ah;
	address->qp_num = found->peer.card.qp_num;
	address->qkey = found->peer.card.qkey;
	return 0;
}

/* ---------------------------------------------------------- completion --- */

static const struct beest_qp *qp_by_number(const struct hartebeest *hb, uint32_t qp_num)
{
	struct beest_node *node;
	struct beest_qp *qp;

	for (node = hb->objects.newest; node; node = node->older) {
		if (node->kind != &beest_qp_kind)
			continue;
		qp = BEEST_CONTAINER(node, struct beest_qp, node);
		if (qp->qp->qp_num == qp_num)
			return qp;
	}

	return NULL;
}

HARTEBEEST_EXPORT int hartebeest_completion_text(struct hartebeest *hb,
						 const struct ibv_wc *wc, char *text,
						 size_t size)
{
	REQUIRE_ARG(hb);
	REQUIRE_ARG(wc);
	REQUIRE_ARG(text);
	if (size == 0)
		return refuse_argument(hb, __func__, "size is 0");
	pthread_mutex_lock(&hb->naming);
	beest_completion_text(qp_by_number(hb, wc->qp_num), wc, text, size);
	pthread_mutex_unlock(&hb->naming);
	return 0;
}

/* ----------------------------------------------------- message, barrier --- */

HARTEBEEST_EXPORT int hartebeest_msg_push(struct hartebeest *hb, const char *key,
					  const void *data, size_t length)
{
	struct beest_board *board;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(key);
	if (!data && length)
		return refuse_argument(hb, __func__, "data is NULL");
	ret = beest_context_board(hb, &board);
	if (ret == 0)
		ret = beest_message_push(board, key, data, length);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_msg_wait(struct hartebeest *hb, const char *key,
					  void *buffer, size_t size, size_t *length)
{
	struct beest_board *board;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(key);
	if (!buffer && size)
		return refuse_argument(hb, __func__, "buffer is NULL");
	ret = beest_context_board(hb, &board);
	if (ret == 0)
		ret = beest_message_wait(board, key, buffer, size, length);
	return done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_msg_delete(struct hartebeest *hb, const char *key)
{
	struct beest_board *board;
	int ret;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(key);
	ret = beest_context_board(hb, &board);
	if (ret == 0)
		ret = beest_message_delete(board, key);
	return done(hb, ret);
}

static int find_or_add_barrier(struct hartebeest *hb, const char *name,
			       struct beest_barrier **barrier)
{
	struct beest_node *node;
	int ret;

	pthread_mutex_lock(&hb->naming);
	node = beest_table_look(&hb->objects, &beest_barrier_kind, name);
	pthread_mutex_unlock(&hb->naming);
	if (node) {
		*barrier = BEEST_CONTAINER(node, struct beest_barrier, node);
		return 0;
	}

	ret = beest_barrier_create(barrier);
	return ret < 0 ? ret : beest_context_add(hb, &beest_barrier_kind, name,
						 &(*barrier)->node);
}

HARTEBEEST_EXPORT int hartebeest_barrier(struct hartebeest *hb, const char *name)
{
	struct beest_barrier *barrier;
	struct beest_board *board;
	int ret, rank;

	REQUIRE_ARG(hb);
	REQUIRE_ARG(name);
	rank = hartebeest_rank(hb);
	ret = rank < 0 ? rank : hartebeest_size(hb);
	if (ret > 0)
		ret = beest_context_board(hb, &board);
	if (ret == 0)
		ret = find_or_add_barrier(hb, name, &barrier);
	if (ret == 0)
		ret = beest_barrier_wait(board, barrier, &hb->launch.participants, rank);
	return done(hb, ret);
}
