/* SPDX-License-Identifier: MIT */
/*
 * connect.c - Q connections between two processes, on a real device
 *
 * The clock runs from the first queue pair's creation until both ends know that all are in RTS
 * at both ends.  Device, GID, PD, CQ and the connection to the server exist before.  Afterwards
 * each queue pair carries a message each way, which is compared.
 *
 * 	mesh call	the library's call for all ranks at once, with Q queue pairs between the two
 * 	4 threads	the same, where four threads take the queue pairs to RTR
 * 	pairs call	the library's call for many queue pairs at once
 * 	single steps	the library's functions for one queue pair
 * 	bare verbs	ibv_create_qp(3) and ibv_modify_qp(3), all numbers over one socket
 * 	rdma_cm		event driven, all connections at once, shared PD and CQ
 * 	cmtime		rdma-core's own measurement of rdma_cm, where it is installed
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "bench/live.h"
#include "bench/ours.h"
#include "hartebeest-mesh.h"
#include "tests/support/make.h"
#include "tests/support/ranks.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define MESSAGE 32

/* ------------------------------------------------------------------ two ends --- */

int live_send(struct live *live, const void *bytes, size_t size)
{
	return send(live->socket, bytes, size, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -EIO;
}

int live_receive(struct live *live, void *bytes, size_t size)
{
	return recv(live->socket, bytes, size, MSG_WAITALL) == (ssize_t)size ? 0 : -ETIMEDOUT;
}

int live_meet(struct live *live)
{
	char byte = 0;
	int ret = live_send(live, &byte, 1);

	return ret < 0 ? ret : live_receive(live, &byte, 1);
}

/* Both processes inherit both ends. */
static void prepare(struct bench_pass *pass)
{
	struct timeval limit = { .tv_sec = pass->limit };
	int *ends = malloc(2 * sizeof(*ends));

	if (!ends || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
		abort();
	setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	pass->data = ends;
}

static void discard(struct bench_pass *pass)
{
	int *ends = pass->data;

	close(ends[0]);
	close(ends[1]);
	free(ends);
}

/* Each rank takes a port of its own; without a second port both share the first. */
struct live *live_new(struct bench_rank *rank)
{
	size_t count = (size_t)rank->pass->size;
	struct live *live = calloc(1, sizeof(*live));
	const char *port = ranks_port(rank->rank);

	if (!live || !(live->qps = calloc(count, sizeof(live->qps[0]))) ||
	    !(live->ends = calloc(2 * count, sizeof(live->ends[0]))) ||
	    !(live->buffer = calloc(2 * count, MESSAGE)))
		abort();
	rank->device = live;
	ours_call_begin(&live->call, count);
	live->socket = ((int *)rank->pass->data)[rank->rank];
	close(((int *)rank->pass->data)[!rank->rank]);
	snprintf(live->port, sizeof(live->port), "%s", port ? port : ranks_port(0));
	return live;
}

static int queue_depth(const struct bench_rank *rank)
{
	return 4 * rank->pass->size;
}

int live_objects(struct bench_rank *rank, struct ibv_context *verbs)
{
	struct live *live = rank->device;

	live->pd = ibv_alloc_pd(verbs);
	live->cq = ibv_create_cq(verbs, queue_depth(rank), NULL, NULL, 0);
	if (!live->pd || !live->cq)
		return bench_fail(rank, -errno, "objects: %s", strerror(errno));
	live->mr = (ibv_reg_mr)(live->pd, live->buffer, 2 * MESSAGE * (size_t)rank->pass->size,
				ACCESS);
	return live->mr ? 0 : bench_fail(rank, -errno, "region: %s", strerror(errno));
}

/* --------------------------------------------------------------------- proof --- */

static void message_fill(int from, int index, char message[MESSAGE])
{
	snprintf(message, MESSAGE, "from %d over %d", from, index);
}

static int post_receive(struct live *live, int index)
{
	struct ibv_sge sge = { (uintptr_t)(live->buffer + index * MESSAGE), MESSAGE,
			       live->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return -ibv_post_recv(live->qps[index], &wr, &bad);
}

static int post_message(struct bench_rank *rank, int index)
{
	struct live *live = rank->device;
	char *message = live->buffer + (rank->pass->size + index) * MESSAGE;
	struct ibv_sge sge = { (uintptr_t)message, MESSAGE, live->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED }, *bad;

	message_fill(rank->rank, index, message);
	return -ibv_post_send(live->qps[index], &wr, &bad);
}

static int await_completions(struct bench_rank *rank, int count)
{
	struct live *live = rank->device;
	struct ibv_wc wc;
	int got;

	while (count) {
		got = ibv_poll_cq(live->cq, 1, &wc);
		if (got < 0 || (got && wc.status != IBV_WC_SUCCESS))
			return bench_fail(rank, -EBADMSG, "completion: %s",
					  got < 0 ? "none" : ibv_wc_status_str(wc.status));
		if (bench_over(rank))
			return -ETIMEDOUT;
		count -= got;
	}
	return 0;
}

/* Both ends post all receives before either sends. */
static int prove(struct bench_rank *rank)
{
	struct live *live = rank->device;
	char expected[MESSAGE];
	int i, ret = 0, size = rank->pass->size;

	for (i = 0; i < size && ret == 0; i++)
		ret = post_receive(live, i);
	if (ret == 0)
		ret = live_meet(live);
	for (i = 0; i < size && ret == 0; i++)
		ret = post_message(rank, i);
	if (ret == 0)
		ret = await_completions(rank, 2 * size);
	for (i = 0; i < size && ret == 0; i++) {
		message_fill(!rank->rank, i, expected);
		if (strcmp(live->buffer + i * MESSAGE, expected) != 0)
			ret = bench_fail(rank, -EBADMSG, "queue pair %d brought '%.20s'", i,
					 live->buffer + i * MESSAGE);
	}
	return ret < 0 ? ret : live_meet(live);
}

/* --------------------------------------------------------------- the library --- */

struct key {
	char text[OURS_NAME];
};

static struct key pair_key(int rank, int index)
{
	struct key key;

	snprintf(key.text, sizeof(key.text), "%d-%d", rank, index);
	return key;
}

static int library_open(struct bench_rank *rank)
{
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_cq_attr cq_attr;
	struct live *live = live_new(rank);
	size_t size = 2 * MESSAGE * (size_t)rank->pass->size;
	int ret;

	setenv("HARTEBEEST_DEVICE", live->port, 1);
	ret = ours_open(rank);
	if (ret == 0)
		ret = hartebeest_pd_create(rank->own, "pd", &live->pd);
	hartebeest_cq_attr_init(&cq_attr);
	cq_attr.depth = queue_depth(rank);
	if (ret == 0)
		ret = hartebeest_cq_create(rank->own, "cq", &cq_attr, &live->cq);
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.address = live->buffer;
	mr_attr.length = size;
	mr_attr.access = ACCESS;
	if (ret == 0)
		ret = hartebeest_mr_register(rank->own, "mr", &mr_attr, &live->mr);
	/* A publication that nobody fetches chooses the GID and makes the connection. */
	if (ret == 0)
		ret = qp_make(rank->own, "first", "pd", IBV_QPT_RC, "cq", "cq", NULL);
	if (ret == 0)
		ret = hartebeest_qp_publish(rank->own, "first", pair_key(rank->rank, -1).text, 0);
	ret = ours_result(rank, ret);
	return ret < 0 ? ret : live_meet(live);
}

static int each_pair(struct bench_rank *rank, int (*fn)(struct bench_rank *rank, int index))
{
	int i, ret = 0;

	for (i = 0; i < rank->pass->size && ret == 0; i++)
		ret = bench_over(rank) ? -ETIMEDOUT : fn(rank, i);
	return ret;
}

static int create_and_publish(struct bench_rank *rank, int index)
{
	struct live *live = rank->device;
	struct key key = pair_key(rank->rank, index);
	int ret = qp_make(rank->own, key.text, "pd", IBV_QPT_RC, "cq", "cq",
				       &live->qps[index]);

	if (ret == 0)
		ret = hartebeest_qp_publish(rank->own, key.text, key.text, 0);
	return ours_result(rank, ret);
}

static int fetch_and_connect(struct bench_rank *rank, int index)
{
	struct key own = pair_key(rank->rank, index), key = pair_key(!rank->rank, index);
	int ret = hartebeest_qp_fetch(rank->own, key.text, NULL, 0);

	if (ret == 0)
		ret = hartebeest_qp_connect(rank->own, own.text, key.text, 0);
	return ours_result(rank, ret);
}

static int confirm(struct bench_rank *rank, int index)
{
	return ours_result(rank, hartebeest_qp_confirm(rank->own,
						       pair_key(rank->rank, index).text,
						       pair_key(!rank->rank, index).text, 0));
}

static int by_steps(struct bench_rank *rank)
{
	int ret = each_pair(rank, create_and_publish);

	if (ret == 0)
		ret = each_pair(rank, fetch_and_connect);
	return ret < 0 ? ret : each_pair(rank, confirm);
}

static int create_and_add(struct bench_rank *rank, int index)
{
	struct live *live = rank->device;
	struct key own = pair_key(rank->rank, index);

	ours_call_add(&live->call, own.text, pair_key(!rank->rank, index).text, NULL);
	return ours_result(rank, qp_make(rank->own, own.text, "pd", IBV_QPT_RC, "cq",
						      "cq", &live->qps[index]));
}

static int by_call(struct bench_rank *rank)
{
	struct live *live = rank->device;
	int ret = each_pair(rank, create_and_add);

	return ret < 0 ? ret : ours_result(rank, hartebeest_pairs_connect(rank->own,
							live->call.pairs, live->call.count, 0));
}

static int by_mesh_with(struct bench_rank *rank, uint32_t threads)
{
	struct live *live = rank->device;
	struct hartebeest_mesh_attr attr;
	struct hartebeest_mesh *mesh;
	int i, ret;

	hartebeest_mesh_attr_init(&attr);
	attr.pd = "pd";
	attr.cq = "cq";
	attr.qps_per_peer = (uint32_t)rank->pass->size;
	attr.threads = threads;
	attr.cap = bare_init_attr(live->cq).cap;	/* as on all sides */
	ret = ours_result(rank, hartebeest_mesh_connect(rank->own, "mesh", &attr, &mesh, 0));
	for (i = 0; i < rank->pass->size && ret == 0; i++)
		live->qps[i] = hartebeest_mesh_qp(mesh, !rank->rank, i);
	return ret;
}

static int by_mesh(struct bench_rank *rank)
{
	return by_mesh_with(rank, 0);
}

static int by_threads(struct bench_rank *rank)
{
	return by_mesh_with(rank, 4);
}

/* ---------------------------------------------------------------- bare verbs --- */

static int bare_rank_open(struct bench_rank *rank)
{
	struct live *live = live_new(rank);
	int ret = bare_open(&live->bare, live->port);

	if (ret < 0)
		return bench_fail(rank, ret, "cannot open %s", live->port);
	ret = live_objects(rank, live->bare.verbs);
	return ret < 0 ? ret : live_meet(live);
}

static int bare_create_one(struct bench_rank *rank, int index)
{
	struct live *live = rank->device;

	live->qps[index] = bare_create(&live->bare, live->pd, live->cq, &live->ends[index]);
	return live->qps[index] ? 0 : bench_fail(rank, -errno, "queue pair: %s", strerror(errno));
}

static int bare_connect_one(struct bench_rank *rank, int index)
{
	struct live *live = rank->device;
	int ret = bare_connect(&live->bare, live->qps[index], &live->ends[index],
			       &live->ends[rank->pass->size + index]);

	return ret < 0 ? bench_fail(rank, ret, "transition: %s", strerror(-ret)) : 0;
}

static int bare_work(struct bench_rank *rank)
{
	struct live *live = rank->device;
	size_t size = (size_t)rank->pass->size * sizeof(live->ends[0]);
	int ret = each_pair(rank, bare_create_one);

	if (ret == 0)
		ret = live_send(live, live->ends, size);
	if (ret == 0)
		ret = live_receive(live, live->ends + rank->pass->size, size);
	if (ret == 0)
		ret = each_pair(rank, bare_connect_one);
	return ret < 0 ? ret : live_meet(live);
}

/* The objects end with the process. */
static void leave(struct bench_rank *rank)
{
	(void)rank;
}

/* -------------------------------------------------------------------- table --- */

#define MESH "mesh call"
#define THREADS "4 threads"
#define PAIRS "pairs call"
#define STEPS "single steps"
#define BARE "bare verbs"
#define CM "rdma_cm"
#define CMTIME "cmtime"

static const struct bench_side sides[] = {
	{ .name = MESH, .open = library_open, .work = by_mesh, .close = ours_close },
	{ .name = THREADS, .open = library_open, .work = by_threads, .close = ours_close },
	{ .name = PAIRS, .open = library_open, .work = by_call, .close = ours_close },
	{ .name = STEPS, .open = library_open, .work = by_steps, .close = ours_close },
	{ .name = BARE, .open = bare_rank_open, .work = bare_work, .close = leave },
#ifdef HAVE_RDMACM
	{ .name = CM, .open = cm_open, .work = cm_work, .close = leave, .missing = cm_missing },
#endif
	{ .name = CMTIME, .programs = cmtime_programs, .missing = cmtime_missing },
	{ .name = NULL }
};

static const struct bench_goal goals[] = {
	{ BENCH_GUARD, MESH, BENCH_TIME, BARE, 400, 400, 0, 1.2 },
	{ BENCH_GUARD, MESH, BENCH_TIME, CM, 400, 400, 0, 1 / 3.5 },
	{ BENCH_GUARD, MESH, BENCH_TIME, CMTIME, 400, 400, 0, 1 / 3.5 },
	{ BENCH_GUARD, THREADS, BENCH_TIME, MESH, 400, 400, 0, 1.0 },
	{ BENCH_GUARD, PAIRS, BENCH_TIME, BARE, 1, 1, 0, 4.5 },
	{ BENCH_GUARD, PAIRS, BENCH_TIME, BARE, 16, 16, 0, 2.9 },
	{ BENCH_GUARD, PAIRS, BENCH_TIME, BARE, 64, 400, 0, 2.1 },
	{ BENCH_GUARD, PAIRS, BENCH_TIME, CM, 1, 1, 0, 1.2 },
	{ BENCH_GUARD, PAIRS, BENCH_TIME, CM, 16, 16, 0, 0.82 },
	{ BENCH_GUARD, PAIRS, BENCH_TIME, CM, 64, 400, 0, 0.56 },
	{ BENCH_AIM, MESH, BENCH_TIME, CM, 400, 400, 0, 1 / 3.8 },
	{ BENCH_AIM, THREADS, BENCH_TIME, CM, 400, 400, 0, 1 / 6.0 },
	{ BENCH_AIM, MESH, BENCH_TIME, CMTIME, 400, 400, 0, 1 / 8.0 },
	{ BENCH_AIM, PAIRS, BENCH_TIME, BARE, 1, 400, 0, 1.5 },
	{ BENCH_AIM, PAIRS, BENCH_TIME, CM, 1, 1, 0, 1.0 },
	{ .side = NULL }
};

static const int sizes[] = { 1, 16, 64, 400, 0 };

static int connections(int size)
{
	return size;
}

int main(int argc, char **argv)
{
	static const struct bench bench = {
		.name = "connect",
		.title = "Q connections of two processes, from create to RTS",
		.column = "Q",
		.sizes = sizes,
		.sides = sides,
		.goals = goals,
		.ranks = 2,
		.units = connections,
		.keys_text = "keys a pair's end",
		.processes = true,
		.warm_up = true,
		.prepare = prepare,
		.discard = discard,
		.prove = prove,
		.need = ranks_need_device,
	};

	return bench_main(argc, argv, &bench);
}
