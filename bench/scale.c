/* SPDX-License-Identifier: MIT */
/*
 * scale.c - what 1024 ranks take, and what it costs to replace one of them
 *
 * Each rank is a thread, and the device is a stub.  The sides are the bring-up of a mesh and
 * its repair after one rank started again, over one server and over four, and, if -w names
 * them, on a stub that takes the time of a device.  Once all are connected, and after the
 * clock, the bench reads what the ranks take: bytes of the heap, descriptors, items and
 * connections of the servers.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/ours.h"
#include "bench/stub.h"

/* ----------------------------------------------------------------- what they take --- */

/* Of this process, or of all servers of a pass. */
struct usage {
	double heap, files;
	double bytes, items;
	double connections;		/* of the server that has most */
};

static const struct {
	const char *name;
	size_t offset;
} phases[] = {
	{ "create", offsetof(struct hartebeest_mesh_stats, create) },
	{ "publish", offsetof(struct hartebeest_mesh_stats, publish) },
	{ "wait", offsetof(struct hartebeest_mesh_stats, wait) },
	{ "fetch", offsetof(struct hartebeest_mesh_stats, fetch) },
	{ "RTR", offsetof(struct hartebeest_mesh_stats, rtr) },
	{ "RTS", offsetof(struct hartebeest_mesh_stats, rts) },
	{ "confirm", offsetof(struct hartebeest_mesh_stats, confirm) },
};

#define PHASES (sizeof(phases) / sizeof(phases[0]))

/* The last pass of each side.  All passes have the same usage, except for requests under way. */
static struct {
	const struct bench_side *side;
	int ranks;
	struct usage before, all;
	double device;			/* bytes of the stub's queue pairs, all ranks */
	struct {
		double ms, requests, bytes;	/* means of all ranks */
	} phases[PHASES];
} notes[8];

static double heap_bytes(void)
{
#ifdef HAVE_MALLINFO2
	struct mallinfo2 now = mallinfo2();
#else
	struct mallinfo now = mallinfo();
#endif

	return (double)now.uordblks + (double)now.hblkhd;
}

static double open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	double count = -3;		/* ".", ".." and opendir's descriptor */

	if (!folder)
		return 0;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static struct usage usage_read(const struct bench_pass *pass)
{
	struct usage now = { .heap = heap_bytes(), .files = open_files() };
	double connections;
	int i;

	for (i = 0; bench_server_stat(pass, i, "pid") > 0; i++) {
		now.bytes += (double)bench_server_stat(pass, i, "bytes");
		now.items += (double)bench_server_stat(pass, i, "curr_items");
		connections = (double)bench_server_stat(pass, i, "curr_connections");
		now.connections = connections > now.connections ? connections : now.connections;
	}
	return now;
}

static void phases_read(struct hartebeest_mesh **meshes, int size, size_t note)
{
	struct hartebeest_mesh_stats stats;
	const struct hartebeest_mesh_phase *phase;
	size_t i;
	int rank;

	memset(notes[note].phases, 0, sizeof(notes[note].phases));
	for (rank = 0; rank < size; rank++) {
		hartebeest_mesh_stats_get(meshes[rank], &stats);
		for (i = 0; i < PHASES; i++) {
			phase = (const void *)((const char *)&stats + phases[i].offset);
			notes[note].phases[i].ms += (double)phase->time / 1e6 / size;
			notes[note].phases[i].requests += (double)phase->requests / size;
			notes[note].phases[i].bytes += (double)phase->bytes / size;
		}
	}
}

static size_t note_of(const struct bench_pass *pass)
{
	size_t i = 0;

	while (notes[i].side && (notes[i].side != pass->side || notes[i].ranks != pass->size))
		i++;
	if (i + 1 == sizeof(notes) / sizeof(notes[0]))
		abort();
	notes[i].side = pass->side;
	notes[i].ranks = pass->size;
	return i;
}

static void print_notes(void)
{
	size_t i;

	printf("| N | way | KB of heap a rank | of which the stub's queue pairs | descriptors a "
	       "rank | bytes on servers a rank | items a rank | most connections of a server |\n"
	       "|---|---|---|---|---|---|---|---|\n");
	for (i = 0; notes[i].side; i++) {
		const struct usage *before = &notes[i].before, *all = &notes[i].all;
		double n = notes[i].ranks;

		printf("| %d | %s | %.1f | %.1f | %.2f | %.0f | %.2f | %.0f |\n", notes[i].ranks,
		       notes[i].side->name, (all->heap - before->heap) / n / 1e3,
		       notes[i].device / n / 1e3, (all->files - before->files) / n,
		       (all->bytes - before->bytes) / n, (all->items - before->items) / n,
		       all->connections);
	}
	printf("\n");
}

static void print_phases(void)
{
	size_t i, k;

	printf("A rank's phases, mean of all: ms, requests, bytes\n\n| N | way |");
	for (k = 0; k < PHASES; k++)
		printf(" %s |", phases[k].name);
	printf("\n|---|---|");
	for (k = 0; k < PHASES; k++)
		printf("---|");
	printf("\n");
	for (i = 0; notes[i].side; i++) {
		printf("| %d | %s |", notes[i].ranks, notes[i].side->name);
		for (k = 0; k < PHASES; k++)
			printf(" %.3g, %.3g, %.0f |", notes[i].phases[k].ms,
			       notes[i].phases[k].requests, notes[i].phases[k].bytes);
		printf("\n");
	}
	printf("\n");
}

