/* SPDX-License-Identifier: MIT */
/*
 * barrier.h - until every rank is here, in a constant number of requests a rank
 *
 * Owns the roll call and the gate.  Each rank puts a record and takes a number; the last
 * one by the number reads all records and puts the gate, one key that all others wait for.
 * Records decide, the number only hints at who reads them.
 *
 * A context's first barrier is the roll call: its gate carries the incarnations of all
 * ranks, and each that finds its own there puts its record again with a digest of them.
 * Who gathers equal digests of all ranks opens the second gate.  So a leftover of a
 * former run lets nobody pass.  The digest names the run in the keys of later passes.
 */
#ifndef BEEST_BARRIER_H
#define BEEST_BARRIER_H

#include "lib/base/parse.h"
#include "lib/base/table.h"
#include "lib/rendezvous/record.h"
#include "lib/rendezvous/registry.h"

/* What outlives a call in vain: one that is repeated goes on, and does not count twice. */
struct beest_barrier_count {
	bool added;			/* the counter */
	uint64_t pass;			/* that this rank took a number for */
	int64_t began, due;		/* the first call; 0: none yet */
};

/* Of a context. */
struct beest_roll {
	pthread_mutex_t lock;
	bool calling;			/* a thread is at it */
	bool complete;
	uint64_t digest;
	struct beest_barrier_count count;
	struct beest_barrier_body body;	/* that this rank said last */
	struct beest_incarnation *incarnations;	/* in the order of ranks */
};

void beest_roll_start(struct beest_roll *roll);
void beest_roll_end(struct beest_roll *roll);

/* One by its name; its passes are counted here. */
struct beest_barrier {
	struct beest_node node;
	uint64_t passes;
	struct beest_barrier_count count;
};

extern const struct beest_kind beest_barrier_kind;

int beest_barrier_create(struct beest_barrier **barrier);

/*
 * -ETIMEDOUT names the ranks that are missing; -ESTALE: a rank, or this one, was started
 * again after the roll call; -ESHUTDOWN, -ECONNABORTED: a rank has left or failed.
 */
int beest_barrier_wait(struct beest_registry *registry, struct beest_roll *roll,
		       struct beest_barrier *barrier, const struct beest_ids *ranks,
		       int rank, int64_t deadline);

#endif
