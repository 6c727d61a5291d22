/* SPDX-License-Identifier: MIT */
/* wait.c - see wait.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/rendezvous/failure.h"
#include "lib/rendezvous/inquiry.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/serverlist.h"
#include "lib/rendezvous/wait.h"

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

/* When a wait whose limit asks for that logs what is missing. */
#define TELL_FIRST (5 * BEEST_SECOND)
#define TELL_EACH (60 * BEEST_SECOND)
/* Who starts a job learns soon of a rank that is dead, although the wait expects its successor. */
#define ENDED_FIRST BEEST_SECOND

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

/* Records that arrived and are read again in each look, at most. */
#define RECHECK_MAX 8

/* Missing records that a sentence names, at most: keys are long. */
#define NAMED_MAX 3

/* Room for a name and a key. */
#define WANTED_SIZE (2 * BEEST_KEY_MAX + 64)

/* Keys that a watching look reads, too: presence, news, failure; then each server's list. */
#define WATCHED_FIXED 3

/* Keys that a look reads as long as this process has met no other: starts log, presence. */
#define IDENTITY_MOST 2

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

/* ------------------------------------------------------------------ begin and end --- */

/* A call may wait several times: the time counts from its start. */
static int64_t next_telling(const struct beest_limit *limit)
{
	int64_t passed = beest_clock_now() - limit->began;

	if (!limit->tells)
		return INT64_MAX;
	return limit->began + (passed < TELL_FIRST ? TELL_FIRST :
			       (passed / TELL_EACH + 1) * TELL_EACH);
}

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

static void watch_start(struct waiting *w)
{
	w->watch_pause = BEEST_MIN(WATCH_FIRST + w->registry->size * WATCH_RANK, WATCH_EACH);
	w->polls = beest_limit_left(w->limit) < w->watch_pause;
	w->watch_at = w->polls ? last_watch(w->registry) + w->watch_pause :
		      beest_clock_deadline(w->watch_pause);
}

/* A poll that only stores is not to fail for others: it would take the watch from one that is. */
static bool watch_is_due(const struct waiting *w)
{
	return beest_clock_now() >= w->watch_at && (!w->polls || w->wait->count);
}

static void watch_next(struct waiting *w)
{
	w->watch_at = beest_clock_deadline(BEEST_MIN(2 * w->watch_pause, WATCH_EACH));
	w->watch_pause = WATCH_EACH;
}

static int waiting_start(struct waiting *w)
{
	struct beest_wait *wait = w->wait;
	size_t i, most = BEEST_MAX(wait->count, wait->most);
	size_t room = most + IDENTITY_MOST + WATCHED_FIXED + w->registry->server_count +
		      wait->own_count;
	struct beest_wait_get *get;

	wait->expired = wait->failing = false;
	w->limit = wait->limit;
	wait->since = beest_registry_begun(w->registry);
	w->bytes = __atomic_load_n(&w->registry->bytes, __ATOMIC_RELAXED);
	watch_start(w);
	w->compare_pause = COMPARE_FIRST;
	w->compare_at = beest_clock_deadline(COMPARE_FIRST);
	w->tell_at = next_telling(w->limit);
	w->ended_at = w->registry->log->level < BEEST_LOG_WARN ? INT64_MAX :
		      beest_clock_deadline(ENDED_FIRST);
	w->wants = calloc(room + 1, sizeof(*w->wants));
	w->get_of = calloc(room + 1, sizeof(*w->get_of));
	if (!w->wants || !w->get_of)
		return beest_fail(ENOMEM, "no memory to wait for %zu records", wait->count);

	for (i = 0; i < most; i++) {
		get = &wait->gets[i];
		if (get->key)
			get->server = beest_kv_server_of(w->registry->kv, get->placed_as ?
							 get->placed_as : get->key);
		get->got = get->had = get->given_up = get->answered = false;
		get->seen = 0;
		get->trouble[0] = '\0';
	}
	beest_clock_backoff_start(&w->backoff, wait->readers ? wait->readers : w->registry->size);
	w->backoff.steady = w->limit->steady;

	return 0;
}

/* ---------------------------------------------------------------- what is asked --- */

static void want_add(struct waiting *w, const char *key, size_t server)
{
	w->wants[w->count++] = (struct beest_look_want){ .key = key, .server = server };
}

static void want_get(struct waiting *w, size_t i)
{
	w->get_of[w->count] = i;
	want_add(w, w->wait->gets[i].key, w->wait->gets[i].server);
}

/*
 * A confirmation may be outdated a moment later, so a few are read again in each look until all
 * have arrived.
 */
