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
#include "lib/rendezvous/inquiry.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/unmet.h"
#include "lib/rendezvous/wait.h"
#include "lib/rendezvous/watch.h"

/* When a wait whose limit asks for that logs what is missing. */
#define TELL_FIRST (5 * BEEST_SECOND)
#define TELL_EACH (60 * BEEST_SECOND)
/* Who starts a job learns soon of a rank that is dead, although the wait expects its successor. */
#define ENDED_FIRST BEEST_SECOND

/* Records that arrived and are read again in each look, at most. */
#define RECHECK_MAX 8

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

static int waiting_start(struct waiting *w)
{
	struct beest_wait *wait = w->wait;
	size_t i, most = BEEST_MAX(wait->count, wait->most);
	size_t room = most + beest_watch_most(w->registry) + wait->own_count;
	struct beest_wait_get *get;

	wait->expired = wait->failing = false;
	wait->since = beest_registry_begun(w->registry);
	w->bytes = __atomic_load_n(&w->registry->bytes, __ATOMIC_RELAXED);
	beest_watch_start(w);
	beest_watch_compare_start(w);
	w->tell_at = next_telling(w->wait->limit);
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
		get->got = get->had = get->answered = false;
		get->seen = 0;
		get->trouble[0] = '\0';
	}
	beest_clock_backoff_start(&w->backoff, wait->readers ? wait->readers :
				  beest_registry_size(w->registry));
	w->backoff.steady = w->wait->limit->steady;

	return 0;
}

/* ---------------------------------------------------------------- what is asked --- */

static void want_get(struct waiting *w, size_t i)
{
	w->get_of[w->count] = i;
	beest_waiting_want(w, w->wait->gets[i].key, w->wait->gets[i].server);
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
		if (!wait->gets[i].recheck || !wait->gets[i].got)
			continue;
		want_get(w, i);
		taken++;
		w->cursor = i + 1;
	}
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
			most = beest_look_pace(w->registry, server).keys;
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
	beest_watch_identify(w);
	beest_watch_want(w);
	w->watched_end = w->count;
	for (i = 0; i < wait->own_count; i++)
		if (!beest_waiting_is_stored(w, i))
			beest_waiting_want(w, NULL, beest_kv_server_of(w->registry->kv,
								       wait->own_keys[i]));
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
	    (!had_author || !beest_process_is_context(&previous, &get->author))) {
		memset(w->news, 0, sizeof(w->news));
		get->leaving_at = 0;
	}

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
static bool author_is_unknown(const struct waiting *w, const struct beest_wait_get *get,
			      bool follows)
{
	if (get->authors == BEEST_AUTHORS_ALL || get->record.rank < 0)
		return false;

	return get->authors == BEEST_AUTHORS_OWN_RUN ? follows :
	       !beest_presence_is_known(w->registry, &get->record.incarnation);
}

/* @known: the author is not gone.  0, or the error that ends the wait. */
static int record_see(struct waiting *w, struct beest_wait_get *get, bool known)
{
	int ret = 0;
	/* The same for both questions: another thread may learn meanwhile who had this rank. */
	const bool follows = beest_presence_follows(w->registry);

	get->unknown = !known && author_is_unknown(w, get, follows);
	if (!get->unknown)
		ret = get_see(w, get);
	if (ret == -EBADMSG)		/* from a decoder, which knows no names */
		return beest_fail_prefix(ret, "%s '%s' (key %s)", beest_waiting_noun(get),
					 get->name, get->key);
	get->unknown = !known && author_is_unknown(w, get, follows);

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
	if (get->seen != ret && !w->wait->limit->once)
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
	beest_presence_query(w->registry, queries, count, beest_waiting_until(w), 0);
	/* No other process has the rank: so also if the server has lost its presence. */
	for (i = 0; i < count; i++)
		if (queries[i].answered && queries[i].ret != -ESTALE)
			beest_presence_note(w->registry, queries[i].incarnation);
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

	for (i = 0; i < w->asked && ret == 0; i++)
		if (!w->wants[i].failed) {
			ret = get_judge(w, &w->wait->gets[w->get_of[i]], &w->wants[i].value);
			unknown |= ret == 0 && unknown_get(w, i);
		}

	return ret == 0 && unknown ? judge_unknown(w) : ret;
}

/* ---------------------------------------------------------------------- one look --- */

static bool all_there(const struct waiting *w)
{
	return !beest_waiting_missing(w) && !beest_waiting_unstored(w);
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
	bool failing = ret < 0 && needed_failed(w), forever = w->wait->limit->end == INT64_MAX;

	if (ret < 0 && !failing)
		beest_look_degraded(w->registry);
	if (failing && !w->wait->failing && beest_limit_left(w->wait->limit))
		beest_log(log, BEEST_LOG_WARN, "%s; trying again%s%s", beest_error_text(),
			  forever ? "" : " for up to ",
			  forever ? "" : BEEST_SPAN(beest_limit_left(w->wait->limit)));
	else if (failing && w->watching)
		beest_log(log, BEEST_LOG_DEBUG, "look %u: %s", w->looks + 1, beest_error_text());
	if (!failing && w->wait->failing)
		beest_log(log, BEEST_LOG_INFO, "the servers answer again");
	w->wait->failing = failing;
}

/* Nothing that was read counts. */
static void suspects_note(struct waiting *w)
{
	size_t i;

	for (i = 0; i < w->asked; i++)
		get_note(&w->wait->gets[w->get_of[i]], -beest_limit_errno(w->wait->limit),
			 "it does not count until it is known whether another process of this "
			 "rank is alive");
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
		ret = beest_watch_judge(w);
	if (ret == 0 && !w->suspects && wait->each)
		ret = wait->each(wait->data);
	if (ret != 0 || w->suspects || !all_there(w))
		return ret;

	return !(wait->each && !wait->count && !wait->own_count);
}

