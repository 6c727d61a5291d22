/* SPDX-License-Identifier: MIT */
/* inquiry.c - see inquiry.h */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/lock.h"
#include "lib/rendezvous/inquiry.h"
#include "lib/rendezvous/presence.h"

/* In a larger job, every rank that waits in vain would ask for every other one. */
#define RANKS_MAX 64

/* Ranks that a sentence names, at most. */
#define NAMED_MAX 3

bool beest_inquiry_fits(const struct beest_limit *limit)
{
	return !limit->once && beest_limit_span(limit) >= 2 * BEEST_INQUIRY_TIME;
}

/* @known: by the server.  An author restores other records, and notices that they were missing. */
static void evictions_say(struct beest_registry *registry, size_t server,
			  enum beest_record_kind kind, uint64_t known, struct beest_text *text)
{
	uint64_t evictions;
	BEEST_HOLD(&registry->lock);

	evictions = registry->servers[server].evictions;
	if (beest_record_row(kind)->taken)
		evictions = BEEST_MAX(evictions, known);
	if (evictions && kind != BEEST_KIND_ANY)
		beest_text_item(text, "it has evicted %" PRIu64 " record%s, perhaps what is "
				"missing here, too", evictions, evictions == 1 ? "" : "s");
}

void beest_inquiry_server(struct beest_registry *registry, size_t server,
			  enum beest_record_kind kind, int64_t deadline, struct beest_text *text)
{
	struct beest_kv_stats stats = { .evictions = 0 };
	int ret = beest_kv_probe(registry->kv, server, deadline, &stats);

	if (ret == -EUSERS)
		beest_text_item(text, "but it refuses new connections: all that it may have are in "
				"use (memcached -c)");
	else if (ret == -EHOSTDOWN)
		beest_text_item(text, "but a new connection gets no answer: all that it may have "
				"may be in use (memcached -c)");
	else if (ret == 0 && stats.turned_away)
		beest_text_item(text, "it has refused connections since all %" PRIu64 " that it "
				"may have were in use (memcached -c)", stats.connections_max);
	evictions_say(registry, server, kind, stats.evictions, text);
}

/* "rank 1 on cn08, pid 17, which last waited for barrier 'b'" */
static void rank_say(const struct beest_registry *registry,
		     const struct beest_presence_query *query, struct beest_text *text)
{
	char who[BEEST_PRESENCE_TEXT];
	const char *fate = beest_presence_query_text(registry, query, who);

	beest_text_add(text, "%s", who);
	if (!fate[0] && query->body.waits[0])
		beest_text_add(text, ", which last waited for %s", query->body.waits);
}

static void ranks_say(const struct beest_registry *registry,
		      const struct beest_presence_query *queries, size_t count, size_t seen,
		      struct beest_text *text)
{
	struct beest_text unseen = BEEST_TEXT(160);
	size_t i, named = 0;

	for (i = 0; i < count; i++) {
		if (queries[i].ret == 0 && queries[i].answered)
			beest_text_add(&unseen, "%s%" PRId32, unseen.used ? ", " : "",
				       queries[i].rank);
		if (queries[i].ret <= 0 || named == NAMED_MAX)
			continue;
		beest_text_item(text, "%s", named++ ? "" : "this job also has ");
		rank_say(registry, &queries[i], text);
	}
	if (seen > named)
		beest_text_add(text, " and %zu more", seen - named);
	if (seen && unseen.used)
		beest_text_item(text, "not seen: rank %s", unseen.buffer);
}

bool beest_inquiry_ranks(struct beest_registry *registry, int64_t deadline,
			 struct beest_text *text)
{
	const struct beest_ids *ranks = registry->ranks;
	struct beest_presence_query *queries;
	size_t i, count = 0, seen = 0;

	if (!ranks || !ranks->count || ranks->count > RANKS_MAX)
		return false;
	queries = calloc(ranks->count, sizeof(*queries));
	if (!queries)
		return false;
	for (i = 0; i < ranks->count; i++)
		if (ranks->id[i] != registry->presence.rank)
			queries[count++].rank = ranks->id[i];
	beest_presence_query(registry, queries, count, deadline, 0);
	for (i = 0; i < count; i++)
		seen += queries[i].ret > 0;
	ranks_say(registry, queries, count, seen, text);
	free(queries);

	return count && seen == count;
}
