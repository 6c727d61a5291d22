/* SPDX-License-Identifier: MIT */
/* pace.c - what happened to requests, and how long and how often the next ones may ask */
#include "config.h"

#include "lib/rendezvous/pace.h"
#include "tests/support/unit.h"

#define MS BEEST_MS
#define S BEEST_SECOND
#define FOREVER (1000 * S)
#define ANY 0

/*
 * Events: 'a' an answer after @took, 'f' a failed request for @keys; @times of them.  Then what
 * comes out: the patience, the rest of a rank that has waited for @waited, the number of keys.
 */
struct row {
	char event;
	int64_t took;
	size_t keys;
	int times;
	int64_t patience, waited, rest;
	size_t most;
};

static void run(const struct row *rows, size_t count)
{
	struct beest_pace pace = { 0 };
	const struct row *row;
	int i;

	for (row = rows; row < rows + count; row++) {
		for (i = 0; i < row->times; i++)
			if (row->event == 'a')
				beest_pace_answered(&pace, row->took);
			else
				beest_pace_failed(&pace, row->keys);
		if (beest_pace_patience(&pace, 0) == row->patience &&
		    beest_pace_rest(&pace, row->waited) == row->rest && pace.keys == row->most)
			continue;
		print_error("row %d: patience %lld ms, rest %lld ms, keys %zu\n",
			    (int)(row - rows), (long long)(beest_pace_patience(&pace, 0) / MS),
			    (long long)(beest_pace_rest(&pace, row->waited) / MS), pace.keys);
		fail();
	}
}

/* Quick answers leave everything as it is, also those that waited for a processor for a moment. */
static void a_quick_server(void **state)
{
	static const struct row rows[] = {
		{ 'a', 0, 0, 0, 3 * S, FOREVER, 0, ANY },
		{ 'a', 1 * MS, 0, 1, 3 * S, FOREVER, 0, ANY },
		{ 'a', 5 * MS, 0, 100, 3 * S, FOREVER, 0, ANY },
	};

	(void)state;
	run(rows, BEEST_COUNT(rows));
}

/* The rest follows how long the wait has lasted, up to 16 looks; patience follows the longest. */
static void a_slow_server(void **state)
{
	static const struct row rows[] = {
		{ 'a', 105 * MS, 0, 1, 3 * S, 0, 0, ANY },
		{ 'a', 105 * MS, 0, 1, 3 * S, 800 * MS, 100 * MS, ANY },
		{ 'a', 105 * MS, 0, 1, 3 * S, 8 * S, 1 * S, ANY },
		{ 'a', 105 * MS, 0, 1, 3 * S, FOREVER, 1600 * MS, ANY },
		{ 'a', 1500 * MS, 0, 1, 6 * S, 8 * S, 1 * S, ANY },
		/* a slow one counts for a while, but the rest ends with the next quick one */
		{ 'a', 1 * MS, 0, 1, 5625 * MS, FOREVER, 0, ANY },
		{ 'a', 1 * MS, 0, 20, 3 * S, FOREVER, 0, ANY },
	};

	(void)state;
	run(rows, BEEST_COUNT(rows));
}

/* Less, later, and for longer; an answer ends the rests at once and the rest step by step. */
static void a_server_that_fails(void **state)
{
	static const struct row rows[] = {
		{ 'f', 0, 1000, 1, 6 * S, FOREVER, 10 * MS, 500 },
		{ 'f', 0, 500, 1, 12 * S, 0, 20 * MS, 250 },
		{ 'f', 0, 250, 1, 12 * S, 0, 40 * MS, 125 },
		{ 'f', 0, 125, 7, 12 * S, 0, 1 * S, 62 },
		{ 'f', 0, 1, 20, 12 * S, 0, 1 * S, 1 },
		{ 'a', 1 * MS, 0, 1, 3 * S, FOREVER, 0, 2 },
		{ 'a', 1 * MS, 0, 4, 3 * S, FOREVER, 0, 32 },
		{ 'f', 0, 0, 1, 6 * S, 0, 10 * MS, 1 },
		{ 'a', 1 * MS, 0, 17, 3 * S, FOREVER, 0, ANY },
	};

	(void)state;
	run(rows, BEEST_COUNT(rows));
}

/* All ranks may ask at the same moment. */
static void many_ranks_are_waited_for(void **state)
{
	static const struct { int ranks; int64_t patience; } rows[] = {
		{ 0, 3 * S }, { 2, 3020 * MS }, { 256, 5560 * MS }, { 1000, 13 * S },
		{ 1000000, 13 * S },
	};
	struct beest_pace pace = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++)
		assert_int_equal(beest_pace_patience(&pace, rows[i].ranks), rows[i].patience);
}

