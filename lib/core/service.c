/* SPDX-License-Identifier: MIT */
/*
 * service.c - see service.h
 *
 * A request is a record under a number: its client takes the next one from a counter and
 * adds the record, so that no two clients have the same number whatever the counter says.
 * The listener reads the numbers in their order.  One that was given out and stays absent
 * it closes, by an add as well: either the client has it or nobody ever will.
 *
 * All keys of a service are on the server of its listener's record.  The epoch of that
 * server is part of a request's key: when all is lost, numbers begin at 1 again, and each
 * client appends its requests once more, with the place where they stood before.
 */
#include "config.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/core/context.h"
#include "lib/core/service.h"
#include "lib/rendezvous/wait.h"
#include "lib/verbs/qp.h"

#define NAME_MAX_BYTES 64

/* So many numbers a listener asks for in each look, ... */
#define SLOTS 16
/* ... out of so many: the bits of taken. */
#define WINDOW 64

/* A number that was given out so long ago and is absent is closed. */
#define GAP_TIME BEEST_SECOND

/* How long a closed number stays; a client gives a number up that is half as old. */
#define CLOSED_TTL 60
#define CLAIM_TIME (CLOSED_TTL / 2 * BEEST_SECOND)

struct place {
	struct beest_registry *registry;
	size_t server;
	char service[NAME_MAX_BYTES + 1];
	char listener_key[BEEST_KEY_MAX + 1];
	char count_key[BEEST_KEY_MAX + 1];
};

/* A service that this context listens to. */
struct service {
	struct beest_node node;
	uint64_t serial;
	struct beest_listener_body now;		/* what this process has had */
	struct beest_listener_body former;	/* what the one before it had, of the same epoch */
	struct beest_listener_body *past;	/* what this process had in former epochs */
	size_t past_count;
	bool delivered;				/* any, in this epoch */
	uint64_t given;				/* the last number that was given out, ... */
	int64_t given_at;			/* ... when it was looked for; 0: never */
	uint64_t old;				/* the last one given out GAP_TIME before that */
};

/* A request of this context. */
struct beest_standing {
	struct beest_standing *next;
	struct place place;
	struct hartebeest_request request;	/* as the client sees it; no key: has left */
	uint64_t serial;
	uint32_t id;
};

/* ------------------------------------------------------------------ keys and places --- */

static uint64_t bytes_number(const uint8_t *bytes)
{
	uint64_t number;

	memcpy(&number, bytes, sizeof(number));

	return be64toh(number);
}

static int place_key(const struct place *place, const char *last, char key[BEEST_KEY_MAX + 1])
{
	char name[2 * NAME_MAX_BYTES];

	snprintf(name, sizeof(name), "%s/%s", place->service, last);

	return beest_registry_key(place->registry, BEEST_KIND_REQUEST, name, key);
}

/* The epoch is part of a request's key; the rest is short enough for any job. */
static void number_key(const struct place *place, uint64_t epoch, uint64_t number,
		       char key[BEEST_KEY_MAX + 1])
{
	char last[48];

	snprintf(last, sizeof(last), "%016" PRIx64 "/%" PRIu64, epoch, number);
	place_key(place, last, key);
}

static int place_find(struct place *place, struct hartebeest_context *hb, const char *name)
{
	int ret;

	if (!*name || beest_text_not_key(name) || strchr(name, '/') ||
	    strlen(name) > NAME_MAX_BYTES)
		return beest_fail(EINVAL, "the name of service %s is not 1 to %d printable ASCII "
				  "characters without blanks and '/'", BEEST_QUOTE(name),
				  NAME_MAX_BYTES);

	strcpy(place->service, name);
	ret = beest_context_registry(hb, &place->registry);
	if (ret == 0)
		ret = place_key(place, "listener", place->listener_key);
	if (ret == 0)
		ret = place_key(place, "count", place->count_key);
	if (ret == 0)
		place->server = beest_kv_server_of(place->registry->kv, place->listener_key);

	return ret;
}

