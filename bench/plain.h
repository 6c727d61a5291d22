/* SPDX-License-Identifier: MIT */
/*
 * plain.h - the original's way with a server: one key after the other
 *
 * A handle as memcached_create(3) presets it, one request a key, and a sleep of no length
 * between two looks, which the kernel makes about 60 us.
 */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include <stddef.h>

#include "bench/bench.h"

/* "JOB-KIND-FROM-TO": one server has the keys of all passes. */
struct plain_key {
	char text[64];
};

struct plain_key plain_key(const struct bench_rank *rank, const char *kind, int from, int to);

/* The connection is made here.  The handle goes to rank->own. */
int plain_open(struct bench_rank *rank);
void plain_close(struct bench_rank *rank);

int plain_set(struct bench_rank *rank, const char *key, const void *value, size_t size);

/* Looks until it is there; exactly @size bytes. */
int plain_wait(struct bench_rank *rank, const char *key, void *value, size_t size);

#endif
