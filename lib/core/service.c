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
#include "lib/base/lock.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/core/context.h"
#include "lib/core/directory.h"
#include "lib/core/requests.h"
#include "lib/core/service.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/store.h"

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
	int64_t renew_at;		/* when the list has to be stored again; 0: unknown */
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

static void row_close(struct beest_requests_row *row)
{
	row->state = BEEST_REQUEST_CLOSED;
	row->last_at = beest_clock_now();
}

/* ------------------------------------------------------------------------ listening --- */

struct listening {
	struct hartebeest_context *hb;
	struct beest_directory directory;
	bool starts;			/* this process did not listen, or was replaced */
	bool began;
	bool hurried;			/* the look behind the one that began has followed */
};

static bool service_is_own(const struct service *service, const struct beest_directory *directory)
{
	return service->requests.shows && service->requests.since == service->since &&
	       beest_directory_is_own(directory, &service->requests.listener);
}

/* Another process has listened after this one, and did not just store its entry late. */
static bool service_is_lost(const struct service *service, const struct beest_directory *directory)
{
	return beest_requests_listens_after(&service->requests, service->since,
					    beest_registry_incarnation(directory->registry));
}

static int listens_append(const struct service *service, struct beest_directory *directory)
{
	return beest_directory_append(directory, &(struct beest_service_body){
		.word = BEEST_SERVICE_LISTENS, .since = service->since,
	});
}

/*
 * Locked, if this process listens.  What it has accepted gets even into a list that is full, and a
 * list that is stored again lives longer.
 */
static void list_shorten(struct service *service, struct beest_directory *directory,
			 const struct beest_kv_value *value)
{
	bool due = service->renew_at && beest_clock_now() >= service->renew_at;

	if (!due && !beest_requests_is_long(&service->requests))
		return;
	service->renew_at = beest_clock_deadline(directory_ttl(directory) / 3);
	beest_directory_shorten(directory, &service->requests, service->since, value);
}

/* Another process listened after this one: this one gets all requests again that are not closed. */
static void service_begin(struct service *service)
{
	struct beest_requests *requests = &service->requests;
	struct beest_requests_row *row;
	size_t i;

	for (i = 0; i < requests->count; i++) {
		row = &requests->rows[i];
		row->read_at = 0;
		if (row->state == BEEST_REQUEST_ACCEPTED)
			row->state = BEEST_REQUEST_INHERITED;
	}
}

/*
 * Locked.  1: this process listens, and the list shows it, or it was replaced meanwhile, as the
 * next accept will report.
 */
static int service_listen(struct service *service, struct listening *l,
			  const struct beest_kv_value *value)
{
	bool lost = service_is_lost(service, &l->directory);

	if (l->began && service->since && lost)
		return 1;
	if (service->since && service_is_own(service, &l->directory)) {
		list_shorten(service, &l->directory, value);
		return 1;
	}
	if (!l->began || !service->since) {
		l->began = true;
		l->starts |= lost;
		if (lost)
			service_begin(service);
		/* The clock counts only where the list, and so the last number, was lost. */
		service->since = BEEST_MAX((uint64_t)time(NULL), service->requests.since + 1);
	}
	list_shorten(service, &l->directory, value);

	return listens_append(service, &l->directory);
}

static int see_listeners(void *data, const struct beest_kv_value *value)
{
	struct listening *l = data;
	struct beest_node *node;
	struct service *service;
	int ret;

	pthread_mutex_lock(&l->hb->objects.lock);
	ret = beest_table_obtain(&l->hb->objects, &service_kind, l->directory.service, &node);
	if (ret == 0) {
		service = BEEST_CONTAINER(node, struct service, node);
		l->starts |= !service->since;
		ret = beest_directory_see(&l->directory, &service->requests, value);
	}
	if (ret == 0)
		ret = service_listen(service, l, value);
	pthread_mutex_unlock(&l->hb->objects.lock);

	return ret;
}

/* The look behind the one that began shows that this process listens; later ones pause. */
static int listen_next(void *data, struct beest_directory_reads *reads)
{
	struct listening *l = data;

	reads->hurry = l->began && !l->hurried;
	l->hurried |= l->began;

	return 0;
}

