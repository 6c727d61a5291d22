/* SPDX-License-Identifier: MIT */
/*
 * gather.h - all ranks come together, at a constant number of requests for each rank
 *
 * Owns the ranks' records, the counter, the gate, and the choice of the rank that reads all
 * records.  Each rank puts a record and takes a number.  The rank with the last number reads
 * all records and puts the gate, one key that all others wait for.  The records decide whether
 * all have come; the number only hints at which rank should read them.
 *
 * A roll call has two gates.  The first names the roll: a record with the incarnations of all
 * ranks and what each brings.  Every rank that finds itself there puts its record again, with
 * the digest of the roll.  When all records have the same digest, a rank opens the second gate.
 * So the leftovers of a former run let nobody pass.  From then on the digest names the run in
 * the keys of later passes, which need only one gate.
 *
 * Does not know what a rank brings.  Takes no locks: a gathering belongs to one thread.
 */
#ifndef BEEST_GATHER_H
#define BEEST_GATHER_H

#include "lib/base/parse.h"
#include "lib/rendezvous/registry.h"

/*
 * Kept from call to call, zero at first.  After a call that failed, the next one continues the
 * same pass, and does not count this rank twice.
 */
struct beest_gather_state {
	bool counter_added;		/* it is there, and need not be added again */
	uint64_t numbered_pass;		/* the last pass that this rank took a number for */
	int64_t began_at;		/* the first call for this pass; 0: none yet */
	int64_t due_at;			/* when this rank may next try to open a late gate */
	uint64_t number;		/* the counter, as last read */
	int64_t moved_at;		/* when the counter last changed */
	struct beest_barrier_body body;	/* this rank's last record in a roll call */
	uint64_t given_up_roll;		/* the roll it knew before that of @body; 0: none */
};

/* Up to this many ranks, reading all records is faster than having one rank hand them out. */
#define BEEST_GATHER_DIRECT 16

/* What this rank does in a roll call until it knows the roll. */
enum beest_gather_stage {
	BEEST_GATHER_WAITS,		/* its record is stored; it waits for other ranks */
	BEEST_GATHER_READS,		/* it reads what did not arrive while it waited */
};

struct beest_gather {
	struct beest_registry *registry;
	const struct beest_ids *ranks;
	int rank;
	const char *name;
	const char *title;		/* replaces the name in sentences; NULL: the name */
	const char *noun;		/* of what it names; NULL: "barrier" */
	uint64_t run;			/* the digest of the roll; 0: this is the roll call */
	const struct beest_limit *limit;
	struct beest_gather_state *state;
	const uint8_t *marks;		/* of all ranks, from the roll passed last; NULL: none */
	size_t blob_size;		/* of each mark; the same on every rank */

	/* of a roll call */
	/*
	 * Every rank gives one; out: the common one, 0 where they differ.  A mesh gives the
	 * digest of its former roll, 0 where it has none, so that the gate can tell a rank that
	 * knows this roll what has changed since.
	 */
	uint64_t tag;
	const void *blob;		/* what this rank brings; NULL: no rank brings anything */
	/*
	 * For few ranks: each reads all records, and nobody hands them out.  The second gate
	 * is only for a rank that missed another one's record before it was replaced.
	 */
	bool direct;
	/* A stage begins or continues.  May be NULL. */
	void (*stage)(void *data, enum beest_gather_stage stage);
	/*
	 * About once a second: which ranks are missing, that is have not come or, where @known,
	 * do not know the roll yet.  Costs a request for all records.  May be NULL.
	 */
	void (*progress)(void *data, bool known, const int *missing, size_t count);
	/*
	 * All ranks have come, including this one; @marks has each one's incarnation and blob.
	 * Called before this rank tells the others that it knows the roll, and again when a rank
	 * was replaced.  Returns 0 when it has taken ownership of @marks, for free(3); -EAGAIN
	 * to be called again soon; any other negative errno ends the gathering.
	 *
	 * @marks is NULL where others have passed with the roll that was taken before the last
	 * one: 0 means that this rank returns to that roll and passes as well.
	 */
	int (*take_roll)(void *data, uint8_t *marks, uint64_t digest);
	/*
	 * This rank is about to store the roll of @marks, and the gate has no room for what has
	 * changed, so that others will read the roll.  May be NULL.
	 */
	void (*opening)(void *data, const uint8_t *marks, uint64_t digest);
	void *data;
	uint64_t digest;		/* out: of the roll with which all have passed */
	bool without;			/* out, if it failed: others have passed without it */

	/* of a later pass */
	uint64_t pass;			/* from 1 */
	/*
	 * The name of the roll call, whose gate is closed to refuse newcomers, and keeps @tag.
	 * NULL: newcomers may join later, and are not refused.
	 */
	const char *roll_name;
};

static inline size_t beest_gather_mark_size(const struct beest_gather *gather)
{
	return BEEST_INCARNATION_SIZE + gather->blob_size;
}

/*
 * -ETIMEDOUT names the missing ranks; -EAGAIN: not all have come, and the limit allows one
 * look only; -ESTALE: another rank, or this one, was started again after the roll call;
 * -ESHUTDOWN, -ECONNABORTED: a rank has left or failed; or an errno of take_roll().
 */
int beest_gather_run(struct beest_gather *gather);

/* The deadline of an extra look, outside the wait's own: within the limit, at most a second. */
int64_t beest_gather_deadline(const struct beest_gather *gather);

/* A key of the gathering that ends in @last: "gate", or one of its user's own. */
int beest_gather_key(const struct beest_gather *gather, const char *last,
		     char key[BEEST_KEY_MAX + 1]);

#endif
