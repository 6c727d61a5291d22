/* SPDX-License-Identifier: MIT */
/* home.c - see home.h */
#include "config.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/core/context.h"
#include "lib/core/home.h"
#include "lib/core/roster.h"

/* -------------------------------------------------------------------------- keys --- */

int beest_home_find(struct beest_home *home, struct hartebeest_context *hb, const char *name)
{
	char last[BEEST_HOME_NAME_MAX + sizeof("/list")];
	int ret;

	if (!*name || beest_text_not_key(name) || strchr(name, '/') ||
	    strlen(name) > BEEST_HOME_NAME_MAX)
		return beest_fail(EINVAL, "the service name %s is not 1 to %d printable ASCII "
				  "characters without blanks or '/'", BEEST_QUOTE(name),
				  BEEST_HOME_NAME_MAX);

	memset(home, 0, sizeof(*home));
	strcpy(home->service, name);
	ret = beest_context_need_registry(hb, BEEST_KIND_SERVICE, name);
	if (ret < 0)
		return ret;
	home->registry = hb->registry;
	snprintf(last, sizeof(last), "%s/list", name);

	return beest_list_start(&home->list, home->registry, BEEST_KIND_SERVICE, last);
}

void beest_home_end(struct beest_home *home)
{
	beest_list_end(&home->list);
}

uint64_t beest_home_client(const struct beest_incarnation *incarnation)
{
	uint64_t number;

	memcpy(&number, incarnation->bytes + BEEST_PROCESS_SIZE, sizeof(number));

	return be64toh(number);
}

struct beest_request_id beest_home_id(const struct hartebeest_client *request)
{
	return (struct beest_request_id){ request->context, (uint32_t)request->number };
}

/* "SERVICE/CLIENT-NUMBER"; always fits. */
static int id_write(const struct beest_home *home, const struct beest_request_id *id,
		    char *text, size_t size)
{
	return snprintf(text, size, "%s/%016" PRIx64 "-%" PRIu32, home->service, id->client,
			id->number);
}

/* Always fits: job, service and id are short enough. */
void beest_home_key(const struct beest_home *home, const struct beest_request_id *id,
		    char key[BEEST_KEY_MAX + 1])
{
	char name[2 * BEEST_HOME_NAME_MAX];

	id_write(home, id, name, sizeof(name));
	beest_registry_key(home->registry, BEEST_KIND_REQUEST, name, key);
}

void beest_home_ends(const struct beest_home *home, const struct beest_request_id *id,
		     char client[HARTEBEEST_SERVICE_KEY], char server[HARTEBEEST_SERVICE_KEY])
{
	int size = id_write(home, id, client, HARTEBEEST_SERVICE_KEY - sizeof("/client"));

	memcpy(server, client, (size_t)size);
	strcpy(client + size, "/client");
	strcpy(server + size, "/server");
}

bool beest_home_is_own(const struct beest_home *home, const struct beest_incarnation *author)
{
	return beest_process_is_context(author, beest_registry_incarnation(home->registry));
}

/* -------------------------------------------------------------------------- the list --- */

void beest_home_wait(struct beest_home *home, struct beest_wait *wait, struct beest_wait_get *get,
		     int (*see_list)(void *data, const struct beest_kv_value *value), void *data)
{
	*get = (struct beest_wait_get){
		.kind = BEEST_KIND_SERVICE, .key = home->list.key, .name = home->service,
		.see_list = see_list, .data = data,
	};
	wait->gets = get;
	wait->count = 1;
	wait->extras = home->list.extras;
	wait->extra_count = BEEST_LIST_WRITES;
	wait->data = data;
}

int beest_home_say(struct beest_home *home, const struct beest_service_body *body)
{
	uint8_t bytes[BEEST_SERVICE_MAX];

	return beest_list_say(&home->list, bytes,
			      (size_t)beest_record_service_encode(body, bytes));
}

int beest_home_say_one(struct beest_home *home, enum beest_service_word word,
		       const struct beest_request_id *id)
{
	const struct beest_service_body body = {
		.word = (uint8_t)word, .count = 1, .ids = { *id },
	};

	return beest_home_say(home, &body);
}

/* -------------------------------------------------------------------- compaction --- */

/* A list that is written anew: it never becomes longer. */
struct shortening {
	struct beest_home *home;
	struct beest_roster roster;
	uint8_t *bytes;
	size_t size;
};

/* Is this entry still needed as it is?  Of several that ask for one request, one is. */
static bool entry_is_needed(struct shortening *s, const struct beest_record *entry)
{
	struct beest_roster_request *request;
	struct beest_service_body body;
	bool needed = false;
	size_t i;

	if (beest_record_service_decode(entry, &body) < 0)
		return false;
	if (body.word == (s->roster.stopped ? BEEST_SERVICE_STOPS : BEEST_SERVICE_LISTENS))
		return body.since == s->roster.since &&
		       beest_process_is_context(&entry->incarnation, &s->roster.listener);
	for (i = 0; body.word == BEEST_SERVICE_ASKS && i < body.count; i++) {
		request = beest_roster_find(&s->roster, &body.ids[i]);
		needed |= request && !request->ended && !request->had && !request->taken;
		if (request)
			request->taken = true;
	}

	return needed;
}

/* Those that were had and are not over, many in one entry. */
static int had_write(struct shortening *s)
{
	struct beest_service_body body = { .word = BEEST_SERVICE_HAD };
	const struct beest_roster_request *request = s->roster.requests;
	const struct beest_roster_request *end = request + s->roster.count;
	uint8_t bytes[BEEST_SERVICE_MAX], entry[BEEST_ENTRY_MAX];
	int size;

	for (; request < end; request++) {
		if (request->had && !request->ended)
			body.ids[body.count++] = request->id;
		if (!body.count || (body.count < BEEST_SERVICE_IDS && request < end - 1))
			continue;
		size = beest_record_service_encode(&body, bytes);
		size = beest_list_encode(&s->home->list, bytes, (size_t)size, entry);
		if (size < 0 || s->size + (size_t)size > s->roster.bytes)
			return -EMSGSIZE;
		memcpy(s->bytes + s->size, entry, (size_t)size);
		s->size += (size_t)size;
		body.count = 0;
	}

	return 0;
}

static int list_shorten(struct shortening *s, const struct beest_kv_value *value)
{
	struct beest_entry_reader reader;
	struct beest_record entry;
	int ret = beest_roster_see(&s->roster, &s->home->list, value);

	if (ret < 0 || s->roster.strangers || !value->bytes)
		return ret < 0 ? ret : -EAGAIN;
	s->bytes = malloc(value->size);
	if (!s->bytes)
		return -ENOMEM;
	beest_list_read(&s->home->list, value, &reader);
	while ((ret = beest_entry_next(&reader, &entry)) > 0)
		if (entry_is_needed(s, &entry)) {
			memcpy(s->bytes + s->size, reader.entry, reader.entry_size);
			s->size += reader.entry_size;
		}

	return ret < 0 ? ret : had_write(s);
}

void beest_home_compact(struct beest_home *home)
{
	struct shortening s = { .home = home };
	struct beest_kv_value value = { 0 };

	if (beest_list_fetch(&home->list, &value) == 0 && list_shorten(&s, &value) == 0)
		beest_list_replace(&home->list, value.unique, s.bytes, s.size);
	beest_kv_values_free(&value, 1);
	beest_roster_end(&s.roster);
	free(s.bytes);
}
