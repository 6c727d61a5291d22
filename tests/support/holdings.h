/* SPDX-License-Identifier: MIT */
/*
 * holdings.h - what a process and its server hold, before and after
 *
 * Owns the counting, and the sentence about what has grown.  Knows nothing of what the process
 * did in between.
 */
#ifndef TESTS_HOLDINGS_H
#define TESTS_HOLDINGS_H

#include "tests/support/memcached.h"

struct holdings {
	long items;			/* of the server */
	long descriptors, threads;	/* of this process */
	long memory;			/* resident, KB */
};

struct holdings holdings_count(const struct cache *cache);

/* Reports growth on stderr, except a little memory; 0: nothing has grown. */
int holdings_have_grown(const struct holdings *before, const struct holdings *now);

#endif
