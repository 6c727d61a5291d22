/* SPDX-License-Identifier: MIT */
/* meshqps.c - see meshqps.h */
#include "config.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/core/context.h"
#include "lib/core/meshqps.h"
#include "lib/verbs/objects.h"
#include "lib/verbs/quota.h"
#include "lib/verbs/retry.h"

/* Defaults are small, since a larger queue pair takes longer to create. */
#define DEFAULT_REQUESTS 16
#define DEFAULT_ELEMENTS 1

#define PSN_MASK 0xffffff

static bool qps_are_datagram(const struct beest_meshqps *qps)
{
	return qps->model->local.transport == BEEST_UD;
}

/* ------------------------------------------------------------------------- making --- */

static int pd_find(struct beest_meshqps *qps, const char *name)
{
	int ret;

	if (name)
		return beest_context_find_pd(qps->hb, name, &qps->pd);
	ret = beest_pd_alloc(&qps->hb->device, &qps->pd);
	qps->own_pd = ret == 0;
	return ret;
}

/* Before the first is made: making as many as there are may take minutes. */
static int count_check(const struct beest_meshqps *qps)
{
	const struct beest_device *device = &qps->hb->device;

	if (device->attr.max_qp <= 0 || qps->count <= (size_t)device->attr.max_qp)
		return 0;		/* a driver may not know */

	return beest_fail(ERANGE, "this rank needs %zu queue pairs, but %s allows all processes "
			  "together %d: name the ranks that it needs (attr->peers), or take "
			  "IBV_QPT_UD, which has one queue pair for all", qps->count, device->label,
			  device->attr.max_qp);
}

/* All queue pairs share one completion queue, with room for all they may have under way. */
static int cq_find(struct beest_meshqps *qps, const char *name, uint64_t depth)
{
	const struct beest_device *device = &qps->hb->device;
	struct hartebeest_cq_attr attr;
	struct beest_cq *found;
	int ret;

	if (name) {
		ret = beest_context_find_cq(qps->hb, name, &found);
		if (ret == 0)
			qps->cq = found->node.handle;
		return ret;
	}
	if (depth > (uint64_t)device->attr.max_cqe)
		return beest_fail(ERANGE, "%zu queue pair%s may have %" PRIu64 " requests under "
				  "way, but a completion queue of %s has %d entries at most: take "
				  "a smaller attr->cap or attr->qps_per_peer", qps->count,
				  qps->count == 1 ? "" : "s", depth, device->label,
				  device->attr.max_cqe);
	hartebeest_cq_attr_init(&attr);
	attr.depth = (uint32_t)depth;
	ret = beest_cq_alloc(device, &attr, NULL, &qps->cq);
	qps->own_cq = ret == 0;
	return ret;
}

static void init_attr_fill(const struct hartebeest_mesh_attr *attr, struct ibv_qp_init_attr *init)
{
	memset(init, 0, sizeof(*init));
	init->qp_type = attr->type ? attr->type : IBV_QPT_RC;
	init->cap = attr->cap;
	init->cap.max_send_wr = attr->cap.max_send_wr ? attr->cap.max_send_wr : DEFAULT_REQUESTS;
	init->cap.max_recv_wr = attr->cap.max_recv_wr ? attr->cap.max_recv_wr : DEFAULT_REQUESTS;
	init->cap.max_send_sge = attr->cap.max_send_sge ? attr->cap.max_send_sge : DEFAULT_ELEMENTS;
	init->cap.max_recv_sge = attr->cap.max_recv_sge ? attr->cap.max_recv_sge : DEFAULT_ELEMENTS;
}

/*
 * Takes no inline data from the options: it was not requested for a mesh, and would make every
 * queue pair more expensive.
 */
