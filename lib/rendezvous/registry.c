/* SPDX-License-Identifier: MIT */
/* registry.c - see registry.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/text.h"
#include "lib/rendezvous/entry.h"
#include "lib/rendezvous/look.h"
#include "lib/rendezvous/wait.h"

/* A closing process must not hang on a silent server. */
#define CLOSE_TIME BEEST_SECOND

/*
 * One trip asks whether the records are still ours, and the next removes them.  A third
 * is needed if a connection was closed, or if the first left out a server that had just
 * failed.
 */
#define TRIPS 3

/* ---------------------------------------------------------------- open and close --- */

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

static int servers_open(struct beest_registry *registry,
			const struct beest_registry_config *config)
{
	int ret;

	ret = beest_kv_open(&registry->kv, config->servers, config->server_count, config->login);
	if (ret < 0)
		return ret;

	registry->server_count = config->server_count;
	registry->servers = calloc(config->server_count, sizeof(*registry->servers));
	if (!registry->servers)
		return beest_fail(ENOMEM, "no memory for %zu servers", config->server_count);

	return 0;
}

static int registry_start(struct beest_registry *registry,
			  const struct beest_registry_config *config)
{
	int ret;

	registry->log = config->log;
	registry->ranks = config->ranks;
	registry->size = config->ranks ? (int)config->ranks->count : 0;
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
	snprintf(registry->epoch_key, sizeof(registry->epoch_key), "hb1/%s/epoch", config->job);

	ret = servers_open(registry, config);
	if (ret == 0)
		ret = beest_presence_open(registry, config);
	if (ret == 0)
		ret = beest_lease_open(&registry->leases, config->ttl,
				       &registry->presence.incarnation, config->seal);
	if (ret == 0)
		ret = beest_registry_key(registry, BEEST_KIND_RANK, BEEST_SERVERLIST_NAME,
					 registry->serverlist.key);
	if (ret == 0)
		beest_failure_open(registry);

	return ret;
}

static void registry_free(struct beest_registry *registry)
{
	beest_lease_close(registry->leases);
	beest_kv_close(registry->kv);
	beest_seal_close(registry->seal);
	pthread_mutex_destroy(&registry->lock);
	free(registry->servers);
	free(registry->job);
	free(registry);
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
		registry->seal = NULL;
		registry_free(registry);
		return ret;
	}
	__atomic_store_n(registryp, registry, __ATOMIC_RELEASE);

	return 0;
}

/*
 * Further trips wait for requests of other threads, which store a doomed record meanwhile.  Only
 * a context that is left, not closed, has such threads.
 */
static bool others_are_done(struct beest_registry *registry, struct beest_backoff *backoff,
			    int64_t deadline)
{
	if (!beest_lease_is_busy(registry->leases) || !beest_clock_left(deadline))
		return true;
	beest_clock_backoff_sleep(backoff, deadline);

	return false;
}

/* The first trip asks whether the records are still ours; the others send all that ends. */
static void registry_end(struct beest_registry *registry)
{
	struct beest_look_extra extras[registry->server_count + 1];
	struct beest_look look = {
		.extras = extras, .deadline = beest_clock_deadline(CLOSE_TIME),
	};
	struct beest_incarnation news;
	struct beest_backoff backoff;
	int ret, trip = 1;
	size_t i, left;

	beest_clock_backoff_start(&backoff, registry->size);
	beest_lease_doom_all(registry->leases);
	beest_look_take(registry, &look);

	for (i = 0; i < registry->server_count; i++)
		if (registry->servers[i].listed)
			extras[look.extra_count++] = (struct beest_look_extra){
				.server = i,
				.write = { .verb = BEEST_KV_DELETE,
					   .key = registry->serverlist.key },
			};
	beest_presence_leave(registry);
	beest_presence_news(registry, &news, &extras[look.extra_count++]);
	do {
		ret = beest_look_take(registry, &look);
		left = beest_lease_count(registry->leases, true);
	} while ((++trip < TRIPS && (ret < 0 || left)) ||
		 !others_are_done(registry, &backoff, look.deadline));
	if (left)
		beest_log(registry->log, BEEST_LOG_WARN, "%zu records stay behind on the servers "
			  "until their time to live is over", left);
}

