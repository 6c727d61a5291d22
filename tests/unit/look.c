/* SPDX-License-Identifier: MIT */
/*
 * look.c - one conversation with servers that are new, old, gone, empty, full or several
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>

#include "lib/base/clock.h"
#include "tests/support/crew.h"
#include "tests/support/registry.h"
#include "tests/support/unit.h"

static struct beest_registry *registry;
static uint8_t former[BEEST_EPOCH_SIZE];

/* ------------------------------------------------------------------------- helpers --- */

static const void *epoch_of(struct fake_kv_server *at)
{
	size_t size;
	const void *bytes = fake_kv_get(at, "hb1/job/epoch", &size);

	if (bytes)
		assert_int_equal(size, BEEST_EPOCH_SIZE);
	return bytes;
}

static void epoch_keep(void)
{
	memcpy(former, epoch_of(registry_server), sizeof(former));
}

static bool epoch_is_kept(void)
{
	const void *bytes = epoch_of(registry_server);

	return bytes && memcmp(bytes, former, sizeof(former)) == 0;
}

static void make(void)
{
	registry = registry_make(0, 2);
	assert_int_equal(registry_publish(registry, BEEST_KIND_QP, "x", "one"), 0);
	epoch_keep();
}

static void counted(uint64_t round_trips, uint64_t commands, uint64_t keys)
{
	assert_int_equal(fake_kv.round_trips, round_trips);
	assert_int_equal(fake_kv.commands, commands);
	assert_int_equal(fake_kv.keys, keys);
	fake_kv_count_again();
}

static int evict(const char *key)
{
	return fake_kv_evict(registry_server, key);
}

/* ------------------------------------------------------------- one server's epoch --- */

/*
 * Commands: add presence, set record, append and add to the starts log, add epoch; a get of epoch
 * and record.
 */
static void opening(void **state)
{
	(void)state;
	registry = registry_make(0, 2);
	assert_int_equal(registry_look(registry, 0), 0);
	counted(0, 0, 0);				/* nothing is wanted */
	registry_put(registry, BEEST_KIND_QP, "x", "one", NULL);
	counted(0, 0, 0);
	assert_int_equal(registry_look(registry, 0), 0);
	counted(1, 6, 7);
	assert_non_null(epoch_of(registry_server));
	registry_put(registry, BEEST_KIND_QP, "x", "two", NULL);
	assert_int_equal(registry_look(registry, 0), 0);
	counted(1, 2, 3);
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "two");
}

/* A later process takes the existing epoch, and never sets one. */
static void an_existing_epoch(void **state)
{
	struct beest_registry *first;

	(void)state;
	first = registry_make(1, 2);
	assert_int_equal(registry_publish(first, BEEST_KIND_QP, "y", "one"), 0);
	epoch_keep();
	make();
	assert_true(epoch_is_kept());
	assert_int_equal(registry_look(first, BEEST_LOOK_CHECK), 0);
	assert_null(strstr(registry_stage.log, "lost"));
	registry_kill(first);
}

/* An epoch lives for thirty days, whatever the time to live of records. */
static void the_time_to_live_of_an_epoch(void **state)
{
	(void)state;
	registry_stage.ttl = 60 * BEEST_SECOND;
	make();
	registry_stage.now += 29 * BEEST_DAY;
	assert_true(epoch_is_kept());
	assert_null(registry_said(registry, BEEST_KIND_QP, "x"));
}

/* Only the epoch was evicted: the known one is added again, and nothing counts as lost. */
static void evicted_alone(void **state)
{
	(void)state;
	make();
	assert_true(evict("hb1/job/epoch"));
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_true(epoch_is_kept());
	assert_int_equal(fake_kv.probes, 1);
	assert_null(strstr(registry_stage.log, "lost"));
	fake_kv_count_again();
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	counted(1, 1, 2);
}

