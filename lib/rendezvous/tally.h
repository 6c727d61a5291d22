/* SPDX-License-Identifier: MIT */
/*
 * tally.h - who has come: a list to which each rank appends its entry
 *
 * Owns the keys of such a list, what its entries say, and what was read of them.  The list of
 * many ranks is in parts, so that an append copies little and a look reads little.  Then one more
 * list, the head, names the parts in which all ranks are there: the rank whose entry completes a
 * part names it, and all others read the head alone.  In a roll call, it only tells when to read a
 * part.  A list of few ranks is one part, without a head.
 *
 * Each entry is a lease, so it stays until its context has said something else there.
 *
 * Knows nothing of the order in which ranks do things, or of what a mark says.
 */
#ifndef BEEST_TALLY_H
#define BEEST_TALLY_H

#include "lib/base/parse.h"
#include "lib/rendezvous/wait.h"

/*
 * Up to so many ranks are one part: all read its list in each look, which is faster than to read a
 * head first.  Tests lower it, to have lists in parts with few ranks.
 */
extern size_t beest_tally_few;

/* The ranks of a part, where there are several. */
#define BEEST_TALLY_PART 32

/* What is known of a rank; of the states, later ones of a process replace earlier ones. */
enum beest_tally_state {
	BEEST_TALLY_ABSENT,
	BEEST_TALLY_HAS_PASSED,		/* it was there for a roll call that is over */
	BEEST_TALLY_CAME,
	BEEST_TALLY_DIFFERS,		/* it calls another function with this name */
};

/* Which list it is. */
struct beest_tally_place {
	struct beest_registry *registry;
	const struct beest_ids *ranks;
	int rank;
	const char *name;		/* of a barrier, or "mesh/NAME" */
	uint64_t run;			/* the digest of the roll; 0: this is the roll call */
	uint64_t pass;			/* with a run: 0: of the roll call itself, else from 1 */
	uint8_t flags;			/* of its entries: BEEST_RECORD_GATHERS, or 0 */
};

/*
 * The mark of a rank has its incarnation, its generation, big-endian, and what it brings: never two
 * things with one generation.  If a process comes to another roll call and brings the same, its
 * generation is one more; and never if it brings another thing.
 */
#define BEEST_MARK_HEAD (BEEST_INCARNATION_SIZE + 4)

/* Digests are never 0, which means none. */
struct beest_tally_part {
	uint64_t digest;		/* of its marks, if all its ranks were there when read */
	uint64_t named;			/* what the head says */
	uint64_t expected;		/* its digest if all its ranks come again; 0: unknown */
	uint64_t heard;			/* what the head said when the part was read last */
	uint32_t round;			/* ... and the round that it was in */
	bool read;			/* it was read at all, so its ranks are known */
};

/* Where its lists are. */
struct beest_tally_where {
	size_t part_count, part_ranks;	/* the last part may have fewer ranks */
	size_t server;
	char placed_as[BEEST_KEY_MAX + 1];	/* the key that chooses it */
	char own_key[BEEST_KEY_MAX + 1];	/* of the part of this rank */
	char top_key[BEEST_KEY_MAX + 1];	/* of the head, or of the only part */
};

/* What ranks bring to a roll call. */
struct beest_tally_brought {
	uint8_t *marks;			/* of each rank that has come */
	bool lent;			/* ... but they belong to who has taken the roll */
	size_t mark_size;
	const void *blob;		/* what this rank brings, ... */
	uint32_t generation;		/* ... and which time it does */
	const uint8_t *former;		/* marks passed with before, which do not count; or NULL */
};

/* What others say of this rank in a roll call. */
struct beest_tally_told {
	uint64_t roll;			/* that it knows; 0: none */
	bool passed;			/* another rank has passed with that one */
	bool refused;			/* this process came too late */
};

/* The head, or the only part, as it was read last: mostly it only grows. */
struct beest_tally_top {
	uint8_t *bytes;
	size_t size;
	int64_t moved_at;		/* when it last changed between looks; 0: never */
};

/* This rank in its part. */
struct beest_tally_own {
	size_t position;
	size_t size;			/* the bytes of the part */
	bool is_last;			/* of this rank's entries, the last is what it says now */
	bool said;			/* ... and counts, behind all others of its rank */
	bool completes;			/* ... and behind those of all others of its part */
	bool named_last;		/* it has named the part that was named last */
};

/*
 * Of the list by which ranks say that they know a roll.  If one gives that roll up before all have
 * said so, a new round begins, in which all have to say so again.  So all find either that all knew
 * the roll, or that they did not, by the order of the entries.
 */
struct beest_tally_rounds {
	uint32_t number;
	uint32_t given_up;		/* how often this rank did, in time */
	uint32_t gives_up;		/* that number when it has; 0: it does not */
};

/* An entry of another secret or version. */
struct beest_tally_stranger {
	int error;			/* 0: none */
	char why[160];
};

struct beest_tally {
	struct beest_tally_place place;
	struct beest_tally_where where;
	struct beest_tally_brought brought;
	struct beest_tally_told told;

	/* What was read. */
	uint8_t *states;		/* of each rank: enum beest_tally_state */
	struct beest_tally_part *parts;
	struct beest_tally_top top;
	struct beest_tally_own own;
	struct beest_tally_rounds rounds;
	struct beest_tally_stranger stranger;
	size_t last;			/* position of the rank whose entry came last in a part */

