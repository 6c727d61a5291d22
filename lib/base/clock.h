/* SPDX-License-Identifier: MIT */
/*
 * clock.h - monotonic deadlines and bounded back-off
 *
 * Owns the notion of time: int64_t nanoseconds of CLOCK_MONOTONIC, which no
 * administrator and no NTP daemon sets, or of the clock that a test puts in its place.
 * Knows nothing of what is waited for.
 */
#ifndef BEEST_CLOCK_H
#define BEEST_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "include/hartebeest-clock.h"

#define BEEST_US INT64_C(1000)
#define BEEST_MS INT64_C(1000000)
#define BEEST_SECOND INT64_C(1000000000)
#define BEEST_DAY (86400 * BEEST_SECOND)

/* Of what is stored: Memcached takes a longer time for a date. */
#define BEEST_TTL_MAX (30 * BEEST_DAY)

/*
 * Where the time comes from, and who lets it pass; NULL: the monotonic clock and
 * clock_nanosleep(2).  Only tests set it, and only while no other thread uses the library.
 */
struct beest_clock_source {
	int64_t (*now)(void);
	void (*sleep_until)(int64_t instant);
};

extern const struct beest_clock_source *beest_clock_source;

int64_t beest_clock_now(void);

/* The instant @timeout from now; saturates instead of overflowing. */
int64_t beest_clock_deadline(int64_t timeout);

/* What is left until @deadline, never negative. */
int64_t beest_clock_left(int64_t deadline);


/*
 * Waiting without hammering: each pause is elapsed/16, at least 50 us, at most a
 * cap that grows with the number of ranks polling the same server (5 ms, or 20 us
 * a rank), with a jitter of a quarter so that ranks do not march in step.
 * Measured: 350 us median delay at 2.7 % of a core; a fixed 5 ms cap let 1023
 * pollers starve the server.
 *
 * Who asks for a few keys does not pause at all while the last progress is recent: two
 * ranks that work hand in hand would lose most of their time in pauses.
 */
#define BEEST_BACKOFF_KEYS 16
#define BEEST_BACKOFF_EAGER (200 * BEEST_US)

struct beest_backoff {
	int64_t start;
	int64_t progress;	/* when something last came */
	int64_t cap;
	size_t keys;		/* asked for at each look; to be set by the caller */
	uint32_t seed;
};

/* keys is SIZE_MAX then: no caller looks eagerly unless it says how little it asks for. */
void beest_clock_backoff_start(struct beest_backoff *backoff, int ranks);

/* Something came: up to BEEST_BACKOFF_KEYS keys are asked for eagerly again. */
void beest_clock_backoff_progress(struct beest_backoff *backoff);

/* The pure part: the pause due @elapsed after the start, before jitter. */
int64_t beest_clock_backoff_pause(int64_t elapsed, int64_t cap);

/* Sleeps one pause or none, not past @deadline; signals do not shorten it. */
void beest_clock_backoff_sleep(struct beest_backoff *backoff, int64_t deadline);

#endif