/* A record that this very request stored does not prove that the server kept anything. */
static void all_lost_except_records_stored_now(void **state)
{
	(void)state;
	make();
	registry_put(registry, BEEST_KIND_MR, "y", "one", NULL);
	assert_int_equal(registry_look(registry, 0), 0);
	fake_kv_evict(registry_server, "hb1/job/epoch");
	fake_kv_evict(registry_server, registry_key(BEEST_KIND_QP, "x"));
	fake_kv_evict(registry_server, registry_key(BEEST_KIND_MR, "y"));
	fake_kv_evict(registry_server, registry->keys[BEEST_KEY_RANK]);
	registry_put(registry, BEEST_KIND_QP, "x", "two", NULL);
	assert_int_equal(registry_look(registry, 0), 0);
	assert_false(epoch_is_kept());
	assert_int_equal(registry_look(registry, 0), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "two");
	assert_string_equal(registry_said(registry, BEEST_KIND_MR, "y"), "one");
	assert_non_null(strstr(registry_stage.log, "has lost what it had"));
}

/* Stores a record along with an answered write, behind which no epoch is read. */
static void store_and_count(const char *name)
{
	struct beest_look_extra count = {
		.write = { .verb = BEEST_KV_INCR, .key = "hb1/job/count", .answered = true },
	};
	struct beest_look look = {
		.extras = &count, .extra_count = 1, .deadline = beest_clock_deadline(BEEST_SECOND),
	};

	registry_put(registry, BEEST_KIND_NUMBERS, name, "one", NULL);
	assert_int_equal(beest_look_take(registry, &look), 0);
	assert_true(count.done);
	assert_string_equal(registry_said(registry, BEEST_KIND_NUMBERS, name), "one");
}

/* Nor does a record that came there when no epoch was read: the loss was before it. */
static void all_lost_except_records_before_an_answer(void **state)
{
	(void)state;
	make();
	assert_int_equal(registry_publish(registry, BEEST_KIND_MESSAGE, "m", "text"), 0);
	fake_kv_flush(registry_server);
	store_and_count("b");
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_false(epoch_is_kept());
	assert_int_equal(registry_look(registry, 0), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_MESSAGE, "m"), "text");
	assert_non_null(strstr(registry_stage.log, "has lost what it had"));
}

/* It proves that as soon as a later request has brought the epoch. */
static void evicted_alone_after_an_answer(void **state)
{
	(void)state;
	make();
	store_and_count("b");
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	fake_kv_evict(registry_server, "hb1/job/epoch");
	fake_kv_evict(registry_server, registry_key(BEEST_KIND_QP, "x"));
	fake_kv_evict(registry_server, registry->keys[BEEST_KEY_RANK]);
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_true(epoch_is_kept());
	assert_null(strstr(registry_stage.log, "has lost what it had"));
}

/* Only the first request is held up. */
static int64_t hold_once(const struct beest_kv *kv)
{
	(void)kv;
	fake_kv.hold = NULL;
	return 10 * BEEST_MS;
}

static void store_late(void *data)
{
	(void)data;
	fake_kv.hold = hold_once;
	store_and_count("b");
}

static void look_and_lose(void *data)
{
	(void)data;
	crew_pass(BEEST_MS);
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	fake_kv_flush(registry_server);
}

/*
 * The request that stored it began before another thread's that brought the epoch, but was carried
 * out after the loss.
 */
static void all_lost_except_records_that_come_late(void **state)
{
	(void)state;
	crew_need();
	make();
	assert_int_equal(registry_publish(registry, BEEST_KIND_MESSAGE, "m", "text"), 0);
	crew_start(store_late, NULL);
	crew_start(look_and_lose, NULL);
	registry_run();
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_false(epoch_is_kept());
	assert_int_equal(registry_look(registry, 0), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_MESSAGE, "m"), "text");
}

static void push_slowly(void *data)
{
	(void)data;
	fake_kv.latency = 10 * BEEST_MS;
	assert_int_equal(registry_publish(registry, BEEST_KIND_MESSAGE, "m", "text"), 0);
}

static void lose_and_look(void *data)
{
	(void)data;
	crew_pass(BEEST_MS);
	fake_kv.latency = FAKE_KV_LATENCY;
	fake_kv_flush(registry_server);
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_false(epoch_is_kept());
}

/* A message was stored and lost, and another thread has noticed, before its answer arrives. */
static void lost_under_way(void **state)
{
	(void)state;
	crew_need();
	make();
	crew_start(push_slowly, NULL);
	crew_start(lose_and_look, NULL);
	registry_run();
	assert_string_equal(registry_said(registry, BEEST_KIND_MESSAGE, "m"), "text");
}

