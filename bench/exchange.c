/* SPDX-License-Identifier: MIT */
/*
 * exchange.c - a full mesh of N ranks: each makes a queue pair to each other rank
 *
 * The clock runs from creating the queue pairs to their confirmation.  Each rank also learns
 * one memory region of each other rank.  The device is a stub, the same for all sides.
 *
 * 	mesh call	the library's call for all ranks at once
 * 	until connected	the same, but the clock stops before the confirmation
 * 	mixed numbers	the mesh call, with ranks whose queue pairs have no consecutive numbers
 * 	pairs call	the library's call for many queue pairs
 * 	single steps	the library's functions for one queue pair, from create to confirm
 * 	original	one key a queue pair and region, asked for one by one, no confirmation
 * 	with ready keys	the same, and a key a pair that says "connected", as users wrote it
 * 	socket star	TCP connections to rank 0, which hands out everything; again for "ready"
 * 	PMIx		put, commit, fence with data, get, fence; a process a rank under mpirun
 */
#include "config.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/ours.h"
#include "bench/plain.h"
#include "bench/star.h"
#include "bench/stub.h"
#include "tests/support/make.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* ---------------------------------------------------------- what was learnt --- */

struct region {
	uint64_t address, length;
	uint32_t rkey;
};

/* Rank r's queue pair to rank p, and p's region as r learnt it, are at r * size + p. */
struct mesh {
	struct ibv_qp **qps;
	struct region *learnt;
	struct region *own;		/* one for each rank */
};

static void mesh_prepare(struct bench_pass *pass)
{
	size_t size = (size_t)pass->size;
	struct mesh *mesh = calloc(1, sizeof(*mesh));

	mesh->qps = calloc(size * size, sizeof(mesh->qps[0]));
	mesh->learnt = calloc(size * size, sizeof(mesh->learnt[0]));
	mesh->own = calloc(size, sizeof(mesh->own[0]));
	if (!mesh->qps || !mesh->learnt || !mesh->own)
		abort();
	pass->data = mesh;
}

static void mesh_discard(struct bench_pass *pass)
{
	struct mesh *mesh = pass->data;

	free(mesh->qps);
	free(mesh->learnt);
	free(mesh->own);
	free(mesh);
}

static size_t mesh_at(const struct bench_rank *rank, int peer)
{
	return (size_t)rank->rank * (size_t)rank->pass->size + (size_t)peer;
}

static struct ibv_qp **mesh_qp(const struct bench_rank *rank, int peer)
{
	return &((struct mesh *)rank->pass->data)->qps[mesh_at(rank, peer)];
}

static struct region *mesh_learnt(const struct bench_rank *rank, int peer)
{
	return &((struct mesh *)rank->pass->data)->learnt[mesh_at(rank, peer)];
}

static struct region *mesh_own(const struct bench_rank *rank)
{
	return &((struct mesh *)rank->pass->data)->own[rank->rank];
}

static bool same_region(const struct region *a, const struct region *b)
{
	return a->address == b->address && a->length == b->length && a->rkey == b->rkey;
}

static const char *mesh_wrong(struct bench_pass *pass)
{
	static char text[128];
	const struct mesh *mesh = pass->data;
	int a, b, size = pass->side->programs ? 0 : pass->size;

	for (a = 0; a < size; a++) {
		for (b = 0; b < size; b++) {
			if (a == b || (stub_joined(mesh->qps[a * size + b],
						   mesh->qps[b * size + a]) &&
				       same_region(&mesh->learnt[a * size + b], &mesh->own[b])))
				continue;
			snprintf(text, sizeof(text), "rank %d is not connected to rank %d as it is",
				 a, b);
			return text;
		}
	}
	return NULL;
}

struct key {
	char text[OURS_NAME];
};

static struct key pair_key(int from, int to)
{
	struct key key;

	snprintf(key.text, sizeof(key.text), "%d-%d", from, to);
	return key;
}

static struct key rank_key(const char *kind, int rank)
{
	struct key key;

	snprintf(key.text, sizeof(key.text), "%s%d", kind, rank);
	return key;
}

/* ------------------------------------------------------------- the library --- */

static int library_open(struct bench_rank *rank)
{
	struct ibv_mr *mr;
	int ret = ours_open(rank);

	if (ret == 0)
		ret = ours_objects(rank, &mr);
	if (ret == 0)
		*mesh_own(rank) = (struct region){ (uintptr_t)mr->addr, mr->length, mr->rkey };
	/* A publication that nobody fetches makes the connection. */
	return ret < 0 ? ret : ours_result(rank, hartebeest_mr_publish(rank->own, "mr",
						  rank_key("opening", rank->rank).text, 0));
}

