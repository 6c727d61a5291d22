/* SPDX-License-Identifier: MIT */
/*
 * barrier.c - all ranks pass or none does, whatever happens, and the requests that it costs
 *
 * Ranks are coroutines over the fake servers, so neither a thousand ranks nor minutes of
 * waiting take time.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/rendezvous/barrier.h"
#include "lib/rendezvous/message.h"
#include "lib/rendezvous/opening.h"
#include "tests/support/crew.h"
#include "tests/support/registry.h"
#include "tests/support/unit.h"

#define PASSES 4

#define BARRIERS 3
static const char *const barriers[BARRIERS] = { "a", "b", "c" };

struct rank {
	struct beest_registry *registry;
	struct beest_roll roll;
	struct beest_barrier *barrier[BARRIERS];	/* by the last letter of the name */
	int rank, size;
	const char *names;		/* of the passes, for example "aab" */
	int64_t delay;			/* before the first pass */
	int64_t dies;			/* silently, at the first look from this instant on */
	bool stays;			/* after the passes, to look after its records */
	bool polls_by_itself;		/* one look in each call */

	int ret;			/* of the last pass */
	int passed;
	char error[1024];
	int64_t came, ended;
	uint64_t keys[PASSES + 1];	/* without the looks that only poll */
	uint64_t polls[PASSES + 1];
	bool reads_all[PASSES + 1];
	int requests;
};

static struct rank ranks[REGISTRY_RANKS + 1];
static struct fake_kv_server *server;

/* -------------------------------------------------------- who has asked for what --- */

static struct {
	struct beest_kv *kv;
	uint64_t keys;
	bool polls, reads_all;
	int readers;			/* requests that read all records */
	int size;
} last;

static struct rank *rank_of(const struct beest_kv *kv)
{
	size_t i;

	for (i = 0; i <= REGISTRY_RANKS; i++)
		if (ranks[i].registry && ranks[i].registry->kv == kv)
			return &ranks[i];
	return NULL;
}

static void count_last(void)
{
	struct rank *rank = last.kv ? rank_of(last.kv) : NULL;

	if (rank && last.polls)
		rank->polls[rank->passed]++;
	else if (rank)
		rank->keys[rank->passed] += fake_kv.keys - last.keys;
	if (rank)
		rank->reads_all[rank->passed] |= last.reads_all;
	last.keys = fake_kv.keys;
	last.kv = NULL;
}

/*
 * A rank that polls for a missing gate asks only for the gate and the epoch; in a roll call also
 * for the starts of its rank, and in a large job for the counter and the roll.
 */
static void count_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	bool meets = request->key_count > 2 && strstr(request->keys[2], "/starts/");
	size_t count = request->key_count - meets;

	count_last();
	last.kv = kv;
	last.polls = !request->write_count &&
		     (count == 2 || (count <= 4 && strstr(request->keys[2 + meets], "/count")));
	last.reads_all = request->key_count > (size_t)last.size && !last.polls;
	last.readers += last.reads_all;
}

/* ------------------------------------------------------------------------- ranks --- */

static int rank_dies(void *data)
{
	const struct rank *rank = data;

	return rank->dies && crew_now() >= rank->dies ? beest_fail(EINTR, "killed") : 0;
}

static struct rank *rank_make(int slot, int number, int size, const char *names)
{
	struct rank *rank = &ranks[slot];
	size_t i;

	memset(rank, 0, sizeof(*rank));
	rank->registry = registry_make(number, size);
	rank->rank = number;
	rank->size = size;
	rank->names = names;
	rank->registry->interrupt = rank_dies;
	rank->registry->data = rank;
	beest_roll_start(&rank->roll);
	for (i = 0; i < BARRIERS; i++) {
		rank->barrier[i] = beest_table_new(&beest_barrier_kind);
		assert_non_null(rank->barrier[i]);
		rank->barrier[i]->node.name = (char *)barriers[i];
	}
	return rank;
}

static void rank_free(struct rank *rank, bool killed)
{
	size_t i;

	if (!rank->registry)
		return;
	(killed ? registry_kill : registry_close)(rank->registry);
	rank->registry = NULL;
	for (i = 0; i < BARRIERS; i++)
		free(rank->barrier[i]);
	beest_roll_end(&rank->roll);
}

static void rank_pass(struct rank *rank, char name)
{
	const int64_t deadline = rank->polls_by_itself ? HARTEBEEST_ONCE : 0;

	rank->came = crew_now();
	do {
		crew_pass(rank->ret ? 5 * BEEST_MS : 0);
		rank->ret = beest_barrier_wait(rank->registry, &rank->roll,
					       rank->barrier[name - 'a'],
					       registry_ranks(rank->size), rank->rank,
					       REGISTRY_LIMIT(deadline));
	} while (rank->ret == -EAGAIN);
	snprintf(rank->error, sizeof(rank->error), "%s", rank->ret ? beest_error_text() : "");
	rank->ended = crew_now();
	count_last();
	rank->passed += rank->ret == 0;
}

/* A record that a server lost is stored again only when its rank looks. */
static void rank_look_after(struct rank *rank)
{
	int i;

	for (i = 0; i < 40; i++) {
		crew_pass(200 * BEEST_MS);
		registry_look(rank->registry, BEEST_LOOK_CHECK);
	}
}

static void rank_run(void *data)
{
	struct rank *rank = data;
	const char *name;

	crew_pass(rank->delay);
	for (name = rank->names; *name && rank->ret == 0; name++)
		rank_pass(rank, *name);
	if (rank->ret == -EINTR)
		rank_free(rank, true);
	if (rank->stays)
		rank_look_after(rank);
}