/* Nor does a record that another process stored under the same key. */
static void all_lost_except_records_of_others(void **state)
{
	struct beest_registry *other;

	(void)state;
	make();
	other = registry_make(1, 2);
	assert_int_equal(registry_publish(other, BEEST_KIND_QP, "x", "two"), 0);
	fake_kv_evict(registry_server, "hb1/job/epoch");
	fake_kv_evict(registry_server, registry->keys[BEEST_KEY_RANK]);
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_false(epoch_is_kept());
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "two");
	registry_kill(other);
}

/* The old connection breaks; over the new one, at once, no epoch is found. */
static void gone_and_back(void **state)
{
	(void)state;
	make();
	fake_kv_restart(registry_server);
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_non_null(epoch_of(registry_server));
	assert_false(epoch_is_kept());
	assert_int_equal(registry_look(registry, 0), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "one");
	assert_int_equal(registry_stage.warnings, 1);
	assert_non_null(strstr(registry_stage.log, "warn: server a:1 has lost what it had: storing "
						   "the records again\n"));
}

/* All was deleted over a connection that stays up, as by flush_all. */
static void emptied(void **state)
{
	(void)state;
	make();
	fake_kv_evict(registry_server, "hb1/job/epoch");
	fake_kv_evict(registry_server, registry_key(BEEST_KIND_QP, "x"));
	fake_kv_evict(registry_server, registry->keys[BEEST_KEY_RANK]);
	fake_kv_put(registry_server, "hb1/job/epoch", "another one, yes", BEEST_EPOCH_SIZE, 0);
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_int_equal(registry_look(registry, 0), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "one");
}

static void alien(void **state)
{
	(void)state;
	make();
	fake_kv_put(registry_server, "hb1/job/epoch", "what?", 5, 0);
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), -EPROTO);
	assert_error_is("server a:1: the value under hb1/job/epoch is not an epoch");
	assert_int_equal(fake_kv.servers[0].items, 4);
	assert_null(strstr(registry_stage.log, "lost"));
	fake_kv_put(registry_server, "hb1/job/epoch", former, BEEST_EPOCH_SIZE, 0);
	registry_stage.now += 10 * BEEST_SECOND;
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
}

/* A server that stores nothing is an error, not a loss. */
static void an_epoch_that_cannot_be_added(void **state)
{
	(void)state;
	make();
	registry_server->refuses = true;
	registry_server->bytes_max = 1;
	fake_kv_evict(registry_server, "hb1/job/epoch");
	assert_int_not_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_error_has("server a:1");
	assert_null(strstr(registry_stage.log, "lost"));
	registry_server->refuses = false;
	registry_server->bytes_max = 0;
	registry_stage.now += 10 * BEEST_SECOND;
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	assert_true(epoch_is_kept());
}

/* The server is probed first: nothing is added to a server that is not a Memcached. */
static void no_memcached(void **state)
{
	(void)state;
	registry = registry_make(0, 2);
	registry_put(registry, BEEST_KIND_QP, "x", "one", NULL);
	registry_server->refuses = true;
	registry_server->bytes_max = 1;
	registry_server->probe_error = EPROTO;
	assert_int_equal(registry_look(registry, 0), -EPROTO);
	assert_error_has("server a:1");
	assert_int_equal(fake_kv.probes, 1);
}

/* Deleting a message takes no look, but reports as much about its server. */
static void one_write_to_a_server_that_is_gone(void **state)
{
	int64_t soon;

	(void)state;
	registry = registry_make(0, 2);
	registry_server->error = ECONNRESET;
	registry_server->probe_error = ECONNREFUSED;
	soon = beest_clock_deadline(2 * BEEST_SECOND);
	assert_int_equal(beest_store_delete(registry, "hb1/job/msg/x", REGISTRY_LIMIT(soon)),
			 -ECONNREFUSED);
	assert_error_has("tried for 2 s: server a:1");
	assert_error_has("; to be deleted: key hb1/job/msg/x");
	assert_int_equal(beest_store_delete(registry, "hb1/job/msg/x",
					    REGISTRY_LIMIT(HARTEBEEST_ONCE)), -EAGAIN);
	assert_error_has("server a:1");
	assert_null(strstr(beest_error_text(), "tried for"));
	assert_int_equal(beest_store_delete(registry, "hb1/job/msg/x", REGISTRY_LIMIT(1)),
			 -ECONNREFUSED);
	assert_error_has("the deadline had passed ");
	assert_error_has("not a span): server a:1");
}