static int create_and_publish(struct bench_rank *rank, int peer)
{
	struct key key = pair_key(rank->rank, peer);
	int ret = qp_make(rank->own, key.text, "pd", IBV_QPT_RC, "cq", "cq",
				       mesh_qp(rank, peer));

	if (ret == 0)
		ret = hartebeest_qp_publish(rank->own, key.text, key.text, 0);
	return ours_result(rank, ret);
}

static int fetch_and_connect(struct bench_rank *rank, int peer)
{
	struct key own = pair_key(rank->rank, peer), key = pair_key(peer, rank->rank);
	int ret = hartebeest_qp_fetch(rank->own, key.text, NULL, 0);

	if (ret == 0)
		ret = hartebeest_qp_connect(rank->own, own.text, key.text, 0);
	return ours_result(rank, ret);
}

static int confirm(struct bench_rank *rank, int peer)
{
	return ours_result(rank, hartebeest_qp_confirm(rank->own,
						       pair_key(rank->rank, peer).text,
						       pair_key(peer, rank->rank).text, 0));
}

static int fetch_region(struct bench_rank *rank, int peer)
{
	struct hartebeest_remote_mr mr;
	int ret = ours_result(rank,
			      hartebeest_mr_fetch(rank->own, rank_key("mr", peer).text, &mr, 0));

	if (ret == 0)
		*mesh_learnt(rank, peer) = (struct region){ mr.address, mr.length, mr.rkey };
	return ret;
}

/* Whoever has confirmed a moment ago is alive, so its region takes no further question. */
static int confirm_and_fetch(struct bench_rank *rank, int peer)
{
	int ret = confirm(rank, peer);

	return ret < 0 ? ret : fetch_region(rank, peer);
}

static int by_steps(struct bench_rank *rank)
{
	int ret = ours_result(rank, hartebeest_mr_publish(rank->own, "mr",
							  rank_key("mr", rank->rank).text, 0));

	if (ret == 0)
		ret = bench_each_peer(rank, create_and_publish);
	if (ret == 0)
		ret = bench_each_peer(rank, fetch_and_connect);
	return ret < 0 ? ret : bench_each_peer(rank, confirm_and_fetch);
}

static int call_open(struct bench_rank *rank)
{
	struct ours_call *call = malloc(sizeof(*call));

	if (!call)
		abort();
	ours_call_begin(call, (size_t)rank->pass->size);
	rank->device = call;
	return library_open(rank);
}

static void call_close(struct bench_rank *rank)
{
	ours_close(rank);
	ours_call_end(rank->device);
	free(rank->device);
}

static int create_and_add(struct bench_rank *rank, int peer)
{
	static const char *const offer[] = { "mr" };
	struct key own = pair_key(rank->rank, peer);

	ours_call_add(rank->device, own.text, pair_key(peer, rank->rank).text, offer);
	return ours_result(rank, qp_make(rank->own, own.text, "pd", IBV_QPT_RC, "cq",
						      "cq", mesh_qp(rank, peer)));
}

/* Pairs are in the order of ranks, without the own rank. */
static int learn_region(struct bench_rank *rank, int peer)
{
	const struct ours_call *call = rank->device;
	const struct hartebeest_remote_mr *mr = &call->regions[peer - (peer > rank->rank)];

	*mesh_learnt(rank, peer) = (struct region){ mr->address, mr->length, mr->rkey };
	return 0;
}

static int by_call(struct bench_rank *rank)
{
	struct ours_call *call = rank->device;
	int ret = bench_each_peer(rank, create_and_add);

	if (ret == 0)
		ret = ours_result(rank, hartebeest_pairs_connect(rank->own, call->pairs,
								 call->count, 0));
	return ret < 0 ? ret : bench_each_peer(rank, learn_region);
}

static int learn_from_mesh(struct bench_rank *rank, int peer)
{
	struct hartebeest_remote_mr mr;
	int ret = ours_result(rank, hartebeest_mesh_region(rank->device, peer, 0, &mr));

	*mesh_qp(rank, peer) = hartebeest_mesh_qp(rank->device, peer, 0);
	if (ret == 0)
		*mesh_learnt(rank, peer) = (struct region){ mr.address, mr.length, mr.rkey };
	return ret;
}

