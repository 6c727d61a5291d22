/* SPDX-License-Identifier: MIT */
/*
 * service.c - see service.h
 *
 * Each look reads the list of the service, and the records of requests that the listener has not
 * accepted.  It appends to the list which it has accepted, for its successor, and which are
 * closed.
 *
 * Several threads may accept for one listener.  What it has accepted is covered by the lock of
 * the context's objects, which is held only while a thread decides; each look is the thread's own.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/core/context.h"
#include "lib/core/directory.h"
#include "lib/core/requests.h"
#include "lib/core/service.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/store.h"

/* Records that a listener asks for in each look. */
#define SLOTS 16

/* An absent record is asked for again after this time, and then each time after twice as long. */
#define ABSENT_PAUSE BEEST_SECOND
#define ABSENT_PAUSE_MAX (64 * BEEST_SECOND)

/*
 * An append does not prolong the life of a list, and no process knows how old one is that was there
 * before this process listened.  So it is first stored again after this time: not at once, since an
 * accept of a single look had better be one request.
 */
#define RENEW_FIRST BEEST_SECOND

/* A service that this context listens to: all of it is covered by the lock of its table. */
struct service {
	struct beest_node node;
	struct beest_requests requests;
	uint64_t since;			/* as this process's entry in the list has it */
	int64_t renew_at;		/* when the list has to be stored again */
	bool full;			/* it was logged that the list is full */
};

static void service_dispose(struct beest_node *node)
{
	beest_requests_end(&BEEST_CONTAINER(node, struct service, node)->requests);
}

static const struct beest_kind service_kind = {
	.noun = "service", .size = sizeof(struct service), .dispose = service_dispose,
};

static struct service *service_look(struct hartebeest_context *hb, const char *name)
{
	struct beest_node *node = beest_table_look(&hb->objects, &service_kind, name);

	return node ? BEEST_CONTAINER(node, struct service, node) : NULL;
}

static int service_need(struct hartebeest_context *hb, const char *name)
{
	int ret = beest_directory_check(name);

	return ret < 0 ? ret : beest_context_need_registry(hb, BEEST_KIND_SERVICE, name);
}

static int directory_open(struct beest_directory *directory, struct hartebeest_context *hb,
			  const char *name)
{
	int ret = service_need(hb, name);

	return ret < 0 ? ret : beest_directory_find(directory, hb->registry, name);
}

/* How long a record stays without its author. */
static int64_t directory_ttl(const struct beest_directory *directory)
{
	int64_t ttl = beest_lease_ttl(directory->registry->leases) * BEEST_SECOND;

	return ttl ? ttl : BEEST_TTL_MAX;
}

static void request_give_up(struct beest_requests_row *request)
{
	request->closed = true;
	request->last_at = beest_clock_now();
}

/* Before a list is stored again: adds what this listener knows, which a full list cannot take. */
static void service_tell(void *data, const struct beest_directory *directory,
			 struct beest_requests *requests)
{
	struct hartebeest_context *hb = data;
	const struct beest_requests_row *known;
	struct beest_requests_row *request;
	struct service *service;
	size_t i;

	pthread_mutex_lock(&hb->objects.lock);
	service = service_look(hb, directory->service);
	if (service)
		service->renew_at = beest_clock_deadline(directory_ttl(directory) / 3);
	for (i = 0; service && i < requests->named_count; i++) {
		request = beest_requests_named(requests, i);
		known = beest_requests_find(&service->requests, &request->id);
		request->accepted |= known && known->accepted_here;
		request->ended |= known && known->closed;
	}
	pthread_mutex_unlock(&hb->objects.lock);
}

/* ------------------------------------------------------------------------ listening --- */

struct listening {
	struct hartebeest_context *hb;
	struct beest_directory directory;
	bool compacts;			/* the list is too long */
	char full[BEEST_DIRECTORY_FULL];
	struct beest_wait_get get;
	struct beest_wait wait;
	bool starts;			/* this process did not listen, or was replaced */
	bool began;
};

static bool service_is_own(const struct service *service, const struct beest_directory *directory)
{
	return service->requests.listens && service->requests.since == service->since &&
	       beest_directory_is_own(directory, &service->requests.listener);
}

