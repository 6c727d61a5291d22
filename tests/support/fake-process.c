/* SPDX-License-Identifier: MIT */
/* fake-process.c - see fake-process.h */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/process.h"
#include "lib/base/random.h"
#include "tests/support/fake-process.h"

uint32_t fake_process;
bool fake_process_one_host;
pid_t fake_process_pid;
int64_t (*fake_process_began)(pid_t pid);

/* Belongs to no process on this machine, so process ids mean nothing. */
int beest_process_mark(uint8_t mark[BEEST_PROCESS_SIZE])
{
	uint32_t halves[2] = { fake_process_one_host ? 1 : ~fake_process, fake_process };

	memcpy(mark, halves, BEEST_PROCESS_SIZE);
	return 0;
}

bool beest_process_is_here(const struct beest_incarnation *incarnation)
{
	uint8_t mark[BEEST_PROCESS_SIZE];

	beest_process_mark(mark);
	return memcmp(incarnation->bytes, mark, BEEST_PLACE_SIZE) == 0;
}

int beest_process_incarnation(struct beest_incarnation *incarnation)
{
	int ret = beest_random(incarnation, sizeof(*incarnation));

	if (ret == 0)
		ret = beest_process_mark(incarnation->bytes);

	return ret < 0 ? beest_fail_prefix(ret, "no random bits for an incarnation") : 0;
}

bool beest_process_has_ended(pid_t other)
{
	(void)other;
	return false;
}

int64_t beest_process_clock(void)
{
	return beest_clock_now();
}

int64_t beest_process_began(pid_t other)
{
	return fake_process_began ? fake_process_began(other) : -1;
}

uint64_t beest_process_ticks(pid_t other)
{
	int64_t began = beest_process_began(other);

	return began < 0 ? 0 : (uint64_t)(began / BEEST_PROCESS_TICK);
}

bool fake_process_hides_deaths;

/*
 * The random bits of incarnations, 0: none, each at the first free place from its own on.  Not the
 * numbers of processes, which contexts may share that a test opens late.  All of these bits, since
 * a program may kill thousands, and a living one must not be taken for one of them.
 */
static uint64_t killed[1 << 17];
static size_t killed_count;

void fake_process_reset(void)
{
	memset(killed, 0, sizeof(killed));
	killed_count = 0;
	fake_process_one_host = false;
	fake_process_pid = 0;
	fake_process_began = NULL;
}

static uint64_t *killed_find(const struct beest_incarnation *incarnation)
{
	uint64_t bits;
	size_t at;

	memcpy(&bits, incarnation->bytes + BEEST_PROCESS_SIZE, sizeof(bits));
	at = bits % BEEST_COUNT(killed);
	while (killed[at] && killed[at] != bits)
		at = (at + 1) % BEEST_COUNT(killed);
	return &killed[at];
}

void fake_process_kill(const struct beest_incarnation *incarnation)
{
	uint64_t *place = killed_find(incarnation);

	if (!*place && ++killed_count == BEEST_COUNT(killed))
		abort();
	memcpy(place, incarnation->bytes + BEEST_PROCESS_SIZE, sizeof(*place));
}

enum beest_process_life beest_process_life(const struct beest_incarnation *incarnation, pid_t id,
					   uint64_t ticks, const struct beest_incarnation *own)
{
	if (!fake_process_hides_deaths && *killed_find(incarnation))
		return BEEST_PROCESS_DEAD;
	if (!beest_process_is_same_place(incarnation, own) || !ticks)
		return BEEST_PROCESS_UNKNOWN;

	return beest_process_ticks(id) == ticks ? BEEST_PROCESS_ALIVE : BEEST_PROCESS_DEAD;
}

static pid_t pid;			/* 0: unknown */

static void pid_forget(void)
{
	pid = 0;
}

static void pid_watch(void)
{
	pthread_atfork(NULL, NULL, pid_forget);
}

/* The library asks at each look.  Only fork(3) changes the answer, so spare the system call. */
pid_t getpid(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (fake_process_pid)
		return fake_process_pid;
	if (!pid) {
		pthread_once(&once, pid_watch);
		pid = (pid_t)syscall(SYS_getpid);
	}
	return pid;
}
