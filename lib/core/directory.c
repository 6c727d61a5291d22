/* SPDX-License-Identifier: MIT */
/* directory.c - see directory.h */
#include "config.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/core/directory.h"
#include "lib/core/requests.h"

/* A list above this size may take no further entry, as this process could not store it again. */
#define LARGE (BEEST_VALUE_MAX - BEEST_ENTRY_MAX)

/* -------------------------------------------------------------------------- keys --- */

int beest_directory_check(const char *name)
{
	if (*name && !beest_text_not_key(name) && !strchr(name, '/') &&
	    strlen(name) <= BEEST_DIRECTORY_NAME_MAX)
		return 0;

	return beest_fail(EINVAL, "the service name %s is not 1 to %d printable ASCII characters "
			  "without blanks or '/'", BEEST_QUOTE(name), BEEST_DIRECTORY_NAME_MAX);
}

int beest_directory_find(struct beest_directory *directory, struct beest_registry *registry,
			 const char *name)
{
	char last[BEEST_DIRECTORY_NAME_MAX + sizeof("/list")];

	memset(directory, 0, sizeof(*directory));
	strcpy(directory->service, name);
	directory->registry = registry;
	snprintf(last, sizeof(last), "%s/list", name);

	return beest_list_start(&directory->list, registry, BEEST_KIND_SERVICE, last);
}

void beest_directory_end(struct beest_directory *directory)
{
	beest_list_end(&directory->list);
}

uint64_t beest_directory_client(const struct beest_incarnation *incarnation)
{
	uint64_t number;

	memcpy(&number, incarnation->bytes + BEEST_PROCESS_SIZE, sizeof(number));

	return be64toh(number);
}

struct beest_request_id beest_directory_id(const struct hartebeest_client *request)
{
	return (struct beest_request_id){ request->context, (uint32_t)request->number };
}

/* "SERVICE/CLIENT-NUMBER"; always fits. */
static int id_write(const struct beest_directory *directory, const struct beest_request_id *id,
		    char *text, size_t size)
{
	return snprintf(text, size, "%s/%016" PRIx64 "-%" PRIu32, directory->service, id->client,
			id->number);
}

/* Always fits: job, service and id are short enough. */
void beest_directory_key(const struct beest_directory *directory, const struct beest_request_id *id,
			 char key[BEEST_KEY_MAX + 1])
{
	char name[2 * BEEST_DIRECTORY_NAME_MAX];

	id_write(directory, id, name, sizeof(name));
	beest_registry_key(directory->registry, BEEST_KIND_REQUEST, name, key);
}

void beest_directory_ends(const struct beest_directory *directory,
			  const struct beest_request_id *id,
			  char client[HARTEBEEST_SERVICE_KEY], char server[HARTEBEEST_SERVICE_KEY])
{
	int size = id_write(directory, id, client, HARTEBEEST_SERVICE_KEY - sizeof("/client"));

	memcpy(server, client, (size_t)size);
	strcpy(client + size, "/client");
	strcpy(server + size, "/server");
}

bool beest_directory_is_own(const struct beest_directory *directory,
			    const struct beest_incarnation *author)
{
	return beest_process_is_context(author, beest_registry_incarnation(directory->registry));
}

/* -------------------------------------------------------------------------- the list --- */

void beest_directory_wait(struct beest_directory *directory, struct beest_wait *wait,
			  struct beest_wait_get *get,
			  int (*see_list)(void *data, const struct beest_kv_value *value),
			  void *data)
{
	*get = (struct beest_wait_get){
		.kind = BEEST_KIND_SERVICE, .key = directory->list.key, .name = directory->service,
		.see_list = see_list, .data = data,
	};
	wait->gets = get;
	wait->count = 1;
	wait->extras = directory->list.extras;
	wait->extra_count = BEEST_LIST_WRITES;
	wait->data = data;
}

int beest_directory_say(struct beest_directory *directory, const struct beest_service_body *body)
{
	uint8_t bytes[BEEST_SERVICE_MAX];

	return beest_list_say(&directory->list, bytes,
			      (size_t)beest_record_service_encode(body, bytes));
}

int beest_directory_say_one(struct beest_directory *directory, enum beest_service_word word,
			    const struct beest_request_id *id)
{
	const struct beest_service_body body = {
		.word = (uint8_t)word, .count = 1, .ids = { *id },
	};

	return beest_directory_say(directory, &body);
}

