/* SPDX-License-Identifier: MIT */
/* fake-kv.c - the fake servers and processes do what their headers say, and what real ones do */
#include "config.h"

#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/base/process.h"
#include "tests/support/fake-kv.h"
#include "tests/support/fake-process.h"
#include "tests/support/kv-scenarios.h"
#include "tests/support/unit.h"

#define TTL 600

static const struct beest_hostport list[] = { { .text = "a:1" }, { .text = "b:1" } };

static struct beest_kv *kv;
static struct fake_kv_server *server;
static int64_t now;

static int64_t clock_now(void)
{
	return now;
}

static void clock_sleep(int64_t instant)
{
	now = instant > now ? instant : now;
}

static const struct beest_clock_source source = { clock_now, clock_sleep };

static int setup(void **state)
{
	(void)state;
	beest_clock_source = &source;
	fake_kv_reset();
	server = fake_kv_server("a:1");
	return beest_kv_open(&kv, list, 1);
}

static int teardown(void **state)
{
	(void)state;
	beest_kv_close(kv);
	fake_kv_reset();
	beest_clock_source = NULL;
	return 0;
}

/* --------------------------------------------------------------- scenarios --- */

static void stage_restart(void)
{
	fake_kv_restart(server);
}

static void stage_pause(int seconds)
{
	now += seconds * BEEST_SECOND;
}

static void does_as_a_real_server(void **state)
{
	const struct kv_scenario *scenario;
	struct kv_stage stage = { NULL, stage_restart, stage_pause };

	for (scenario = kv_scenarios; scenario->name; scenario++) {
		teardown(state);
		setup(state);
		stage.kv = kv;
		scenario->run(&stage);
	}
}

/* ---------------------------------------------------------- what is counted --- */

static struct beest_kv_value values[4];
static struct beest_kv_request request;

static struct beest_kv_write opening = {
	.verb = BEEST_KV_ADD, .key = "epoch", .value = "E", .size = 1,
};

static struct beest_kv_write writes[] = {
	{ .verb = BEEST_KV_SET, .key = "a", .value = "12", .size = 2, .ttl = TTL },
	{ .verb = BEEST_KV_SET, .key = "b", .value = "3", .size = 1, .ttl = TTL },
	{ .verb = BEEST_KV_SET, .key = "c", .value = "4", .size = 1, .ttl = TTL },
};

static const char *const keys[] = { "epoch", "a", "b", "c" };

/* ANSWERED: all writes are answered.  LAZY: the request is lazy. */
enum { ANSWERED = 1, LAZY = 2 };

static int ask(unsigned int flags, size_t write_count, size_t key_count)
{
	size_t i;
	int ret;

	for (i = 0; i < write_count; i++)
		writes[i].answered = flags & ANSWERED || writes[i].verb == BEEST_KV_INCR;
	request = (struct beest_kv_request){
		.lazy = flags & LAZY, .writes = writes, .write_count = write_count,
		.opening = &opening, .keys = keys, .key_count = key_count, .values = values,
	};
	ret = beest_kv_run(kv, &request, 1, beest_clock_deadline(BEEST_SECOND), NULL);
	beest_kv_values_free(values, key_count);
	return ret;
}

static void counted(uint64_t round_trips, uint64_t commands, uint64_t key_count)
{
	assert_int_equal(fake_kv.round_trips, round_trips);
	assert_int_equal(fake_kv.commands, commands);
	assert_int_equal(fake_kv.keys, key_count);
	fake_kv_count_again();
}

static void counts(void **state)
{
	(void)state;
	assert_int_equal(ask(0, 2, 2), 0);
	assert_int_equal(fake_kv.fresh, 1);
	counted(1, 4, 5);			/* two sets, the opening, one mget of two */
	assert_int_equal(ask(0, 2, 4), 0);
	assert_int_equal(fake_kv.fresh, 0);
	counted(1, 3, 6);
	assert_int_equal(ask(LAZY, 2, 4), 0);
	counted(0, 2, 2);
	assert_int_equal(ask(ANSWERED, 1, 1), 0);
	counted(1, 1, 1);
	assert_int_equal(ask(ANSWERED, 1, 2), 0);
	counted(2, 2, 3);
	assert_int_equal(ask(ANSWERED, 2, 1), 0);
	counted(2, 2, 2);
	assert_int_equal(server->items, 3);
	assert_int_equal(server->bytes, 6 + 3 + 2);
	writes[2].verb = BEEST_KV_INCR;
	assert_int_equal(ask(0, 3, 1), 0);
	counted(1, 3, 3);
	assert_int_equal(ask(0, 3, 2), 0);
	writes[2].verb = BEEST_KV_SET;
	counted(2, 4, 5);
}

/* Servers are asked in parallel. */
static void counts_servers_side_by_side(void **state)
{
	struct beest_kv_request requests[2];
	struct beest_kv_value got[2];
	struct beest_kv *two;
	int i;

	(void)state;
	assert_int_equal(beest_kv_open(&two, list, 2), 0);
	for (i = 0; i < 2; i++)
		requests[i] = (struct beest_kv_request){
			.server = (size_t)i, .opening = &opening, .keys = keys, .key_count = 1,
			.values = &got[i],
		};
	assert_int_equal(beest_kv_run(two, requests, 2, 0, NULL), 0);
	beest_kv_values_free(got, 2);
	beest_kv_close(two);
	assert_int_equal(server->commands, 2);
	assert_int_equal(fake_kv_server("b:1")->commands, 2);
	counted(1, 4, 4);
}