/* A failure does not forget how slow the server is. */
static void a_slow_server_that_fails(void **state)
{
	static const struct row rows[] = {
		{ 'a', 2 * S, 0, 1, 8 * S, FOREVER, 16 * 1995 * MS, ANY },
		{ 'f', 0, 64, 1, 8 * S, FOREVER, 10 * MS, 32 },
		{ 'f', 0, 64, 1, 12 * S, FOREVER, 20 * MS, 32 },
	};

	(void)state;
	run(rows, BEEST_COUNT(rows));
}

/* Before anything is known, silence proves less than at a server that was quick. */
static void slow_or_silent(void **state)
{
	struct beest_pace pace = { 0 };

	(void)state;
	assert_int_equal(beest_pace_suspect(&pace, 100), 4 * S);
	beest_pace_answered(&pace, 0);
	assert_int_equal(beest_pace_suspect(&pace, 100), 500 * MS);
	beest_pace_answered(&pace, 2 * S);
	assert_int_equal(beest_pace_suspect(&pace, 100), 8 * S);
}

/* One that polls gives a slow server its time, once that is known, and a silent one a chance. */
static void a_single_look(void **state)
{
	struct beest_pace pace = { 0 };
	int i;

	(void)state;
	for (i = 0; i < 24; i++) {
		assert_int_equal(beest_pace_single(&pace), i % 8 == 7 ? 2 * S : 250 * MS);
		beest_pace_failed(&pace, 1);
	}
	beest_pace_answered(&pace, 900 * MS);
	assert_int_equal(beest_pace_single(&pace), 1800 * MS);
	beest_pace_failed(&pace, 1);
	assert_int_equal(beest_pace_single(&pace), 1800 * MS);
	beest_pace_answered(&pace, 5 * S);
	assert_int_equal(beest_pace_single(&pace), 2 * S);
}

/* A closing process does not hang, but a slow server gets what is sent last. */
static void a_process_that_closes(void **state)
{
	struct beest_pace pace = { 0 };

	(void)state;
	assert_int_equal(beest_pace_closing(&pace), 3 * S);
	beest_pace_failed(&pace, 1);
	assert_int_equal(beest_pace_closing(&pace), 3 * S);
	beest_pace_answered(&pace, 1500 * MS);
	assert_int_equal(beest_pace_closing(&pace), 6 * S);
}

static void what_nobody_waits_for(void **state)
{
	static const int64_t aways[] = { 0, 1 * S, 2 * S, 4 * S, 8 * S, 8 * S };
	struct beest_pace pace = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(aways); i++) {
		assert_int_equal(beest_pace_away(&pace), aways[i]);
		beest_pace_failed(&pace, 1);
	}
	beest_pace_answered(&pace, 1 * MS);
	assert_int_equal(beest_pace_away(&pace), 0);
}

/*
 * Why it is stable: whatever the number of ranks and the speed of the server, the looks that ranks
 * take in vain become fewer than it can answer.  All ranks look once a round, which lasts as long
 * as the server needs for all of them.
 */
static void many_ranks_that_wait(void **state)
{
	static const int ranks[] = { 2, 64, 1024, 16384 };
	static const int64_t costs[] = { 100 * BEEST_US, 1 * MS, 20 * MS };
	struct beest_pace pace;
	int64_t now, took, rest;
	size_t i, k;

	(void)state;
	for (i = 0; i < BEEST_COUNT(ranks); i++)
		for (k = 0; k < BEEST_COUNT(costs); k++) {
			memset(&pace, 0, sizeof(pace));
			took = ranks[i] * costs[k];
			for (now = 0; now < 20 * took; now += took + rest) {
				beest_pace_answered(&pace, took);
				rest = beest_pace_rest(&pace, now);
			}
			/* then the server is mostly idle, unless it is quick anyway */
			if (took > 8 * MS)
				assert_true(rest >= 2 * took);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_quick_server),
		cmocka_unit_test(a_slow_server),
		cmocka_unit_test(a_server_that_fails),
		cmocka_unit_test(many_ranks_are_waited_for),
		cmocka_unit_test(a_slow_server_that_fails),
		cmocka_unit_test(slow_or_silent),
		cmocka_unit_test(a_single_look),
		cmocka_unit_test(a_process_that_closes),
		cmocka_unit_test(what_nobody_waits_for),
		cmocka_unit_test(many_ranks_that_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