static int by_mesh(struct bench_rank *rank)
{
	struct hartebeest_mesh *mesh;
	int ret = ours_mesh(rank, (struct ibv_qp_cap){ 0 }, &mesh);

	rank->device = mesh;
	return ret < 0 ? ret : bench_each_peer(rank, learn_from_mesh);
}

/* To compare with the original's way, which confirms nothing. */
static int until_connected(struct bench_rank *rank)
{
	struct hartebeest_mesh_stats stats = { .total = 0 };
	int ret = by_mesh(rank);

	if (ret == 0)
		ret = ours_result(rank, hartebeest_mesh_stats_get(rank->device, &stats));
	rank->end = bench_clock() - stats.confirm.time;
	return ret;
}

static int mixed_open(struct bench_rank *rank)
{
	stub_mix_numbers();
	return library_open(rank);
}

/* ------------------------------------------------------- by bare verbs calls --- */

struct device {
	struct bare_port port;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct bare_end *ends;		/* the own end for each peer */
	char buffer[OURS_REGION];
};

static int device_open(struct bench_rank *rank)
{
	struct device *device = calloc(1, sizeof(*device));

	rank->device = device;
	device->ends = calloc((size_t)rank->pass->size, sizeof(device->ends[0]));
	if (bare_open(&device->port, NULL) < 0)
		return bench_fail(rank, -ENODEV, "no device");
	device->pd = ibv_alloc_pd(device->port.verbs);
	device->cq = ibv_create_cq(device->port.verbs, 4096, NULL, NULL, 0);
	device->mr = (ibv_reg_mr)(device->pd, device->buffer, OURS_REGION, ACCESS);
	*mesh_own(rank) = (struct region){ (uintptr_t)device->mr->addr, device->mr->length,
					   device->mr->rkey };
	return 0;
}

static int destroy_qp(struct bench_rank *rank, int peer)
{
	return *mesh_qp(rank, peer) ? ibv_destroy_qp(*mesh_qp(rank, peer)) : 0;
}

static void device_close(struct bench_rank *rank)
{
	struct device *device = rank->device;
	int peer;

	for (peer = 0; peer < rank->pass->size; peer++)
		destroy_qp(rank, peer);
	ibv_dereg_mr(device->mr);
	ibv_destroy_cq(device->cq);
	ibv_dealloc_pd(device->pd);
	ibv_close_device(device->port.verbs);
	free(device->ends);
	free(device);
}

static int device_create(struct bench_rank *rank, int peer)
{
	struct device *device = rank->device;

	*mesh_qp(rank, peer) = bare_create(&device->port, device->pd, device->cq,
					   &device->ends[peer]);
	return *mesh_qp(rank, peer) ? 0 : -ENOMEM;
}

static int device_connect(struct bench_rank *rank, int peer, const struct bare_end *end)
{
	struct device *device = rank->device;

	return bare_connect(&device->port, *mesh_qp(rank, peer), &device->ends[peer], end);
}

/* ------------------------------------------------------------ original's way --- */

static int original_open(struct bench_rank *rank)
{
	int ret = plain_open(rank);

	return ret < 0 ? ret : device_open(rank);
}

static void original_close(struct bench_rank *rank)
{
	plain_close(rank);
	device_close(rank);
}

static int create_and_set(struct bench_rank *rank, int peer)
{
	struct device *device = rank->device;
	int ret = device_create(rank, peer);

	return ret < 0 ? ret : plain_set(rank, plain_key(rank, "qp", rank->rank, peer).text,
					 &device->ends[peer], sizeof(device->ends[peer]));
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
	return plain_wait(rank, plain_key(rank, "mr", peer, 0).text, mesh_learnt(rank, peer),
			  sizeof(struct region));
}

static int original_work(struct bench_rank *rank)
{
	int ret = plain_set(rank, plain_key(rank, "mr", rank->rank, 0).text, mesh_own(rank),
			    sizeof(struct region));

	if (ret == 0)
		ret = bench_each_peer(rank, create_and_set);
	if (ret == 0)
		ret = bench_each_peer(rank, wait_and_connect);
	return ret < 0 ? ret : bench_each_peer(rank, wait_region);
}

static int push_ready(struct bench_rank *rank, int peer)
{
	return plain_set(rank, plain_key(rank, "ready", rank->rank, peer).text, "  ", 2);
}

static int wait_ready(struct bench_rank *rank, int peer)
{
	char value[2];

	return plain_wait(rank, plain_key(rank, "ready", peer, rank->rank).text, value, 2);
}