/* 0: not known yet. */
static uint64_t place_epoch(const struct place *place)
{
	uint8_t bytes[BEEST_EPOCH_SIZE];

	if (!beest_look_epoch(place->registry, place->server, bytes))
		return 0;

	return bytes_number(bytes);
}

/* A write that goes with a look; @ttl 0: the option's. */
static struct beest_look_extra place_write(const struct place *place, enum beest_kv_verb verb,
					   const char *key, const void *value, size_t size,
					   int64_t ttl)
{
	return (struct beest_look_extra){
		.server = place->server,
		.write = {
			.verb = verb, .key = key, .value = value, .size = size,
			.ttl = ttl ? ttl : beest_lease_ttl(place->registry->leases),
		},
	};
}

static bool is_own(const struct place *place, const struct beest_record *record)
{
	return memcmp(&record->incarnation, beest_registry_incarnation(place->registry),
		      sizeof(record->incarnation)) == 0;
}

/* Unlike its place, the keys of a request's two ends never change. */
static void ends_name(const struct place *place, const struct beest_incarnation *author,
		      uint32_t id, char client[HARTEBEEST_SERVICE_KEY],
		      char server[HARTEBEEST_SERVICE_KEY])
{
	int room = HARTEBEEST_SERVICE_KEY - (int)sizeof("/client");
	int size = snprintf(client, (size_t)room, "%s/%016" PRIx64 "-%" PRIu32, place->service,
			    bytes_number(author->bytes + BEEST_PROCESS_SIZE), id);

	memcpy(server, client, (size_t)size);
	strcpy(client + size, "/client");
	strcpy(server + size, "/server");
}

/* ---------------------------------------------------------- what a listener has had --- */

static bool window_has(const struct beest_listener_body *window, uint64_t number)
{
	return number < window->next || (number - window->next < WINDOW &&
					 window->taken >> (number - window->next) & 1);
}

static void window_take(struct beest_listener_body *window, uint64_t number)
{
	window->taken |= UINT64_C(1) << (number - window->next);
	for (; window->taken & 1; window->taken >>= 1)
		window->next++;
}

/* One reading of the listener's record, by which the server shows that it answers. */
struct sight {
	const struct place *place;
	struct beest_look_extra extras[2];	/* go along; the last of them ends the wait */
	size_t count;
	struct beest_listener_body body;	/* zero: none of this epoch */
	bool own;
};

static int see_listener(void *data, const struct beest_record *record)
{
	struct sight *sight = data;

	sight->own = is_own(sight->place, record);
	if (beest_record_listener_decode(record, &sight->body) < 0)
		memset(&sight->body, 0, sizeof(sight->body));

	return 0;
}

static int sight_each(void *data)
{
	const struct sight *sight = data;

	return sight->extras[sight->count - 1].done;
}

/* Counts up as well where @draws; the counter is added where it is not there. */
static int listener_look(struct sight *sight, const struct place *place, bool draws,
			 const struct beest_limit *limit)
{
	struct beest_wait_get get = {
		.kind = BEEST_KIND_LISTENER, .key = place->listener_key, .name = place->service,
		.see = see_listener, .data = sight,
	};
	struct beest_wait wait = {
		.gets = &get, .count = 1, .extras = sight->extras, .extra_count = 1 + draws,
		.each = sight_each, .data = sight, .limit = limit,
	};
	int ret;

	memset(sight, 0, sizeof(*sight));
	sight->place = place;
	sight->count = wait.extra_count;
	sight->extras[0] = place_write(place, BEEST_KV_ADD, place->count_key, "0", 1, 0);
	sight->extras[1] = place_write(place, BEEST_KV_INCR, place->count_key, NULL, 0, 0);
	ret = beest_wait_run(place->registry, &wait);
	if (sight->body.epoch != place_epoch(place))
		memset(&sight->body, 0, sizeof(sight->body));

	return ret;
}

/* ------------------------------------------------------------------------ appending --- */

