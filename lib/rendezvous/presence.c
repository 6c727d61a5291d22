/* SPDX-License-Identifier: MIT */
/* presence.c - see presence.h */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/random.h"
#include "lib/base/text.h"
#include "lib/rendezvous/look.h"

/* Time to live of the presence in each state, in seconds; 0: of the option exchange.ttl. */
static const int64_t state_ttl[] = {
	[BEEST_RANK_ALIVE] = 0,
	[BEEST_RANK_LEFT] = 60,
	[BEEST_RANK_FAILED] = 600,
};

/* The time that a look may take when only a sentence needs it. */
#define TEXT_TIME (250 * BEEST_MS)

/* ------------------------------------------------------------------ who we are --- */

/* Host names are only for sentences, so an odd byte in one must not spoil the record. */
static void host_read(char host[BEEST_HOST_MAX])
{
	size_t i;

	if (gethostname(host, BEEST_HOST_MAX) < 0)
		strcpy(host, "unknown");
	host[BEEST_HOST_MAX - 1] = '\0';
	for (i = 0; host[i]; i++)
		if ((uint8_t)host[i] <= 0x20 || (uint8_t)host[i] >= 0x7f)
			host[i] = '?';
}

static int incarnation_draw(struct beest_incarnation *incarnation)
{
	int ret = beest_random(incarnation, sizeof(*incarnation));

	if (ret == 0)
		ret = beest_process_mark(incarnation->bytes);

	return ret < 0 ? beest_fail(-ret, "no random bits for an incarnation") : 0;
}

/* The same for all ranks of a job, whatever the byte order of their hosts; 0: unknown. */
static uint64_t participants_digest(const struct beest_ids *ranks)
{
	uint64_t digest = BEEST_HASH_FNV;
	uint32_t id;
	size_t i;

	if (!ranks || !ranks->count)
		return 0;
	for (i = 0; i < ranks->count; i++) {
		id = htole32((uint32_t)ranks->id[i]);
		digest = beest_hash_fnv(digest, &id, sizeof(id));
	}

	return digest | 1;
}

static int presence_key(const struct beest_registry *registry, int32_t rank,
			const struct beest_incarnation *incarnation,
			char key[BEEST_KEY_MAX + 1])
{
	char name[2 * BEEST_INCARNATION_SIZE + 1];
	size_t i;

	if (rank >= 0)
		snprintf(name, sizeof(name), "%" PRId32, rank);
	for (i = 0; rank < 0 && i < BEEST_INCARNATION_SIZE; i++)
		snprintf(name + 2 * i, 3, "%02x", incarnation->bytes[i]);

	return beest_registry_key(registry, BEEST_KIND_RANK, name, key);
}

int beest_presence_open(struct beest_registry *registry,
			const struct beest_registry_config *config)
{
	struct beest_presence *presence = &registry->presence;
	struct beest_rank_body *self = &presence->self;
	int ret;

	presence->rank = config->rank;
	self->size = config->ranks ? (uint32_t)config->ranks->count : 0;
	self->participants = participants_digest(config->ranks);
	self->servers = beest_kv_digest(registry->kv);
	host_read(self->host);
	ret = incarnation_draw(&presence->incarnation);
	if (ret == 0)
		ret = presence_key(registry, presence->rank, &presence->incarnation,
				   presence->key);
	if (ret < 0)
		return ret;

	presence->server = beest_kv_server_of(registry->kv, presence->key);
	snprintf(presence->news_key, sizeof(presence->news_key), "hb1/%s/news", registry->job);

	return 0;
}

/* ------------------------------------------------------------- the own presence --- */

int beest_presence_put(struct beest_registry *registry)
{
	struct beest_presence *presence = &registry->presence;
	uint8_t body[BEEST_BODY_MAX];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_RANK, .key = presence->key, .body = body,
	};
	int ret;

	pthread_mutex_lock(&registry->lock);
	presence->self.pid = (uint32_t)getpid();
	presence->self.time = (uint64_t)time(NULL);
	record.ttl = state_ttl[presence->self.state];
	record.size = (size_t)beest_record_rank_encode(&presence->self, body);
	pthread_mutex_unlock(&registry->lock);
	ret = beest_registry_put(registry, &record);
	if (ret == 0)
		__atomic_store_n(&presence->put, beest_clock_now(), __ATOMIC_RELAXED);

	return ret;
}

bool beest_presence_is_put(struct beest_registry *registry)
{
	return __atomic_load_n(&registry->presence.put, __ATOMIC_RELAXED);
}

int beest_presence_announce(struct beest_registry *registry)
{
	return beest_presence_is_put(registry) ? 0 : beest_presence_put(registry);
}

