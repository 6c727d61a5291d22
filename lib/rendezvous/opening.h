/* SPDX-License-Identifier: MIT */
/*
 * opening.h - which rank opens the gate
 *
 * Each rank takes a number, and the last one by the number reads all records and opens the
 * gate.  The number only hints: when a gate is late, whoever is due first takes the taker's
 * key and does so instead.
 */
#ifndef BEEST_OPENING_H
#define BEEST_OPENING_H

#include "lib/rendezvous/gathering.h"

/* Takes a number with the next look. */
void beest_opening_number(struct beest_gathering *g);

/*
 * Takes it ahead of the wait where its answer tells the last rank: that one need not look for a
 * gate which it opens itself.  What a server does not answer, the wait tells.
 */
int beest_opening_take(struct beest_gathering *g);

/*
 * How long the others will take, by the counter's @value and by how long a look @took; 0: nothing
 * is known.
 */
int64_t beest_opening_expect(struct beest_gathering *g, const struct beest_kv_value *value,
			     int64_t took);

/* After each look: opens the gate where that is this rank's to do. */
int beest_opening_each(struct beest_gathering *g);

/* When to look as if nobody else would, from now on. */
void beest_opening_times(struct beest_gathering *g);

#endif
