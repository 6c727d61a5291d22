/* SPDX-License-Identifier: MIT */
/* wait.c - see wait.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/rendezvous/wait.h"

/*
 * Presence, list of servers and news are read after so much waiting, once more soon after,
 * since others may have written there meanwhile, and then each second.  Many ranks wait
 * longer for each other, and must not all write at once.
 */
#define WATCH_FIRST (20 * BEEST_MS)
#define WATCH_RANK BEEST_MS
#define WATCH_EACH BEEST_SECOND

/* So many records that came are asked for again in each look. */
#define RECHECK_MAX 8

/* So many are named in a sentence; keys are long. */
#define NAMED_MAX 3

/* What a look reads besides: the presence, the news, and the list of each server. */
#define WATCHED_FIXED 2

struct waiting {
	struct beest_registry *registry;
	struct beest_wait *wait;
	struct beest_backoff backoff;
	int64_t deadline, watch_at, watch_pause;
	struct beest_look_want *wants;
	size_t *get_of;			/* of the wants, in their order */
	size_t asked;			/* wants that are gets; what is watched follows */
	size_t watched_end;		/* servers that must take own records follow */
	size_t count;
	size_t turn;			/* where asking again goes on */
	bool watching;
	bool progress;
	uint8_t news[BEEST_EPOCH_SIZE];
	bool has_news;

	bool answered;			/* the servers, at some look */
	int failure;			/* of a server at the last look */
	unsigned int failures;
	char why[BEEST_ERROR_SIZE];
};

/* ------------------------------------------------------------------ begin and end --- */

static int waiting_start(struct waiting *w)
{
	struct beest_wait *wait = w->wait;
	size_t i, room = wait->count + WATCHED_FIXED + w->registry->server_count +
			 wait->own_count;
	struct beest_wait_get *get;

	wait->began = beest_clock_now();
	w->watch_pause = BEEST_MIN(WATCH_FIRST + w->registry->size * WATCH_RANK, WATCH_EACH);
	w->watch_at = wait->began + w->watch_pause;
	w->deadline = wait->deadline;
	if (!w->deadline)
		w->deadline = w->registry->timeout < INT64_MAX - wait->began ?
			      wait->began + w->registry->timeout : INT64_MAX;
	w->wants = calloc(room + 1, sizeof(*w->wants));
	w->get_of = calloc(room + 1, sizeof(*w->get_of));
	if (!w->wants || !w->get_of)
		return beest_fail(ENOMEM, "no memory to wait for %zu records", wait->count);

	for (i = 0; i < wait->count; i++) {
		get = &wait->gets[i];
		get->server = beest_kv_server_of(w->registry->kv, get->placed_as ?
						 get->placed_as : get->key);
		get->got = get->given_up = false;
		get->seen = 0;
		get->trouble[0] = '\0';
	}
	beest_clock_backoff_start(&w->backoff, w->registry->size);

	return 0;
}

/* ---------------------------------------------------------------- what is asked --- */

static void want_add(struct waiting *w, const char *key, size_t server)
{
	w->wants[w->count].key = key;
	w->wants[w->count++].server = server;
}

static void gather_get(struct waiting *w, size_t i)
{
	w->get_of[w->count] = i;
	want_add(w, w->wait->gets[i].key, w->wait->gets[i].server);
}

/* A confirmation holds for the moment it was read: some are read again until all are there. */
static void gather_again(struct waiting *w)
{
	const struct beest_wait *wait = w->wait;
	size_t i, step, taken = 0, begin = w->turn;

	for (step = 0; step < wait->count && taken < RECHECK_MAX; step++) {
		i = (begin + step) % wait->count;
		if (!wait->gets[i].recheck || !wait->gets[i].got || wait->gets[i].given_up)
			continue;
		gather_get(w, i);
		taken++;
		w->turn = i + 1;
	}
}

/*
 * Who only waits has stored nothing yet.  Without a presence nobody could tell that it has
 * another list, or a rank that runs twice.
 */
