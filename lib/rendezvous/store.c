/* SPDX-License-Identifier: MIT */
/* store.c - see store.h */
#include "config.h"

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/rendezvous/failure.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/store.h"
#include "lib/rendezvous/wait.h"

/*
 * One trip asks whether the records are still ours, and the next removes them.  A third
 * is needed if a connection was closed, or if the first left out a server that had just
 * failed.
 */
#define TRIPS 3

/* ---------------------------------------------------------------- store and delete --- */

/* What one look after another asks of the server of a key. */
struct ask {
	struct beest_look look;
	struct beest_look_extra *last;	/* whose answer counts; NULL: it only reads */
	const char *key, *purpose;
	size_t server;
};

/* Makes a sentence like that of a wait in vain. */
static int ask_fail(const struct ask *ask, const struct beest_limit *limit, int ret)
{
	bool passes = beest_kv_transient(ret);

	return beest_fail(limit->once && passes ? EAGAIN : -ret, "%s%s; %s: key %s",
			  passes ? BEEST_LIMIT_TEXT(limit, "tried for") : "", beest_error_text(),
			  ask->purpose, ask->key);
}

static int ask_once(struct beest_registry *registry, struct ask *ask, bool again)
{
	int ret = beest_look_take(registry, &ask->look);

	if (!ask->last)
		return ask->look.wants->failed ? ret : 0;
	ask->last->repeated |= again;

	return ask->last->done ? ask->last->write.ret : ret;
}

/* Repeats the look while that may help. */
static int ask_run(struct beest_registry *registry, struct ask *ask,
		   const struct beest_limit *limit)
{
	struct beest_backoff backoff;
	struct beest_pace pace;
	bool is_last, again = false;
	int ret;

	beest_clock_backoff_start(&backoff, beest_registry_size(registry));
	for (;; again = true) {
		is_last = beest_limit_is_short(limit);
		ask->look.deadline = beest_look_until(registry, ask->server, limit);
		ret = ask_once(registry, ask, again);
		if (ret == 0 || ret == -ENOENT || ret == -EEXIST)
			return ret;
		if (!beest_kv_transient(ret) || (is_last && !beest_limit_left(limit)))
			return ask_fail(ask, limit, ret);
		ret = beest_limit_check(limit);
		if (ret < 0)
			return ask_fail(ask, limit, ret);
		pace = beest_look_pace(registry, ask->server);
		backoff.rest = beest_pace_rest(&pace, beest_clock_now() - backoff.start);
		beest_limit_pause(limit, &backoff);
	}
}

int beest_store_ask(struct beest_registry *registry, struct beest_look_extra *extras,
		    size_t count, const char *purpose, const struct beest_limit *limit)
{
	struct ask ask = {
		.look = { .extras = extras, .extra_count = count },
		.last = &extras[count - 1], .key = extras[count - 1].write.key,
		.purpose = purpose, .server = extras[count - 1].server,
	};

	return ask_run(registry, &ask, limit);
}

int beest_store_read(struct beest_registry *registry, const char *key, const char *purpose,
		     struct beest_kv_value *value, const struct beest_limit *limit)
{
	struct beest_look_want want = {
		.key = key, .server = beest_kv_server_of(registry->kv, key),
	};
	struct ask ask = {
		.look = { .wants = &want, .count = 1, .flags = BEEST_LOOK_UNIQUES },
		.key = key, .purpose = purpose, .server = want.server,
	};
	int ret = ask_run(registry, &ask, limit);

	*value = want.value;

	return ret;
}

int beest_store_delete(struct beest_registry *registry, const char *key,
		       const struct beest_limit *limit)
{
	struct beest_look_extra extra = {
		.server = beest_kv_server_of(registry->kv, key),
		.write = { .verb = BEEST_KV_DELETE, .key = key, .answered = true },
	};
	int ret;

	beest_lease_forget(registry->leases, key, 0);
	ret = beest_store_ask(registry, &extra, 1, "to be deleted", limit);

	return ret == -ENOENT && extra.repeated ? 0 : ret;
}

int beest_store_publish(struct beest_registry *registry,
			const struct beest_registry_record *record,
			const struct beest_limit *limit)
{
	struct beest_wait wait = {
		.own_keys = &record->key, .own_count = 1, .limit = limit,
	};
	int ret;

	ret = beest_registry_put(registry, record);
	if (ret == 0)
		ret = beest_wait_run(registry, &wait);
	if (ret == 0 && beest_lease_is(registry->leases, record->key, BEEST_LEASE_REFUSED)) {
		beest_lease_forget(registry->leases, record->key, *record->serial);
		return beest_fail(EMSGSIZE, "server %s: %s; to be stored: key %s",
				  beest_kv_text(registry->kv,
						beest_kv_server_of(registry->kv, record->key)),
				  BEEST_KV_TOO_LARGE, record->key);
	}

	return ret;
}

