/* SPDX-License-Identifier: MIT */
/*
 * barrier.c - N ranks meet again and again
 *
 * The first passes are taken before the clock: the library's first barrier of a job does
 * more than later ones.  Figures are for one pass.
 */
#include "config.h"

#include "bench/bench.h"
#include "bench/ours.h"
#include "bench/star.h"

#define EARLIER 2
#define PASSES 10

static int meet(struct bench_rank *rank, int passes)
{
	int ret = 0;

	while (passes-- && ret == 0)
		ret = ours_result(rank, hartebeest_barrier(rank->own, "bench"));
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

static int pmix_programs(struct bench_pass *pass)
{
	int ret = bench_command(pass, pass->size, BENCH_MPIRUN " -n %d %s barrier %d", pass->limit,
				pass->size, bench_program("pmix"), PASSES);

	pass->figures[BENCH_TIME] /= PASSES;
	return ret;
}

#define OURS "hartebeest_barrier"
#define SOCKETS "socket star"
#define PMIX "PMIx_Fence"

static const struct bench_side sides[] = {
	{ .name = OURS, .open = library_open, .work = library_work, .close = ours_close },
	{ .name = SOCKETS, .open = star_open, .work = sockets_work, .close = star_close },
	{ .name = PMIX, .programs = pmix_programs, .missing = bench_pmix_missing, .largest = 64 },
	{ .name = NULL }
};

static const struct bench_goal goals[] = {
	{ OURS, BENCH_TIME, SOCKETS, 2, 4, 0, 2.0, "twice the time of raw sockets up to 4 ranks" },
	{ OURS, BENCH_TIME, SOCKETS, 8, 1024, 0, 1.5, "1.5 x the time of raw sockets from 8 on" },
	{ OURS, BENCH_TIME, PMIX, 8, 64, 0, 2.5, "2.5 x the time of PMIx_Fence" },
	{ OURS, BENCH_TIME, NULL, 1024, 1024, 0, 300, "1024 ranks under 0.3 s" },
	{ OURS, BENCH_KEYS, NULL, 2, 1024, 0, 40, "40 keys a rank" },
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
