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
	free(directory->shorter);
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

int beest_directory_failure(const struct beest_directory *directory)
{
	char why[BEEST_KV_WHY];
	int ret = beest_look_trouble(directory->registry, directory->list.server, UINT64_MAX, why);

	if (ret < 0)
		return beest_fail(-ret, "%s", why);

	return beest_fail(EAGAIN, "server %s has not taken that yet",
			  beest_kv_text(directory->registry->kv, directory->list.server));
}

/* ----------------------------------------------------------------------- appending --- */

int beest_directory_append(struct beest_directory *directory,
			   const struct beest_service_body *body)
{
	uint8_t bytes[BEEST_SERVICE_MAX];

	return beest_list_append(&directory->list, bytes,
				 (size_t)beest_record_service_encode(body, bytes));
}

int beest_directory_append_one(struct beest_directory *directory, enum beest_service_word word,
			       const struct beest_request_id *id)
{
	const struct beest_service_body body = {
		.word = (uint8_t)word, .count = 1, .ids = { *id },
	};

	return beest_directory_append(directory, &body);
}

/* Takes the requests that have reached @word, many in one entry; or those whose list lacks it. */
static int reached_write(struct beest_directory *directory, const struct beest_requests *requests,
			 enum beest_service_word word, bool lacking,
			 int (*write)(struct beest_directory *directory,
				      const struct beest_service_body *body))
{
	struct beest_service_body body = { .word = (uint8_t)word };
	const struct beest_requests_row *row;
	size_t i;
	int ret = 0;

	for (i = 0; i < requests->named_count && ret == 0; i++) {
		row = beest_requests_named(requests, i);
		if ((int)beest_requests_reached(row) != (int)word ||
		    (lacking && (int)row->listed == (int)word))
			continue;
		body.ids[body.count++] = row->id;
		if (body.count == BEEST_SERVICE_IDS) {
			ret = write(directory, &body);
			body.count = 0;
		}
	}

	return ret == 0 && body.count ? write(directory, &body) : ret;
}

int beest_directory_append_missing(struct beest_directory *directory,
				   const struct beest_requests *requests)
{
	int ret = reached_write(directory, requests, BEEST_SERVICE_ACCEPTED, true,
				beest_directory_append);

	return ret < 0 ? ret : reached_write(directory, requests, BEEST_SERVICE_ENDED, true,
					     beest_directory_append);
}

/* Room for the address of a server, in the words around it. */
#define HELP_SIZE 380

static void full_write(struct beest_directory *directory, const struct beest_requests *requests)
{
	char help[HELP_SIZE];

	directory->full[0] = '\0';
	if (!requests->full)
		return;
	if (beest_requests_is_long(requests))
		snprintf(help, sizeof(help), requests->shows == BEEST_SERVICE_LISTENS ?
			 "its listener makes room when it next accepts" :
			 "a process that listens to it makes room");
	else if (beest_requests_is_large(requests))
		snprintf(help, sizeof(help), "end some by hartebeest_service_leave(), or use "
			 "several services");
	else
		snprintf(help, sizeof(help), "start server %s with a larger memcached -I",
			 beest_kv_text(directory->registry->kv, directory->list.server));
	snprintf(directory->full, sizeof(directory->full), "its list is full: %zu bytes, for %zu "
		 "requests that are not over; %s", requests->bytes,
		 requests->asked + requests->accepted, help);
}

int beest_directory_see(struct beest_directory *directory, struct beest_requests *requests,
			const struct beest_kv_value *value)
{
	int ret = beest_requests_see(requests, &directory->list, value);

	requests->full = beest_list_is_refused(&directory->list, value) ||
			 beest_requests_is_large(requests);
	full_write(directory, requests);

	return ret;
}

/* ---------------------------------------------------------------------- shortening --- */

static void bytes_keep(struct beest_directory *directory, const uint8_t *bytes, size_t size)
{
	memcpy(directory->shorter + directory->shorter_size, bytes, size);
	directory->shorter_size += size;
}

static int ids_keep(struct beest_directory *directory, const struct beest_service_body *body)
{
	uint8_t bytes[BEEST_SERVICE_MAX], entry[BEEST_ENTRY_MAX];
	int size = beest_record_service_encode(body, bytes);

	size = beest_list_encode(&directory->list, bytes, (size_t)size, entry);
	if (size < 0)
		return size;
	bytes_keep(directory, entry, (size_t)size);

	return 0;
}

/* What is between the entries: may be of another version or secret.  Of much, the last counts. */
static int unread_keep(struct beest_directory *directory, const struct beest_kv_value *value)
{
	const uint8_t *behind = value->bytes;	/* the last entry */
	struct beest_entry_reader reader;
	struct beest_record entry;
	size_t surplus;
	int ret;

	beest_list_read(&directory->list, value, &reader);
	while ((ret = beest_entry_next(&reader, &entry)) > 0) {
		bytes_keep(directory, behind, (size_t)(reader.entry - behind));
		behind = reader.entry + reader.entry_size;
	}
	bytes_keep(directory, behind, (size_t)(value->bytes + value->size - behind));
	if (directory->shorter_size > BEEST_REQUESTS_UNREAD) {
		surplus = directory->shorter_size - BEEST_REQUESTS_UNREAD;
		directory->shorter_size = BEEST_REQUESTS_UNREAD;
		memmove(directory->shorter, directory->shorter + surplus, BEEST_REQUESTS_UNREAD);
	}

	return ret;
}

