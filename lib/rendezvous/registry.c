/* SPDX-License-Identifier: MIT */
/* registry.c - see registry.h */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/lock.h"
#include "lib/base/text.h"
#include "lib/rendezvous/registry.h"

/* Time to live of the presence in each state, in seconds; 0: of the option exchange.ttl. */
static const int64_t state_ttl[] = {
	[BEEST_RANK_ALIVE] = 0,
	[BEEST_RANK_LEFT] = 60,
	[BEEST_RANK_FAILED] = 600,
};

/* -------------------------------------------------------------------------- keys --- */

/* Finds what Memcached forbids in a key.  The sentence quotes the user's word, not the key. */
static int word_check(const char *what, const char *word)
{
	const char *bad = beest_text_not_key(word);

	if (!*word)
		return beest_fail(EINVAL, "the %s is empty", what);
	if (bad)
		return beest_fail(EINVAL, "the %s %s cannot be part of a key: byte %td is %s",
				  what, BEEST_QUOTE(word), bad - word + 1, BEEST_BYTE_TEXT(*bad));

	return 0;
}

int beest_registry_key_of(const char *job, enum beest_record_kind kind, const char *name,
			  char key[BEEST_KEY_MAX + 1])
{
	const char *parts[] = {
		"hb1/", job, "/", beest_record_row(kind)->word, "/", name,
	};
	size_t i, size = 0;
	char *end = key;
	int ret;

	if (!*name)
		return beest_fail(EINVAL, "the %s name is empty", beest_record_row(kind)->noun);
	ret = word_check("name", name);
	if (ret < 0)
		return ret;

	for (i = 0; i < BEEST_COUNT(parts); i++)
		size += strlen(parts[i]);
	if (size > BEEST_KEY_MAX)
		return beest_fail(ENAMETOOLONG, "the name %s of a %s has %zu bytes, at most "
				  "%zu are possible in job %s", BEEST_QUOTE(name),
				  beest_record_row(kind)->noun, strlen(name),
				  BEEST_KEY_MAX + strlen(name) - size, BEEST_QUOTE(job));
	for (i = 0; i < BEEST_COUNT(parts); i++)
		end = stpcpy(end, parts[i]);

	return 0;
}

int beest_registry_key(const struct beest_registry *registry, enum beest_record_kind kind,
		       const char *name, char key[BEEST_KEY_MAX + 1])
{
	return beest_registry_key_of(registry->job, kind, name, key);
}