static int ready_work(struct bench_rank *rank)
{
	int ret = original_work(rank);

	if (ret == 0)
		ret = bench_each_peer(rank, push_ready);
	return ret < 0 ? ret : bench_each_peer(rank, wait_ready);
}

/* ------------------------------------------------------------------- sockets --- */

static int sockets_open(struct bench_rank *rank)
{
	int ret = star_open(rank);

	return ret < 0 ? ret : device_open(rank);
}

static void sockets_close(struct bench_rank *rank)
{
	star_close(rank);
	device_close(rank);
}

/* From a row for each sender to a row for each receiver. */
static void transpose(const struct bare_end *from, struct bare_end *to, size_t size)
{
	size_t a, b;

	for (a = 0; a < size; a++)
		for (b = 0; b < size; b++)
			to[b * size + a] = from[a * size + b];
}

static int hand_out(struct bench_rank *rank, struct bare_end *theirs)
{
	size_t size = (size_t)rank->pass->size, row = size * sizeof(*theirs);
	struct bare_end *gathered = rank->rank ? NULL : malloc(size * row);
	struct bare_end *sorted = rank->rank ? NULL : malloc(size * row);
	int ret = star_gather(rank, ((struct device *)rank->device)->ends, row, gathered);

	if (ret == 0 && rank->rank == 0)
		transpose(gathered, sorted, size);
	if (ret == 0)
		ret = star_spread(rank, sorted, row, theirs, row);
	free(gathered);
	free(sorted);
	return ret;
}

static int hand_out_regions(struct bench_rank *rank)
{
	size_t size = (size_t)rank->pass->size * sizeof(struct region);
	struct region *all = rank->rank ? NULL : malloc(size);
	int ret = star_gather(rank, mesh_own(rank), sizeof(*all), all);

	if (ret == 0)
		ret = star_spread(rank, all, 0, mesh_learnt(rank, 0), size);
	free(all);
	return ret;
}

static int connect_all(struct bench_rank *rank, const struct bare_end *theirs)
{
	int peer, ret = 0;

	for (peer = 0; peer < rank->pass->size && ret == 0; peer++)
		if (peer != rank->rank)
			ret = device_connect(rank, peer, &theirs[peer]);
	return ret;
}

static int sockets_work(struct bench_rank *rank)
{
	struct bare_end *theirs = malloc((size_t)rank->pass->size * sizeof(*theirs));
	int ret = bench_each_peer(rank, device_create);

	if (ret == 0)
		ret = hand_out(rank, theirs);
	if (ret == 0)
		ret = hand_out_regions(rank);
	if (ret == 0)
		ret = connect_all(rank, theirs);
	free(theirs);
	return ret < 0 ? ret : star_meet(rank);
}

/* ---------------------------------------------------------------------- PMIx --- */

static int pmix_programs(struct bench_pass *pass)
{
	return bench_command(pass, pass->size, BENCH_MPIRUN " -n %d %s mesh", pass->limit,
			     pass->size, bench_program("pmix"));
}

/* --------------------------------------------------------------------- table --- */

#define MESH "mesh call"
#define CONNECTED "until connected"
#define MIXED "mixed numbers"
#define PAIRS "pairs call"
#define STEPS "single steps"
#define ORIGINAL "original"
#define READY "with ready keys"
#define SOCKETS "socket star"
#define PMIX "PMIx"

static const struct bench_side sides[] = {
	{ .name = MESH, .open = library_open, .work = by_mesh, .close = ours_close },
	{ .name = CONNECTED, .open = library_open, .work = until_connected, .close = ours_close },
	{ .name = MIXED, .open = mixed_open, .work = by_mesh, .close = ours_close },
	{ .name = PAIRS, .open = call_open, .work = by_call, .close = call_close,
	  .largest = 256 },
	{ .name = STEPS, .open = library_open, .work = by_steps, .close = ours_close,
	  .largest = 256 },
	{ .name = ORIGINAL, .open = original_open, .work = original_work, .close = original_close,
	  .largest = 256 },
	{ .name = READY, .open = original_open, .work = ready_work, .close = original_close,
	  .largest = 256 },
	{ .name = SOCKETS, .open = sockets_open, .work = sockets_work, .close = sockets_close },
	{ .name = PMIX, .programs = pmix_programs, .missing = bench_pmix_missing, .largest = 64 },
	{ .name = NULL }
};

#define MAX 1024

