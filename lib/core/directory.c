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
#include "lib/core/home.h"
#include "lib/core/roster.h"

/* A list above this size may take no further entry, as this process could not store it again. */
#define LARGE (BEEST_VALUE_MAX - BEEST_ENTRY_MAX)

/* -------------------------------------------------------------------------- keys --- */

int beest_home_check(const char *name)
{
	if (*name && !beest_text_not_key(name) && !strchr(name, '/') &&
	    strlen(name) <= BEEST_HOME_NAME_MAX)
		return 0;

	return beest_fail(EINVAL, "the service name %s is not 1 to %d printable ASCII characters "
			  "without blanks or '/'", BEEST_QUOTE(name), BEEST_HOME_NAME_MAX);
}

int beest_home_find(struct beest_home *home, struct beest_registry *registry, const char *name)
{
	char last[BEEST_HOME_NAME_MAX + sizeof("/list")];

	memset(home, 0, sizeof(*home));
	strcpy(home->service, name);
	home->registry = registry;
	snprintf(last, sizeof(last), "%s/list", name);

	return beest_list_start(&home->list, registry, BEEST_KIND_SERVICE, last);
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

int beest_home_see(struct beest_home *home, struct beest_roster *roster,
		   const struct beest_kv_value *value)
{
	roster->full = beest_list_is_refused(&home->list, value) || value->size > LARGE;

	return beest_roster_see(roster, &home->list, value);
}

const char *beest_home_full(const struct beest_home *home, const struct beest_roster *roster,
			    char text[BEEST_HOME_FULL])
{
	bool large = roster->bytes > LARGE;

	text[0] = '\0';
	if (roster->full)
		snprintf(text, BEEST_HOME_FULL, "its list is full: %zu bytes, for %zu requests "
			 "that are not over; %s%s%s", roster->bytes,
			 roster->pending + roster->accepted,
			 large ? "end some by hartebeest_service_leave(), or use several services" :
			 "start server ",
			 large ? "" : beest_kv_text(home->registry->kv, home->list.server),
			 large ? "" : " with a larger memcached -I");

	return text;
}

/* -------------------------------------------------------------------- compaction --- */

/* A list that is written anew. */
struct shortening {
	struct beest_home *home;
	struct beest_roster roster;
	uint8_t *bytes;
	size_t size;
	size_t surplus;			/* bytes to be dropped of those that cannot be read */
};

static void bytes_keep(struct shortening *s, const uint8_t *bytes, size_t size)
{
	memcpy(s->bytes + s->size, bytes, size);
	s->size += size;
}

/* What is between two entries: the first bytes are dropped if there are too many. */
static void unread_keep(struct shortening *s, const uint8_t *bytes, const uint8_t *end)
{
	size_t size = (size_t)(end - bytes), dropped = BEEST_MIN(size, s->surplus);

	s->surplus -= dropped;
	bytes_keep(s, bytes + dropped, size - dropped);
}

/* Does this entry say who listens? */
static bool entry_is_needed(const struct shortening *s, const struct beest_record *entry)
{
	struct beest_service_body body;

	return beest_record_service_decode(entry, &body) == 0 &&
	       body.word == (s->roster.stopped ? BEEST_SERVICE_STOPS : BEEST_SERVICE_LISTENS) &&
	       body.since == s->roster.since &&
	       beest_process_is_context(&entry->incarnation, &s->roster.listener);
}

/* Those that were had, or those that were not, and are not over, many in one entry. */
static int open_write(struct shortening *s, bool had)
{
	struct beest_service_body body = {
		.word = had ? BEEST_SERVICE_HAD : BEEST_SERVICE_ASKS,
	};
	uint8_t bytes[BEEST_SERVICE_MAX], entry[BEEST_ENTRY_MAX];
	const struct beest_roster_request *request;
	size_t i;
	int size;

	for (i = 0; i < s->roster.named_count; i++) {
		request = beest_roster_named(&s->roster, i);
		if (beest_roster_is_open(request) && request->had == had)
			body.ids[body.count++] = request->id;
		if (!body.count ||
		    (body.count < BEEST_SERVICE_IDS && i < s->roster.named_count - 1))
			continue;
		size = beest_record_service_encode(&body, bytes);
		size = beest_list_encode(&s->home->list, bytes, (size_t)size, entry);
		if (size < 0)
			return size;
		bytes_keep(s, entry, (size_t)size);
		body.count = 0;
	}

	return 0;
}

/* It is as long as before at most, and one more entry: some that asked may have been had. */
static int list_shorten(struct shortening *s, const struct beest_kv_value *value)
{
	const uint8_t *behind = value->bytes;	/* the last entry */
	struct beest_entry_reader reader;
	struct beest_record entry;
	int ret;

	s->bytes = malloc(value->size + BEEST_ENTRY_MAX);
	if (!s->bytes)
		return -ENOMEM;
	s->surplus = s->roster.unread - BEEST_MIN(s->roster.unread, BEEST_ROSTER_UNREAD);
	beest_list_read(&s->home->list, value, &reader);
	while ((ret = beest_entry_next(&reader, &entry)) > 0) {
		unread_keep(s, behind, reader.entry);
		if (entry_is_needed(s, &entry))
			bytes_keep(s, reader.entry, reader.entry_size);
		behind = reader.entry + reader.entry_size;
	}
	unread_keep(s, behind, value->bytes + value->size);
	if (ret == 0)
		ret = open_write(s, false);

	return ret < 0 ? ret : open_write(s, true);
}

void beest_home_compact(struct beest_home *home,
			void (*tell)(void *data, const struct beest_home *home,
				     struct beest_roster *roster), void *data)
{
	struct shortening s = { .home = home };
	struct beest_kv_value value = { 0 };
	int ret = beest_list_fetch(&home->list, &value);

	if (ret == 0)
		ret = beest_roster_see(&s.roster, &home->list, &value);
	if (ret == 0 && tell)
		tell(data, home, &s.roster);
	if (ret == 0 && value.bytes && list_shorten(&s, &value) == 0)
		beest_list_replace(&home->list, value.unique, s.bytes, s.size);
	beest_kv_values_free(&value, 1);
	beest_roster_end(&s.roster);
	free(s.bytes);
}