static void want_again(struct waiting *w)
{
	const struct beest_wait *wait = w->wait;
	size_t i, step, taken = 0, begin = w->cursor;

	for (step = 0; step < wait->count && taken < RECHECK_MAX; step++) {
		i = (begin + step) % wait->count;
		if (!wait->gets[i].recheck || !wait->gets[i].got || wait->gets[i].given_up)
			continue;
		want_get(w, i);
		taken++;
		w->cursor = i + 1;
	}
}

static const char *noun_of(const struct beest_wait_get *get)
{
	return get->noun ? get->noun : beest_record_row(get->kind)->noun;
}

/* A first look may find everything, so only a later one is worth a write. */
static void waits_tell(struct waiting *w)
{
	size_t i = 0;

	while (i < w->wait->count && w->wait->gets[i].got)
		i++;
	if (w->watched_before && i < w->wait->count)
		beest_presence_set_waits(w->registry, noun_of(&w->wait->gets[i]),
					 w->wait->gets[i].name);
	w->watched_before = true;
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
	want_add(w, registry->presence.key, registry->presence.server);
	want_add(w, registry->presence.news_key,
		 beest_kv_server_of(registry->kv, registry->presence.news_key));
	want_add(w, registry->failure.key, registry->failure.server);
	for (i = 0; i < registry->server_count; i++)
		want_add(w, registry->serverlist_key, i);
	/* A server that is away must not hold up each call of a program that polls another one. */
	for (i = w->count - WATCHED_FIXED - registry->server_count; i < w->count; i++)
		w->wants[i].idle = w->polls;
}

/*
 * In the request that may bring what is waited for: it counts only if no other process has this
 * rank.  A wait that only stores records meets no process, but replaces what an earlier one left.
 */
static void want_identity(struct waiting *w)
{
	struct beest_registry_presence *presence = &w->registry->presence;

	w->meets = w->wait->count && (w->wait->meets || beest_presence_is_new(w->registry));
	w->identifies = w->meets ? beest_presence_is_suspect(w->registry) :
			w->wait->own_count && beest_presence_is_unseen(w->registry);
	w->is_there = beest_presence_is_there(w->registry);
	if (w->meets || w->identifies)
		beest_registry_announce(w->registry);
	if (w->identifies)
		want_add(w, presence->key, presence->server);
	if (w->meets)
		want_add(w, presence->starts_key, presence->server);
}

static bool own_is_stored(const struct waiting *w, size_t i)
{
	return beest_lease_is(w->registry->leases, w->wait->own_keys[i], BEEST_LEASE_SETTLED);
}

/* @most: that a request to @server may ask for; 0: any number. */
static bool may_ask(const struct waiting *w, size_t server, size_t most)
{
	size_t i, count = 0;

	for (i = 0; i < w->count && most; i++)
		count += w->wants[i].server == server;

	return !most || count < most;
}

/* A server that has failed is asked for fewer keys, and for the others in the next look. */
static void want_missing(struct waiting *w)
{
	const struct beest_wait *wait = w->wait;
	size_t step, i, begin = w->first, next = SIZE_MAX, server = SIZE_MAX, most = 0;

	for (step = 0; step < wait->count; step++) {
		i = (begin + step) % wait->count;
		if (wait->gets[i].got)
			continue;
		if (wait->gets[i].server != server) {
			server = wait->gets[i].server;
			most = beest_look_keys(w->registry, server);
		}
		if (may_ask(w, server, most))
			want_get(w, i);
		else
			next = BEEST_MIN(next, step);
	}
	w->first = next == SIZE_MAX ? 0 : (begin + next) % wait->count;
}

static void wants_fill(struct waiting *w)
{
	const struct beest_wait *wait = w->wait;
	size_t i, pending;

	w->count = 0;
	want_missing(w);
	pending = w->count;
	if (pending)
		want_again(w);
	w->asked = w->count;
	/* A wait for nothing but own records, stored by another thread, has no reason to hurry. */
	w->backoff.keys = w->count ? w->count : SIZE_MAX;
	want_identity(w);
	w->watching = watch_is_due(w);
	if (w->watching)
		want_watched(w);
	w->watched_end = w->count;
	for (i = 0; i < wait->own_count; i++)
		if (!own_is_stored(w, i))
			want_add(w, NULL, beest_kv_server_of(w->registry->kv,
							     wait->own_keys[i]));
}

/* That of the most patient server which is needed. */
static int64_t look_until(const struct waiting *w)
{
	int64_t until = beest_limit_look(w->limit);
	size_t i;

	for (i = 0; i < w->count && w->limit->once; i++)
		if (!w->wants[i].idle && (i == 0 || w->wants[i].server != w->wants[i - 1].server))
			until = BEEST_MAX(until, beest_look_until(w->registry, w->wants[i].server,
								  w->limit));

	return until;
}