static const struct bench_goal goals[] = {
	{ BENCH_GUARD, CONNECTED, BENCH_TIME, ORIGINAL, 2, 2, 0, 1.9 },
	{ BENCH_GUARD, CONNECTED, BENCH_TIME, ORIGINAL, 4, 4, 0, 1.4 },
	{ BENCH_GUARD, CONNECTED, BENCH_TIME, ORIGINAL, 16, 16, 0, 0.33 },
	{ BENCH_GUARD, CONNECTED, BENCH_TIME, ORIGINAL, 64, 64, 0, 0.145 },
	{ BENCH_GUARD, CONNECTED, BENCH_TIME, ORIGINAL, 256, 256, 0, 0.05 },
	{ BENCH_GUARD, MESH, BENCH_TIME, CONNECTED, 2, MAX, 0, 1.85 },
	{ BENCH_GUARD, MESH, BENCH_TIME, SOCKETS, 16, 64, 0, 6.4 },
	{ BENCH_GUARD, MESH, BENCH_TIME, SOCKETS, 256, MAX, 0, 9.2 },
	{ BENCH_GUARD, MESH, BENCH_TIME, PMIX, 2, 4, 0, 1.34 },
	{ BENCH_GUARD, MESH, BENCH_TIME, PMIX, 16, 64, 0, 0.8 },
	{ BENCH_GUARD, MESH, BENCH_SERVER_CPU, ORIGINAL, 64, 64, 0, 1 / 15.0 },
	{ BENCH_GUARD, MESH, BENCH_SERVER_CPU, ORIGINAL, 256, 256, 0, 1 / 45.0 },
	{ BENCH_GUARD, MIXED, BENCH_TIME, MESH, 2, MAX, 0, 1.35 },
	{ BENCH_GUARD, PAIRS, BENCH_TIME, ORIGINAL, 2, 2, 0, 1.6 },
	{ BENCH_GUARD, PAIRS, BENCH_TIME, ORIGINAL, 4, 4, 0, 0.96 },
	{ BENCH_GUARD, PAIRS, BENCH_TIME, ORIGINAL, 16, 16, 0, 0.47 },
	{ BENCH_GUARD, PAIRS, BENCH_TIME, ORIGINAL, 64, 256, 0, 0.6 },
	{ BENCH_GUARD, PAIRS, BENCH_TIME, ORIGINAL, 16, 64, BENCH_BUSY, 0.5 },
	{ BENCH_GUARD, PAIRS, BENCH_TIME, PMIX, 2, 64, 0, 0.9 },
	{ BENCH_GUARD, PAIRS, BENCH_SERVER_CPU, ORIGINAL, 64, 64, 0, 0.26 },
	{ BENCH_GUARD, PAIRS, BENCH_KEYS, ORIGINAL, 2, 16, 0, 3.2 },
	{ BENCH_GUARD, PAIRS, BENCH_KEYS, ORIGINAL, 64, 256, 0, 2.0 },
	{ BENCH_GUARD, STEPS, BENCH_TIME, READY, 2, 4, 0, 1.76 },
	{ BENCH_GUARD, STEPS, BENCH_TIME, READY, 16, 64, 0, 1.25 },
	{ BENCH_GUARD, STEPS, BENCH_TIME, READY, 256, 256, 0, 1.6 },
	{ BENCH_AIM, CONNECTED, BENCH_TIME, ORIGINAL, 2, 2, 0, 1 / 0.85 },
	{ BENCH_AIM, CONNECTED, BENCH_TIME, ORIGINAL, 4, 256, 0, 1.0 },
	{ BENCH_AIM, PAIRS, BENCH_TIME, ORIGINAL, 2, 2, 0, 1.0 },
	{ BENCH_AIM, PAIRS, BENCH_TIME, ORIGINAL, 16, 256, 0, 1 / 2.5 },
	{ BENCH_AIM, STEPS, BENCH_TIME, READY, 2, 256, 0, 1.0 },
	{ .side = NULL }
};

static const int sizes[] = { 2, 4, 16, 64, 256, 1024, 0 };
static const int busy_sizes[] = { 16, 64, 0 };

int main(int argc, char **argv)
{
	static const struct bench bench = {
		.name = "exchange",
		.title = "full mesh of N ranks, from create to confirmed",
		.sizes = sizes,
		.busy_sizes = busy_sizes,
		.sides = sides,
		.goals = goals,
		.units = bench_peers,
		.keys_text = "keys a pair's end",
		.prepare = mesh_prepare,
		.discard = mesh_discard,
		.wrong = mesh_wrong,
	};

	return bench_main(argc, argv, &bench);
}
