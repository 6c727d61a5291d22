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
	const struct beest_limit *limit;
	int64_t watch_at, watch_pause;
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
	bool watching, watched_before;
	bool meets, identifies;		/* reads the starts log of this rank, its presence */
	bool is_there;			/* its own presence was, before the request */
	bool suspects;			/* another process may have this rank: nothing counts */
	bool follows;			/* an earlier process had this rank, as this look showed */
	bool progress;
	bool grows;			/* a list has changed, which is progress of others */
	bool last;			/* no look follows this one if no time is left after it */
	uint8_t news[BEEST_EPOCH_SIZE];
	bool has_news;			/* news was read, and judged for all known authors */
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

/* When a look that begins now must end: that of the most patient server which is needed. */
int64_t beest_waiting_until(const struct waiting *w);

#endif
