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
#include "lib/base/error.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/macro.h"
#include "lib/base/process.h"
#include "lib/base/random.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

/* In .../stat, by proc(5): the program's name in brackets, and the fields behind it. */
#define STAT_NAME 2
#define STAT_THREADS 20
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
	if ((!beest_file_line(all.boot, sizeof(all.boot), BOOT_ID) || !all.pids) &&
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

bool beest_process_is_here(const struct beest_incarnation *incarnation)
{
	const uint32_t place = process_place();

	return memcmp(incarnation->bytes, &place, BEEST_PLACE_SIZE) == 0;
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

int beest_process_incarnation(struct beest_incarnation *incarnation)
{
	int ret = beest_random(incarnation, sizeof(*incarnation));

	if (ret == 0)
		ret = beest_process_mark(incarnation->bytes);

	return ret < 0 ? beest_fail_prefix(ret, "no random bits for an incarnation") : 0;
}

/* Without a /proc of its own, a PID name space shows that of another, with other ids. */
static bool proc_is_own(void)
{
	char text[16];
	ssize_t length = readlink("/proc/self", text, sizeof(text) - 1);

	text[BEEST_MAX(length, 0)] = '\0';

	return strtol(text, NULL, 10) == getpid();
}

/*
 * Reads what /proc has of a process, and finds the bracket behind the program's name, in which
 * there may be blanks and brackets.  NULL: it cannot be read.  Asks for the first thread: of the
 * process itself, qemu's emulation of a processor answers, with another start than the kernel.
 */
static const char *stat_read(pid_t pid, char *line, size_t size)
{
	return proc_is_own() && beest_file_line(line, size, "/proc/%d/task/%d/stat", (int)pid,
						(int)pid) ? strrchr(line, ')') : NULL;
}

/* 0: it is missing. */
static uint64_t stat_field(const char *at, int number)
{
	int field;

	for (field = STAT_NAME; at && field < number; field++)
		at = strchr(at + 1, ' ');

	return at ? strtoull(at, NULL, 10) : 0;
}

/*
 * In a container, process 1 may reap none, so that what has ended stays a zombie.  But so does a
 * first thread that has ended while others run.
 */
static bool stat_is_zombie(const char *name_end)
{
	return strncmp(name_end, ") Z", 3) == 0 && stat_field(name_end, STAT_THREADS) <= 1;
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

uint64_t beest_process_ticks(pid_t pid)
{
	char line[1024];
	const char *name_end = stat_read(pid, line, sizeof(line));

	return name_end && !stat_is_zombie(name_end) ? stat_field(name_end, STAT_BEGAN) : 0;
}

int64_t beest_process_began(pid_t pid)
{
	const uint64_t ticks = beest_process_ticks(pid);

	return ticks ? (int64_t)ticks * (BEEST_SECOND / sysconf(_SC_CLK_TCK)) : -1;
}

/* A process that has executed another program has another mark, but the same id and start. */
enum beest_process_life beest_process_life(const struct beest_incarnation *incarnation, pid_t pid,
					   uint64_t ticks, const struct beest_incarnation *own)
{
	uint64_t now;

	if (!beest_process_is_same_place(incarnation, own))
		return BEEST_PROCESS_UNKNOWN;
	if (beest_process_is_same(incarnation, own))
		return BEEST_PROCESS_ALIVE;
	if (pid == getpid() || beest_process_has_ended(pid))
		return BEEST_PROCESS_DEAD;

	now = beest_process_ticks(pid);
	if (!ticks || !now)
		return BEEST_PROCESS_UNKNOWN;

	return now == ticks ? BEEST_PROCESS_ALIVE : BEEST_PROCESS_DEAD;
}