static int model_make(struct beest_meshqps *qps, struct ibv_qp_init_attr *init)
{
	struct beest_qp_options *all = qps->hb->options.qp;
	int transport = beest_transition_transport(init->qp_type);
	struct beest_qp_options plain[BEEST_TRANSPORTS];
	int ret;

	if (transport < 0)
		return transport;
	memcpy(plain, all, sizeof(plain));
	plain[transport].max_inline_data = 0;
	ret = beest_qp_create(&qps->hb->device, qps->pd, plain, init, &qps->model);
	if (ret < 0)
		return ret;
	qps->model->local.options = &all[transport];
	qps->model->node.name = (char *)qps->name;
	qps->slots[0] = qps->model->qp;

	return 0;
}

/*
 * Makes @qp, a copy of the model, stand for the queue pair in @slot.  What is set here is all
 * that differs between them, so one copy serves for one queue pair after the other.
 */
static void qp_select(const struct beest_meshqps *qps, size_t slot, struct beest_qp *qp)
{
	uint32_t psn = qps->model->local.endpoint.psn;

	qp->qp = qps->slots[slot];
	qp->local.endpoint.qp_num = qp->qp->qp_num;
	if (qp->local.options->sq_psn == BEEST_AUTO)
		qp->local.endpoint.psn = (psn + (uint32_t)slot) & PSN_MASK;
	qp->peer_key[0] = '\0';
}

/* The position of the rank that the queue pair in @slot is for. */
static size_t slot_position(const struct beest_meshqps *qps, size_t slot)
{
	size_t i = slot / qps->per_peer;

	return qps->peers ? qps->peers[i] : (qps->own + 1 + i) % qps->ranks->count;
}

static int qp_fill(const struct beest_meshqps *qps, size_t slot)
{
	int rank, ret;

	if (!qps->attr.refill || (!qps->peer_count && !qps_are_datagram(qps)))
		return 0;
	rank = qps_are_datagram(qps) ? -1 : qps->ranks->id[slot_position(qps, slot)];
	ret = qps->attr.refill(qps->attr.refill_data, rank, qps->slots[slot]);
	if (ret >= 0)
		return 0;

	if (rank < 0)
		beest_quota_refill(qps->slots[slot], ret, "the refill function of mesh '%s' failed",
				   qps->name);
	else
		beest_quota_refill(qps->slots[slot], ret, "the refill function of mesh '%s' failed "
				   "for rank %d", qps->name, rank);
	beest_transition_reset(qps->slots[slot]);	/* so that the next try calls it again */
	return ret;
}

static int qp_make(struct beest_meshqps *qps, size_t slot, struct ibv_qp_init_attr *init,
		   struct beest_qp *qp)
{
	qps->slots[slot] = beest_qp_alloc(qps->pd, init);
	if (!qps->slots[slot])
		return beest_quota_fail(BEEST_QUOTA_QP, qps->pd->context, beest_error_errno(),
					"%s: cannot create queue pair %zu of %zu",
					qps->model->local.label, slot + 1, qps->count);
	qp_select(qps, slot, qp);

	return beest_qp_init_again(qp);
}

static int qps_make(struct beest_meshqps *qps, struct ibv_qp_init_attr *init,
		    const struct beest_limit *limit)
{
	struct beest_qp qp;
	size_t slot;
	int ret;

	ret = model_make(qps, init);
	if (ret == 0)
		do
			ret = beest_qp_init(qps->model, &qps->hb->port);
		while (beest_retry(&ret, limit, &qps->hb->log));
	if (ret == 0) {
		beest_qp_share_reads(qps->model, qps->count);
		qp = *qps->model;
	}
	for (slot = 1; slot < qps->count && ret == 0; slot++)
		ret = qp_make(qps, slot, init, &qp);
	for (slot = 0; slot < qps->count && ret == 0; slot++)
		ret = qp_fill(qps, slot);

	return ret;
}

/* @sign: 1 or -1 */
static void qps_load(struct beest_meshqps *qps, int sign)
{
	int64_t each = beest_qp_requests(qps->model, qps->cq);
	char who[BEEST_KEY_MAX + 16];

	qps->loads = sign > 0;
	snprintf(who, sizeof(who), "mesh '%s'", qps->name);
	beest_context_load(qps->hb, qps->cq, sign * each * (int64_t)qps->count, who);
}

