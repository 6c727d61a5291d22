/* SPDX-License-Identifier: MIT */
/* presence.c - see presence.h */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/lock.h"
#include "lib/base/text.h"
#include "lib/rendezvous/presence.h"

/* A process that waits, and has met no other, looks at its presence more often than this. */
#define SUSPECT_TIME (1500 * BEEST_MS)

/* The time that a look may take when only a sentence needs it. */
#define TEXT_TIME (250 * BEEST_MS)

/* ------------------------------------------------------ this rank's presence --- */

void beest_presence_set_device(struct beest_registry *registry, const char *device)
{
	struct beest_registry_presence *self = &registry->presence;
	bool changed;

	pthread_mutex_lock(&registry->lock);
	changed = strcmp(self->device, device) != 0;
	snprintf(self->device, sizeof(self->device), "%.*s", BEEST_DEVICE_MAX - 1, device);
	pthread_mutex_unlock(&registry->lock);
	if (changed && beest_registry_is_announced(registry))
		beest_registry_present(registry);
}

void beest_presence_set_waits(struct beest_registry *registry, const char *noun, const char *name)
{
	struct beest_registry_presence *self = &registry->presence;
	char waits[BEEST_WAITS_MAX];
	bool changed;

	snprintf(waits, sizeof(waits), "%s '%s'", noun, name);
	pthread_mutex_lock(&registry->lock);
	changed = strcmp(self->waits, waits) != 0;
	strcpy(self->waits, waits);
	pthread_mutex_unlock(&registry->lock);
	if (changed)
		beest_registry_present(registry);
}

int beest_presence_leave(struct beest_registry *registry)
{
	pthread_mutex_lock(&registry->lock);
	if (registry->presence.state != BEEST_RANK_FAILED)
		registry->presence.state = BEEST_RANK_LEFT;
	pthread_mutex_unlock(&registry->lock);

	return beest_registry_present(registry);
}

/* The value differs from that of all other contexts, and from this one's earlier value. */
void beest_presence_news(const struct beest_registry *registry, struct beest_incarnation *news,
			 struct beest_look_extra *extra)
{
	const struct beest_registry_presence *presence = &registry->presence;

	*news = presence->incarnation;
	news->bytes[0] ^= presence->state;
	*extra = (struct beest_look_extra){
		.server = beest_registry_server(registry, BEEST_KEY_NEWS),
		.write = {
			.verb = BEEST_KV_SET, .key = registry->keys[BEEST_KEY_NEWS], .value = news,
			.size = sizeof(*news), .ttl = beest_lease_ttl(registry->leases),
		},
	};
}

/*
 * Is the author dead although its presence shows it alive?  A server may even carry out a killed
 * process's last request after the first request of its successor.
 */
static bool is_dead(const struct beest_incarnation *incarnation, const struct beest_rank_body *body,
		    const struct beest_incarnation *own)
{
	return beest_process_life(incarnation, (pid_t)body->pid, body->began, own) ==
	       BEEST_PROCESS_DEAD;
}

static bool is_none(const struct beest_incarnation *incarnation)
{
	static const struct beest_incarnation none;

	return beest_process_is_context(incarnation, &none);
}

/* Notes whom this process displaces, as far as that is known. */
static void displaced_note(struct beest_registry *registry,
			   const struct beest_incarnation *displaced)
{
	struct beest_registry_presence *presence = &registry->presence;
	BEEST_HOLD(&registry->lock);

	if (!is_none(displaced) && !beest_process_is_context(displaced, &presence->incarnation))
		presence->displaced = *displaced;
}

bool beest_presence_follows(struct beest_registry *registry)
{
	BEEST_HOLD(&registry->lock);

	return !is_none(&registry->presence.displaced);
}

/* Stores this rank's presence in place of another one. */
static void presence_take(struct beest_registry *registry)
{
	pthread_mutex_lock(&registry->lock);
	registry->presence.owned = true;
	pthread_mutex_unlock(&registry->lock);
	beest_registry_present(registry);
}

/* Under the lock. */
static void process_suspect(struct beest_registry_presence *presence,
			    const struct beest_incarnation *other)
{
	presence->suspected = *other;
	presence->suspected_until = beest_clock_deadline(SUSPECT_TIME);
}