void beest_presence_set_device(struct beest_registry *registry, const char *device)
{
	struct beest_rank_body *self = &registry->presence.self;
	bool changed;

	pthread_mutex_lock(&registry->lock);
	changed = strcmp(self->device, device) != 0;
	snprintf(self->device, sizeof(self->device), "%.*s", BEEST_DEVICE_MAX - 1, device);
	pthread_mutex_unlock(&registry->lock);
	if (changed && beest_presence_is_put(registry))
		beest_presence_put(registry);
}

int beest_presence_leave(struct beest_registry *registry)
{
	pthread_mutex_lock(&registry->lock);
	if (registry->presence.self.state != BEEST_RANK_FAILED)
		registry->presence.self.state = BEEST_RANK_LEFT;
	pthread_mutex_unlock(&registry->lock);

	return beest_presence_put(registry);
}

/* The value differs from that of all other contexts, and from this one's earlier value. */
void beest_presence_news(const struct beest_registry *registry, struct beest_incarnation *news,
			 struct beest_look_extra *extra)
{
	const struct beest_presence *presence = &registry->presence;

	*news = presence->incarnation;
	news->bytes[0] ^= presence->self.state;
	*extra = (struct beest_look_extra){
		.server = beest_kv_server_of(registry->kv, presence->news_key),
		.write = {
			.verb = BEEST_KV_SET, .key = presence->news_key, .value = news,
			.size = sizeof(*news), .ttl = beest_lease_ttl(registry->leases),
		},
	};
}

/*
 * A server may carry out a killed process's last request after the first request of its
 * successor.  So the author of a presence that says alive may be dead.
 */
static bool is_dead(const struct beest_incarnation *incarnation, uint32_t pid,
		    const struct beest_incarnation *own)
{
	return beest_process_is_same_place(incarnation, own) &&
	       kill((pid_t)pid, 0) < 0 && errno == ESRCH;
}

/* Stores the own presence again, so that the other process finds out, too. */
static int presence_twice(struct beest_registry *registry, const struct beest_rank_body *other)
{
	const struct beest_presence *presence = &registry->presence;

	beest_lease_insist(registry->leases, presence->key);
	beest_registry_offer(registry, presence->key);

	return beest_fail(EADDRINUSE, "rank %" PRId32 " runs twice: as pid %d on host %s and as "
			  "pid %" PRIu32 " on host %s (key %s); end one of them, or give "
			  "each run a HARTEBEEST_JOB of its own", presence->rank, (int)getpid(),
			  presence->self.host, other->pid, other->host, presence->key);
}

/* Also renews the record of this rank's failure, if there is one. */
static int presence_renew(struct beest_registry *registry)
{
	const struct beest_presence *presence = &registry->presence;
	int64_t put = __atomic_load_n(&presence->put, __ATOMIC_RELAXED), ttl;

	pthread_mutex_lock(&registry->lock);
	ttl = state_ttl[presence->self.state];
	pthread_mutex_unlock(&registry->lock);
	ttl = (ttl ? ttl : beest_lease_ttl(registry->leases)) * BEEST_SECOND;
	if (!ttl || beest_clock_now() - put <= ttl / 3)
		return 0;

	beest_lease_insist(registry->leases, registry->failure.key);

	return beest_presence_put(registry);
}