/* Not if another thread has listened meanwhile. */
static void listen_undo(struct listening *l)
{
	const struct service *service;
	BEEST_HOLD(&l->hb->objects.lock);

	service = service_look(l->hb, l->directory.service);
	if (service && !service_is_own(service, &l->directory))
		beest_context_destroy(l->hb, &service_kind, l->directory.service);
}

int beest_service_listen(struct hartebeest_context *hb, const char *name,
			 const struct beest_limit *limit)
{
	static const struct beest_directory_steps steps = {
		.see_list = see_listeners, .next = listen_next,
	};
	struct listening l = { .hb = hb };
	int ret;

	ret = directory_open(&l.directory, hb, name);
	if (ret < 0)
		return ret;
	ret = beest_directory_run(&l.directory, limit, &steps, &l);
	if (ret < 0 && l.starts)
		listen_undo(&l);
	beest_directory_end(&l.directory);

	return ret;
}

/* ------------------------------------------------------------------------ accepting --- */

struct accepting {
	struct hartebeest_context *hb;
	struct beest_directory directory;
	struct hartebeest_client *request;
	enum {
		ACCEPT_BLIND,		/* this look has not shown yet that this process listens */
		ACCEPT_LISTENS,		/* it has: its records count */
		ACCEPT_DONE,		/* one of them is the request */
	} state;
};

/* Locks what the listener has accepted.  NULL, with a sentence: this context does not listen. */
static struct service *accepting_lock(struct accepting *a)
{
	struct service *service;

	pthread_mutex_lock(&a->hb->objects.lock);
	service = service_look(a->hb, a->directory.service);
	if (service)
		return service;
	pthread_mutex_unlock(&a->hb->objects.lock);
	beest_fail(ENOTCONN, "this context does not listen to service '%s': call "
		   "hartebeest_service_listen() first", a->directory.service);

	return NULL;
}

static void accepting_unlock(struct accepting *a)
{
	pthread_mutex_unlock(&a->hb->objects.lock);
}

static int listener_fail(const struct beest_directory *directory, int32_t rank,
			 const struct beest_incarnation *listener)
{
	char who[BEEST_PRESENCE_TEXT];

	beest_presence_author(directory->registry, rank, listener, who);

	return beest_fail(EADDRINUSE, "service '%s' is served by %s now", directory->service, who);
}

/* Locked.  -EADDRINUSE: another process listens. */
static int list_judge(struct accepting *a, struct service *service,
		      const struct beest_kv_value *value)
{
	int ret = 0;

	if (service_is_own(service, &a->directory)) {
		a->state = ACCEPT_LISTENS;
		list_shorten(service, &a->directory, value);
	} else if (service_is_lost(service, &a->directory)) {
		return -EADDRINUSE;
	} else {
		ret = listens_append(service, &a->directory);
	}

	return ret < 0 ? ret : beest_directory_append_missing(&a->directory, &service->requests);
}

/* Locked.  Is this the first look that found the list full of what is needed? */
static bool full_note(struct service *service, const struct beest_directory *directory)
{
	bool full = *directory->full && !beest_requests_is_long(&service->requests);
	bool first = full && !service->full;

	service->full |= full;

	return first;
}

static int see_service(void *data, const struct beest_kv_value *value)
{
	struct accepting *a = data;
	struct service *service = accepting_lock(a);
	struct beest_requests *requests;
	struct beest_incarnation listener;
	int32_t rank;
	bool full;
	int ret;

	if (!service)
		return -ENOTCONN;
	requests = &service->requests;
	if (requests->count == requests->room || beest_clock_now() >= service->renew_at)
		beest_requests_forget(requests, directory_ttl(&a->directory));
	ret = beest_directory_see(&a->directory, requests, value);
	if (ret == 0)
		ret = list_judge(a, service, value);
	full = full_note(service, &a->directory);
	listener = requests->listener;
	rank = requests->rank;
	accepting_unlock(a);
	/* An accept that waits for ever never reports it otherwise. */
	if (full)
		beest_log(a->directory.registry->log, BEEST_LOG_WARN, "service '%s': %s",
			  a->directory.service, a->directory.full);

	return ret == -EADDRINUSE ? listener_fail(&a->directory, rank, &listener) : ret;
}