/* ------------------------------------------------------------- what is seen of it --- */

static void get_note(struct beest_wait_get *get, int seen, const char *trouble)
{
	get->seen = seen;
	beest_text_copy(get->trouble, sizeof(get->trouble), trouble);
}

/* The news may be about an author that was not known when it was judged. */
static int get_see(struct waiting *w, struct beest_wait_get *get)
{
	const struct beest_incarnation previous = get->author;
	bool had_author = get->has_author;
	int ret = get->see(get->data, &get->record);

	if (get->has_author &&
	    (!had_author || memcmp(&previous, &get->author, sizeof(previous)) != 0))
		w->has_news = false;

	return ret;
}

/* What its see() or see_list() has returned. */
static int get_take(struct waiting *w, struct beest_wait_get *get, int ret)
{
	if (ret < 0)
		return ret;
	get->got = ret > 0 && !get->unknown;
	w->progress |= get->got && !get->had;
	get->had |= get->got;
	if (!get->got)
		get_note(get, 1, "");

	return 0;
}

/* Only the first run of a job can be sure that nothing is left of an earlier one. */
static bool author_is_unknown(const struct waiting *w, const struct beest_wait_get *get)
{
	if (get->authors == BEEST_AUTHORS_ALL || get->record.rank < 0)
		return false;

	return get->authors == BEEST_AUTHORS_OWN_RUN ? w->follows :
	       !beest_presence_is_known(w->registry, &get->record.incarnation);
}

/* @known: the author is not gone.  0, or the error that ends the wait. */
static int record_see(struct waiting *w, struct beest_wait_get *get, bool known)
{
	int ret = 0;

	get->unknown = !known && author_is_unknown(w, get);
	if (!get->unknown)
		ret = get_see(w, get);
	if (ret == -EBADMSG)		/* from a decoder, which knows no names */
		return beest_fail_prefix(ret, "%s '%s' (key %s)", noun_of(get),
					 get->name, get->key);
	get->unknown = !known && author_is_unknown(w, get);

	return get_take(w, get, ret);
}

/* 0, or the error that ends the wait. */
static int get_judge(struct waiting *w, struct beest_wait_get *get,
		     const struct beest_kv_value *value)
{
	int ret;

	get->got = get->unknown = false;
	get->answered = true;
	get->unique = value->unique;
	if (get->see_list) {
		w->grows |= value->size != get->list_size;
		get->list_size = value->size;
		return get_take(w, get, get->see_list(get->data, value));
	}
	if (!value->bytes) {
		get_note(get, 0, "");
		return 0;
	}
	ret = beest_record_decode(w->registry->seal, value->bytes, value->size, get->kind, get->key,
				  &get->record);
	if (ret == -ENOMEM || ret == -EIO)	/* shows nothing about the record */
		return ret;
	if (ret == 0)
		return record_see(w, get, false);
	/* A living peer may still replace it. */
	if (get->seen != ret && !w->limit->once)
		beest_log(w->registry->log, BEEST_LOG_WARN, "key '%s' is ignored: %s", get->key,
			  beest_error_text());
	get_note(get, ret, beest_error_text());

	return 0;
}

/* The record that the @i-th want is for, if its author has to be asked for. */
static struct beest_wait_get *unknown_get(const struct waiting *w, size_t i)
{
	struct beest_wait_get *get = &w->wait->gets[w->get_of[i]];

	return !w->wants[i].failed && get->unknown ? get : NULL;
}

/* Notes how the author has gone.  false: it has not, as far as is known. */
static bool author_has_gone(const struct waiting *w, struct beest_wait_get *get,
			    const struct beest_presence_query *query)
{
	char who[BEEST_PRESENCE_TEXT];
	struct beest_text how = BEEST_TEXT(sizeof(get->trouble));

	if (get->authors == BEEST_AUTHORS_OWN_RUN ? !beest_presence_disowns(w->registry, query) :
	    query->ret != -ESTALE)
		return false;
	beest_presence_text(query->rank, &query->body, who);
	beest_text_add(&how, query->ret == -ESTALE ? "by a process that is gone; its successor is "
		       "%s" : "by %s, whose process is dead", who);
	get_note(get, 1, how.buffer);

	return true;
}

/* The author stays unknown, since the record may be a leftover. */
static void author_is_silent(const struct waiting *w, struct beest_wait_get *get)
{
	struct beest_text how = BEEST_TEXT(sizeof(get->trouble));
	char key[BEEST_KEY_MAX + 1];

	beest_text_add(&how, "by rank %" PRId32, get->record.rank);
	if (beest_registry_rank_key(w->registry, get->record.rank, &get->record.incarnation,
				    key) == 0)
		beest_text_add(&how, ", but server %s does not answer whether that process still "
			       "is of this run", beest_kv_label(w->registry->kv,
				beest_kv_server_of(w->registry->kv, key)));
	get_note(get, 1, how.buffer);
}

