/* SPDX-License-Identifier: MIT */
/*
 * service.c - see service.h
 *
 * The listener reads the numbers in order.  If a number was given out but its request stays
 * absent, the listener closes it.  It does so with an add, as clients store requests: so
 * either the client has the number, or nobody ever will.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/core/context.h"
#include "lib/core/home.h"
#include "lib/core/service.h"
#include "lib/verbs/qp.h"

/* Numbers that a listener asks for in each look. */
#define SLOTS 16
/* Numbers from next on that it keeps track of: the bits of taken. */
#define WINDOW 64
/*
 * At most this many clients may come between two surveys.  A counter that is further ahead
 * is not believed, since closing all numbers up to it would fill the server.
 */
#define AHEAD_MAX 1000000

/* A number that was given out this long ago, and whose request is absent, is closed. */
#define GAP_TIME BEEST_SECOND

/* A service that this context listens to. */
struct service {
	struct beest_node node;
	uint64_t serial;
	struct beest_listener_body now;		/* what this process has had */
	struct beest_listener_body former;	/* what its predecessor had in this epoch */
	struct beest_listener_body *past;	/* earlier values of now; for free(3) */
	size_t past_count;
	uint64_t given;				/* the last number given out, by a survey */
	int64_t given_at;			/* when that survey was taken; 0: never */
	uint64_t old;				/* given, as of the survey before that one */
};

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

static void service_dispose(struct beest_node *node)
{
	free(BEEST_CONTAINER(node, struct service, node)->past);
}

static const struct beest_kind service_kind = {
	.noun = "service", .size = sizeof(struct service), .dispose = service_dispose,
};

/*
 * Begins in a new epoch, or after another process has listened.  Keeps what this process
 * had before, since clients store those requests again when the server loses them.
 */
static int service_begin(struct service *service, uint64_t epoch,
			 const struct beest_listener_body *former)
{
	struct beest_listener_body *past = service->past;

	if (service->now.epoch) {
		past = realloc(past, (service->past_count + 1) * sizeof(*past));
		if (!past)
			return beest_fail(ENOMEM, "no memory for the former requests of a service");
		past[service->past_count++] = service->now;
		service->past = past;
	}

	service->former = former->epoch == epoch ? *former : (struct beest_listener_body){ 0 };
	service->now = (struct beest_listener_body){
		.epoch = epoch, .since = service->now.since,
		.next = BEEST_MIN(service->former.first, service->former.next),
	};
	service->now.next += !service->now.next;	/* numbers begin at 1 */
	service->now.first = service->now.next;
	service->given = service->old = 0;
	service->given_at = 0;

	return 0;
}

/* Puts what this process has had, for its successor. */
static int service_put(struct service *service, const struct beest_home *home)
{
	uint8_t body[BEEST_BODY_MAX];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_LISTENER, .key = home->listener_key, .body = body,
		.serial = &service->serial,
	};

	record.size = (size_t)beest_record_listener_encode(&service->now, body);

	return beest_registry_put(home->registry, &record);
}

/*
 * @stored: the request is on the server, and was accepted now or in a former epoch.  first
 * is the lowest number of such a request.  That number is taken and cannot be next, so
 * first equals next as long as there is none.
 */
static void service_take(struct service *service, uint64_t number, bool stored)
{
	struct beest_listener_body *now = &service->now;
	bool any = now->first != now->next;

	window_take(now, number);
	if (stored)
		now->first = any ? BEEST_MIN(now->first, number) : number;
	else if (!any)
		now->first = now->next;
}

static struct service *service_look(struct hartebeest_context *hb, const char *name)
{
	struct beest_node *node = beest_table_look(&hb->objects, &service_kind, name);

	return node ? BEEST_CONTAINER(node, struct service, node) : NULL;
}

