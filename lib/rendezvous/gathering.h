/* SPDX-License-Identifier: MIT */
/*
 * gathering.h - the state of a running gathering, which gather.c and its parts share
 *
 * Owns the state of a gathering, its keys and what it writes.  gather.c follows the gate and
 * the roll, opening.c decides which rank opens the gate, attendance.c reads the records of all
 * ranks at once, changes.c tells in the gate what changed since a former roll, and direct.c
 * is for few ranks, each of which makes the roll itself.
 *
 * Only these files include it.
 */
#ifndef BEEST_GATHERING_H
#define BEEST_GATHERING_H

#include <string.h>

#include "lib/rendezvous/gather.h"
#include "lib/rendezvous/wait.h"

/*
 * The two passes of a roll call.  In a record: this rank has come; it knows the roll.  In a
 * gate: all ranks have come; all know the roll.
 */
#define BEEST_PASS_COME 1
#define BEEST_PASS_KNOWN 2

/*
 * With fewer ranks, nobody reads the counter while it waits: they look so often anyway that
 * knowing how many ranks have come would save nothing.
 */
#define BEEST_HINT_FROM 17

/* How often the missing ranks are reported. */
#define BEEST_REPORT_EACH BEEST_SECOND

/* The record of a rank, as last read. */
struct beest_attendance {
	char key[BEEST_KEY_MAX + 1];
	bool here;
	int refused;			/* the value is not a valid record: its errno, ... */
	char why[160];			/* ... and the sentence */
	struct beest_incarnation incarnation;
	struct beest_barrier_body body;
	const uint8_t *blob;		/* points into the value that was read */
};

struct beest_gathering {
	struct beest_gather *call;
	struct beest_registry *registry;
	struct beest_gather_state *state;
	size_t count;			/* of ranks */
	size_t own;			/* position of this rank */
	struct beest_barrier_body body;	/* of this rank's record */

	char keys_base[BEEST_KEY_MAX + 1];
	char record_key[BEEST_KEY_MAX + 1];
	char gate_key[BEEST_KEY_MAX + 1];
	char roll_key[BEEST_KEY_MAX + 1];
	char count_key[BEEST_KEY_MAX + 1];
	char taker_key[BEEST_KEY_MAX + 1];
	size_t server;

	struct beest_wait wait;
	struct beest_wait_get *gets;	/* the gate; with direct, then all other records */
	struct beest_barrier_body gate;	/* of a roll call, as last seen */
	/* Rolls are named by their digests; 0: none. */
	uint64_t finished_roll;		/* the roll of the second gate seen last */
	uint64_t passed_roll;		/* the one that some rank here says it has passed with */
	uint64_t skipped_roll;		/* one not to follow: it is over, or lacks this rank */
	uint64_t kept_roll;		/* the one whose marks were kept last */
	uint8_t *kept_marks;		/* NULL: none, or take_roll() has taken them */
	struct beest_kv_value roll_value;	/* the roll's record, if it arrived with the gate */

	/* opening.c */
	struct beest_look_extra extras[2];	/* add the counter, increment it */
	bool counted;			/* the number has arrived and was judged */
	int64_t numbered_at;		/* when this rank took its number, or resumed with it */
	int64_t full_at;		/* since when the counter says that all have come; 0: not */
	int64_t late_after;		/* ns: when a gate is late; the least pause of tries */
	int64_t patience;		/* ns: a counter that rests this long is not believed */
	bool counter_is_wrong;		/* known from a roll that this rank must not follow */

	/* attendance.c: all records, in the order of ranks; NULL until they are read */
	struct beest_attendance *all;
	struct beest_look_want *wants;	/* for the records; in a roll call, then the gate */
	int64_t report_at;		/* when to report the missing ranks next */

	/* direct.c */
	struct beest_direct *direct;	/* one for each rank */
	uint8_t *marks;			/* as read so far */
	bool changed;			/* a mark is not the one read before */
	int newcomer;			/* id of a rank restarted after all had come; -1: none */
	bool doubt;			/* another rank knows another roll: read all again */
};

static inline bool beest_gathering_calls_roll(const struct beest_gathering *g)
{
	return !g->call->run;
}