struct appending {
	struct beest_standing *standing;
	uint64_t epoch, number;
	bool ours;
	char key[BEEST_KEY_MAX + 1];
	struct beest_wait_get get;
};

/* Neither the counter nor what a listener has had already may be behind the other. */
static int number_draw(struct appending *a, const struct beest_limit *limit)
{
	const struct place *place = &a->standing->place;
	struct sight sight;
	int ret;

	ret = listener_look(&sight, place, true, limit);
	if (ret == -EBADMSG)		/* what is there cannot be counted */
		ret = listener_look(&sight, place, false, limit);
	a->number = BEEST_MAX(sight.extras[1].write.number, sight.body.next);
	a->number += !a->number;	/* numbers begin at 1 */
	a->epoch = place_epoch(place);

	return ret;
}

static size_t standing_encode(const struct beest_standing *standing,
			      uint8_t bytes[BEEST_REQUEST_MAX])
{
	const struct hartebeest_request *request = &standing->request;
	struct beest_request_body body = {
		.past_epoch = request->epoch, .past_number = request->number,
		.id = standing->id, .pid = request->pid, .length = (uint16_t)request->length,
	};

	memcpy(body.host, request->host, sizeof(body.host));
	memcpy(body.data, request->data, request->length);

	return (size_t)beest_record_request_encode(&body, bytes);
}

static int see_claim(void *data, const struct beest_record *record)
{
	struct appending *a = data;
	struct beest_request_body body;

	a->ours = is_own(&a->standing->place, record) &&
		  beest_record_request_decode(record, &body) == 0 && body.id == a->standing->id;

	return 1;
}

/* What is there and no record has the number all the same. */
static int claim_each(void *data)
{
	const struct appending *a = data;

	return a->get.seen < 0;
}

/*
 * Adds the record under the number; a->ours tells whether that was still free.  The counter
 * is set behind another one's number, so that not all clients try it.
 */
static int number_claim(struct appending *a, bool counts, const struct beest_limit *limit)
{
	const struct place *place = &a->standing->place;
	struct beest_look_extra extras[2];
	struct beest_wait wait = {
		.gets = &a->get, .count = 1, .extras = extras, .extra_count = 1 + counts,
		.each = claim_each, .data = a, .limit = limit,
	};
	uint8_t body[BEEST_REQUEST_MAX], *bytes;
	struct beest_registry_record record = {
		.kind = BEEST_KIND_REQUEST, .key = a->key, .body = body,
		.size = standing_encode(a->standing, body),
	};
	char number[24];
	int ret;

	number_key(place, a->epoch, a->number, a->key);
	ret = beest_registry_encode(place->registry, &record, &bytes);
	if (ret < 0)
		return ret;

	a->ours = false;
	a->get = (struct beest_wait_get){
		.kind = BEEST_KIND_REQUEST, .key = a->key, .name = place->service,
		.see = see_claim, .data = a, .placed_as = place->listener_key,
	};
	extras[0] = place_write(place, BEEST_KV_ADD, a->key, bytes, (size_t)ret, 0);
	ret = snprintf(number, sizeof(number), "%" PRIu64, a->number);
	extras[1] = place_write(place, BEEST_KV_SET, place->count_key, number, (size_t)ret, 0);
	ret = beest_wait_run(place->registry, &wait);
	free(bytes);

	return ret;
}

/* From now on the registry keeps it there. */
static int standing_keep(struct appending *a)
{
	struct beest_standing *standing = a->standing;
	uint8_t body[BEEST_REQUEST_MAX];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_REQUEST, .key = a->key, .placed_as = standing->place.listener_key,
		.body = body, .size = standing_encode(standing, body),
		.serial = &standing->serial, .stored = true,
	};
	int ret = beest_registry_put(standing->place.registry, &record);

	standing->request.epoch = a->epoch;
	standing->request.number = a->number;

	return ret;
}

/*
 * Draws a number and claims it, or the next one that nobody has; from the beginning where
 * that took so long that a closing may be forgotten, or the server has lost all.
 */
