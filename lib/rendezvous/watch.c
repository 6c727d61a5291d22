/* SPDX-License-Identifier: MIT */
/* watch.c - see watch.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/rendezvous/failure.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/serverlist.h"
#include "lib/rendezvous/watch.h"

/*
 * Presence, list of servers and news are first read after WATCH_FIRST plus WATCH_RANK per rank:
 * with many ranks, waits are longer anyway, and the ranks must not all write at the same moment.
 * They are read once more soon after, since others may have written there meanwhile, and then
 * every WATCH_EACH.
 *
 * A call that may end before its first watch goes by the context's last one instead: a program that
 * polls learns what one that waits learns, whichever of its calls is made when it is time.
 */
#define WATCH_FIRST (20 * BEEST_MS)
#define WATCH_RANK BEEST_MS
#define WATCH_EACH BEEST_SECOND

/* How long to wait for the return of an author that has left. */
#define RETURN_TIME BEEST_SECOND

/*
 * A wait in which nothing arrives asks after COMPARE_FIRST, and then each time after twice as long,
 * whether several servers answer as one: its records may be on another.  Once more when it ends in
 * vain.  Each time that takes connections of its own, so of the ranks that wait at the same time so
 * many ask after the first pause, and twice as many after each other one.
 */
#define COMPARE_FIRST BEEST_SECOND
#define COMPARE_RANKS 256

/* Keys that a watching look reads, too; then each server's list. */
static const enum beest_registry_key watched_keys[] = {
	BEEST_KEY_RANK, BEEST_KEY_NEWS, BEEST_KEY_FAILED,
};
#define WATCHED_FIXED BEEST_COUNT(watched_keys)

/* Keys that a look reads as long as this process has met no other: starts log, presence. */
#define IDENTITY_MOST 2

size_t beest_watch_most(const struct beest_registry *registry)
{
	return IDENTITY_MOST + WATCHED_FIXED + registry->server_count;
}

/* ------------------------------------------------------------------- when, and what --- */

/*
 * When the context last judged a watch, or its first poll began: a program may poll only once.  A
 * watch of a call that found all that it wanted is not judged, and does not count.
 */
static int64_t last_watch(struct beest_registry *registry)
{
	int64_t last = __atomic_load_n(&registry->watched, __ATOMIC_RELAXED);

	if (!last) {
		last = beest_clock_now();
		__atomic_store_n(&registry->watched, last, __ATOMIC_RELAXED);
	}

	return last;
}

static int64_t first_pause(const struct beest_registry *registry)
{
	const int64_t ranks = beest_registry_size(registry);

	return BEEST_MIN(WATCH_FIRST + ranks * WATCH_RANK, WATCH_EACH);
}

void beest_watch_start(struct waiting *w)
{
	const int64_t pause = first_pause(w->registry);

	w->polls = beest_limit_left(w->wait->limit) < pause;
	w->watch_at = w->polls ? last_watch(w->registry) + pause : beest_clock_deadline(pause);
}

/* A poll that only stores is not to fail for others: it would take the watch from one that is. */
static bool watch_is_due(const struct waiting *w)
{
	return beest_clock_now() >= w->watch_at && (!w->polls || w->wait->count);
}

void beest_watch_next(struct waiting *w)
{
	w->watch_at = beest_clock_deadline(w->watches++ ? WATCH_EACH :
					   BEEST_MIN(2 * first_pause(w->registry), WATCH_EACH));
}

/* A first look may find everything, so only a later one is worth a write. */
static void waits_tell(struct waiting *w)
{
	const struct beest_wait_get *missing = beest_waiting_missing(w);

	if (w->watches && missing)
		beest_presence_set_waits(w->registry, beest_waiting_noun(missing), missing->name);
}

/*
 * A rank that only waits has stored nothing yet.  Without its presence, others could not detect
 * a different list of servers or a duplicate rank.
 */