static void request_show(struct accepting *a, const struct beest_requests_row *row,
			 const struct beest_record *record, const struct beest_request_body *body)
{
	struct hartebeest_client *request = a->request;

	memset(request, 0, sizeof(*request));
	request->number = row->id.number;
	request->context = row->id.client;
	request->rank = record->rank;
	request->pid = body->pid;
	request->again = row->state == BEEST_REQUEST_INHERITED;
	request->length = body->length;
	memcpy(request->host, body->host, sizeof(request->host));
	memcpy(request->data, body->data, body->length);
	beest_directory_ends(&a->directory, &row->id, request->peer_key, request->key);
}

/*
 * Locked.  The record may have been evicted, and may return.  It is closed when even its client, if
 * it had stopped looking, would have lost it.
 */
static void row_is_absent(const struct accepting *a, struct beest_requests_row *row)
{
	int64_t now = beest_clock_now();

	if (!row->absent_at)
		row->absent_at = now;
	row->read_at = now + BEEST_MIN(now - row->absent_at + ABSENT_PAUSE, ABSENT_PAUSE_MAX);
	if (now - row->absent_at >= directory_ttl(&a->directory))
		row_close(row);
}

/* Locked.  Gives the caller the first request that this process has not accepted. */
static void row_is_present(struct accepting *a, struct beest_requests_row *row,
			   const struct beest_record *record,
			   const struct beest_request_body *body)
{
	row->absent_at = 0;
	row->read_at = beest_clock_deadline(directory_ttl(&a->directory));
	if (!body)
		row_close(row);
	if (row->state >= BEEST_REQUEST_ACCEPTED || row->listed == BEEST_LISTED_ENDED)
		return;
	request_show(a, row, record, body);
	row->state = BEEST_REQUEST_ACCEPTED;
	a->state = ACCEPT_DONE;
}

/* Is it the record of this request, and of its client? */
static int request_decode(const struct accepting *a, const struct beest_request_id *id,
			  const struct beest_record *record, struct beest_request_body *body)
{
	char key[BEEST_KEY_MAX + 1];
	int ret = beest_record_request_decode(record, body);

	if (ret == 0 && (body->number != id->number ||
			 beest_directory_client(&record->incarnation) != id->client))
		ret = beest_fail(EBADMSG, "this record belongs to another client's request");
	if (ret < 0) {
		beest_directory_key(&a->directory, id, key);
		beest_log(a->directory.registry->log, BEEST_LOG_WARN, "key '%s' is ignored: %s",
			  key, beest_error_text());
	}

	return ret;
}

static int see_request(void *data, const struct beest_request_id *id,
		       const struct beest_record *record)
{
	struct accepting *a = data;
	bool closed = record && record->flags & BEEST_RECORD_CLOSED;
	struct beest_request_body body;
	struct beest_requests_row *row;
	struct service *service;

	if (a->state != ACCEPT_LISTENS)
		return 0;
	if (record && !closed && request_decode(a, id, record, &body) < 0)
		record = NULL;
	service = accepting_lock(a);
	if (!service)
		return -ENOTCONN;
	row = beest_requests_find(&service->requests, id);
	if (row && record)
		row_is_present(a, row, record, closed ? NULL : &body);
	else if (row)
		row_is_absent(a, row);
	accepting_unlock(a);

	return 0;
}

/* Chooses the records that the next look reads. */
static int accept_next(void *data, struct beest_directory_reads *reads)
{
	struct accepting *a = data;
	struct service *service;
	const struct beest_requests_row *row;
	int64_t now = beest_clock_now(), third;
	bool fresh = false;
	size_t i;

	if (a->state == ACCEPT_DONE)
		return 1;
	service = accepting_lock(a);
	if (!service)
		return -ENOTCONN;
	third = directory_ttl(&a->directory) / 3;
	if (!service->renew_at)
		service->renew_at = beest_clock_deadline(BEEST_MIN(RENEW_FIRST, third));
	for (i = 0; i < service->requests.named_count && reads->count < BEEST_DIRECTORY_READS;
	     i++) {
		row = beest_requests_named(&service->requests, i);
		if (!beest_requests_is_open(row) || row->state == BEEST_REQUEST_CLOSED ||
		    row->read_at > now)
			continue;
		reads->ids[reads->count++] = row->id;
		fresh |= !row->read_at;
	}
	accepting_unlock(a);
	reads->hurry = fresh && a->state == ACCEPT_LISTENS;
	a->state = ACCEPT_BLIND;

	return 0;
}

