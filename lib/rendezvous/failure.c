/* SPDX-License-Identifier: MIT */
/* failure.c - see failure.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/codec.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/rendezvous/failure.h"
#include "lib/rendezvous/presence.h"

/*
 * A rank that gives up first asks its server for the time, for at most as long, and which ranks
 * are there.
 */
#define ASK_TIME (250 * BEEST_MS)

/* Time to live of the record, in seconds. */
#define FAILURE_TTL 600

/* By its clock, a server is up to a second late, and under load perhaps another one. */
#define SERVER_CLOCK (2 * BEEST_SECOND)

/* When the author has failed; follows its presence, and the incarnations follow. */
struct failing {
	uint64_t server;		/* by the clock of the server, in seconds; 0: unknown */
	uint64_t place;			/* by beest_process_clock() of its place */
};

static const struct beest_codec_field failing_rows[] = {
	BEEST_CODEC_ROW(failing, server, UINT),
	BEEST_CODEC_ROW(failing, place, UINT),
};
static const struct beest_codec_layout failing_layout = BEEST_CODEC_LAYOUT(failing_rows);

/* ------------------------------------------------------------------- giving up --- */

/*
 * Collects the incarnations whose presence is stored now, as far as servers answer.
 * Returns the number of bytes.
 */
static size_t witnesses_find(struct beest_registry *registry, uint8_t *marks)
{
	const struct beest_ids *ranks = registry->ranks;
	struct beest_presence_query *queries = calloc(ranks->count, sizeof(*queries));
	size_t i, used = 0;

	if (!queries)
		return 0;
	for (i = 0; i < ranks->count; i++)
		queries[i].rank = ranks->id[i];
	beest_presence_query(registry, queries, ranks->count, beest_clock_deadline(ASK_TIME), 0);
	for (i = 0; i < ranks->count; i++)
		if (queries[i].ret) {
			memcpy(marks + used, &queries[i].now, BEEST_INCARNATION_SIZE);
			used += BEEST_INCARNATION_SIZE;
		}
	free(queries);

	return used;
}

/* Returns the number of bytes. */
static size_t failing_tell(struct beest_registry *registry, uint8_t *bytes)
{
	struct failing failing = { .place = (uint64_t)beest_process_clock() };
	struct beest_kv_stats stats;

	if (beest_kv_probe(registry->kv, beest_registry_server(registry, BEEST_KEY_FAILED),
			   beest_clock_deadline(ASK_TIME), &stats) == 0)
		failing.server = stats.time;

	return (size_t)beest_codec_encode(&failing_layout, &failing, bytes, sizeof(failing));
}

static int failing_put(struct beest_registry *registry)
{
	size_t count = registry->ranks ? registry->ranks->count : 0;
	uint8_t *body = malloc(BEEST_BODY_MAX + sizeof(struct failing) +
			       count * BEEST_INCARNATION_SIZE);
	struct beest_registry_record record = {
		.kind = BEEST_KIND_RANK, .key = registry->keys[BEEST_KEY_FAILED], .body = body,
		.ttl = FAILURE_TTL,
	};
	struct beest_rank_body self;
	int ret;

	if (!body)
		return beest_fail(ENOMEM, "no memory for %zu ranks", count);

	beest_registry_self(registry, &self);
	record.size = (size_t)beest_record_rank_encode(&self, body);
	record.size += failing_tell(registry, body + record.size);
	if (count)
		record.size += witnesses_find(registry, body + record.size);
	ret = beest_registry_put(registry, &record);
	free(body);

	return ret;
}

/*
 * Processes that wait for this one learn of it by the news.  The failure of a rank
 * concerns all ranks, so a rank also writes a record for all.
 */
int beest_failure_put(struct beest_registry *registry, const char *text)
{
	struct beest_registry_presence *self = &registry->presence;
	int ret;

	pthread_mutex_lock(&registry->lock);
	self->state = BEEST_RANK_FAILED;
	beest_text_shorten(self->reason, sizeof(self->reason), text);
	pthread_mutex_unlock(&registry->lock);
	ret = beest_registry_present(registry);

	return ret == 0 && self->rank >= 0 ? failing_put(registry) : ret;
}

/* -------------------------------------------------------------------- learning --- */