/* No epoch is found over the same connection: the request runs again, without the deletion. */
static void a_deletion_when_the_epoch_is_missing(void **state)
{
	(void)state;
	make();
	assert_int_equal(registry_publish(registry, BEEST_KIND_MESSAGE, "m", "text"), 0);
	registry_put(registry, BEEST_KIND_QP, "x", "two", NULL);
	assert_true(evict("hb1/job/epoch"));
	assert_int_equal(beest_store_delete(registry, "hb1/job/msg/m", REGISTRY_LIMIT(0)), 0);
	assert_null(registry_said(registry, BEEST_KIND_MESSAGE, "m"));
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "two");
	assert_true(epoch_is_kept());
}

static int other_at;

/* While a request is under way, another thread's request learns of the loss. */
static void learn_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)kv;
	(void)request;
	if (other_at-- == 0) {
		registry_look(registry, BEEST_LOOK_CHECK);
		registry_stage.now += 10 * BEEST_SECOND;
		registry_look(registry, BEEST_LOOK_CHECK);
		registry_look(registry, 0);
	}
}

static void learned_by_another_thread(void **state)
{
	int n;

	(void)state;
	for (n = 0; n < 6; n++) {
		registry_kill(n ? registry : NULL);
		fake_kv_reset();
		registry_server = fake_kv_server("a:1");
		make();
		fake_kv_restart(registry_server);
		other_at = n;
		fake_kv.hook = learn_hook;
		registry_put(registry, BEEST_KIND_MR, "y", "one", NULL);
		registry_look(registry, 0);
		fake_kv.hook = NULL;
		registry_stage.now += 10 * BEEST_SECOND;
		assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
		assert_int_equal(registry_look(registry, 0), 0);
		assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "one");
		assert_string_equal(registry_said(registry, BEEST_KIND_MR, "y"), "one");
	}
}

/* More records than are read back. */
static const char many[] = "abcdefghijklmnopqrstuvw";

static void slow_writer(void *data)
{
	size_t i;

	(void)data;
	fake_kv.latency = 10 * BEEST_MS;
	for (i = 0; many[i]; i++)
		registry_put(registry, BEEST_KIND_MR, (char[]){ many[i], '\0' }, "one", NULL);
	assert_int_equal(registry_look(registry, 0), 0);
}

static void quick_learner(void *data)
{
	struct beest_look_want want = { .key = "hb1/job/mr/z" };
	struct beest_look look = { .wants = &want, .count = 1, .deadline = INT64_MAX };

	(void)data;
	crew_pass(BEEST_MS);
	fake_kv.latency = 1;
	fake_kv_restart(registry_server);
	assert_int_equal(beest_look_take(registry, &look), 0);
}

/* An answer from before the restart is read after another thread learned of the new epoch. */
static void an_answer_that_is_outdated(void **state)
{
	size_t i;

	(void)state;
	crew_need();
	make();
	crew_start(slow_writer, NULL);
	crew_start(quick_learner, NULL);
	registry_run();
	assert_null(registry_said(registry, BEEST_KIND_MR, "a"));
	fake_kv.latency = FAKE_KV_LATENCY;
	assert_int_equal(registry_look(registry, 0), 0);
	for (i = 0; many[i]; i++)
		assert_non_null(registry_said(registry, BEEST_KIND_MR,
					      (char[]){ many[i], '\0' }));
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "one");
	assert_int_equal(registry_stage.warnings, 1);
}

/* ------------------------------------------------------------------ several servers --- */

static struct fake_kv_server *all[3];

static void make_three(void)
{
	static const char *const names[] = { "a:1", "b:1", "c:1" };
	size_t i;

	registry_stage.servers = "a:1 b:1 c:1";
	registry = registry_make(0, 2);
	for (i = 0; i < 3; i++)
		all[i] = fake_kv_server(names[i]);
}

/* The name of a region that is kept there. */
static const char *name_at(struct fake_kv_server *at)
{
	static char names[4][16];
	static unsigned int turn;
	char *name = names[turn++ % 4];
	int i;

	for (i = 0; ; i++) {
		snprintf(name, sizeof(names[0]), "r%d", i);
		if (registry_home(registry, BEEST_KIND_MR, name) == at)
			return name;
	}
}