void beest_registry_leave(struct beest_registry *registry)
{
	if (beest_presence_is_put(registry))
		registry_end(registry);
}

void beest_registry_close(struct beest_registry *registry)
{
	if (!registry)
		return;

	beest_registry_leave(registry);
	registry_free(registry);
}

int beest_registry_key(const struct beest_registry *registry, enum beest_record_kind kind,
		       const char *name, char key[BEEST_KEY_MAX + 1])
{
	const char *parts[] = {
		"hb1/", registry->job, "/", beest_record_row(kind)->word, "/", name,
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
				  BEEST_KEY_MAX + strlen(name) - size, BEEST_QUOTE(registry->job));
	for (i = 0; i < BEEST_COUNT(parts); i++)
		end = stpcpy(end, parts[i]);

	return 0;
}

/* ------------------------------------------------------------ what is published --- */

/* Another thread may draw a serial for the same object at the same time. */
static uint64_t serial_draw(struct beest_registry *registry, uint64_t *serial)
{
	uint64_t drawn, known = __atomic_load_n(serial, __ATOMIC_RELAXED);

	if (known)
		return known;
	drawn = __atomic_add_fetch(&registry->serials, 1, __ATOMIC_RELAXED);
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
	const bool joins = beest_record_row(record->kind)->joins;
	int ret;

	if (room > BEEST_VALUE_MAX)
		return beest_fail(EMSGSIZE, "key '%s': %zu bytes, at most %zu are possible",
				  record->key, record->size, BEEST_VALUE_MAX - overhead);
	*bytes = malloc(joins ? BEEST_ENTRY_MAX : room);
	if (!*bytes)
		return beest_fail(ENOMEM, "no memory for a record of %zu bytes", room);

	ret = joins ? beest_entry_encode(registry->seal, &plain, record->key, *bytes) :
	      beest_record_encode(registry->seal, &plain, record->key, *bytes, room);
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
		.claims = record->claims,
	};
	uint8_t *bytes;
	int ret;

	if (record->kind != BEEST_KIND_RANK) {
		ret = beest_presence_announce(registry);
		if (ret < 0)
			return ret;
	}
	if (record->serial)
		wanted.serial = serial_draw(registry, record->serial);
	if (record->calm && beest_lease_has(registry->leases, &wanted))
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

/* Makes a sentence like that of a wait in vain. */
static int ask_fail(const struct beest_look_extra *last, const char *purpose,
		    const struct beest_limit *limit, int ret)
{
	return beest_fail(-ret, "%s%s; %s: key %s", beest_kv_transient(ret) ?
			  BEEST_LIMIT_TEXT(limit, "tried for") : "", beest_error_text(), purpose,
			  last->write.key);
}

/* Repeats writes, the last with an answer, while that may help. */
int beest_registry_ask(struct beest_registry *registry, struct beest_look_extra *extras,
		       size_t count, const char *purpose, const struct beest_limit *limit)
{
	struct beest_look_extra *last = &extras[count - 1];
	struct beest_look look = { .extras = extras, .extra_count = count };
	struct beest_backoff backoff;
	bool is_last, again = false;
	int ret;

	beest_clock_backoff_start(&backoff, registry->size);
	for (;; again = true) {
		is_last = beest_limit_is_short(limit);
		look.deadline = beest_limit_look(limit);
		ret = beest_look_take(registry, &look);
		ret = last->done ? last->write.ret : ret;
		last->repeated |= again;
		if (ret == 0 || ret == -ENOENT)
			return ret;
		if (!beest_kv_transient(ret) || (is_last && !beest_limit_left(limit)))
			return ask_fail(last, purpose, limit, ret);
		ret = beest_limit_check(limit);
		if (ret < 0)
			return ask_fail(last, purpose, limit, ret);
		beest_clock_backoff_sleep(&backoff, limit->end);
	}
}