/* Stores this rank's presence again, so that the other process finds out, too. */
static int presence_twice(struct beest_registry *registry, const struct beest_rank_body *other)
{
	const char *key = registry->keys[BEEST_KEY_RANK];
	struct beest_rank_body self;

	beest_registry_self(registry, &self);
	presence_take(registry);
	beest_look_send(registry, key);

	return beest_fail(EADDRINUSE, "rank %" PRId32 " runs twice: as pid %d on host %s and as "
			  "pid %" PRIu32 " on host %s (key %s); end one of them, give "
			  "each a rank of its own (HARTEBEEST_NID) if both belong to this run, or "
			  "each run a HARTEBEEST_JOB of its own", registry->presence.rank,
			  (int)getpid(), self.host, other->pid, other->host, key);
}

/* Also renews the record of this rank's failure, if there is one. */
static int presence_renew(struct beest_registry *registry)
{
	struct beest_registry_presence *presence = &registry->presence;
	const int64_t put = __atomic_load_n(&presence->put, __ATOMIC_RELAXED);
	const int64_t ttl = beest_registry_presence_ttl(registry);

	pthread_mutex_lock(&registry->lock);
	presence->owned = true;
	presence->seen_at = beest_clock_now();
	pthread_mutex_unlock(&registry->lock);
	if (!ttl || beest_clock_now() - put <= ttl / 3)
		return 0;

	beest_lease_republish(registry->leases, registry->keys[BEEST_KEY_FAILED]);

	return beest_registry_present(registry);
}

bool beest_presence_is_there(struct beest_registry *registry)
{
	BEEST_HOLD(&registry->lock);

	return registry->presence.owned &&
	       beest_lease_is(registry->leases, registry->keys[BEEST_KEY_RANK],
			      BEEST_LEASE_SETTLED);
}

/*
 * Another process has this rank, or had it: one of another host may be dead.  It is alive if it
 * stored its presence after this one did; else this one does so, and sees what happens.
 */
static int presence_contest(struct beest_registry *registry, const struct beest_incarnation *other,
			    const struct beest_rank_body *body, bool there)
{
	struct beest_registry_presence *presence = &registry->presence;
	char who[BEEST_PRESENCE_TEXT];
	bool owned;

	displaced_note(registry, other);
	if (there || beest_process_is_same_place(other, &presence->incarnation))
		return presence_twice(registry, body);

	pthread_mutex_lock(&registry->lock);
	owned = presence->owned;
	if (!owned)
		process_suspect(presence, other);
	pthread_mutex_unlock(&registry->lock);
	if (!owned) {
		beest_registry_suspect(registry, beest_presence_text(presence->rank, body, who),
				       "the rank of this process, and may be alive");
		presence_take(registry);
	}

	return 0;
}

/*
 * Keeps for a wait in vain that another process began after this one and is gone: it learned that
 * its rank runs twice, and may have been the one for which the others wait.
 */
static void guest_note(struct beest_registry *registry, const struct beest_incarnation *guest,
		       const struct beest_rank_body *body)
{
	const struct beest_registry_presence *presence = &registry->presence;
	char who[BEEST_PRESENCE_TEXT];

	if (!beest_presence_is_unseen(registry) &&
	    !beest_process_is_same(guest, &presence->incarnation))
		beest_registry_suspect(registry, beest_presence_text(presence->rank, body, who),
				       "the rank of this process meanwhile, and has ended");
}

int beest_presence_judge(struct beest_registry *registry, const struct beest_kv_value *value,
			 bool there)
{
	struct beest_registry_presence *presence = &registry->presence;
	const struct beest_incarnation *own = &presence->incarnation;
	struct beest_rank_body body;
	struct beest_record record;

	if (!beest_registry_is_announced(registry))
		return 0;
	if (beest_presence_read(registry->seal, value, registry->keys[BEEST_KEY_RANK], &record,
				&body) < 0) {
		presence_take(registry);
		return 0;
	}
	if (beest_process_is_context(&record.incarnation, own))
		return presence_renew(registry);
	if (body.state == BEEST_RANK_ALIVE && beest_process_is_same(&record.incarnation, own)) {
		displaced_note(registry, &body.displaced);
		return 0;		/* another context of this process */
	}
	if (body.state == BEEST_RANK_ALIVE && !is_dead(&record.incarnation, &body, own))
		return presence_contest(registry, &record.incarnation, &body, there);

	guest_note(registry, &record.incarnation, &body);
	/* One that left may be of this run, and knew what it displaced itself. */
	displaced_note(registry, body.state == BEEST_RANK_LEFT ? &body.displaced :
		       &record.incarnation);
	pthread_mutex_lock(&registry->lock);
	presence->settled = record.incarnation;
	pthread_mutex_unlock(&registry->lock);
	beest_lease_displace(registry->leases, &record.incarnation);
	presence_take(registry);

	return 0;
}

