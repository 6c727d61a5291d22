/* SPDX-License-Identifier: MIT */
/*
 * collect.h - a value of each rank, for all ranks
 *
 * Each rank leaves its value as a message of a kind of its own, all meet at a barrier, and each
 * reads the values of all.  Owns the keys of these values and the passes.  Knows nothing of how
 * ranks meet.
 */
#ifndef BEEST_COLLECT_H
#define BEEST_COLLECT_H

#include "lib/rendezvous/barrier.h"

/* The passes under one name. */
struct beest_collect {
	struct beest_node node;
	uint64_t passes;
	bool has_met;			/* only the values of this pass are still to be read */
};

extern const struct beest_kind beest_collect_kind;

struct beest_collect_call {
	struct beest_registry *registry;
	struct beest_roll *roll;
	struct beest_barrier *barrier;	/* of the same name */
	const struct beest_ids *ranks;
	int rank;
	const void *value;		/* @size bytes; all receives as many of each rank */
	size_t size;
	void *all;
	const struct beest_limit *limit;
};

/* Has the contract of hartebeest_gather() in hartebeest.h. */
int beest_collect_run(const struct beest_collect_call *call, struct beest_collect *collect);

#endif
