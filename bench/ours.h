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

#endif
