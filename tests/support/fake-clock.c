/* SPDX-License-Identifier: MIT */
/* fake-clock.c - see fake-clock.h */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "tests/support/fake-clock.h"

#define SECOND INT64_C(1000000000)

/* So a wait of a minute looks four times, and asks a silent server three times. */
#define SKIP (25 * SECOND)

static bool hurried;			/* atomic, as are the next two */
static int waiting;
static int64_t common;			/* skipped time that all threads see */
static __thread int64_t skipped;	/* since the last fake_clock_settle() of this thread */
static __thread bool has_paused;
static __thread int64_t lapse;		/* of the next pause; 0: it takes its own time */

/* By the linker's --wrap, the library calls the first of each pair. */
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_nanosleep(clockid_t id, int flags, const struct timespec *until,
			   struct timespec *left);
int __real_clock_nanosleep(clockid_t id, int flags, const struct timespec *until,
			   struct timespec *left);

static int64_t ahead(void)
{
	return __atomic_load_n(&common, __ATOMIC_RELAXED) + skipped;
}

static struct timespec shifted(const struct timespec *time, int64_t ns)
{
	int64_t sum = time->tv_sec * SECOND + time->tv_nsec + ns;

	return (struct timespec){ .tv_sec = sum / SECOND, .tv_nsec = sum % SECOND };
}

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	int ret = __real_clock_gettime(id, now);

	if (ret == 0 && id == CLOCK_MONOTONIC)
		*now = shifted(now, ahead());
	return ret;
}

/* The library sleeps only here, until an instant of its own clock. */
int __wrap_clock_nanosleep(clockid_t id, int flags, const struct timespec *until,
			   struct timespec *left)
{
	struct timespec real = shifted(until, -ahead());

	if (!has_paused)
		__atomic_add_fetch(&waiting, 1, __ATOMIC_RELEASE);
	has_paused = true;
	if (lapse) {
		skipped += lapse;
		lapse = 0;
		return 0;
	}
	if (!__atomic_load_n(&hurried, __ATOMIC_ACQUIRE))
		return __real_clock_nanosleep(id, flags, &real, left);

	skipped += SKIP;
	return 0;
}

void fake_clock_hurry(void)
{
	__atomic_store_n(&hurried, true, __ATOMIC_RELEASE);
}

int fake_clock_settle(int ret)
{
	__atomic_store_n(&hurried, false, __ATOMIC_RELEASE);
	__atomic_add_fetch(&common, skipped, __ATOMIC_RELAXED);
	skipped = 0;
	return ret;
}

void fake_clock_skip(int64_t ns)
{
	skipped += ns;
}

void fake_clock_lapse(int64_t ns)
{
	lapse = ns;
}

int fake_clock_waiting(void)
{
	return __atomic_load_n(&waiting, __ATOMIC_ACQUIRE);
}
