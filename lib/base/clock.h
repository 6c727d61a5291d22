/* SPDX-License-Identifier: MIT */
/*
 * clock.h - monotonic deadlines and bounded back-off
 *
 * Owns the notion of time: int64_t nanoseconds of CLOCK_MONOTONIC, which no
 * administrator and no NTP daemon sets.  Knows nothing of what is waited for.
 */
#ifndef BEEST_CLOCK_H
#define BEEST_CLOCK_H

#include <stdint.h>

#define BEEST_US INT64_C(1000)
#define BEEST_MS INT64_C(1000000)
#define BEEST_SECOND INT64_C(1000000000)
#define BEEST_DAY (86400 * BEEST_SECOND)

/* Of what is stored: Memcached takes a longer time for a date. */
#define BEEST_TTL_MAX (30 * BEEST_DAY)

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
 */
struct beest_backoff {
	int64_t start;
	int64_t cap;
	uint32_t seed;
};

void beest_clock_backoff_start(struct beest_backoff *backoff, int ranks);

/* The pure part: the pause due @elapsed after the start, before jitter. */
int64_t beest_clock_backoff_pause(int64_t elapsed, int64_t cap);

/* Sleeps one pause, not past @deadline; signals do not shorten it. */
void beest_clock_backoff_sleep(struct beest_backoff *backoff, int64_t deadline);

#endif
