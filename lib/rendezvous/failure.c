/* SPDX-License-Identifier: MIT */
/* failure.c - see failure.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/rendezvous/wait.h"

/* A rank that gives up first asks which ranks are there, and then stores the records. */
#define ASK_TIME (250 * BEEST_MS)
#define SAY_TIME (500 * BEEST_MS)

/* Time to live of the record, in seconds. */
#define FAILURE_TTL 600

void beest_failure_open(struct beest_registry *registry)
{
	struct beest_failure *failure = &registry->failure;

	snprintf(failure->key, sizeof(failure->key), "hb1/%s/failed", registry->job);
	failure->server = beest_kv_server_of(registry->kv, failure->key);
}

/* ------------------------------------------------------------------- giving up --- */

/*
 * Collects the incarnations whose presence is stored now, as far as servers answer.
 * Returns the number of bytes.
 */
static size_t witnesses_find(struct beest_registry *registry, uint8_t *marks)
{
	static const struct beest_incarnation anybody;
	const struct beest_ids *ranks = registry->ranks;
	struct beest_presence_query *queries = calloc(ranks->count, sizeof(*queries));
	size_t i, used = 0;

	if (!queries)
		return 0;
	for (i = 0; i < ranks->count; i++) {
		queries[i].rank = ranks->id[i];
		queries[i].incarnation = &anybody;
	}
	beest_presence_query(registry, queries, ranks->count, beest_clock_deadline(ASK_TIME));
	for (i = 0; i < ranks->count; i++)
		if (queries[i].ret) {
			memcpy(marks + used, &queries[i].now, BEEST_INCARNATION_SIZE);
			used += BEEST_INCARNATION_SIZE;
		}
	free(queries);

	return used;
}

static int failure_put(struct beest_registry *registry)
{
	size_t count = registry->ranks ? registry->ranks->count : 0;
	uint8_t *body = malloc(BEEST_BODY_MAX + count * BEEST_INCARNATION_SIZE);
	struct beest_registry_record record = {
		.kind = BEEST_KIND_RANK, .key = registry->failure.key, .body = body,
		.ttl = FAILURE_TTL,
	};
	int ret;

	if (!body)
		return beest_fail(ENOMEM, "no memory for %zu ranks", count);

	pthread_mutex_lock(&registry->lock);
	record.size = (size_t)beest_record_rank_encode(&registry->presence.self, body);
	pthread_mutex_unlock(&registry->lock);
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
int beest_failure_say(struct beest_registry *registry, const char *text)
{
	struct beest_rank_body *self = &registry->presence.self;
	const bool has_rank = registry->presence.rank >= 0;
	const char *keys[] = { registry->presence.key, registry->failure.key };
	struct beest_incarnation news;
	struct beest_look_extra extra;
	struct beest_limit limit;
	struct beest_wait wait = {
		.own_keys = keys, .own_count = 1 + has_rank, .limit = &limit,
		.extras = &extra, .extra_count = 1,
	};
	int ret;

	pthread_mutex_lock(&registry->lock);
	self->state = BEEST_RANK_FAILED;
	beest_text_copy(self->reason, sizeof(self->reason), text);
	pthread_mutex_unlock(&registry->lock);
	beest_presence_news(registry, &news, &extra);
	ret = beest_presence_put(registry);
	if (ret == 0 && has_rank)
		ret = failure_put(registry);
	beest_limit_start(&limit, NULL, beest_clock_deadline(SAY_TIME), 0);

	return ret < 0 ? ret : beest_wait_run(registry, &wait);
}

/* --------------------------------------------------------------------- hearing --- */

/* Was this context there when the record was written? */
static bool is_witness(const struct beest_record *record, const struct beest_rank_body *body,
		       const struct beest_incarnation *own)
{
	uint8_t bytes[BEEST_BODY_MAX];
	size_t at = (size_t)beest_record_rank_encode(body, bytes);

	for (; at + BEEST_INCARNATION_SIZE <= record->size; at += BEEST_INCARNATION_SIZE)
		if (memcmp(record->body + at, own, BEEST_INCARNATION_SIZE) == 0)
			return true;

	return false;
}

/* The failure of a former process with this rank does not concern its successor. */
static void failure_delete(struct beest_registry *registry)
{
	struct beest_look_extra extra = {
		.server = registry->failure.server,
		.write = { .verb = BEEST_KV_DELETE, .key = registry->failure.key },
	};

	beest_look_offer(registry, &extra);
}

int beest_failure_judge(struct beest_registry *registry, const struct beest_kv_value *value)
{
	static const struct beest_incarnation nobody;
	struct beest_failure *failure = &registry->failure;
	const struct beest_presence *own = &registry->presence;
	const struct beest_incarnation *author = &nobody;
	char who[BEEST_PRESENCE_TEXT], what[BEEST_REASON_MAX + 16];
	struct beest_rank_body body;
	struct beest_record record;
	bool first, is_new, fails;

	if (beest_presence_read(registry->seal, value, failure->key, &record, &body) == 0)
		author = &record.incarnation;
	pthread_mutex_lock(&registry->lock);
	first = !failure->looked;
	failure->looked = true;
	if (first)
		failure->found = *author;
	is_new = !beest_process_is_context(&failure->found, author);
	fails = own->self.state == BEEST_RANK_FAILED;
	pthread_mutex_unlock(&registry->lock);
	if (author == &nobody && fails)
		beest_lease_insist(registry->leases, failure->key);
	if (author == &nobody || fails)
		return 0;

	if (record.rank >= 0 && record.rank == own->rank) {
		failure_delete(registry);
		return 0;
	}
	if (record.rank >= 0 && (is_new || is_witness(&record, &body, &own->incarnation)))
		return beest_presence_ended(record.rank, &body);
	if (first) {
		snprintf(what, sizeof(what), "failed: %s", body.reason);
		beest_registry_suspect(registry, beest_presence_text(record.rank, &body, who),
				       what);
	}

	return 0;
}
