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
#include "lib/core/home.h"
#include "lib/core/roster.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/store.h"

/*
 * While a client waits, it reads the list now and then, since only the list may be lost: after
 * this time, and then each time after twice as long, up to the longest.
 */
#define CHECK_FIRST BEEST_SECOND
#define CHECK_MAX (64 * BEEST_SECOND)

/* A standing request: the registry keeps its record on its server. */
struct beest_standing {
	struct beest_standing *next;
	struct beest_home home;
	struct hartebeest_client request;	/* as the client sees it; key "": it has left */
	struct beest_request_id id;
	char key[BEEST_KEY_MAX + 1];
	uint64_t serial;
	uint8_t epoch[BEEST_EPOCH_SIZE];	/* of its server when it was in the list */
	int64_t check_at, pause;
};

/* ------------------------------------------------------------------------ appending --- */

static int standing_put(struct beest_standing *standing)
{
	const struct hartebeest_client *request = &standing->request;
	struct beest_request_body body = {
		.number = standing->id.number, .pid = request->pid,
		.length = (uint16_t)request->length,
	};
	uint8_t bytes[BEEST_REQUEST_MAX];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_REQUEST, .key = standing->key,
		.placed_as = standing->home.list.key, .body = bytes,
		.serial = &standing->serial,
	};

	memcpy(body.host, request->host, sizeof(body.host));
	memcpy(body.data, request->data, request->length);
	record.size = (size_t)beest_record_request_encode(&body, bytes);

	return beest_registry_put(standing->home.registry, &record);
}

struct appending {
	struct beest_standing *standing;
	struct beest_roster roster;
	struct beest_wait_get get;
	bool compacts;			/* the list is too long */
	char full[BEEST_HOME_FULL];
};

/* 1: the request is in the list, and its record is there. */
static int see_asked(void *data, const struct beest_kv_value *value)
{
	struct appending *a = data;
	struct beest_standing *standing = a->standing;
	struct beest_home *home = &standing->home;
	const struct beest_roster_request *request;
	int ret = beest_home_see(home, &a->roster, value);

	if (ret < 0)
		return ret;
	a->compacts = beest_roster_is_long(&a->roster);
	a->get.unmet = *beest_home_full(home, &a->roster, a->full) ? a->full :
		       "has not taken this request";
	request = beest_roster_find(&a->roster, &standing->id);
	if (!request || !(request->asks || request->had || request->ended))
		return beest_home_say_one(home, BEEST_SERVICE_ASKS, &standing->id);

	return beest_lease_is(home->registry->leases, standing->key, BEEST_LEASE_SETTLED);
}

/* Also makes room in a list that is full of what nobody needs. */
static int append_each(void *data)
{
	struct appending *a = data;

	if (a->compacts)
		beest_home_compact(&a->standing->home, NULL, NULL);
	a->compacts = false;

	return 0;
}

/* Has the request be in the list from now on. */
static int standing_append(struct beest_standing *standing, bool says,
			   const struct beest_limit *limit)
{
	struct appending a = { .standing = standing };
	struct beest_home *home = &standing->home;
	struct beest_wait wait = { .each = append_each, .limit = limit };
	int ret = 0;

	if (says && !beest_list_is_saying(&home->list))
		ret = beest_home_say_one(home, BEEST_SERVICE_ASKS, &standing->id);
	beest_home_wait(home, &wait, &a.get, see_asked, &a);
	if (ret == 0)
		ret = beest_wait_run(home->registry, &wait);
	beest_roster_end(&a.roster);
	if (ret < 0)
		return ret;
	beest_look_epoch(home->registry, home->list.server, standing->epoch);
	standing->check_at = beest_clock_deadline(standing->pause);
	standing->pause = BEEST_MIN(2 * standing->pause, CHECK_MAX);

	return 0;
}

/* ------------------------------------------------------------------------- standing --- */

void beest_client_start(struct beest_client *client)
{
	pthread_mutex_init(&client->lock, NULL);
}

