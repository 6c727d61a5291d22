/* SPDX-License-Identifier: MIT */
/*
 * bringup.h - a bring-up of some ranks, step by step, so that a test can interfere
 *
 * Owns the steps, in one table, and the values that each rank's device finally got.  Ranks are
 * threads or processes of the test, and share only one block of memory.  Knows nothing of
 * servers except their addresses.
 */
#ifndef TESTS_BRINGUP_H
#define TESTS_BRINGUP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hartebeest.h"

#define BRINGUP_RANKS 16
#define BRINGUP_STEPS 12

/* In order.  Each rank has a queue pair for each other rank, a message and a region. */
const char *bringup_step_name(int step);
int bringup_step(const char *name);		/* its position; the name must exist */

/* What one end's device was told, and what the rank knows of its peer. */
struct bringup_end {
	uint32_t qp_num, sq_psn;		/* of this end */
	uint32_t dest_qp_num, rq_psn;		/* of the peer, in RTR */
	uint64_t length;			/* of the peer's region, as fetched */
	char message[48];			/* the peer's, as fetched */
};

struct bringup_rank {
	pid_t pid;
	uint8_t process[8];			/* first half of the incarnation */
	int at;					/* the step that it takes, or ended at */
	int ret;
	char error[1024];
	uint64_t length;			/* of its own region */
	struct bringup_end end[BRINGUP_RANKS];
};

/* Starts as zeros, and is shared with forked ranks. */
struct bringup {
	char server[1200];			/* exchange.servers */
	char job[32];
	int size;

	/* One rank waits before a step, or after the last one, until it may go on. */
	int hold_rank, hold_step;		/* rank -1: none, BRINGUP_RANKS: all */
	bool deadly;				/* the rank is killed there instead */
	int deadly_call;			/* or at this verbs call, from 1 */
	int held, go;				/* atomic */
	int arrived;				/* atomic; for free use by the ranks */
	int passed;				/* atomic: steps taken by all ranks in total */
	int failed;				/* atomic: number of ranks that gave up */

	struct bringup_rank rank[BRINGUP_RANKS];
};

struct bringup *bringup_new(const char *server, const char *job, int size);
void bringup_free(struct bringup *bringup);

/* One rank's context, for the process or thread that runs it. */
struct bringup_member {
	struct bringup *bringup;
	struct hartebeest_context *hb;
	int rank;
	int first, last;			/* the steps to take; 0, 0: all */
};

/* Takes the steps.  Returns 0 or the error of the failed step, and also notes it. */
int bringup_take(struct bringup_member *member);

/* Connects again to each rank whose process has changed. */
int bringup_rejoin(struct bringup_member *member);

/* Notes what the devices were told.  No other thread may use the fake device meanwhile. */
void bringup_note(struct bringup_member *member);

/*
 * A sentence that says what is wrong.  NULL if every rank is through and each end is connected to
 * the other end as that is now.
 */
const char *bringup_wrong(const struct bringup *bringup);

/* Runs all ranks as threads, from start to join; the contexts stay open. */
struct bringup_crowd {
	struct bringup_member member[BRINGUP_RANKS];
	pthread_t thread[BRINGUP_RANKS];
};

void bringup_start(struct bringup_crowd *crowd, struct bringup *bringup);
void bringup_join(struct bringup_crowd *crowd);
void bringup_note_all(struct bringup_crowd *crowd);
void bringup_leave(struct bringup_crowd *crowd);	/* closes all contexts */

/* Waits until the held rank has reached its step, @passed steps were taken, or a rank failed. */
void bringup_await_held(struct bringup *bringup);
void bringup_await_passed(struct bringup *bringup, int passed);
void bringup_let_go(struct bringup *bringup);

#endif