static void ranks_make(int size, const char *names)
{
	int i;

	for (i = 0; i < size; i++)
		crew_start(rank_run, rank_make(i, i, size, names));
}

static void ranks_free(bool killed)
{
	size_t i;

	for (i = 0; i <= REGISTRY_RANKS; i++)
		rank_free(&ranks[i], killed);
}

static void all_have(int size, int passed)
{
	int i;

	for (i = 0; i < size; i++) {
		if (ranks[i].ret)
			print_error("rank %d: %s\n", i, ranks[i].error);
		assert_int_equal(ranks[i].ret, 0);
		assert_int_equal(ranks[i].passed, passed);
	}
}

static int setup(void **state)
{
	(void)state;
	crew_need();
	registry_start();
	server = fake_kv_server("a:1");
	memset(&last, 0, sizeof(last));
	last.size = REGISTRY_RANKS;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	crew_clear();
	ranks_free(true);
	registry_end();
	return 0;
}

/* -------------------------------------------------------------- what it costs --- */

static size_t barrier_items;

static void item_count(const char *key, const void *value, size_t size, void *data)
{
	(void)value;
	(void)size;
	barrier_items += strstr(key, "/barrier/") && strstr(key, (const char *)data);
}

/* A rank that reads all records asks for N more keys. */
static void cost_check(const struct rank *rank, int pass, uint64_t keys)
{
	uint64_t most = keys + (rank->reads_all[pass] ? 3 * ((uint64_t)rank->size + 8) : 0);

	if (rank->keys[pass] > most || rank->polls[pass] > 12)
		print_error("%d ranks, rank %d, pass %d: %d keys, %d looks in vain\n", rank->size,
			    rank->rank, pass + 1, (int)rank->keys[pass], (int)rank->polls[pass]);
	assert_in_range(rank->keys[pass], 0, most);
	assert_in_range(rank->polls[pass], 0, 12);
}

/*
 * The first pass includes the first publication (4 keys more, and 3 by which the process begins),
 * has two phases, and reads the starts in each look.  Looks that only
 * poll are counted separately.  More than 16 ranks also ask for the counter.  In each phase one
 * rank reads all records, and at most one more does because its number was the last.
 */
static void many(int size)
{
	int i, pass;

	fake_kv_reset();
	fake_kv.hook = count_hook;
	memset(&last, 0, sizeof(last));
	last.size = size;
	ranks_make(size, "aaab");
	registry_run();
	all_have(size, 4);
	for (i = 0; i < size; i++)
		for (pass = 0; pass < 4; pass++)
			cost_check(&ranks[i], pass, (pass == 0 ? 4 + 3 + 14 : pass == 2 ? 4 : 5) +
				   (size > 16));
	if (size > 4)
		assert_in_range(last.readers, 5, 5 * 2);
	fake_kv.hook = NULL;
	barrier_items = 0;
	fake_kv_visit(server, item_count, (void *)"/a/");
	assert_in_range(barrier_items, size + 2, size + 3);
	barrier_items = 0;
	fake_kv_visit(server, item_count, (void *)"/-/");
	assert_in_range(barrier_items, size + 2, size + 3);
	ranks_free(false);
}

static void costs(void **state)
{
	(void)state;
	many(2);
	many(3);
	many(16);
	many(1024);
}

/* Each rank comes @gap after the one before; requests are counted. */
static void come_in_turn(int size, int64_t gap)
{
	int i;

	memset(&last, 0, sizeof(last));
	last.size = size;
	fake_kv.hook = count_hook;
	ranks_make(size, "a");
	for (i = 0; i < size; i++)
		ranks[i].delay = i * gap;
	registry_run();
	all_have(size, 1);
	fake_kv.hook = NULL;
}

/* The first ranks look again at about the time when the last one arrives. */
static void many_in_turn(void **state)
{
	uint64_t polls = 0;
	int i;

	(void)state;
	come_in_turn(256, 100 * BEEST_US);
	for (i = 0; i < 16; i++)
		polls += ranks[i].polls[0];
	assert_in_range(polls, 16, 16 * 6);
}

/*
 * Of 64 ranks the first ones would expect to wait for minutes, since their answers wait for the
 * requests of others.  When all have come, no rank expects more than a third of that time.
 */
static void the_first_ranks_expect_little(void **state)
{
	const int64_t waited = 10 * BEEST_MS, took = 3 * BEEST_MS;
	const struct {
		const char *number;
		int64_t expected;
	} rows[] = {
		{ "1", waited }, { "31", waited }, { "48", waited / 48 * 16 }, { "64", 2 * took },
		{ "65", waited }, { "", 0 }, { "no number", 0 },
	};
	struct beest_gather_state kept = { .moved_at = 0 };
	struct beest_gathering g = {
		.count = 64, .numbered_at = beest_clock_now() - waited, .state = &kept,
	};
	struct beest_kv_value value;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		value.bytes = (uint8_t *)rows[i].number;
		value.size = strlen(rows[i].number);
		assert_int_equal(beest_opening_expect(&g, &value, took), rows[i].expected);
	}
}

/* While the counter still moves, only one rank reads all records for each gate. */
static void a_slow_start_is_no_doubt(void **state)
{
	(void)state;
	come_in_turn(64, 100 * BEEST_MS);
	assert_int_equal(last.readers, 2);
}

static bool held;
static int read_by_held;

/* Rank 0 would read all records after two seconds, but is held up until others have read them. */
static void hold_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	if (rank_of(kv) != &ranks[0])
		return;
	read_by_held += held && request->key_count > 20;
	if (held || crew_now() < ranks[0].came + 2 * BEEST_SECOND || !request->write_count ||
	    !strstr(request->writes[0].key, "/taker"))
		return;
	held = true;
	crew_pass(4 * BEEST_SECOND);
}