/* Asks for all unknown authors in one look.  There may be no other look after this one. */
static int judge_unknown(struct waiting *w)
{
	struct beest_presence_query *queries = calloc(w->asked, sizeof(*queries));
	struct beest_wait_get *get;
	size_t i, count = 0;
	int ret = 0;

	if (!queries)
		return beest_fail(ENOMEM, "no memory to ask for %zu authors", w->asked);
	for (i = 0; i < w->asked; i++)
		if ((get = unknown_get(w, i)))
			queries[count++] = (struct beest_presence_query){
				.rank = get->record.rank,
				.incarnation = &get->record.incarnation,
			};
	beest_presence_ask(w->registry, queries, count, look_until(w));
	for (i = count = 0; i < w->asked && ret == 0; i++) {
		get = unknown_get(w, i);
		if (get && !queries[count].answered)
			author_is_silent(w, get);
		else if (get && !author_has_gone(w, get, &queries[count]))
			ret = record_see(w, get, true);
		count += get != NULL;
	}
	free(queries);

	return ret;
}

static int judge_gets(struct waiting *w)
{
	bool unknown = false;
	size_t i;
	int ret = 0;

	w->follows = beest_presence_follows(w->registry);
	for (i = 0; i < w->asked && ret == 0; i++)
		if (!w->wants[i].failed) {
			ret = get_judge(w, &w->wait->gets[w->get_of[i]], &w->wants[i].value);
			unknown |= ret == 0 && unknown_get(w, i);
		}

	return ret == 0 && unknown ? judge_unknown(w) : ret;
}

/* ---------------------------------------------------------- authors that are gone --- */

/* An author that leaves may be about to return.  RETURN_TIME counts for each one that leaves. */
static bool author_may_return(struct beest_wait_get *get)
{
	int64_t now = beest_clock_now();

	if (!get->leaving_at || memcmp(&get->leaver, &get->author, sizeof(get->leaver)) != 0) {
		get->leaver = get->author;
		get->leaving_at = now;
	}

	return now - get->leaving_at < RETURN_TIME;
}

/* 0: the wait goes on without this record.  The failure of a rank ends every wait. */
static int get_give_up(struct beest_wait_get *get, int ret)
{
	if (!get->left || (ret == -ECONNABORTED && get->rank >= 0))
		return ret;
	get->left(get->data, ret);
	get->got = get->given_up = true;

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

/* A rank has left or failed since the news was last read.  Does this wait need its record? */
static int judge_news(struct waiting *w)
{
	struct beest_presence_query *queries = calloc(w->wait->count + 1, sizeof(*queries));
	struct beest_wait_get **asked = calloc(w->wait->count + 1, sizeof(*asked));
	struct beest_wait_get *get;
	size_t i, count = 0;
	int ret = 0;

	if (!queries || !asked)
		ret = beest_fail(ENOMEM, "no memory to ask for %zu ranks", w->wait->count);
	for (i = 0; i < w->wait->count && ret == 0; i++) {
		get = &w->wait->gets[i];
		if (get->got || !get->has_author)
			continue;
		queries[count].rank = get->rank;
		queries[count].incarnation = &get->author;
		asked[count++] = get;
	}
	if (ret == 0)
		beest_presence_query(w->registry, queries, count, look_until(w));
	for (i = 0; i < count && ret == 0; i++) {
		ret = author_judge(asked[i], &queries[i]);
		w->has_news &= queries[i].answered && !asked[i]->leaving_at;
	}
	free(asked);
	free(queries);

	return ret;
}

static int judge_watched(struct waiting *w)
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
		changed = !w->has_news || memcmp(w->news, news->bytes, sizeof(w->news)) != 0;
		memcpy(w->news, news->bytes, sizeof(w->news));
		w->has_news = true;
	}
	for (i = 0; i < w->registry->server_count && ret == 0; i++)
		if (!watched[WATCHED_FIXED + i].failed)
			ret = beest_serverlist_judge(w->registry, i,
						     &watched[WATCHED_FIXED + i].value);

	return ret == 0 && changed ? judge_news(w) : ret;
}

/* ---------------------------------------------------------------------- one look --- */

static bool all_there(const struct waiting *w)
{
	size_t i;

	for (i = 0; i < w->wait->count; i++)
		if (!w->wait->gets[i].got)
			return false;
	for (i = 0; i < w->wait->own_count; i++)
		if (!own_is_stored(w, i))
			return false;

	return true;
}

