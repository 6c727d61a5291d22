/* SPDX-License-Identifier: MIT */
/*
 * client.c - see client.h
 *
 * A request is a record under a number.  Its client draws the number from a counter and
 * stores the record with an add, so that no two clients have the same number whatever the
 * counter says.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/core/client.h"
#include "lib/core/context.h"
#include "lib/core/home.h"

/* A number drawn this long ago is given up: a record that closed it may expire soon. */
#define CLAIM_TIME (BEEST_HOME_CLOSED_TTL / 2 * BEEST_SECOND)

/* The number that a request is to get. */
struct claim {
	uint64_t epoch, number;
	int64_t end;			/* when it is given up; of beest_clock_now() */
	bool open;			/* the record may be stored, but has no lease */
	bool ahead;			/* of the counter, which has to be set to it */
	char key[BEEST_KEY_MAX + 1];
};

/* A standing request: the registry keeps it on its server. */
struct beest_standing {
	struct beest_standing *next;
	struct beest_home home;
	struct hartebeest_request request;	/* as the client sees it; key "": it has left */
	struct claim claim;
	uint64_t serial;
	uint32_t id;
	bool refused;			/* the listener has closed it */
};

/* ------------------------------------------------------------------------ appending --- */

/* Takes the greater number, since the counter or the listener's record may lag behind. */
static int claim_draw(struct beest_standing *standing, const struct beest_limit *limit)
{
	const struct beest_home *home = &standing->home;
	struct claim *claim = &standing->claim;
	struct beest_home_sight sight;
	int ret;

	*claim = (struct claim){ .end = beest_clock_deadline(CLAIM_TIME) };
	ret = beest_home_look(home, true, &sight, limit);
	if (ret == -EBADMSG)		/* the counter holds no number */
		ret = beest_home_look(home, false, &sight, limit);
	if (ret < 0)
		return ret;

	claim->epoch = beest_home_epoch(home);
	claim->number = BEEST_MAX(sight.drawn, sight.body.next);
	claim->number += !claim->number;	/* numbers begin at 1 */
	claim->ahead = sight.drawn < claim->number;

	return 0;
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

/* Reads who has the number. */
struct claiming {
	const struct beest_standing *standing;
	struct beest_wait_get get;
	bool ours;
};

static int see_claim(void *data, const struct beest_record *record)
{
	struct claiming *c = data;
	struct beest_request_body body;

	c->ours = !(record->flags & BEEST_RECORD_CLOSED) &&
		  beest_home_is_own(&c->standing->home, record) &&
		  beest_record_request_decode(record, &body) == 0 && body.id == c->standing->id;

	return 1;
}

/* Bytes that are no record take the number as well. */
static int claim_each(void *data)
{
	const struct claiming *c = data;

	return c->get.seen < 0;
}

/*
 * 1: the request has the number; 0: it never will.  Sets a counter that is behind, so that
 * other clients do not try the same number.
 */
static int claim_run(struct beest_standing *standing, struct beest_look_extra add,
		     const struct beest_limit *limit)
{
	const struct beest_home *home = &standing->home;
	struct claim *claim = &standing->claim;
	struct claiming c = {
		.standing = standing,
		.get = {
			.kind = BEEST_KIND_REQUEST, .key = claim->key, .name = home->service,
			.see = see_claim, .data = &c, .placed_as = home->listener_key,
		},
	};
	char count[24];
	int ret = snprintf(count, sizeof(count), "%" PRIu64, claim->number);
	struct beest_look_extra extras[] = {
		add, beest_home_write(home, BEEST_KV_SET, home->count_key, count, (size_t)ret),
	};
	struct beest_wait wait = {
		.gets = &c.get, .count = 1, .extras = extras, .extra_count = 1 + claim->ahead,
		.each = claim_each, .data = &c, .limit = limit,
	};

	claim->open = true;
	ret = beest_wait_run(home->registry, &wait);
	if (ret < 0)
		return ret;
	claim->open = c.ours;

	return c.ours;
}

/* Adds the request's record or, once claim->end has passed, a closed one. */
static int claim_try(struct beest_standing *standing, const struct beest_limit *limit)
{
	const struct beest_home *home = &standing->home;
	struct claim *claim = &standing->claim;
	struct beest_limit end = beest_limit_within(limit, beest_clock_left(claim->end));
	uint8_t body[BEEST_REQUEST_MAX], closed[BEEST_RECORD_EMPTY_MAX], *bytes;
	struct beest_registry_record record = {
		.kind = BEEST_KIND_REQUEST, .key = claim->key, .body = body,
		.size = standing_encode(standing, body),
	};
	struct beest_look_extra extra;
	int ret;

	beest_home_key(home, claim->epoch, claim->number, claim->key);
	if (!beest_clock_left(claim->end)) {
		ret = beest_home_close(home, BEEST_KV_ADD, claim->key, closed, &extra);
		return ret < 0 ? ret : claim_run(standing, extra, limit);
	}

	ret = beest_registry_encode(home->registry, &record, &bytes);
	if (ret < 0)
		return ret;
	ret = claim_run(standing, beest_home_write(home, BEEST_KV_ADD, claim->key, bytes,
						   (size_t)ret), &end);
	free(bytes);

	return ret;
}

/*
 * Has the registry keep the request from now on.  Without memory the request keeps its old
 * epoch, so that the next look in vain tries again.
 */
static int standing_keep(struct beest_standing *standing)
{
	uint8_t body[BEEST_REQUEST_MAX];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_REQUEST, .key = standing->claim.key,
		.placed_as = standing->home.listener_key, .body = body,
		.size = standing_encode(standing, body),
		.serial = &standing->serial, .stored = true,
	};
	int ret;

	ret = beest_registry_put(standing->home.registry, &record);
	standing->claim.open = ret < 0;
	if (ret < 0)
		return ret;
	standing->request.epoch = standing->claim.epoch;
	standing->request.number = standing->claim.number;

	return 0;
}