static void gather_watched(struct waiting *w)
{
	struct beest_registry *registry = w->registry;
	size_t i;

	beest_presence_announce(registry);
	want_add(w, registry->presence.key, registry->presence.server);
	want_add(w, registry->presence.news_key,
		 beest_kv_server_of(registry->kv, registry->presence.news_key));
	for (i = 0; i < registry->server_count; i++)
		want_add(w, registry->serverlist.key, i);
}

static bool own_is_stored(const struct waiting *w, size_t i)
{
	return beest_lease_is_settled(w->registry->leases, w->wait->own_keys[i]);
}

static void gather(struct waiting *w)
{
	const struct beest_wait *wait = w->wait;
	size_t i, pending;

	w->count = 0;
	for (i = 0; i < wait->count; i++)
		if (!wait->gets[i].got)
			gather_get(w, i);
	pending = w->count;
	if (pending)
		gather_again(w);
	w->asked = w->count;
	w->backoff.keys = w->count;
	w->watching = beest_registry_is_own(w->registry) && beest_clock_now() >= w->watch_at;
	if (w->watching)
		gather_watched(w);
	w->watched_end = w->count;
	for (i = 0; i < wait->own_count; i++)
		if (!own_is_stored(w, i))
			want_add(w, NULL, beest_kv_server_of(w->registry->kv,
							     wait->own_keys[i]));
}

/* ------------------------------------------------------------- what is seen of it --- */

static void get_note(struct beest_wait_get *get, int seen, const char *trouble)
{
	get->seen = seen;
	snprintf(get->trouble, sizeof(get->trouble), "%s", trouble);
}

/* A living peer may still replace it, so this does not end the wait. */
static void get_refuse(struct waiting *w, struct beest_wait_get *get, int ret)
{
	if (get->seen != ret && w->deadline != HARTEBEEST_ONCE)
		beest_log(w->registry->log, BEEST_LOG_WARN, "key '%s' is ignored: %s", get->key,
			  beest_error_text());
	get_note(get, ret, beest_error_text());
}

/* 0, or what ends the wait. */
static int get_judge(struct waiting *w, struct beest_wait_get *get,
		     const struct beest_kv_value *value)
{
	struct beest_record record;
	bool had = get->got;
	int ret;

	get->got = false;
	if (!value->bytes) {
		get_note(get, 0, "");
		return 0;
	}
	ret = beest_record_decode(value->bytes, value->size, get->kind, get->key, &record);
	if (ret < 0) {
		get_refuse(w, get, ret);
		return 0;
	}

	ret = get->see ? get->see(get->data, &record) : 1;
	if (ret == -EBADMSG)		/* of the decoder, which knows no names */
		return beest_fail_prefix(ret, "%s '%s' (key %s)", beest_record_word(get->kind),
					 get->name, get->key);
	if (ret < 0)
		return ret;
	get->got = ret > 0;
	w->progress |= get->got && !had;
	if (!get->got) {
		get->seen = 1;
		get->trouble[0] = '\0';
	}

	return 0;
}

static int judge_gets(struct waiting *w)
{
	size_t i;
	int ret = 0;

	for (i = 0; i < w->asked && ret == 0; i++)
		if (!w->wants[i].failed)
			ret = get_judge(w, &w->wait->gets[w->get_of[i]], &w->wants[i].value);

	return ret;
}

/* --------------------------------------------------------------- who is gone --- */

/* Left or failed: 0, or what ends the wait. */
static int author_judge(struct beest_wait_get *get, const struct beest_presence_query *query)
{
	int ret = query->ret > 0 ? beest_presence_ended(get->rank, &query->body) : 0;

	if (ret == -ESHUTDOWN && !get->leaving) {
		get->leaving = true;	/* it may be about to come back */
		return 0;
	}
	if (ret != -ESHUTDOWN || !get->left)
		return ret;
	get->left(get->data);
	get->got = get->given_up = true;

	return 0;
}

