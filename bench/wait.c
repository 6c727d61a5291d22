/* SPDX-License-Identifier: MIT */
/*
 * wait.c - one rank waits for a key that another sets later
 *
 * The column "ms" is the delay from setting the key to having it.  The CPU time is that of the
 * waiter and the server for the whole wait.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "bench/bench.h"
#include "bench/ours.h"
#include "bench/plain.h"

#define WAITER 0
#define SETTER 1

static const char value[] = "here";

struct key {
	char text[64];
};

static struct key late_key(const struct bench_rank *rank)
{
	struct key key;

	snprintf(key.text, sizeof(key.text), "%s-late", rank->pass->job);
	return key;
}

/* The setter starts the clock when it sets the key; the waiter's start does not count. */
static void let_time_pass(struct bench_rank *rank)
{
	struct timespec left = { rank->pass->size / 1000, rank->pass->size % 1000 * 1000000 };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
	rank->start = bench_clock();
}

static int check(struct bench_rank *rank, int ret, const char *found)
{
	rank->start = INT64_MAX;
	return ret < 0 || strcmp(found, value) == 0 ? ret : -EBADMSG;
}

static int library_work(struct bench_rank *rank)
{
	struct key key = late_key(rank);
	char found[sizeof(value)] = "";
	int ret;

	if (rank->rank == WAITER) {
		ret = hartebeest_msg_wait(rank->own, key.text, found, sizeof(found), NULL, 0);
		return check(rank, ours_result(rank, ret), found);
	}
	let_time_pass(rank);
	return ours_result(rank, hartebeest_msg_push(rank->own, key.text, value, sizeof(value), 0));
}

static int plain_work(struct bench_rank *rank)
{
	struct key key = late_key(rank);
	char found[sizeof(value)] = "";
	int ret;

	if (rank->rank == WAITER) {
		ret = plain_wait(rank, key.text, found, sizeof(found));
		return check(rank, ret, found);
	}
	let_time_pass(rank);
	return plain_set(rank, key.text, value, sizeof(value));
}

#define OURS "hartebeest_msg_wait"
#define PLAIN "sleep(0) polling"

static const struct bench_side sides[] = {
	{ .name = OURS, .open = ours_open_connected, .work = library_work, .close = ours_close },
	{ .name = PLAIN, .open = plain_open, .work = plain_work, .close = plain_close },
	{ .name = NULL }
};

static const struct bench_goal goals[] = {
	{ BENCH_GUARD, OURS, BENCH_RANK_CPU, PLAIN, 100, 100, 0, 1 / 6.0 },
	{ BENCH_GUARD, OURS, BENCH_RANK_CPU, PLAIN, 1000, 10000, 0, 1 / 11.0 },
	{ BENCH_GUARD, OURS, BENCH_KEYS, PLAIN, 100, 100, 0, 0.27 },
	{ BENCH_GUARD, OURS, BENCH_KEYS, PLAIN, 1000, 10000, 0, 0.11 },
	{ BENCH_GUARD, OURS, BENCH_TIME, PLAIN, 1, 1, 0, 1.6 },
	{ BENCH_GUARD, OURS, BENCH_TIME, PLAIN, 10, 10, 0, 6.0 },
	/* A pause is up to 5 ms long then: a median of a few is 1 to 5 ms; polling takes 0.1. */
	{ BENCH_GUARD, OURS, BENCH_TIME, PLAIN, 100, 10000, 0, 35 },
	{ BENCH_AIM, OURS, BENCH_TIME, NULL, 1, 10, 0, 1 },
	{ BENCH_AIM, OURS, BENCH_TIME, NULL, 100, 10000, 0, 7 },
	{ .side = NULL }
};

static const int sizes[] = { 1, 10, 100, 1000, 0 };

int main(int argc, char **argv)
{
	static const struct bench bench = {
		.name = "wait",
		.title = "a key that comes after a while: delay, and what the wait costs",
		.column = "wait, ms",
		.sizes = sizes,
		.sides = sides,
		.goals = goals,
		.ranks = 2,
	};

	return bench_main(argc, argv, &bench);
}
