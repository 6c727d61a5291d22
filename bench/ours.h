/* SPDX-License-Identifier: MIT */
/*
 * ours.h - the library's sides: a context for each rank
 *
 * A context connects to the server as it first needs it, so each bench does a thing of
 * its own kind before the clock starts.
 */
#ifndef BENCH_OURS_H
#define BENCH_OURS_H

#include "bench/bench.h"
#include "hartebeest.h"

#define OURS_NAME 64	/* room for a key */

/* The context goes to rank->own. */
int ours_open(struct bench_rank *rank);
void ours_close(struct bench_rank *rank);

/* Keeps the library's sentence when @ret is negative.  Returns @ret. */
int ours_result(struct bench_rank *rank, int ret);

/* What one call for many queue pairs takes.  Names live in it. */
struct ours_call {
	struct hartebeest_pair *pairs;
	struct hartebeest_remote_mr *regions;	/* one a pair, where one is offered */
	char (*names)[2][OURS_NAME];
	size_t count;
};

/* Room for @count pairs; never fails.  ours_call_end() frees it. */
void ours_call_begin(struct ours_call *call, size_t count);
void ours_call_end(struct ours_call *call);

/*
 * One more: the queue pair @own, published under its name, to the peer's @theirs.
 * @offer: the own region that comes along; NULL: none
 */
void ours_call_add(struct ours_call *call, const char *own, const char *theirs,
		   const char *const *offer);

#endif
