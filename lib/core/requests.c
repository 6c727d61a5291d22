/* SPDX-License-Identifier: MIT */
/* requests.c - see requests.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/core/requests.h"

#define ROOM_FIRST 16

/* A list below this size is never long. */
#define LONG_MIN_SIZE 4096

/* An entry of one request, sealed; each further one adds: */
#define ENTRY_SIZE 96
#define ID_SIZE 12

/* No process needs to shorten a list that has at most so many bytes for each open request. */
#define ASKED_EASE (2 * ENTRY_SIZE)
#define ACCEPTED_EASE (2 * ID_SIZE)

void beest_requests_end(struct beest_requests *requests)
{
	free(requests->rows);
	free(requests->places);
	free(requests->named);
	memset(requests, 0, sizeof(*requests));
}

/* --------------------------------------------------------------------- the table --- */

/* The place of a request, or the free one where it belongs. */
static uint32_t *place_find(const struct beest_requests *requests,
			    const struct beest_request_id *id)
{
	size_t mask = requests->place_count - 1;
	uint64_t hash = (id->client + id->number) * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = (size_t)(hash >> 32) & mask;
	const struct beest_request_id *other;

	for (; requests->places[at]; at = (at + 1) & mask) {
		other = &requests->rows[requests->places[at] - 1].id;
		if (other->client == id->client && other->number == id->number)
			break;
	}

	return &requests->places[at];
}

struct beest_requests_row *beest_requests_find(const struct beest_requests *requests,
					       const struct beest_request_id *id)
{
	uint32_t place = requests->count ? *place_find(requests, id) : 0;

	return place ? &requests->rows[place - 1] : NULL;
}

struct beest_requests_row *beest_requests_named(const struct beest_requests *requests, size_t i)
{
	return &requests->rows[requests->named[i]];
}

static void places_fill(struct beest_requests *requests)
{
	size_t i;

	memset(requests->places, 0, requests->place_count * sizeof(*requests->places));
	for (i = 0; i < requests->count; i++)
		*place_find(requests, &requests->rows[i].id) = (uint32_t)i + 1;
}

static int requests_grow(struct beest_requests *requests)
{
	size_t room = requests->room ? 2 * requests->room : ROOM_FIRST;
	struct beest_requests_row *rows;
	uint32_t *places, *named;

	rows = realloc(requests->rows, room * sizeof(*rows));
	if (rows)
		requests->rows = rows;
	named = requests ? realloc(requests->named, room * sizeof(*named)) : NULL;
	if (named)
		requests->named = named;
	places = named ? realloc(requests->places, 2 * room * sizeof(*places)) : NULL;
	if (!places)
		return beest_fail(ENOMEM, "no memory for %zu requests of a service", room);

	requests->places = places;
	requests->room = room;
	requests->place_count = 2 * room;
	places_fill(requests);

	return 0;
}

/* The request with that id, new if it was never seen; NULL: no memory. */
static struct beest_requests_row *request_obtain(struct beest_requests *requests,
						 const struct beest_request_id *id)
{
	struct beest_requests_row *request = beest_requests_find(requests, id);

	if (request)
		return request;
	if (requests->count == requests->room && requests_grow(requests) < 0)
		return NULL;
	request = &requests->rows[requests->count++];
	memset(request, 0, sizeof(*request));
	request->id = *id;
	*place_find(requests, id) = (uint32_t)requests->count;

	return request;
}

/* Grows if few were forgotten, so that the room suffices for a while. */
void beest_requests_forget(struct beest_requests *requests, int64_t time)
{
	int64_t now = beest_clock_now();
	const struct beest_requests_row *request;
	size_t i, count = 0;

	requests->named_count = 0;
	for (i = 0; i < requests->count; i++) {
		request = &requests->rows[i];
		if (!beest_requests_is_open(request) &&
		    ((!request->accepted_here && !request->closed) ||
		     now - request->last_at >= time))
			continue;
		if (request->named)
			requests->named[requests->named_count++] = (uint32_t)count;
		requests->rows[count++] = *request;
	}
	requests->count = count;
	if (requests->room)
		places_fill(requests);
	if (count > requests->room / 2)
		requests_grow(requests);
}

/* ---------------------------------------------------------------------- the list --- */

