/* SPDX-License-Identifier: MIT */
/* qp.c - exported functions of queue pairs, alone and many at once */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/base/sized.h"
#include "lib/core/bringup.h"
#include "lib/core/context.h"
#include "lib/core/export.h"
#include "lib/core/mesh.h"
#include "lib/core/pairs.h"
#include "lib/rendezvous/presence.h"
#include "lib/verbs/completion.h"
#include "lib/verbs/objects.h"
#include "lib/verbs/posting.h"
#include "lib/verbs/qp.h"

static int qp_create(struct hartebeest_context *hb, const char *name, const char *pd_name,
		     struct ibv_qp_init_attr *attr, struct ibv_qp **out)
{
	struct ibv_qp *verbs;
	struct ibv_pd *pd;
	struct beest_qp *qp = NULL;

	TRY(beest_table_name_available(&hb->objects, &beest_qp_kind, name));
	TRY(beest_context_find_pd(hb, pd_name, &pd));
	TRY(beest_qp_create(&hb->device, pd, hb->options.qp, attr, &qp));
	verbs = qp->qp;
	TRY(beest_context_add_qp(hb, name, qp));
	if (out)
		*out = verbs;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_qp_create(struct hartebeest_context *hb, const char *name,
					   struct hartebeest_qp_attr *attr,
					   struct ibv_qp **out)
{
	struct ibv_qp_init_attr init;
	struct hartebeest_qp_attr own;
	struct beest_cq *send, *receive;
	int ret;

	REQUIRE(hb, name, attr);
	TRY(BEEST_SIZED_COPY(qp_attr, attr, &own, sq_sig_all));
	REQUIRE(hb, attr->pd, attr->send_cq);
	TRY(beest_context_find_cq(hb, own.send_cq, &send));
	TRY(beest_context_find_cq(hb, own.recv_cq ? own.recv_cq : own.send_cq, &receive));
	memset(&init, 0, sizeof(init));
	if (own.srq)
		TRY(beest_context_find_srq(hb, own.srq, &init.srq));
	init.qp_context = own.qp_context;
	init.send_cq = send->node.handle;
	init.recv_cq = receive->node.handle;
	init.cap = own.cap;
	init.qp_type = own.type ? own.type : (enum ibv_qp_type)hb->options.qp[BEEST_RC].qp_type;
	init.sq_sig_all = own.sq_sig_all;
	ret = qp_create(hb, name, own.pd, &init, out);
	if (ret == 0)
		attr->cap = init.cap;
	return ret;
}

HARTEBEEST_EXPORT int hartebeest_qp_create_verbs(struct hartebeest_context *hb,
						 const char *name, const char *pd,
						 struct ibv_qp_init_attr *attr,
						 struct ibv_qp **out)
{
	REQUIRE(hb, name, pd, attr);
	REQUIRE(hb, attr->send_cq, attr->recv_cq);
	return qp_create(hb, name, pd, attr, out);
}

HARTEBEEST_EXPORT int hartebeest_qp_adopt(struct hartebeest_context *hb, const char *name,
					  struct ibv_qp *verbs)
{
	enum ibv_qp_state state;
	struct beest_qp *qp = NULL;
	int ret;

	REQUIRE(hb, name, verbs);
	TRY(beest_context_adoptable(hb, &beest_qp_kind, name, verbs->context, verbs));
	TRY(beest_qp_adopt(&hb->device, hb->options.qp, verbs, &qp));

	/*
	 * Reads back at once what the program chose for INIT, since it may not suit.  Other
	 * threads find the queue pair only after that; until then, this is its name in sentences.
	 */
	qp->node.name = (char *)name;
	ret = beest_qp_state(qp, &state);
	if (ret == 0 && state != IBV_QPS_RESET)
		ret = beest_bringup_init(hb, qp, NULL);
	if (ret < 0 && ret != -EISCONN)
		beest_table_free(&qp->node);
	else
		ret = beest_context_add_qp(hb, name, qp);
	return beest_call_done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_qp_get(struct hartebeest_context *hb, const char *name,
					struct ibv_qp **qp)
{
	struct beest_qp *found;

	REQUIRE(hb, name, qp);
	TRY(beest_context_find_qp(hb, name, &found));
	*qp = found->qp;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_qp_cap(struct hartebeest_context *hb, const char *name,
					struct ibv_qp_cap *cap)
{
	struct beest_qp *qp;