int beest_registry_rank_key(const struct beest_registry *registry, int32_t rank,
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

/* ---------------------------------------------------------------- open and close --- */

/* Host names are only for sentences, so an odd byte in one must not spoil the record. */
void beest_registry_host(char host[BEEST_HOST_MAX])
{
	size_t i;

	if (gethostname(host, BEEST_HOST_MAX) < 0)
		strcpy(host, "unknown");
	host[BEEST_HOST_MAX - 1] = '\0';
	for (i = 0; host[i]; i++)
		if ((uint8_t)host[i] <= 0x20 || (uint8_t)host[i] >= 0x7f)
			host[i] = '?';
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

/*
 * A process begins together with its run, but one that has had a context before may begin another
 * run now.
 */
static int64_t run_began(void)
{
	static pid_t opened_in;		/* a forked child begins, too */
	const pid_t pid = getpid();
	int64_t began = beest_process_began(pid);

	if (__atomic_exchange_n(&opened_in, pid, __ATOMIC_RELAXED) == pid || began < 0)
		return beest_process_clock();

	return began + BEEST_PROCESS_TICK;
}

static int servers_open(struct beest_registry *registry,
			const struct beest_registry_config *config)
{
	int ret;

	ret = beest_kv_open(&registry->kv, config->servers, config->server_count);
	if (ret < 0)
		return ret;

	registry->server_count = config->server_count;
	registry->servers = calloc(config->server_count, sizeof(*registry->servers));
	if (!registry->servers)
		return beest_fail(ENOMEM, "no memory for %zu servers", config->server_count);

	return 0;
}

static int keys_make(struct beest_registry *registry)
{
	static const struct {
		enum beest_registry_key key;
		const char *name;
	} rows[] = {
		{ BEEST_KEY_EPOCH, "epoch" }, { BEEST_KEY_NEWS, "news" },
		{ BEEST_KEY_FAILED, "failed" },
	};
	const struct beest_registry_presence *presence = &registry->presence;
	size_t i;
	int ret;

	for (i = 0; i < BEEST_COUNT(rows); i++)
		snprintf(registry->keys[rows[i].key], sizeof(registry->keys[0]), "hb1/%s/%s",
			 registry->job, rows[i].name);
	snprintf(registry->keys[BEEST_KEY_STARTS], sizeof(registry->keys[0]),
		 "hb1/%s/starts/%" PRId32, registry->job, presence->rank);
	ret = beest_registry_key(registry, BEEST_KIND_RANK, "servers",
				 registry->keys[BEEST_KEY_SERVERS]);

	return ret < 0 ? ret :
	       beest_registry_rank_key(registry, presence->rank, &presence->incarnation,
				       registry->keys[BEEST_KEY_RANK]);
}

static int registry_start(struct beest_registry *registry,
			  const struct beest_registry_config *config)
{
	int ret;

	registry->log = config->log;
	registry->ranks = config->ranks;
	registry->presence.rank = config->rank;
	registry->presence.incarnation = *config->incarnation;
	registry->failure.began = run_began();
	registry->interrupt = config->interrupt;
	registry->explain = config->explain;
	registry->data = config->data;
	registry->seal = config->seal;
	ret = word_check("job id", config->job);
	if (ret < 0)
		return ret;
	registry->job = strdup(config->job);
	if (!registry->job)
		return beest_fail(ENOMEM, "no memory for a job id");

	ret = servers_open(registry, config);
	if (ret == 0)
		ret = keys_make(registry);

	return ret < 0 ? ret : beest_lease_open(&registry->leases, config->ttl,
						&registry->presence.incarnation, config->seal);
}

int beest_registry_open(struct beest_registry **registryp,
			const struct beest_registry_config *config)
{
	struct beest_registry *registry = calloc(1, sizeof(*registry));
	int ret;

	if (!registry)
		return beest_fail(ENOMEM, "no memory for a registry");

	pthread_mutex_init(&registry->lock, NULL);
	ret = registry_start(registry, config);
	if (ret < 0) {
		beest_registry_close(registry);
		return ret;
	}
	__atomic_store_n(registryp, registry, __ATOMIC_RELEASE);

	return 0;
}

void beest_registry_close(struct beest_registry *registry)
{
	if (!registry)
		return;

	beest_lease_close(registry->leases);
	beest_kv_close(registry->kv);
	pthread_mutex_destroy(&registry->lock);
	free(registry->servers);
	free(registry->job);
	free(registry);
}

/* ------------------------------------------------------------------ what is put --- */

/* Another thread may draw a serial for the same object at the same time. */
static uint64_t serial_draw(uint64_t *serial)
{
	static uint64_t drawn_last;
	uint64_t drawn, known = __atomic_load_n(serial, __ATOMIC_RELAXED);

	if (known)
		return known;
	drawn = __atomic_add_fetch(&drawn_last, 1, __ATOMIC_RELAXED);
	if (__atomic_compare_exchange_n(serial, &known, drawn, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		return drawn;

	return known;
}

int beest_registry_encode(const struct beest_registry *registry,
			  const struct beest_registry_record *record, uint8_t **bytes)
{
	struct beest_record plain = {
		.kind = record->kind,
		.flags = record->flags,
		.incarnation = registry->presence.incarnation,
		.rank = registry->presence.rank,
		.body = record->body,
		.size = record->size,
	};
	size_t overhead = beest_record_overhead(registry->seal), room = overhead + record->size;
	int ret;

	if (room > BEEST_VALUE_MAX)
		return beest_fail(EMSGSIZE, "key '%s': %zu bytes, at most %zu are possible",
				  record->key, record->size, BEEST_VALUE_MAX - overhead);
	*bytes = malloc(room);
	if (!*bytes)
		return beest_fail(ENOMEM, "no memory for a record of %zu bytes", room);

	ret = beest_record_encode(registry->seal, &plain, record->key, *bytes, room);
	if (ret < 0)
		free(*bytes);

	return ret;
}

static size_t record_server(const struct beest_registry *registry,
			    const struct beest_registry_record *record)
{
	return beest_kv_server_of(registry->kv, record->placed_as ? record->placed_as :
				  record->key);
}

static uint64_t record_digest(const struct beest_registry_record *record)
{
	uint64_t digest = beest_hash_fnv(BEEST_HASH_FNV, &record->flags, sizeof(record->flags));

	return beest_hash_fnv(digest, record->body, record->size);
}

int beest_registry_put(struct beest_registry *registry,
		       const struct beest_registry_record *record)
{
	struct beest_lease_wanted wanted = {
		.kind = record->kind,
		.key = record->key,
		.server = record_server(registry, record),
		.ttl = record->ttl,
		.flags = record->flags,
		.digest = record_digest(record),
		.add_only = record->add_only,
		.unique = record->unique,
	};
	uint8_t *bytes;
	int ret;

	if (record->kind != BEEST_KIND_RANK) {
		ret = beest_registry_announce(registry);
		if (ret < 0)
			return ret;
	}
	if (record->serial)
		wanted.serial = serial_draw(record->serial);
	if (record->if_changed && beest_lease_has(registry->leases, &wanted))
		return 0;

	ret = beest_registry_encode(registry, record, &bytes);
	if (ret < 0)
		return ret;
	wanted.bytes = bytes;
	wanted.size = (size_t)ret;
	ret = beest_lease_put(registry->leases, &wanted);
	free(bytes);

	return ret;
}

void beest_registry_self(struct beest_registry *registry, struct beest_rank_body *body)
{
	const struct beest_registry_presence *presence = &registry->presence;

	memset(body, 0, sizeof(*body));
	body->pid = (uint32_t)getpid();
	body->began = beest_process_ticks(getpid());
	body->size = (uint32_t)beest_registry_size(registry);
	body->participants = participants_digest(registry->ranks);
	body->servers = beest_kv_digest(registry->kv);
	beest_registry_host(body->host);
	pthread_mutex_lock(&registry->lock);
	body->state = presence->state;
	body->displaced = presence->displaced;
	strcpy(body->device, presence->device);
	strcpy(body->reason, presence->reason);
	strcpy(body->waits, presence->waits);
	pthread_mutex_unlock(&registry->lock);
}

int64_t beest_registry_presence_ttl(struct beest_registry *registry)
{
	int64_t ttl;
	BEEST_HOLD(&registry->lock);

	ttl = state_ttl[registry->presence.state];

	return (ttl ? ttl : beest_lease_ttl(registry->leases)) * BEEST_SECOND;
}

int beest_registry_present(struct beest_registry *registry)
{
	struct beest_registry_presence *presence = &registry->presence;
	uint8_t bytes[BEEST_BODY_MAX];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_RANK, .key = registry->keys[BEEST_KEY_RANK], .body = bytes,
	};
	struct beest_rank_body body;
	int ret;

	beest_registry_self(registry, &body);
	record.ttl = state_ttl[body.state];
	pthread_mutex_lock(&registry->lock);
	record.add_only = presence->rank >= 0 && !presence->owned &&
			  body.state == BEEST_RANK_ALIVE;
	pthread_mutex_unlock(&registry->lock);
	record.size = (size_t)beest_record_rank_encode(&body, bytes);
	ret = beest_registry_put(registry, &record);
	if (ret == 0)
		__atomic_store_n(&presence->put, beest_clock_now(), __ATOMIC_RELAXED);

	return ret;
}

bool beest_registry_is_announced(const struct beest_registry *registry)
{
	return __atomic_load_n(&registry->presence.put, __ATOMIC_RELAXED);
}

int beest_registry_announce(struct beest_registry *registry)
{
	return beest_registry_is_announced(registry) ? 0 : beest_registry_present(registry);
}

bool beest_registry_retract(struct beest_registry *registry, enum beest_record_kind kind,
			    const char *name)
{
	char key[BEEST_KEY_MAX + 1];

	return beest_registry_key(registry, kind, name, key) == 0 &&
	       beest_lease_doom_key(registry->leases, key);
}

void beest_registry_suspect(struct beest_registry *registry, const char *who, const char *what)
{
	pthread_mutex_lock(&registry->lock);
	snprintf(registry->suspicion, sizeof(registry->suspicion), "%s had %s", who, what);
	pthread_mutex_unlock(&registry->lock);
	beest_log(registry->log, BEEST_LOG_INFO,
		  "%s had %s; this was left by an earlier run, or is a mistake", who, what);
}

void beest_registry_suspicion(struct beest_registry *registry, const char *sides,
			      struct beest_text *text)
{
	BEEST_HOLD(&registry->lock);

	if (registry->suspicion[0])
		beest_text_item(text, "%s", registry->suspicion);
	if (sides)
		beest_text_item(text, "HARTEBEEST_JOB (here %s) and the servers must be the same "
				"on %s", strcmp(registry->job, "-") ? registry->job : "not set",
				sides);
}
