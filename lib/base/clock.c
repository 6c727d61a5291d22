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
#include "lib/base/macro.h"

#define PAUSE_MIN (50 * BEEST_US)
#define CAP_MIN (5 * BEEST_MS)
#define CAP_RANK (20 * BEEST_US)

const struct beest_clock_source *beest_clock_source;

int64_t beest_clock_now(void)
{
	struct timespec now;

	if (beest_clock_source)
		return beest_clock_source->now();

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

/*
 * Jitter needs no secrecy, only that those who start together differ.  The clock does that
 * across processes, the address within one.  The finalizer of splitmix64 spreads both.
 */
static uint32_t draw_seed(int64_t now, const void *place)
{
	uint64_t x = (uint64_t)now + (uint64_t)(uintptr_t)place * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	x ^= x >> 31;

	return (uint32_t)x ? (uint32_t)x : 1;	/* xorshift never leaves 0 */
}

void beest_clock_backoff_start(struct beest_backoff *backoff, int ranks)
{
	int64_t cap = ranks * CAP_RANK;

	backoff->start = beest_clock_now();
	backoff->progress = backoff->start;
	backoff->cap = cap > CAP_MIN ? cap : CAP_MIN;
	backoff->keys = SIZE_MAX;
	backoff->seed = draw_seed(backoff->start, backoff);
}

void beest_clock_backoff_progress(struct beest_backoff *backoff)
{
	backoff->progress = beest_clock_now();
}

int64_t beest_clock_backoff_pause(int64_t elapsed, int64_t cap)
{
	int64_t pause = elapsed / 16, least = cap > CAP_MIN ? cap / 8 : PAUSE_MIN;

	if (pause < least)
		pause = least;
	return pause < cap ? pause : cap;
}

/* A quarter less to a quarter more, in steps of 1/1024, by Marsaglia's xorshift32. */
static int64_t add_jitter(int64_t pause, uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return pause * (768 + *seed % 513) / 1024;
}

void beest_clock_backoff_sleep(struct beest_backoff *backoff, int64_t deadline)
{
	int64_t now = beest_clock_now();
	int64_t pause = beest_clock_backoff_pause(now - backoff->start, backoff->cap);
	int64_t wake = now + add_jitter(pause, &backoff->seed);
	struct timespec until;

	if (backoff->keys <= BEEST_BACKOFF_KEYS && backoff->cap == CAP_MIN &&
	    now - backoff->progress < BEEST_BACKOFF_EAGER)
		return;

	wake = BEEST_MIN(wake, deadline);
	if (beest_clock_source) {
		beest_clock_source->sleep_until(wake);
		return;
	}

	until.tv_sec = wake / BEEST_SECOND;
	until.tv_nsec = wake % BEEST_SECOND;
	/* Until an absolute instant, so that repeated signals do not prolong it. */
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}
