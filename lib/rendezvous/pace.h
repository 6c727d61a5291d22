/* SPDX-License-Identifier: MIT */
/*
 * pace.h - how long to wait for a server, and how often to ask it
 *
 * Owns the one rule by which requests of every kind adapt to a server that is slow, overloaded or
 * away: it takes what happened to them, and returns times and sizes.  Pure.  Knows nothing of
 * requests or of the clock.
 *
 * Answers that take long are waited for longer: a request goes on while bytes arrive, and fails
 * only after a silence far longer than any answer of this server took.
 *
 * They are also asked for less often.  A rank whose looks are slow rests for an eighth of the time
 * that it has waited.  So N ranks that have waited for t seconds take 8 N / t looks a second, which
 * falls below what any server can answer, however many ranks there are and however slow it is: that
 * is why the rule is stable.  What arrives is seen by an eighth of the time later.  A rank never
 * rests for more than 16 of its looks, so a server that is fast again is soon asked as usual.
 *
 * A request that has failed shows that the connection, the server or the way there cannot carry it.
 * So the next one asks for half as many keys, later: the rest doubles with each failure.  With each
 * answer, the number of keys doubles again.
 */
#ifndef BEEST_PACE_H
#define BEEST_PACE_H

#include <stddef.h>
#include <stdint.h>

/* One for each server; zero at first. */
struct beest_pace {
	int64_t took;			/* the last answer */
	int64_t longest;		/* of late; each shorter one takes a 16th off; 0: none */
	unsigned int failures;		/* in a row */
	size_t keys;			/* that a request may ask for; 0: any number */
};

/* A request took so long until all its answers had arrived. */
void beest_pace_answered(struct beest_pace *pace, int64_t took);

/* A request for so many keys failed: nothing, or not all, arrived. */
void beest_pace_failed(struct beest_pace *pace, size_t keys);

/* How long the server may have been silent and still be only slow, by what is known of it. */
int64_t beest_pace_suspect(const struct beest_pace *pace, int ranks);

/* How long a connection may be silent before it counts as dead, in a job of so many ranks. */
int64_t beest_pace_patience(const struct beest_pace *pace, int ranks);

/* How long to wait for a server with what is sent for the last time, and can be done without. */
int64_t beest_pace_closing(const struct beest_pace *pace);

/*
 * How long the only look of a call may take: BEEST_LIMIT_LOOK; where answers take long, twice as
 * long, but at most 2 s; and 2 s after each seven failures in a row.
 */
int64_t beest_pace_single(const struct beest_pace *pace);

/*
 * The least time between two looks for the same, before jitter, if they began @waited ago.  0:
 * nothing is known against asking at once.
 */
int64_t beest_pace_rest(const struct beest_pace *pace, int64_t waited);

/* How long a server that has failed is not sent what no caller waits for. */
int64_t beest_pace_away(const struct beest_pace *pace);

#endif