/* Was this context there when the record was written? */
static bool is_witness(const struct beest_rank_body *body, const struct beest_incarnation *own)
{
	size_t at = beest_codec_size(&failing_layout);

	for (; at + BEEST_INCARNATION_SIZE <= body->rest_size; at += BEEST_INCARNATION_SIZE)
		if (memcmp(body->rest + at, own, BEEST_INCARNATION_SIZE) == 0)
			return true;

	return false;
}

/*
 * Did the author fail after this run began, or is its process alive?  On another host, only the
 * server's clock shows that.  1: certainly; 0: perhaps not; or the error of the server.
 */
static int is_of_this_run(struct beest_registry *registry, const struct beest_record *record,
			  const struct beest_rank_body *body)
{
	const struct beest_incarnation *own = &registry->presence.incarnation;
	const int64_t began = registry->failure.began;
	struct beest_kv_stats stats;
	struct failing failing;
	int64_t since;
	int ret;

	if (beest_codec_decode(&failing_layout, body->rest, body->rest_size, &failing) < 0)
		return 0;
	if (beest_process_is_same_place(&record->incarnation, own))
		return (int64_t)failing.place >= began ||
		       beest_process_life(&record->incarnation, (pid_t)body->pid, body->began,
					  own) == BEEST_PROCESS_ALIVE;
	if (!failing.server)
		return 0;

	ret = beest_kv_probe(registry->kv, beest_registry_server(registry, BEEST_KEY_FAILED),
			     beest_clock_deadline(ASK_TIME), &stats);
	if (ret < 0 || !stats.time)
		return ret;
	since = (int64_t)(stats.time - failing.server) * BEEST_SECOND;

	return beest_process_clock() - began >= since + SERVER_CLOCK;
}

/* The failure of an earlier process with this rank does not concern its successor. */
static void failure_delete(struct beest_registry *registry)
{
	struct beest_look_extra extra = {
		.server = beest_registry_server(registry, BEEST_KEY_FAILED),
		.write = { .verb = BEEST_KV_DELETE, .key = registry->keys[BEEST_KEY_FAILED] },
	};

	beest_look_offer(registry, &extra, 0);
}

/*
 * Is a leftover of an earlier run what this context found at its first look?  *@first: it is this
 * look.  If a server must be asked and does not answer, the next look is the first.
 */
static bool leftover_judge(struct beest_registry *registry, const struct beest_record *record,
			   const struct beest_rank_body *body, bool *first)
{
	struct beest_registry_failure *failure = &registry->failure;
	bool left;
	int ret = 0;

	pthread_mutex_lock(&registry->lock);
	*first = !failure->looked;
	pthread_mutex_unlock(&registry->lock);
	if (*first && record)
		ret = is_of_this_run(registry, record, body);
	pthread_mutex_lock(&registry->lock);
	failure->looked |= ret >= 0;
	if (*first && record && ret == 0)
		failure->found = record->incarnation;
	left = record && (ret < 0 ||
	       beest_process_is_context(&failure->found, &record->incarnation));
	pthread_mutex_unlock(&registry->lock);

	return left;
}

int beest_failure_judge(struct beest_registry *registry, const struct beest_kv_value *value)
{
	const char *key = registry->keys[BEEST_KEY_FAILED];
	const struct beest_registry_presence *own = &registry->presence;
	char who[BEEST_PRESENCE_TEXT], what[BEEST_REASON_MAX + 16];
	struct beest_rank_body body;
	struct beest_record record;
	bool there, first, left, fails;

	there = beest_presence_read(registry->seal, value, key, &record, &body) == 0;
	pthread_mutex_lock(&registry->lock);
	fails = own->state == BEEST_RANK_FAILED;
	pthread_mutex_unlock(&registry->lock);
	if (!there && fails)
		beest_lease_republish(registry->leases, key);
	if (fails)
		return 0;

	if (there && record.rank >= 0 && record.rank == own->rank) {
		failure_delete(registry);
		there = false;
	}
	left = leftover_judge(registry, there ? &record : NULL, &body, &first);
	if (there && record.rank >= 0 &&
	    (!left || is_witness(&body, &own->incarnation)))
		return beest_presence_ended(record.rank, &body);
	if (there && first) {
		snprintf(what, sizeof(what), "failed: %s", body.reason);
		beest_registry_suspect(registry, beest_presence_text(record.rank, &body, who),
				       what);
	}

	return 0;
}
