/* SPDX-License-Identifier: MIT */
/*
 * barrier.h - wait until every rank is here
 *
 * Owns the roll call of a context and the passes of its barriers.  The first barrier of a
 * context is its roll call, whose digest names the run in the keys of all later passes.  How
 * ranks come together is left to meeting.h.
 */
#ifndef BEEST_BARRIER_H
#define BEEST_BARRIER_H

#include <pthread.h>

#include "lib/base/table.h"
#include "lib/rendezvous/meeting.h"

/* The roll call of a context. */
struct beest_roll {
	pthread_mutex_t lock;
	bool calling;			/* a thread is in the roll call */
	bool complete;
	bool all_same;			/* complete: all have come to the barrier of that tag */
	uint64_t tag;			/* that this rank brings, from its first call on */
	uint64_t digest;
	struct beest_meeting_state state;
	uint8_t *marks;			/* of all ranks, which bring a tag */
};

void beest_roll_start(struct beest_roll *roll);
void beest_roll_end(struct beest_roll *roll);

/* A barrier, by its name; counts its passes. */
struct beest_barrier {
	struct beest_node node;
	uint64_t passes;
	struct beest_meeting_state state;
};

extern const struct beest_kind beest_barrier_kind;

/* Checks the name of a new barrier: -EINVAL; -ENAMETOOLONG: a key would be too long. */
int beest_barrier_check(struct beest_registry *registry, const struct beest_ids *ranks,
			const char *name);

/* @gathers: for hartebeest_gather(), so all must gather.  Errors of beest_meeting_run(). */
int beest_barrier_wait(struct beest_registry *registry, struct beest_roll *roll,
		       struct beest_barrier *barrier, bool gathers,
		       const struct beest_ids *ranks, int rank, const struct beest_limit *limit);

#endif