/*
 * It has as many bytes as before at most, and three more entries: that of this listener may be new,
 * and those of requests that asked or were accepted may be divided in another way.  What was
 * accepted is older, and a successor gets it first.
 */
void beest_directory_shorten(struct beest_directory *directory,
			     const struct beest_requests *requests, uint64_t since,
			     const struct beest_kv_value *value)
{
	const struct beest_service_body listens = {
		.word = BEEST_SERVICE_LISTENS, .since = since,
	};
	int ret;

	free(directory->shorter);
	directory->shorter_size = 0;
	directory->unique = value->unique;
	directory->shorter = value->bytes ? malloc(value->size + 3 * BEEST_ENTRY_MAX) : NULL;
	if (!directory->shorter)
		return;

	ret = unread_keep(directory, value);
	if (ret == 0)
		ret = ids_keep(directory, &listens);
	if (ret == 0)
		ret = reached_write(directory, requests, BEEST_SERVICE_ACCEPTED, false,
				    ids_keep);
	if (ret == 0)
		ret = reached_write(directory, requests, BEEST_SERVICE_ASKS, false, ids_keep);
	if (ret < 0) {
		free(directory->shorter);
		directory->shorter = NULL;
	}
}

static void shorter_store(struct beest_directory *directory)
{
	if (directory->shorter)
		beest_list_replace(&directory->list, directory->unique, directory->shorter,
				   directory->shorter_size);
	free(directory->shorter);
	directory->shorter = NULL;
}

/* -------------------------------------------------------------------------- looking --- */

struct slot {
	struct run *run;
	const struct beest_request_id *id;
	char key[BEEST_KEY_MAX + 1];
};

struct run {
	struct beest_directory *directory;
	const struct beest_directory_steps *steps;
	void *data;
	struct beest_directory_reads reads;
	struct slot slots[BEEST_DIRECTORY_READS];
	struct beest_wait_get gets[1 + BEEST_DIRECTORY_READS];	/* the list, then the slots */
	struct beest_wait wait;
};

static int run_see_list(void *data, const struct beest_kv_value *value)
{
	struct run *run = data;
	int ret = run->steps->see_list(run->data, value);

	run->gets[0].unmet = *run->directory->full ? run->directory->full : run->steps->unmet;

	return ret;
}

static int run_see_request(void *data, const struct beest_record *record)
{
	const struct slot *slot = data;

	return slot->run->steps->see_request(slot->run->data, slot->id, record);
}

static int run_next(struct run *run)
{
	struct beest_directory_reads *reads = &run->reads;
	size_t i;
	int ret;

	reads->count = 0;
	reads->hurry = false;
	ret = run->steps->next ? run->steps->next(run->data, reads) : 0;
	for (i = 0; i < reads->count; i++) {
		beest_directory_key(run->directory, &reads->ids[i], run->slots[i].key);
		run->gets[1 + i].answered = false;
	}
	run->wait.count = 1 + reads->count;
	run->wait.hurry = reads->hurry;

	return ret;
}

static int run_each(void *data)
{
	struct run *run = data;
	const struct beest_wait_get *get;
	size_t i;
	int ret = 0;

	shorter_store(run->directory);
	for (i = 0; i < run->reads.count && ret == 0; i++) {
		get = &run->gets[1 + i];
		if (get->answered && get->seen <= 0)
			ret = run->steps->see_request(run->data, &run->reads.ids[i], NULL);
	}

	return ret == 0 ? run_next(run) : ret;
}

static void run_start(struct run *run, const struct beest_limit *limit)
{
	const struct beest_list *list = &run->directory->list;
	const char *name = run->directory->service;
	size_t i;

	run->gets[0] = (struct beest_wait_get){
		.kind = BEEST_KIND_SERVICE, .key = list->key, .name = name,
		.see_list = run_see_list, .data = run,
	};
	for (i = 0; i < BEEST_DIRECTORY_READS; i++) {
		run->slots[i] = (struct slot){ .run = run, .id = &run->reads.ids[i] };
		run->gets[1 + i] = (struct beest_wait_get){
			.kind = BEEST_KIND_REQUEST, .key = run->slots[i].key, .name = name,
			.see = run_see_request, .data = &run->slots[i], .placed_as = list->key,
		};
	}
	run->wait = (struct beest_wait){
		.gets = run->gets, .most = 1 + BEEST_DIRECTORY_READS,
		.extras = run->directory->list.extras, .extra_count = BEEST_LIST_WRITES,
		.each = run_each, .data = run, .limit = limit, .uniques = run->steps->next != NULL,
	};
}

int beest_directory_run(struct beest_directory *directory, const struct beest_limit *limit,
			const struct beest_directory_steps *steps, void *data)
{
	struct run run = { .directory = directory, .steps = steps, .data = data };
	int ret;

	run_start(&run, limit);
	ret = run_next(&run);
	if (ret == 0)
		ret = beest_wait_run(directory->registry, &run.wait);
	if ((ret == -EAGAIN || ret == -ETIMEDOUT) && !run.wait.failing &&
	    (run.reads.hurry || beest_list_is_appending(&directory->list)))
		ret = beest_wait_run(directory->registry, &run.wait);
	directory->failing = run.wait.failing;

	return ret < 0 ? ret : 0;
}