/* Another process has listened after this one, and did not just store its entry late. */
static bool service_is_lost(const struct service *service, const struct beest_directory *directory)
{
	return beest_requests_listens_after(&service->requests, service->since,
					    beest_registry_incarnation(directory->registry));
}

static int service_say(const struct service *service, struct beest_directory *directory)
{
	return beest_directory_say(directory, &(struct beest_service_body){
		.word = BEEST_SERVICE_LISTENS, .since = service->since,
	});
}

/* Another process listened after this one: this one gets all requests again that are not closed. */
static void service_begin(struct service *service)
{
	struct beest_requests *requests = &service->requests;
	size_t i;

	for (i = 0; i < requests->count; i++) {
		requests->rows[i].again |= requests->rows[i].accepted_here;
		requests->rows[i].accepted_here = false;
		requests->rows[i].read_at = 0;
	}
}

/*
 * Locked.  1: this process listens, and the list shows it, or it was replaced meanwhile, as the
 * next accept will report.
 */
static int service_listen(struct service *service, struct listening *l)
{
	bool lost = service_is_lost(service, &l->directory);

	if ((service->since && service_is_own(service, &l->directory)) || (l->began && lost))
		return 1;
	if (l->began)
		return service_say(service, &l->directory);
	l->began = true;
	l->starts |= lost;
	if (lost)
		service_begin(service);
	/* The clock counts only where the list was lost, with the number to count on from. */
	service->since = BEEST_MAX((uint64_t)time(NULL), service->requests.since + 1);

	return service_say(service, &l->directory);
}

/* The second look shows that this process listens. */
static int see_listeners(void *data, const struct beest_kv_value *value)
{
	struct listening *l = data;
	struct beest_node *node;
	struct service *service;
	int ret;

	pthread_mutex_lock(&l->hb->objects.lock);
	ret = beest_table_obtain(&l->hb->objects, &service_kind, l->directory.service, &node);
	service = ret < 0 ? NULL : BEEST_CONTAINER(node, struct service, node);
	if (service) {
		l->starts |= !service->since;
		ret = beest_directory_see(&l->directory, &service->requests, value);
	}
	if (ret == 0) {
		l->get.unmet = *beest_directory_full(&l->directory, &service->requests, l->full) ?
			       l->full : NULL;
		l->compacts = beest_requests_is_long(&service->requests);
		ret = service_listen(service, l);
	}
	pthread_mutex_unlock(&l->hb->objects.lock);
	l->wait.hurry = true;

	return ret;
}

static int listen_each(void *data)
{
	struct listening *l = data;

	if (l->compacts)
		beest_directory_compact(&l->directory, service_tell, l->hb);
	l->compacts = false;

	return 0;
}

/* A limit that allows one look, or has passed, allows a second one if the first found a reason. */
static int wait_twice(struct beest_registry *registry, struct beest_wait *wait, const bool *again)
{
	int ret = beest_wait_run(registry, wait);

	return (ret == -EAGAIN || ret == -ETIMEDOUT) && *again ? beest_wait_run(registry, wait) :
	       ret;
}

int beest_service_listen(struct hartebeest_context *hb, const char *name,
			 const struct beest_limit *limit)
{
	struct listening l = { .hb = hb, .wait = { .each = listen_each, .limit = limit } };
	int ret;

	ret = directory_open(&l.directory, hb, name);
	if (ret < 0)
		return ret;
	beest_directory_wait(&l.directory, &l.wait, &l.get, see_listeners, &l);
	ret = wait_twice(l.directory.registry, &l.wait, &l.began);
	beest_directory_end(&l.directory);
	if (ret < 0 && l.starts)
		beest_context_destroy(hb, &service_kind, name);

	return ret;
}

/* ------------------------------------------------------------------------ accepting --- */

struct slot {
	struct accepting *accepting;
	struct beest_request_id id;
	char key[BEEST_KEY_MAX + 1];
};

struct accepting {
	struct hartebeest_context *hb;
	struct beest_directory directory;
	struct service *service;	/* while it is locked */
	struct hartebeest_client *request;
	bool found;
	int32_t rank;			/* of the process that listens in its place */
	struct beest_incarnation listener;
	bool heard;			/* the last look showed that this process listens */
	bool fresh;			/* a record will be read for the first time */
	bool compacts;			/* the list is too long, or has to be stored again */
	char full[BEEST_DIRECTORY_FULL];
	struct slot slots[SLOTS];
	size_t slot_count;
	struct beest_wait_get gets[1 + SLOTS];	/* the list, then the slots */
	struct beest_wait wait;
};

