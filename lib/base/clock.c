/* SPDX-License-Identifier: MIT */
/*
 * clock.c - monotonic time, deadlines, pauses
 *
 * Owns the arithmetic of time and the one sleep of the library.  Knows nothing of
 * what is waited for.
 */
#include "config.h"

#include <errno.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/random.h"

#define PAUSE_MIN (50 * BEEST_US)
#define CAP_MIN (5 * BEEST_MS)
#define CAP_RANK (20 * BEEST_US)

int64_t beest_clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);	/* cannot fail: Linux always has it */
	return now.tv_sec * BEEST_SECOND + now.tv_nsec;
}

int64_t beest_clock_deadline(int64_t timeout)
{
	int64_t now = beest_clock_now();

	if (timeout > INT64_MAX - now)
		return INT64_MAX;
	return now + timeout;
}

int64_t beest_clock_left(int64_t deadline)
{
	int64_t now = beest_clock_now();

	return deadline > now ? deadline - now : 0;
}

/* Jitter needs no secrecy, so the clock is enough without /dev/urandom. */
static uint32_t draw_seed(int64_t now)
{
	uint32_t seed;

	if (beest_random(&seed, sizeof(seed)) < 0)
		seed = now;
	return seed ? seed : 1;		/* xorshift never leaves 0 */
}

void beest_clock_backoff_start(struct beest_backoff *backoff, int ranks)
{
	int64_t cap = ranks * CAP_RANK;

	backoff->start = beest_clock_now();
	backoff->cap = cap > CAP_MIN ? cap : CAP_MIN;
	backoff->seed = draw_seed(backoff->start);
}

int64_t beest_clock_backoff_pause(int64_t elapsed, int64_t cap)
{
	int64_t pause = elapsed / 16;

	if (pause < PAUSE_MIN)
		pause = PAUSE_MIN;
	return pause < cap ? pause : cap;
}

/* Marsaglia's xorshift32. */
static uint32_t next_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

/* A quarter less to a quarter more, in steps of 1/1024. */
static int64_t add_jitter(int64_t pause, uint32_t *seed)
{
	return pause * (768 + next_random(seed) % 513) / 1024;
}

/* Sleeps until an absolute instant, so that repeated signals do not prolong it. */
static void sleep_until(int64_t instant)
{
	struct timespec until = {
		.tv_sec = instant / BEEST_SECOND,
		.tv_nsec = instant % BEEST_SECOND,
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

void beest_clock_backoff_sleep(struct beest_backoff *backoff, int64_t deadline)
{
	int64_t now = beest_clock_now();
	int64_t pause = beest_clock_backoff_pause(now - backoff->start, backoff->cap);
	int64_t wake = now + add_jitter(pause, &backoff->seed);

	sleep_until(wake < deadline ? wake : deadline);
}