static struct fake_kv_server *presence_home(void)
{
	const size_t server = beest_registry_server(registry, BEEST_KEY_RANK);

	return fake_kv_server(beest_kv_text(registry->kv, server));
}

static void order_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	const size_t home = beest_registry_server(registry, BEEST_KEY_RANK);
	const char *key = registry->keys[BEEST_KEY_RANK];
	size_t i;

	(void)kv;
	for (i = 0; i < request->write_count && request->server != home; i++)
		if (strstr(request->writes[i].key, "/mr/"))
			assert_non_null(fake_kv_get(presence_home(), key, NULL));
}

static void presence_comes_first(void **state)
{
	size_t i;

	(void)state;
	make_three();
	fake_kv.hook = order_hook;
	for (i = 0; i < 3; i++)
		registry_put(registry, BEEST_KIND_MR, name_at(all[i]), "one", NULL);
	assert_int_equal(registry_look(registry, 0), 0);
	fake_kv.hook = NULL;
	assert_int_equal(fake_kv.round_trips, 2);
	for (i = 0; i < 3; i++)
		assert_string_equal(registry_said(registry, BEEST_KIND_MR, name_at(all[i])), "one");
	fake_kv_count_again();
	for (i = 0; i < 3; i++)
		registry_put(registry, BEEST_KIND_MR, name_at(all[i]), "two", NULL);
	assert_int_equal(registry_look(registry, 0), 0);
	assert_int_equal(fake_kv.round_trips, 1);
}

/* The other servers go on; a server that nobody waits for is not even tried at each look. */
static void one_is_away(void **state)
{
	struct fake_kv_server *away;
	size_t i;
	int looks;

	(void)state;
	make_three();
	registry_put(registry, BEEST_KIND_MR, name_at(presence_home()), "one", NULL);
	assert_int_equal(registry_look(registry, 0), 0);
	away = all[presence_home() == all[0]];
	away->error = EHOSTDOWN;
	for (i = 0; i < 3; i++)
		registry_put(registry, BEEST_KIND_MR, name_at(all[i]), "two", NULL);
	assert_int_equal(registry_look(registry, 0), -EHOSTDOWN);
	assert_error_has(away->text);
	for (i = 0; i < 3; i++)
		if (all[i] != away)
			assert_string_equal(registry_said(registry, BEEST_KIND_MR,
							  name_at(all[i])), "two");

	for (looks = 0; looks < 100; looks++) {
		fake_kv_count_again();
		registry_put(registry, BEEST_KIND_MR, name_at(presence_home()), "more", NULL);
		registry_look(registry, 0);
		if (fake_kv.requests > 1)
			break;
		registry_stage.now += 100 * BEEST_MS;
	}
	assert_in_range(looks, 9, 11);
	registry_put(registry, BEEST_KIND_MR, name_at(presence_home()), "more", NULL);
	registry_stage.now += 1900 * BEEST_MS;		/* the pause has doubled */
	assert_int_equal(registry_look(registry, 0), 0);

	away->error = 0;
	registry_stage.now += 10 * BEEST_SECOND;
	assert_int_equal(registry_look(registry, 0), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_MR, name_at(away)), "two");
}

/* A caller that waits for a key there asks each time. */
static void a_server_that_is_needed(void **state)
{
	struct beest_look_want wants[2];
	struct beest_look look = { .wants = wants, .count = 2 };

	(void)state;
	make_three();
	memset(wants, 0, sizeof(wants));
	wants[0].key = "hb1/job/mr/no";
	wants[1].key = "hb1/job/mr/yes";
	wants[1].server = 1;
	all[0]->error = EHOSTDOWN;
	look.deadline = beest_clock_deadline(BEEST_SECOND);
	fake_kv_put(all[1], "hb1/job/mr/yes", "there", 5, 0);
	assert_int_equal(beest_look_take(registry, &look), -EHOSTDOWN);
	assert_true(wants[0].failed);
	assert_false(wants[1].failed);
	assert_int_equal(wants[1].value.size, 5);
	beest_look_free(wants, 2);
	all[0]->error = 0;
	assert_int_equal(beest_look_take(registry, &look), 0);
	assert_false(wants[0].failed);
	assert_null(wants[0].value.bytes);
	beest_look_free(wants, 2);
}

