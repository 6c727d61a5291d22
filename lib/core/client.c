/* SPDX-License-Identifier: MIT */
/*
 * client.c - see client.h
 *
 * A request is a record under a key of its own, and its id is in the list of its service.  Both
 * go in one look, the record first.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/core/client.h"
#include "lib/core/directory.h"
#include "lib/core/requests.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/store.h"

/*
 * While a client waits, it reads the list now and then, since only the list may be lost: after
 * this time, and then each time after twice as long, up to the longest.
 */
#define CHECK_FIRST BEEST_SECOND
#define CHECK_MAX (64 * BEEST_SECOND)

/* A pending request: the registry keeps its record on its server. */
struct beest_pending {
	struct beest_pending *next;
	struct beest_directory directory;
	struct hartebeest_client request;	/* as the client sees it */
	struct beest_request_id id;
	char key[BEEST_KEY_MAX + 1];
	uint64_t serial;
	uint8_t epoch[BEEST_EPOCH_SIZE];	/* of its server when it was in the list */
	int64_t check_at, pause;
};

/* ------------------------------------------------------------------------ appending --- */

static int pending_put(struct beest_pending *pending)
{
	const struct hartebeest_client *request = &pending->request;
	struct beest_request_body body = {
		.number = pending->id.number, .pid = request->pid,
		.length = (uint16_t)request->length,
	};
	uint8_t bytes[BEEST_REQUEST_MAX];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_REQUEST, .key = pending->key,
		.placed_as = pending->directory.list.key, .body = bytes,
		.serial = &pending->serial,
	};

	memcpy(body.host, request->host, sizeof(body.host));
	memcpy(body.data, request->data, request->length);
	record.size = (size_t)beest_record_request_encode(&body, bytes);

	return beest_registry_put(pending->directory.registry, &record);
}

struct appending {
	struct beest_pending *pending;
	struct beest_requests requests;
};

/* 1: the request is in the list, and its record is there. */
static int see_asked(void *data, const struct beest_kv_value *value)
{
	struct appending *a = data;
	struct beest_directory *directory = &a->pending->directory;
	const struct beest_requests_row *row;
	int ret = beest_directory_see(directory, &a->requests, value);

	if (ret < 0)
		return ret;
	row = beest_requests_find(&a->requests, &a->pending->id);
	if (!row || row->listed == BEEST_LISTED_NOT)
		return beest_directory_append_one(directory, BEEST_SERVICE_ASKS, &a->pending->id);

	return beest_lease_is(directory->registry->leases, a->pending->key, BEEST_LEASE_SETTLED);
}

/* Keeps the request in the list from now on. */
static int pending_append(struct beest_pending *pending, bool missing,
			  const struct beest_limit *limit)
{
	static const struct beest_directory_steps steps = {
		.see_list = see_asked, .unmet = "has not taken this request",
	};
	struct appending a = { .pending = pending };
	struct beest_directory *directory = &pending->directory;
	uint8_t epoch[BEEST_EPOCH_SIZE];
	/* A later one may be of a server that has lost, since it was read, what it is noted for. */
	bool known = beest_look_epoch(directory->registry, directory->list.server, epoch);
	int ret = 0;

	if (missing && !beest_list_is_appending(&directory->list))
		ret = beest_directory_append_one(directory, BEEST_SERVICE_ASKS, &pending->id);
	if (ret == 0)
		ret = beest_directory_run(directory, limit, &steps, &a);
	beest_requests_end(&a.requests);
	if (ret < 0)
		return ret;
	if (!known)
		beest_look_epoch(directory->registry, directory->list.server, epoch);
	memcpy(pending->epoch, epoch, sizeof(epoch));
	pending->check_at = beest_clock_deadline(pending->pause);
	pending->pause = BEEST_MIN(2 * pending->pause, CHECK_MAX);

	return 0;
}

/* -------------------------------------------------------------------------- pending --- */

void beest_client_start(struct beest_client *client)
{
	pthread_mutex_init(&client->lock, NULL);
}

static void pending_free(struct beest_pending *pending)
{
	beest_directory_end(&pending->directory);
	free(pending);
}

/* Its record is deleted with the context: the list need not name it any longer. */
static void pending_end(struct beest_pending *pending)
{
	if (beest_directory_append_one(&pending->directory, BEEST_SERVICE_ENDED,
				       &pending->id) == 0)
		beest_list_offer(&pending->directory.list);
}

void beest_client_settle(struct beest_client *client)
{
	int64_t deadline = beest_clock_deadline(BEEST_LIMIT_LOOK);
	struct beest_pending *pending;

	pthread_mutex_lock(&client->lock);
	for (pending = client->pending; pending && beest_clock_left(deadline);
	     pending = pending->next)
		pending_end(pending);
	pthread_mutex_unlock(&client->lock);
}