int beest_meshqps_make(struct beest_meshqps *qps, const struct beest_limit *limit)
{
	const struct hartebeest_mesh_attr *attr = &qps->attr;
	struct ibv_qp_init_attr init;
	int ret;

	init_attr_fill(attr, &init);
	qps->per_peer = attr->qps_per_peer ? attr->qps_per_peer : 1;
	qps->peer_count = qps->peers ? qps->peer_count : qps->ranks->count - 1;
	qps->count = qps->peer_count * qps->per_peer;
	if (init.qp_type == IBV_QPT_UD || !qps->count)
		qps->count = 1;
	qps->slots = calloc(qps->count, sizeof(*qps->slots));
	if (!qps->slots)
		return beest_fail(ENOMEM, "no memory for %zu queue pairs", qps->count);

	ret = beest_context_need_device(qps->hb, limit);
	if (ret == 0)
		ret = count_check(qps);
	if (ret == 0)
		ret = pd_find(qps, attr->pd);
	if (ret == 0)
		ret = cq_find(qps, attr->cq, (uint64_t)qps->count *
			      (init.cap.max_send_wr + init.cap.max_recv_wr));
	init.send_cq = init.recv_cq = qps->cq;
	if (ret == 0)
		ret = qps_make(qps, &init, limit);
	if (ret == 0 && !qps->own_cq)
		qps_load(qps, 1);

	return ret;
}

void beest_meshqps_end(struct beest_meshqps *qps)
{
	size_t slot;

	if (qps->loads)
		qps_load(qps, -1);
	for (slot = 1; slot < qps->count && qps->slots; slot++)
		if (qps->slots[slot])
			beest_qp_free(qps->slots[slot]);
	if (qps->model)
		beest_table_free(&qps->model->node);
	free(qps->slots);
	free(qps->peers);
	if (qps->own_cq)
		beest_cq_free(qps->cq);
	if (qps->own_pd)
		beest_pd_free(qps->pd);
}

/* ------------------------------------------------------------------------ numbers --- */

/* Where ranks choose their peers, the others do not know the order. */
bool beest_meshqps_is_in_row(const struct beest_meshqps *qps)
{
	size_t slot;

	if (qps->peers && !qps_are_datagram(qps))
		return false;
	for (slot = 1; slot < qps->count; slot++)
		if (qps->slots[slot]->qp_num != qps->slots[0]->qp_num + slot)
			return false;

	return true;
}

size_t beest_meshqps_slot(const struct beest_meshqps *qps, size_t from, size_t to)
{
	size_t count = qps->ranks->count;

	if (qps_are_datagram(qps))
		return 0;
	return ((to + count - from) % count - 1) * qps->per_peer;
}

/* The index among the peers of the rank at @position; peer_count: it is no peer. */
static size_t peer_index(const struct beest_meshqps *qps, size_t position)
{
	size_t low = 0, high = qps->peer_count, middle, count = qps->ranks->count;

	if (!qps->peers)	/* then this rank is last, at peer_count */
		return (position + count - qps->own - 1) % count;
	while (low < high) {
		middle = low + (high - low) / 2;
		if (qps->peers[middle] < position)
			low = middle + 1;
		else
			high = middle;
	}

	return low < qps->peer_count && qps->peers[low] == position ? low : qps->peer_count;
}

bool beest_meshqps_has_peer(const struct beest_meshqps *qps, size_t position)
{
	return peer_index(qps, position) < qps->peer_count;
}

struct ibv_qp *beest_meshqps_qp(const struct beest_meshqps *qps, size_t position,
				uint32_t index)
{
	size_t i = peer_index(qps, position);

	if (qps_are_datagram(qps))
		return position != qps->own && index == 0 ? qps->slots[0] : NULL;

	return i < qps->peer_count && index < qps->per_peer ?
	       qps->slots[i * qps->per_peer + index] : NULL;
}

/* --------------------------------------------------------------------- connecting --- */