/* --------------------------------------------------- other processes of this rank --- */

bool beest_presence_is_new(struct beest_registry *registry)
{
	return registry->presence.rank >= 0 &&
	       !__atomic_load_n(&registry->presence.met, __ATOMIC_RELAXED);
}

void beest_presence_has_met(struct beest_registry *registry)
{
	__atomic_store_n(&registry->presence.met, true, __ATOMIC_RELAXED);
}

bool beest_presence_is_unseen(struct beest_registry *registry)
{
	BEEST_HOLD(&registry->lock);

	return registry->presence.rank >= 0 && !registry->presence.owned;
}

bool beest_presence_is_suspect(struct beest_registry *registry)
{
	const struct beest_registry_presence *presence = &registry->presence;
	BEEST_HOLD(&registry->lock);

	return !presence->owned || presence->suspected_until ||
	       beest_clock_now() - presence->seen_at > BEEST_STARTS_RECENT;
}

/* The last start after the settled one that is of another process; NULL: there is none. */
static const struct beest_incarnation *start_find(const struct beest_registry_presence *presence,
						  const struct beest_kv_value *starts, bool *own)
{
	const struct beest_incarnation *each = (const void *)starts->bytes, *found = NULL;
	size_t i, count = starts->bytes ? starts->size / sizeof(*each) : 0;

	*own = false;
	for (i = 0; i < count; i++, each++) {
		*own |= beest_process_is_context(each, &presence->incarnation);
		if (beest_process_is_context(each, &presence->settled))
			found = NULL;
		else if (!beest_process_is_same(each, &presence->incarnation))
			found = each;
	}

	return found;
}

/* Under the lock.  @is_over: the suspected process has not shown itself for long enough. */
static bool starts_judge(struct beest_registry_presence *presence,
			 const struct beest_incarnation *other, bool is_over)
{
	if (other && !beest_process_is_context(other, &presence->suspected)) {
		process_suspect(presence, other);
		return false;
	}
	if (other && !is_over)
		return false;
	if (other)
		presence->settled = *other;
	if (is_over)
		presence->suspected_until = 0;

	return !presence->suspected_until;
}

bool beest_presence_is_alone(struct beest_registry *registry, const struct beest_kv_value *starts)
{
	struct beest_registry_presence *presence = &registry->presence;
	struct beest_incarnation suspected;
	const struct beest_incarnation *other;
	bool own, alone, is_over;

	pthread_mutex_lock(&registry->lock);
	is_over = presence->suspected_until && beest_clock_now() >= presence->suspected_until;
	suspected = presence->suspected;
	other = start_find(presence, starts, &own);
	alone = starts_judge(presence, other, is_over);
	pthread_mutex_unlock(&registry->lock);
	if (is_over)
		beest_lease_displace(registry->leases, &suspected);
	if (own || !beest_presence_is_new(registry))
		return alone;
	beest_look_begin_again(registry);

	return false;
}

/* -------------------------------------------------------------------- the others --- */

int beest_presence_read(struct beest_seal *seal, const struct beest_kv_value *value,
			const char *key, struct beest_record *record,
			struct beest_rank_body *body)
{
	int ret;

	if (!value->bytes)
		return -ENOENT;
	ret = beest_record_decode(seal, value->bytes, value->size, BEEST_KIND_RANK, key, record);

	return ret < 0 ? ret : beest_record_rank_decode(record, body);
}

const char *beest_presence_text(int32_t rank, const struct beest_rank_body *body,
				char text[BEEST_PRESENCE_TEXT])
{
	const char *before = body->device[0] ? ", " : "";

	if (rank >= 0)
		snprintf(text, BEEST_PRESENCE_TEXT, "rank %" PRId32 " on %s, pid %" PRIu32 "%s%s",
			 rank, body->host, body->pid, before, body->device);
	else
		snprintf(text, BEEST_PRESENCE_TEXT, "pid %" PRIu32 " on %s%s%s", body->pid,
			 body->host, before, body->device);

	return text;
}

