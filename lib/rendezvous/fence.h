/* SPDX-License-Identifier: MIT */
/*
 * fence.h - all ranks meet, and leave with the same view
 *
 * Owns the state of a fence, and its keys.  Each rank stores one record, which it alone writes.
 * The first of the ranks, the leader, decides, and writes its record by add and
 * compare-and-swap only: so the late write of a dead leader fails.  What each of the two does with
 * what it reads is its role, in leader.c or member.c.  Does not know what ranks contribute.
 *
 * A call agrees on a new view: the leader counts the records that follow it, proposes a view of
 * all, and commits it when all have acknowledged it.  A pass is a later barrier with that view: it
 * needs no new agreement, only the number of passes that are done.
 */
#ifndef BEEST_FENCE_H
#define BEEST_FENCE_H

#include "lib/base/nodefiles.h"
#include "lib/rendezvous/view.h"
#include "lib/rendezvous/wait.h"

/*
 * For so long, a cause that may be of an earlier run is not believed: its author, or the leader
 * that it concerns, may be replaced by one of this run.  That takes as long as a rank needs to find
 * another record in the place of its own: it reads that once a second, and looks as seldom as the
 * pauses of so many ranks are long.  See beest_fence_patience().
 */
#define BEEST_FENCE_PATIENCE (2 * BEEST_SECOND)
#define BEEST_FENCE_PATIENCE_RANK (250 * BEEST_US)

/* Records with the reason why a rank does not go on live so long, in seconds. */
#define BEEST_FENCE_TROUBLE_TTL 60

/* What the leader knows of a rank, besides its entry. */
struct beest_fence_rank {
	bool arrived;			/* it acknowledges what is proposed, or is in this pass */
	uint64_t found;			/* digest of its record when this leader began; 0: none */
	/* The process whose refusal was read last, in which of its calls, ... */
	struct beest_incarnation author;
	uint32_t call;
	int64_t refused;		/* ... and since when; INT64_MAX: it does not count again */
};

/* One for each name, kept from call to call; zero at first. */
struct beest_fence {
	uint32_t call;			/* number of the last call, from 1 */
	uint64_t pass;			/* of the view, from 1; 0: a call goes on, or was last */
	uint64_t passed;		/* how often this rank has passed by the view */
	uint64_t contribution;		/* digest of what this rank contributes to what goes on: the
					   next call continues it; 0: nothing goes on */
	struct beest_view *view;	/* of the last call that has ended well */
	struct beest_view *next;	/* the leader: of those counted, or proposed; others:
					   proposed, and read so far */
	/* As in the leader's record: now, or for others when they acknowledged @next. */
	struct beest_incarnation added;
	uint64_t committed, passes;
	struct beest_fence_trouble trouble;	/* why this rank does not go on */
	/* Whose trouble it is, in which call; others: the process that had this rank before. */
	struct beest_incarnation culprit;
	uint32_t culprit_call;
	/* The leader that failed before; others: the one that the process before has followed. */
	struct beest_incarnation past_leader;
	int64_t since;			/* when the trouble, or the leader's, was seen first */
	int64_t looked;			/* when this rank last looked at all records; 0: never */
	uint64_t own;			/* digest of its own record, as put last */

	/* Of all but the leader. */
	struct beest_incarnation follows;
	uint64_t suspected;		/* digest of a failure that is not believed yet */

	/* Of the leader. */
	struct beest_fence_rank *ranks;
	size_t rank_count;
	bool owned;			/* its record was there */
};

static inline bool beest_fence_goes_on(const struct beest_fence *fence)
{
	return fence->contribution != 0;
}

void beest_fence_end(struct beest_fence *fence);

struct beest_fence_call {
	struct beest_registry *registry;
	const struct beest_ids *ranks;
	int rank;
	const char *name;		/* in keys, ... */
	const char *title;		/* ... and in sentences */
	struct beest_fence_setup setup;	/* only what and form */
	bool pass;
	const void *value;		/* what this rank contributes to a call */
	size_t size;
	size_t hidden;			/* so many bytes at its end are only for the leader */
	/*
	 * Whose entries this rank needs, besides its own.  Where not all do, the leader leaves the
	 * chunks for beest_fencecall_fetch().
	 */
	struct beest_positions needs;
	/* Only these incarnations, one for each rank, may take part; NULL: any. */
	const struct beest_incarnation *members;
	void (*looked)(void *data);	/* after each look; may be NULL */
	/* The leader, before it proposes a view: a negative errno ends the fence.  May be NULL. */
	int (*offer)(void *data, const struct beest_view *view);
	/*
	 * All ranks have arrived.  0 when this rank has done what the view demands; -EAGAIN to be
	 * called again soon; any other negative errno ends the fence on all ranks.  May be NULL.
	 */
	int (*take)(void *data, struct beest_view *view);
	/*
	 * About once a second: the ids of those that have not arrived or, where all have and
	 * @proposed, that have not done so.  May be NULL.
	 */
	void (*progress)(void *data, bool proposed, const int *missing, size_t count);
	void *data;
	const struct beest_limit *limit;
};

/* Ends what goes on, well or not, so that the next call is another one. */
void beest_fence_abandon(struct beest_fence *fence);

/* -EINVAL, -ENAMETOOLONG: a key with that name would be too long. */
int beest_fence_check(struct beest_registry *registry, const char *name);

