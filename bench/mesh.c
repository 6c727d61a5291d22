/* SPDX-License-Identifier: MIT */
/*
 * mesh.c - all queue pairs between N processes, on a real device
 *
 * The clock runs from the first queue pair's creation until the last process has connected its
 * last one.  Device, GID, PD, CQ, region and the connection to the server exist before.
 * Afterwards each process writes a word into the memory of every other and reads it back.
 *
 * 	mesh call	the library's call for all ranks at once, with its confirmation
 * 	original	one key a queue pair and region, asked for one by one, no confirmation
 * 	bare verbs	ibv_create_qp(3) and ibv_modify_qp(3); numbers go through shared memory,
 * 			and nobody ends before all are connected
 */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/ours.h"
#include "bench/plain.h"
#include "hartebeest-post.h"
#include "tests/support/make.h"
#include "tests/support/ranks.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define QUEUE 4096

struct region {
	uint64_t address;
	uint32_t rkey;
};

/* Shared by the processes. */
struct hall {
	int arrived;			/* atomic: arrivals of all, at all meetings */
	struct bare_end ends[RANKS_MAX][RANKS_MAX];	/* of the row's rank, for the column's */
	struct region regions[RANKS_MAX];
};

/* The objects of one process. */
struct node {
	struct bare_port port;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;		/* of words */
	struct ibv_qp *qps[RANKS_MAX];
	struct bare_end ends[RANKS_MAX];
	struct region own, learnt[RANKS_MAX];
	struct {
		uint64_t inbox[RANKS_MAX], out[RANKS_MAX], back[RANKS_MAX];
	} words;
};

/* Ranks take the ports of this machine in turn. */
static const char *port_name(const struct bench_rank *rank)
{
	int count = 0;

	while (ranks_port(count))
		count++;
	return ranks_port(rank->rank % count);
}

static struct node *node_new(struct bench_rank *rank)
{
	struct node *node = calloc(1, sizeof(*node));

	if (!node)
		abort();
	rank->device = node;
	return node;
}

/* --------------------------------------------------------------------- proof --- */

static uint64_t word_of(int from, int to)
{
	return 0x68617274 + (uint64_t)from * 1000 + (uint64_t)to;
}

/* Both requests use one queue pair, so the read comes after the write. */
static int post_word(struct bench_rank *rank, int peer)
{
	struct node *node = rank->device;
	const struct region *there = &node->learnt[peer];
	uint64_t remote = there->address + (uint64_t)rank->rank * sizeof(uint64_t);
	int ret;

	node->words.out[peer] = word_of(rank->rank, peer);
	ret = hartebeest_post_write(node->qps[peer], &node->words.out[peer], sizeof(uint64_t),
				    node->mr->lkey, remote, there->rkey, 0, 0);
	return ret < 0 ? ret :
	       hartebeest_post_read(node->qps[peer], &node->words.back[peer], sizeof(uint64_t),
				    node->mr->lkey, remote, there->rkey, 0, IBV_SEND_SIGNALED);
}

static int await_words(struct bench_rank *rank)
{
	struct node *node = rank->device;
	int got, missing = rank->pass->size - 1;
	struct ibv_wc wc;

	while (missing) {
		got = ibv_poll_cq(node->cq, 1, &wc);
		if (got < 0 || (got && wc.status != IBV_WC_SUCCESS))
			return bench_fail(rank, -EBADMSG, "completion: %s",
					  got < 0 ? "none" : ibv_wc_status_str(wc.status));
		if (bench_over(rank))
			return bench_fail(rank, -ETIMEDOUT, "%d words did not come back", missing);
		missing -= got;
		if (!got)
			sched_yield();
	}
	return 0;
}

static int compare_word(struct bench_rank *rank, int peer)
{
	const struct node *node = rank->device;

	return node->words.back[peer] == word_of(rank->rank, peer) ? 0 :
	       bench_fail(rank, -EBADMSG, "rank %d has another word than was written", peer);
}

static int prove(struct bench_rank *rank)
{
	int ret = bench_each_peer(rank, post_word);

	if (ret == 0)
		ret = await_words(rank);
	return ret < 0 ? ret : bench_each_peer(rank, compare_word);
}