static int standing_append(struct beest_standing *standing, const struct beest_limit *limit)
{
	const struct place *place = &standing->place;
	struct appending a = { .standing = standing };
	struct beest_limit end;
	int ret;

	ret = beest_presence_announce(place->registry);
	while (ret == 0) {
		ret = number_draw(&a, limit);
		end = beest_limit_within(limit, CLAIM_TIME);
		if (ret == 0)
			ret = number_claim(&a, false, &end);
		while (ret == 0 && !a.ours && beest_limit_left(&end)) {
			a.number++;
			ret = number_claim(&a, true, &end);
		}
		if (ret == 0 && a.ours && place_epoch(place) == a.epoch)
			return standing_keep(&a);
		if (!beest_limit_left(limit))
			return ret ? ret : beest_fail(beest_limit_errno(limit), "service '%s': "
						      "another client was always faster",
						      place->service);
		if (ret == -ETIMEDOUT || beest_kv_transient(ret))
			ret = 0;
	}

	return ret;
}

/* ---------------------------------------------------------------------- a client --- */

void beest_services_start(struct beest_services *services)
{
	pthread_mutex_init(&services->lock, NULL);
}

void beest_services_end(struct beest_services *services)
{
	struct beest_standing *standing;

	while ((standing = services->standing)) {
		services->standing = standing->next;
		free(standing);
	}
	pthread_mutex_destroy(&services->lock);
}

/* Who asks, what for, and where both ends will be. */
static void standing_fill(struct beest_standing *standing, const void *data, size_t length)
{
	struct hartebeest_request *request = &standing->request;
	const struct beest_presence *presence = &standing->place.registry->presence;

	request->rank = presence->rank;
	request->pid = (uint32_t)getpid();
	request->length = (uint32_t)length;
	memcpy(request->host, presence->self.host, sizeof(request->host));
	if (length)
		memcpy(request->data, data, length);
	ends_name(&standing->place, &presence->incarnation, standing->id, request->key,
		  request->peer_key);
}

int beest_service_request(struct hartebeest_context *hb, const char *name, const void *data,
			  size_t length, struct hartebeest_request *request, const struct beest_limit *limit)
{
	struct beest_standing *standing;
	int ret;

	if (length > BEEST_REQUEST_DATA)
		return beest_fail(EMSGSIZE, "a request with %zu bytes for service %s, at most %d are "
				  "possible", length, BEEST_QUOTE(name), BEEST_REQUEST_DATA);
	standing = calloc(1, sizeof(*standing));
	if (!standing)
		return beest_fail(ENOMEM, "no memory for a request");

	ret = place_find(&standing->place, hb, name);
	if (ret == 0) {
		standing->id = __atomic_add_fetch(&hb->services.drawn, 1, __ATOMIC_RELAXED);
		standing_fill(standing, data, length);
		ret = standing_append(standing, limit);
	}
	if (ret < 0) {
		free(standing);
		return ret;
	}

	*request = standing->request;
	pthread_mutex_lock(&hb->services.lock);
	standing->next = hb->services.standing;
	hb->services.standing = standing;
	pthread_mutex_unlock(&hb->services.lock);

	return 0;
}

/* Called under the lock: by its key, or one whose server has another epoch by now. */
static struct beest_standing *standing_unlink(struct beest_services *services, const char *key)
{
	struct beest_standing **at, *standing;

	for (at = &services->standing; (standing = *at); at = &standing->next)
		if (key ? strcmp(standing->request.key, key) == 0 :
		    place_epoch(&standing->place) != standing->request.epoch) {
			*at = standing->next;
			break;
		}

	return standing;
}

static void standing_withdraw(struct beest_standing *standing)
{
	beest_registry_withdraw(standing->place.registry, standing->serial);
	free(standing);
}

/* What is left of it under the old epoch goes with the next look. */
static int standing_move(struct beest_standing *standing)
{
	struct beest_limit limit;

	beest_lease_doom(standing->place.registry->leases, standing->serial);
	standing->serial = 0;
	beest_limit_start(&limit, NULL, 0, BEEST_LIMIT_LOOK);

	return standing_append(standing, &limit);
}