/* The fate of the author of a presence; "": it may be alive. */
static const char *fate_text(const struct beest_registry *registry,
			     const struct beest_presence_query *query)
{
	if (query->ret == -ESTALE)
		return ", which is another process now";
	if (query->ret == 0)
		return "";
	if (query->body.state == BEEST_RANK_LEFT)
		return ", which has left";
	if (query->body.state != BEEST_RANK_ALIVE)
		return ", which has failed";

	return is_dead(&query->now, &query->body, &registry->presence.incarnation) ?
	       ", whose process is dead" : "";
}

bool beest_presence_disowns(const struct beest_registry *registry,
			    const struct beest_presence_query *query)
{
	if (query->ret == -ESTALE)
		return beest_process_is_same(&query->body.displaced, query->incarnation);

	return query->ret > 0 && query->body.state == BEEST_RANK_ALIVE &&
	       is_dead(&query->now, &query->body, &registry->presence.incarnation);
}

/* ------------------------------------------------- what is known of authors --- */

/*
 * An answer about an author has to last until the record that it is about was judged, and for the
 * next looks, or each would ask again.
 */
#define ALIVE_TIME BEEST_SECOND
#define ALIVE_LOOKS 4

static struct beest_registry_heard *heard_row(struct beest_registry *registry,
					      const struct beest_incarnation *incarnation)
{
	return &registry->heard[incarnation->bytes[BEEST_INCARNATION_SIZE - 1]];
}

/* @fate: a constant; NULL: it is alive. */
static void heard_note(struct beest_registry *registry,
		       const struct beest_incarnation *incarnation, const char *fate)
{
	const size_t server = beest_registry_server(registry, BEEST_KEY_RANK);
	const int64_t looks = ALIVE_LOOKS *
			      beest_look_pace(registry, server).longest;
	const int64_t until = fate ? 0 : beest_clock_deadline(BEEST_MAX(ALIVE_TIME, looks));
	BEEST_HOLD(&registry->lock);

	*heard_row(registry, incarnation) = (struct beest_registry_heard){
		*incarnation, until, fate,
	};
}

void beest_presence_note(struct beest_registry *registry,
			 const struct beest_incarnation *incarnation)
{
	heard_note(registry, incarnation, NULL);
}

/* The row of an author, or an empty one. */
static struct beest_registry_heard heard_find(struct beest_registry *registry,
					      const struct beest_incarnation *incarnation)
{
	const struct beest_registry_heard *row = heard_row(registry, incarnation);
	BEEST_HOLD(&registry->lock);

	return beest_process_is_context(&row->incarnation, incarnation) ? *row :
	       (struct beest_registry_heard){ .alive_until = 0 };
}

void beest_presence_forget(struct beest_registry *registry,
			   const struct beest_incarnation *incarnation)
{
	struct beest_registry_heard *row = heard_row(registry, incarnation);
	BEEST_HOLD(&registry->lock);

	if (beest_process_is_context(&row->incarnation, incarnation))
		row->alive_until = 0;
}

bool beest_presence_is_known(struct beest_registry *registry,
			     const struct beest_incarnation *incarnation)
{
	return beest_clock_now() < heard_find(registry, incarnation).alive_until;
}

const char *beest_presence_fate(struct beest_registry *registry,
				const struct beest_incarnation *incarnation)
{
	const char *fate = heard_find(registry, incarnation).fate;

	return fate ? fate : "";
}

/* ---------------------------------------------------------------------- asking --- */

static void query_judge(struct beest_registry *registry, struct beest_presence_query *query,
			const char *key, const struct beest_kv_value *value)
{
	struct beest_record record;
	const char *fate;

	if (beest_presence_read(registry->seal, value, key, &record, &query->body) < 0) {
		beest_text_copy(query->body.reason, sizeof(query->body.reason),
				value->bytes ? beest_error_text() : "");
		return;
	}
	query->now = record.incarnation;
	if (!query->incarnation || beest_process_is_context(&query->now, query->incarnation))
		query->ret = 1;
	else if (!beest_process_is_same(&query->now, query->incarnation))
		query->ret = -ESTALE;
	fate = fate_text(registry, query);
	if (fate[0] && query->incarnation)
		heard_note(registry, query->incarnation, fate);
}