int beest_presence_judge(struct beest_registry *registry, const struct beest_kv_value *value)
{
	struct beest_presence *presence = &registry->presence;
	const struct beest_incarnation *own = &presence->incarnation;
	struct beest_rank_body body;
	struct beest_record record;

	if (!beest_presence_is_put(registry))
		return 0;
	if (beest_presence_read(registry->seal, value, presence->key, &record, &body) < 0) {
		beest_lease_insist(registry->leases, presence->key);
		return 0;
	}
	if (beest_process_is_context(&record.incarnation, own))
		return presence_renew(registry);
	if (body.state == BEEST_RANK_ALIVE && beest_process_is_same(&record.incarnation, own))
		return 0;		/* another context of this process */
	if (body.state == BEEST_RANK_ALIVE && !is_dead(&record.incarnation, body.pid, own))
		return presence_twice(registry, &body);

	beest_lease_insist(registry->leases, presence->key);

	return 0;
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

static void query_judge(struct beest_seal *seal, struct beest_presence_query *query,
			const char *key, const struct beest_kv_value *value)
{
	struct beest_record record;

	if (beest_presence_read(seal, value, key, &record, &query->body) < 0)
		return;
	query->now = record.incarnation;
	if (beest_process_is_context(&query->now, query->incarnation))
		query->ret = 1;
	else if (!beest_process_is_same(&query->now, query->incarnation))
		query->ret = -ESTALE;
}

void beest_presence_query(struct beest_registry *registry, struct beest_presence_query *queries,
			  size_t count, int64_t deadline)
{
	char (*keys)[BEEST_KEY_MAX + 1] = calloc(count + 1, sizeof(*keys));
	struct beest_look look = { .deadline = deadline };
	size_t i;
	int ret;

	look.wants = calloc(count + 1, sizeof(*look.wants));
	for (i = 0; i < count; i++) {
		queries[i].ret = 0;
		queries[i].answered = false;
	}
	for (; keys && look.wants && look.count < count; look.count++) {
		if (presence_key(registry, queries[look.count].rank,
				 queries[look.count].incarnation, keys[look.count]) < 0)
			break;
		look.wants[look.count].key = keys[look.count];
		look.wants[look.count].server = beest_kv_server_of(registry->kv,
								   keys[look.count]);
	}
	if (look.count) {
		ret = beest_look_take(registry, &look);
		for (i = 0; i < look.count; i++) {
			queries[i].answered = !look.wants[i].failed &&
					      (ret == 0 || beest_kv_transient(ret));
			query_judge(registry->seal, &queries[i], keys[i],
				    &look.wants[i].value);
		}
		beest_look_free(look.wants, look.count);
	}
	free(look.wants);
	free(keys);
}

/* ------------------------------------------------- authors known to be alive --- */

/* As long as a look for their presence may take, since it decides whether a record is used. */
#define ALIVE_TIME BEEST_SECOND

static struct beest_presence_alive *alive_row(struct beest_registry *registry,
					      const struct beest_incarnation *incarnation)
{
	return &registry->alive[incarnation->bytes[BEEST_INCARNATION_SIZE - 1]];
}

void beest_presence_note(struct beest_registry *registry,
			 const struct beest_incarnation *incarnation)
{
	pthread_mutex_lock(&registry->lock);
	*alive_row(registry, incarnation) = (struct beest_presence_alive){
		*incarnation, beest_clock_deadline(ALIVE_TIME),
	};
	pthread_mutex_unlock(&registry->lock);
}

void beest_presence_forget(struct beest_registry *registry,
			   const struct beest_incarnation *incarnation)
{
	struct beest_presence_alive *row = alive_row(registry, incarnation);

	pthread_mutex_lock(&registry->lock);
	if (beest_process_is_context(&row->incarnation, incarnation))
		row->until = 0;
	pthread_mutex_unlock(&registry->lock);
}

bool beest_presence_is_known(struct beest_registry *registry,
			     const struct beest_incarnation *incarnation)
{
	const struct beest_presence_alive *row = alive_row(registry, incarnation);
	bool known;

	pthread_mutex_lock(&registry->lock);
	known = beest_process_is_context(&row->incarnation, incarnation) &&
		beest_clock_now() < row->until;
	pthread_mutex_unlock(&registry->lock);

	return known;
}

void beest_presence_ask(struct beest_registry *registry, struct beest_presence_query *queries,
			size_t count)
{
	size_t i;

	beest_presence_query(registry, queries, count, beest_clock_deadline(ALIVE_TIME));
	for (i = 0; i < count; i++)
		if (queries[i].ret != -ESTALE)
			beest_presence_note(registry, queries[i].incarnation);
}

/* ----------------------------------------------------------------- for sentences --- */

/* The fate of the author of a presence; "": it may be alive. */
static const char *fate_text(const struct beest_registry *registry,
			     const struct beest_presence_query *query)
{
	if (query->body.state == BEEST_RANK_LEFT)
		return ", which has left";
	if (query->body.state != BEEST_RANK_ALIVE)
		return ", which has failed";

	return is_dead(&query->now, query->body.pid, &registry->presence.incarnation) ?
	       ", whose process is dead" : "";
}

bool beest_presence_is_over(struct beest_registry *registry, int32_t rank,
			    const struct beest_incarnation *incarnation,
			    char text[BEEST_PRESENCE_TEXT])
{
	struct beest_presence_query query = { .rank = rank, .incarnation = incarnation };
	const char *fate = "";
	size_t used;

	beest_presence_query(registry, &query, 1, beest_clock_deadline(TEXT_TIME));
	if (query.ret > 0) {
		beest_presence_text(rank, &query.body, text);
		fate = fate_text(registry, &query);
		used = strlen(text);
		beest_text_copy(text + used, BEEST_PRESENCE_TEXT - used, fate);
	} else if (rank >= 0) {
		fate = query.ret == -ESTALE ? ", which is another process now" : "";
		snprintf(text, BEEST_PRESENCE_TEXT, "rank %" PRId32 "%s", rank, fate);
	} else {
		snprintf(text, BEEST_PRESENCE_TEXT, "a process without rank");
	}

	return fate[0] != '\0';
}

const char *beest_presence_author(struct beest_registry *registry, int32_t rank,
				  const struct beest_incarnation *incarnation,
				  char text[BEEST_PRESENCE_TEXT])
{
	beest_presence_is_over(registry, rank, incarnation, text);

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