static void standing_free(struct beest_standing *standing)
{
	beest_home_end(&standing->home);
	free(standing);
}

/* Its record is deleted with the context: the list need not name it any longer. */
static void standing_end(struct beest_standing *standing)
{
	if (beest_home_say_one(&standing->home, BEEST_SERVICE_ENDED, &standing->id) == 0)
		beest_list_offer(&standing->home.list);
}

void beest_client_settle(struct beest_client *client)
{
	int64_t deadline = beest_clock_deadline(BEEST_LIMIT_LOOK);
	struct beest_standing *standing;

	pthread_mutex_lock(&client->lock);
	for (standing = client->standing; standing && beest_clock_left(deadline);
	     standing = standing->next)
		standing_end(standing);
	pthread_mutex_unlock(&client->lock);
}

void beest_client_end(struct beest_client *client)
{
	struct beest_standing *standing;

	while ((standing = client->standing)) {
		client->standing = standing->next;
		standing_free(standing);
	}
	pthread_mutex_destroy(&client->lock);
}

/* Fills in the client, its data and all keys. */
static void standing_fill(struct beest_standing *standing, const void *data, size_t length)
{
	struct hartebeest_client *request = &standing->request;
	const struct beest_registry_presence *presence = &standing->home.registry->presence;

	request->rank = presence->rank;
	request->pid = (uint32_t)getpid();
	request->length = (uint32_t)length;
	memcpy(request->host, presence->self.host, sizeof(request->host));
	if (length)
		memcpy(request->data, data, length);
	standing->pause = CHECK_FIRST;
	standing->id.client = request->context = beest_home_client(&presence->incarnation);
	request->number = standing->id.number;
	beest_home_key(&standing->home, &standing->id, standing->key);
	beest_home_ends(&standing->home, &standing->id, request->key, request->peer_key);
}

static void standing_withdraw(struct beest_standing *standing)
{
	standing_end(standing);
	beest_store_withdraw(standing->home.registry, standing->serial,
			     standing->home.list.server);
	standing_free(standing);
}

/* It may be stored all the same, and its client will ask again. */
static int standing_give_up(struct beest_standing *standing, int ret)
{
	char sentence[BEEST_ERROR_SIZE];

	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	if (standing->serial)
		standing_withdraw(standing);
	else
		standing_free(standing);

	return beest_fail(-ret, "%s", sentence);
}

int beest_client_ask(struct beest_client *client, struct beest_registry *registry,
		     const char *name, const void *data, size_t length,
		     struct hartebeest_client *request, const struct beest_limit *limit)
{
	struct beest_standing *standing = calloc(1, sizeof(*standing));
	int ret;

	if (!standing)
		return beest_fail(ENOMEM, "no memory for a request");

	ret = beest_home_find(&standing->home, registry, name);
	if (ret == 0) {
		standing->id.number = __atomic_add_fetch(&client->drawn, 1, __ATOMIC_RELAXED);
		standing_fill(standing, data, length);
		ret = standing_put(standing);
	}
	if (ret == 0)
		ret = standing_append(standing, true, limit);
	if (ret < 0)
		return standing_give_up(standing, ret);

	*request = standing->request;
	pthread_mutex_lock(&client->lock);
	standing->next = client->standing;
	client->standing = standing;
	pthread_mutex_unlock(&client->lock);

	return 0;
}

/* Has its server lost everything? */
static bool standing_is_lost(const struct beest_standing *standing)
{
	const struct beest_home *home = &standing->home;
	uint8_t epoch[BEEST_EPOCH_SIZE];

	return beest_look_epoch(home->registry, home->list.server, epoch) &&
	       memcmp(epoch, standing->epoch, sizeof(epoch)) != 0;
}

/*
 * Not if the listener has ended it: another record is there in place of its own.  Nor if its server
 * is silent: the caller waits for something else, and not for longer than its deadline.
 */
