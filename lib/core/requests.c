/* SPDX-License-Identifier: MIT */
/* roster.c - see roster.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/core/roster.h"

#define ROOM_FIRST 16

/* A list below this size is never long. */
#define LONG_MIN_SIZE 4096

/* An entry of one request, sealed; each further one adds: */
#define ENTRY_SIZE 96
#define ID_SIZE 12

/* Nobody needs to shorten a list that has at most so many bytes for each open request. */
#define PENDING_EASE (2 * ENTRY_SIZE)
#define ACCEPTED_EASE (2 * ID_SIZE)

void beest_roster_end(struct beest_roster *roster)
{
	free(roster->requests);
	free(roster->places);
	free(roster->named);
	memset(roster, 0, sizeof(*roster));
}

/* --------------------------------------------------------------------- the table --- */

/* The place of a request, or the free one where it belongs. */
static uint32_t *place_find(const struct beest_roster *roster, const struct beest_request_id *id)
{
	size_t mask = roster->place_count - 1;
	uint64_t hash = (id->client + id->number) * UINT64_C(0x9e3779b97f4a7c15);
	size_t at = (size_t)(hash >> 32) & mask;
	const struct beest_request_id *other;

	for (; roster->places[at]; at = (at + 1) & mask) {
		other = &roster->requests[roster->places[at] - 1].id;
		if (other->client == id->client && other->number == id->number)
			break;
	}

	return &roster->places[at];
}

struct beest_roster_request *beest_roster_find(const struct beest_roster *roster,
					       const struct beest_request_id *id)
{
	uint32_t place = roster->count ? *place_find(roster, id) : 0;

	return place ? &roster->requests[place - 1] : NULL;
}

struct beest_roster_request *beest_roster_named(const struct beest_roster *roster, size_t i)
{
	return &roster->requests[roster->named[i]];
}

static void places_fill(struct beest_roster *roster)
{
	size_t i;

	memset(roster->places, 0, roster->place_count * sizeof(*roster->places));
	for (i = 0; i < roster->count; i++)
		*place_find(roster, &roster->requests[i].id) = (uint32_t)i + 1;
}

static int roster_grow(struct beest_roster *roster)
{
	size_t room = roster->room ? 2 * roster->room : ROOM_FIRST;
	struct beest_roster_request *requests;
	uint32_t *places, *named;

	requests = realloc(roster->requests, room * sizeof(*requests));
	if (requests)
		roster->requests = requests;
	named = requests ? realloc(roster->named, room * sizeof(*named)) : NULL;
	if (named)
		roster->named = named;
	places = named ? realloc(roster->places, 2 * room * sizeof(*places)) : NULL;
	if (!places)
		return beest_fail(ENOMEM, "no memory for %zu requests of a service", room);

	roster->places = places;
	roster->room = room;
	roster->place_count = 2 * room;
	places_fill(roster);

	return 0;
}

/* The request with that id, new if it was never seen; NULL: no memory. */
static struct beest_roster_request *roster_obtain(struct beest_roster *roster,
						  const struct beest_request_id *id)
{
	struct beest_roster_request *request = beest_roster_find(roster, id);

	if (request)
		return request;
	if (roster->count == roster->room && roster_grow(roster) < 0)
		return NULL;
	request = &roster->requests[roster->count++];
	memset(request, 0, sizeof(*request));
	request->id = *id;
	*place_find(roster, id) = (uint32_t)roster->count;

	return request;
}

/* Grows if few were forgotten, so that the room suffices for a while. */
void beest_roster_forget(struct beest_roster *roster, int64_t time)
{
	int64_t now = beest_clock_now();
	const struct beest_roster_request *request;
	size_t i, count = 0;

	roster->named_count = 0;
	for (i = 0; i < roster->count; i++) {
		request = &roster->requests[i];
		if (!beest_roster_is_open(request) &&
		    ((!request->taken && !request->over) || now - request->last_at >= time))
			continue;
		if (request->named)
			roster->named[roster->named_count++] = (uint32_t)count;
		roster->requests[count++] = *request;
	}
	roster->count = count;
	if (roster->room)
		places_fill(roster);
	if (count > roster->room / 2)
		roster_grow(roster);
}

/* ---------------------------------------------------------------------- the list --- */