static void handles_share_the_content(void **state)
{
	struct beest_kv *own = kv, *other;
	size_t size = 0;

	(void)state;
	assert_int_equal(ask(0, 1, 1), 0);
	assert_int_equal(beest_kv_open(&other, list, 1), 0);
	kv = other;
	assert_int_equal(ask(0, 0, 2), 0);
	assert_true(request.fresh);		/* each handle has its own connections */
	kv = own;
	beest_kv_close(other);
	assert_memory_equal(fake_kv_get(server, "a", &size), "12", 2);
	assert_int_equal(size, 2);
	assert_null(fake_kv_get(server, "b", NULL));
}

/* ---------------------------------------------------------------- failures --- */

static bool is_there(const char *key)
{
	return fake_kv_get(server, key, NULL);
}

/* The first request has five commands: set a, set b, set c, add epoch, mget. */
static void the_nth_command_fails(void **state)
{
	static const char *const names[] = { "a", "b", "c", "epoch" };
	const enum fake_kv_manner manners[] = { FAKE_KV_REFUSED, FAKE_KV_LOST };
	size_t m, i;
	int n;

	for (m = 0; m < BEEST_COUNT(manners); m++)
		for (n = 1; ; n++) {
			teardown(state);
			setup(state);
			fake_kv_fail(FAKE_KV_COMMAND, n, EHOSTDOWN, manners[m]);
			if (ask(0, 3, 2) == 0)
				break;
			assert_int_equal(request.ret, -EHOSTDOWN);
			assert_int_equal(fake_kv.fired, 1);
			for (i = 0; i < BEEST_COUNT(names); i++)
				assert_int_equal(is_there(names[i]),
						 (int)i < n - (manners[m] == FAKE_KV_REFUSED));
			assert_int_equal(ask(0, 3, 2), 0);
			assert_true(request.fresh);
		}
	assert_int_equal(n, 6);
	assert_int_equal(fake_kv.fired, 0);
}

static void the_nth_write_or_request_fails(void **state)
{
	(void)state;
	assert_int_equal(ask(0, 0, 1), 0);
	fake_kv_fail(FAKE_KV_WRITE, 1, ENOBUFS, FAKE_KV_REFUSED);
	assert_int_equal(ask(0, 0, 1), 0);
	assert_int_equal(ask(0, 1, 1), -ENOBUFS);
	assert_false(is_there("a"));
	fake_kv_fail(FAKE_KV_REQUEST, 2, EHOSTDOWN, FAKE_KV_LOST);
	assert_int_equal(ask(0, 0, 1), 0);
	assert_int_equal(ask(0, 2, 1), -EHOSTDOWN);
	assert_true(is_there("b"));
	fake_kv_fail(FAKE_KV_REQUEST, 0, EUSERS, FAKE_KV_REFUSED);
	assert_int_equal(ask(0, 3, 1), -EUSERS);
	assert_int_equal(ask(0, 3, 1), -EUSERS);
	assert_false(is_there("c"));
}

/* The second set is applied late, over a newer value of the same key. */
static void a_write_is_applied_late(void **state)
{
	(void)state;
	fake_kv_fail(FAKE_KV_WRITE, 2, EHOSTDOWN, FAKE_KV_LATE);
	assert_int_equal(ask(0, 3, 1), -EHOSTDOWN);
	assert_true(is_there("a"));
	assert_false(is_there("b"));
	assert_false(is_there("c"));
	fake_kv_put(server, "b", "new", 3, 0);
	assert_int_equal(fake_kv_apply_late(), 2);
	assert_memory_equal(fake_kv_get(server, "b", NULL), "3", 1);
	assert_true(is_there("c"));
	assert_int_equal(fake_kv_apply_late(), 0);
}

static void a_server_is_down(void **state)
{
	struct beest_kv_stats stats;

	(void)state;
	server->error = ECONNREFUSED;
	assert_int_equal(ask(0, 1, 1), -ECONNREFUSED);
	assert_error_has("a:1");
	assert_int_equal(beest_kv_probe(kv, 0, INT64_MAX, &stats), -ECONNREFUSED);
	server->error = 0;
	server->probe_error = EACCES;
	assert_int_equal(beest_kv_probe(kv, 0, INT64_MAX, &stats), -EACCES);
	assert_int_equal(fake_kv.probes, 2);
	assert_false(is_there("a"));
	assert_int_equal(ask(0, 1, 1), 0);
}

static void a_lazy_write_into_a_restart_is_lost(void **state)
{
	(void)state;
	assert_int_equal(ask(0, 0, 1), 0);
	fake_kv_restart(server);
	assert_int_equal(ask(LAZY, 1, 1), 0);
	assert_false(is_there("a"));
	assert_int_equal(ask(0, 1, 1), -ECONNRESET);
	assert_int_equal(ask(0, 1, 1), 0);
	assert_true(request.fresh);
}