/* A call may wait for ever, but no question to a server does. */
static void a_probe_ends(void **state)
{
	struct beest_look_want want = { .key = "hb1/job/mr/no" };
	struct beest_look look = { .wants = &want, .count = 1, .deadline = INT64_MAX };

	(void)state;
	registry = registry_make(0, 2);
	fake_kv_server("a:1")->error = ECONNRESET;
	assert_int_equal(beest_look_take(registry, &look), -ECONNRESET);
	assert_int_equal(fake_kv.probes, 1);
	assert_in_range(fake_kv.probed_until - beest_clock_now(), 1, 4 * BEEST_SECOND);
}

/* The presence's server is away: that must neither stop the others nor slow down each look. */
static void the_presence_is_away(void **state)
{
	struct fake_kv_server *other;

	(void)state;
	make_three();
	presence_home()->error = EHOSTDOWN;
	other = all[presence_home() == all[0]];
	registry_put(registry, BEEST_KIND_MR, name_at(other), "one", NULL);
	registry_look(registry, 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_MR, name_at(other)), "one");
	fake_kv_count_again();
	registry_put(registry, BEEST_KIND_MR, name_at(other), "two", NULL);
	assert_int_equal(registry_look(registry, 0), 0);
	assert_int_equal(fake_kv.requests, 1);
	assert_string_equal(registry_said(registry, BEEST_KIND_MR, name_at(other)), "two");
}

/* ------------------------------------------------------------- a server that is small --- */

static int look_for_long(int looks)
{
	int i, ret = 0;

	for (i = 0; i < looks && ret == 0; i++) {
		registry_stage.now += 100 * BEEST_MS;
		ret = registry_look(registry, BEEST_LOOK_CHECK);
	}
	return ret;
}

/* A value that is not stored, and nobody is told. */
static void it_takes_less(void **state)
{
	char text[301];

	(void)state;
	registry = registry_make(0, 2);
	registry_server->item_max = 256;
	registry_put(registry, BEEST_KIND_MR, "x", "short", NULL);
	assert_int_equal(registry_look(registry, BEEST_LOOK_CHECK), 0);
	registry_put(registry, BEEST_KIND_MR, "y", unit_repeat(text, 'y', 300), NULL);
	assert_int_equal(look_for_long(300), -EMSGSIZE);
	assert_error_has("server a:1 takes at most 256 bytes for a key and its value (memcached "
			 "-I), and a record of this job needs 4");
}

/* First one warning, then an error that says what is needed. */
static void it_evicts(void **state)
{
	char name[16];
	int i;

	(void)state;
	registry = registry_make(0, 2);
	registry_server->bytes_max = 1000;
	for (i = 0; i < 16; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		registry_put(registry, BEEST_KIND_MR, name, "some text that fills it", NULL);
	}
	assert_int_equal(look_for_long(300), -ENOSPC);
	assert_error_has("server a:1 is too small for this job: it has evicted ");
	assert_error_has("start it with -m ");
	assert_non_null(strstr(registry_stage.log, "too small"));
	assert_null(strstr(strstr(registry_stage.log, "too small") + 1, "too small"));
	assert_true(fake_kv.commands < 300 * 20);
}

/* Occasional evictions are of other jobs' records. */
static void it_evicts_now_and_then(void **state)
{
	(void)state;
	make();
	registry_server->evictions = 100;
	assert_int_equal(look_for_long(100), 0);
	assert_int_equal(registry_stage.warnings, 0);
}

static void it_refuses(void **state)
{
	(void)state;
	make();
	registry_server->refuses = true;
	registry_server->bytes_max = registry_server->bytes;
	registry_put(registry, BEEST_KIND_MR, "r", "some text that is too much", NULL);
	assert_int_equal(look_for_long(100), -ENOSPC);
	assert_error_has("server a:1");
	assert_error_has("start it with -m ");
}

/* ------------------------------------------------------------------------- offers --- */

/* Over a recently used connection, nobody waits for an answer; the next look reads back. */
static void offers(void **state)
{
	(void)state;
	make();
	registry_stage.now += 50 * BEEST_MS;
	registry_put(registry, BEEST_KIND_QP, "x", "two", NULL);
	fake_kv_count_again();
	beest_look_send(registry, registry_key(BEEST_KIND_QP, "x"));
	counted(0, 1, 1);
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "two");
	assert_false(beest_lease_is(registry->leases, registry_key(BEEST_KIND_QP, "x"),
				   BEEST_LEASE_SETTLED));
	assert_int_equal(registry_look(registry, 0), 0);
	counted(1, 1, 2);
	assert_true(beest_lease_is(registry->leases, registry_key(BEEST_KIND_QP, "x"),
				   BEEST_LEASE_SETTLED));
}

