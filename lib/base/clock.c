/* SPDX-License-Identifier: MIT */
/* clock.c - see clock.h */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/macro.h"

#define LEAST_MIN (50 * BEEST_US)
#define LEAST_RANK (20 * BEEST_US)
#define CAP_MIN (5 * BEEST_MS)
#define CAP_RANK (100 * BEEST_US)

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

/* Rounds, since a few microseconds of a limit have passed by the time the call begins. */
const char *beest_clock_span(int64_t ns, char text[32])
{
	int64_t unit = ns < 100 * BEEST_MS ? BEEST_MS :
		       ns < 10 * BEEST_SECOND ? 10 * BEEST_MS : BEEST_SECOND;
	int64_t rounded = (ns + unit / 2) / unit * unit, seconds = rounded / BEEST_SECOND;

	if (rounded % BEEST_SECOND)
		snprintf(text, 32, "%" PRId64 " ms", rounded / BEEST_MS);
	else if (seconds < 120 || seconds % 60)
		snprintf(text, 32, "%" PRId64 " s", seconds);
	else
		snprintf(text, 32, "%" PRId64 " min", seconds / 60);

	return text;
}

/*
 * Jitter need not be secret.  Waits that start together need different seeds: the clock
 * differs across processes, the address within one.
 */
void beest_clock_backoff_start(struct beest_backoff *backoff, int ranks)
{
	int64_t now = beest_clock_now();
	uint64_t place[] = { (uint64_t)now, (uint64_t)(uintptr_t)backoff };

	backoff->start = now;
	backoff->progress = now;
	backoff->ranks = BEEST_MAX(ranks, 1);
	backoff->keys = SIZE_MAX;
	backoff->expected = 0;
	backoff->steady = false;
	backoff->rest = 0;
	backoff->seed = (uint32_t)beest_hash_fnv(BEEST_HASH_FNV, place, sizeof(place));
}

void beest_clock_backoff_progress(struct beest_backoff *backoff)
{
	backoff->progress = beest_clock_now();
}

int64_t beest_clock_backoff_pause(int64_t elapsed, int ranks)
{
	int64_t least = BEEST_MAX(ranks * LEAST_RANK, LEAST_MIN);
	int64_t cap = BEEST_MAX(ranks * CAP_RANK, CAP_MIN);

	return BEEST_MIN(BEEST_MAX(elapsed / 16, least), cap);
}

/* A quarter less to a quarter more, in steps of 1/1024. */
static int64_t add_jitter(int64_t pause, uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;	/* the upper bits are more random */
	return pause * (768 + (*seed >> 16) % 513) / 1024;
}

void beest_clock_sleep(int64_t instant)
{
	struct timespec until = {
		.tv_sec = instant / BEEST_SECOND, .tv_nsec = instant % BEEST_SECOND,
	};

	if (beest_clock_source) {
		beest_clock_source->sleep_until(instant);
		return;
	}
	/* An absolute time, so that repeated signals do not prolong the sleep. */
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

int64_t beest_clock_backoff_wake(struct beest_backoff *backoff, int64_t deadline)
{
	int64_t now = beest_clock_now();
	int64_t most = beest_clock_backoff_pause(INT64_MAX, backoff->ranks);
	int64_t elapsed = backoff->steady ? 0 : now - backoff->start;
	int64_t pause = beest_clock_backoff_pause(elapsed, backoff->ranks);

	pause = BEEST_MAX(pause, BEEST_MIN(backoff->expected, most));
	pause = add_jitter(BEEST_MAX(pause, backoff->rest), &backoff->seed);
	if (!backoff->rest && backoff->keys <= BEEST_BACKOFF_KEYS / (size_t)backoff->ranks &&
	    now - backoff->progress < BEEST_BACKOFF_EAGER)
		return 0;

	return BEEST_MIN(now + pause, deadline);
}

void beest_clock_backoff_sleep(struct beest_backoff *backoff, int64_t deadline)
{
	int64_t wake = beest_clock_backoff_wake(backoff, deadline);

	if (wake)
		beest_clock_sleep(wake);
}