/* Did any server that this wait needs fail? */
static bool needed_failed(const struct waiting *w)
{
	size_t i;

	for (i = 0; i < w->count; i++)
		if (w->wants[i].failed && (i < w->asked || i >= w->watched_end))
			return true;

	return false;
}

/* Logs once that a server fails, and once that the servers answer again. */
static void note_look(struct waiting *w, int ret)
{
	const struct beest_log *log = w->registry->log;
	bool failing = ret < 0 && needed_failed(w), forever = w->limit->end == INT64_MAX;

	if (ret < 0 && !failing)
		beest_look_degraded(w->registry);
	if (failing && !w->wait->failing && beest_limit_left(w->limit))
		beest_log(log, BEEST_LOG_WARN, "%s; trying again%s%s", beest_error_text(),
			  forever ? "" : " for up to ",
			  forever ? "" : BEEST_SPAN(beest_limit_left(w->limit)));
	else if (failing && w->watching)
		beest_log(log, BEEST_LOG_DEBUG, "look %u: %s", w->looks + 1, beest_error_text());
	if (!failing && w->wait->failing)
		beest_log(log, BEEST_LOG_INFO, "the servers answer again");
	w->wait->failing = failing;
}

/* Names the first record that is still wanted, for the end of a sentence about a server. */
static void wanted_say(const struct waiting *w, char *text, size_t size)
{
	const struct beest_wait *wait = w->wait;
	const struct beest_wait_get *get;
	size_t i;

	text[0] = '\0';
	for (i = 0; i < wait->count && !text[0]; i++) {
		get = &wait->gets[i];
		if (!get->got)
			snprintf(text, size, "; wanted: %s '%s' (key %s)",
				 noun_of(get), get->name, get->key);
	}
	for (i = 0; i < wait->own_count && !text[0]; i++)
		if (!own_is_stored(w, i))
			snprintf(text, size, "; to be stored: key %s", wait->own_keys[i]);
}

/* Returns @ret, and adds to the current sentence what the wait was for. */
static int wanted_fail(const struct waiting *w, int ret)
{
	char wanted[WANTED_SIZE];

	wanted_say(w, wanted, sizeof(wanted));

	return beest_fail(-ret, "%s%s", beest_error_text(), wanted);
}

/* -EPROTO: the first missing record may be on another server of the same name. */
static int servers_compare(const struct waiting *w)
{
	size_t i = 0;

	while (i < w->wait->count && w->wait->gets[i].got)
		i++;
	if (i == w->wait->count || w->limit->once)
		return 0;

	return beest_look_compare(w->registry, w->wait->gets[i].server, w->until);
}

/* Part of an incarnation is random. */
static bool is_chosen(const struct waiting *w)
{
	const uint64_t share = COMPARE_RANKS * (uint64_t)(w->compare_pause / COMPARE_FIRST);
	const uint8_t *random = beest_registry_incarnation(w->registry)->bytes + BEEST_PROCESS_SIZE;
	uint32_t turn;

	memcpy(&turn, random, sizeof(turn));

	return turn * (uint64_t)w->registry->size >> 32 < share;
}

static int servers_compare_when_due(struct waiting *w)
{
	const bool chosen = is_chosen(w);

	if (beest_clock_now() < w->compare_at)
		return 0;
	w->compare_at = beest_clock_deadline(w->compare_pause);
	w->compare_pause *= 2;

	return chosen ? servers_compare(w) : 0;
}

/* ------------------------------------------------------------ is this rank alone? --- */

/* A server that does not answer shows nothing: what others have counts all the same. */
static int meeting_judge(struct waiting *w)
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
static int meeting_end(struct waiting *w)
{
	if ((!w->meets && !w->identifies) || w->wants[w->asked].failed)
		return 1;
	if (w->meets)
		beest_presence_has_met(w->registry);
	else if (!beest_lease_is(w->registry->leases, w->registry->presence.key,
				 BEEST_LEASE_SETTLED))
		beest_look_send(w->registry, w->registry->presence.key);

	return 1;
}

/* Nothing that was read counts. */
static void suspects_note(struct waiting *w)
{
	size_t i;

	for (i = 0; i < w->asked; i++)
		get_note(&w->wait->gets[w->get_of[i]], -beest_limit_errno(w->limit), "it does not "
			 "count until it is known whether another process of this rank is alive");
}

/* 1: all that is wanted is there. */
static int wait_judge_all(struct waiting *w)
{
	struct beest_wait *wait = w->wait;
	int ret = 0;

	if (w->suspects)
		suspects_note(w);
	else
		ret = judge_gets(w);
	if (ret == 0 && w->watching && (w->suspects || !all_there(w)))
		ret = judge_watched(w);
	if (ret == 0 && !w->suspects && wait->each)
		ret = wait->each(wait->data);
	if (ret != 0 || w->suspects || !all_there(w))
		return ret;

	return !(wait->each && !wait->count && !wait->own_count);
}