/* The gate opened while it was held up. */
static void a_late_reader_sees_the_gate(void **state)
{
	(void)state;
	held = false;
	read_by_held = 0;
	fake_kv.hook = hold_hook;
	ranks_make(20, "a");
	ranks[19].delay = 4 * BEEST_SECOND;
	registry_run();
	all_have(20, 1);
	fake_kv.hook = NULL;
	assert_true(held);
	assert_int_equal(read_by_held, 1);	/* the last to learn of all */
}

static void pass_and_leave(void *data)
{
	struct rank *rank = data;

	rank_pass(rank, 'a');
	crew_pass(rank->delay);
	rank_pass(rank, 'a');
	rank_free(rank, false);
}

/* Holds up a rank that has read all records and asks whether rank 19 still lives. */
static void asking_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	for (i = 0; i < request->key_count && !held; i++) {
		if (rank_of(kv) == &ranks[19] || !strstr(request->keys[i], "/rank/19"))
			continue;
		held = true;
		crew_pass(4 * BEEST_SECOND);
	}
}

/* Meanwhile rank 19 came, opened the gate for all, and left like all others. */
static void a_rank_that_left_has_passed(void **state)
{
	int i;

	(void)state;
	held = false;
	fake_kv.hook = asking_hook;
	for (i = 0; i < 20; i++)
		crew_start(pass_and_leave, rank_make(i, i, 20, "aa"));
	ranks[19].delay = 4 * BEEST_SECOND;
	registry_run();
	all_have(20, 2);
	fake_kv.hook = NULL;
	assert_true(held);
}

/* --------------------------------------------------------------- former runs --- */

static void nobody_passes_before_the_last_one(int size, const char *names)
{
	int i;

	ranks_make(size, names);
	ranks[size - 1].delay = 3 * BEEST_SECOND;
	registry_run();
	all_have(size, (int)strlen(names));
	for (i = 0; i < size; i++)
		assert_true(ranks[i].ended >= ranks[size - 1].came);
}

static void leftovers_of_a_complete_run(void **state)
{
	int run;

	(void)state;
	for (run = 0; run < 4; run++) {
		nobody_passes_before_the_last_one(3, run & 1 ? "a" : "aab");
		ranks_free(run < 2);
	}
}

static void leftovers_of_an_incomplete_run(void **state)
{
	int come;

	(void)state;
	registry_stage.timeout = 2 * BEEST_SECOND;
	for (come = 1; come < 4; come++) {
		ranks_make(4, "a");
		ranks[0].names = "";
		ranks[1].names = come > 2 ? "a" : "";
		ranks[2].names = come > 1 ? "a" : "";
		registry_run();
		assert_int_equal(ranks[3].ret, -ETIMEDOUT);
		assert_non_null(strstr(ranks[3].error, "barrier 'a', pass 1: "));
		assert_non_null(strstr(ranks[3].error, "rank 0 "));
		assert_non_null(strstr(ranks[3].error, "after 2 s: "));
		ranks_free(true);
		registry_stage.timeout = 10 * BEEST_SECOND;
		nobody_passes_before_the_last_one(4, "ab");
		ranks_free(true);
		registry_stage.timeout = 2 * BEEST_SECOND;
	}
}

/* A rank that comes long after others found different settings can only suspect a mismatch. */
static void leftovers_have_other_settings(void **state)
{
	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	ranks_make(3, "a");
	ranks[0].names = ranks[2].names = "";
	registry_run();
	assert_int_equal(ranks[1].ret, -ETIMEDOUT);
	ranks_free(true);
	ranks_make(2, "a");
	ranks[1].names = "";
	registry_run();
	assert_int_equal(ranks[0].ret, -ETIMEDOUT);
	assert_non_null(strstr(ranks[0].error, "after 3 s: 1 of 2 ranks has not arrived: rank 1 "));
	assert_non_null(strstr(ranks[0].error, "; rank 1 on "));
	assert_non_null(strstr(ranks[0].error, " (3 ranks) had another set of participants"));
	assert_non_null(strstr(ranks[0].error, "; server a:1 answers; "));
}

/* A rank that took part in the roll call is known, so it is not reported as "never seen". */
static void one_stays_away(void **state)
{
	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	ranks_make(3, "ab");
	ranks[2].names = "ac";
	registry_run();
	assert_int_equal(ranks[0].ret, -ETIMEDOUT);
	assert_non_null(strstr(ranks[0].error, "barrier 'b', pass 1: after 3 s: 1 of 3 ranks has "
			       "not arrived: rank 2 (key hb1/job/barrier/"));
	assert_non_null(strstr(ranks[0].error, "/b/2, not there; it began as rank 2 on "));
	assert_non_null(strstr(ranks[0].error, ", which last waited for barrier 'c'); server "));
	ranks_free(true);
}

static void wait_elsewhere(void *data)
{
	beest_message_wait(data, "m", NULL, 0, NULL, REGISTRY_LIMIT(0));
}

/* It has not even come to the roll call, but is no stranger. */
static void one_waits_for_a_message(void **state)
{
	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	ranks_make(3, "a");
	ranks[1].names = ranks[2].names = "";
	crew_start(wait_elsewhere, registry_make(2, 3));
	registry_run();
	assert_int_equal(ranks[0].ret, -ETIMEDOUT);
	assert_non_null(strstr(ranks[0].error, ": rank 1 (key hb1/job/barrier/-/-/1, never seen), "
			       "rank 2 (key hb1/job/barrier/-/-/2, not there; it began as rank 2 "
			       "on "));
	assert_non_null(strstr(ranks[0].error, ", which last waited for message 'm'); server a:1 "
			       "answers; HARTEBEEST_JOB "));
	ranks_free(true);
	ranks_make(2, "a");
	ranks[1].names = "";
	crew_start(wait_elsewhere, registry_make(1, 2));
	registry_run();
	assert_null(strstr(ranks[0].error, "HARTEBEEST_JOB"));
	ranks_free(true);
}