int beest_directory_see(struct beest_directory *directory, struct beest_requests *requests,
			const struct beest_kv_value *value)
{
	requests->full = beest_list_is_refused(&directory->list, value) || value->size > LARGE;

	return beest_requests_see(requests, &directory->list, value);
}

const char *beest_directory_full(const struct beest_directory *directory,
				 const struct beest_requests *requests,
				 char text[BEEST_DIRECTORY_FULL])
{
	bool large = requests->bytes > LARGE;

	text[0] = '\0';
	if (requests->full)
		snprintf(text, BEEST_DIRECTORY_FULL,
			 "its list is full: %zu bytes, for %zu requests that are not "
			 "over; %s%s%s", requests->bytes, requests->asked + requests->accepted,
			 large ? "end some by hartebeest_service_leave(), or use several services" :
			 "start server ",
			 large ? "" : beest_kv_text(directory->registry->kv,
						    directory->list.server),
			 large ? "" : " with a larger memcached -I");

	return text;
}

/* -------------------------------------------------------------------- compaction --- */

/* A list that is written again. */
struct shortening {
	struct beest_directory *directory;
	struct beest_requests requests;
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

/* Does this entry name the listener? */
static bool entry_is_needed(const struct shortening *s, const struct beest_record *entry)
{
	struct beest_service_body body;

	return beest_record_service_decode(entry, &body) == 0 &&
	       body.word == (s->requests.stopped ? BEEST_SERVICE_STOPS : BEEST_SERVICE_LISTENS) &&
	       body.since == s->requests.since &&
	       beest_process_is_context(&entry->incarnation, &s->requests.listener);
}

/* Those that were accepted, or those that were not, and are not over, many in one entry. */
static int open_write(struct shortening *s, bool accepted)
{
	struct beest_service_body body = {
		.word = accepted ? BEEST_SERVICE_ACCEPTED : BEEST_SERVICE_ASKS,
	};
	uint8_t bytes[BEEST_SERVICE_MAX], entry[BEEST_ENTRY_MAX];
	const struct beest_requests_row *request;
	size_t i;
	int size;

	for (i = 0; i < s->requests.named_count; i++) {
		request = beest_requests_named(&s->requests, i);
		if (beest_requests_is_open(request) && request->accepted == accepted)
			body.ids[body.count++] = request->id;
		if (!body.count ||
		    (body.count < BEEST_SERVICE_IDS && i < s->requests.named_count - 1))
			continue;
		size = beest_record_service_encode(&body, bytes);
		size = beest_list_encode(&s->directory->list, bytes, (size_t)size, entry);
		if (size < 0)
			return size;
		bytes_keep(s, entry, (size_t)size);
		body.count = 0;
	}

	return 0;
}

/* It is as long as before at most, and one more entry: some that asked may have been accepted. */
static int list_shorten(struct shortening *s, const struct beest_kv_value *value)
{
	const uint8_t *behind = value->bytes;	/* the last entry */
	struct beest_entry_reader reader;
	struct beest_record entry;
	int ret;

	s->bytes = malloc(value->size + BEEST_ENTRY_MAX);
	if (!s->bytes)
		return -ENOMEM;
	s->surplus = s->requests.unread - BEEST_MIN(s->requests.unread, BEEST_REQUESTS_UNREAD);
	beest_list_read(&s->directory->list, value, &reader);
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

void beest_directory_compact(struct beest_directory *directory,
			     void (*tell)(void *data, const struct beest_directory *directory,
					  struct beest_requests *requests), void *data)
{
	struct shortening s = { .directory = directory };
	struct beest_kv_value value = { 0 };
	int ret = beest_list_fetch(&directory->list, &value);

	if (ret == 0)
		ret = beest_requests_see(&s.requests, &directory->list, &value);
	if (ret == 0 && tell)
		tell(data, directory, &s.requests);
	if (ret == 0 && value.bytes && list_shorten(&s, &value) == 0)
		beest_list_replace(&directory->list, value.unique, s.bytes, s.size);
	beest_kv_values_free(&value, 1);
	beest_requests_end(&s.requests);
	free(s.bytes);
}