/*
 * Gives a record that may be stored a lease, so that it is deleted even if it arrives late.
 * Without memory for that, closes its number: a listener would wait for this client and
 * serve nobody else.
 */
static void standing_settle(struct beest_standing *standing)
{
	const struct beest_home *home = &standing->home;
	uint8_t closed[BEEST_RECORD_EMPTY_MAX];
	struct beest_look_extra extra;

	if (standing->claim.open && standing_keep(standing) < 0 &&
	    beest_home_close(home, BEEST_KV_SET, standing->claim.key, closed, &extra) == 0)
		beest_look_offer(home->registry, &extra);
}

/*
 * Draws a number and claims it.  If another record has the number, draws again instead of
 * trying the next one: that may be free only because its client has left, and the listener
 * has passed it.  If no answer came, claims the same number again, since a listener may
 * have read the request.  Begins again if that took longer than CLAIM_TIME, or if the
 * server has lost everything.
 */
static int standing_append(struct beest_standing *standing, const struct beest_limit *limit)
{
	const struct beest_home *home = &standing->home;
	struct claim *claim = &standing->claim;
	int ret;

	ret = beest_presence_announce(home->registry);
	while (ret == 0) {
		if (!claim->number || claim->epoch != beest_home_epoch(home))
			ret = claim_draw(standing, limit);
		if (ret == 0)
			ret = claim_try(standing, limit);
		if (ret > 0 && claim->epoch == beest_home_epoch(home))
			return standing_keep(standing);
		if (ret == 0)
			claim->number = 0;
		if (!beest_limit_left(limit))
			return ret < 0 ? ret : beest_fail(beest_limit_errno(limit), "service '%s': "
							  "other clients were always faster",
							  home->service);
		if (ret > 0 || ret == -ETIMEDOUT || beest_kv_transient(ret))
			ret = 0;
	}

	return ret;
}

/* ------------------------------------------------------------------------- standing --- */

void beest_client_start(struct beest_client *client)
{
	pthread_mutex_init(&client->lock, NULL);
}

void beest_client_settle(struct beest_client *client)
{
	struct beest_standing *standing;

	for (standing = client->standing; standing; standing = standing->next)
		standing_settle(standing);
}