/* One at a time: appending waits, and whoever waits comes here. */
void beest_services_move(struct beest_services *services)
{
	struct beest_standing *standing;
	int ret = 0;

	pthread_mutex_lock(&services->lock);
	while (ret == 0 && !services->moving && (standing = standing_unlink(services, NULL))) {
		services->moving = standing;
		pthread_mutex_unlock(&services->lock);
		ret = standing_move(standing);
		pthread_mutex_lock(&services->lock);
		services->moving = NULL;
		standing->next = services->standing;
		services->standing = standing;
	}
	standing = services->moving ? NULL : standing_unlink(services, "");
	pthread_mutex_unlock(&services->lock);
	if (standing)
		standing_withdraw(standing);
}

/* False: no such request stands.  One that is being moved has no name from now on. */
static bool standing_leave(struct beest_services *services, const char *key)
{
	struct beest_standing *standing;
	bool moving = false;

	pthread_mutex_lock(&services->lock);
	standing = standing_unlink(services, key);
	if (!standing && services->moving && strcmp(services->moving->request.key, key) == 0) {
		services->moving->request.key[0] = '\0';
		moving = true;
	}
	pthread_mutex_unlock(&services->lock);
	if (standing)
		standing_withdraw(standing);

	return standing || moving;
}

/* ---------------------------------------------------------------------- a listener --- */

struct slot {
	struct accepting *accepting;
	uint64_t number;
	char key[BEEST_KEY_MAX + 1];
	uint8_t closed[BEEST_RECORD_OVERHEAD];
};

struct accepting {
	struct place place;
	struct service *service;
	struct hartebeest_request *request;
	bool found;
	bool heard;			/* the server has answered */
	struct slot slots[SLOTS];
	struct beest_wait_get gets[1 + SLOTS];	/* the listener, and the slots */
	struct beest_look_extra extras[SLOTS];
	struct beest_wait wait;
};

static int service_destroy(struct beest_node *node)
{
	struct service *service = BEEST_CONTAINER(node, struct service, node);

	free(service->past);
	free(service);

	return 0;
}

const struct beest_kind beest_service_kind = { "service", service_destroy };

/* The server has another epoch: what was had before is kept, since it comes again. */
static int service_begin(struct service *service, uint64_t epoch,
			 const struct beest_listener_body *former)
{
	struct beest_listener_body *past = service->past;

	if (service->now.epoch) {
		past = realloc(past, (service->past_count + 1) * sizeof(*past));
		if (!past)
			return beest_fail(ENOMEM, "no memory for what a service has had");
		past[service->past_count++] = service->now;
		service->past = past;
	}

	memset(&service->former, 0, sizeof(service->former));
	if (former->epoch == epoch)
		service->former = *former;
	memset(&service->now, 0, sizeof(service->now));
	service->now.epoch = epoch;
	service->now.next = BEEST_MIN(service->former.first, service->former.next);
	service->now.next += !service->now.next;	/* numbers begin at 1 */
	service->now.first = service->now.next;
	service->delivered = false;
	service->given = service->old = 0;
	service->given_at = 0;

	return 0;
}

/* What this process has had, for the one after it. */
static int service_put(struct service *service, const struct place *place)
{
	uint8_t body[BEEST_BODY_MAX];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_LISTENER, .key = place->listener_key, .body = body,
		.serial = &service->serial,
	};

	record.size = (size_t)beest_record_listener_encode(&service->now, body);

	return beest_registry_put(place->registry, &record);
}

static void service_take(struct service *service, uint64_t number, bool delivered)
{
	struct beest_listener_body *now = &service->now;

	window_take(now, number);
	if (delivered)
		now->first = service->delivered ? BEEST_MIN(now->first, number) : number;
	service->delivered |= delivered;
	if (!service->delivered)
		now->first = now->next;
}