/* 1: all is there; 0: not yet. */
static int wait_judge(struct waiting *w)
{
	int ret = beest_watch_meet(w);

	if (ret == 0)
		ret = wait_judge_all(w);
	if (ret != 0)
		return ret > 0 ? beest_watch_met(w) : ret;

	ret = beest_limit_check(w->wait->limit);
	if (ret < 0)
		return beest_unmet_add(w, ret);
	if (w->registry->interrupt)
		ret = w->registry->interrupt(w->registry->data);
	if (ret == 0) {
		ret = beest_watch_compare_due(w);
		ret = ret < 0 ? beest_unmet_add(w, ret) : 0;
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
	const struct beest_wait_get *missing = beest_waiting_missing(w);
	char said[BEEST_ERROR_SIZE];
	size_t i, there = 0, stored = 0;

	if (log->level < BEEST_LOG_DEBUG || w->wait->limit->once ||
	    (w->looks > 1 && !w->progress && (!w->watching || w->wait->failing)))
		return;
	said[0] = '\0';
	for (i = 0; i < wait->count; i++)
		there += wait->gets[i].got;
	for (i = 0; i < wait->own_count; i++)
		stored += beest_waiting_is_stored(w, i);
	if (missing)
		beest_wait_say(w->registry, wait, missing, said, sizeof(said));
	beest_log(log, BEEST_LOG_DEBUG, "look %u after %s: %zu of %zu records are there, %zu of "
		  "%zu own are stored%s%s", w->looks,
		  BEEST_SPAN(beest_clock_now() - w->wait->limit->began),
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

	wants_fill(w);
	look.deadline = w->until = beest_waiting_until(w);
	look.wants = w->wants;
	look.count = w->count;
	look.flags = (w->watching ? BEEST_LOOK_CHECK : 0) |
		     (w->wait->uniques ? BEEST_LOOK_UNIQUES : 0);
	ret = beest_look_take(w->registry, &look);
	if (w->watching)
		beest_watch_next(w);
	if (ret < 0 && !beest_kv_transient(ret)) {
		beest_look_free(w->wants, w->count);
		return beest_unmet_add(w, ret);
	}

	note_look(w, ret);
	ret = wait_judge(w);
	w->backoff.expected = w->wait->expected;
	w->looks++;
	look_log(w);
	beest_look_free(w->wants, w->count);

	return ret;
}

/* ------------------------------------------------------------------- to the end --- */

int beest_wait_say(struct beest_registry *registry, const struct beest_wait *wait,
		   const struct beest_wait_get *get, char *text, size_t size)
{
	int ret = beest_unmet_say(registry, wait, get, text, size);

	return wait->limit->once ? -EAGAIN : ret;
}

/* A wait of one look ends where one with a deadline goes on: whatever the cause, it may pass. */
static int wait_expired(struct waiting *w)
{
	int ret = beest_unmet_fail(w, w->wait->limit);

	w->wait->expired = true;
	w->wait->failing = beest_kv_transient(ret);

	return w->wait->limit->once ? -EAGAIN : ret;
}

static void missing_tell(struct waiting *w)
{
	struct beest_limit so_far = beest_limit_within(w->wait->limit, 0);

	beest_unmet_fail(w, &so_far);
	beest_log(w->registry->log, BEEST_LOG_WARN, "still waiting, %s", beest_error_text());
	w->tell_at = next_telling(w->wait->limit);
}

/*
 * A server in trouble, or little time, leaves none for this.  The time counts from the start of the
 * call: progress begins the pauses again, and must not make this more frequent.
 */
static void ended_look(struct waiting *w)
{
	const int64_t waited = beest_clock_now() - w->wait->limit->began;

	if (!w->wait->failing && beest_limit_left(w->wait->limit) > BEEST_INQUIRY_TIME)
		w->ended_at = beest_unmet_log(w) ? INT64_MAX : beest_clock_deadline(waited);
}

/* That of the slowest server that was asked. */
static int64_t rest_due(const struct waiting *w)
{
	const int64_t waited = beest_clock_now() - w->backoff.start;
	struct beest_pace pace;
	int64_t rest = 0;
	size_t i;

	for (i = 0; i < w->count; i++) {
		if (i > 0 && w->wants[i].server == w->wants[i - 1].server)
			continue;
		pace = beest_look_pace(w->registry, w->wants[i].server);
		rest = BEEST_MAX(rest, beest_pace_rest(&pace, waited));
	}

	return rest;
}

static void wait_pause(struct waiting *w)
{
	if (w->progress)
		beest_clock_backoff_progress(&w->backoff);
	if (w->progress || w->grows)
		beest_watch_compare_start(w);
	w->progress = w->grows = false;
	w->backoff.rest = rest_due(w);
	if (!w->wait->hurry)
		beest_limit_pause(w->wait->limit, &w->backoff);
	w->wait->hurry = false;
}

int beest_wait_run(struct beest_registry *registry, struct beest_wait *wait)
{
	struct waiting w = { .registry = registry, .wait = wait };
	bool last;		/* no look follows this one if no time is left after it */
	int ret;

	ret = waiting_start(&w);
	while (ret == 0) {
		last = beest_limit_is_short(wait->limit);
		ret = wait_look(&w);
		if (ret == 0 && beest_clock_now() >= w.tell_at)
			missing_tell(&w);
		if (ret == 0 && beest_clock_now() >= w.ended_at)
			ended_look(&w);
		if (ret == 0 && last && !beest_limit_left(wait->limit))
			ret = wait_expired(&w);
		else if (ret == 0)
			wait_pause(&w);
	}
	free(w.wants);
	free(w.get_of);

	return ret > 0 ? 0 : ret;
}