static void want_watched(struct waiting *w)
{
	struct beest_registry *registry = w->registry;
	size_t i;

	waits_tell(w);
	beest_registry_announce(registry);
	for (i = 0; i < WATCHED_FIXED; i++)
		beest_waiting_want(w, registry->keys[watched_keys[i]],
				   beest_registry_server(registry, watched_keys[i]));
	for (i = 0; i < registry->server_count; i++)
		beest_waiting_want(w, registry->keys[BEEST_KEY_SERVERS], i);
	/* A server that is away must not hold up each call of a program that polls another one. */
	for (i = w->count - WATCHED_FIXED - registry->server_count; i < w->count; i++)
		w->wants[i].idle = w->polls;
}

void beest_watch_want(struct waiting *w)
{
	w->watching = watch_is_due(w);
	if (w->watching)
		want_watched(w);
}

/*
 * In the request that may bring what is waited for: it counts only if no other process has this
 * rank.  A wait that only stores records meets no process, but replaces what an earlier one left.
 */
void beest_watch_identify(struct waiting *w)
{
	struct beest_registry *registry = w->registry;
	const size_t server = beest_registry_server(registry, BEEST_KEY_RANK);

	w->meets = w->wait->count && (w->wait->meets || beest_presence_is_new(w->registry));
	w->identifies = w->meets ? beest_presence_is_suspect(w->registry) :
			w->wait->own_count && beest_presence_is_unseen(w->registry);
	w->is_there = beest_presence_is_there(w->registry);
	if (w->meets || w->identifies)
		beest_registry_announce(w->registry);
	if (w->identifies)
		beest_waiting_want(w, registry->keys[BEEST_KEY_RANK], server);
	if (w->meets)
		beest_waiting_want(w, registry->keys[BEEST_KEY_STARTS], server);
}

/* ---------------------------------------------------------- authors that are gone --- */

/* An author that leaves may be about to return.  RETURN_TIME counts for each one that leaves. */
static bool author_may_return(struct beest_wait_get *get)
{
	int64_t now = beest_clock_now();

	if (!get->leaving_at)
		get->leaving_at = now;

	return now - get->leaving_at < RETURN_TIME;
}

/* 0: the wait goes on without this record.  The failure of a rank ends every wait. */
static int get_give_up(struct beest_wait_get *get, int ret)
{
	if (!get->left || (ret == -ECONNABORTED && get->rank >= 0))
		return ret;
	get->left(get->data, ret);
	get->got = true;
	get->recheck = false;

	return 0;
}

/* Has the author left or failed?  0, or the error that ends the wait. */
static int author_judge(struct beest_wait_get *get, const struct beest_presence_query *query)
{
	int ret = query->ret > 0 ? beest_presence_ended(get->rank, &query->body) : 0;

	if (ret == 0 || (ret == -ESHUTDOWN && author_may_return(get)))
		return 0;

	return get_give_up(get, ret);
}

/* Its record is missing, and its author known. */
static struct beest_wait_get *awaited_get(const struct waiting *w, size_t i)
{
	struct beest_wait_get *get = &w->wait->gets[i];

	return !get->got && get->has_author ? get : NULL;
}

/* A rank has left or failed since the news was last read.  Does this wait need its record? */
static int judge_news(struct waiting *w)
{
	struct beest_presence_query *queries = calloc(w->wait->count + 1, sizeof(*queries));
	struct beest_wait_get *get;
	size_t i, count = 0;
	int ret = 0;

	if (!queries)
		return beest_fail(ENOMEM, "no memory to ask for %zu ranks", w->wait->count);
	for (i = 0; i < w->wait->count; i++)
		if ((get = awaited_get(w, i)))
			queries[count++] = (struct beest_presence_query){
				.rank = get->rank, .incarnation = &get->author,
			};
	beest_presence_query(w->registry, queries, count, beest_waiting_until(w), 0);
	for (i = count = 0; i < w->wait->count && ret == 0; i++) {
		get = awaited_get(w, i);
		if (!get)
			continue;
		ret = author_judge(get, &queries[count]);
		if (!queries[count++].answered || get->leaving_at)
			memset(w->news, 0, sizeof(w->news));
	}
	free(queries);

	return ret;
}

