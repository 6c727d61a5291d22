/* SPDX-License-Identifier: MIT */
/*
 * reserve.c - see reserve.h
 *
 * A placeholder is the reading end of a pipe that has no writing end.  Its inode distinguishes it
 * from what the program may have opened in its place.  A program whose three descriptors are open,
 * as nearly all have them, never takes the lock.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/reserve.h"

#define STREAMS (STDERR_FILENO + 1)

struct placeholder {
	bool taken;
	dev_t device;
	ino_t inode;
};

static struct {
	pthread_mutex_t lock;
	unsigned int turns;		/* atomic; odd: there may be placeholders */
	unsigned int holders;		/* threads between begin and end that need them */
	pid_t pid;			/* the process of these threads */
	struct placeholder places[STREAMS];
} reserve = { .lock = PTHREAD_MUTEX_INITIALIZER };

static __thread unsigned int depth;	/* calls of begin that this thread has not ended */
static __thread bool holding;

/* The same turn before and after shows that all three belong to the program. */
static bool streams_are_open(void)
{
	unsigned int turn = __atomic_load_n(&reserve.turns, __ATOMIC_ACQUIRE);
	int fd;

	for (fd = 0; fd < STREAMS; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			return false;

	return turn % 2 == 0 && __atomic_load_n(&reserve.turns, __ATOMIC_ACQUIRE) == turn;
}

/* Another thread may open something there at the same time: then it is not closed any more. */
static void place_take(int fd)
{
	struct stat status;
	int ends[2];

	if (fcntl(fd, F_GETFD) >= 0 || pipe2(ends, O_CLOEXEC) < 0)
		return;
	close(ends[1]);
	if (ends[0] == fd && fstat(fd, &status) == 0)
		reserve.places[fd] = (struct placeholder){ true, status.st_dev, status.st_ino };
	else
		close(ends[0]);
}

static void place_leave(int fd)
{
	struct placeholder *place = &reserve.places[fd];
	struct stat status;

	if (place->taken && fstat(fd, &status) == 0 && status.st_dev == place->device &&
	    status.st_ino == place->inode)
		close(fd);
	place->taken = false;
}

/* A forked child has only one of its parent's threads, and inherits the placeholders. */
static void places_change(bool hold)
{
	int fd;

	pthread_mutex_lock(&reserve.lock);
	if (reserve.pid != getpid())
		reserve.holders = 0;
	reserve.pid = getpid();
	if (hold) {
		reserve.holders++;
		__atomic_store_n(&reserve.turns, reserve.turns | 1, __ATOMIC_RELEASE);
		for (fd = 0; fd < STREAMS; fd++)
			place_take(fd);
	} else if (reserve.holders == 0 || --reserve.holders == 0) {
		for (fd = 0; fd < STREAMS; fd++)
			place_leave(fd);
		__atomic_store_n(&reserve.turns, (reserve.turns | 1) + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&reserve.lock);
}

void beest_reserve_begin(void)
{
	int saved = errno;

	if (depth++ == 0) {
		holding = !streams_are_open();
		if (holding)
			places_change(true);
	}
	errno = saved;
}

void beest_reserve_end(void)
{
	int saved = errno;

	if (--depth == 0 && holding)
		places_change(false);
	errno = saved;
}