/* The remote end of the connection number @index to @peer. */
static struct beest_endpoint remote_of(const struct beest_meshqps *qps,
				       const struct beest_meshqps_peer *peer, uint32_t index)
{
	struct beest_endpoint remote = peer->endpoint;
	size_t slot = peer->slot + index;

	remote.qp_num = peer->numbers ? peer->numbers[index] : remote.qp_num + (uint32_t)slot;
	if (qps->model->local.options->sq_psn == BEEST_AUTO)
		remote.psn = (remote.psn + (uint32_t)slot) & PSN_MASK;

	return remote;
}

/* Writes "rank %d".  printf(3) took a third of the instructions of a connection. */
static void peer_label(int rank, char who[24])
{
	char digits[12], *at = digits + sizeof(digits);

	*--at = '\0';
	do
		*--at = (char)('0' + rank % 10);
	while ((rank /= 10));
	memcpy(who, "rank ", 5);
	memcpy(who + 5, at, (size_t)(digits + sizeof(digits) - at));
}

/* Only the device knows for sure which number the queue pair is connected to. */
bool beest_meshqps_find(const struct beest_meshqps *qps, uint32_t qp_num, struct beest_qp *qp,
			size_t *position)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	size_t slot = 0;

	while (slot < qps->count && qps->slots[slot]->qp_num != qp_num)
		slot++;
	if (slot == qps->count)
		return false;

	*qp = *qps->model;
	qp_select(qps, slot, qp);
	*position = slot_position(qps, slot);
	if (!qps_are_datagram(qps))
		peer_label(qps->ranks->id[*position], qp->peer_key);
	if (ibv_query_qp(qp->qp, &attr, IBV_QP_DEST_QPN, &init) == 0)
		qp->remote.qp_num = attr.dest_qp_num;

	return true;
}

/* A queue pair of a mesh that is repaired goes back to INIT. */
static int qp_begin_again(const struct beest_meshqps *qps, size_t slot, struct beest_qp *qp)
{
	int ret;

	qp_select(qps, slot, qp);
	if (qp->qp->state == IBV_QPS_INIT)
		return 0;
	ret = beest_qp_reset(qp);
	if (ret == 0)
		ret = beest_qp_init_again(qp);

	return ret < 0 ? ret : qp_fill(qps, slot);
}

/* All by the caller's thread, since the program's refill() may not be ready for several. */
static int qps_begin_again(const struct beest_meshqps *qps,
			   const struct beest_meshqps_peer *peers, size_t count, size_t *culprit)
{
	struct beest_qp qp = *qps->model;
	size_t i, index, slot;
	char who[24];
	int ret = 0;

	if (qps_are_datagram(qps))
		return 0;
	for (i = 0; i < count && ret == 0; i++) {
		if (peers[i].connected)
			continue;
		*culprit = peers[i].position;
		slot = peer_index(qps, peers[i].position) * qps->per_peer;
		for (index = 0; index < qps->per_peer && ret == 0; index++)
			ret = qp_begin_again(qps, slot + index, &qp);
	}
	if (ret == 0)
		return 0;
	peer_label(qps->ranks->id[*culprit], who);

	return beest_fail_prefix(ret, "queue pair '%s' and '%s'", qp.node.name, who);
}

static int qp_connect(struct beest_meshqps *qps, const struct beest_meshqps_peer *peer,
		      uint32_t index, const struct beest_limit *limit, struct beest_qp *qp,
		      int64_t *ready)
{
	const struct beest_endpoint remote = remote_of(qps, peer, index);
	size_t slot = peer_index(qps, peer->position) * qps->per_peer + index;
	bool datagram = qps_are_datagram(qps);
	char who[24];
	int ret;

	peer_label(qps->ranks->id[peer->position], who);
	if (datagram)
		qp = qps->model;
	else
		qp_select(qps, slot, qp);
	ret = beest_qp_connect(qp, who, &remote, limit, datagram ? NULL : ready);

	return ret < 0 ? beest_fail_prefix(ret, "queue pair '%s' and '%s'", qp->node.name, who) : 0;
}