/* ----------------------------------------------------------------------- withdraw --- */

/* Further trips wait for requests of other threads, which store a doomed record meanwhile. */
static bool others_are_done(struct beest_registry *registry, struct beest_backoff *backoff,
			    int64_t deadline)
{
	if (!beest_lease_is_busy(registry->leases) || !beest_clock_left(deadline))
		return true;
	beest_clock_backoff_sleep(backoff, deadline);

	return false;
}

/*
 * Removes what is doomed.  @look: has no more than what goes along with the first trip, for which
 * there is one even if nothing is doomed.  Returns a failure of one of the trips.
 */
static int doomed_remove(struct beest_registry *registry, struct beest_look *look)
{
	struct beest_backoff backoff;
	int trip = 0, one, ret = 0;

	if (!look->extra_count && !beest_lease_count(registry->leases, true))
		return 0;
	beest_clock_backoff_start(&backoff, 0);
	look->deadline = beest_look_closing(registry);
	do {
		one = beest_look_take(registry, look);
		ret = one < 0 ? one : ret;
	} while (beest_lease_count(registry->leases, true) &&
		 (++trip < TRIPS || !others_are_done(registry, &backoff, look->deadline)));
	if (ret < 0 && beest_lease_count(registry->leases, true))
		beest_log(registry->log, BEEST_LOG_INFO, "a record stays behind: %s",
			  beest_error_text());

	return ret;
}

void beest_store_withdraw(struct beest_registry *registry, uint64_t serial, size_t server)
{
	struct beest_look_want want = { .server = server };
	struct beest_look look = {
		.wants = &want, .count = server != SIZE_MAX, .flags = BEEST_LOOK_IDLE,
	};

	if (!serial)
		return;

	beest_lease_doom(registry->leases, serial);
	doomed_remove(registry, &look);
}

int beest_store_purge(struct beest_registry *registry, const char *message)
{
	char key[BEEST_KEY_MAX + 1];
	struct beest_look_extra extra = {
		.write = { .verb = BEEST_KV_DELETE, .key = key, .answered = true },
	};
	struct beest_look look = { .extras = &extra };
	int ret;

	if (beest_registry_key(registry, BEEST_KIND_MESSAGE, message, key) == 0) {
		beest_lease_forget(registry->leases, key, 0);
		extra.server = beest_kv_server_of(registry->kv, key);
		look.extra_count = 1;
	}
	ret = doomed_remove(registry, &look);

	return extra.done || !look.extra_count ? 0 : ret;
}

/* ---------------------------------------------------------------------- last words --- */

/* The first trip asks whether the records are still ours; the others send all that ends. */
void beest_store_leave(struct beest_registry *registry)
{
	struct beest_look_extra extras[registry->server_count + 1];
	struct beest_look look = {
		.extras = extras, .deadline = beest_look_closing(registry),
	};
	struct beest_incarnation news;
	struct beest_backoff backoff;
	int ret, trip = 1;
	size_t i, left;

	if (!beest_registry_is_announced(registry))
		return;

	beest_clock_backoff_start(&backoff, beest_registry_size(registry));
	beest_lease_doom_all(registry->leases);
	beest_look_take(registry, &look);

	for (i = 0; i < registry->server_count; i++)
		if (registry->servers[i].listed)
			extras[look.extra_count++] = (struct beest_look_extra){
				.server = i,
				.write = { .verb = BEEST_KV_DELETE,
					   .key = registry->keys[BEEST_KEY_SERVERS] },
			};
	beest_presence_leave(registry);
	beest_presence_news(registry, &news, &extras[look.extra_count++]);
	do {
		ret = beest_look_take(registry, &look);
		left = beest_lease_count(registry->leases, true);
	} while ((++trip < TRIPS && (ret < 0 || left)) ||
		 !others_are_done(registry, &backoff, look.deadline));
	if (left)
		beest_log(registry->log, BEEST_LOG_WARN, "%zu records stay behind on the servers "
			  "until their time to live is over", left);
}

int beest_store_fail(struct beest_registry *registry, const char *text)
{
	const char *keys[] = { registry->keys[BEEST_KEY_RANK], registry->keys[BEEST_KEY_FAILED] };
	struct beest_incarnation news;
	struct beest_look_extra extra;
	struct beest_limit limit;
	struct beest_wait wait = {
		.own_keys = keys, .own_count = 1 + (registry->presence.rank >= 0),
		.limit = &limit, .extras = &extra, .extra_count = 1,
	};
	int ret;

	/* the last look, and the question why it was in vain, have as long each */
	beest_limit_start(&limit, NULL, beest_look_closing(registry) - 2 * BEEST_LIMIT_LOOK, 0);
	ret = beest_failure_put(registry, text);
	beest_presence_news(registry, &news, &extra);

	return ret < 0 ? ret : beest_wait_run(registry, &wait);
}