static void empty_later(void *data)
{
	crew_pass(BEEST_SECOND);
	fake_kv_flush(data);
}

/* Rank 2 may have come, too, before the server lost its record. */
static void one_that_may_have_been_here(void **state)
{
	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	ranks_make(3, "ab");
	ranks[2].names = "a";
	crew_start(empty_later, server);
	registry_run();
	assert_int_equal(ranks[0].ret, -ETIMEDOUT);
	assert_non_null(strstr(ranks[0].error, "; server a:1 answers; meanwhile it lost its "
			       "contents; others store theirs again in their next call, so a "
			       "missing one may have been here"));
	ranks_free(true);
}

/* Ranks that come one by one among leftovers know each other, and name only the others. */
static void leftovers_are_missing(void **state)
{
	int64_t delay;
	int i;

	(void)state;
	for (delay = 0; delay < 3800 * BEEST_MS; delay += 40 * BEEST_MS) {
		registry_stage.timeout = 10 * BEEST_SECOND;
		ranks_make(4, "a");
		registry_run();
		all_have(4, 1);
		ranks_free(true);
		registry_stage.timeout = 4 * BEEST_SECOND;
		ranks_make(4, "a");
		ranks[2].names = ranks[3].names = "";
		ranks[1].delay = delay;
		registry_run();
		for (i = 0; i < 2; i++) {
			if (!strstr(ranks[i].error, "2 of 4 ranks have not arrived: rank 2 "))
				print_error("%d ms later: %s\n", (int)(delay / BEEST_MS),
					    ranks[i].error);
			assert_int_equal(ranks[i].ret, -ETIMEDOUT);
			assert_non_null(strstr(ranks[i].error,
					       "after 4 s: 2 of 4 ranks have not arrived: rank "));
		}
		ranks_free(true);
	}
}

/* Rank 2 is held up twice in the pass after @passed: at its request @at, and for long after it. */
static struct {
	int passed, at, requests;
	int64_t late;
} stuck;

static int64_t hold_rank_2(const struct beest_kv *kv)
{
	if (rank_of(kv) != &ranks[2] || ranks[2].passed != stuck.passed)
		return 0;
	stuck.requests++;

	return stuck.requests > stuck.at ? 20 * BEEST_SECOND :
	       stuck.requests == stuck.at ? stuck.late : 0;
}

/* True: it has passed although nobody opened the gate for it. */
static bool passed_at_last(const struct rank *rank)
{
	const char *error = rank->error;

	if (rank->ret == 0 || strstr(error, ": after 3 s: 1 of 3 ranks has not arrived: rank 2 "))
		return rank->ret == 0 && rank->ended - rank->came >= 3 * BEEST_SECOND;
	if (stuck.passed || !strstr(error, ": after 3 s: all ranks have arrived in the "
					  "meantime, but the last steps need more time: call "
					  "again"))
		fail_msg("rank %d, pass %d: %s", rank->rank, stuck.passed + 1, error);

	return false;
}

/*
 * The last rank stores a record just before the limit of others, and is held up before it can open
 * the gate.  Once it is here, nobody names it; and where all records are there, the others pass.
 */
static void the_last_one_is_held_up_at_the_gate(void **state)
{
	int at_last[2] = { 0, 0 };

	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	for (stuck.passed = 0; stuck.passed < 2; stuck.passed++)
		for (stuck.at = 1; stuck.at <= 6; stuck.at++)
			for (stuck.late = 2800 * BEEST_MS; stuck.late < 3 * BEEST_SECOND;
			     stuck.late += 10 * BEEST_MS) {
				ranks_make(3, stuck.passed ? "aa" : "a");
				stuck.requests = 0;
				fake_kv.hold = hold_rank_2;
				registry_run();
				fake_kv.hold = NULL;
				at_last[stuck.passed] += passed_at_last(&ranks[0]) +
							passed_at_last(&ranks[1]);
				ranks_free(true);
			}
	assert_true(at_last[0] > 0);
	assert_true(at_last[1] > 0);
}

/* ----------------------------------------------------------- ranks that go and come --- */

static int64_t heir_delay;

static void heir_run(void *data)
{
	(void)data;
	crew_pass(heir_delay);
	while (ranks[2].registry && ranks[2].ret == 0 && ranks[2].passed < 2)
		crew_pass(BEEST_MS / 2);
	rank_free(&ranks[2], true);
	rank_run(rank_make(3, 2, 3, "aa"));
}

static void killed_before_the_roll_call_is_complete(void **state)
{
	(void)state;
	heir_delay = 1500 * BEEST_MS;
	ranks_make(3, "aa");
	ranks[0].delay = 2 * BEEST_SECOND;
	ranks[2].dies = crew_now() + BEEST_SECOND;
	crew_start(heir_run, NULL);
	registry_run();
	assert_int_equal(ranks[0].passed, 2);
	assert_int_equal(ranks[1].passed, 2);
	assert_int_equal(ranks[3].passed, 2);
}

#define ROUNDS 4

static int rounds_begun[ROUNDS], hold_at, requests_of_last;
static int64_t hold_for;

/* One process after the other takes this rank; each comes to the same barrier once. */
static void script_run(void *data)
{
	struct rank *rank = data;
	const int number = (int)(rank - ranks), size = last.size;
	int round;

	for (round = 0; round < ROUNDS; round++) {
		rank_free(rank, false);
		rank_make(number, number, size, "a");
		rounds_begun[round]++;
		rank_pass(rank, 'a');
		if (rank->ret || rounds_begun[round] != size)
			print_error("request %d held up: rank %d, round %d: %s\n", hold_at, number,
				    round, rank->error);
		assert_int_equal(rank->ret, 0);
		assert_int_equal(rounds_begun[round], size);
	}
}

