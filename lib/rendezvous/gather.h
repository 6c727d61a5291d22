/* SPDX-License-Identifier: MIT */
/*
 * gather.h - all ranks come together, in a constant number of requests a rank
 *
 * Owns the records of ranks that come, the counter, the gate, and who reads all records.
 * Each rank puts a record and takes a number; the last one by the number reads all records
 * and puts the gate, one key that all others wait for.  Records decide, the number only
 * hints at who reads them.
 *
 * A roll call takes two gates: the first names the roll, a record with the incarnations of
 * all ranks and what each brings, and every rank that finds its own there puts its record
 * again with a digest of them.  Whoever gathers equal digests of all ranks opens the second
 * gate.  So a leftover of a former run lets nobody pass.  The digest names the run in the keys
 * of later passes, which need one gate.
 *
 * Knows nothing of what a rank brings, nor of threads: one gathering is one thread's.
 */
#ifndef BEEST_GATHER_H
#define BEEST_GATHER_H

#include "lib/base/parse.h"
#include "lib/rendezvous/registry.h"

/* What outlives a call in vain: one that is repeated goes on, and does not count twice. */
struct beest_gather_state {
	bool added;			/* the counter */
	uint64_t pass;			/* that this rank took a number for */
	int64_t began, due;		/* the first call; 0: none yet */
	uint64_t number;		/* the counter, as it was read last */
	int64_t moved;			/* since when it has that number */
	struct beest_barrier_body body;	/* that this rank said last in a roll call */
	uint64_t given_up;		/* the roll that it knew before that one's; 0: none */
};

/* Up to so many ranks read the records of all faster than one of them could hand them out. */
#define BEEST_GATHER_DIRECT 16

/* Of a roll call, until this rank knows the roll. */
enum beest_gather_stage {
	BEEST_GATHER_WAITS,		/* its record is stored; others are missing yet */
	BEEST_GATHER_READS,		/* what has not come along with the answers */
};

struct beest_gather {
	struct beest_registry *registry;
	const struct beest_ids *ranks;
	int rank;
	const char *name;
	const char *title;		/* in sentences instead of it; NULL: the name */
	uint64_t run;			/* the digest of the roll; 0: this is the roll call */
	const struct beest_limit *limit;
	struct beest_gather_state *state;

	/* of a roll call */
	/*
	 * Said by each; out: 0 where not all said the same.  With a blob, it is the digest of the
	 * former roll, 0: there is none.  Its gate is there yet, and the next one tells those who
	 * know it what has changed since.
	 */
	uint64_t word;
	const uint8_t *former_marks;	/* of that roll */
	const void *blob;		/* that this rank brings; NULL: nobody brings anything */
	size_t blob_size;		/* of every rank */
	/*
	 * Few ranks: each reads all records, and nobody hands them out.  The second gate is
	 * only for those whom a record has escaped that was replaced meanwhile.
	 */
	bool direct;
	/* A stage begins, or the same goes on.  May be NULL. */
	void (*stage)(void *data, enum beest_gather_stage stage);
	/*
	 * About once a second: so many are here, or where @known, have said that they know of
	 * all; the others are @missing.  Reads all records.  May be NULL.
	 */
	void (*progress)(void *data, bool known, const int *missing, size_t count);
	/*
	 * All have come, this rank among them: @marks are an incarnation and a blob of each.
	 * Called before the others are told that it knows them, again when one of them was
	 * replaced, and again soon after -EAGAIN; what else is negative ends the gathering.  At
	 * 0, @marks are its own, for free(3).  NULL: others have passed with the roll that was
	 * taken before the last one, and at 0 this rank does so, too.
	 */
	int (*called)(void *data, uint8_t *marks, uint64_t digest);
	/*
	 * This rank is about to hand @marks out to the others, and more has changed than the
	 * gate tells.  May be NULL.
	 */
	void (*opening)(void *data, const uint8_t *marks, uint64_t digest);
	void *data;
	uint64_t digest;		/* out: of the roll that all have passed with */

	/* of a later pass */
	uint64_t pass;			/* from 1 */
	/* Its gate refuses newcomers, and says @word still.  NULL: they may join later. */
	const char *roll;
	const struct beest_incarnation *expected;	/* all that it named */
};

static inline size_t beest_gather_mark_size(const struct beest_gather *gather)
{
	return BEEST_INCARNATION_SIZE + gather->blob_size;
}

/*
 * -ETIMEDOUT names the ranks that are missing; -EAGAIN: not all have come, and one look
 * was asked for; -ESTALE: a rank, or this one, was started again after the roll call;
 * -ESHUTDOWN, -ECONNABORTED: a rank has left or failed; or what called() returned.
 */
int beest_gather_run(struct beest_gather *gather);

/* Of a look besides those of the gathering: its own limit, and a second at most. */
int64_t beest_gather_deadline(const struct beest_gather *gather);

/* A key of the gathering: "gate", or what its user keeps beside it. */
int beest_gather_key(const struct beest_gather *gather, const char *last,
		     char key[BEEST_KEY_MAX + 1]);

#endif