int beest_registry_take(struct beest_registry *registry, const char *key,
			const struct beest_limit *limit)
{
	struct beest_look_extra extra = {
		.server = beest_kv_server_of(registry->kv, key),
		.write = { .verb = BEEST_KV_DELETE, .key = key, .answered = true },
	};
	int ret;

	beest_lease_forget(registry->leases, key, 0);
	ret = beest_registry_ask(registry, &extra, 1, "to be deleted", limit);

	return ret == -ENOENT && extra.repeated ? -ESTALE : ret;
}

int beest_registry_delete(struct beest_registry *registry, const char *key,
			  const struct beest_limit *limit)
{
	int ret = beest_registry_take(registry, key, limit);

	return ret == -ESTALE ? 0 : ret;
}

int beest_registry_publish(struct beest_registry *registry,
			   const struct beest_registry_record *record,
			   const struct beest_limit *limit)
{
	struct beest_wait wait = {
		.own_keys = &record->key, .own_count = 1, .limit = limit,
	};
	int ret;

	ret = beest_registry_put(registry, record);
	if (ret == 0)
		ret = beest_wait_run(registry, &wait);
	if (ret == 0 && beest_lease_is(registry->leases, record->key, BEEST_LEASE_REFUSED)) {
		beest_lease_forget(registry->leases, record->key, *record->serial);
		return beest_fail(EMSGSIZE, "server %s: %s; to be stored: key %s",
				  beest_kv_text(registry->kv,
						beest_kv_server_of(registry->kv, record->key)),
				  BEEST_KV_TOO_LARGE, record->key);
	}

	return ret;
}

void beest_registry_offer(struct beest_registry *registry, const char *key)
{
	struct beest_look_extra none = {
		.server = beest_kv_server_of(registry->kv, key), .done = true,
	};

	beest_look_offer(registry, &none);
}

/* Removes what is doomed.  @look: has no more than what goes along with the first trip. */
static void doomed_remove(struct beest_registry *registry, struct beest_look *look)
{
	int trip, one, ret = 0;

	look->deadline = beest_clock_deadline(CLOSE_TIME);
	for (trip = 0; trip < TRIPS && beest_lease_count(registry->leases, true); trip++) {
		one = beest_look_take(registry, look);
		ret = one < 0 ? one : ret;
	}
	if (ret < 0 && beest_lease_count(registry->leases, true))
		beest_log(registry->log, BEEST_LOG_INFO, "a record stays behind: %s",
			  beest_error_text());
}

void beest_registry_withdraw(struct beest_registry *registry, uint64_t serial, size_t server)
{
	struct beest_look_want want = { .server = server };
	struct beest_look look = {
		.wants = &want, .count = server != SIZE_MAX, .flags = BEEST_LOOK_IDLE,
	};

	if (!serial)
		return;

	beest_lease_doom(registry->leases, serial);
	doomed_remove(registry, &look);
}

bool beest_registry_retract(struct beest_registry *registry, const char *name)
{
	static const enum beest_record_kind kinds[] = { BEEST_KIND_QP, BEEST_KIND_MR };
	char key[BEEST_KEY_MAX + 1];
	bool any = false;
	size_t i;

	for (i = 0; i < BEEST_COUNT(kinds); i++)
		any |= beest_registry_key(registry, kinds[i], name, key) == 0 &&
		       beest_lease_doom_key(registry->leases, key);

	return any;
}

void beest_registry_purge(struct beest_registry *registry, const char *message)
{
	char key[BEEST_KEY_MAX + 1];
	struct beest_look_extra extra = {
		.write = { .verb = BEEST_KV_DELETE, .key = key, .answered = true },
	};
	struct beest_look look = { .extras = &extra };

	if (beest_registry_key(registry, BEEST_KIND_MESSAGE, message, key) == 0) {
		beest_lease_forget(registry->leases, key, 0);
		extra.server = beest_kv_server_of(registry->kv, key);
		look.extra_count = 1;
	}
	doomed_remove(registry, &look);
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
	pthread_mutex_lock(&registry->lock);
	if (registry->suspicion[0])
		beest_text_item(text, "%s", registry->suspicion);
	pthread_mutex_unlock(&registry->lock);
	if (sides)
		beest_text_item(text, "HARTEBEEST_JOB (here %s) and the servers must be the same "
				"on %s", strcmp(registry->job, "-") ? registry->job : "not set",
				sides);
}