static void script_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)request;
	if (rank_of(kv) == &ranks[last.size - 1] && requests_of_last++ == hold_at)
		crew_pass(hold_for);
}

static void scripts_held_up(int size, int64_t duration)
{
	int i;

	hold_for = duration;
	last.size = size;
	requests_of_last = 0;
	for (hold_at = 0; hold_at <= requests_of_last; hold_at += unit_stride()) {
		fake_kv_reset();
		requests_of_last = 0;
		memset(rounds_begun, 0, sizeof(rounds_begun));
		fake_kv.hook = script_hook;
		for (i = 0; i < size; i++)
			crew_start(script_run, &ranks[i]);
		registry_run();
		ranks_free(false);
	}
	fake_kv.hook = NULL;
	assert_in_range(hold_at, 3 * ROUNDS, 200);
}

/* A rank that has not seen the gate when the next processes come still passes. */
static void scripts(void **state)
{
	(void)state;
	scripts_held_up(3, 60 * BEEST_MS);
	scripts_held_up(3, BEEST_SECOND);
	scripts_held_up(3, 5 * BEEST_SECOND);
	scripts_held_up(20, 100 * BEEST_MS);
	scripts_held_up(20, 5 * BEEST_SECOND);
}

static int dies_at;

static void death_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	struct rank *rank = rank_of(kv);

	(void)request;
	if (rank == &ranks[2] && rank->requests++ == dies_at)
		rank->dies = crew_now();
}

/*
 * The others pass with the heir, or all fail with -ESTALE.  True: it had passed before it
 * died.
 */
static bool killed_once(void)
{
	bool stale, passed;

	fake_kv.hook = death_hook;
	ranks_make(3, "aa");
	crew_start(heir_run, NULL);
	registry_run();
	fake_kv.hook = NULL;
	passed = !ranks[2].registry && ranks[0].passed == 2 && ranks[1].passed == 2 &&
		 ranks[3].passed < 2;
	stale = ranks[0].ret == -ESTALE && ranks[1].ret == -ESTALE && ranks[3].ret == -ESTALE;
	if (!passed && !stale) {
		if (ranks[3].passed != 2)
			print_error("%d, %d held up: %s\n%s\n%s\n", dies_at, hold_at,
				    ranks[0].error, ranks[1].error, ranks[3].error);
		assert_int_equal(ranks[0].passed, 2);
		assert_int_equal(ranks[1].passed, 2);
		assert_int_equal(ranks[3].passed, 2);
	}
	ranks_free(true);

	return passed;
}

/* Rank 2 is killed after each of its requests in turn. */
static void killed_at_any_time(void **state)
{
	static const int64_t delays[] = {
		BEEST_MS, 20 * BEEST_MS, 55 * BEEST_MS, 120 * BEEST_MS, 300 * BEEST_MS,
		1030 * BEEST_MS, 3 * BEEST_SECOND,
	};
	bool passed;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(delays) / sizeof(*delays); i++)
		for (dies_at = 0, passed = false; !passed; dies_at += unit_stride()) {
			heir_delay = delays[i];
			fake_kv_reset();
			passed = killed_once();
		}
	assert_in_range(dies_at, 5, 60);
}

/* Rank 2 has stored its record, and is killed while it waits for the others. */
static void killed_at_the_barrier(void **state)
{
	(void)state;
	registry_stage.timeout = 500 * BEEST_MS;
	ranks_make(3, "aa");
	ranks[0].names = ranks[1].names = "";
	registry_run();
	assert_int_equal(ranks[2].ret, -ETIMEDOUT);
	ranks_free(true);
	registry_stage.timeout = 10 * BEEST_SECOND;
	nobody_passes_before_the_last_one(3, "aa");
}

static void restarted_after_it(void **state)
{
	int i;

	(void)state;
	ranks_make(3, "a");
	registry_run();
	all_have(3, 1);
	rank_free(&ranks[2], true);
	for (i = 0; i < 2; i++) {
		ranks[i].names = "a";
		crew_start(rank_run, &ranks[i]);
	}
	crew_start(rank_run, rank_make(2, 2, 3, "a"));
	registry_run();
	for (i = 0; i < 3; i++) {
		assert_int_equal(ranks[i].ret, -ESTALE);
		assert_non_null(strstr(ranks[i].error, "rank 2"));
		assert_non_null(strstr(ranks[i].error, "started again"));
		assert_non_null(strstr(ranks[i].error, "open new contexts"));
		assert_true(ranks[i].ended - ranks[i].came < 4 * BEEST_SECOND);
	}
}

/* Calls that look once also remember which ranks came: a late rank is not a new one. */
static void single_looks_remember(void **state)
{
	int i;

	(void)state;
	ranks_make(3, "aa");
	for (i = 0; i < 3; i++)
		ranks[i].polls_by_itself = true;
	registry_run();
	all_have(3, 2);
	for (i = 0; i < 3; i++) {
		ranks[i].names = "a";
		ranks[i].delay = i == 2 ? 20 * BEEST_SECOND : 0;
		crew_start(rank_run, &ranks[i]);
	}
	registry_run();
	all_have(3, 3);
}