/* Informs a successor at once: this process may be killed before its next look. */
static void accepting_show(struct accepting *a)
{
	const struct beest_request_id id = beest_directory_id(a->request);

	if (beest_directory_append_one(&a->directory, BEEST_SERVICE_ACCEPTED, &id) == 0)
		beest_list_offer(&a->directory.list);
}

int beest_service_accept(struct hartebeest_context *hb, const char *name,
			 struct hartebeest_client *request, const struct beest_limit *limit)
{
	static const struct beest_directory_steps steps = {
		.see_list = see_service, .see_request = see_request, .next = accept_next,
	};
	struct accepting a = { .hb = hb, .request = request };
	int ret;

	ret = directory_open(&a.directory, hb, name);
	if (ret < 0)
		return ret;
	ret = beest_directory_run(&a.directory, limit, &steps, &a);
	if (a.state == ACCEPT_DONE) {
		accepting_show(&a);
		ret = 0;
	}
	beest_directory_end(&a.directory);
	if ((ret == -ETIMEDOUT || ret == -EAGAIN) && !a.directory.failing)
		return beest_fail(-ret, "no further client has asked for service '%s'%s%s", name,
				  *a.directory.full ? "; " : "", a.directory.full);

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
 * may not look for that long.  What else the look does, and fails to do, does not count.
 */
static int request_close(struct beest_directory *directory, const struct beest_request_id *id)
{
	uint8_t bytes[BEEST_RECORD_EMPTY_MAX];
	char key[BEEST_KEY_MAX + 1];
	struct beest_look_extra extras[BEEST_LIST_WRITES + 1], *closed = &extras[BEEST_LIST_WRITES];
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
	*closed = (struct beest_look_extra){
		.server = directory->list.server,
		.write = {
			.verb = BEEST_KV_SET, .key = key, .value = bytes, .size = (size_t)ret,
			.ttl = beest_lease_ttl(directory->registry->leases), .answered = true,
		},
	};
	ret = beest_directory_append_one(directory, BEEST_SERVICE_ENDED, id);
	if (ret < 0)
		return ret;
	memcpy(extras, directory->list.extras, sizeof(directory->list.extras));
	ret = beest_look_take(directory->registry, &look);
	if (closed->done)
		return closed->write.ret;

	return ret < 0 ? ret : beest_directory_failure(directory);
}

/* This context listens, and the request is one of those that it has seen: -ENOENT if not. */
static int service_refuse(struct hartebeest_context *hb, struct beest_directory *directory,
			  const struct hartebeest_client *request)
{
	const struct beest_request_id id = beest_directory_id(request);
	struct beest_requests_row *row;
	struct service *service;

	pthread_mutex_lock(&hb->objects.lock);
	service = service_look(hb, directory->service);
	row = service ? beest_requests_find(&service->requests, &id) : NULL;
	if (row)
		row_close(row);
	pthread_mutex_unlock(&hb->objects.lock);
	if (!row)
		return beest_fail(ENOENT, "this context has no request with the key '%s' and %s "
				  "service '%s'", request->key, service ?
				  "has accepted none with its number of" : "does not listen to",
				  directory->service);

	return request_close(directory, &id);
}

static int request_leave(struct hartebeest_context *hb, struct beest_directory *directory,
			 const struct hartebeest_client *request)
{
	int ret;

	if (!request->number)
		return beest_fail(ENOENT, "this is no request of service '%s': it has no number",
				  directory->service);
	if (!memchr(request->key, '\0', sizeof(request->key)))
		return beest_fail(EINVAL, "this is no request of service '%s': its key has no end",
				  directory->service);
	ret = beest_client_leave(&hb->client, directory, request);
	if (ret == -ENOENT)
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
	if (ret == 0 && beest_directory_append(&directory, &body) == 0)
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