/* Only a sample is timed: where the clock is a system call, it costs as much as a step. */
#define TIMED_EACH 16

static int qp_connect_timed(struct beest_meshqps *qps, const struct beest_meshqps_peer *peer,
			    const struct beest_limit *limit, struct beest_qp *qp)
{
	int64_t begin = beest_clock_now(), ready = 0, end;
	int ret = qp_connect(qps, peer, 0, limit, qp, &ready);

	end = beest_clock_now();
	ready = ready ? ready : end;	/* UD takes neither step here */
	__atomic_add_fetch(&qps->rtr_time, ready - begin, __ATOMIC_RELAXED);
	__atomic_add_fetch(&qps->rts_time, end - ready, __ATOMIC_RELAXED);

	return ret;
}

/* The threads that connect, each taking the next peer when it is done with one. */
struct workers {
	struct beest_meshqps *qps;
	struct beest_meshqps_peer *peers;
	size_t count, next;		/* next: atomic */
	const struct beest_limit *limit;
	pthread_mutex_t lock;		/* covers the first failure: */
	int ret;
	size_t culprit;
	char why[BEEST_ERROR_SIZE];
};

static void workers_fail(struct workers *workers, size_t i, int ret)
{
	pthread_mutex_lock(&workers->lock);
	if (workers->ret == 0) {
		workers->ret = ret;
		workers->culprit = workers->peers[i].position;
		beest_text_copy(workers->why, sizeof(workers->why), beest_error_text());
	}
	pthread_mutex_unlock(&workers->lock);
	__atomic_store_n(&workers->next, workers->count, __ATOMIC_RELAXED);
}

static void *worker_run(void *data)
{
	struct workers *workers = data;
	uint32_t index, each = qps_are_datagram(workers->qps) ? 1 : workers->qps->per_peer;
	struct beest_qp qp = *workers->qps->model;
	bool timed;
	size_t i;
	int ret;

	while ((i = __atomic_fetch_add(&workers->next, 1, __ATOMIC_RELAXED)) < workers->count) {
		if (workers->peers[i].connected)
			continue;
		timed = i % TIMED_EACH == 0 || i + 1 == workers->count;
		ret = timed ? qp_connect_timed(workers->qps, &workers->peers[i], workers->limit,
					       &qp) : 0;
		for (index = timed; index < each && ret == 0; index++)
			ret = qp_connect(workers->qps, &workers->peers[i], index, workers->limit,
					 &qp, NULL);
		workers->peers[i].connected = ret == 0;
		if (ret < 0)
			workers_fail(workers, i, ret);
	}

	return NULL;
}

int beest_meshqps_connect(struct beest_meshqps *qps, struct beest_meshqps_peer *peers,
			  size_t count, const struct beest_limit *limit, size_t *culprit)
{
	struct workers workers = {
		.qps = qps, .peers = peers, .count = count, .limit = limit,
	};
	uint32_t i, wanted = qps_are_datagram(qps) ? 0 :
			     (uint32_t)BEEST_MIN(qps->attr.threads, count);
	pthread_t *threads;
	int ret;

	qps->rtr_time = qps->rts_time = 0;
	ret = qps_begin_again(qps, peers, count, culprit);
	if (ret < 0)
		return ret;
	threads = wanted ? calloc(wanted, sizeof(*threads)) : NULL;
	pthread_mutex_init(&workers.lock, NULL);
	/* Threads only save time: without them, the calling thread does all. */
	for (i = 0; threads && i < wanted; i++)
		if (pthread_create(&threads[i], NULL, worker_run, &workers) != 0)
			break;
	worker_run(&workers);
	while (threads && i > 0)
		pthread_join(threads[--i], NULL);
	free(threads);
	pthread_mutex_destroy(&workers.lock);

	*culprit = workers.culprit;

	return workers.ret < 0 ? beest_fail(-workers.ret, "%s", workers.why) : 0;
}
