/* SPDX-License-Identifier: MIT */
/* crew.c - coroutines over a clock that jumps, and over the fake servers */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/kv/kv.h"
#include "tests/support/crew.h"
#include "tests/support/fake-kv.h"
#include "tests/support/unit.h"

#define MANY 1024

static char said[4096];

static void say(const char *word)
{
	snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s@%d ", word,
		 (int)(crew_now() % BEEST_SECOND / BEEST_MS));
}

static int setup(void **state)
{
	(void)state;
	said[0] = '\0';
	fake_kv_reset();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	crew_clear();
	fake_kv_reset();
	return 0;
}

static void step(void *data)
{
	const int *pauses = data;

	for (; *pauses; pauses++) {
		crew_pass(*pauses * BEEST_MS);
		say(*pauses == 2 ? "two" : *pauses == 3 ? "three" : "other");
	}
}

static void the_member_due_first_goes_on(void **state)
{
	static int twos[] = { 2, 2, 2, 0 }, threes[] = { 3, 3, 0 };

	(void)state;
	crew_start(step, threes);
	crew_start(step, twos);
	crew_run();
	assert_string_equal(said, "two@2 three@3 two@4 three@6 two@6 ");
}

static void recruit(void *data)
{
	static int more[] = { 5, 0 };

	(void)data;
	crew_start(step, more);
	say("begun");
}

static void members_start_members(void **state)
{
	int64_t before = crew_now();

	(void)state;
	crew_start(recruit, NULL);
	crew_run();
	assert_true(crew_now() == before + 5 * BEEST_MS);
	crew_run();			/* no member */
	assert_true(crew_now() == before + 5 * BEEST_MS);
	assert_null(beest_clock_source);
}

/* Members use the library's back-off. */
static void wait_long(void *data)
{
	struct beest_backoff backoff;
	int64_t deadline = beest_clock_deadline(3600 * BEEST_SECOND);
	int *looks = data;

	beest_clock_backoff_start(&backoff, MANY);
	while (beest_clock_left(deadline)) {
		beest_clock_backoff_sleep(&backoff, deadline);
		++*looks;
	}
}

static int looks_of_two(void)
{
	int looks[2] = { 0, 0 };

	crew_start(wait_long, &looks[0]);
	crew_start(wait_long, &looks[1]);
	crew_run();
	assert_true(looks[0] > 1000);
	assert_int_not_equal(looks[0], looks[1]);		/* because of the jitter */
	return looks[0];
}

static void hours_pass_at_once(void **state)
{
	int64_t before = crew_now();

	(void)state;
	looks_of_two();
	assert_true(crew_now() >= before + 3600 * BEEST_SECOND);
}

/* -------------------------------------------------- a fence of a thousand --- */

struct rank {
	int number;
	size_t seen;
	int64_t done;
};

static const struct beest_hostport server = { .text = "a:1" };

static struct beest_kv_write opening = {
	.verb = BEEST_KV_ADD, .key = "epoch", .value = "E", .size = 1,
};

/* Stores its own key, then waits for the key of its neighbour. */
static void take_part(void *data)
{
	struct rank *rank = data;
	char own[16], wanted[16];
	const char *keys[] = { "epoch", wanted };
	struct beest_kv_value values[2];
	struct beest_kv_write write = {
		.verb = BEEST_KV_SET, .key = own, .value = own, .size = sizeof(own), .ttl = 600,
	};
	struct beest_kv_request request = {
		.writes = &write, .write_count = 1, .opening = &opening,
		.keys = keys, .key_count = 2, .values = values,
	};
	struct beest_backoff backoff;
	struct beest_kv *kv;

	snprintf(own, sizeof(own), "rank%d", rank->number);
	snprintf(wanted, sizeof(wanted), "rank%d", (rank->number + 1) % MANY);
	assert_int_equal(beest_kv_open(&kv, &server, 1), 0);
	crew_pass(rank->number % 7 * BEEST_MS);
	beest_clock_backoff_start(&backoff, MANY);
	backoff.keys = 2;
	while (!rank->seen) {
		assert_int_equal(beest_kv_run(kv, &request, 1, INT64_MAX, NULL), 0);
		request.write_count = 0;
		rank->seen = values[1].size;
		beest_kv_values_free(values, 2);
		if (!rank->seen)
			beest_clock_backoff_sleep(&backoff, INT64_MAX);
	}
	rank->done = crew_now();
	beest_kv_close(kv);
}

static void a_thousand_meet(void **state)
{
	static struct rank ranks[MANY];
	int i;

	for (i = 0; i < MANY; i++) {
		ranks[i] = (struct rank){ .number = i };
		crew_start(take_part, &ranks[i]);
	}
	crew_run();
	for (i = 0; i < MANY; i++)
		assert_int_equal(ranks[i].seen, 16);
	assert_int_equal(fake_kv.open, 0);
	assert_int_equal(fake_kv_server("a:1")->items, MANY + 1);
	(void)state;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_member_due_first_goes_on),
		TEST(members_start_members),
		TEST(hours_pass_at_once),
		TEST(a_thousand_meet),
	};

	crew_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
