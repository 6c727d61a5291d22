/* SPDX-License-Identifier: MIT */
/*
 * barrier.h - the barriers of a context, and values that all ranks gather
 *
 * Owns what the fences of one context have in common: the processes that take part in all of them.
 * How ranks meet is left to fence.h.
 */
#ifndef BEEST_BARRIER_H
#define BEEST_BARRIER_H

#include <pthread.h>

#include "lib/base/table.h"
#include "lib/rendezvous/fence.h"

/*
 * The process of each rank, as this context has met them first: it never meets others.  A process
 * that takes the place of another has not been where the others are by now.
 */
struct beest_membership {
	pthread_mutex_t lock;
	struct beest_incarnation *members;	/* NULL: it has met none yet */
};

void beest_membership_start(struct beest_membership *membership);
void beest_membership_end(struct beest_membership *membership);

/* By its name; gathers may have the same. */
struct beest_barrier {
	struct beest_node node;
	uint64_t passes;		/* of barriers and gathers, for sentences */
	struct beest_fence fence;
};

extern const struct beest_kind beest_barrier_kind;

struct beest_barrier_call {
	struct beest_registry *registry;
	struct beest_membership *membership;
	const struct beest_ids *ranks;
	int rank;
	/* Of a gather: @size bytes, and @all receives as many of each rank; NULL: a barrier. */
	const void *value;
	size_t size;
	void *all;
	const struct beest_limit *limit;
};

/* Errors of beest_fencecall_run(). */
int beest_barrier_run(struct beest_barrier *barrier, const struct beest_barrier_call *call);

#endif