void beest_client_end(struct beest_client *client)
{
	struct beest_standing *standing;

	while ((standing = client->standing)) {
		client->standing = standing->next;
		free(standing);
	}
	pthread_mutex_destroy(&client->lock);
}

/* Fills in the client, its data and the keys of both ends. */
static void standing_fill(struct beest_standing *standing, const void *data, size_t length)
{
	struct hartebeest_request *request = &standing->request;
	const struct beest_presence *presence = &standing->home.registry->presence;

	request->rank = presence->rank;
	request->pid = (uint32_t)getpid();
	request->length = (uint32_t)length;
	memcpy(request->host, presence->self.host, sizeof(request->host));
	if (length)
		memcpy(request->data, data, length);
	beest_home_ends(&standing->home, &presence->incarnation, standing->id, request->key,
			request->peer_key);
}

int beest_client_ask(struct hartebeest_context *hb, const char *name, const void *data,
		     size_t length, struct hartebeest_request *request,
		     const struct beest_limit *limit)
{
	struct beest_standing *standing;
	char sentence[BEEST_ERROR_SIZE];
	int ret;

	if (length > BEEST_REQUEST_DATA)
		return beest_fail(EMSGSIZE, "a request for service %s has %zu bytes of data, "
				  "at most %d are possible", BEEST_QUOTE(name), length,
				  BEEST_REQUEST_DATA);
	standing = calloc(1, sizeof(*standing));
	if (!standing)
		return beest_fail(ENOMEM, "no memory for a request");

	ret = beest_home_find(&standing->home, hb, name);
	if (ret == 0) {
		standing->id = __atomic_add_fetch(&hb->client.drawn, 1, __ATOMIC_RELAXED);
		standing_fill(standing, data, length);
		ret = standing_append(standing, limit);
	}
	if (ret < 0) {
		beest_text_copy(sentence, sizeof(sentence), beest_error_text());
		standing_settle(standing);
		if (standing->serial)
			beest_lease_doom(standing->home.registry->leases, standing->serial);
		free(standing);
		return beest_fail(-ret, "%s", sentence);
	}

	*request = standing->request;
	pthread_mutex_lock(&hb->client.lock);
	standing->next = hb->client.standing;
	hb->client.standing = standing;
	pthread_mutex_unlock(&hb->client.lock);

	return 0;
}

/*
 * True if the server's epoch has changed and the listener had not closed the request before
 * that.  A closed record on the emptied server says nothing: a listener that did not know
 * of the loss yet may have stored it.
 */
static bool standing_has_to_move(struct beest_standing *standing)
{
	const struct beest_home *home = &standing->home;

	if (beest_home_epoch(home) != standing->request.epoch)
		return !standing->refused;
	standing->refused = beest_lease_is(home->registry->leases, standing->claim.key,
					   BEEST_LEASE_CONTESTED);

	return false;
}

/* Called under the lock.  Unlinks the request with that key; NULL: one that has to move. */
static struct beest_standing *standing_unlink(struct beest_client *client, const char *key)
{
	struct beest_standing **at, *standing;

	for (at = &client->standing; (standing = *at); at = &standing->next)
		if (key ? strcmp(standing->request.key, key) == 0 :
		    standing_has_to_move(standing)) {
			*at = standing->next;
			break;
		}

	return standing;
}

static void standing_withdraw(struct beest_standing *standing)
{
	standing_settle(standing);
	beest_registry_withdraw(standing->home.registry, standing->serial, standing->home.server);
	free(standing);
}

/*
 * Moves one request at a time, since appending waits, and each wait calls this function.  All
 * moves together have a limit of their own; the others follow after the next look.
 */
void beest_client_move(struct beest_client *client)
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
		/* the next look deletes what is left under the old epoch */
		beest_lease_doom(standing->home.registry->leases, standing->serial);
		standing->serial = 0;
		ret = standing_append(standing, &limit);
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

/* A request that is being moved loses its key: beest_client_move() withdraws it afterwards. */
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