static struct service *service_look(struct hartebeest_context *hb, const char *name)
{
	struct beest_node *node;

	pthread_mutex_lock(&hb->naming);
	node = beest_table_look(&hb->objects, &beest_service_kind, name);
	pthread_mutex_unlock(&hb->naming);

	return node ? BEEST_CONTAINER(node, struct service, node) : NULL;
}

static int service_add(struct hartebeest_context *hb, const char *name, struct service **service)
{
	*service = calloc(1, sizeof(**service));
	if (!*service)
		return beest_fail(ENOMEM, "no memory for a service");

	return beest_context_add(hb, &beest_service_kind, name, &(*service)->node);
}

int beest_service_listen(struct hartebeest_context *hb, const char *name, const struct beest_limit *limit)
{
	struct service *service;
	struct sight former;
	struct place place;
	uint64_t epoch;
	int ret;

	ret = place_find(&place, hb, name);
	if (ret < 0)
		return ret;
	ret = listener_look(&former, &place, false, limit);
	service = service_look(hb, name);
	if (ret == 0 && !service)
		ret = service_add(hb, name, &service);
	if (ret < 0)
		return ret;

	epoch = place_epoch(&place);
	if (!former.own || service->now.epoch != epoch)
		ret = service_begin(service, epoch, &former.body);
	if (ret == 0)
		ret = service_put(service, &place);

	return ret < 0 ? ret : beest_wait_run(place.registry, &(struct beest_wait){
		.own_keys = (const char *[]){ place.listener_key }, .own_count = 1,
		.limit = limit,
	});
}

/* ------------------------------------------------------------------------ accepting --- */

static void request_show(const struct slot *slot, const struct beest_record *record,
			 const struct beest_request_body *body)
{
	const struct accepting *a = slot->accepting;
	struct hartebeest_request *request = a->request;

	memset(request, 0, sizeof(*request));
	request->number = slot->number;
	request->epoch = a->service->now.epoch;
	request->rank = record->rank;
	request->pid = body->pid;
	request->again = window_has(&a->service->former, slot->number);
	request->length = body->length;
	memcpy(request->host, body->host, sizeof(request->host));
	memcpy(request->data, body->data, body->length);
	ends_name(&a->place, &record->incarnation, body->id, request->peer_key, request->key);
}

static bool service_had(const struct service *service, const struct beest_request_body *body)
{
	size_t i;

	for (i = 0; i < service->past_count; i++)
		if (service->past[i].epoch == body->past_epoch)
			return window_has(&service->past[i], body->past_number);

	return false;
}

/*
 * The first one that this process has not had is given to the caller.  A server that has
 * lost everything shows nothing but what this very look has closed there.
 */
static int see_request(void *data, const struct beest_record *record)
{
	struct slot *slot = data;
	struct accepting *a = slot->accepting;
	struct beest_request_body body;
	int ret = 0;

	if (a->found || place_epoch(&a->place) != a->service->now.epoch ||
	    window_has(&a->service->now, slot->number))
		return 0;
	if (!(record->flags & BEEST_RECORD_CLOSED))
		ret = beest_record_request_decode(record, &body);
	if (ret < 0)
		beest_log(a->place.registry->log, BEEST_LOG_WARN, "key '%s' is ignored: %s",
			  slot->key, beest_error_text());
	a->found = ret == 0 && !(record->flags & BEEST_RECORD_CLOSED) &&
		   !service_had(a->service, &body);
	if (a->found)
		request_show(slot, record, &body);
	service_take(a->service, slot->number, a->found);

	return 0;
}

static int see_successor(void *data, const struct beest_record *record)
{
	struct accepting *a = data;
	char who[BEEST_PRESENCE_TEXT];

	a->heard = is_own(&a->place, record);
	if (a->heard)
		return 0;
	beest_presence_author(a->place.registry, record->rank, &record->incarnation, who);

	return beest_fail(EADDRINUSE, "service '%s' is served by %s now", a->place.service, who);
}

