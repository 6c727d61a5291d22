/* SPDX-License-Identifier: MIT */
/* registry.c - see registry.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "tests/support/crew.h"
#include "tests/support/fake-process.h"
#include "tests/support/registry.h"

struct registry_stage registry_stage;
struct fake_kv_server *registry_server;

/* --------------------------------------------------------------- clock and log --- */

static int64_t stage_now(void)
{
	return registry_stage.now;
}

static void stage_sleep(int64_t instant)
{
	registry_stage.now = instant > registry_stage.now ? instant : registry_stage.now;
}

static const struct beest_clock_source stage_clock = { stage_now, stage_sleep };

static void log_write(void *data, int level, const char *text)
{
	size_t used = strlen(registry_stage.log);

	(void)data;
	registry_stage.warnings += level <= BEEST_LOG_WARN;
	snprintf(registry_stage.log + used, sizeof(registry_stage.log) - used, "%s: %s\n",
		 beest_parse_word_text(beest_log_words, level), text);
}

static const struct beest_log stage_log = { .level = BEEST_LOG_INFO, .write = log_write };

void registry_start(void)
{
	memset(&registry_stage, 0, sizeof(registry_stage));
	registry_stage.servers = "a:1";
	registry_stage.job = "job";
	registry_stage.timeout = 10 * BEEST_SECOND;
	registry_stage.ttl = 600 * BEEST_SECOND;
	registry_stage.now = crew_now();
	beest_clock_source = &stage_clock;
	fake_process_reset();
	fake_kv_reset();
	registry_server = fake_kv_server("a:1");
}

void registry_end(void)
{
	crew_clear();
	while (registry_stage.open_count)
		registry_kill(registry_stage.open[0]);
	fake_kv_reset();
	beest_clock_source = NULL;
}

int registry_setup(void **state)
{
	(void)state;
	registry_start();
	return 0;
}

int registry_teardown(void **state)
{
	(void)state;
	registry_end();
	return 0;
}

void registry_run(void)
{
	crew_run();
	registry_stage.now = crew_now();
	beest_clock_source = &stage_clock;
}

/* -------------------------------------------------------------------- registries --- */

const struct beest_ids *registry_ranks(int size)
{
	static int ids[REGISTRY_IDS];
	static struct beest_ids ranks[REGISTRY_RANKS + 2];
	struct beest_ids *all = &ranks[size > REGISTRY_RANKS ? REGISTRY_RANKS + 1 : size];
	int i;

	for (i = 0; i < size; i++)
		ids[i] = i;
	all->id = ids;
	all->count = (size_t)size;
	return all;
}

const struct beest_limit *registry_limit(int64_t deadline, struct beest_limit *limit)
{
	beest_limit_start(limit, NULL, deadline, registry_stage.timeout);
	return limit;
}

static size_t servers_split(const char *text, struct beest_hostport *servers)
{
	size_t count = 0;
	char name[32];
	int used;

	while (count < FAKE_KV_SERVERS && sscanf(text, " %31s%n", name, &used) == 1) {
		strcpy(servers[count++].text, name);
		text += used;
	}
	return count;
}

struct beest_seal *registry_seal(void)
{
	const char *secret = registry_stage.secret;
	struct beest_seal *seal = NULL;

	if (secret && beest_seal_open(&seal, secret, strlen(secret), registry_stage.job) < 0)
		abort();
	return seal;
}

struct beest_registry *registry_make(int rank, int size)
{
	struct beest_incarnation incarnation;
	struct beest_hostport servers[FAKE_KV_SERVERS];
	struct beest_registry_config config = {
		.servers = servers,
		.job = registry_stage.job,
		.rank = rank,
		.ranks = registry_ranks(size),
		.ttl = registry_stage.ttl,
		.interrupt = registry_stage.interrupt,
		.seal = registry_seal(),
		.incarnation = &incarnation,
		.log = &stage_log,
	};
	struct beest_registry *registry;