bool beest_roster_comes_after(const struct beest_roster *roster, uint64_t since,
			      const struct beest_incarnation *incarnation)
{
	if (roster->since != since)
		return roster->since > since;

	return memcmp(&roster->listener, incarnation, sizeof(*incarnation)) > 0;
}

static void listener_see(struct beest_roster *roster, const struct beest_record *entry,
			 uint64_t since, bool stops)
{
	if (beest_roster_comes_after(roster, since, &entry->incarnation))
		return;
	roster->listens = true;
	roster->stopped = stops;
	roster->since = since;
	roster->rank = entry->rank;
	roster->listener = entry->incarnation;
}

static int entry_see(struct beest_roster *roster, const struct beest_record *entry)
{
	struct beest_service_body body;
	struct beest_roster_request *request;
	size_t i;

	if (beest_record_service_decode(entry, &body) < 0)
		return 0;
	if (body.word == BEEST_SERVICE_LISTENS)
		listener_see(roster, entry, body.since, false);
	else if (body.word == BEEST_SERVICE_STOPS)
		listener_see(roster, entry, body.since, true);
	for (i = 0; i < body.count; i++) {
		request = roster_obtain(roster, &body.ids[i]);
		if (!request)
			return -ENOMEM;
		if (!request->named)
			roster->named[roster->named_count++] =
				(uint32_t)(request - roster->requests);
		request->named = true;
		request->asks |= body.word == BEEST_SERVICE_ASKS;
		request->had |= body.word == BEEST_SERVICE_HAD;
		request->ended |= body.word == BEEST_SERVICE_ENDED;
	}

	return 0;
}

static void named_reset(struct beest_roster *roster)
{
	struct beest_roster_request *request;
	size_t i;

	for (i = 0; i < roster->named_count; i++) {
		request = beest_roster_named(roster, i);
		request->asks = request->had = request->ended = false;
	}
}

/* Leaves out those that the list does not name any longer. */
static void named_count(struct beest_roster *roster)
{
	size_t i, count = roster->named_count;
	struct beest_roster_request *request;
	int64_t now = beest_clock_now();

	roster->named_count = roster->pending = roster->accepted = 0;
	for (i = 0; i < count; i++) {
		request = beest_roster_named(roster, i);
		request->named = request->asks || request->had || request->ended;
		if (request->named)
			roster->named[roster->named_count++] = roster->named[i];
		request->again |= request->had && !request->taken;
		if (!beest_roster_is_open(request))
			continue;
		request->last_at = now;
		roster->accepted += !request->over && (request->had || request->taken);
		roster->pending += !request->over && !request->had && !request->taken;
	}
}

int beest_roster_see(struct beest_roster *roster, const struct beest_list *list,
		     const struct beest_kv_value *value)
{
	struct beest_entry_reader reader;
	struct beest_record entry;
	int ret;

	named_reset(roster);
	roster->listens = roster->stopped = false;
	roster->bytes = roster->unread = value->bytes ? value->size : 0;
	beest_list_read(list, value, &reader);
	while ((ret = beest_entry_next(&reader, &entry)) > 0) {
		roster->unread -= reader.entry_size;
		if (entry_see(roster, &entry) < 0)
			return -ENOMEM;
	}
	named_count(roster);

	return ret;
}

/* What a shorter list needs, or a little more. */
static size_t list_need(const struct beest_roster *roster)
{
	size_t open = roster->pending + roster->accepted;

	return BEEST_MIN(roster->unread, BEEST_ROSTER_UNREAD) + open * ID_SIZE +
	       (open / BEEST_SERVICE_IDS + 3) * ENTRY_SIZE;
}

/* The fuller a list is, the less it may have that nobody needs. */
bool beest_roster_is_long(const struct beest_roster *roster)
{
	size_t need = list_need(roster), most = roster->full ? roster->bytes : BEEST_VALUE_MAX;
	size_t ease = LONG_MIN_SIZE + BEEST_MIN(roster->unread, BEEST_ROSTER_UNREAD) +
		      roster->pending * PENDING_EASE + roster->accepted * ACCEPTED_EASE;

	return need < most && roster->bytes > BEEST_MIN(ease, need + (most - need) / 2);
}
