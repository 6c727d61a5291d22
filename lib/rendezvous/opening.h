/* SPDX-License-Identifier: MIT */
/*
 * opening.h - which rank opens the gate
 *
 * Each rank takes a number.  The one with the last number reads all records and opens the gate.
 * The number only hints: when the gate is late, the first rank that is due adds the key of the
 * taker, and reads the records instead.
 */
#ifndef BEEST_OPENING_H
#define BEEST_OPENING_H

#include "lib/rendezvous/gathering.h"

/* Takes a number with the next look. */
void beest_opening_number_prepare(struct beest_gathering *g);

/*
 * Takes the number ahead of the wait where its answer tells which rank is the last: that rank
 * need not look for a gate that it opens itself.  A server that does not answer is left for the
 * wait to report.
 */
int beest_opening_number_take(struct beest_gathering *g);

/*
 * How many ns the other ranks will probably take, by the counter's @value and by the ns that a
 * look @took; 0: unknown.
 */
int64_t beest_opening_expect(struct beest_gathering *g, const struct beest_kv_value *value,
			     int64_t took);

/*
 * The wait has ended, but by the records just read, all have come: nobody else is to blame if no
 * rank was in time to open the gate.  1: they let this rank pass, which opens the gate for others;
 * 0: the roll call needs more looks.
 */
int beest_opening_at_last(struct beest_gathering *g);

/* After each look: opens the gate if that is up to this rank. */
int beest_opening_each(struct beest_gathering *g);

/* Decides when the gate counts as late, from now on or from the first call for this pass. */
void beest_opening_start(struct beest_gathering *g);

#endif
