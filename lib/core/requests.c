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
	named = rows ? realloc(requests->named, room * sizeof(*named)) : NULL;
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
static struct beest_requests_row *row_obtain(struct beest_requests *requests,
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
		    (request->state < BEEST_REQUEST_ACCEPTED || now - request->last_at >= time))
			continue;
		if (request->listed)
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
			 const struct beest_service_body *body)
{
	if (beest_requests_listens_after(requests, body->since, &entry->incarnation))
		return;
	requests->shows = body->word;
	requests->since = body->since;
	requests->rank = entry->rank;
	requests->listener = entry->incarnation;
}

static int ids_see(struct beest_requests *requests, const struct beest_service_body *body)
{
	struct beest_requests_row *row;
	size_t i;

	for (i = 0; i < body->count; i++) {
		row = row_obtain(requests, &body->ids[i]);
		if (!row)
			return -ENOMEM;
		if (row->listed == BEEST_LISTED_NOT)
			requests->named[requests->named_count++] = (uint32_t)(row - requests->rows);
		row->listed = BEEST_MAX(row->listed, (enum beest_request_listed)body->word);
	}

	return 0;
}

static int entry_see(struct beest_requests *requests, const struct beest_record *entry)
{
	struct beest_service_body body;

	if (beest_record_service_decode(entry, &body) < 0)
		return 0;
	switch (body.word) {
	case BEEST_SERVICE_LISTENS:
	case BEEST_SERVICE_STOPS:
		listener_see(requests, entry, &body);
		return 0;
	case BEEST_SERVICE_ASKS:
	case BEEST_SERVICE_ACCEPTED:
	case BEEST_SERVICE_ENDED:
		return ids_see(requests, &body);
	default:
		return 0;
	}
}

enum beest_request_listed beest_requests_reached(const struct beest_requests_row *row)
{
	static const enum beest_request_listed by_state[] = {
		[BEEST_REQUEST_PENDING] = BEEST_LISTED_NOT,
		[BEEST_REQUEST_INHERITED] = BEEST_LISTED_ACCEPTED,
		[BEEST_REQUEST_ACCEPTED] = BEEST_LISTED_ACCEPTED,
		[BEEST_REQUEST_CLOSED] = BEEST_LISTED_ENDED,
	};

	return BEEST_MAX(row->listed, by_state[row->state]);
}

/* Leaves out those that the list does not name any longer. */
static void named_count(struct beest_requests *requests)
{
	size_t i, count = requests->named_count;
	struct beest_requests_row *row;
	int64_t now = beest_clock_now();

	requests->named_count = requests->asked = requests->accepted = 0;
	for (i = 0; i < count; i++) {
		row = beest_requests_named(requests, i);
		if (row->listed == BEEST_LISTED_BEFORE) {
			row->listed = BEEST_LISTED_NOT;
			continue;
		}
		requests->named[requests->named_count++] = requests->named[i];
		if (row->listed == BEEST_LISTED_ACCEPTED)
			row->state = BEEST_MAX(row->state, BEEST_REQUEST_INHERITED);
		if (beest_requests_is_open(row))
			row->last_at = now;
		requests->asked += beest_requests_reached(row) == BEEST_LISTED_ASKED;
		requests->accepted += beest_requests_reached(row) == BEEST_LISTED_ACCEPTED;
	}
}

int beest_requests_see(struct beest_requests *requests, const struct beest_list *list,
		       const struct beest_kv_value *value)
{
	struct beest_entry_reader reader;
	struct beest_record entry;
	size_t i;
	int ret;

	for (i = 0; i < requests->named_count; i++)
		beest_requests_named(requests, i)->listed = BEEST_LISTED_BEFORE;
	requests->shows = 0;
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

/*
 * The listener cannot see that a small server refuses entries of clients, so little surplus must
 * do.  It is a part of the whole, so what is stored again stays in proportion to what is appended.
 */
bool beest_requests_is_long(const struct beest_requests *requests)
{
	size_t need = list_need(requests), surplus = LONG_MIN_SIZE + need / 4;

	if (requests->full)
		surplus = 0;
	else if (need < BEEST_VALUE_MAX)
		surplus = BEEST_MIN(surplus, (BEEST_VALUE_MAX - need) / 2);

	return requests->bytes > need + surplus;
}