/* Somebody has left or failed since the last look: was it somebody we wait for? */
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
		beest_presence_query(w->registry, queries, count, beest_clock_look(0));
	for (i = 0; i < count && ret == 0; i++) {
		ret = author_judge(asked[i], &queries[i]);
		w->has_news &= !asked[i]->leaving;
	}
	free(asked);
	free(queries);

	return ret;
}

static int judge_watched(struct waiting *w)
{
	const struct beest_look_want *watched = w->wants + w->asked;
	const struct beest_kv_value *news = &watched[1].value;
	bool changed = false;
	size_t i;
	int ret = 0;

	if (!watched[0].failed)
		ret = beest_presence_judge(w->registry, &watched[0].value);
	if (ret == 0 && !watched[1].failed && news->bytes && news->size == sizeof(w->news)) {
		changed = !w->has_news || memcmp(w->news, news->bytes, sizeof(w->news)) != 0;
		memcpy(w->news, news->bytes, sizeof(w->news));
		w->has_news = true;
	}
	for (i = 0; i < w->registry->server_count && ret == 0; i++)
		if (!watched[2 + i].failed)
			ret = beest_serverlist_judge(w->registry, i, &watched[2 + i].value);

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

/*
 * The last look gets less time than others, so its silence proves nothing about a server
 * that answered before.
 */
static bool is_cut_short(const struct waiting *w, int failure, int64_t time)
{
	return failure == -EHOSTDOWN && w->answered && time < BEEST_CLOCK_LOOK;
}

static void note_failure(struct waiting *w, int failure)
{
	w->failure = failure;
	snprintf(w->why, sizeof(w->why), "%s", beest_error_text());
	if (w->failures++ == 0 && w->deadline != HARTEBEEST_ONCE)
		beest_log(w->registry->log, BEEST_LOG_WARN, "%s; trying again%s%s", w->why,
			  w->deadline == INT64_MAX ? "" : " for up to ",
			  w->deadline == INT64_MAX ? "" : BEEST_SPAN(beest_clock_left(w->deadline)));
}

static void note_answer(struct waiting *w)
{
	if (w->failure < 0)
		beest_log(w->registry->log, BEEST_LOG_INFO, "the servers answer again");
	w->answered = true;
	w->failure = 0;
	w->failures = 0;
}

/* Did any server that somebody waits for stay silent? */
static bool needed_failed(const struct waiting *w)
{
	size_t i;

	for (i = 0; i < w->asked; i++)
		if (w->wants[i].failed)
			return true;

	for (i = w->watched_end; i < w->count; i++)
		if (w->wants[i].failed)
			return true;

	return false;
}

static void note_look(struct waiting *w, int ret, int64_t time)
{
	if (ret == 0)
		note_answer(w);
	else if (!needed_failed(w))
		beest_look_degraded(w->registry);
	else if (!is_cut_short(w, ret, time))
		note_failure(w, ret);
	if (ret < 0 && !needed_failed(w))
		note_answer(w);
}

/* 1: all is there; 0: not yet. */
static int wait_judge(struct waiting *w)
{
	struct beest_wait *wait = w->wait;
	int ret;

	ret = judge_gets(w);
	if (ret == 0 && !all_there(w) && w->watching)
		ret = judge_watched(w);
	if (ret == 0 && wait->each)
		ret = wait->each(wait->data);
	if (ret != 0)
		return ret;
	if (all_there(w))
		return wait->each && !wait->count && !wait->own_count ? 0 : 1;

	return w->registry->interrupt ? w->registry->interrupt(w->registry->data) : 0;
}

static void watch_again(struct waiting *w)
{
	w->watch_at = beest_clock_deadline(BEEST_MIN(2 * w->watch_pause, WATCH_EACH));
	w->watch_pause = WATCH_EACH;
}

static int wait_look(struct waiting *w)
{
	int64_t time = beest_clock_left(w->deadline);
	struct beest_look look = {
		.extras = w->wait->extras,
		.extra_count = w->wait->extra_count,
		.deadline = beest_clock_look(w->deadline),
	};
	int ret;

	gather(w);
	look.wants = w->wants;
	look.count = w->count;
	look.flags = w->watching ? BEEST_LOOK_CHECK : 0;
	ret = beest_look_take(w->registry, &look);
	if (w->watching)
		watch_again(w);
	if (ret < 0 && !beest_kv_transient(ret)) {
		beest_look_free(w->wants, w->count);
		return ret;
	}

	note_look(w, ret, time);
	ret = wait_judge(w);
	beest_look_free(w->wants, w->count);

	return ret;
}

/* ------------------------------------------------------------- what did not come --- */

void beest_wait_say(const struct beest_wait_get *get, char *text, size_t size)
{
	const char *word = beest_record_word(get->kind);

	if (!get->seen)
		snprintf(text, size, "no %s '%s' (key %s) was published", word, get->name, get->key);
	else
		snprintf(text, size, "%s '%s' (key %s) was published, but %s", word, get->name,
			 get->key, get->unmet ? get->unmet : "is not accepted");
}

static void get_say(struct beest_text *text, const struct beest_wait_get *get)
{
	char said[BEEST_ERROR_SIZE];

	beest_wait_say(get, said, sizeof(said));
	beest_text_add(text, "%s%s", text->used ? ", " : "", said);
}

/* The absent first: a record that is there and not accepted often waits for them. */
static int wait_expired(struct waiting *w)
{
	const struct beest_wait *wait = w->wait;
	const bool once = w->deadline == HARTEBEEST_ONCE;
	const char *span = BEEST_SPAN(w->deadline > wait->began ?
				      w->deadline - wait->began : 0);
	const struct beest_wait_get *get, *first = NULL;
	char after[48] = "", list[700], suspicion[300];
	struct beest_text text;
	size_t i, pass, named = 0, more = 0;

	if (w->failure < 0)
		return beest_fail(-w->failure, "%s%s%s%s", once ? "" : "tried for ",
				  once ? "" : span, once ? "" : ": ", w->why);

	if (!once)
		snprintf(after, sizeof(after), "after %s: ", span);
	beest_text_start(&text, list, sizeof(list));
	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < wait->count; i++) {
			get = &wait->gets[i];
			if (get->got || (get->seen != 0) != (pass == 1))
				continue;
			if (get->seen < 0)
				return beest_fail(-get->seen, "%s%s '%s' (key %s): %s", after,
						  beest_record_word(get->kind), get->name, get->key,
						  get->trouble);
			first = first ? first : get;
			if (named++ < NAMED_MAX)
				get_say(&text, get);
			else
				more++;
		}
	if (more)
		beest_text_add(&text, " and %zu more", more);
	beest_serverlist_suspicion(w->registry, suspicion, sizeof(suspicion));

	return beest_fail(once ? EAGAIN : ETIMEDOUT, "%s%s; server %s answers%s", after,
			  first ? list : "not all that this end says is stored",
			  beest_kv_text(w->registry->kv, first ? first->server : 0), suspicion);
}

static bool wait_pause(struct waiting *w)
{
	if (!beest_clock_left(w->deadline))
		return false;

	if (w->progress)
		beest_clock_backoff_progress(&w->backoff);
	w->progress = false;
	if (w->wait->hurry) {
		w->wait->hurry = false;
		return true;
	}
	beest_clock_backoff_sleep(&w->backoff, w->deadline);

	return true;
}

int beest_wait_run(struct beest_registry *registry, struct beest_wait *wait)
{
	struct waiting w = { .registry = registry, .wait = wait };
	int ret;

	ret = waiting_start(&w);
	while (ret == 0) {
		ret = wait_look(&w);
		if (ret == 0 && !wait_pause(&w))
			ret = wait_expired(&w);
	}
	free(w.wants);
	free(w.get_of);

	return ret > 0 ? 0 : ret;
}
