/* SPDX-License-Identifier: MIT */
/* process.c - see process.h */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/process.h"
#include "lib/base/random.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* In /proc/PID/stat, by proc(5): the program's name in brackets, and the time of the start. */
#define STAT_NAME 2
#define STAT_BEGAN 22

/* 0: unknown, or a kernel without name spaces of that kind. */
static uint64_t name_space(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 ? status.st_ino : 0;
}

/*
 * The name of a host may change while its programs run, so it counts only where /proc is missing.
 * A name space of times shifts the starts of processes that /proc shows in it.
 */
static uint32_t place_hash(void)
{
	struct {
		uint64_t pids, times;
		char boot[40], host[64];
	} all;

	memset(&all, 0, sizeof(all));
	all.pids = name_space("/proc/self/ns/pid");
	all.times = name_space("/proc/self/ns/time");
	if ((!beest_file_line(BOOT_ID, all.boot, sizeof(all.boot)) || !all.pids) &&
	    gethostname(all.host, sizeof(all.host)) < 0)
		all.host[0] = '\0';

	return beest_hash_crc32(0, &all, sizeof(all));
}

/* Found once, since a program may change its root, and have no /proc from then on. */
static uint32_t process_place(void)
{
	static uint64_t found;		/* with the process id before it: a child has its own */
	const uint64_t own = (uint64_t)getpid() << 32;
	uint64_t place = __atomic_load_n(&found, __ATOMIC_RELAXED);

	if (place >> 32 != own >> 32) {
		place = own | place_hash();
		__atomic_store_n(&found, place, __ATOMIC_RELAXED);
	}

	return (uint32_t)place;
}

/* The mark depends on the process id, so that a forked child has another one. */
int beest_process_mark(uint8_t mark[BEEST_PROCESS_SIZE])
{
	static uint32_t seed;		/* drawn once; 0: not yet */
	uint32_t fresh, none = 0, halves[2];
	struct {
		uint32_t seed, pid;
	} self = { .pid = (uint32_t)getpid() };
	int ret;

	if (!__atomic_load_n(&seed, __ATOMIC_RELAXED)) {
		ret = beest_random(&fresh, sizeof(fresh));
		if (ret < 0)
			return ret;
		__atomic_compare_exchange_n(&seed, &none, fresh | 1, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	}
	self.seed = __atomic_load_n(&seed, __ATOMIC_RELAXED);

	halves[0] = process_place();
	halves[1] = beest_hash_crc32(0, &self, sizeof(self));
	memcpy(mark, halves, BEEST_PROCESS_SIZE);
	return 0;
}

/*
 * Reads /proc/PID/stat, and finds the bracket behind the program's name, in which there may be
 * blanks and brackets.  NULL: it cannot be read.
 */
static const char *stat_read(pid_t pid, char *line, size_t size)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);

	return beest_file_line(path, line, size) ? strrchr(line, ')') : NULL;
}

/* In a container, process 1 may reap nobody, so that what has ended stays a zombie. */
static bool stat_is_zombie(const char *name_end)
{
	return strncmp(name_end, ") Z", 3) == 0;
}

bool beest_process_has_ended(pid_t pid)
{
	const char *name_end;
	char line[1024];

	if (kill(pid, 0) < 0)
		return errno == ESRCH;
	name_end = stat_read(pid, line, sizeof(line));

	return name_end && stat_is_zombie(name_end);
}

int64_t beest_process_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);

	return now.tv_sec * BEEST_SECOND + now.tv_nsec;
}

int64_t beest_process_began(pid_t pid)
{
	char line[1024];
	const char *at = stat_read(pid, line, sizeof(line));
	long long ticks = 0;
	int field;

	if (at && stat_is_zombie(at))
		return -1;
	for (field = STAT_NAME; at && field < STAT_BEGAN; field++)
		at = strchr(at + 1, ' ');
	if (at)
		ticks = strtoll(at, NULL, 10);

	return ticks > 0 ? ticks * (BEEST_SECOND / sysconf(_SC_CLK_TCK)) : -1;
}

/* A process that began later was given the id since; times are whole seconds. */
bool beest_process_is_dead(const struct beest_incarnation *incarnation, pid_t pid, uint64_t since,
			   const struct beest_incarnation *own)
{
	int64_t age = ((int64_t)time(NULL) - (int64_t)since) * BEEST_SECOND;

	if (!beest_process_is_same_place(incarnation, own) ||
	    beest_process_is_same(incarnation, own))
		return false;

	return pid == getpid() || beest_process_has_ended(pid) ||
	       beest_process_began(pid) > beest_process_clock() - age + BEEST_SECOND;
}