/* Fills @look for as many queries as there is memory for. */
static void queries_ask(struct beest_registry *registry,
			const struct beest_presence_query *queries, size_t count,
			char (*keys)[BEEST_KEY_MAX + 1], struct beest_look *look)
{
	size_t i;

	for (i = 0; i < count &&
	     beest_registry_rank_key(registry, queries[i].rank, queries[i].incarnation,
				     keys[i]) == 0; i++)
		look->wants[i] = (struct beest_look_want){
			.key = keys[i], .server = beest_kv_server_of(registry->kv, keys[i]),
		};
	look->count = i;
}

int beest_presence_query(struct beest_registry *registry, struct beest_presence_query *queries,
			 size_t count, int64_t deadline, unsigned int flags)
{
	char (*keys)[BEEST_KEY_MAX + 1] = calloc(count + 1, sizeof(*keys));
	struct beest_look look = { .deadline = deadline, .flags = flags };
	size_t i;
	int ret = 0;

	look.wants = calloc(count + 1, sizeof(*look.wants));
	for (i = 0; i < count; i++) {
		queries[i].ret = 0;
		queries[i].body.reason[0] = '\0';
		queries[i].answered = false;
	}
	if (keys && look.wants)
		queries_ask(registry, queries, count, keys, &look);
	if (look.count) {
		ret = beest_look_take(registry, &look);
		for (i = 0; i < look.count; i++) {
			queries[i].answered = !look.wants[i].failed &&
					      (ret == 0 || beest_kv_transient(ret));
			query_judge(registry, &queries[i], keys[i], &look.wants[i].value);
		}
		beest_look_free(look.wants, look.count);
	}
	free(look.wants);
	free(keys);

	return ret;
}

/* ----------------------------------------------------------------- for sentences --- */

const char *beest_presence_query_text(const struct beest_registry *registry,
				      const struct beest_presence_query *query,
				      char text[BEEST_PRESENCE_TEXT])
{
	const char *fate = fate_text(registry, query);
	size_t used;

	if (query->ret > 0)
		beest_presence_text(query->rank, &query->body, text);
	else if (query->rank >= 0)
		snprintf(text, BEEST_PRESENCE_TEXT, "rank %" PRId32, query->rank);
	else
		snprintf(text, BEEST_PRESENCE_TEXT, "a process without rank");
	used = strlen(text);
	beest_text_copy(text + used, BEEST_PRESENCE_TEXT - used, fate);

	return fate;
}

bool beest_presence_is_over(struct beest_registry *registry, int32_t rank,
			    const struct beest_incarnation *incarnation,
			    char text[BEEST_PRESENCE_TEXT])
{
	struct beest_presence_query query = { .rank = rank, .incarnation = incarnation };

	beest_presence_query(registry, &query, 1, beest_clock_deadline(TEXT_TIME), BEEST_LOOK_IDLE);

	return beest_presence_query_text(registry, &query, text)[0] != '\0';
}

const char *beest_presence_author(struct beest_registry *registry, int32_t rank,
				  const struct beest_incarnation *incarnation,
				  char text[BEEST_PRESENCE_TEXT])
{
	beest_presence_is_over(registry, rank, incarnation, text);

	return text;
}

const char *beest_presence_find(struct beest_registry *registry, int32_t rank,
				const struct beest_incarnation *incarnation,
				const struct beest_limit *limit,
				char text[BEEST_PRESENCE_TEXT])
{
	struct beest_presence_query query = { .rank = rank, .incarnation = incarnation };
	struct beest_backoff backoff;
	bool last;
	int ret;

	beest_clock_backoff_start(&backoff, beest_registry_size(registry));
	do {
		last = beest_limit_is_short(limit);
		ret = beest_presence_query(registry, &query, 1, beest_limit_look(limit), 0);
		if (!last && beest_kv_transient(ret))
			beest_limit_pause(limit, &backoff);
	} while (!last && beest_kv_transient(ret) && !query.answered &&
		 beest_limit_check(limit) == 0);
	beest_presence_query_text(registry, &query, text);

	return text;
}

int beest_presence_ended(int32_t rank, const struct beest_rank_body *body)
{
	char text[BEEST_PRESENCE_TEXT];

	if (body->state == BEEST_RANK_LEFT)
		return beest_fail(ESHUTDOWN, "%s has left", beest_presence_text(rank, body, text));
	if (body->state == BEEST_RANK_FAILED)
		return beest_fail(ECONNABORTED, "%s has failed: %s",
				  beest_presence_text(rank, body, text), body->reason);

	return 0;
}
