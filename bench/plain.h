/* SPDX-License-Identifier: MIT */
/*
 * plain.h - the original's way with a server: one key after the other
 *
 * A handle as memcached_create(3) sets it up, one request a key, and a sleep(0) between two
 * looks, which takes about 60 us in the kernel.
 */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include <stddef.h>

#include "bench/bench.h"

/* "JOB-KIND-FROM-TO", since one server has the keys of all passes. */
struct plain_key {
	char text[64];
};

struct plain_key plain_key(const struct bench_rank *rank, const char *kind, int from, int to);

/* Connects, and stores the handle in rank->own. */
int plain_open(struct bench_rank *rank);
void plain_close(struct bench_rank *rank);

int plain_set(struct bench_rank *rank, const char *key, const void *value, size_t size);

/* Looks until the value is there; it must have exactly @size bytes. */
int plain_wait(struct bench_rank *rank, const char *key, void *value, size_t size);

int plain_delete(struct bench_rank *rank, const char *key);

#endif