/* ---------------------------------------------------------------- comparing contents --- */

/* The meshes of all ranks, in their order. */
static void prepare(struct bench_pass *pass)
{
	pass->data = calloc((size_t)pass->size, sizeof(struct hartebeest_mesh *));
	if (!pass->data)
		abort();
	stub_take_time(false);
	notes[note_of(pass)].before = usage_read(pass);
}

static void discard(struct bench_pass *pass)
{
	free(pass->data);
}

static struct hartebeest_mesh **mesh_of(const struct bench_rank *rank)
{
	return &((struct hartebeest_mesh **)rank->pass->data)[rank->rank];
}

static const char *wrong(struct bench_pass *pass)
{
	struct hartebeest_mesh **meshes = pass->data;
	static char text[96];
	size_t note = note_of(pass);
	int a, b, size = pass->size;

	notes[note].all = usage_read(pass);
	phases_read(meshes, size, note);
	notes[note].device = (double)size * (size - 1) *
		((double)malloc_usable_size(hartebeest_mesh_qp(meshes[0], 1, 0)) + sizeof(size_t));
	for (a = 0; a < size; a++)
		for (b = 0; b < size; b++) {
			if (a == b || stub_joined(hartebeest_mesh_qp(meshes[a], b, 0),
						  hartebeest_mesh_qp(meshes[b], a, 0)))
				continue;
			snprintf(text, sizeof(text), "rank %d is not connected to rank %d as it is",
				 a, b);
			return text;
		}
	return NULL;
}

/* ------------------------------------------------------------------------- the sides --- */

static int rank_open(struct bench_rank *rank)
{
	int ret = ours_open(rank);

	return ret < 0 ? ret : ours_objects(rank, NULL);
}

static int connect_mesh(struct bench_rank *rank)
{
	return ours_mesh(rank, (struct ibv_qp_cap){ 0 }, mesh_of(rank));
}

static bool is_replaced(const struct bench_rank *rank)
{
	return rank->rank == rank->pass->size / 2;
}

/* Connects a whole mesh, closes one of its ranks and opens it again. */
static int repair_open(struct bench_rank *rank)
{
	int ret = rank_open(rank);

	if (ret == 0)
		ret = connect_mesh(rank);
	if (ret < 0 || !is_replaced(rank))
		return ret;
	ours_close(rank);
	return rank_open(rank);
}

static int repair(struct bench_rank *rank)
{
	int ret;

	if (is_replaced(rank))
		return connect_mesh(rank);
	ret = hartebeest_mesh_repair(*mesh_of(rank), 0);
	return ret == 0 || ret > 1 ? bench_fail(rank, -EBADMSG, "%d ranks were replaced", ret) :
	       ours_result(rank, ret);
}

static int connect_mesh_on_device(struct bench_rank *rank)
{
	stub_take_time(true);
	return connect_mesh(rank);
}

static int repair_on_device(struct bench_rank *rank)
{
	stub_take_time(true);
	return repair(rank);
}

#define BRINGUP "bring-up"
#define BRINGUP_4 "bring-up, 4 servers"
#define REPAIR "repair"
#define REPAIR_4 "repair, 4 servers"
#define BRINGUP_DEVICE "bring-up, a device's times"
#define REPAIR_DEVICE "repair, a device's times"

static const struct bench_side sides[] = {
	{ .name = BRINGUP, .open = rank_open, .work = connect_mesh, .close = ours_close },
	{ .name = BRINGUP_4, .open = rank_open, .work = connect_mesh, .close = ours_close,
	  .servers = 4 },
	{ .name = REPAIR, .open = repair_open, .work = repair, .close = ours_close },
	{ .name = REPAIR_4, .open = repair_open, .work = repair, .close = ours_close,
	  .servers = 4 },
	{ .name = BRINGUP_DEVICE, .open = rank_open, .work = connect_mesh_on_device,
	  .close = ours_close, .named = true },
	{ .name = REPAIR_DEVICE, .open = repair_open, .work = repair_on_device,
	  .close = ours_close, .named = true },
	{ .name = NULL }
};

static const struct bench_goal goals[] = {
	{ BENCH_GUARD, REPAIR, BENCH_TIME, BRINGUP, 1024, 1024, 0, 0.65 },
	{ BENCH_GUARD, REPAIR_4, BENCH_TIME, BRINGUP_4, 1024, 1024, 0, 0.68 },
	{ BENCH_GUARD, REPAIR_DEVICE, BENCH_TIME, BRINGUP_DEVICE, 1024, 1024, 0, 0.0025 },
	{ BENCH_AIM, REPAIR, BENCH_TIME, BRINGUP, 1024, 1024, 0, 0.01 },
	{ .side = NULL }
};

static const int sizes[] = { 1024, 0 };

int main(int argc, char **argv)
{
	static const struct bench bench = {
		.name = "scale",
		.title = "a mesh of N ranks, and the repair of one",
		.sizes = sizes,
		.sides = sides,
		.goals = goals,
		.restarts = true,
		.prepare = prepare,
		.discard = discard,
		.wrong = wrong,
	};
	int status = bench_main(argc, argv, &bench);

	print_notes();
	print_phases();
	return status;
}
