/* SPDX-License-Identifier: MIT */
/*
 * meeting.h - all ranks come together
 *
 * Owns the order of steps.  In a roll call, each rank appends its mark to a list (tally.h), and
 * makes the roll of the marks of all: the roll is named by its digest.  Then the rank appends to
 * another list, whose keys have this digest, that it knows the roll.  It has passed when all ranks
 * say so there.  A process of a former run is in no roll with a living one that says so; so its
 * leftovers let nobody pass.  From then on, the digest names the run in the keys of later passes,
 * which need one list only.
 *
 * If a process dies in a roll call, its heir takes its place in the next roll, and all follow.  A
 * rank that knows a roll first says that it gives this one up: if all have said before that they
 * know it, it has passed with that one, as have the others.
 *
 * Does not know what a rank brings.  Takes no locks: a meeting belongs to one thread.
 */
#ifndef BEEST_MEETING_H
#define BEEST_MEETING_H

#include "lib/rendezvous/tally.h"

/*
 * Kept from call to call, zero at first.  After a call that failed, the next one continues the
 * same pass.
 */
struct beest_meeting_state {
	int64_t began_at;		/* the first call for this pass; 0: none yet */
	int64_t due_at;			/* when to look for what has got lost */
	size_t turn;			/* the rank that is asked for next, if it is missing */
	uint64_t roll;			/* the roll that it knows; 0: none */
	uint32_t gives_up;		/* as in struct beest_tally_rounds */
};

struct beest_meeting {
	struct beest_registry *registry;
	const struct beest_ids *ranks;
	int rank;
	const char *name;
	const char *title;		/* replaces the name in sentences; NULL: the name */
	const char *noun;		/* of what it names; NULL: "barrier" */
	uint8_t flags;			/* of entries in a pass: BEEST_RECORD_GATHERS, or 0 */
	const struct beest_limit *limit;
	struct beest_meeting_state *state;
	size_t blob_size;		/* of what each rank brings */
	const uint8_t *marks;		/* of all ranks, from the roll passed last; NULL: none */

	/* of a roll call */
	const void *blob;		/* what this rank brings, ... */
	uint32_t generation;		/* ... and which time: see BEEST_MARK_HEAD */
	bool again;			/* another roll call of this name may follow */
	/* After each look until it knows the roll.  May be NULL. */
	void (*waits)(void *data);
	/*
	 * About once a second: which ranks are missing, that is have not come or, where @known,
	 * do not know the roll yet.  May be NULL.
	 */
	void (*progress)(void *data, bool known, const int *missing, size_t count);
	/*
	 * All ranks have come, including this one; @marks has the mark of each.
	 * Called before this rank tells the others that it knows the roll, and again when a rank
	 * was replaced.  Returns 0 when it has taken ownership of @marks, for free(3) in the next
	 * call or after the meeting; -EAGAIN to be called again soon; any other negative errno
	 * ends the meeting.
	 */
	int (*take_roll)(void *data, uint8_t *marks, uint64_t digest);
	/*
	 * All have come, and this is the one rank that may prepare something for the others, which
	 * learn at about the same time that all have come.  May be NULL.
	 */
	void (*last)(void *data, const uint8_t *marks, uint64_t digest);
	/*
	 * While ranks are late: what those who have come, by the enum beest_tally_state of each in
	 * @states, have brought so far.  May be NULL.
	 */
	void (*doubt)(void *data, const uint8_t *marks, const uint8_t *states);
	/* May take_roll() succeed by now?  Saves a search of the marks.  May be NULL: yes. */
	bool (*ready)(void *data, uint64_t digest);
	void *data;
	uint64_t digest;		/* out: of the roll with which all have passed */
	bool without;			/* out, if it failed: others may have passed without it */

	/* of a later pass */
	uint64_t run;			/* the digest of the roll; 0: this is the roll call */
	uint64_t pass;			/* from 1 */
	/* The name of the roll call, where newcomers are refused.  NULL: they may join later. */
	const char *roll_name;
};

static inline size_t beest_meeting_mark_size(const struct beest_meeting *meeting)
{
	return BEEST_MARK_HEAD + meeting->blob_size;
}

/*
 * -ETIMEDOUT names the missing ranks; -EAGAIN: not all have come, and the limit allows one
 * look only; -ESTALE: another rank, or this one, was started again after the roll call;
 * -ESHUTDOWN, -ECONNABORTED: a rank has left or failed; -EPROTO: one comes with other flags; or
 * an errno of take_roll().
 */
int beest_meeting_run(struct beest_meeting *meeting);

/* The deadline of an extra look, outside the wait's own. */
int64_t beest_meeting_deadline(const struct beest_meeting *meeting);

/* Where its lists are; those of the roll call if @run is 0. */
struct beest_tally_place beest_meeting_place(const struct beest_meeting *meeting, uint64_t run);

#endif