int beest_service_listen(struct hartebeest_context *hb, const char *name,
			 const struct beest_limit *limit)
{
	struct beest_home_sight former;
	struct service *service;
	struct beest_node *node;
	struct beest_home home;
	uint64_t epoch;
	int ret;

	ret = beest_home_find(&home, hb, name);
	if (ret < 0)
		return ret;
	ret = beest_home_look(&home, false, &former, limit);
	if (ret == 0)
		ret = beest_table_obtain(&hb->objects, &service_kind, name, &node);
	if (ret < 0)
		return ret;

	service = BEEST_CONTAINER(node, struct service, node);
	epoch = beest_home_epoch(&home);
	/* Another process listened after this one, and did not just store its record late. */
	if ((former.another && former.body.since >= service->now.since) ||
	    service->now.epoch != epoch)
		ret = service_begin(service, epoch, &former.body);
	service->now.since = BEEST_MAX((uint64_t)time(NULL), former.body.since + 1);
	if (ret == 0)
		ret = service_put(service, &home);

	return ret < 0 ? ret : beest_wait_run(home.registry, &(struct beest_wait){
		.own_keys = (const char *[]){ home.listener_key }, .own_count = 1,
		.limit = limit,
	});
}

/* ------------------------------------------------------------------------ accepting --- */

struct slot {
	struct accepting *accepting;
	uint64_t number;
	char key[BEEST_KEY_MAX + 1];
	uint8_t closed[BEEST_RECORD_EMPTY_MAX];
};

struct accepting {
	struct beest_home home;
	struct service *service;
	struct hartebeest_request *request;
	bool found;
	bool heard;			/* the last look showed that this process still listens */
	struct slot slots[SLOTS];
	struct beest_wait_get gets[1 + SLOTS];	/* the listener's record, then the slots */
	struct beest_look_extra extras[SLOTS];
	struct beest_wait wait;
};

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
	beest_home_ends(&a->home, &record->incarnation, body->id, request->peer_key,
			request->key);
}

/* past has several entries of one epoch if another process listened in between. */
static bool service_had(const struct service *service, const struct beest_request_body *body)
{
	size_t i;

	for (i = 0; i < service->past_count; i++)
		if (service->past[i].epoch == body->past_epoch &&
		    window_has(&service->past[i], body->past_number))
			return true;

	return false;
}

/*
 * Gives the caller the first request that this process has not had.  Ignores a look in
 * which the epoch changed: all that it shows on the emptied server is what this very look
 * closed there.
 */
static int see_request(void *data, const struct beest_record *record)
{
	struct slot *slot = data;
	struct accepting *a = slot->accepting;
	struct beest_request_body body;
	bool closed = record->flags & BEEST_RECORD_CLOSED, had = false;
	int ret = 0;

	if (a->found || beest_home_epoch(&a->home) != a->service->now.epoch ||
	    window_has(&a->service->now, slot->number))
		return 0;
	if (!closed)
		ret = beest_record_request_decode(record, &body);
	if (ret < 0)
		beest_log(a->home.registry->log, BEEST_LOG_WARN, "key '%s' is ignored: %s",
			  slot->key, beest_error_text());
	if (ret == 0 && !closed)
		had = service_had(a->service, &body);
	a->found = ret == 0 && !closed && !had;
	if (a->found)
		request_show(slot, record, &body);
	service_take(a->service, slot->number, a->found || had);

	return 0;
}

/* True: an earlier listener stored its record late.  Ours is then stored again. */
static bool listening_outlasts(struct accepting *a, const struct beest_record *record)
{
	struct beest_listener_body body;

	if (beest_record_listener_decode(record, &body) < 0 ||
	    body.since >= a->service->now.since)
		return false;
	beest_lease_insist(a->home.registry->leases, a->home.listener_key);

	return true;
}

static int see_listening(void *data, const struct beest_record *record)
{
	struct accepting *a = data;
	char who[BEEST_PRESENCE_TEXT];

	a->heard = beest_home_is_own(&a->home, record) || listening_outlasts(a, record);
	if (a->heard)
		return 0;
	beest_presence_author(a->home.registry, record->rank, &record->incarnation, who);

	return beest_fail(EADDRINUSE, "service '%s' is served by %s now", a->home.service, who);
}