/* It comes back after the others have waited for a while. */
static void restarted_later(void **state)
{
	int i;

	(void)state;
	ranks_make(3, "a");
	registry_run();
	rank_free(&ranks[2], true);
	for (i = 0; i < 2; i++) {
		ranks[i].names = "b";
		crew_start(rank_run, &ranks[i]);
	}
	rank_make(2, 2, 3, "a")->delay = 3 * BEEST_SECOND;
	crew_start(rank_run, &ranks[2]);
	registry_run();
	for (i = 0; i < 3; i++) {
		assert_int_equal(ranks[i].ret, -ESTALE);
		assert_true(ranks[i].ended - ranks[2].came < 3 * BEEST_SECOND);
	}
}

/* One gate names both to everybody. */
static void two_restarted(void **state)
{
	int i;

	(void)state;
	ranks_make(4, "a");
	registry_run();
	all_have(4, 1);
	for (i = 0; i < 4; i++) {
		if (i < 2)
			ranks[i].names = "a";
		else
			rank_free(&ranks[i], true);
		crew_start(rank_run, i < 2 ? &ranks[i] : rank_make(i, i, 4, "a"));
	}
	registry_run();
	for (i = 0; i < 4; i++) {
		assert_int_equal(ranks[i].ret, -ESTALE);
		assert_non_null(strstr(ranks[i].error, i == 3 ? "rank 3" : "rank 2"));
		assert_true(ranks[i].ended - ranks[i].came < 4 * BEEST_SECOND);
	}
	assert_non_null(strstr(ranks[0].error, " and 1 more were started again"));
}

static void pass_and_start_again(void *data)
{
	struct rank *rank = data;

	rank_pass(rank, 'a');
	rank_free(rank, true);
	rank_pass(rank_make(2, 2, 3, ""), 'a');
}

static int late_requests;		/* of rank 1, which is late */

static int64_t late_hold(const struct beest_kv *kv)
{
	return rank_of(kv) == &ranks[1] && late_requests++ == hold_at ? 6 * BEEST_SECOND : 0;
}

/* A gate that refuses a newcomer still lets a rank pass that has not seen it open. */
static void a_refusal_before_the_open_gate(void **state)
{
	int i;

	(void)state;
	for (hold_at = 0; hold_at < 5; hold_at++) {
		fake_kv_reset();
		fake_kv.hold = late_hold;
		late_requests = 0;
		for (i = 0; i < 2; i++)
			crew_start(rank_run, rank_make(i, i, 3, "aa"));
		crew_start(pass_and_start_again, rank_make(2, 2, 3, ""));
		registry_run();
		assert_true(late_requests > hold_at);
		for (i = 0; i < 3; i++) {
			if (ranks[i].ret != -ESTALE || ranks[i].passed != (i < 2))
				print_error("request %d held up, rank %d: %s\n", hold_at, i,
					    ranks[i].error);
			assert_int_equal(ranks[i].ret, -ESTALE);
			assert_int_equal(ranks[i].passed, i < 2);
		}
		ranks_free(true);
	}
	fake_kv.hold = NULL;
}

static int64_t held_until;		/* of rank 1; 0: not held up yet */
static bool also_held;			/* rank 0 */

static int64_t both_hold(const struct beest_kv *kv)
{
	int64_t span = late_hold(kv);

	if (span)
		held_until = crew_now() + span;
	if (rank_of(kv) != &ranks[0] || !held_until || also_held ||
	    crew_now() < held_until - 50 * BEEST_MS)
		return span;
	also_held = true;
	return 5 * BEEST_SECOND;
}

static void killed_while(int64_t (*hold)(const struct beest_kv *))
{
	heir_delay = 0;
	for (hold_at = 0; hold_at < 9; hold_at++)
		for (dies_at = 0; dies_at < 12; dies_at += unit_stride()) {
			fake_kv_reset();
			registry_stage.timeout = 30 * BEEST_SECOND;
			fake_kv.hold = hold;
			late_requests = 0;
			held_until = 0;
			also_held = false;
			killed_once();
		}
	fake_kv.hold = NULL;
}

/*
 * Rank 1 has seen that all know of all, and is held up before it tells the others.  Meanwhile
 * rank 2 is killed, and rank 0 learns of its heir.  Rank 0 passes with rank 1 nevertheless.
 */
static void killed_while_one_is_held_up(void **state)
{
	(void)state;
	killed_while(late_hold);
}

/* The same, but rank 0 is held up too, and finds the gate when it is about to refuse the heir. */
static void killed_while_two_are_held_up(void **state)
{
	(void)state;
	killed_while(both_hold);
}

static void leave(void *data)
{
	crew_pass(BEEST_SECOND / 3);
	rank_free(data, false);
}

/* The third rank ends while two wait for it: both fail at once, with the reason. */
static void third_ends(void (*end)(void *), int errno_wanted, const char *who, const char *why)
{
	int i;

	ranks_make(3, "a");
	registry_run();
	for (i = 0; i < 2; i++) {
		ranks[i].names = "a";
		crew_start(rank_run, &ranks[i]);
	}
	crew_start(end, &ranks[2]);
	registry_run();
	for (i = 0; i < 2; i++) {
		assert_int_equal(ranks[i].ret, -errno_wanted);
		assert_non_null(strstr(ranks[i].error, who));
		assert_non_null(strstr(ranks[i].error, why));
		assert_true(ranks[i].ended - ranks[i].came < 4 * BEEST_SECOND);
	}
}

static void left(void **state)
{
	(void)state;
	third_ends(leave, ESHUTDOWN, "rank 2 on ", " has left");
}

static void say_failed(void *data)
{
	struct rank *rank = data;

	crew_pass(BEEST_SECOND / 3);
	rank->registry->presence.self.state = BEEST_RANK_FAILED;
	strcpy(rank->registry->presence.self.reason, "out of luck");
	beest_presence_put(rank->registry);
	registry_look(rank->registry, 0);
}

