/* SPDX-License-Identifier: MIT */
/* serverlist.c - see serverlist.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/rendezvous/registry.h"

/* The last part of the key; no rank is called so. */
#define NAME "servers"

/* A server that is silent must not use up the time of a wait. */
#define PUT_TIME (250 * BEEST_MS)

/* How long the other one may read who has found another list, seconds. */
#define TOLD_TTL 60

int beest_serverlist_open(struct beest_registry *registry)
{
	struct beest_serverlist *list = &registry->serverlist;

	list->put = calloc(registry->server_count, sizeof(*list->put));
	if (!list->put)
		return beest_fail(ENOMEM, "no memory for a list of servers");

	return beest_registry_key(registry, BEEST_KIND_RANK, NAME, list->key);
}

void beest_serverlist_close(struct beest_registry *registry)
{
	free(registry->serverlist.put);
}

/* What differs between two ranks that use the same server. */
struct difference {
	const char *what;
	const char *remedy;
};

static bool presence_differs(const struct beest_rank_body *own,
			     const struct beest_rank_body *other, struct difference *difference)
{
	static const struct difference list = {
		"another list of servers", "HARTEBEEST_EXC_IP_PORT (exchange.servers) must say the "
		"same in the same words everywhere"
	};
	static const struct difference ranks = {
		"other participants", "HARTEBEEST_PARTICIPANTS (job.participants) must be the same "
		"everywhere"
	};

	if (own->servers != other->servers) {
		*difference = list;
		return true;
	}
	*difference = ranks;

	return own->participants && other->participants &&
	       own->participants != other->participants;
}

/* Two threads that wait may judge the same server. */
static void put_note(struct beest_registry *registry, size_t server, bool put)
{
	pthread_mutex_lock(&registry->lock);
	registry->serverlist.put[server] = put;
	pthread_mutex_unlock(&registry->lock);
}

static bool put_is_known(struct beest_registry *registry, size_t server)
{
	bool put;

	pthread_mutex_lock(&registry->lock);
	put = registry->serverlist.put[server];
	pthread_mutex_unlock(&registry->lock);

	return put;
}

/*
 * Puts the own presence under the plain name, best effort: a look that comes later shows
 * whether it is there.
 */
static void serverlist_put(struct beest_registry *registry, size_t server, int64_t ttl)
{
	const struct beest_presence *presence = &registry->presence;
	struct beest_serverlist *list = &registry->serverlist;
	uint8_t body[BEEST_BODY_MAX], bytes[BEEST_BODY_MAX + BEEST_RECORD_OVERHEAD];
	struct beest_record record = {
		.kind = BEEST_KIND_RANK,
		.incarnation = presence->incarnation,
		.rank = presence->rank,
		.body = body,
	};
	const char *keys[] = { registry->servers[server].epoch_key };
	struct beest_kv_value value = { NULL, 0 };
	struct beest_kv_write write = {
		.verb = BEEST_KV_SET, .key = list->key, .value = bytes, .ttl = ttl,
	};
	struct beest_kv_request request = {
		.server = server, .flags = BEEST_KV_LAZY, .writes = &write, .write_count = 1,
		.keys = keys, .key_count = 1, .values = &value,
	};

	pthread_mutex_lock(&registry->lock);
	record.size = (size_t)beest_record_rank_encode(&presence->self, body);
	pthread_mutex_unlock(&registry->lock);
	write.size = (size_t)beest_record_encode(&record, list->key, bytes, sizeof(bytes));
	put_note(registry, server, beest_kv_run(registry->kv, &request, 1,
						beest_clock_deadline(PUT_TIME)) == 0);
	beest_kv_values_free(&value, 1);
}

/* A leftover, or somebody alive: whoever waits in vain will want to know. */
static void serverlist_suspect(struct beest_registry *registry, int32_t rank,
			       const struct beest_rank_body *body, const char *what)
{
	char who[BEEST_PRESENCE_TEXT];

	beest_presence_text(rank, body, who);
	pthread_mutex_lock(&registry->lock);
	snprintf(registry->serverlist.suspicion, sizeof(registry->serverlist.suspicion),
		 "%.120s had %s", who, what);
	pthread_mutex_unlock(&registry->lock);
	beest_log(registry->log, BEEST_LOG_INFO, "%s had %s: a former run, or a mistake", who, what);
}

static int serverlist_differs(struct beest_registry *registry, size_t server, int32_t rank,
			      const struct beest_rank_body *body,
			      const struct difference *difference)
{
	const struct beest_presence *own = &registry->presence;
	char mine[BEEST_PRESENCE_TEXT], theirs[BEEST_PRESENCE_TEXT];

	return beest_fail(EPROTO, "%s (%" PRIu32 " ranks) and %s (%" PRIu32 " ranks), who meet on "
			  "server %s, have different settings: %s; %s",
			  beest_presence_text(own->rank, &own->self, mine), own->self.size,
			  beest_presence_text(rank, body, theirs), body->size,
			  beest_kv_text(registry->kv, server), difference->what,
			  difference->remedy);
}

/*
 * Where another list is found the own is stored again, so that the other one is told, too;
 * it stays when this process ends.
 */
int beest_serverlist_judge(struct beest_registry *registry, size_t server,
			   const struct beest_kv_value *value)
{
	struct beest_serverlist *list = &registry->serverlist;
	struct difference difference = { NULL, NULL };
	struct beest_rank_body body;
	struct beest_record record;
	bool found, differs, was_put = put_is_known(registry, server);

	if (!beest_presence_is_put(registry))
		return 0;
	found = value->bytes && beest_record_decode(value->bytes, value->size, BEEST_KIND_RANK,
						    list->key, &record) == 0 &&
		beest_record_rank_decode(&record, &body) == 0;
	differs = found && presence_differs(&registry->presence.self, &body, &difference);
	if (was_put && found && !differs)
		return 0;

	if (differs && was_put) {
		serverlist_put(registry, server, TOLD_TTL);
		put_note(registry, server, false);
		return serverlist_differs(registry, server, record.rank, &body, &difference);
	}
	serverlist_put(registry, server, beest_lease_ttl(registry->leases));
	if (differs)
		serverlist_suspect(registry, record.rank, &body, difference.what);

	return 0;
}

bool beest_serverlist_is_own(struct beest_registry *registry,
			     const struct beest_kv_value *value)
{
	struct beest_incarnation author;

	return value->bytes &&
	       beest_record_author(value->bytes, value->size, registry->serverlist.key, &author) &&
	       memcmp(&author, &registry->presence.incarnation, sizeof(author)) == 0;
}

void beest_serverlist_suspicion(struct beest_registry *registry, char *text, size_t size)
{
	const char *suspicion = registry->serverlist.suspicion;

	pthread_mutex_lock(&registry->lock);
	snprintf(text, size, "%s%s", suspicion[0] ? "; " : "", suspicion);
	pthread_mutex_unlock(&registry->lock);
}