/* 1: all is there; 0: not yet. */
static int wait_judge(struct waiting *w)
{
	int ret = meeting_judge(w);

	if (ret == 0)
		ret = wait_judge_all(w);
	if (ret != 0)
		return ret > 0 ? meeting_end(w) : ret;

	ret = beest_limit_check(w->limit);
	if (ret < 0)
		return wanted_fail(w, ret);
	if (w->registry->interrupt)
		ret = w->registry->interrupt(w->registry->data);
	if (ret == 0) {
		ret = servers_compare_when_due(w);
		ret = ret < 0 ? wanted_fail(w, ret) : 0;
	}

	return ret;
}

/*
 * Shows the progress of a bring-up: what changed and, each second, what is missing.  A wait of
 * one look logs nothing, since a program may ask for a thousand peers in turn.
 */
static void look_log(const struct waiting *w)
{
	const struct beest_log *log = w->registry->log;
	const struct beest_wait *wait = w->wait;
	const struct beest_wait_get *missing = NULL;
	char said[BEEST_ERROR_SIZE];
	size_t i, there = 0, stored = 0;

	if (log->level < BEEST_LOG_DEBUG || w->limit->once ||
	    (w->looks > 1 && !w->progress && (!w->watching || w->wait->failing)))
		return;
	said[0] = '\0';
	for (i = 0; i < wait->count; i++) {
		there += wait->gets[i].got;
		missing = missing || wait->gets[i].got ? missing : &wait->gets[i];
	}
	for (i = 0; i < wait->own_count; i++)
		stored += own_is_stored(w, i);
	if (missing)
		beest_wait_say(w->registry, wait, missing, said, sizeof(said));
	beest_log(log, BEEST_LOG_DEBUG, "look %u after %s: %zu of %zu records are there, %zu of "
		  "%zu own are stored%s%s", w->looks,
		  BEEST_SPAN(beest_clock_now() - w->limit->began),
		  there, wait->count, stored, wait->own_count, missing ? "; " : "", said);
}

static int wait_look(struct waiting *w)
{
	struct beest_look look = {
		.extras = w->wait->extras,
		.extra_count = w->wait->extra_count,
		.signals = &w->signals,
	};
	int ret;

	w->last = beest_limit_is_short(w->limit);
	wants_fill(w);
	look.deadline = w->until = look_until(w);
	look.wants = w->wants;
	look.count = w->count;
	look.flags = (w->watching ? BEEST_LOOK_CHECK : 0) |
		     (w->wait->uniques ? BEEST_LOOK_UNIQUES : 0);
	ret = beest_look_take(w->registry, &look);
	if (w->watching)
		watch_next(w);
	if (ret < 0 && !beest_kv_transient(ret)) {
		beest_look_free(w->wants, w->count);
		return wanted_fail(w, ret);
	}

	note_look(w, ret);
	ret = wait_judge(w);
	w->backoff.expected = w->wait->expected;
	w->looks++;
	look_log(w);
	beest_look_free(w->wants, w->count);

	return ret;
}

/* ----------------------------------------------------------- what did not arrive --- */

/* Returns the error of this record alone, as a wait with a deadline ends with it. */
static int get_say(struct beest_registry *registry, const struct beest_wait *wait,
		   const struct beest_wait_get *get, char *text, size_t size)
{
	const char *noun = noun_of(get);
	char why[BEEST_KV_WHY];
	int ret = beest_look_trouble(registry, get->server, wait->since, why);

	if (ret < 0) {
		beest_text_copy(text, size, why);
		return ret;
	}
	if (get->seen < 0)
		snprintf(text, size, "%s '%s' (key %s): %s", noun, get->name, get->key,
			 get->trouble);
	else if (get->seen && get->trouble[0])
		snprintf(text, size, "%s '%s' (key %s) was published %s", noun, get->name,
			 get->key, get->trouble);
	else if (get->seen)
		snprintf(text, size, "%s '%s' (key %s) was published, but %s", noun, get->name,
			 get->key, get->unmet ? get->unmet : "is not accepted");
	else if (get->answered)
		snprintf(text, size, "no %s '%s' (key %s) was published", noun, get->name,
			 get->key);
	else
		snprintf(text, size, "nothing is known of %s '%s' (key %s) yet", noun, get->name,
			 get->key);

	return get->seen < 0 ? get->seen :
	       -beest_limit_errno(wait->limit);
}

