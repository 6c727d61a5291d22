/* SPDX-License-Identifier: MIT */
/*
 * crowd.h - trials in processes, several at a time
 *
 * Owns the processes, and waits for their ends.  Knows nothing of what is tried.
 */
#ifndef TESTS_CROWD_H
#define TESTS_CROWD_H

#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>

#include "tests/support/pause.h"

#define CROWD_MAX 48

struct crowd {
	int size;				/* at most this many at a time */
	void (*ended)(int place, int status);	/* called for each */
	pid_t pid[CROWD_MAX];			/* 0: the place is free */
};

/* Waits until at most @most are left. */
static inline void crowd_reap(struct crowd *crowd, int most)
{
	int i, running = 0, status;

	for (i = 0; i < crowd->size; i++)
		running += crowd->pid[i] > 0;
	while (running > most) {
		for (i = 0; i < crowd->size; i++) {
			if (!crowd->pid[i] ||
			    waitpid(crowd->pid[i], &status, WNOHANG) != crowd->pid[i])
				continue;
			crowd->pid[i] = 0;
			running--;
			crowd->ended(i, status);
		}
		pause_us(500);
	}
}

/* Waits for a free place. */
static inline int crowd_place(struct crowd *crowd)
{
	int i = 0;

	crowd_reap(crowd, crowd->size - 1);
	while (crowd->pid[i])
		i++;
	return i;
}

/* Shared memory of @size bytes for each place, all zeros. */
static inline void *crowd_share(const struct crowd *crowd, size_t size)
{
	void *shared = mmap(NULL, (size_t)crowd->size * size, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return shared == MAP_FAILED ? NULL : shared;
}

#endif