	REQUIRE(hb, name, cap);
	TRY(beest_context_find_qp(hb, name, &qp));
	*cap = qp->cap;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_qp_destroy(struct hartebeest_context *hb, const char *name)
{
	REQUIRE(hb, name);
	return beest_call_done(hb, beest_context_destroy(hb, &beest_qp_kind, name));
}

HARTEBEEST_EXPORT int hartebeest_qp_refill_set(struct hartebeest_context *hb,
					       const char *name,
					       int (*refill)(void *data, struct ibv_qp *qp),
					       void *data)
{
	struct beest_qp *qp;

	REQUIRE(hb, name);
	TRY(beest_context_find_qp(hb, name, &qp));
	qp->refill = refill;
	qp->refill_data = data;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_qp_init(struct hartebeest_context *hb, const char *name)
{
	struct beest_qp *qp;

	REQUIRE(hb, name);
	TRY(beest_context_find_qp(hb, name, &qp));
	return beest_call_done(hb, beest_bringup_init(hb, qp, NULL));
}

HARTEBEEST_EXPORT int hartebeest_qp_publish(struct hartebeest_context *hb, const char *name,
					    const char *key, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_qp *qp;

	REQUIRE_LIMIT(hb, name, key);
	TRY_LIMIT(beest_context_find_qp(hb, name, &qp));
	return beest_call_waited(hb, &limit, beest_bringup_publish(hb, qp, key, &limit));
}

HARTEBEEST_EXPORT int hartebeest_qp_fetch(struct hartebeest_context *hb,
					  const char *peer_key,
					  struct hartebeest_remote_qp *remote,
					  int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, peer_key);
	return beest_call_waited(hb, &limit, beest_bringup_fetch(hb, peer_key, remote, &limit));
}

HARTEBEEST_EXPORT int hartebeest_qp_connect(struct hartebeest_context *hb, const char *name,
					    const char *peer_key, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_qp *qp;

	REQUIRE_LIMIT(hb, name, peer_key);
	TRY_LIMIT(beest_context_find_qp(hb, name, &qp));
	return beest_call_waited(hb, &limit, beest_bringup_connect(hb, qp, peer_key, &limit));
}

HARTEBEEST_EXPORT int hartebeest_qp_confirm(struct hartebeest_context *hb, const char *name,
					    const char *peer_key, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_qp *qp;

	REQUIRE_LIMIT(hb, peer_key);
	if (name)
		TRY_LIMIT(beest_context_find_qp(hb, name, &qp));
	else
		TRY_LIMIT(beest_bringup_qp_of(hb, peer_key, &qp));
	return beest_call_waited(hb, &limit, beest_bringup_confirm(hb, qp, peer_key, &limit));
}

HARTEBEEST_EXPORT int hartebeest_qp_follow(struct hartebeest_context *hb, const char *name,
					   const char *peer_key,
					   struct hartebeest_remote_qp *remote,
					   int64_t deadline)
{
	struct beest_limit limit;
	struct beest_qp *qp;

	REQUIRE_LIMIT(hb, name, peer_key);
	TRY(beest_context_find_qp(hb, name, &qp));
	return beest_call_waited(hb, &limit,
				 beest_bringup_follow(hb, qp, peer_key, remote, &limit));
}

HARTEBEEST_EXPORT int hartebeest_qp_reset(struct hartebeest_context *hb, const char *name)
{
	struct beest_qp *qp;

	REQUIRE(hb, name);
	TRY(beest_context_find_qp(hb, name, &qp));
	return beest_call_done(hb, beest_qp_reset(qp));
}

HARTEBEEST_EXPORT int hartebeest_qp_reconnect(struct hartebeest_context *hb,
					      const char *name, const char *peer_key,
					      int64_t deadline)
{
	struct beest_limit limit;
	struct beest_qp *qp;

	REQUIRE_LIMIT(hb, name, peer_key);
	TRY_LIMIT(beest_context_find_qp(hb, name, &qp));
	return beest_call_waited(hb, &limit, beest_bringup_reconnect(hb, qp, peer_key, &limit));
}

HARTEBEEST_EXPORT int hartebeest_pairs_connect(struct hartebeest_context *hb,
					       struct hartebeest_pair *pairs, size_t count,
					       int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb);
	if (count)
		REQUIRE(hb, pairs);
	return beest_call_waited(hb, &limit, beest_pairs_connect(hb, pairs, count, &limit));
}

HARTEBEEST_EXPORT int hartebeest_qp_export(struct hartebeest_context *hb,
					   struct hartebeest_pair *pairs, size_t count,
					   void *bytes, size_t *size)
{
	REQUIRE(hb, pairs, size);
	if (!count)
		return beest_call_refuse(hb, __func__, "count is 0");
	return beest_call_done(hb, beest_export(hb, pairs, count, bytes, size));
}

HARTEBEEST_EXPORT int hartebeest_qp_import(struct hartebeest_context *hb,
					   struct hartebeest_pair *pairs, size_t count,
					   const void *bytes, size_t size, int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, pairs, bytes);
	if (!count)
		return beest_call_refuse(hb, __func__, "count is 0");
	return beest_call_waited(hb, &limit, beest_import(hb, pairs, count, bytes, size, &limit));
}

HARTEBEEST_EXPORT int hartebeest_qp_ud_address(struct hartebeest_context *hb, const char *name,
					       const char *peer_key,
					       struct hartebeest_ud_address *address)
{
	struct beest_qp *qp;

