/* SPDX-License-Identifier: MIT */
/* fake-clock.c - see fake-clock.h */
#include "config.h"

#include <pthread.h>
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

/* Of fake_clock_together(), whose threads take turns of so much time. */
#define STEP (SECOND / 2)
#define LONGEST (SECOND / 50)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turned = PTHREAD_COND_INITIALIZER;
static int together, paused;		/* threads; the first is atomic, too */
static unsigned int turn;
static int64_t base, turned_at;		/* when this turn began, by their time and the machine's */
static int64_t creep;			/* in this turn, beyond LONGEST */

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

static int64_t machine_now(void)
{
	struct timespec now;

	__real_clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND + now.tv_nsec;
}

/*
 * With the lock.  What the machine takes for a turn counts only up to LONGEST.  From there on, time
 * goes on by a microsecond each time that it is read, since a thread may look again and again, and
 * pause only after a while.
 */
static int64_t together_now(void)
{
	int64_t taken = machine_now() - turned_at;

	return base + (taken < LONGEST ? taken : LONGEST + (creep += SECOND / 1000000));
}

int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	int ret = __real_clock_gettime(id, now);

	if (ret != 0 || id != CLOCK_MONOTONIC)
		return ret;
	*now = shifted(now, ahead());
	if (!__atomic_load_n(&together, __ATOMIC_ACQUIRE))
		return 0;
	pthread_mutex_lock(&lock);
	if (together)
		*now = shifted(&(struct timespec){ 0 }, together_now() + skipped);
	pthread_mutex_unlock(&lock);
	return 0;
}

/* With the lock. */
static void turn_end(int64_t step)
{
	base = together_now() + step;
	turned_at = machine_now();
	creep = 0;
	paused = 0;
	turn++;
	pthread_cond_broadcast(&turned);
}

static void pause_together(int64_t until)
{
	unsigned int now;

	pthread_mutex_lock(&lock);
	while (together && together_now() < until) {
		now = turn;
		if (++paused == together)
			turn_end(STEP);
		while (now == turn)
			pthread_cond_wait(&turned, &lock);
	}
	pthread_mutex_unlock(&lock);
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
	if (__atomic_load_n(&together, __ATOMIC_ACQUIRE)) {
		pause_together(until->tv_sec * SECOND + until->tv_nsec - skipped);
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

void fake_clock_together(int threads)
{
	pthread_mutex_lock(&lock);
	turned_at = machine_now();
	base = turned_at + __atomic_load_n(&common, __ATOMIC_RELAXED);
	creep = 0;
	paused = 0;
	__atomic_store_n(&together, threads, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
}

void fake_clock_part(void)
{
	pthread_mutex_lock(&lock);
	if (together) {
		__atomic_sub_fetch(&together, 1, __ATOMIC_RELEASE);
		if (paused == together)
			turn_end(paused ? STEP : 0);
		__atomic_store_n(&common, base - turned_at, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&lock);
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