int beest_wait_say(struct beest_registry *registry, const struct beest_wait *wait,
		   const struct beest_wait_get *get, char *text, size_t size)
{
	int ret = get_say(registry, wait, get, text, size);

	return wait->limit->once ? -EAGAIN : ret;
}

/* The failure of a server that a missing record needs; it explains everything else. */
static int server_failure(const struct waiting *w, char why[BEEST_KV_WHY])
{
	const struct beest_wait *wait = w->wait;
	size_t i, server;
	int ret = 0;

	for (i = 0; i < wait->count + wait->own_count && ret >= 0; i++) {
		if (i < wait->count ? wait->gets[i].got : own_is_stored(w, i - wait->count))
			continue;
		server = i < wait->count ? wait->gets[i].server :
			 beest_kv_server_of(w->registry->kv, wait->own_keys[i - wait->count]);
		ret = beest_look_trouble(w->registry, server, wait->since, why);
	}

	return ret;
}

/* The server of the first own record that is not stored. */
static size_t own_server(const struct waiting *w)
{
	size_t i;

	for (i = 0; i + 1 < w->wait->own_count && own_is_stored(w, i); i++)
		;

	return w->wait->own_count ? beest_kv_server_of(w->registry->kv, w->wait->own_keys[i]) : 0;
}

/* Two processes that publish under one key overwrite each other, and no peer finds both. */
static void rivals_say(const struct waiting *w, struct beest_text *text)
{
	const struct beest_wait *wait = w->wait;
	size_t i;

	for (i = 0; i < wait->own_count; i++)
		if (beest_lease_is(w->registry->leases, wait->own_keys[i],
				   BEEST_LEASE_CONTESTED)) {
			beest_text_item(text, "another process publishes its own record under key "
					"%s, too", wait->own_keys[i]);
			return;
		}
}

/* What only makes the sentence better takes no time beyond that of the last look. */
static int64_t ask_until(const struct waiting *w)
{
	return BEEST_MIN(w->until, beest_clock_deadline(BEEST_INQUIRY_TIME));
}

/* Names the author of a record that is not accepted.  False: none is known, or it may be alive. */
static bool author_has_ended(struct beest_registry *registry, const struct beest_wait_get *get,
			     char who[BEEST_PRESENCE_TEXT])
{
	return !get->got && get->has_author && get->seen >= 0 &&
	       beest_presence_is_over(registry, get->rank, &get->author, who);
}

/* Adds other possible reasons why nothing arrived. */
static void suspicions_say(const struct waiting *w, const struct beest_wait_get *first,
			   struct beest_text *text)
{
	struct beest_registry *registry = w->registry;
	size_t server = first ? first->server : own_server(w);
	bool asks = beest_inquiry_fits(w->limit) && beest_clock_left(w->until);
	bool missing = first && first->seen == 0;
	bool others_are_here = false;
	char said[BEEST_KV_WHY], who[BEEST_PRESENCE_TEXT];

	if (asks && first && !first->trouble[0] && author_has_ended(registry, first, who))
		beest_text_item(text, "it is of %s", who);
	rivals_say(w, text);
	/* At one that answers slowly, a question would bring no answer in time. */
	if (beest_look_speed_say(registry, server, w->limit->began, w->bytes, text))
		asks = false;
	if (asks)
		beest_inquiry_server(registry, server, missing ? first->kind : BEEST_KIND_ANY,
				     ask_until(w), text);
	beest_look_loss_say(registry, server, w->wait->since, text);
	if (beest_look_trouble(registry, server, w->wait->since, said))
		beest_text_item(text, "meanwhile it failed: %s", said);
	if (asks && missing && registry->explain)
		registry->explain(registry->data, first->name, text);
	if (asks && missing)
		others_are_here = beest_inquiry_ranks(registry, ask_until(w), text);
	beest_registry_suspicion(registry, missing && !others_are_here ? "both sides" : NULL, text);
}

/*
 * Names absent records first, then those that are not accepted, which often wait for the absent
 * ones, then malformed ones.  The first one gives the error.  @limit: the wait's, or how long it
 * has lasted so far.
 */