/* Does each rank read all records, so that it does not matter which one comes last? */
static inline bool beest_gathering_is_direct(const struct beest_gathering *g)
{
	return g->call->direct && beest_gathering_calls_roll(g);
}

/* A rank that comes to a roll call says in its record which one of that name it passed last. */
static inline void beest_gathering_note_passed(struct beest_gathering *g,
					       const struct beest_barrier_body *body)
{
	if (beest_gathering_calls_roll(g) && body->pass == BEEST_PASS_COME && body->roll)
		g->passed_roll = body->roll;
}

/*
 * Does @body belong to a roll call that is over?  Its author has yet to see the second gate, and
 * will pass then.  If it were counted for the next roll call, it would pass that one, too, in the
 * place of its own successor.
 */
static inline bool beest_gathering_is_behind(const struct beest_gathering *g,
					     const struct beest_barrier_body *body)
{
	return body->pass == BEEST_PASS_KNOWN &&
	       (body->roll == g->finished_roll || body->roll == g->passed_roll);
}

/* Is @gate the gate of this pass, or of a later one? */
static inline bool beest_gathering_passes(const struct beest_gathering *g,
					  const struct beest_barrier_body *gate)
{
	return gate->roll == g->body.roll && gate->pass >= g->body.pass;
}

/* Does every look read the counter, rather than only those after the gate is late? */
static inline bool beest_gathering_watches_counter(const struct beest_gathering *g)
{
	return !beest_gathering_is_direct(g) && g->count >= BEEST_HINT_FROM;
}

/* The mark of rank number @i in @marks: its incarnation, and what it brings. */
static inline uint8_t *beest_mark_at(const struct beest_gathering *g, uint8_t *marks, size_t i)
{
	return marks + i * beest_gather_mark_size(g->call);
}

static inline void beest_mark_fill(const struct beest_gathering *g, uint8_t *mark,
				   const struct beest_incarnation *incarnation, const void *blob)
{
	memcpy(mark, incarnation, BEEST_INCARNATION_SIZE);
	if (g->call->blob_size)
		memcpy(mark + BEEST_INCARNATION_SIZE, blob, g->call->blob_size);
}

static inline bool beest_mark_is(const struct beest_gathering *g, const uint8_t *mark,
				 const struct beest_incarnation *incarnation, const void *blob)
{
	return memcmp(mark, incarnation, BEEST_INCARNATION_SIZE) == 0 &&
	       (!g->call->blob_size ||
		memcmp(mark + BEEST_INCARNATION_SIZE, blob, g->call->blob_size) == 0);
}

int beest_gathering_rank_key(const struct beest_gathering *g, size_t i,
			     char key[BEEST_KEY_MAX + 1]);

/* A look besides those of the wait, for what did not arrive with the gate. */
int beest_gathering_look(struct beest_gathering *g, struct beest_look *look);

/* The digest of the roll of @marks; never 0, which means none. */
uint64_t beest_gathering_digest(const struct beest_gathering *g, const uint8_t *marks);

/* Keeps @marks for take_roll(), and frees those kept before.  Takes ownership; NULL: keeps none. */
void beest_gathering_keep(struct beest_gathering *g, uint8_t *marks, uint64_t digest);

/* Puts @record, with @body followed by the @size bytes of @more. */
int beest_gathering_put(struct beest_gathering *g, struct beest_registry_record *record,
			const struct beest_barrier_body *body, const void *more, size_t size);

/* Puts the gate: @body followed by @more, what changed since a former roll. */
int beest_gathering_open(struct beest_gathering *g, const struct beest_barrier_body *body,
			 const void *more, size_t size);

/*
 * Hands the kept marks to take_roll(), and puts this rank's record, which says that it knows the
 * roll of @digest.  Does nothing yet where take_roll() returns -EAGAIN.
 */
int beest_gathering_know(struct beest_gathering *g, uint64_t digest);

/*
 * Decodes the @value of @key as a gate or a roll, which have the same kind; false: it is neither.
 * Once for each value, since decoding opens a seal.
 */
bool beest_gathering_decode(const struct beest_gathering *g, const char *key,
			    const struct beest_kv_value *value, struct beest_record *record,
			    struct beest_barrier_body *body);

#endif