/*
 * Notes once a second how far numbers were given out: up to the counter or the highest
 * number taken, whichever is greater.  What the survey before found is then old.
 */
static void numbers_survey(struct accepting *a)
{
	struct service *service = a->service;
	struct beest_look_want want = { .key = a->home.count_key, .server = a->home.server };
	struct beest_look look = {
		.wants = &want, .count = 1, .deadline = beest_clock_deadline(BEEST_LIMIT_LOOK),
	};
	uint64_t count, last = service->now.next - 1;
	char text[24] = "";
	int ret;

	if (service->given_at && beest_clock_now() - service->given_at < GAP_TIME)
		return;
	/* Even if another server failed in the same look, the answer of this one counts. */
	ret = beest_look_take(a->home.registry, &look);
	if (want.failed || ret == -ENOMEM)
		return;
	if (want.value.bytes && want.value.size < sizeof(text))
		memcpy(text, want.value.bytes, want.value.size);
	beest_look_free(&want, 1);
	count = strtoull(text, NULL, 10);
	if (service->now.taken)
		last += 64 - (uint64_t)__builtin_clzll(service->now.taken);
	if (count > last && count - last > AHEAD_MAX)
		count = last;
	service->old = service->given;
	service->given = BEEST_MAX(count, last);
	service->given_at = beest_clock_now();
}

/*
 * Passes over a number whose value is no record, and over one that the former listener had
 * and that is absent now: its client has left.
 */
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

/* Chooses the numbers that the next look reads, and closes old ones unless clients have them. */
static int slots_fill(struct accepting *a)
{
	const struct service *service = a->service;
	uint64_t number = service->now.next;
	struct slot *slot;
	int ret;

	a->wait.extra_count = 0;
	for (slot = a->slots; slot < a->slots + SLOTS; slot++) {
		while (window_has(&service->now, number))
			number++;
		if (number - service->now.next >= WINDOW)
			number = service->now.next;	/* again instead of beyond the window */
		slot->number = number++;
		beest_home_key(&a->home, service->now.epoch, slot->number, slot->key);
		if (slot->number > service->old || window_has(&service->former, slot->number))
			continue;
		ret = beest_home_close(&a->home, BEEST_KV_ADD, slot->key, slot->closed,
				       &a->extras[a->wait.extra_count]);
		if (ret < 0)
			return ret;
		a->wait.extra_count++;
	}

	return 0;
}

static int accept_each(void *data)
{
	static const struct beest_listener_body none;
	struct accepting *a = data;
	struct service *service = a->service;
	uint64_t epoch = beest_home_epoch(&a->home), next = a->slots[0].number;
	bool closed = a->wait.extra_count;
	int ret = 0;

	if (a->found)
		return 1;
	if (epoch != service->now.epoch) {
		ret = service_begin(service, epoch, &none);
		if (ret == 0)
			ret = service_put(service, &a->home);
	} else if (a->heard) {
		numbers_survey(a);
		numbers_pass(a);
	}
	a->heard = false;
	if (ret == 0)
		ret = slots_fill(a);
	/* Closing again what could not be closed waits for the usual pause. */
	a->wait.hurry = service->now.next != next || (a->wait.extra_count && !closed);

	return ret;
}

static int accepting_start(struct accepting *a, struct hartebeest_context *hb, const char *name,
			   const struct beest_limit *limit)
{
	size_t i;
	int ret;

	ret = beest_home_find(&a->home, hb, name);
	if (ret < 0)
		return ret;
	a->service = service_look(hb, name);
	if (!a->service)
		return beest_fail(ENOTCONN, "this context does not listen to service '%s': call "
				  "hartebeest_service_listen() first", name);

	a->wait = (struct beest_wait){
		.gets = a->gets, .count = 1 + SLOTS, .extras = a->extras, .each = accept_each,
		.data = a, .limit = limit,
	};
	a->gets[0] = (struct beest_wait_get){
		.kind = BEEST_KIND_LISTENER, .key = a->home.listener_key, .name = name,
		.see = see_listening, .data = a,
	};
	for (i = 0; i < SLOTS; i++) {
		a->slots[i].accepting = a;
		a->gets[1 + i] = (struct beest_wait_get){
			.kind = BEEST_KIND_REQUEST, .key = a->slots[i].key, .name = name,
			.see = see_request, .data = &a->slots[i],
			.placed_as = a->home.listener_key,
		};
	}

	return slots_fill(a);
}