/* --------------------------------------------------------------- the library --- */

static int library_open(struct bench_rank *rank)
{
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_cq_attr cq_attr;
	struct node *node = node_new(rank);
	char first[OURS_NAME];
	int ret;

	snprintf(first, sizeof(first), "first%d", rank->rank);
	setenv("HARTEBEEST_DEVICE", port_name(rank), 1);
	ret = ours_open(rank);
	if (ret == 0)
		ret = hartebeest_pd_create(rank->own, "pd", &node->pd);
	hartebeest_cq_attr_init(&cq_attr);
	cq_attr.depth = QUEUE;
	if (ret == 0)
		ret = hartebeest_cq_create(rank->own, "cq", &cq_attr, &node->cq);
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.address = &node->words;
	mr_attr.length = sizeof(node->words);
	mr_attr.access = ACCESS;
	if (ret == 0)
		ret = hartebeest_mr_register(rank->own, "mr", &mr_attr, &node->mr);
	/* A publication that nobody fetches chooses the GID and makes the connection. */
	if (ret == 0)
		ret = qp_make(rank->own, "first", "pd", IBV_QPT_RC, "cq", "cq", NULL);
	if (ret == 0)
		ret = hartebeest_qp_publish(rank->own, "first", first, 0);
	return ours_result(rank, ret);
}

static int take_from_mesh(struct bench_rank *rank, struct hartebeest_mesh *mesh, int peer)
{
	struct node *node = rank->device;
	struct hartebeest_remote_mr mr;
	int ret = ours_result(rank, hartebeest_mesh_region(mesh, peer, 0, &mr));

	node->qps[peer] = hartebeest_mesh_qp(mesh, peer, 0);
	if (ret == 0)
		node->learnt[peer] = (struct region){ mr.address, mr.rkey };
	return ret;
}

static int library_work(struct bench_rank *rank)
{
	struct node *node = rank->device;
	struct hartebeest_mesh *mesh;
	int peer, ret;

	ret = ours_mesh(rank, bare_init_attr(node->cq).cap, &mesh);	/* cap as on all sides */
	for (peer = 0; peer < rank->pass->size && ret == 0; peer++)
		if (peer != rank->rank)
			ret = take_from_mesh(rank, mesh, peer);
	return ret;
}

/* ------------------------------------------------------- by bare verbs calls --- */

static int device_open(struct bench_rank *rank)
{
	struct node *node = node_new(rank);
	int ret = bare_open(&node->port, port_name(rank));

	if (ret < 0)
		return bench_fail(rank, ret, "cannot open %s", port_name(rank));
	node->pd = ibv_alloc_pd(node->port.verbs);
	node->cq = ibv_create_cq(node->port.verbs, QUEUE, NULL, NULL, 0);
	if (!node->pd || !node->cq)
		return bench_fail(rank, -errno, "objects: %s", strerror(errno));
	node->mr = (ibv_reg_mr)(node->pd, &node->words, sizeof(node->words), ACCESS);
	if (!node->mr)
		return bench_fail(rank, -errno, "region: %s", strerror(errno));
	node->own = (struct region){ (uintptr_t)&node->words, node->mr->rkey };
	return 0;
}

static int device_create(struct bench_rank *rank, int peer)
{
	struct node *node = rank->device;

	node->qps[peer] = bare_create(&node->port, node->pd, node->cq, &node->ends[peer]);
	return node->qps[peer] ? 0 : bench_fail(rank, -errno, "queue pair: %s", strerror(errno));
}

static int device_connect(struct bench_rank *rank, int peer, const struct bare_end *end)
{
	struct node *node = rank->device;
	int ret = bare_connect(&node->port, node->qps[peer], &node->ends[peer], end);

	return ret < 0 ? bench_fail(rank, ret, "transition: %s", strerror(-ret)) : 0;
}

/* Waits until everybody has come @times times. */
static int hall_meet(struct bench_rank *rank, int times)
{
	struct hall *hall = rank->pass->data;

	__atomic_add_fetch(&hall->arrived, 1, __ATOMIC_ACQ_REL);
	while (__atomic_load_n(&hall->arrived, __ATOMIC_ACQUIRE) < times * rank->pass->size) {
		if (bench_over(rank))
			return bench_fail(rank, -ETIMEDOUT, "not all processes have come");
		usleep(50);
	}
	return 0;
}