/* 0: locks what the listener has accepted; -ENOTCONN: this context does not listen now. */
static int accepting_lock(struct accepting *a)
{
	pthread_mutex_lock(&a->hb->objects.lock);
	a->service = service_look(a->hb, a->directory.service);
	if (a->service)
		return 0;
	pthread_mutex_unlock(&a->hb->objects.lock);

	return beest_fail(ENOTCONN, "this context does not listen to service '%s': call "
			  "hartebeest_service_listen() first", a->directory.service);
}

static void accepting_unlock(struct accepting *a)
{
	pthread_mutex_unlock(&a->hb->objects.lock);
}

/* Locked.  Appends what the list lacks about the requests that it names. */
static int requests_say(struct accepting *a, enum beest_service_word word)
{
	const struct beest_requests *requests = &a->service->requests;
	struct beest_service_body body = { .word = (uint8_t)word };
	const struct beest_requests_row *request;
	size_t i;
	int ret = 0;

	for (i = 0; i < requests->named_count && ret == 0; i++) {
		request = beest_requests_named(requests, i);
		if (!beest_requests_is_open(request) || (word == BEEST_SERVICE_ENDED ?
		    !request->closed :
		    !request->accepted_here || request->accepted || request->closed))
			continue;
		body.ids[body.count++] = request->id;
		if (body.count == BEEST_SERVICE_IDS) {
			ret = beest_directory_say(&a->directory, &body);
			body.count = 0;
		}
	}

	return ret == 0 && body.count ? beest_directory_say(&a->directory, &body) : ret;
}

/* Locked.  -EADDRINUSE: another process listens. */
static int listening_judge(struct accepting *a)
{
	const struct beest_requests *requests = &a->service->requests;

	a->heard = service_is_own(a->service, &a->directory);
	if (a->heard)
		return 0;
	if (!service_is_lost(a->service, &a->directory))
		return service_say(a->service, &a->directory);
	a->rank = requests->rank;
	a->listener = requests->listener;

	return -EADDRINUSE;
}

static int listening_fail(const struct accepting *a)
{
	char who[BEEST_PRESENCE_TEXT];

	beest_presence_author(a->directory.registry, a->rank, &a->listener, who);

	return beest_fail(EADDRINUSE, "service '%s' is served by %s now", a->directory.service,
			  who);
}

/* Locked.  Is this the first look that found the list full? */
static bool full_note(struct accepting *a)
{
	struct service *service = a->service;
	bool full = *beest_directory_full(&a->directory, &service->requests, a->full), first;

	first = full && !service->full;
	service->full |= full;

	return first;
}

/* Locked. */
static bool list_is_due(struct accepting *a)
{
	const struct service *service = a->service;

	return a->heard && (beest_clock_now() >= service->renew_at ||
			    beest_requests_is_long(&service->requests));
}

static int see_service(void *data, const struct beest_kv_value *value)
{
	struct accepting *a = data;
	struct beest_requests *requests;
	bool full;
	int ret;

	ret = accepting_lock(a);
	if (ret < 0)
		return ret;
	requests = &a->service->requests;
	if (requests->count == requests->room || beest_clock_now() >= a->service->renew_at)
		beest_requests_forget(requests, directory_ttl(&a->directory));
	ret = beest_directory_see(&a->directory, requests, value);
	if (ret == 0)
		ret = listening_judge(a);
	if (ret == 0)
		ret = requests_say(a, BEEST_SERVICE_ACCEPTED);
	if (ret == 0)
		ret = requests_say(a, BEEST_SERVICE_ENDED);
	a->compacts = list_is_due(a);
	full = full_note(a);
	accepting_unlock(a);
	/* An accept that waits for ever never reports it otherwise. */
	if (full)
		beest_log(a->directory.registry->log, BEEST_LOG_WARN, "service '%s': %s",
			  a->directory.service, a->full);

	return ret == -EADDRINUSE ? listening_fail(a) : ret;
}

