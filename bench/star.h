/* SPDX-License-Identifier: MIT */
/*
 * star.h - raw TCP sockets: rank 0 has a connection to every other rank
 *
 * Owns the connections, which are made before the clock starts.  What rank 0 does with
 * what it gathered is its caller's.
 */
#ifndef BENCH_STAR_H
#define BENCH_STAR_H

#include <stddef.h>

#include "bench/bench.h"

int star_open(struct bench_rank *rank);
void star_close(struct bench_rank *rank);

/* @size bytes of every rank, to rank 0, in order of ranks; @all is NULL elsewhere. */
int star_gather(struct bench_rank *rank, const void *mine, size_t size, void *all);

/* Rank r gets @size bytes from @all + r * @stride of rank 0. */
int star_spread(struct bench_rank *rank, const void *all, size_t stride, void *mine,
		size_t size);

/* Nobody returns before all have called. */
int star_meet(struct bench_rank *rank);

#endif