int beest_service_accept(struct hartebeest_context *hb, const char *name,
			 struct hartebeest_request *request, const struct beest_limit *limit)
{
	struct hartebeest_request found;
	struct accepting a = { .request = &found };
	int ret;

	ret = accepting_start(&a, hb, name, limit);
	if (ret < 0)
		return ret;
	ret = beest_wait_run(a.home.registry, &a.wait);
	if (a.found) {
		*request = found;
		/* Accepted even if memory is short: the record that is put next says so, too. */
		if (service_put(a.service, &a.home) == 0)
			beest_registry_offer(a.home.registry, a.home.listener_key);
		return 0;
	}
	if (ret == -ETIMEDOUT || ret == -EAGAIN)
		return beest_fail(-ret, "nobody has asked for service '%s'", name);

	return ret;
}

/* -------------------------------------------------------------------------- leaving --- */

/* Closes the record of the queue pair under @key: the peer's hartebeest_qp_follow() finds it. */
static void ends_close(struct hartebeest_context *hb, const char *key)
{
	struct beest_node *node;
	struct beest_qp *qp;
	uint64_t serial = 0;

	pthread_mutex_lock(&hb->objects.lock);
	for (node = hb->objects.newest; node; node = node->older) {
		if (node->kind != &beest_qp_kind)
			continue;
		qp = BEEST_CONTAINER(node, struct beest_qp, node);
		if (strcmp(qp->key, key) == 0)
			serial = qp->serial;
	}
	pthread_mutex_unlock(&hb->objects.lock);
	beest_registry_withdraw(hb->registry, serial, SIZE_MAX);
}

/*
 * Replaces the request by a closed record, so that no later listener gets it.  If it were
 * deleted, its client would store it again.  The closed record lives as long as a request,
 * since the client may not look for that long.
 */
static int request_close(const struct beest_home *home, const struct hartebeest_request *request)
{
	uint8_t bytes[BEEST_RECORD_EMPTY_MAX];
	char key[BEEST_KEY_MAX + 1];
	struct beest_look_extra extra;
	struct beest_look look = {
		.extras = &extra, .extra_count = 1,
		.deadline = beest_clock_deadline(BEEST_LIMIT_LOOK),
	};
	int ret;

	if (request->epoch != beest_home_epoch(home))
		return 0;		/* lost by its server */

	beest_home_key(home, request->epoch, request->number, key);
	ret = beest_home_close(home, BEEST_KV_SET, key, bytes, &extra);
	extra.write.ttl = beest_lease_ttl(home->registry->leases);

	return ret < 0 ? ret : beest_look_take(home->registry, &look);
}

int beest_service_leave(struct hartebeest_context *hb, const char *name,
			const struct hartebeest_request *request)
{
	struct service *service;
	struct beest_home home;
	int ret;

	ret = beest_home_find(&home, hb, name);
	if (ret < 0)
		return ret;
	service = service_look(hb, name);
	if (!request)
		return beest_context_destroy_published(hb, &service_kind, name,
						       service ? service->serial : 0);

	if (!beest_client_leave(&hb->client, request->key)) {
		if (!service)
			return beest_fail(ENOENT, "this context has no request with the key '%s' "
					  "and does not listen to service '%s'", request->key,
					  name);
		ret = request_close(&home, request);
	}
	ends_close(hb, request->key);

	return ret;
}
