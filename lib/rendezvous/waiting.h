/* SPDX-License-Identifier: MIT */
/*
 * waiting.h - the state of one wait, which wait, watch and unmet share
 *
 * Owns nothing but that struct and what all three ask of it.
 */
#ifndef BEEST_WAITING_H
#define BEEST_WAITING_H

#include "lib/rendezvous/lease.h"
#include "lib/rendezvous/wanted.h"

struct waiting {
	struct beest_registry *registry;
	struct beest_wait *wait;
	struct beest_backoff backoff;
	int64_t watch_at;
	unsigned int watches;		/* so far */
	bool polls;			/* may end before it would watch by itself */
	int64_t compare_at, compare_pause;
	int64_t tell_at;
	int64_t ended_at;		/* when to log next who has ended */
	struct beest_look_want *wants;
	size_t *get_of;			/* the index of the get that each want is for */
	size_t asked;			/* wants for gets; those of this rank follow, then the
					   watched ones */
	size_t watched_end;		/* servers that must store own records follow */
	size_t count;
	int64_t until;			/* when the look under way, or the last one, must end */
	uint64_t bytes;			/* that the registry had read and written before */
	size_t first;			/* the get at which asking begins */
	size_t cursor;			/* the get at which rechecking goes on */
	bool watching;
	bool meets, identifies;		/* reads the starts log of this rank, its presence */
	bool is_there;			/* its own presence was, before the request */
	bool suspects;			/* another process may have this rank: nothing counts */
	bool progress;
	bool grows;			/* a list has changed, which is progress of others */
	/* Read last, and judged for all known authors; zeros: not so. */
	uint8_t news[BEEST_EPOCH_SIZE];
	unsigned int looks;
	struct beest_kv_signals signals;
};

/* Adds what the next look asks for. */
static inline void beest_waiting_want(struct waiting *w, const char *key, size_t server)
{
	w->wants[w->count++] = (struct beest_look_want){ .key = key, .server = server };
}

static inline const char *beest_waiting_noun(const struct beest_wait_get *get)
{
	return get->noun ? get->noun : beest_record_row(get->kind)->noun;
}

/* Is the @i-th own record of the wait? */
static inline bool beest_waiting_is_stored(const struct waiting *w, size_t i)
{
	return beest_lease_is(w->registry->leases, w->wait->own_keys[i], BEEST_LEASE_SETTLED);
}

/* The first record that is still wanted; NULL: all are there. */
const struct beest_wait_get *beest_waiting_missing(const struct waiting *w);

/* The key of the first own record that is not stored; NULL: all are. */
const char *beest_waiting_unstored(const struct waiting *w);

/* When a look that begins now must end: that of the most patient server which is needed. */
int64_t beest_waiting_until(const struct waiting *w);

#endif
