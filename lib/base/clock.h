/* SPDX-License-Identifier: MIT */
/*
 * clock.h - monotonic deadlines and bounded back-off
 *
 * Owns the notion of time: int64_t nanoseconds of CLOCK_MONOTONIC, which neither an
 * administrator nor an NTP daemon sets, or of the clock that a test puts in its place.
 * Knows nothing of what a caller waits for.
 */
#ifndef BEEST_CLOCK_H
#define BEEST_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/hartebeest-clock.h"

#define BEEST_US INT64_C(1000)
#define BEEST_MS INT64_C(1000000)
#define BEEST_SECOND INT64_C(1000000000)
#define BEEST_DAY (86400 * BEEST_SECOND)

/* The longest time to live on a server: Memcached reads a longer one as a date. */
#define BEEST_TTL_MAX (30 * BEEST_DAY)

/*
 * Gives the time and sleeps; NULL: the monotonic clock and clock_nanosleep(2).  Only tests set
 * this, and only while no other thread uses the library.
 */
struct beest_clock_source {
	int64_t (*now)(void);
	void (*sleep_until)(int64_t instant);
};

extern const struct beest_clock_source *beest_clock_source;

int64_t beest_clock_now(void);

/* The instant @timeout from now; saturates instead of overflowing. */
int64_t beest_clock_deadline(int64_t timeout);

/* The time left until @deadline, never negative. */
int64_t beest_clock_left(int64_t deadline);

/* "300 ms", "30 s", "10 min": rounded to 1 ms, from 100 ms on to 10 ms, from 10 s on to 1 s. */
#define BEEST_SPAN(ns) beest_clock_span((ns), (char[32]){ 0 })
const char *beest_clock_span(int64_t ns, char text[32]);

/*
 * Waiting without hammering: each pause is elapsed/16, within bounds that grow with the number
 * of ranks polling the same server.  A pause lasts at least 50 us, or 20 us a rank if that is
 * more, so that a server can answer all requests; and at most 5 ms, or 100 us a rank if that is
 * more.  A jitter of a quarter keeps ranks from polling in step.  Measured: 350 us median delay
 * at 2.7 % of a core; with a fixed cap of 5 ms, 1023 pollers starved the server.
 *
 * A few ranks that ask for a few keys do not pause at all while the last progress is recent:
 * two ranks that take turns would otherwise spend most of their time in pauses.
 */
#define BEEST_BACKOFF_KEYS 64		/* at most, asked for by all ranks together */
#define BEEST_BACKOFF_EAGER (200 * BEEST_US)

struct beest_backoff {
	int64_t start;
	int64_t progress;	/* when something last arrived */
	int ranks;
	size_t keys;		/* asked for in each look; the caller sets it */
	int64_t expected;	/* estimated time left to wait, 0: unknown; the caller sets it */
	bool steady;		/* no pause is longer than the first; the caller sets it */
	int64_t rest;		/* no pause is shorter; the caller sets it, 0: as short as usual */
	uint32_t seed;
};

/* Sets keys to SIZE_MAX: only a caller that lowers it looks without pauses. */
void beest_clock_backoff_start(struct beest_backoff *backoff, int ranks);

/* Something arrived: looks for few keys go without pauses again. */
void beest_clock_backoff_progress(struct beest_backoff *backoff);

/* Pure: the pause due @elapsed after the start, before jitter. */
int64_t beest_clock_backoff_pause(int64_t elapsed, int ranks);

/* Sleeps until then; signals do not shorten it. */
void beest_clock_sleep(int64_t instant);

/*
 * When the pause that is due now ends, not past @deadline; a time that has passed: there is none.
 * When the expected time is longer than the pause, it lasts that long, but at most as long as the
 * longest pause.  A rest counts in any case.
 */
int64_t beest_clock_backoff_wake(struct beest_backoff *backoff, int64_t deadline);

/* Sleeps until then, or not at all if there is no pause. */
void beest_clock_backoff_sleep(struct beest_backoff *backoff, int64_t deadline);

#endif
