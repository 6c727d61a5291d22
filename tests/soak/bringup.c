/* SPDX-License-Identifier: MIT */
/*
 * bringup.c - repeated bring-ups leave nothing behind
 *
 * 	bringup SECONDS
 *
 * The same job comes up and ends again and again.  Its keys are the same each time, so the
 * server must not have more records after a run than before, and the process not more
 * descriptors, threads or memory.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "tests/support/bringup.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/holdings.h"
#include "tests/support/memcached.h"
#include "tests/support/surroundings.h"

#define RANKS 8
#define FIRST_RUNS 50			/* during these, lasting structures are set up */

/* Ends the program unless the ranks are connected as they should be. */
static void bring_up(const struct cache *cache)
{
	struct bringup *bringup = bringup_new(cache_hostport(cache)->text, "soak", RANKS);
	struct bringup_crowd crowd;
	const char *wrong;

	bringup_let_go(bringup);
	bringup_start(&crowd, bringup);
	bringup_join(&crowd);
	bringup_note_all(&crowd);
	bringup_leave(&crowd);
	wrong = bringup_wrong(bringup);
	if (wrong || fake_verbs.open) {
		fprintf(stderr, "%s; %d objects open\n", wrong ? wrong : "connected",
			fake_verbs.open);
		exit(1);
	}
	bringup_free(bringup);
	fake_verbs_reset();
}

int main(int argc, char **argv)
{
	int64_t end = beest_clock_deadline(atol(argc > 1 ? argv[1] : "10") * BEEST_SECOND);
	struct holdings first, now;
	struct cache *cache;
	long runs;

	surroundings_clear();
	cache_need();
	cache = cache_start(NULL);
	fake_verbs_reset();
	for (runs = 0; runs < FIRST_RUNS; runs++)
		bring_up(cache);
	first = holdings_count(cache);
	for (; beest_clock_left(end); runs++)
		bring_up(cache);
	now = holdings_count(cache);
	cache_end(cache);
	printf("%ld bring-ups of %d ranks, %ld items in the server, %ld KB\n", runs, RANKS,
	       now.items, now.memory);
	return holdings_have_grown(&first, &now);
}
