/* SPDX-License-Identifier: MIT */
/* serverlist.c - see serverlist.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/serverlist.h"

/* Time to live of the record, in seconds: a rank that still waits stores it again. */
#define LIST_TTL 60

/* The difference between two ranks that use the same server.  Stored in a record's flags. */
enum { NOTHING, SERVERS, PARTICIPANTS, SECRET, OTHER_HAS_NONE, OTHER_HAS_ONE };

#define SAME_SECRET "HARTEBEEST_SECRET_FILE (exchange.secret_file) must name the same secret " \
		    "everywhere"

static const struct difference {
	const char *what;		/* what the other one has */
	const char *remedy;
	const char *both;		/* the same for a sentence about the two; NULL: @what */
} differences[] = {
	[SERVERS] = { "another list of servers", "HARTEBEEST_EXC_IP_PORT (exchange.servers) must "
		      "be the same, word for word, everywhere", NULL },
	[PARTICIPANTS] = { "another set of participants", "HARTEBEEST_PARTICIPANTS "
			   "(job.participants) must be the same everywhere", NULL },
	[SECRET] = { "another secret", SAME_SECRET, NULL },
	[OTHER_HAS_NONE] = { "no secret", SAME_SECRET,
			     "the first has a secret, the second has none" },
	[OTHER_HAS_ONE] = { "a secret", SAME_SECRET,
			    "the first has no secret, the second has one" },
};

static uint8_t difference_find(const struct beest_rank_body *own,
			       const struct beest_rank_body *other)
{
	if (own->servers != other->servers)
		return SERVERS;

	return own->participants && other->participants &&
	       own->participants != other->participants ? PARTICIPANTS : NOTHING;
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
 * Tries to store this rank's presence under the plain name; a later look shows whether it is
 * there.  @difference: NOTHING, or how the settings of @other differ from those of this rank.
 */
static void serverlist_put(struct beest_registry *registry, size_t server, uint8_t difference,
			   const char *other)
{
	struct beest_registry_record record = {
		.kind = BEEST_KIND_RANK, .key = registry->keys[BEEST_KEY_SERVERS],
		.flags = difference,
	};
	struct beest_look_extra extra = {
		.server = server,
		.write = { .verb = BEEST_KV_SET, .key = record.key, .ttl = LIST_TTL },
	};
	struct beest_rank_body self;
	uint8_t body[BEEST_BODY_MAX], *bytes;
	int ret;

	beest_registry_self(registry, &self);
	beest_text_copy(self.reason, sizeof(self.reason), other);
	record.body = body;
	record.size = (size_t)beest_record_rank_encode(&self, body);
	ret = beest_registry_encode(registry, &record, &bytes);
	if (ret < 0)
		return;

	extra.write.value = bytes;
	extra.write.size = (size_t)ret;
	beest_look_offer(registry, &extra, 0);
	free(bytes);
	__atomic_store_n(&registry->servers[server].listed, extra.done, __ATOMIC_RELAXED);
}

/* The record that was found, from the view of this rank. */
struct comparison {
	bool found;			/* a presence, even if it cannot be opened */
	uint8_t differs, said;		/* author from own settings; author from @other */
	char who[BEEST_REASON_MAX];
	char other[BEEST_REASON_MAX];	/* the rank that the author differs from */
};

/*
 * If the secret differs, the author's name is mostly sealed.  If it is not sealed, it may
 * be forged.
 */
static void foreign_compare(const struct beest_registry *registry,
			    const struct beest_kv_value *value, struct comparison *comparison)
{
	const char *key = registry->keys[BEEST_KEY_SERVERS];
	struct beest_rank_body body;
	struct beest_record record;

	comparison->found = true;
	comparison->differs = registry->seal ? SECRET : OTHER_HAS_ONE;
	if (beest_presence_read(NULL, value, key, &record, &body) == 0) {
		comparison->differs = OTHER_HAS_NONE;
		author_say(record.rank, &body, comparison->who);
	} else {
		strcpy(comparison->who, "a process whose name is sealed");
	}
}

static void serverlist_compare(struct beest_registry *registry, const struct beest_kv_value *value,
			       struct comparison *comparison)
{
	const char *key = registry->keys[BEEST_KEY_SERVERS];
	struct beest_rank_body self, body;
	struct beest_record record;
	int ret = beest_presence_read(registry->seal, value, key, &record, &body);

	memset(comparison, 0, sizeof(*comparison));
	comparison->found = ret == 0;
	if (ret == -ENOKEY || ret == -EKEYREJECTED)
		foreign_compare(registry, value, comparison);
	if (ret < 0 || beest_process_is_context(&record.incarnation,
						beest_registry_incarnation(registry)))
		return;

	beest_registry_self(registry, &self);
	comparison->differs = difference_find(&self, &body);
	if (record.flags < BEEST_COUNT(differences))
		comparison->said = record.flags;
	author_say(record.rank, &body, comparison->who);
	beest_text_copy(comparison->other, sizeof(comparison->other), body.reason);
}

/*
 * A record found before this rank's presence was stored may be a leftover, and only raises a
 * suspicion.  If a later one has other settings, this rank's presence is stored again and
 * names its author: from that the author learns it, and so do the ranks with the same settings as
 * this one.
 */
int beest_serverlist_judge(struct beest_registry *registry, size_t server,
			   const struct beest_kv_value *value)
{
	bool *listed = &registry->servers[server].listed;
	bool was_listed = __atomic_load_n(listed, __ATOMIC_RELAXED);
	char self[BEEST_REASON_MAX];
	const struct difference *difference;
	struct beest_rank_body body;
	struct comparison comparison;
	bool between;			/* a difference between two other ranks */

	if (!beest_registry_is_announced(registry))
		return 0;
	serverlist_compare(registry, value, &comparison);
	if (!was_listed || !comparison.found)
		serverlist_put(registry, server, NOTHING, "");
	between = comparison.said && !comparison.differs;
	difference = &differences[between ? comparison.said : comparison.differs];
	if (!difference->what)
		return 0;
	if (!was_listed) {
		beest_registry_suspect(registry, between ? comparison.other : comparison.who,
				       difference->what);
		return 0;
	}

	if (!comparison.said)
		serverlist_put(registry, server, comparison.differs, comparison.who);
	__atomic_store_n(listed, false, __ATOMIC_RELAXED);
	beest_registry_self(registry, &body);
	author_say(registry->presence.rank, &body, self);

	return beest_fail(EPROTO,
			  "%s and %s, which both use server %s, have different settings: %s; %s",
			  between ? comparison.who : self,
			  between ? comparison.other : comparison.who,
			  beest_kv_text(registry->kv, server),
			  difference->both ? difference->both : difference->what,
			  difference->remedy);
}