	memset(servers, 0, sizeof(servers));
	config.server_count = servers_split(registry_stage.servers, servers);
	fake_process += !registry_stage.same_process;
	beest_process_incarnation(&incarnation);
	if (registry_stage.open_count == REGISTRY_RANKS ||
	    beest_registry_open(&registry, &config) < 0)
		abort();
	registry_stage.open[registry_stage.open_count++] = registry;
	return registry;
}

void registry_close(struct beest_registry *registry)
{
	size_t i = 0, *count = &registry_stage.open_count;
	struct beest_seal *own = NULL;	/* a context closes that of its registry */

	while (i < *count && registry_stage.open[i] != registry)
		i++;
	if (i < *count) {
		registry_stage.open[i] = registry_stage.open[--*count];
		own = registry->seal;
	}
	beest_store_leave(registry);
	beest_registry_close(registry);
	beest_seal_close(own);
}

void registry_kill(struct beest_registry *registry)
{
	if (!registry)
		return;
	fake_process_kill(beest_registry_incarnation(registry));
	__atomic_store_n(&registry->presence.put, 0, __ATOMIC_RELAXED);
	registry_close(registry);
}

/* ----------------------------------------------------------------------- records --- */

const char *registry_key(enum beest_record_kind kind, const char *name)
{
	static char keys[8][BEEST_KEY_MAX + 1];
	static unsigned int turn;
	char *key = keys[turn++ % 8];

	snprintf(key, sizeof(keys[0]), "hb1/%s/%s/%s", registry_stage.job,
		 beest_record_row(kind)->word, name);
	return key;
}

int registry_put(struct beest_registry *registry, enum beest_record_kind kind, const char *name,
		 const char *text, uint64_t *serial)
{
	struct beest_registry_record record = {
		.kind = kind, .key = registry_key(kind, name), .body = text,
		.size = strlen(text), .serial = serial,
	};

	return beest_registry_put(registry, &record);
}

int registry_put_echo(struct beest_registry *registry, const char *name, uint64_t *serial)
{
	struct beest_registry_record record = {
		.kind = BEEST_KIND_QP, .key = registry_key(BEEST_KIND_QP, name), .body = "echo",
		.size = 4, .serial = serial, .flags = BEEST_RECORD_ECHO,
	};

	return beest_registry_put(registry, &record);
}

int registry_publish(struct beest_registry *registry, enum beest_record_kind kind,
		     const char *name, const char *text)
{
	struct beest_registry_record record = {
		.kind = kind, .key = registry_key(kind, name), .body = text, .size = strlen(text),
	};

	return beest_store_publish(registry, &record, REGISTRY_LIMIT(0));
}

int registry_look(struct beest_registry *registry, unsigned int flags)
{
	struct beest_look look = {
		.flags = flags, .deadline = beest_clock_deadline(BEEST_SECOND),
	};

	return beest_look_take(registry, &look);
}

struct fake_kv_server *registry_home(struct beest_registry *registry,
				     enum beest_record_kind kind, const char *name)
{
	size_t server = beest_kv_server_of(registry->kv, registry_key(kind, name));

	return fake_kv_server(beest_kv_text(registry->kv, server));
}

const char *registry_said(struct beest_registry *registry, enum beest_record_kind kind,
			  const char *name)
{
	static char said[512];
	const char *key = registry_key(kind, name);
	struct beest_record record;
	uint8_t opened[sizeof(said)];
	const void *bytes;
	size_t size;

	bytes = fake_kv_get(registry_home(registry, kind, name), key, &size);
	if (!bytes)
		return NULL;
	if (size > sizeof(opened))
		abort();
	memcpy(opened, bytes, size);
	if (beest_record_decode(registry->seal, opened, size, kind, key, &record) < 0)
		return "?";
	snprintf(said, sizeof(said), "%.*s", (int)record.size, (const char *)record.body);
	return said;
}
