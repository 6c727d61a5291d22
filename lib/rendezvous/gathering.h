/* SPDX-License-Identifier: MIT */
/*
 * gathering.h - one gathering while it runs: what gather.c and its parts have in common
 *
 * Owns the state of a gathering, its keys and what it writes.  gather.c has the gate and the
 * roll as a rank follows them, attendance.c all records as they were read at once, opening.c
 * who opens the gate, changes.c what the gate says of the roll, and direct.c the roll that
 * each of few ranks makes itself.
 *
 * Only these include it.
 */
#ifndef BEEST_GATHERING_H
#define BEEST_GATHERING_H

#include <string.h>

#include "lib/rendezvous/gather.h"
#include "lib/rendezvous/wait.h"

/* Passes of the roll call: all have come, all know of all. */
#define BEEST_CALLED 1
#define BEEST_KNOWN 2

/* Fewer ranks look so often that knowing how many have come saves them nothing. */
#define BEEST_HINT_FROM 17

/* Who is missing is reported so often. */
#define BEEST_REPORT_EACH BEEST_SECOND

/* A rank's record, as it was read last. */
struct beest_attendance {
	char key[BEEST_KEY_MAX + 1];
	bool here;
	int refused;			/* what is there is no record: its errno, ... */
	char why[160];			/* ... and the sentence */
	struct beest_incarnation incarnation;
	struct beest_barrier_body body;
	const uint8_t *blob;		/* within the value */
};

struct beest_gathering {
	struct beest_gather *call;
	struct beest_registry *registry;
	struct beest_gather_state *state;
	size_t count;			/* of ranks */
	size_t own;			/* position of this one */
	struct beest_barrier_body body;	/* of the own record */

	char keys_base[BEEST_KEY_MAX + 1];
	char record_key[BEEST_KEY_MAX + 1];
	char gate_key[BEEST_KEY_MAX + 1];
	char roll_key[BEEST_KEY_MAX + 1];
	char count_key[BEEST_KEY_MAX + 1];
	char taker_key[BEEST_KEY_MAX + 1];
	size_t server;

	struct beest_wait wait;
	struct beest_wait_get *gets;	/* the gate; then, read directly, all other records */
	struct beest_barrier_body gate;	/* of a roll call, as it was seen last */
	uint64_t over;			/* the roll whose second gate was seen last; 0: none */
	uint64_t passed;		/* that some rank here says that it has passed; 0: none */
	struct beest_kv_value roll;	/* that came with it */
	uint64_t held;			/* the roll whose marks were kept last; 0: none */
	uint8_t *held_marks;		/* NULL: none, or called() has them */
	uint64_t skipped;		/* one that is over, or does not have this rank */

	/* opening.c */
	struct beest_look_extra extras[2];	/* the counter */
	bool counted;			/* the number was taken, and looked at */
	int64_t numbered;		/* when this rank took a number, or went on with one */
	int64_t full_at;		/* since when all have come, by the counter; 0: not yet */
	int64_t late;			/* the least pause between two tries */
	int64_t patience;		/* a counter that rests so long is doubted */
	bool blind;			/* the counter is known to be wrong */

	/* attendance.c: all records, in the order of ranks; NULL until they are read */
	struct beest_attendance *all;
	struct beest_look_want *wants;	/* for these; in a roll call, then the gate */
	int64_t report_at;		/* who is missing */

	/* direct.c */
	struct beest_direct *direct;	/* for each of the gets */
	uint8_t *marks;			/* as they were read so far */
	bool changed;			/* another life of a rank, or other bytes that it brings */
	int newcomer;			/* a rank that began again after all had come; -1: none */
	bool doubt;			/* what was seen before may have changed */
};

static inline bool beest_gathering_calls_roll(const struct beest_gathering *g)
{
	return !g->call->run;
}

/* Who comes last does not matter where all read all records. */
static inline bool beest_gathering_is_direct(const struct beest_gathering *g)
{
	return g->call->direct && beest_gathering_calls_roll(g);
}

/* Whoever comes says which roll call of this name it has passed. */
static inline void beest_gathering_hear(struct beest_gathering *g,
					const struct beest_barrier_body *body)
{
	if (beest_gathering_calls_roll(g) && body->pass == BEEST_CALLED && body->roll)
		g->passed = body->roll;
}

/*
 * Does whoever says @body pass a roll call that is over, as soon as it sees the gate?  Counted for
 * the next one, it would pass with those who have come again, in place of its successor.
 */
static inline bool beest_gathering_leaves(const struct beest_gathering *g,
					  const struct beest_barrier_body *body)
{
	return body->pass == BEEST_KNOWN && (body->roll == g->over || body->roll == g->passed);
}

/* Is the gate that of this pass, or of a later one? */
static inline bool beest_gathering_passes(const struct beest_gathering *g,
					  const struct beest_barrier_body *gate)
{
	return gate->roll == g->body.roll && gate->pass >= g->body.pass;
}

/* Each look reads it, and not only a late one. */
static inline bool beest_gathering_counts(const struct beest_gathering *g)
{
	return !beest_gathering_is_direct(g) && g->count >= BEEST_HINT_FROM;
}

/* A mark: the incarnation of a rank, and what it brings. */
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

/* For what has not come along with the gate. */
int beest_gathering_look(struct beest_gathering *g, struct beest_look *look);

/* Of all marks.  Never 0, which says that there is none. */
uint64_t beest_gathering_digest(const struct beest_gathering *g, const uint8_t *marks);

/* They are this gathering's from here on; NULL: it keeps none. */
void beest_gathering_keep(struct beest_gathering *g, uint8_t *marks, uint64_t digest);

/* Puts @record with @body, and after it what a rank brings, or all marks. */
int beest_gathering_put(struct beest_gathering *g, struct beest_registry_record *record,
			const struct beest_barrier_body *body, const void *more, size_t size);

/* Puts the gate, and after it what is said there of the roll. */
int beest_gathering_open(struct beest_gathering *g, const struct beest_barrier_body *body,
			 const void *more, size_t size);

/* The roll has changed: this rank knows it, and says so. */
int beest_gathering_know(struct beest_gathering *g, uint64_t digest);

/* Is what was read under that key a gate, or the roll?  Once for each value: it opens a seal. */
bool beest_gathering_decode(const struct beest_gathering *g, const char *key,
			    const struct beest_kv_value *value, struct beest_record *record,
			    struct beest_barrier_body *body);

#endif