void beest_client_end(struct beest_client *client)
{
	struct beest_pending *pending;

	while ((pending = client->pending)) {
		client->pending = pending->next;
		pending_free(pending);
	}
	pthread_mutex_destroy(&client->lock);
}

/* Fills in the client, its data and all keys. */
static void pending_fill(struct beest_pending *pending, const void *data, size_t length)
{
	struct hartebeest_client *request = &pending->request;
	const struct beest_registry_presence *presence = &pending->directory.registry->presence;

	request->rank = presence->rank;
	request->pid = (uint32_t)getpid();
	request->length = (uint32_t)length;
	beest_registry_host(request->host);
	if (length)
		memcpy(request->data, data, length);
	pending->pause = CHECK_FIRST;
	pending->id.client = request->context = beest_directory_client(&presence->incarnation);
	request->number = pending->id.number;
	beest_directory_key(&pending->directory, &pending->id, pending->key);
	beest_directory_ends(&pending->directory, &pending->id, request->key, request->peer_key);
}

/* Its record stays doomed until it is gone: each look from now on tries. */
static int request_withdraw(const struct beest_directory *directory, const char *key)
{
	struct beest_leases *leases = directory->registry->leases;

	beest_store_withdraw(directory->registry, beest_lease_serial(leases, key),
			     directory->list.server);

	return beest_lease_is(leases, key, BEEST_LEASE_THERE) ?
	       beest_directory_failure(directory) : 0;
}

static int pending_withdraw(struct beest_pending *pending)
{
	int ret;

	pending_end(pending);
	ret = request_withdraw(&pending->directory, pending->key);
	pending_free(pending);

	return ret;
}

/* It may be stored all the same, and its client will ask again. */
static int pending_give_up(struct beest_pending *pending, int ret)
{
	char sentence[BEEST_ERROR_SIZE];

	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	if (pending->serial)
		pending_withdraw(pending);
	else
		pending_free(pending);

	return beest_fail(-ret, "%s", sentence);
}

int beest_client_ask(struct beest_client *client, struct beest_registry *registry,
		     const char *name, const void *data, size_t length,
		     struct hartebeest_client *request, const struct beest_limit *limit)
{
	struct beest_pending *pending = calloc(1, sizeof(*pending));
	int ret;

	if (!pending)
		return beest_fail(ENOMEM, "no memory for a request");

	ret = beest_directory_find(&pending->directory, registry, name);
	if (ret == 0) {
		pending->id.number = __atomic_add_fetch(&client->drawn, 1, __ATOMIC_RELAXED);
		pending_fill(pending, data, length);
		ret = pending_put(pending);
	}
	if (ret == 0)
		ret = pending_append(pending, true, limit);
	if (ret < 0)
		return pending_give_up(pending, ret);

	*request = pending->request;
	pthread_mutex_lock(&client->lock);
	pending->next = client->pending;
	client->pending = pending;
	pthread_mutex_unlock(&client->lock);

	return 0;
}

/* Has its server lost everything? */
static bool pending_is_lost(const struct beest_pending *pending)
{
	const struct beest_directory *directory = &pending->directory;
	uint8_t epoch[BEEST_EPOCH_SIZE];

	return beest_look_epoch(directory->registry, directory->list.server, epoch) &&
	       memcmp(epoch, pending->epoch, sizeof(epoch)) != 0;
}

/*
 * Not if the listener has ended it: another record is there in place of its own.  Nor if its server
 * is silent: the caller waits for something else, and not for longer than its deadline.
 */
static bool pending_is_due(const struct beest_pending *pending)
{
	return !beest_look_is_silent(pending->directory.registry, pending->directory.list.server) &&
	       (pending_is_lost(pending) || beest_clock_now() >= pending->check_at) &&
	       !beest_lease_is(pending->directory.registry->leases, pending->key,
			       BEEST_LEASE_CONTESTED);
}

/* Called under the lock.  Unlinks the request with that key; NULL: one that is due. */
static struct beest_pending *pending_unlink(struct beest_client *client, const char *key)
{
	struct beest_pending **at, *pending;

	for (at = &client->pending; (pending = *at); at = &pending->next)
		if (key ? strcmp(pending->request.key, key) == 0 :
		    pending_is_due(pending)) {
			*at = pending->next;
			break;
		}

	return pending;
}

/*
 * Takes one request at a time, since appending waits, and each wait calls this function.  All
 * together have a limit of their own; the others follow after the next look.
 */
