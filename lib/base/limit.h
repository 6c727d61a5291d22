/* SPDX-License-Identifier: MIT */
/*
 * limit.h - how long one call of the library may wait
 *
 * Owns the meaning of a deadline, as hartebeest.h defines it, and of hartebeest_cancel().
 * One limit holds for a whole call, however many waits it makes.  Knows nothing of what a
 * call waits for.
 */
#ifndef BEEST_LIMIT_H
#define BEEST_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"

/* One per context.  Atomic, so that a signal handler may change it. */
struct beest_cancel {
	uint32_t called;		/* how often hartebeest_cancel() was called */
	uint32_t cleared;		/* how often by the last hartebeest_cancel_clear() */
};

struct beest_limit {
	int64_t began, end;		/* times of beest_clock_now() */
	bool once;			/* a single look, whose failure is not logged */
	bool usual;			/* HARTEBEEST_TIMEOUT set it, which its sentences name */
	bool tells;			/* a long wait logs what is missing; false at first */
	bool steady;			/* its pauses do not grow; false at first */
	const struct beest_cancel *cancel;	/* NULL: cannot be cancelled */
	uint32_t cleared;		/* cancel->cleared when the call began */
};

/* @deadline: a valid one of hartebeest.h; 0: @usual from now. */
void beest_limit_start(struct beest_limit *limit, const struct beest_cancel *cancel,
		       int64_t deadline, int64_t usual);

/* Its whole length, counted from the start of the call; 0 for a single look. */
int64_t beest_limit_span(const struct beest_limit *limit);

/*
 * The beginning of a sentence about a wait in vain: "after 30 s: ", or with another @verb; "after
 * 30 s (HARTEBEEST_TIMEOUT): ", which a user may set, if the program gave no deadline; "the
 * deadline had passed: " if it had when the call began, with the time since then if that is long;
 * "" for a single look.  The macro's buffer lives until the end of the block.
 */
#define BEEST_LIMIT_SIZE 128
#define BEEST_LIMIT_TEXT(limit, verb) \
	beest_limit_text((limit), (verb), (char[BEEST_LIMIT_SIZE]){ 0 })
const char *beest_limit_text(const struct beest_limit *limit, const char *verb,
			     char text[BEEST_LIMIT_SIZE]);

/* The time left of it, never negative. */
int64_t beest_limit_left(const struct beest_limit *limit);

/* The least time that a request gets, even when none is left. */
#define BEEST_LIMIT_LOOK (250 * BEEST_MS)

/*
 * True when less than that is left.  A look that begins while this is false and still outlasts
 * the limit was held up, perhaps with the whole machine: what it did not find proves little, so
 * one more look follows.
 */
bool beest_limit_is_short(const struct beest_limit *limit);

/* When a request must end: at the limit's end, or BEEST_LIMIT_LOOK from now if that is later. */
int64_t beest_limit_look(const struct beest_limit *limit);

/* A copy of the limit that ends @time from now at the latest. */
struct beest_limit beest_limit_within(const struct beest_limit *limit, int64_t time);

/* Sleeps one pause of @backoff or none: until it or the limit ends, or the call is cancelled. */
void beest_limit_pause(const struct beest_limit *limit, struct beest_backoff *backoff);

/* Waits until @fd can be read, but at most a second and not past the limit. */
void beest_limit_poll(const struct beest_limit *limit, int fd);

/* The positive errno of a wait that reached the limit: ETIMEDOUT, or EAGAIN for a single look. */
int beest_limit_errno(const struct beest_limit *limit);

/* 0, or -ECANCELED when hartebeest_cancel() ends the call. */
int beest_limit_check(const struct beest_limit *limit);

void beest_cancel_call(struct beest_cancel *cancel);
void beest_cancel_clear(struct beest_cancel *cancel);

#endif
