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

/* "300 ms", "30 s", "10 min": rounded to 10 ms, and from 10 s on to seconds. */
#define BEEST_SPAN(ns) beest_clock_span((ns), (char[32]){ 0 })
const char *beest_clock_span(int64_t ns, char text[32]);

/*
 * Waiting without hammering: each pause is elapsed/16, with bounds that grow with the number
 * of ranks polling the same server: at least 50 us or 20 us a rank, so that a server is
 * not asked for more than it can answer, and at most 5 ms or 100 us a rank.  A jitter of a
 * quarter keeps ranks from marching in step.  Measured: 350 us median delay at 2.7 % of a
 * core; a fixed 5 ms cap let 1023 pollers starve the server.
 *
 * Few ranks that ask for few keys do not pause at all while the last progress is recent:
 * two that work hand in hand would lose most of their time in pauses.
 */
#define BEEST_BACKOFF_KEYS 64		/* asked for by all ranks together */
#define BEEST_BACKOFF_EAGER (200 * BEEST_US)

struct beest_backoff {
	int64_t start;
	int64_t progress;	/* when something last came */
	int ranks;
	size_t keys;		/* asked for at each look; to be set by the caller */
	int64_t expected;	/* what may be left to wait; 0: no idea; likewise */
	uint32_t seed;
};

/* keys is SIZE_MAX then: no caller looks eagerly unless it says how little it asks for. */
void beest_clock_backoff_start(struct beest_backoff *backoff, int ranks);

/* Something came: few keys are asked for eagerly again. */
void beest_clock_backoff_progress(struct beest_backoff *backoff);

/* The pure part: the pause due @elapsed after the start, before jitter. */
int64_t beest_clock_backoff_pause(int64_t elapsed, int ranks);

/*
 * Sleeps one pause or none, not past @deadline; signals do not shorten it.  Where more time
 * is expected than a pause takes, it sleeps until then, within the bounds of a pause.
 */
void beest_clock_backoff_sleep(struct beest_backoff *backoff, int64_t deadline);

#endif
