/* SPDX-License-Identifier: MIT */
/*
 * slow.h - a slow way to a Memcached server
 *
 * Owns a listener, which counts connections, and a thread for each of them.  Loses and changes
 * nothing.
 */
#ifndef TESTS_SLOW_H
#define TESTS_SLOW_H

#include <stdint.h>

#include "tests/support/memcached.h"

struct slow {
	/* in */
	struct cache *cache;
	int64_t delay;			/* ns from each request to its answer */
	int64_t rate;			/* bytes a second of all answers together; 0: no limit */
	size_t largest;			/* longer requests and answers get lost; 0: none does */
	/* out */
	struct beest_hostport endpoint;
	int accepted;			/* atomic */
	int64_t bytes;			/* of answers; atomic */
	/* kept by slow.c */
	int listener;
};

void slow_start(struct slow *slow);

/* After all connections were closed. */
void slow_end(struct slow *slow);

#endif
