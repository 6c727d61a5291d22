/* SPDX-License-Identifier: MIT */
/*
 * barrier.c - N ranks meet again and again
 *
 * The first passes are not measured: the library's first barrier of a job does more than later
 * ones.  Figures are for one pass.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/ours.h"
#include "bench/raw.h"
#include "bench/star.h"

#define EARLIER 2
#define PASSES 10

static int meet(struct bench_rank *rank, int passes)
{
	int ret = 0;

	while (passes-- && ret == 0)
		ret = ours_result(rank, hartebeest_barrier(rank->own, "bench", 0));
	return ret;
}

static int library_open(struct bench_rank *rank)
{
	int ret = ours_open(rank);

	return ret < 0 ? ret : meet(rank, EARLIER);
}

static int library_work(struct bench_rank *rank)
{
	return meet(rank, PASSES);
}

static int sockets_work(struct bench_rank *rank)
{
	int i, ret = 0;

	for (i = 0; i < PASSES && ret == 0; i++)
		ret = star_meet(rank);
	return ret;
}

/* ------------------------------------------------------------- raw memcached --- */

/*
 * The least that a barrier through a server costs.  Each rank stores a record and takes a
 * number in one write.  The last rank reads all records and opens a gate; the others look for
 * the gate with the library's pauses.
 */
static int gate_open(struct bench_rank *rank)
{
	struct raw *raw;
	int i, ret = raw_open(rank);
	size_t length;

	raw = rank->device;
	for (i = 0; i < PASSES && rank->rank == 0 && ret == 0; i++) {
		length = (size_t)sprintf(raw->text, "add %s-%d 0 0 1\r\n0\r\n", rank->pass->job, i);
		ret = raw_talk(rank, length, 1);
	}
	return ret;
}

static int raw_open_gate(struct bench_rank *rank, int pass)
{
	struct raw *raw = rank->device;
	size_t length = (size_t)sprintf(raw->text, "get");
	int i, ret;

	for (i = 0; i < rank->pass->size; i++)
		length += (size_t)sprintf(raw->text + length, " %s-%d-%d", rank->pass->job, pass,
					  i);
	length += (size_t)sprintf(raw->text + length, "\r\n");
	ret = raw_talk(rank, length, 2 * rank->pass->size + 1);
	if (ret < 0)
		return ret;
	length = (size_t)sprintf(raw->text, "set %s-%d-gate 0 0 1\r\nx\r\n", rank->pass->job, pass);
	return raw_talk(rank, length, 1);
}

static int raw_pass(struct bench_rank *rank, int pass)
{
	struct raw *raw = rank->device;
	const char *job = rank->pass->job;
	char gate[64];
	size_t length = (size_t)sprintf(raw->text, "set %s-%d-%d 0 0 1\r\nx\r\nincr %s-%d 1\r\n",
					job, pass, rank->rank, job, pass);
	int ret = raw_talk(rank, length, 2);

	if (ret < 0)
		return ret;
	if (atoi(strchr(raw->text, '\n') + 1) == rank->pass->size)
		return raw_open_gate(rank, pass);
	snprintf(gate, sizeof(gate), "%s-%d-gate", job, pass);
	return raw_await(rank, gate);
}

static int raw_work(struct bench_rank *rank)
{
	int i, ret = 0;

	for (i = 0; i < PASSES && ret == 0; i++)
		ret = raw_pass(rank, i);
	return ret;
}

/* -------------------------------------------------------------------- table --- */

static int pmix_programs(struct bench_pass *pass)
{
	int ret = bench_command(pass, pass->size, BENCH_MPIRUN " -n %d %s barrier %d", pass->limit,
				pass->size, bench_program("pmix"), PASSES);

	pass->figures[BENCH_TIME] /= PASSES;
	return ret;
}

#define OURS "hartebeest_barrier"
#define SOCKETS "socket star"
#define RAW "raw memcached"
#define PMIX "PMIx_Fence"

static const struct bench_side sides[] = {
	{ .name = OURS, .open = library_open, .work = library_work, .close = ours_close },
	{ .name = SOCKETS, .open = star_open, .work = sockets_work, .close = star_close },
	{ .name = RAW, .open = gate_open, .work = raw_work, .close = raw_close },
	{ .name = PMIX, .programs = pmix_programs, .missing = bench_pmix_missing, .largest = 64 },
	{ .name = NULL }
};

static const struct bench_goal goals[] = {
	{ BENCH_GUARD, OURS, BENCH_TIME, RAW, 2, 2, 0, 0.74 },
	{ BENCH_GUARD, OURS, BENCH_TIME, RAW, 4, 4, 0, 1.4 },
	{ BENCH_GUARD, OURS, BENCH_TIME, RAW, 8, 16, 0, 1.8 },
	{ BENCH_GUARD, OURS, BENCH_TIME, RAW, 64, 1024, 0, 1.0 },
	{ BENCH_GUARD, OURS, BENCH_TIME, PMIX, 8, 64, 0, 2.1 },
	{ BENCH_GUARD, OURS, BENCH_KEYS, RAW, 2, 16, 0, 2.2 },
	{ BENCH_GUARD, OURS, BENCH_KEYS, RAW, 64, 1024, 0, 1.5 },
	{ BENCH_AIM, OURS, BENCH_TIME, RAW, 8, 16, 0, 1.5 },
	{ .side = NULL }
};

static const int sizes[] = { 2, 4, 8, 16, 64, 256, 1024, 0 };

int main(int argc, char **argv)
{
	static const struct bench bench = {
		.name = "barrier",
		.title = "later passes of a barrier of N ranks",
		.sizes = sizes,
		.sides = sides,
		.goals = goals,
		.repeats = PASSES,
	};

	return bench_main(argc, argv, &bench);
}