/*
 * Which numbers have been given out?  What the counter or a number that was had says, once
 * a second, so that those of the time before are known to be old.
 */
static void numbers_survey(struct accepting *a)
{
	struct service *service = a->service;
	struct beest_look_want want = { .key = a->place.count_key, .server = a->place.server };
	struct beest_look look = {
		.wants = &want, .count = 1, .deadline = beest_clock_deadline(BEEST_LIMIT_LOOK),
	};
	uint64_t count, last = service->now.next - 1;
	char text[24] = "";

	if ((service->given_at && beest_clock_now() - service->given_at < GAP_TIME) ||
	    beest_look_take(a->place.registry, &look) < 0)
		return;

	if (want.value.bytes && want.value.size < sizeof(text))
		memcpy(text, want.value.bytes, want.value.size);
	beest_look_free(&want, 1);
	count = strtoull(text, NULL, 10);
	if (service->now.taken)
		last += 64 - (uint64_t)__builtin_clzll(service->now.taken);
	service->old = service->given;
	service->given = BEEST_MAX(count, last);
	service->given_at = beest_clock_now();
}

/* A number that is no record, or that stood while the former listener was there. */
static void numbers_pass(struct accepting *a)
{
	struct service *service = a->service;
	const struct beest_wait_get *get;
	size_t i;

	for (i = 0; i < SLOTS; i++) {
		get = &a->gets[1 + i];
		if (!window_has(&service->now, a->slots[i].number) &&
		    (get->seen < 0 || (get->seen == 0 && window_has(&service->former,
								    a->slots[i].number))))
			service_take(service, a->slots[i].number, false);
	}
}

/* A request's record that says that there is none. */
static size_t closed_encode(const struct place *place, const char *key,
			    uint8_t bytes[BEEST_RECORD_OVERHEAD])
{
	const struct beest_record record = {
		.kind = BEEST_KIND_REQUEST, .flags = BEEST_RECORD_CLOSED,
		.incarnation = place->registry->presence.incarnation,
		.rank = place->registry->presence.rank,
	};

	return (size_t)beest_record_encode(&record, key, bytes, BEEST_RECORD_OVERHEAD);
}

/* What the next look asks for, and what it closes unless a client has it. */
static void slots_fill(struct accepting *a)
{
	const struct service *service = a->service;
	uint64_t number = service->now.next;
	struct slot *slot;

	a->wait.extra_count = 0;
	for (slot = a->slots; slot < a->slots + SLOTS; slot++) {
		while (window_has(&service->now, number))
			number++;
		if (number - service->now.next >= WINDOW)
			number = service->now.next;	/* once more instead of one too far */
		slot->number = number++;
		number_key(&a->place, service->now.epoch, slot->number, slot->key);
		if (slot->number > service->old || window_has(&service->former, slot->number))
			continue;
		a->extras[a->wait.extra_count++] =
			place_write(&a->place, BEEST_KV_ADD, slot->key, slot->closed,
				    closed_encode(&a->place, slot->key, slot->closed), CLOSED_TTL);
	}
}

static int accept_each(void *data)
{
	static const struct beest_listener_body none;
	struct accepting *a = data;
	struct service *service = a->service;
	uint64_t epoch = place_epoch(&a->place), next = service->now.next;
	int ret = 0;

	if (a->found)
		return 1;
	if (epoch != service->now.epoch) {
		ret = service_begin(service, epoch, &none);
		if (ret == 0)
			ret = service_put(service, &a->place);
	} else if (a->heard) {
		numbers_survey(a);
		numbers_pass(a);
	}
	a->heard = false;
	slots_fill(a);
	a->wait.hurry = service->now.next != next || a->wait.extra_count;

	return ret;
}