static bool standing_is_due(const struct beest_standing *standing)
{
	return !beest_look_is_silent(standing->home.registry, standing->home.list.server) &&
	       (standing_is_lost(standing) || beest_clock_now() >= standing->check_at) &&
	       !beest_lease_is(standing->home.registry->leases, standing->key,
			       BEEST_LEASE_CONTESTED);
}

/* Called under the lock.  Unlinks the request with that key; NULL: one that is due. */
static struct beest_standing *standing_unlink(struct beest_client *client, const char *key)
{
	struct beest_standing **at, *standing;

	for (at = &client->standing; (standing = *at); at = &standing->next)
		if (key ? strcmp(standing->request.key, key) == 0 :
		    standing_is_due(standing)) {
			*at = standing->next;
			break;
		}

	return standing;
}

/*
 * Takes one request at a time, since appending waits, and each wait calls this function.  All
 * together have a limit of their own; the others follow after the next look.
 */
void beest_client_keep(struct beest_client *client)
{
	struct beest_standing *standing;
	struct beest_limit limit;
	int ret = 0;

	beest_limit_start(&limit, NULL, 0, BEEST_LIMIT_LOOK);
	pthread_mutex_lock(&client->lock);
	while (ret == 0 && beest_limit_left(&limit) && !client->moving &&
	       (standing = standing_unlink(client, NULL))) {
		client->moving = standing;
		pthread_mutex_unlock(&client->lock);
		ret = standing_append(standing, standing_is_lost(standing), &limit);
		pthread_mutex_lock(&client->lock);
		client->moving = NULL;
		standing->next = client->standing;
		client->standing = standing;
	}
	standing = client->moving ? NULL : standing_unlink(client, "");
	pthread_mutex_unlock(&client->lock);
	if (standing)
		standing_withdraw(standing);
}

/* A request that is under way loses its key: beest_client_keep() withdraws it afterwards. */
bool beest_client_leave(struct beest_client *client, const char *key)
{
	struct beest_standing *standing;
	bool moving = false;

	pthread_mutex_lock(&client->lock);
	standing = standing_unlink(client, key);
	if (!standing && client->moving && strcmp(client->moving->request.key, key) == 0) {
		client->moving->request.key[0] = '\0';
		moving = true;
	}
	pthread_mutex_unlock(&client->lock);
	if (standing)
		standing_withdraw(standing);

	return standing || moving;
}

/* ----------------------------------------------------------------- a request in vain --- */

static void listener_say(const struct beest_home *home, const struct beest_roster *roster,
			 const struct beest_request_id *id, struct beest_text *text)
{
	const struct beest_roster_request *request = beest_roster_find(roster, id);
	char who[BEEST_PRESENCE_TEXT];

	if (!roster->listens)
		beest_text_item(text, "no process listens to service '%s'", home->service);
	else if (beest_presence_is_over(home->registry, roster->rank, &roster->listener, who))
		beest_text_item(text, "the last to listen to service '%s' is %s", home->service,
				who);
	else if (roster->stopped)
		beest_text_item(text, "the last to listen to service '%s' is %s, which has "
				"stopped", home->service, who);
	else
		beest_text_item(text, "%s listens to service '%s' and has %s this request", who,
				home->service, !request ? "not seen" : request->ended ? "ended" :
				request->had ? "accepted" : "not accepted");
}

void beest_client_explain(struct beest_client *client, const char *key, struct beest_text *text)
{
	struct beest_standing *each, asked;
	struct beest_roster roster = { 0 };
	struct beest_kv_value value = { 0 };
	bool found = false;

	pthread_mutex_lock(&client->lock);
	for (each = client->standing; each && !found; each = each->next)
		if (strcmp(each->request.peer_key, key) == 0) {
			asked = *each;
			found = true;
		}
	pthread_mutex_unlock(&client->lock);
	if (!found)
		return;
	if (beest_list_fetch(&asked.home.list, &value) == 0 &&
	    beest_roster_see(&roster, &asked.home.list, &value) == 0)
		listener_say(&asked.home, &roster, &asked.id, text);
	beest_kv_values_free(&value, 1);
	beest_roster_end(&roster);
}
