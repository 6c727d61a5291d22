/* SPDX-License-Identifier: MIT */
/*
 * star.h - raw TCP sockets: rank 0 has a connection to every other rank
 *
 * Owns the connections, which are made before the clock starts.  The caller decides what rank 0
 * does with the bytes it gathered.
 */
#ifndef BENCH_STAR_H
#define BENCH_STAR_H

#include <stddef.h>

#include "bench/bench.h"

int star_open(struct bench_rank *rank);
void star_close(struct bench_rank *rank);

/* Sends @size bytes of every rank to rank 0, which gets them in @all by rank; others pass NULL. */
int star_gather(struct bench_rank *rank, const void *mine, size_t size, void *all);

/* Rank r gets @size bytes from @all + r * @stride of rank 0. */
int star_spread(struct bench_rank *rank, const void *all, size_t stride, void *mine,
		size_t size);

/* Returns when all ranks have called it. */
int star_meet(struct bench_rank *rank);

#endif