static void failed(void **state)
{
	(void)state;
	third_ends(say_failed, ECONNABORTED, "rank 2 on ", " has failed: out of luck");
}

/* ------------------------------------------------------------ servers that fail --- */

static int restart_at;

static void restart_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)kv;
	(void)request;
	if (restart_at && --restart_at == 0)
		fake_kv_restart(server);
}

static void restarted_server(void **state)
{
	int i, n;

	(void)state;
	for (n = 1; ; n++) {
		fake_kv_reset();
		restart_at = n;
		fake_kv.hook = restart_hook;
		ranks_make(4, "aab");
		for (i = 0; i < 4; i++)
			ranks[i].stays = true;
		registry_run();
		if (restart_at)
			break;
		all_have(4, 3);
		ranks_free(true);
	}
	fake_kv.hook = NULL;
	assert_in_range(n, 20, 800);
}

static int restarted_in;

static void early_restart_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	if (restart_at == 1)
		restarted_in = ranks[0].passed;
	restart_hook(kv, request);
}

/* After a few passes without the counter, the last rank to come is known again. */
static void lost_counter(void **state)
{
	int i, n;

	(void)state;
	for (n = 1; ; n++) {
		fake_kv_reset();
		restart_at = n;
		fake_kv.hook = early_restart_hook;
		ranks_make(4, "aaaaaaaa");
		registry_run();
		if (restart_at || restarted_in > 2)
			break;
		all_have(4, 8);
		for (i = 0; i < 4; i++)
			assert_true(ranks[i].ended - ranks[i].came < BEEST_SECOND / 2);
		ranks_free(true);
	}
	fake_kv.hook = NULL;
	assert_in_range(n, 20, 800);
}

static void in_time(int n)
{
	int i;

	for (i = 0; i < 4; i++) {
		if (ranks[i].ret && (ranks[i].ended - ranks[i].came > registry_stage.timeout +
				     2 * BEEST_SECOND || !ranks[i].error[0]))
			print_error("request %d, rank %d: %d %s\n", n, i, ranks[i].ret,
				    ranks[i].error);
		assert_true(ranks[i].ended - ranks[i].came <=
			    registry_stage.timeout + 2 * BEEST_SECOND);
		assert_true(!ranks[i].ret || ranks[i].error[0]);
	}
}

static void each_request_fails(enum fake_kv_unit unit, enum fake_kv_manner manner)
{
	int n;

	for (n = 1; ; n++) {
		fake_kv_reset();
		fake_kv_fail(unit, n, EHOSTDOWN, manner);
		ranks_make(4, "aab");
		registry_run();
		if (!fake_kv.fired)
			break;
		in_time(n);
		all_have(4, 3);
		ranks_free(true);
	}
	assert_in_range(n, 20, 800);
	ranks_free(true);
}

static void whatever_fails_once(void **state)
{
	(void)state;
	each_request_fails(FAKE_KV_REQUEST, FAKE_KV_REFUSED);
	each_request_fails(FAKE_KV_REQUEST, FAKE_KV_LOST);
	each_request_fails(FAKE_KV_COMMAND, FAKE_KV_REFUSED);
	each_request_fails(FAKE_KV_COMMAND, FAKE_KV_LOST);
	each_request_fails(FAKE_KV_COMMAND, FAKE_KV_LATE);
}

static void a_server_that_is_gone(void **state)
{
	int i;

	(void)state;
	registry_stage.timeout = 2 * BEEST_SECOND;
	ranks_make(4, "a");
	server->error = ECONNREFUSED;
	registry_run();
	in_time(0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(ranks[i].ret, -ECONNREFUSED);
		assert_non_null(strstr(ranks[i].error, "barrier 'a', pass 1: tried for 2 s: "));
		assert_non_null(strstr(ranks[i].error, "; wanted: barrier 'a' (key "));
	}
}

static int silent_at;
static int64_t silent_since;

static void silent_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)kv;
	(void)request;
	if (--silent_at)
		return;
	server->silent = true;
	silent_since = crew_now();
}

/* The server answered before, and then stops for good: the error says so, within the limit. */
static void a_server_that_falls_silent(void **state)
{
	int i, n;
	bool told, hit = true;

	(void)state;
	for (n = 1; hit; n++) {
		fake_kv_reset();
		registry_stage.timeout = BEEST_SECOND;
		silent_at = n;
		fake_kv.hook = silent_hook;
		ranks_make(4, "aa");
		ranks[3].names = "a";		/* the other three wait for it in vain */
		registry_run();
		hit = server->silent;
		fake_kv.hook = NULL;
		server->silent = false;
		for (i = 0; i < 3; i++) {
			told = hit && ranks[i].ended > silent_since + BEEST_MS;
			/*
			 * Unless the server fell silent only when asked about the missing
			 * rank.
			 */
			told &= !strstr(ranks[i].error, "1 of 4 ranks has not arrived");
			assert_int_equal(ranks[i].ret, told ? -EHOSTDOWN : -ETIMEDOUT);
			assert_in_range(ranks[i].ended - ranks[i].came, BEEST_SECOND,
					2 * BEEST_SECOND);
		}
		ranks_free(true);
	}
	assert_in_range(n, 20, 2000);
}

static long counted_most;

static void counter_visit(const char *key, const void *value, size_t size, void *data)
{
	char number[24];

	(void)data;
	if (strlen(key) < 6 || strcmp(key + strlen(key) - 6, "/count") != 0)
		return;
	snprintf(number, sizeof(number), "%.*s", (int)size, (const char *)value);
	counted_most = atol(number) > counted_most ? atol(number) : counted_most;
}