	/* What to read. */
	size_t turn;			/* the part to read next, of those that lack a rank */
	int64_t sample_until;		/* until then, each look reads the own part as a sample */
	bool rests;			/* the top need not be read in each look */
};

/* Are there several parts, and so a head that names them? */
static inline bool beest_tally_has_head(const struct beest_tally *tally)
{
	return tally->where.part_count > 1;
}

/* The key of that place which ends in @last.  -EINVAL, -ENAMETOOLONG. */
int beest_tally_key(const struct beest_tally_place *place, const char *last,
		    char key[BEEST_KEY_MAX + 1]);

/* All keys of one name are on the server that is chosen by this key. */
int beest_tally_placed_as(const struct beest_tally_place *place, char key[BEEST_KEY_MAX + 1]);

/* Of a pass.  -ENOMEM, and the errors of beest_tally_key(). */
int beest_tally_start(struct beest_tally *tally, const struct beest_tally_place *place);

/*
 * Of a roll call, to which this rank brings @blob, of @size bytes; NULL: it only reads what others
 * have brought.  Marks of @former, NULL: none, do not count.  Both must outlive the tally.
 */
int beest_tally_start_roll(struct beest_tally *tally, const struct beest_tally_place *place,
			   uint32_t generation, const void *blob, size_t size,
			   const uint8_t *former);
void beest_tally_end(struct beest_tally *tally);

/* ---------------------------------------------------------------------- saying --- */

/*
 * Says it in the part of this rank, in place of what this context said there before.  A rank that
 * comes to another roll call of this name says, too, with which roll it passed last.
 */
int beest_tally_say(struct beest_tally *tally, enum beest_barrier_word word, uint64_t roll);

/* Says that this rank takes another roll than that of this pass; and: did it say so in time? */
int beest_tally_give_up(struct beest_tally *tally);

static inline bool beest_tally_has_given_up(const struct beest_tally *tally)
{
	return tally->rounds.gives_up && tally->rounds.given_up >= tally->rounds.gives_up;
}

/* Says in the list that all read first that these processes came too late for that roll. */
int beest_tally_refuse(const struct beest_tally_place *place, uint64_t roll,
		       const struct beest_incarnation *late, size_t count);

/* Keeps there no longer what this context has said. */
void beest_tally_forget(const struct beest_tally_place *place);

/* The same for all other runs of that name: all have come to this one. */
void beest_tally_forget_runs(const struct beest_tally_place *place);

/*
 * Makes the write that deletes the part of this rank or, with @head, the head.  @key holds its
 * key.  False: there is no such list, or it is for another rank to delete it.
 */
bool beest_tally_delete(const struct beest_tally_place *place, bool head,
			char key[BEEST_KEY_MAX + 1], struct beest_look_extra *extra);

/* --------------------------------------------------------------------- reading --- */

/* The most gets of a tally. */
#define BEEST_TALLY_GETS 2

/* Makes the gets by which a wait reads the list; returns their number. */
size_t beest_tally_gets(struct beest_tally *tally, const char *name, const char *noun,
			struct beest_wait_get gets[BEEST_TALLY_GETS]);

/* Is this rank there, so that the part need not be read in each look, nor as a sample of all? */
bool beest_tally_own_rests(const struct beest_tally *tally);

/*
 * After a look: reads the parts that the head names, if this is a roll call.  Returns 1 if all
 * ranks have come, and 0 if not.
 */
int beest_tally_each(struct beest_tally *tally, int64_t deadline);
bool beest_tally_is_complete(const struct beest_tally *tally);

/*
 * Names a part in the head that is complete and not named there: that of this rank if its entry
 * completes it, or with @late, any.  1: the next look says so.
 */
int beest_tally_name(struct beest_tally *tally, bool late);

/*
 * -EMSGSIZE: the server takes no list that is long enough for the entry of this rank; -EPROTO:
 * another rank calls another function with this name.
 */
int beest_tally_check(const struct beest_tally *tally);

/* Are all ranks there, and did this one name the last part, or complete the only one? */
bool beest_tally_is_last(const struct beest_tally *tally);

/*
 * Reads the part of this rank, and up to @most others in turn, if a rank is missing there, here or
 * in the @other tally of the same ranks; only there if it only reads.  If none is missing anywhere,
 * what is known may be old: then reads others in any case.
 */
int beest_tally_read(struct beest_tally *tally, const struct beest_tally *other, size_t most,
		     int64_t deadline);

/* Is rank number @i there? */
static inline bool beest_tally_is_here(const struct beest_tally *tally, size_t i)
{
	const struct beest_tally_part *part = &tally->parts[i / tally->where.part_ranks];

	return tally->states[i] == BEEST_TALLY_CAME || (tally->place.run && part->named);
}

/* Was the part of rank number @i read at all? */
static inline bool beest_tally_is_read(const struct beest_tally *tally, size_t i)
{
	return tally->parts[i / tally->where.part_ranks].read;
}

/* Has rank number @i come with a later generation than that of its @mark, in the same process? */
bool beest_tally_comes_again(const struct beest_tally *roll, size_t i, const uint8_t *mark);

/* Writes lists of a roll call anew that have become long: best effort. */
void beest_tally_shorten(struct beest_tally *tally);

/* The digest of the marks that were read.  Only of a complete tally. */
uint64_t beest_tally_digest(const struct beest_tally *tally);

/* Which share of the ranks of its part has come: a sample of all ranks. */
double beest_tally_share(const struct beest_tally *tally);

#endif