static int connect_by_hall(struct bench_rank *rank, int peer)
{
	struct hall *hall = rank->pass->data;

	((struct node *)rank->device)->learnt[peer] = hall->regions[peer];
	return device_connect(rank, peer, &hall->ends[peer][rank->rank]);
}

static int bare_work(struct bench_rank *rank)
{
	struct hall *hall = rank->pass->data;
	struct node *node = rank->device;
	int ret = bench_each_peer(rank, device_create);

	memcpy(hall->ends[rank->rank], node->ends, sizeof(node->ends));
	hall->regions[rank->rank] = node->own;
	if (ret == 0)
		ret = hall_meet(rank, 1);
	if (ret == 0)
		ret = bench_each_peer(rank, connect_by_hall);
	return ret < 0 ? ret : hall_meet(rank, 2);
}

/* The objects end with the process. */
static void leave(struct bench_rank *rank)
{
	(void)rank;
}

/* ------------------------------------------------------------ original's way --- */

static int original_open(struct bench_rank *rank)
{
	int ret = plain_open(rank);

	return ret < 0 ? ret : device_open(rank);
}

static int create_and_set(struct bench_rank *rank, int peer)
{
	struct node *node = rank->device;
	int ret = device_create(rank, peer);

	return ret < 0 ? ret : plain_set(rank, plain_key(rank, "qp", rank->rank, peer).text,
					 &node->ends[peer], sizeof(node->ends[peer]));
}

static int wait_and_connect(struct bench_rank *rank, int peer)
{
	struct bare_end end;
	int ret = plain_wait(rank, plain_key(rank, "qp", peer, rank->rank).text, &end,
			     sizeof(end));

	return ret < 0 ? ret : device_connect(rank, peer, &end);
}

static int wait_region(struct bench_rank *rank, int peer)
{
	struct node *node = rank->device;

	return plain_wait(rank, plain_key(rank, "mr", peer, 0).text, &node->learnt[peer],
			  sizeof(struct region));
}

static int original_work(struct bench_rank *rank)
{
	struct node *node = rank->device;
	int ret = plain_set(rank, plain_key(rank, "mr", rank->rank, 0).text, &node->own,
			    sizeof(node->own));

	if (ret == 0)
		ret = bench_each_peer(rank, create_and_set);
	if (ret == 0)
		ret = bench_each_peer(rank, wait_and_connect);
	return ret < 0 ? ret : bench_each_peer(rank, wait_region);
}

/* --------------------------------------------------------------------- table --- */

#define MESH "mesh call"
#define ORIGINAL "original"
#define BARE "bare verbs"

static const struct bench_side sides[] = {
	{ .name = MESH, .open = library_open, .work = library_work, .close = ours_close,
	  .largest = RANKS_MAX },
	{ .name = ORIGINAL, .open = original_open, .work = original_work, .close = leave,
	  .largest = RANKS_MAX },
	{ .name = BARE, .open = device_open, .work = bare_work, .close = leave,
	  .largest = RANKS_MAX },
	{ .name = NULL }
};

static const struct bench_goal goals[] = {
	{ BENCH_GUARD, MESH, BENCH_TIME, ORIGINAL, 16, RANKS_MAX, 0, 1 / 1.5 },
	{ BENCH_GUARD, MESH, BENCH_TIME, BARE, 16, RANKS_MAX, 0, 2.3 },
	{ BENCH_AIM, MESH, BENCH_TIME, ORIGINAL, 16, RANKS_MAX, 0, 1 / 5.0 },
	{ .side = NULL }
};

static const int sizes[] = { 16, 0 };

int main(int argc, char **argv)
{
	static const struct bench bench = {
		.name = "mesh",
		.title = "all queue pairs between N processes, from create to RTS",
		.sizes = sizes,
		.sides = sides,
		.goals = goals,
		.units = bench_peers,
		.keys_text = "keys a pair's end",
		.processes = true,
		.warm_up = true,
		.shared = sizeof(struct hall),
		.prove = prove,
		.need = ranks_need_device,
	};

	return bench_main(argc, argv, &bench);
}