	REQUIRE(hb, name, peer_key, address);
	TRY(beest_context_find_qp(hb, name, &qp));
	return beest_call_done(hb, beest_qp_address(qp, peer_key, address));
}

HARTEBEEST_EXPORT int hartebeest_peer_text(struct hartebeest_context *hb,
					   const char *peer_key, char *text, size_t size,
					   int64_t deadline)
{
	char who[BEEST_PRESENCE_TEXT];
	struct beest_endpoint remote;
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, peer_key);
	if (size)
		REQUIRE(text);
	TRY(beest_bringup_peer(hb, peer_key, &remote));
	if (!hb->options.servers)	/* it was connected by bytes */
		return snprintf(text, size, "%s", BEEST_PEER_TEXT(&remote));
	TRY(beest_context_need_registry(hb, BEEST_KIND_QP, peer_key));
	return snprintf(text, size, "%s", beest_presence_find(hb->registry, remote.rank,
							      &remote.incarnation, &limit, who));
}

HARTEBEEST_EXPORT int hartebeest_peer_regions(struct hartebeest_context *hb,
					      const char *peer_key,
					      struct hartebeest_remote_mr *regions,
					      size_t count)
{
	REQUIRE(hb, peer_key);
	if (count)
		REQUIRE(regions);
	return beest_call_done(hb, beest_bringup_regions(hb, peer_key, regions, count));
}

/* Room for the longest sentence about a completion: three names, and what became of a peer. */
#define COMPLETION_TEXT_SIZE 2048

/* Adds why the peer did not answer, if this process has learned that before. */
static void peer_end_add(struct hartebeest_context *hb, const struct beest_endpoint *remote,
			 char *text, size_t size)
{
	struct beest_registry *registry = __atomic_load_n(&hb->registry, __ATOMIC_ACQUIRE);
	const char *fate = registry ? beest_presence_fate(registry, &remote->incarnation) : "";
	size_t used = strlen(text);

	if (fate[0] && remote->rank >= 0)
		snprintf(text + used, size - used, "; the peer is rank %" PRId32 "%s",
			 remote->rank, fate);
	else if (fate[0])
		snprintf(text + used, size - used, "; the peer is a process without rank%s", fate);
}

/* A queue pair with a name, or one of a mesh, written to @room.  NULL: not of this context. */
static const struct beest_qp *qp_by_number(const struct hartebeest_context *hb, uint32_t qp_num,
					   struct beest_qp *room)
{
	const struct beest_qp *qp = beest_context_qp_by_number(hb, qp_num);

	if (!qp && beest_mesh_find_qp(hb, qp_num, room))
		qp = room;
	return qp;
}

HARTEBEEST_EXPORT int hartebeest_completion_text(struct hartebeest_context *hb,
						 const struct ibv_wc *wc, char *text,
						 size_t size)
{
	char whole[COMPLETION_TEXT_SIZE];
	struct beest_endpoint remote;
	const struct beest_qp *qp;
	struct beest_qp room;
	bool unanswered;

	REQUIRE(hb, wc);
	if (size)
		REQUIRE(text);
	pthread_mutex_lock(&hb->objects.lock);
	qp = qp_by_number(hb, wc->qp_num, &room);
	beest_completion_text(qp, wc, whole, sizeof(whole));
	unanswered = beest_completion_is_unanswered(qp, wc);
	if (unanswered)
		remote = qp->remote;
	pthread_mutex_unlock(&hb->objects.lock);

	if (unanswered)
		peer_end_add(hb, &remote, whole, sizeof(whole));
	return snprintf(text, size, "%s", whole);
}

HARTEBEEST_EXPORT int hartebeest_post_text(struct hartebeest_context *hb, struct ibv_qp *qp,
					   const struct ibv_send_wr *wr, int ret, char *text,
					   size_t size)
{
	struct beest_qp room;
	int length;

	REQUIRE(hb, qp);
	if (size)
		REQUIRE(text);
	if (ret == 0)
		return beest_call_refuse(hb, __func__, "ret is 0: the post succeeded");
	pthread_mutex_lock(&hb->objects.lock);
	length = beest_posting_text(qp_by_number(hb, qp->qp_num, &room), qp, wr,
				    ret < 0 ? -ret : ret, text, size);
	pthread_mutex_unlock(&hb->objects.lock);
	return length;
}