/* -------------------------------------- for fencecall.c, leader.c and member.c --- */

struct beest_fence_look;

/* What the leader does, and each of the others. */
struct beest_fence_role {
	/* How many gets it needs at most.  The first is for the leader's record. */
	size_t (*gets)(const struct beest_fence_call *call);
	int (*start)(struct beest_fence_look *look);
	/* After each look: 1: passed; 0: not yet; or why the fence fails. */
	int (*step)(struct beest_fence_look *look);
	/* Puts its record. */
	int (*put)(struct beest_fence_look *look);
	/* Does it wait for the rank at @position? */
	bool (*awaits)(const struct beest_fence_look *look, size_t position);
};

extern const struct beest_fence_role beest_leader_role, beest_member_role;

/* One call of beest_fencecall_run(). */
struct beest_fence_look {
	struct beest_fence *fence;
	const struct beest_fence_call *call;
	const struct beest_fence_role *role;
	struct beest_fence_setup setup;
	size_t own;			/* position of this rank */
	char placed_as[BEEST_KEY_MAX + 1];	/* the key that chooses the server of all */
	char (*keys)[BEEST_KEY_MAX + 1];	/* of the gets */
	struct beest_wait wait;
	/* What the last look has read of the leader's record; @there: it is there. */
	bool there;
	struct beest_incarnation leader;
	struct beest_leader_body lead;
	int64_t looked_at;		/* when the leader last looked, as its record shows */
	int64_t report_at;		/* when to report progress next */
	bool ours;			/* the leader: that is what this rank has put last */
	bool changed;			/* this rank has something else to put */
	bool over;			/* others: it has read why the leader's call fails */
	struct beest_nodefiles files;	/* others: of chunks */
};

/* The leader: has it committed what it has made last? */
static inline bool beest_fence_is_committed(const struct beest_fence *fence)
{
	return fence->next && fence->next->id && fence->committed == fence->next->id;
}

/* Its call has ended well: what was proposed is the view now. */
void beest_fence_take_next(struct beest_fence *fence);

static inline bool beest_fence_is_leader(const struct beest_fence_look *look)
{
	return look->own == 0;
}

/* Up to 2000 ranks, BEEST_FENCE_PATIENCE. */
static inline int64_t beest_fence_patience(const struct beest_fence_look *look)
{
	return BEEST_MAX(BEEST_FENCE_PATIENCE, 3 * BEEST_SECOND / 2 +
			 (int64_t)look->call->ranks->count * BEEST_FENCE_PATIENCE_RANK);
}

static inline bool beest_fence_is_mesh(const struct beest_fence_look *look)
{
	return look->setup.what == BEEST_FENCE_MESH;
}

/* "barrier", "gather" or "mesh". */
const char *beest_fence_noun(const struct beest_fence_look *look);

/* Takes the thread's sentence as why this rank does not go on. */
void beest_fence_refuse(struct beest_fence_look *look, int ret);

/* Fails with its trouble. */
int beest_fence_fail(const struct beest_fence_look *look);

/* -EPROTO: rank @rank has another setup. */
int beest_fence_compare(const struct beest_fence_look *look, int rank,
			const struct beest_fence_setup *other);

/* -ESTALE: @incarnation has replaced the process of the last view with that rank. */
int beest_fence_stale(const struct beest_fence_look *look, int rank,
		      const struct beest_incarnation *incarnation);

/*
 * Has one of the processes that this rank @awaits, as far as it knows them, left or failed, or
 * another process taken its place?  The wait asks that, too, but for authors of records that are
 * there; and where each call is one look, it never waits for one that has left to be back.
 */
void beest_fence_ask(struct beest_fence_look *look);

/*
 * Finds the ranks that are @missing, as ranges of their positions: *@count of them, at most @most.
 * Returns the number of all that are missing.
 */
size_t beest_fence_missing(const struct beest_fence_look *look,
			   bool (*missing)(const struct beest_fence_look *look, size_t position),
			   struct beest_fence_range *ranges, size_t most, size_t *count);

/* Begins the call, or continues the last one.  -EINVAL: with another contribution; -ENOMEM. */
int beest_fence_prepare(struct beest_fence_look *look);

/* Prepares get @i, for a record of this fence whose key ends in @last. */
int beest_fence_get(struct beest_fence_look *look, size_t i, enum beest_record_kind kind,
		    const char *last, int (*see)(void *data, const struct beest_record *record));

/* The same for a member of that rank. */
int beest_fence_get_member(struct beest_fence_look *look, size_t i, int rank,
			   int (*see)(void *data, const struct beest_record *record));

/* The key of chunk @k of a view. */
int beest_fence_chunk_key(const struct beest_fence_look *look, const struct beest_view *view,
			  size_t k, char key[BEEST_KEY_MAX + 1]);

/*
 * Puts a record of this fence, whose place it fills in, and frees its body, which is for free(3);
 * NULL: -ENOMEM.
 */
int beest_fence_put(struct beest_fence_look *look, struct beest_registry_record *record,
		    uint8_t *body);

/* The same of this rank's own record and its time to live.  If it has changed, it is sent soon. */
int beest_fence_put_own(struct beest_fence_look *look, struct beest_registry_record *record,
			uint8_t *body);

/* Is that the record that this rank has put last? */
bool beest_fence_is_own(const struct beest_fence_look *look, const struct beest_record *record);

#endif