static void request_show(struct accepting *a, const struct beest_requests_row *known,
			 const struct beest_record *record, const struct beest_request_body *body)
{
	struct hartebeest_client *request = a->request;

	memset(request, 0, sizeof(*request));
	request->number = known->id.number;
	request->context = known->id.client;
	request->rank = record->rank;
	request->pid = body->pid;
	request->again = known->again;
	request->length = body->length;
	memcpy(request->host, body->host, sizeof(request->host));
	memcpy(request->data, body->data, body->length);
	beest_directory_ends(&a->directory, &known->id, request->peer_key, request->key);
}

/* Locked.  Gives the caller the first request that this process has not accepted. */
static void request_judge(const struct slot *slot, const struct beest_record *record,
			  const struct beest_request_body *body)
{
	struct accepting *a = slot->accepting;
	struct beest_requests_row *known = beest_requests_find(&a->service->requests, &slot->id);

	if (!known || !a->heard)
		return;
	known->absent = known->pause = 0;
	known->read_at = beest_clock_now() +
			 (known->accepted_here ? directory_ttl(&a->directory) : 0);
	if (!body)
		request_give_up(known);
	if (known->accepted_here || known->closed || known->ended)
		return;
	a->found = known->accepted_here = true;
	known->read_at += directory_ttl(&a->directory);
	request_show(a, known, record, body);
}

/* Is it the record of this request, and of its client? */
static int request_decode(const struct slot *slot, const struct beest_record *record,
			  struct beest_request_body *body)
{
	int ret = beest_record_request_decode(record, body);

	if (ret == 0 && (body->number != slot->id.number ||
			 beest_directory_client(&record->incarnation) != slot->id.client))
		return beest_fail(EBADMSG, "a request of another client");

	return ret;
}

static int see_request(void *data, const struct beest_record *record)
{
	struct slot *slot = data;
	struct accepting *a = slot->accepting;
	bool closed = record->flags & BEEST_RECORD_CLOSED;
	struct beest_request_body body;
	int ret = 0;

	if (a->found)
		return 0;
	if (!closed)
		ret = request_decode(slot, record, &body);
	if (ret < 0)
		beest_log(a->directory.registry->log, BEEST_LOG_WARN, "key '%s' is ignored: %s",
			  slot->key, beest_error_text());
	ret = ret < 0 ? 1 : accepting_lock(a);
	if (ret != 0)
		return ret < 0 ? ret : 0;
	request_judge(slot, record, closed ? NULL : &body);
	accepting_unlock(a);

	return 0;
}

/*
 * Locked.  A record that is absent may have been evicted, and may return.  It is closed when even
 * its client, if it had stopped looking, would have lost it.
 */
static void absent_note(struct accepting *a)
{
	struct beest_requests_row *known;
	int64_t now = beest_clock_now();
	size_t i;

	for (i = 0; i < a->slot_count && a->heard; i++) {
		known = beest_requests_find(&a->service->requests, &a->slots[i].id);
		if (!known || known->closed || (known->accepted_here && a->gets[1 + i].seen > 0))
			continue;
		known->absent = known->absent ? known->absent : now;
		known->pause = !known->pause ? ABSENT_PAUSE :
			       BEEST_MIN(2 * known->pause, ABSENT_PAUSE_MAX);
		known->read_at = now + known->pause;
		if (now - known->absent >= directory_ttl(&a->directory))
			request_give_up(known);
	}
}

/* Locked: chooses the records that the next look reads. */
static void slots_fill(struct accepting *a)
{
	const struct beest_requests *requests = &a->service->requests;
	const struct beest_requests_row *request;
	int64_t now = beest_clock_now();
	struct slot *slot;
	size_t i;

	a->slot_count = 0;
	a->fresh = false;
	for (i = 0; i < requests->named_count && a->slot_count < SLOTS; i++) {
		request = beest_requests_named(requests, i);
		if (!beest_requests_is_open(request) || request->closed || request->read_at > now)
			continue;
		slot = &a->slots[a->slot_count++];
		slot->id = request->id;
		beest_directory_key(&a->directory, &slot->id, slot->key);
		a->gets[a->slot_count].seen = 0;
		a->fresh |= !request->read_at;
	}
	a->wait.count = 1 + a->slot_count;
}

