/* SPDX-License-Identifier: MIT */
/*
 * slow.h - a slow way to a Memcached server
 *
 * Owns a listener, which counts connections, and a thread for each of them.  Loses and changes
 * nothing.
 */
#ifndef TESTS_SLOW_H
#define TESTS_SLOW_H

#include <pthread.h>
#include <stdbool.h>
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
	int accepted;
	int64_t bytes;			/* of answers */
	int64_t longest;		/* from a request to the beginning of its answer, in ns */
	int64_t stalled;		/* the longest sleep of a thread beyond its pause, ns */
	/* kept by slow.c */
	int listener;
	pthread_t thread, watch;
	int passages;			/* atomic, as is the next one */
	bool over;
};

void slow_start(struct slow *slow);

/* What it has counted so far. */
int slow_accepted(const struct slow *slow);
int64_t slow_bytes(const struct slow *slow);
/* How long an answer may have taken for a rank: @longest and @stalled together. */
int64_t slow_longest(const struct slow *slow);

/* After the clients have closed their connections. */
void slow_end(struct slow *slow);

#endif