static int missing_fail(struct waiting *w, const struct beest_limit *limit)
{
	const struct beest_wait *wait = w->wait;
	const struct beest_wait_get *get, *first = NULL;
	char why[BEEST_KV_WHY], more[48] = "";
	char wanted[WANTED_SIZE];
	int class, failed, ret = -beest_limit_errno(w->limit);
	struct beest_text list = BEEST_TEXT(700), own = BEEST_TEXT(600);
	struct beest_text *hints = wait->hints ? wait->hints : &own;
	size_t i, missing = 0;

	wanted_say(w, wanted, sizeof(wanted));
	failed = server_failure(w, why);
	if (failed < 0)
		return beest_fail(-failed, "%s%s%s", BEEST_LIMIT_TEXT(limit, "tried for"), why,
				  wanted);
	failed = servers_compare(w);
	if (failed < 0)
		return wanted_fail(w, failed);

	for (class = 0; class < 3; class++)
		for (i = 0; i < wait->count; i++) {
			get = &wait->gets[i];
			if (get->got || class != (get->seen < 0 ? 2 : get->seen))
				continue;
			failed = get_say(w->registry, wait, get, why, sizeof(why));
			ret = first ? ret : failed;
			first = first ? first : get;
			if (missing++ < NAMED_MAX)
				beest_text_add(&list, "%s%s", missing > 1 ? ", " : "", why);
		}
	if (missing > NAMED_MAX)
		snprintf(more, sizeof(more), " and %zu more", missing - NAMED_MAX);
	suspicions_say(w, first, hints);

	return beest_fail(-ret, "%s%s%s%s; %s", BEEST_LIMIT_TEXT(limit, "after"),
			  first ? list.buffer : "not all own records are stored", more,
			  first ? "" : wanted, hints->buffer);
}

/* A wait of one look ends where one with a deadline goes on: whatever the cause, it may pass. */
static int wait_expired(struct waiting *w)
{
	int ret = missing_fail(w, w->limit);

	w->wait->expired = true;
	w->wait->failing = beest_kv_transient(ret);

	return w->limit->once ? -EAGAIN : ret;
}

static void missing_tell(struct waiting *w)
{
	struct beest_limit so_far = beest_limit_within(w->limit, 0);

	missing_fail(w, &so_far);
	beest_log(w->registry->log, BEEST_LOG_WARN, "still waiting, %s", beest_error_text());
	w->tell_at = next_telling(w->limit);
}

static bool ended_log(const struct waiting *w)
{
	const struct beest_wait *wait = w->wait;
	char who[BEEST_PRESENCE_TEXT];
	size_t i, asked = 0;

	if (wait->ended_log)
		return wait->ended_log(wait->data);
	for (i = 0; i < wait->count && asked < NAMED_MAX; i++) {
		asked += wait->gets[i].has_author && !wait->gets[i].got;
		if (!author_has_ended(w->registry, &wait->gets[i], who))
			continue;
		beest_log(w->registry->log, BEEST_LOG_WARN, "still waiting for %s '%s' (key %s) of "
			  "%s", noun_of(&wait->gets[i]), wait->gets[i].name, wait->gets[i].key,
			  who);
		return true;
	}

	return false;
}

/* A server in trouble, or little time, leaves none for this. */
static void ended_look(struct waiting *w)
{
	const int64_t waited = beest_clock_now() - w->backoff.start;

	if (!w->wait->failing && beest_limit_left(w->limit) > BEEST_INQUIRY_TIME)
		w->ended_at = ended_log(w) ? INT64_MAX : beest_clock_deadline(waited);
}

/* That of the slowest server that was asked. */
static int64_t rest_due(const struct waiting *w)
{
	const int64_t waited = beest_clock_now() - w->backoff.start;
	int64_t rest = 0;
	size_t i;

	for (i = 0; i < w->count; i++)
		if (i == 0 || w->wants[i].server != w->wants[i - 1].server)
			rest = BEEST_MAX(rest, beest_look_rest(w->registry, w->wants[i].server,
							       waited));

	return rest;
}

static bool wait_pause(struct waiting *w)
{
	if (w->last && !beest_limit_left(w->limit))
		return false;

	if (w->progress)
		beest_clock_backoff_progress(&w->backoff);
	if (w->progress || w->grows) {
		w->compare_pause = COMPARE_FIRST;
		w->compare_at = beest_clock_deadline(COMPARE_FIRST);
	}
	w->progress = w->grows = false;
	w->backoff.rest = rest_due(w);
	if (w->wait->hurry) {
		w->wait->hurry = false;
		return true;
	}
	beest_limit_pause(w->limit, &w->backoff);

	return true;
}

int beest_wait_run(struct beest_registry *registry, struct beest_wait *wait)
{
	struct waiting w = { .registry = registry, .wait = wait };
	int ret;

	ret = waiting_start(&w);
	while (ret == 0) {
		ret = wait_look(&w);
		if (ret == 0 && beest_clock_now() >= w.tell_at)
			missing_tell(&w);
		if (ret == 0 && beest_clock_now() >= w.ended_at)
			ended_look(&w);
		if (ret == 0 && !wait_pause(&w))
			ret = wait_expired(&w);
	}
	free(w.wants);
	free(w.get_of);

	return ret > 0 ? 0 : ret;
}