static int accept_each(void *data)
{
	struct accepting *a = data;
	int ret;

	if (a->found)
		return 1;
	ret = accepting_lock(a);
	if (ret < 0)
		return ret;
	absent_note(a);
	slots_fill(a);
	a->wait.hurry = a->fresh && a->heard;
	a->heard = false;
	accepting_unlock(a);
	if (a->compacts)
		beest_directory_compact(&a->directory, service_tell, a->hb);
	a->compacts = false;

	return 0;
}

static int accepting_start(struct accepting *a, struct hartebeest_context *hb, const char *name,
			   const struct beest_limit *limit)
{
	size_t i;
	int ret;

	a->hb = hb;
	ret = directory_open(&a->directory, hb, name);
	if (ret == 0)
		ret = accepting_lock(a);
	if (ret < 0)
		return ret;

	if (!a->service->renew_at)
		a->service->renew_at = beest_clock_deadline(
			BEEST_MIN(RENEW_FIRST, directory_ttl(&a->directory) / 3));
	a->wait = (struct beest_wait){ .each = accept_each, .limit = limit };
	beest_directory_wait(&a->directory, &a->wait, a->gets, see_service, a);
	a->wait.most = 1 + SLOTS;
	for (i = 0; i < SLOTS; i++) {
		a->slots[i].accepting = a;
		a->gets[1 + i] = (struct beest_wait_get){
			.kind = BEEST_KIND_REQUEST, .key = a->slots[i].key, .name = name,
			.see = see_request, .data = &a->slots[i],
			.placed_as = a->directory.list.key,
		};
	}
	slots_fill(a);
	a->fresh = false;
	accepting_unlock(a);

	return 0;
}

/* Informs a successor at once: this process may be killed before its next look. */
static void accepting_show(struct accepting *a)
{
	const struct beest_request_id id = beest_directory_id(a->request);

	if (beest_directory_say_one(&a->directory, BEEST_SERVICE_ACCEPTED, &id) == 0)
		beest_list_offer(&a->directory.list);
}

int beest_service_accept(struct hartebeest_context *hb, const char *name,
			 struct hartebeest_client *request, const struct beest_limit *limit)
{
	struct hartebeest_client found;
	struct accepting a = { .request = &found };
	int ret;

	ret = accepting_start(&a, hb, name, limit);
	if (ret == 0)
		ret = wait_twice(a.directory.registry, &a.wait, &a.fresh);
	if (a.found) {
		*request = found;
		accepting_show(&a);
		ret = 0;
	}
	beest_directory_end(&a.directory);
	if ((ret == -ETIMEDOUT || ret == -EAGAIN) && !a.wait.failing)
		return beest_fail(-ret, "no client has asked for service '%s'%s%s", name,
				  *a.full ? "; " : "", a.full);

	return ret;
}

/* ----------------------------------------------------------------------- requesting --- */

int beest_service_request(struct hartebeest_context *hb, const char *name, const void *data,
			  size_t length, struct hartebeest_client *request,
			  const struct beest_limit *limit)
{
	int ret;

	if (length > BEEST_REQUEST_DATA)
		return beest_fail(EMSGSIZE, "a request for service %s has %zu bytes of data, "
				  "at most %d are possible", BEEST_QUOTE(name), length,
				  BEEST_REQUEST_DATA);
	ret = service_need(hb, name);

	return ret < 0 ? ret : beest_client_ask(&hb->client, hb->registry, name, data, length,
						request, limit);
}

/* -------------------------------------------------------------------------- leaving --- */

/* Closes the queue pair published under @name: the peer's hartebeest_qp_follow() finds it. */
static void ends_close(struct beest_registry *registry, const char *name)
{
	char key[BEEST_KEY_MAX + 1];

	if (beest_registry_key(registry, BEEST_KIND_QP, name, key) == 0)
		beest_store_withdraw(registry, beest_lease_serial(registry->leases, key),
				     SIZE_MAX);
}

/* The failure of the service's server, for which it was not asked. */
static int directory_failure(const struct beest_directory *directory)
{
	char why[BEEST_KV_WHY];
	int ret = beest_look_trouble(directory->registry, directory->list.server, UINT64_MAX, why);

	return ret < 0 ? beest_fail(-ret, "%s", why) : 0;
}

