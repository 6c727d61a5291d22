/* SPDX-License-Identifier: MIT */
/*
 * ranks.h - processes as the ranks of one job
 *
 * Owns forking, the environment of each rank, and waiting as long as they work.  Knows nothing of
 * what the ranks do.
 */
#ifndef RANKS_H
#define RANKS_H

#include <stdbool.h>

#include "hartebeest.h"

#define RANKS_MAX 64
#define RANKS_PATIENCE "1h"	/* the limit of each rank's waits, which no slow machine reaches */

struct ranks {
	int count;
	const char *server;		/* "127.0.0.1:port" */
	const char *job;		/* HARTEBEEST_JOB; NULL: not set */
	int delay_ms[RANKS_MAX];	/* before the rank begins */
};

/*
 * Forks @ranks->count children and runs @function in each, with HARTEBEEST_NID and so on in its
 * environment, each on its own port if there are enough.  A rank succeeds by returning 0.  Returns
 * how many did not.  After a failure, the others would wait for that rank in vain, so they are
 * killed and counted, too.
 */
int ranks_run(const struct ranks *ranks, int (*function)(int rank, void *data), void *data);

/* The active ports of this machine as "device:port"; NULL beyond the last. */
const char *ranks_port(int index);

/* Exits with status 77 and a reason if the machine has no active port. */
void ranks_need_device(void);

/* In a rank: a condition that must hold; otherwise, the rank ends and prints both reasons. */
#define EXPECT(condition) \
	((condition) ? (void)0 : ranks_fail(#condition, __FILE__, __LINE__))
void ranks_fail(const char *condition, const char *file, int line)
	__attribute__((noreturn));

#endif