/* Barriers on the other servers work, and each rank takes one number in each phase. */
static void one_of_several_is_away(void **state)
{
	static const char *const names[] = { "a:1", "b:1", "c:1" };
	int i, j, passed, failed = 0;

	(void)state;
	registry_stage.servers = "a:1 b:1 c:1";
	registry_stage.timeout = 3 * BEEST_SECOND;
	for (i = 0; i < 3; i++) {
		fake_kv_reset();
		ranks_make(4, "a");
		for (j = 0; j < 4; j++)
			ranks[j].delay = j * 100 * BEEST_MS;
		fake_kv_server(names[i])->error = EHOSTDOWN;
		registry_run();
		in_time(i);
		for (j = passed = 0; j < 4; j++)
			passed += ranks[j].passed == 1;
		assert_true(passed == 4 || passed == 0);
		failed += passed == 0;
		counted_most = 0;
		for (j = 0; j < 3; j++)
			fake_kv_visit(fake_kv_server(names[j]), counter_visit, NULL);
		assert_int_equal(counted_most, passed ? 8 : 0);
		ranks_free(true);
	}
	assert_int_equal(failed, 1);		/* the server of the gate itself */
}

/* --------------------------------------------------------------------- names --- */

static void other_names(void **state)
{
	int i;

	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	ranks_make(3, "a");
	ranks[2].names = "b";
	registry_run();
	for (i = 0; i < 3; i++) {
		assert_int_equal(ranks[i].ret, -ETIMEDOUT);
		in_time(0);
	}
	assert_non_null(strstr(ranks[0].error, "rank 2 "));
	assert_non_null(strstr(ranks[2].error, "barrier 'b'"));
}

static void two_in_turn(void **state)
{
	(void)state;
	ranks_make(2, "abab");
	registry_run();
	all_have(2, 4);
}

/* Two threads of each rank: one context, two barriers. */
static struct rank twin[2][2];

static void twin_run(void *data)
{
	struct rank *rank = data;
	int pass;

	for (pass = 0; pass < 3 && rank->ret == 0; pass++) {
		crew_pass(rank->delay);
		rank->ret = beest_barrier_wait(rank->registry, &ranks[rank->rank].roll,
					       ranks[rank->rank].barrier[rank->names[0] - 'a'],
					       registry_ranks(2), rank->rank,
				       REGISTRY_LIMIT(0));
		snprintf(rank->error, sizeof(rank->error), "%s",
			 rank->ret ? beest_error_text() : "");
	}
}

static void two_threads(void **state)
{
	static const int64_t delays[] = { 0, 30 * BEEST_US, 7 * BEEST_MS, BEEST_SECOND };
	size_t which, i, j;

	(void)state;
	for (which = 0; which < 4 * 4; which++) {
		for (i = 0; i < 2; i++) {
			rank_make((int)i, (int)i, 2, "");
			for (j = 0; j < 2; j++) {
				twin[i][j] = ranks[i];
				twin[i][j].names = j ? "b" : "a";
				twin[i][j].delay = delays[(i == j ? which : which / 4) % 4];
				crew_start(twin_run, &twin[i][j]);
			}
		}
		registry_run();
		for (i = 0; i < 2; i++)
			for (j = 0; j < 2; j++) {
				if (twin[i][j].ret)
					print_error("%zu: %s\n", which, twin[i][j].error);
				assert_int_equal(twin[i][j].ret, 0);
			}
		ranks_free(false);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(costs, setup, teardown),
		cmocka_unit_test_setup_teardown(many_in_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(the_first_ranks_expect_little, setup, teardown),
		cmocka_unit_test_setup_teardown(a_slow_start_is_no_doubt, setup, teardown),
		cmocka_unit_test_setup_teardown(a_late_reader_sees_the_gate, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_rank_that_left_has_passed, setup, teardown),
		cmocka_unit_test_setup_teardown(leftovers_of_a_complete_run, setup, teardown),
		cmocka_unit_test_setup_teardown(leftovers_of_an_incomplete_run, setup, teardown),
		cmocka_unit_test_setup_teardown(leftovers_have_other_settings, setup, teardown),
		cmocka_unit_test_setup_teardown(one_stays_away, setup, teardown),
		cmocka_unit_test_setup_teardown(one_waits_for_a_message, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_may_have_been_here, setup, teardown),
		cmocka_unit_test_setup_teardown(leftovers_are_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(the_last_one_is_held_up_at_the_gate, setup,
						teardown),
		cmocka_unit_test_setup_teardown(killed_before_the_roll_call_is_complete, setup,
						teardown),
		cmocka_unit_test_setup_teardown(scripts, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_at_any_time, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_at_the_barrier, setup, teardown),
		cmocka_unit_test_setup_teardown(restarted_after_it, setup, teardown),
		cmocka_unit_test_setup_teardown(single_looks_remember, setup, teardown),
		cmocka_unit_test_setup_teardown(restarted_later, setup, teardown),
		cmocka_unit_test_setup_teardown(two_restarted, setup, teardown),
		cmocka_unit_test_setup_teardown(a_refusal_before_the_open_gate, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_while_one_is_held_up, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_while_two_are_held_up, setup, teardown),
		cmocka_unit_test_setup_teardown(left, setup, teardown),
		cmocka_unit_test_setup_teardown(failed, setup, teardown),
		cmocka_unit_test_setup_teardown(restarted_server, setup, teardown),
		cmocka_unit_test_setup_teardown(lost_counter, setup, teardown),
		cmocka_unit_test_setup_teardown(whatever_fails_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_server_that_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(a_server_that_falls_silent, setup, teardown),
		cmocka_unit_test_setup_teardown(one_of_several_is_away, setup, teardown),
		cmocka_unit_test_setup_teardown(other_names, setup, teardown),
		cmocka_unit_test_setup_teardown(two_in_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(two_threads, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