static int closed_encode(const struct beest_directory *directory, const char *key,
			 uint8_t bytes[BEEST_RECORD_EMPTY_MAX])
{
	const struct beest_record record = {
		.kind = BEEST_KIND_REQUEST, .flags = BEEST_RECORD_CLOSED,
		.incarnation = directory->registry->presence.incarnation,
		.rank = directory->registry->presence.rank,
	};

	return beest_record_encode(directory->registry->seal, &record, key, bytes,
				   BEEST_RECORD_EMPTY_MAX);
}

/*
 * Appends that to the list, and replaces the request by a closed record.  If it were deleted, its
 * client would store it again.  The closed record lives as long as a request, since the client
 * may not look for that long.
 */
static int request_close(struct beest_directory *directory, const struct beest_request_id *id)
{
	uint8_t bytes[BEEST_RECORD_EMPTY_MAX];
	char key[BEEST_KEY_MAX + 1];
	struct beest_look_extra extras[1 + BEEST_LIST_WRITES];
	struct beest_look look = {
		.extras = extras, .extra_count = BEEST_COUNT(extras),
		.flags = BEEST_LOOK_IDLE,
		.deadline = beest_look_brief(directory->registry, directory->list.server),
	};
	int ret;

	beest_directory_key(directory, id, key);
	ret = closed_encode(directory, key, bytes);
	if (ret < 0)
		return ret;
	extras[0] = (struct beest_look_extra){
		.server = directory->list.server,
		.write = {
			.verb = BEEST_KV_SET, .key = key, .value = bytes, .size = (size_t)ret,
			.ttl = beest_lease_ttl(directory->registry->leases),
		},
	};
	ret = beest_directory_say_one(directory, BEEST_SERVICE_ENDED, id);
	memcpy(&extras[1], directory->list.extras, sizeof(directory->list.extras));

	if (ret == 0)
		ret = beest_look_take(directory->registry, &look);
	if (ret == 0 && !extras[0].done)
		ret = directory_failure(directory);

	return ret;
}

/* This context listens: -ENOENT if not. */
static int service_refuse(struct hartebeest_context *hb, struct beest_directory *directory,
			  const struct hartebeest_client *request)
{
	const struct beest_request_id id = beest_directory_id(request);
	struct beest_requests_row *known;
	struct service *service;

	pthread_mutex_lock(&hb->objects.lock);
	service = service_look(hb, directory->service);
	known = service ? beest_requests_find(&service->requests, &id) : NULL;
	if (known)
		request_give_up(known);
	pthread_mutex_unlock(&hb->objects.lock);
	if (!service)
		return beest_fail(ENOENT, "this context has no request with the key '%s' and does "
				  "not listen to service '%s'", request->key, directory->service);

	return request_close(directory, &id);
}

static int request_leave(struct hartebeest_context *hb, struct beest_directory *directory,
			 const struct hartebeest_client *request)
{
	int ret = 0;

	if (!request->number)
		return beest_fail(ENOENT, "this is no request of service '%s': it has no number",
				  directory->service);
	if (!memchr(request->key, '\0', sizeof(request->key)))
		return beest_fail(EINVAL, "this is no request of service '%s': its key has no end",
				  directory->service);
	if (!beest_client_leave(&hb->client, request->key))
		ret = service_refuse(hb, directory, request);
	if (ret != -ENOENT)
		ends_close(directory->registry, request->key);

	return ret;
}

int beest_service_close(struct hartebeest_context *hb, const char *name)
{
	struct beest_service_body body = { .word = BEEST_SERVICE_STOPS };
	const struct service *service;
	struct beest_directory directory;
	int ret = directory_open(&directory, hb, name);

	if (ret < 0)
		return ret;
	pthread_mutex_lock(&hb->objects.lock);
	service = service_look(hb, name);
	body.since = service ? service->since : 0;
	pthread_mutex_unlock(&hb->objects.lock);
	ret = beest_context_destroy(hb, &service_kind, name);
	if (ret == 0 && beest_directory_say(&directory, &body) == 0)
		beest_list_offer(&directory.list);
	beest_directory_end(&directory);

	return ret;
}

int beest_service_leave(struct hartebeest_context *hb, const char *name,
			const struct hartebeest_client *request)
{
	struct beest_directory directory;
	int ret;

	ret = directory_open(&directory, hb, name);
	if (ret < 0)
		return ret;
	ret = request_leave(hb, &directory, request);
	beest_directory_end(&directory);

	return ret;
}