static void connections_become_new(void **state)
{
	(void)state;
	assert_int_equal(ask(0, 1, 1), 0);
	fake_kv_reconnect();
	assert_int_equal(ask(0, 0, 2), 0);
	assert_true(request.fresh);
	assert_true(is_there("a"));
}

/* ------------------------------------------------------------------ memory --- */

static void memory_evicts_the_least_used(void **state)
{
	(void)state;
	assert_int_equal(ask(0, 2, 4), 0);
	server->bytes_max = server->bytes;
	assert_int_equal(ask(0, 0, 2), 0);		/* uses a, but not b */
	fake_kv_put(server, "c", "4", 1, 0);
	assert_true(is_there("a"));
	assert_false(is_there("b"));
	assert_int_equal(server->evictions, 1);
	assert_true(fake_kv_evict(server, "epoch"));
	assert_false(fake_kv_evict(server, "epoch"));
	assert_int_equal(ask(0, 0, 1), -ENODATA);
}

/* A refused quiet set reports nothing, but the old value is gone. */
static void memory_refuses(void **state)
{
	(void)state;
	assert_int_equal(ask(0, 2, 4), 0);
	server->bytes_max = server->bytes;
	server->refuses = true;
	assert_int_equal(ask(0, 3, 1), 0);
	assert_false(is_there("c"));
	writes[0].value = "12345";
	writes[0].size = 5;
	assert_int_equal(ask(0, 1, 1), 0);
	assert_false(is_there("a"));
	assert_int_equal(ask(ANSWERED, 1, 1), -ENOBUFS);
	assert_int_equal(writes[0].ret, -ENOBUFS);
	writes[0].value = "12";
	writes[0].size = 2;
	assert_int_equal(server->evictions, 0);
}

/* ------------------------------------------------------------------- hooks --- */

static int hooked;

static void hook(struct beest_kv *user, const struct beest_kv_request *about)
{
	assert_ptr_equal(user, kv);
	assert_ptr_equal(about, &request);
	assert_ptr_equal(fake_kv.data, &hooked);
	fake_kv_put(server, "epoch", "other", 5, 0);
	hooked++;
}

static void another_comes_between(void **state)
{
	(void)state;
	fake_kv.hook = hook;
	fake_kv.data = &hooked;
	assert_int_equal(ask(0, 1, 1), 0);
	assert_int_equal(hooked, 1);
	assert_memory_equal(fake_kv_get(server, "epoch", NULL), "other", 5);
}

static void answers_take_time(void **state)
{
	int64_t before = now;

	(void)state;
	fake_kv.latency = 3;
	assert_int_equal(ask(ANSWERED, 2, 1), 0);
	assert_int_equal(now - before, 9);
}

static int64_t hold(const struct beest_kv *user)
{
	assert_ptr_equal(user, kv);
	return 5;
}

static void requests_are_held_up(void **state)
{
	int64_t before = now;

	(void)state;
	fake_kv.latency = 3;
	fake_kv.hold = hold;
	assert_int_equal(ask(0, 1, 1), 0);
	assert_int_equal(now - before, 8);
}

static void visit(const char *key, const void *value, size_t size, void *data)
{
	(void)value;
	snprintf((char *)data + strlen(data), 32, "%s%zu ", key, size);
}

static void content_is_shown(void **state)
{
	char seen[100] = "";

	(void)state;
	writes[1].ttl = 1;
	assert_int_equal(ask(0, 3, 1), 0);
	writes[1].ttl = TTL;
	now += BEEST_SECOND;
	fake_kv_visit(server, visit, seen);
	assert_string_equal(seen, "a2 c1 epoch1 ");
	assert_int_equal(server->items, 3);
}

/* Two incarnations may have the same bytes in some place. */
static void a_death_is_that_of_one_process(void **state)
{
	struct beest_incarnation dead, living;
	size_t i;

	(void)state;
	memset(&dead, 7, sizeof(dead));
	fake_process_kill(&dead);
	assert_int_equal(beest_process_life(&dead, 1, 0, &dead), BEEST_PROCESS_DEAD);
	for (i = BEEST_PROCESS_SIZE; i < BEEST_INCARNATION_SIZE; i++) {
		living = dead;
		living.bytes[i]++;
		assert_int_equal(beest_process_life(&living, 1, 0, &dead),
				 BEEST_PROCESS_UNKNOWN);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(does_as_a_real_server),
		TEST(counts),
		TEST(counts_servers_side_by_side),
		TEST(handles_share_the_content),
		TEST(the_nth_command_fails),
		TEST(the_nth_write_or_request_fails),
		TEST(a_write_is_applied_late),
		TEST(a_server_is_down),
		TEST(a_lazy_write_into_a_restart_is_lost),
		TEST(connections_become_new),
		TEST(memory_evicts_the_least_used),
		TEST(memory_refuses),
		TEST(another_comes_between),
		TEST(answers_take_time),
		TEST(requests_are_held_up),
		TEST(content_is_shown),
		TEST(a_death_is_that_of_one_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