static void an_offer_over_an_old_connection(void **state)
{
	(void)state;
	make();
	registry_stage.now += 150 * BEEST_MS;
	registry_put(registry, BEEST_KIND_QP, "x", "two", NULL);
	fake_kv_count_again();
	beest_look_send(registry, registry_key(BEEST_KIND_QP, "x"));
	counted(1, 2, 3);
	assert_true(beest_lease_is(registry->leases, registry_key(BEEST_KIND_QP, "x"),
				   BEEST_LEASE_SETTLED));
}

/* The kernel accepted the bytes, but the server was already gone. */
static void an_offer_that_is_lost(void **state)
{
	(void)state;
	make();
	fake_kv_restart(registry_server);
	registry_put(registry, BEEST_KIND_QP, "x", "two", NULL);
	beest_look_send(registry, registry_key(BEEST_KIND_QP, "x"));
	assert_null(registry_said(registry, BEEST_KIND_QP, "x"));
	assert_int_equal(registry_look(registry, 0), 0);
	assert_int_equal(registry_look(registry, 0), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "two");
	assert_null(strstr(registry_stage.log, "too small"));
}

static void an_offer_refused(void **state)
{
	(void)state;
	make();
	registry_put(registry, BEEST_KIND_QP, "x", "two", NULL);
	fake_kv_fail(FAKE_KV_WRITE, 1, ECONNRESET, FAKE_KV_REFUSED);
	beest_look_send(registry, registry_key(BEEST_KIND_QP, "x"));
	assert_int_equal(fake_kv.fired, 1);
	registry_stage.now += 10 * BEEST_SECOND;
	assert_int_equal(registry_look(registry, 0), 0);
	assert_string_equal(registry_said(registry, BEEST_KIND_QP, "x"), "two");
}

/* ---------------------------------------------------------------------- memory --- */

/* A look that finds nothing to do leaks nothing (the sanitizer checks). */
static void nothing_to_do(void **state)
{
	int i;

	(void)state;
	make();
	fake_kv_count_again();
	for (i = 0; i < 3; i++)
		assert_int_equal(registry_look(registry, 0), 0);
	counted(0, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		REGISTRY_TEST(opening),
		REGISTRY_TEST(an_existing_epoch),
		REGISTRY_TEST(the_time_to_live_of_an_epoch),
		REGISTRY_TEST(evicted_alone),
		REGISTRY_TEST(all_lost_except_records_before_an_answer),
		REGISTRY_TEST(evicted_alone_after_an_answer),
		REGISTRY_TEST(all_lost_except_records_that_come_late),
		REGISTRY_TEST(lost_under_way),
		REGISTRY_TEST(all_lost_except_records_stored_now),
		REGISTRY_TEST(all_lost_except_records_of_others),
		REGISTRY_TEST(gone_and_back),
		REGISTRY_TEST(emptied),
		REGISTRY_TEST(alien),
		REGISTRY_TEST(an_epoch_that_cannot_be_added),
		REGISTRY_TEST(no_memcached),
		REGISTRY_TEST(one_write_to_a_server_that_is_gone),
		REGISTRY_TEST(a_deletion_when_the_epoch_is_missing),
		REGISTRY_TEST(learned_by_another_thread),
		REGISTRY_TEST(an_answer_that_is_outdated),
		REGISTRY_TEST(presence_comes_first),
		REGISTRY_TEST(one_is_away),
		REGISTRY_TEST(a_server_that_is_needed),
		REGISTRY_TEST(a_probe_ends),
		REGISTRY_TEST(the_presence_is_away),
		REGISTRY_TEST(it_takes_less),
		REGISTRY_TEST(it_evicts),
		REGISTRY_TEST(it_evicts_now_and_then),
		REGISTRY_TEST(it_refuses),
		REGISTRY_TEST(offers),
		REGISTRY_TEST(an_offer_over_an_old_connection),
		REGISTRY_TEST(an_offer_that_is_lost),
		REGISTRY_TEST(an_offer_refused),
		REGISTRY_TEST(nothing_to_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
