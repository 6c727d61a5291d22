/* SPDX-License-Identifier: MIT */
/* home.c - see home.h */
#include "config.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/core/context.h"
#include "lib/core/home.h"

static uint64_t bytes_number(const uint8_t *bytes)
{
	uint64_t number;

	memcpy(&number, bytes, sizeof(number));

	return be64toh(number);
}

static int home_key(const struct beest_home *home, const char *last, char key[BEEST_KEY_MAX + 1])
{
	char name[2 * BEEST_HOME_NAME_MAX];

	snprintf(name, sizeof(name), "%s/%s", home->service, last);

	return beest_registry_key(home->registry, BEEST_KIND_REQUEST, name, key);
}

/* Always fits: job, service and numbers are short enough. */
void beest_home_key(const struct beest_home *home, uint64_t epoch, uint64_t number,
		    char key[BEEST_KEY_MAX + 1])
{
	char last[48];

	snprintf(last, sizeof(last), "%016" PRIx64 "/%" PRIu64, epoch, number);
	home_key(home, last, key);
}

int beest_home_find(struct beest_home *home, struct hartebeest_context *hb, const char *name)
{
	int ret;

	if (!*name || beest_text_not_key(name) || strchr(name, '/') ||
	    strlen(name) > BEEST_HOME_NAME_MAX)
		return beest_fail(EINVAL, "the service name %s is not 1 to %d printable ASCII "
				  "characters without blanks or '/'", BEEST_QUOTE(name),
				  BEEST_HOME_NAME_MAX);

	strcpy(home->service, name);
	ret = beest_context_need_registry(hb, BEEST_KIND_LISTENER, name);
	if (ret < 0)
		return ret;
	home->registry = hb->registry;
	ret = home_key(home, "listener", home->listener_key);
	if (ret == 0)
		ret = home_key(home, "count", home->count_key);
	if (ret == 0)
		home->server = beest_kv_server_of(home->registry->kv, home->listener_key);

	return ret;
}

uint64_t beest_home_epoch(const struct beest_home *home)
{
	uint8_t bytes[BEEST_EPOCH_SIZE];

	if (!beest_look_epoch(home->registry, home->server, bytes))
		return 0;

	return bytes_number(bytes);
}

void beest_home_ends(const struct beest_home *home, const struct beest_incarnation *author,
		     uint32_t id, char client[HARTEBEEST_SERVICE_KEY],
		     char server[HARTEBEEST_SERVICE_KEY])
{
	int room = HARTEBEEST_SERVICE_KEY - (int)sizeof("/client");
	int size = snprintf(client, (size_t)room, "%s/%016" PRIx64 "-%" PRIu32, home->service,
			    bytes_number(author->bytes + BEEST_PROCESS_SIZE), id);

	memcpy(server, client, (size_t)size);
	strcpy(client + size, "/client");
	strcpy(server + size, "/server");
}

bool beest_home_is_own(const struct beest_home *home, const struct beest_record *record)
{
	return beest_process_is_context(&record->incarnation,
					beest_registry_incarnation(home->registry));
}

/* ---------------------------------------------------------------------------- writes --- */

struct beest_look_extra beest_home_write(const struct beest_home *home, enum beest_kv_verb verb,
					 const char *key, const void *value, size_t size)
{
	return (struct beest_look_extra){
		.server = home->server,
		.write = {
			.verb = verb, .key = key, .value = value, .size = size,
			.ttl = beest_lease_ttl(home->registry->leases),
		},
	};
}

int beest_home_close(const struct beest_home *home, enum beest_kv_verb verb, const char *key,
		     uint8_t bytes[BEEST_RECORD_EMPTY_MAX], struct beest_look_extra *extra)
{
	const struct beest_record record = {
		.kind = BEEST_KIND_REQUEST, .flags = BEEST_RECORD_CLOSED,
		.incarnation = home->registry->presence.incarnation,
		.rank = home->registry->presence.rank,
	};
	int size = beest_record_encode(home->registry->seal, &record, key, bytes,
				       BEEST_RECORD_EMPTY_MAX);

	if (size < 0)
		return size;
	*extra = beest_home_write(home, verb, key, bytes, (size_t)size);
	extra->write.ttl = BEEST_HOME_CLOSED_TTL;

	return 0;
}

/* -------------------------------------------------------------------------- one look --- */

struct looking {
	const struct beest_home *home;
	struct beest_home_sight *sight;
	struct beest_look_extra extras[2];	/* the last of @count ends the wait */
	size_t count;
};

static int see_listener(void *data, const struct beest_record *record)
{
	struct looking *looking = data;
	struct beest_home_sight *sight = looking->sight;

	sight->another = !beest_home_is_own(looking->home, record);
	if (beest_record_listener_decode(record, &sight->body) < 0)
		memset(&sight->body, 0, sizeof(sight->body));

	return 0;
}

static int looking_each(void *data)
{
	const struct looking *looking = data;

	return looking->extras[looking->count - 1].done;
}

int beest_home_look(const struct beest_home *home, bool draws, struct beest_home_sight *sight,
		    const struct beest_limit *limit)
{
	struct looking looking = { .home = home, .sight = sight, .count = 1 + draws };
	struct beest_wait_get get = {
		.kind = BEEST_KIND_LISTENER, .key = home->listener_key, .name = home->service,
		.see = see_listener, .data = &looking,
	};
	struct beest_wait wait = {
		.gets = &get, .count = 1, .extras = looking.extras, .extra_count = looking.count,
		.each = looking_each, .data = &looking, .limit = limit,
	};
	int ret;

	memset(sight, 0, sizeof(*sight));
	looking.extras[0] = beest_home_write(home, BEEST_KV_ADD, home->count_key, "0", 1);
	looking.extras[1] = beest_home_write(home, BEEST_KV_INCR, home->count_key, NULL, 0);
	looking.extras[1].write.answered = true;
	ret = beest_wait_run(home->registry, &wait);
	sight->drawn = looking.extras[1].write.number;
	if (sight->body.epoch != beest_home_epoch(home))
		sight->body = (struct beest_listener_body){ .since = sight->body.since };

	return ret;
}