bool beest_requests_listens_after(const struct beest_requests *requests, uint64_t since,
				  const struct beest_incarnation *incarnation)
{
	if (requests->since != since)
		return requests->since > since;

	return memcmp(&requests->listener, incarnation, sizeof(*incarnation)) > 0;
}

static void listener_see(struct beest_requests *requests, const struct beest_record *entry,
			 uint64_t since, bool stops)
{
	if (beest_requests_listens_after(requests, since, &entry->incarnation))
		return;
	requests->listens = true;
	requests->stopped = stops;
	requests->since = since;
	requests->rank = entry->rank;
	requests->listener = entry->incarnation;
}

static int entry_see(struct beest_requests *requests, const struct beest_record *entry)
{
	struct beest_service_body body;
	struct beest_requests_row *request;
	size_t i;

	if (beest_record_service_decode(entry, &body) < 0)
		return 0;
	if (body.word == BEEST_SERVICE_LISTENS)
		listener_see(requests, entry, body.since, false);
	else if (body.word == BEEST_SERVICE_STOPS)
		listener_see(requests, entry, body.since, true);
	for (i = 0; i < body.count; i++) {
		request = request_obtain(requests, &body.ids[i]);
		if (!request)
			return -ENOMEM;
		if (!request->named)
			requests->named[requests->named_count++] =
				  (uint32_t)(request - requests->rows);
		request->named = true;
		request->asks |= body.word == BEEST_SERVICE_ASKS;
		request->accepted |= body.word == BEEST_SERVICE_ACCEPTED;
		request->ended |= body.word == BEEST_SERVICE_ENDED;
	}

	return 0;
}

static void named_reset(struct beest_requests *requests)
{
	struct beest_requests_row *request;
	size_t i;

	for (i = 0; i < requests->named_count; i++) {
		request = beest_requests_named(requests, i);
		request->asks = request->accepted = request->ended = false;
	}
}

/* Leaves out those that the list does not name any longer. */
static void named_count(struct beest_requests *requests)
{
	size_t i, count = requests->named_count;
	struct beest_requests_row *request;
	int64_t now = beest_clock_now();
	bool accepted;

	requests->named_count = requests->asked = requests->accepted = 0;
	for (i = 0; i < count; i++) {
		request = beest_requests_named(requests, i);
		request->named = request->asks || request->accepted || request->ended;
		if (request->named)
			requests->named[requests->named_count++] = requests->named[i];
		request->again |= request->accepted && !request->accepted_here;
		if (!beest_requests_is_open(request))
			continue;
		request->last_at = now;
		accepted = request->accepted || request->accepted_here;
		requests->accepted += !request->closed && accepted;
		requests->asked += !request->closed && !accepted;
	}
}

int beest_requests_see(struct beest_requests *requests, const struct beest_list *list,
		       const struct beest_kv_value *value)
{
	struct beest_entry_reader reader;
	struct beest_record entry;
	int ret;

	named_reset(requests);
	requests->listens = requests->stopped = false;
	requests->bytes = requests->unread = value->bytes ? value->size : 0;
	beest_list_read(list, value, &reader);
	while ((ret = beest_entry_next(&reader, &entry)) > 0) {
		requests->unread -= reader.entry_size;
		if (entry_see(requests, &entry) < 0)
			return -ENOMEM;
	}
	named_count(requests);

	return ret;
}

/* What a shorter list needs, or a little more. */
static size_t list_need(const struct beest_requests *requests)
{
	size_t open = requests->asked + requests->accepted;

	return BEEST_MIN(requests->unread, BEEST_REQUESTS_UNREAD) + open * ID_SIZE +
	       (open / BEEST_SERVICE_IDS + 3) * ENTRY_SIZE;
}

/* The fuller a list is, the less it may have that no process needs. */
bool beest_requests_is_long(const struct beest_requests *requests)
{
	size_t need = list_need(requests);
	size_t most = requests->full ? requests->bytes : BEEST_VALUE_MAX;
	size_t ease = LONG_MIN_SIZE + BEEST_MIN(requests->unread, BEEST_REQUESTS_UNREAD) +
		      requests->asked * ASKED_EASE + requests->accepted * ACCEPTED_EASE;

	return need < most && requests->bytes > BEEST_MIN(ease, need + (most - need) / 2);
}