void beest_client_keep(struct beest_client *client)
{
	struct beest_pending *pending;
	struct beest_limit limit;
	int ret = 0;

	beest_limit_start(&limit, NULL, beest_clock_deadline(BEEST_LIMIT_LOOK), 0);
	pthread_mutex_lock(&client->lock);
	while (ret == 0 && beest_limit_left(&limit) && !client->moving &&
	       (pending = pending_unlink(client, NULL))) {
		client->moving = pending;
		pthread_mutex_unlock(&client->lock);
		ret = pending_append(pending, pending_is_lost(pending), &limit);
		pthread_mutex_lock(&client->lock);
		client->moving = NULL;
		pending->next = client->pending;
		client->pending = pending;
	}
	pthread_mutex_unlock(&client->lock);
}

/* Another thread appends that request. */
static bool pending_is_moving(const struct beest_client *client, const char *key)
{
	return client->moving && strcmp(client->moving->request.key, key) == 0;
}

/* Is it the client's end of a request that this context has made?  It may have accepted its own. */
static bool request_is_own(const struct beest_client *client,
			   const struct beest_directory *directory,
			   const struct hartebeest_client *request)
{
	const struct beest_incarnation *own = &directory->registry->presence.incarnation;
	const struct beest_request_id id = beest_directory_id(request);
	char ours[HARTEBEEST_SERVICE_KEY], theirs[HARTEBEEST_SERVICE_KEY];

	if (id.client != beest_directory_client(own) || !id.number ||
	    request->number > __atomic_load_n(&client->drawn, __ATOMIC_RELAXED))
		return false;
	beest_directory_ends(directory, &id, ours, theirs);

	return strcmp(request->key, ours) == 0;
}

int beest_client_leave(struct beest_client *client, const struct beest_directory *directory,
		       const struct hartebeest_client *request)
{
	const int64_t deadline = beest_clock_deadline(2 * BEEST_LIMIT_LOOK);
	const struct beest_request_id id = beest_directory_id(request);
	struct beest_backoff backoff;
	struct beest_pending *pending;
	char key[BEEST_KEY_MAX + 1];
	bool moving;

	if (!request_is_own(client, directory, request))
		return -ENOENT;

	beest_clock_backoff_start(&backoff, 0);
	pthread_mutex_lock(&client->lock);
	while (pending_is_moving(client, request->key) && beest_clock_left(deadline)) {
		pthread_mutex_unlock(&client->lock);
		beest_clock_backoff_sleep(&backoff, deadline);
		pthread_mutex_lock(&client->lock);
	}
	pending = pending_unlink(client, request->key);
	moving = pending_is_moving(client, request->key);
	pthread_mutex_unlock(&client->lock);
	if (moving)
		return beest_fail(EAGAIN, "another thread stores that request right now");
	if (pending)
		return pending_withdraw(pending);

	/* An earlier call has ended it: what its server did not take then is tried again. */
	beest_directory_key(directory, &id, key);

	return request_withdraw(directory, key);
}

/* ----------------------------------------------------------------- a request in vain --- */

static void listener_add(const struct beest_directory *directory,
			 const struct beest_requests *requests,
			 const struct beest_request_id *id, struct beest_text *text)
{
	static const char *const reached[] = {
		/* It leaves out those that are over, and had this one. */
		[BEEST_LISTED_NOT] = "ended, or lost with its list,",
		[BEEST_LISTED_ASKED] = "not accepted",
		[BEEST_LISTED_ACCEPTED] = "accepted", [BEEST_LISTED_ENDED] = "ended",
	};
	const struct beest_requests_row *row = beest_requests_find(requests, id);
	char who[BEEST_PRESENCE_TEXT];

	if (!requests->shows)
		beest_text_item(text, "no process listens to service '%s'", directory->service);
	else if (beest_presence_is_over(directory->registry, requests->rank, &requests->listener,
					who))
		beest_text_item(text, "the last to listen to service '%s' is %s",
				directory->service, who);
	else if (requests->shows == BEEST_SERVICE_STOPS)
		beest_text_item(text, "the last to listen to service '%s' is %s, which has "
				"stopped", directory->service, who);
	else
		beest_text_item(text, "%s listens to service '%s' and has %s this request", who,
				directory->service,
				reached[row ? row->listed : BEEST_LISTED_NOT]);
}

void beest_client_explain(struct beest_client *client, const char *key, struct beest_text *text)
{
	struct beest_pending *each, asked;
	struct beest_requests requests = { 0 };
	struct beest_kv_value value = { 0 };
	bool found = false;

	pthread_mutex_lock(&client->lock);
	for (each = client->pending; each && !found; each = each->next)
		if (strcmp(each->request.peer_key, key) == 0) {
			asked = *each;
			found = true;
		}
	pthread_mutex_unlock(&client->lock);
	if (!found)
		return;
	if (beest_list_fetch(&asked.directory.list, &value) == 0 &&
	    beest_requests_see(&requests, &asked.directory.list, &value) == 0)
		listener_add(&asked.directory, &requests, &asked.id, text);
	beest_kv_values_free(&value, 1);
	beest_requests_end(&requests);
}
