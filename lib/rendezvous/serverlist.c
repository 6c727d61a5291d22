/* SPDX-License-Identifier: MIT */
/* serverlist.c - see serverlist.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/rendezvous/look.h"

/* How long others may read it, seconds: whoever still waits puts it again. */
#define LIST_TTL 60

/* What differs between two ranks that use the same server; the row is part of a record. */
static const struct difference {
	const char *what;
	const char *remedy;
} differences[] = {
	{ NULL, NULL },
	{ "another list of servers", "HARTEBEEST_EXC_IP_PORT (exchange.servers) must say the same "
	  "in the same words everywhere" },
	{ "other participants", "HARTEBEEST_PARTICIPANTS (job.participants) must be the same "
	  "everywhere" },
};

/* 0: nothing. */
static uint8_t difference_find(const struct beest_rank_body *own,
			       const struct beest_rank_body *other)
{
	if (own->servers != other->servers)
		return 1;

	return own->participants && other->participants &&
	       own->participants != other->participants ? 2 : 0;
}

/* "rank 3 on cn08, pid 17 (4 ranks)" */
static const char *author_say(int32_t rank, const struct beest_rank_body *body,
			      char text[BEEST_REASON_MAX])
{
	char who[BEEST_PRESENCE_TEXT];

	snprintf(text, BEEST_REASON_MAX, "%.170s (%" PRIu32 " ranks)",
		 beest_presence_text(rank, body, who), body->size);

	return text;
}

/*
 * Puts the own presence under the plain name, best effort: a look that comes later shows
 * whether it is there.  @difference: somebody was found, @other, whose settings differ.
 */
static void serverlist_put(struct beest_registry *registry, size_t server, uint8_t difference,
			   const char *other)
{
	struct beest_registry_record record = {
		.kind = BEEST_KIND_RANK, .key = registry->serverlist.key, .flags = difference,
	};
	struct beest_look_extra extra = {
		.server = server,
		.write = { .verb = BEEST_KV_SET, .key = record.key, .ttl = LIST_TTL },
	};
	struct beest_rank_body self;
	uint8_t body[BEEST_BODY_MAX], *bytes;
	int ret;

	pthread_mutex_lock(&registry->lock);
	self = registry->presence.self;
	pthread_mutex_unlock(&registry->lock);
	snprintf(self.reason, sizeof(self.reason), "%s", other);
	record.body = body;
	record.size = (size_t)beest_record_rank_encode(&self, body);
	ret = beest_registry_encode(registry, &record, &bytes);
	if (ret < 0)
		return;

	extra.write.value = bytes;
	extra.write.size = (size_t)ret;
	beest_look_offer(registry, &extra);
	free(bytes);
	__atomic_store_n(&registry->servers[server].listed, extra.done, __ATOMIC_RELAXED);
}

/*
 * What is there before the own presence was put may be a leftover.  Where other settings are
 * found later, the own presence is put again and says whose they are: so the other one is
 * told, and all those, too, whose settings are the own ones.
 */
int beest_serverlist_judge(struct beest_registry *registry, size_t server,
			   const struct beest_kv_value *value)
{
	const struct beest_presence *own = &registry->presence;
	bool *listed = &registry->servers[server].listed;
	bool was_listed = __atomic_load_n(listed, __ATOMIC_RELAXED), found;
	char first[BEEST_REASON_MAX], second[BEEST_REASON_MAX];
	struct beest_rank_body body;
	struct beest_record record;
	uint8_t differs = 0, said = 0;

	if (!beest_presence_is_put(registry))
		return 0;
	found = beest_presence_read(value, registry->serverlist.key, &record, &body);
	if (found && !beest_process_is_context(&record.incarnation, &own->incarnation)) {
		said = record.flags < BEEST_COUNT(differences) ? record.flags : 0;
		differs = difference_find(&own->self, &body);
		author_say(own->rank, &own->self, first);
		author_say(record.rank, &body, second);
	}
	if (said && !differs) {
		differs = said;
		memcpy(first, second, sizeof(first));
		snprintf(second, sizeof(second), "%s", body.reason);
	}
	if (!was_listed || !found)
		serverlist_put(registry, server, 0, "");
	if (!differs)
		return 0;
	if (!was_listed) {
		beest_registry_suspect(registry, second, differences[differs].what);
		return 0;
	}

	if (!said)
		serverlist_put(registry, server, differs, second);
	__atomic_store_n(listed, false, __ATOMIC_RELAXED);

	return beest_fail(EPROTO, "%s and %s, who meet on server %s, have different settings: %s; %s",
			  first, second, beest_kv_text(registry->kv, server),
			  differences[differs].what, differences[differs].remedy);
}