static int accepting_start(struct accepting *a, struct hartebeest_context *hb, const char *name)
{
	size_t i;
	int ret;

	ret = place_find(&a->place, hb, name);
	if (ret < 0)
		return ret;
	a->service = service_look(hb, name);
	if (!a->service)
		return beest_fail(ENOTCONN, "service '%s' is not listened to by this context", name);

	a->gets[0] = (struct beest_wait_get){
		.kind = BEEST_KIND_LISTENER, .key = a->place.listener_key, .name = name,
		.see = see_successor, .data = a,
	};
	for (i = 0; i < SLOTS; i++) {
		a->slots[i].accepting = a;
		a->gets[1 + i] = (struct beest_wait_get){
			.kind = BEEST_KIND_REQUEST, .key = a->slots[i].key, .name = name,
			.see = see_request, .data = &a->slots[i],
			.placed_as = a->place.listener_key,
		};
	}
	slots_fill(a);

	return 0;
}

int beest_service_accept(struct hartebeest_context *hb, const char *name,
			 struct hartebeest_request *request, const struct beest_limit *limit)
{
	struct hartebeest_request found;
	struct accepting a = { .request = &found };
	int ret;

	ret = accepting_start(&a, hb, name);
	if (ret < 0)
		return ret;
	a.wait = (struct beest_wait){
		.gets = a.gets, .count = 1 + SLOTS, .extras = a.extras,
		.extra_count = a.wait.extra_count, .each = accept_each, .data = &a,
		.limit = limit,
	};
	ret = beest_wait_run(a.place.registry, &a.wait);
	if (a.found) {
		*request = found;
		ret = service_put(a.service, &a.place);
		beest_registry_offer(a.place.registry, a.place.listener_key);
		return ret;
	}
	if (ret == -ETIMEDOUT || ret == -EAGAIN)
		return beest_fail(-ret, "nobody has asked for service '%s'", name);

	return ret;
}

/* -------------------------------------------------------------------------- leaving --- */

/* Its peer finds that closed, and is told by hartebeest_qp_follow(). */
static void ends_close(struct hartebeest_context *hb, const char *key)
{
	struct beest_node *node;
	struct beest_qp *qp;
	uint64_t serial = 0;

	pthread_mutex_lock(&hb->naming);
	for (node = hb->objects.newest; node; node = node->older) {
		if (node->kind != &beest_qp_kind)
			continue;
		qp = BEEST_CONTAINER(node, struct beest_qp, node);
		if (strcmp(qp->key, key) == 0)
			serial = qp->serial;
	}
	pthread_mutex_unlock(&hb->naming);
	beest_registry_withdraw(hb->registry, serial);
}

/*
 * So that no later listener gets it: replaced by a record that says so, since a client that
 * finds its own missing stores it again.
 */
static int request_close(const struct place *place, const struct hartebeest_request *request)
{
	uint8_t bytes[BEEST_RECORD_OVERHEAD];
	char key[BEEST_KEY_MAX + 1];
	struct beest_look_extra extra;
	struct beest_look look = {
		.extras = &extra, .extra_count = 1, .deadline = beest_clock_deadline(BEEST_LIMIT_LOOK),
	};

	if (request->epoch != place_epoch(place))
		return 0;		/* lost with its server */

	number_key(place, request->epoch, request->number, key);
	extra = place_write(place, BEEST_KV_SET, key, bytes, closed_encode(place, key, bytes),
			    CLOSED_TTL);

	return beest_look_take(place->registry, &look);
}

int beest_service_leave(struct hartebeest_context *hb, const char *name,
			const struct hartebeest_request *request)
{
	struct service *service;
	struct place place;
	uint64_t serial;
	int ret;

	ret = place_find(&place, hb, name);
	if (ret < 0)
		return ret;
	service = service_look(hb, name);
	if (!request) {
		serial = service ? service->serial : 0;
		beest_registry_withdraw(place.registry, serial);
		return beest_context_destroy(hb, &beest_service_kind, name);
	}

	if (!standing_leave(&hb->services, request->key)) {
		if (!service)
			return beest_fail(ENOENT, "no request of this context has the key '%s', and "
					  "it does not listen to service '%s'", request->key, name);
		ret = request_close(&place, request);
	}
	ends_close(hb, request->key);

	return ret;
}
