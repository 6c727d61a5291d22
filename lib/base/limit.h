/* SPDX-License-Identifier: MIT */
/*
 * limit.h - how long one call of the library may wait
 *
 * Owns the meaning of a deadline, as hartebeest.h gives it, and of hartebeest_cancel().
 * One limit holds for all of a call, however many waits that makes.  Knows nothing of what
 * is waited for.
 */
#ifndef BEEST_LIMIT_H
#define BEEST_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"

/* Of a context; atomic counts, so that a signal handler may change them. */
struct beest_cancel {
	uint32_t called;		/* hartebeest_cancel() */
	uint32_t cleared;		/* of those, so many spare the calls that begin now */
};

struct beest_limit {
	int64_t began, end;		/* of beest_clock_now() */
	bool once;			/* one look, of which no line of the log tells */
	const struct beest_cancel *cancel;	/* NULL: nobody cancels */
	uint32_t cleared;		/* as the call began */
};

/* @deadline: of hartebeest.h, and valid; 0: @preset from now. */
void beest_limit_start(struct beest_limit *limit, const struct beest_cancel *cancel,
		       int64_t deadline, int64_t preset);

/* All of it, as the call began: 0 of one look. */
int64_t beest_limit_span(const struct beest_limit *limit);

/* What is left of it, never negative. */
int64_t beest_limit_left(const struct beest_limit *limit);

/* So much time a request has even when none is left. */
#define BEEST_LIMIT_LOOK (250 * BEEST_MS)

/*
 * Is less than that left?  A look that began earlier and outlasts the limit was held up, as the
 * whole machine may have been: what it did not bring says little, and one more follows.
 */
bool beest_limit_is_short(const struct beest_limit *limit);

/* Its end, or that long from now where that is later. */
int64_t beest_limit_look(const struct beest_limit *limit);

/* The same, but @time from now at most. */
struct beest_limit beest_limit_within(const struct beest_limit *limit, int64_t time);

/* Until @fd can be read, but a second at most and not past the limit. */
void beest_limit_poll(const struct beest_limit *limit, int fd);

/* What ends in vain at the limit ends with this: ETIMEDOUT or EAGAIN. */
int beest_limit_errno(const struct beest_limit *limit);

/* 0; -ECANCELED: the call was cancelled since it began. */
int beest_limit_check(const struct beest_limit *limit);

void beest_cancel_call(struct beest_cancel *cancel);
void beest_cancel_clear(struct beest_cancel *cancel);

#endif