int beest_watch_judge(struct waiting *w)
{
	const struct beest_look_want *watched = w->wants + w->asked + w->identifies + w->meets;
	const struct beest_kv_value *news = &watched[1].value;
	bool changed = false;
	size_t i;
	int ret = 0;

	__atomic_store_n(&w->registry->watched, beest_clock_now(), __ATOMIC_RELAXED);
	if (!watched[0].failed)
		ret = beest_presence_judge(w->registry, &watched[0].value, w->is_there);
	if (ret == 0 && !watched[2].failed)
		ret = beest_failure_judge(w->registry, &watched[2].value);
	if (ret == 0 && !watched[1].failed && news->bytes && news->size == sizeof(w->news)) {
		changed = memcmp(w->news, news->bytes, sizeof(w->news)) != 0;
		memcpy(w->news, news->bytes, sizeof(w->news));
	}
	for (i = 0; i < w->registry->server_count && ret == 0; i++)
		if (!watched[WATCHED_FIXED + i].failed)
			ret = beest_serverlist_judge(w->registry, i,
						     &watched[WATCHED_FIXED + i].value);

	return ret == 0 && changed ? judge_news(w) : ret;
}

/* ------------------------------------------------------------ is this rank alone? --- */

/* A server that does not answer shows nothing: what others have counts all the same. */
int beest_watch_meet(struct waiting *w)
{
	const struct beest_look_want *want = w->wants + w->asked;
	int ret = 0;

	w->suspects = false;
	if ((!w->meets && !w->identifies) || want->failed)
		return 0;
	if (w->identifies)
		ret = beest_presence_judge(w->registry, &want++->value, w->is_there);
	if (ret == 0 && w->meets)
		w->suspects = !beest_presence_is_alone(w->registry, &want->value);

	return ret;
}

/* A wait that only stores records meets no process, but its readers must find this one there. */
int beest_watch_met(struct waiting *w)
{
	if ((!w->meets && !w->identifies) || w->wants[w->asked].failed)
		return 1;
	if (w->meets)
		beest_presence_has_met(w->registry);
	else if (!beest_lease_is(w->registry->leases, w->registry->keys[BEEST_KEY_RANK],
				 BEEST_LEASE_SETTLED))
		beest_look_send(w->registry, w->registry->keys[BEEST_KEY_RANK]);

	return 1;
}

/* ------------------------------------------------------------- one server or several --- */

void beest_watch_compare_start(struct waiting *w)
{
	w->compare_pause = COMPARE_FIRST;
	w->compare_at = beest_clock_deadline(COMPARE_FIRST);
}

int beest_watch_compare(const struct waiting *w)
{
	const struct beest_wait_get *missing = beest_waiting_missing(w);

	if (!missing || w->wait->limit->once)
		return 0;

	return beest_look_compare(w->registry, missing->server, w->until);
}

/* Part of an incarnation is random. */
static bool is_chosen(const struct waiting *w)
{
	const uint64_t share = COMPARE_RANKS * (uint64_t)(w->compare_pause / COMPARE_FIRST);
	const uint8_t *random = beest_registry_incarnation(w->registry)->bytes + BEEST_PROCESS_SIZE;
	uint32_t turn;

	memcpy(&turn, random, sizeof(turn));

	return turn * (uint64_t)beest_registry_size(w->registry) >> 32 < share;
}

int beest_watch_compare_due(struct waiting *w)
{
	const bool chosen = is_chosen(w);

	if (beest_clock_now() < w->compare_at)
		return 0;
	w->compare_at = beest_clock_deadline(w->compare_pause);
	w->compare_pause *= 2;

	return chosen ? beest_watch_compare(w) : 0;
}
