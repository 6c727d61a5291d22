/* SPDX-License-Identifier: MIT */
/*
 * barrier.c - all ranks pass or none does, whatever happens, and the requests that it costs
 *
 * Ranks are coroutines over the fake servers, so neither a thousand ranks nor minutes of
 * waiting take time.  Each gather judges the values that it receives.
 */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/reader.h"
#include "lib/base/clock.h"
#include "lib/rendezvous/barrier.h"
#include "lib/rendezvous/fencecall.h"
#include "tests/support/crew.h"
#include "tests/support/registry.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

/* What a sentence adds to the time of a call without a deadline. */
#define USUAL " (HARTEBEEST_TIMEOUT)"

#define PASSES 5
#define LONG (10 * BEEST_SECOND)

#define BARRIERS 3
static const char *const barriers[BARRIERS] = { "a", "b", "c" };

/* What a rank gathers, at the beginning of its bytes. */
struct value {
	int32_t rank, run, passed;
};

struct rank {
	struct beest_registry *registry;
	struct beest_membership membership;
	struct beest_barrier *barrier[BARRIERS];	/* by the last letter of the name */
	int rank, size, run;
	const char *names;		/* of the passes, for example "aab"; in capitals: gathers */
	size_t bytes;			/* of each value */
	int64_t delay;			/* before the first pass */
	bool cancelled;
	bool stays;			/* after the passes, to look after its records */
	bool polls_by_itself;		/* one look in each call */

	int ret;			/* of the last pass */
	int passed;
	char error[1024];
	int64_t came, ended;
	int64_t longest;		/* of the calls */
	/* In each pass: the requests that only read, and the keys of all others. */
	uint64_t polls[PASSES + 1], keys[PASSES + 1];
};

static struct rank ranks[REGISTRY_RANKS + 1];
static struct fake_kv_server *server;

/* ------------------------------------------------------------------- requests --- */

static struct rank *rank_of(const struct beest_kv *kv)
{
	size_t i;

	for (i = 0; i <= REGISTRY_RANKS; i++)
		if (ranks[i].registry && ranks[i].registry->kv == kv)
			return &ranks[i];
	return NULL;
}

static void count_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	struct rank *rank = rank_of(kv);

	if (rank && request->write_count)
		rank->keys[rank->passed] += request->write_count + request->key_count;
	else if (rank)
		rank->polls[rank->passed]++;
}

/* One rank is held up, at one of its requests since the last clear(). */
static struct hold {
	const struct rank *rank;
	int at, requests;
	int64_t span;
	int64_t rest;			/* so long in each request after it */
} held;

static int64_t hold_up(const struct beest_kv *kv)
{
	int at;

	if (!held.rank || rank_of(kv) != held.rank)
		return 0;
	at = held.requests++;
	return at == held.at ? held.span : at > held.at ? held.rest : 0;
}

/* ------------------------------------------------------------------------- ranks --- */

static int rank_interrupt(void *data)
{
	const struct rank *rank = data;

	return rank->cancelled ? beest_fail(ECANCELED, "cancelled") : 0;
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
	rank->bytes = sizeof(struct value);
	rank->registry->interrupt = rank_interrupt;
	rank->registry->data = rank;
	beest_membership_start(&rank->membership);
	for (i = 0; i < BARRIERS; i++) {
		rank->barrier[i] = beest_table_new(&beest_barrier_kind);
		assert_non_null(rank->barrier[i]);
		rank->barrier[i]->node.name = strdup(barriers[i]);
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
	for (i = 0; i < BARRIERS; i++) {
		free(rank->barrier[i]->node.name);
		beest_barrier_kind.dispose(&rank->barrier[i]->node);
		free(rank->barrier[i]);
	}
	beest_membership_end(&rank->membership);
}

static int rank_call(struct rank *rank, char name, const void *value, void *all)
{
	const struct beest_barrier_call call = {
		.registry = rank->registry, .membership = &rank->membership,
		.ranks = registry_ranks(rank->size), .rank = rank->rank,
		.value = name < 'a' ? value : NULL, .size = name < 'a' ? rank->bytes : 0,
		.all = all,
		.limit = REGISTRY_LIMIT(rank->polls_by_itself ? HARTEBEEST_ONCE : 0),
	};

	return beest_barrier_run(rank->barrier[(name | 32) - 'a'], &call);
}

static void values_judge(const struct rank *rank, const char *all)
{
	struct value value;
	int i;

	for (i = 0; i < rank->size; i++) {
		memcpy(&value, all + (size_t)i * rank->bytes, sizeof(value));
		if (value.rank != i || value.run != rank->run || value.passed != rank->passed)
			fail_msg("rank %d, run %d, pass %d has value %d of rank %d, run %d, pass "
				 "%d", rank->rank, rank->run, rank->passed, i, value.rank,
				 value.run, value.passed);
	}
}

static void rank_pass(struct rank *rank, char name)
{
	const struct value own = { rank->rank, rank->run, rank->passed };
	int64_t since;
	char *value = calloc(1, rank->bytes + sizeof(own));
	char *all = calloc((size_t)rank->size, rank->bytes + sizeof(own));

	memcpy(value, &own, sizeof(own));
	rank->came = crew_now();
	do {
		crew_pass(rank->ret ? 5 * BEEST_MS : 0);
		since = crew_now();
		rank->ret = rank_call(rank, name, value, all);
		rank->longest = BEEST_MAX(rank->longest, crew_now() - since);
	} while (rank->ret == -EAGAIN && crew_now() < rank->came + 30 * BEEST_SECOND);
	snprintf(rank->error, sizeof(rank->error), "%s", rank->ret ? beest_error_text() : "");
	rank->ended = crew_now();
	if (rank->ret == 0 && name < 'a')
		values_judge(rank, all);
	rank->passed += rank->ret == 0;
	free(value);
	free(all);
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

/* For the next of several jobs in one test. */
static void clear(void)
{
	ranks_free(true);
	fake_kv_reset();
	memset(&held, 0, sizeof(held));
}

static void rank_has(const struct rank *rank, int ret, const char *text)
{
	if (rank->ret != ret || !strstr(rank->error, text))
		print_error("rank %d of %d, pass %d: %d (%s)\nwanted: %d %s\n", rank->rank,
			    rank->size, rank->passed + 1, rank->ret, rank->error, ret, text);
	assert_int_equal(rank->ret, ret);
	assert_non_null(strstr(rank->error, text));
}

static void all_have(int size, int passed)
{
	int i;

	for (i = 0; i < size; i++) {
		rank_has(&ranks[i], 0, "");
		assert_int_equal(ranks[i].passed, passed);
	}
}

static int setup(void **state)
{
	(void)state;
	crew_need();
	registry_start();
	server = fake_kv_server("a:1");
	memset(&held, 0, sizeof(held));
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
/* promise: hartebeest-exchange(7) */

static size_t found, found_bytes;

static void item_count(const char *key, const void *value, size_t size, void *data)
{
	(void)value;
	if (!strstr(key, "/fence/") || !strstr(key, (const char *)data))
		return;
	found++;
	found_bytes += size;
}

static size_t items_with(const char *text)
{
	found = found_bytes = 0;
	fake_kv_visit(server, item_count, (void *)text);
	return found;
}

/*
 * Each rank comes @gap after the one before.  Requests that only read: no rank has more of them in
 * one pass, which the leader spends on all.
 */
static const struct {
	int size;
	const char *names;
	int64_t gap;
	uint64_t leader, member;
} cost[] = {
	{ 2, "aaaab", 0, 8, 8 },
	{ 3, "aaaab", 0, 8, 8 },
	{ 16, "aaaab", 0, 8, 8 },
	{ 16, "AAAAB", 0, 8, 8 },
	{ 1024, "aaaab", 0, 100, 8 },
	{ 1024, "AAAAB", 0, 100, 8 },
	{ 256, "a", 100 * BEEST_US, 100, 30 },
	{ 64, "a", 100 * BEEST_MS, 2000, 2000 },
};

/*
 * Keys of the requests that write.  In a call, the leader counts all, hears what they answer, and
 * stores and deletes chunks of 32 ranks; the first one begins the process, too.  A pass has none of
 * that.
 */
static void cost_check(const struct rank *rank, size_t row, int pass)
{
	const uint64_t size = (uint64_t)rank->size;
	const uint64_t polls = rank->rank ? cost[row].member : cost[row].leader;
	const bool call = pass == 0 || pass == PASSES - 1 || cost[row].names[0] < 'a';
	/* Once a second, each looks whether its records are there, and the leader reads all. */
	const uint64_t looks = (uint64_t)(cost[row].gap * rank->size * 3 / 2 / BEEST_SECOND);
	uint64_t keys = call ? 24 + 2 * looks : 5;

	if (call && rank->rank == 0)
		keys += (2 + looks) * size + size / 16;

	if (rank->keys[pass] > keys || rank->polls[pass] > polls)
		fail_msg("row %zu, rank %d, pass %d: %d keys, not %d, and %d polls", row,
			 rank->rank, pass + 1, (int)rank->keys[pass], (int)keys,
			 (int)rank->polls[pass]);
}

/* A record of each rank for each name, the first of them the leader's; chunks have been deleted. */
static void items_check(size_t row)
{
	const size_t names = strlen(cost[row].names) > 1 ? 2 : 1;

	assert_int_equal(items_with(""), names * (size_t)cost[row].size);
}

static void costs(void **state)
{
	size_t row;
	int i, pass, passes;

	(void)state;
	for (row = 0; row < BEEST_COUNT(cost); row++) {
		fake_kv.hook = count_hook;
		ranks_make(cost[row].size, cost[row].names);
		for (i = 0; i < cost[row].size; i++)
			ranks[i].delay = i * cost[row].gap;
		registry_run();
		passes = (int)strlen(cost[row].names);
		all_have(cost[row].size, passes);
		for (i = 0; i < cost[row].size; i++)
			for (pass = 0; pass < passes; pass++)
				cost_check(&ranks[i], row, pass);
		items_check(row);
		clear();
	}
}

/* All wait for the last rank: how often they ask whether several servers answer as one. */
static const struct {
	int size;
	int64_t gap;
	uint64_t least, most;
} comparing[] = {
	{ 16, 1500 * BEEST_MS, 15, 15 },
	{ 16, 2500 * BEEST_MS, 30, 30 },
	{ 1024, 1500 * BEEST_MS, 190, 330 },
	{ 1024, 2500 * BEEST_MS, 670, 870 },
};

static void how_many_compare_servers(void **state)
{
	size_t row;

	(void)state;
	for (row = 0; row < BEEST_COUNT(comparing); row++) {
		ranks_make(comparing[row].size, "a");
		ranks[comparing[row].size - 1].delay = comparing[row].gap;
		fake_kv.compares = 0;
		registry_run();
		all_have(comparing[row].size, 1);
		if (fake_kv.compares < comparing[row].least ||
		    fake_kv.compares > comparing[row].most)
			fail_msg("row %zu: %d", row, (int)fake_kv.compares);
		clear();
	}
}

/* -------------------------------------------------------------------- former runs --- */
/* promise: hartebeest_msg(3) */

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

/* An early record of rank 2 replaces a later one, as a write held up on the network would. */
static void held_up_record(void *data)
{
	struct rank *rank = data;
	const char *key = "hb1/job/fence/a/2", *names;
	const void *value;
	uint8_t early[1024];
	size_t size;

	for (names = "aaa"; *names; names++)
		rank_pass(rank, *names);
	value = fake_kv_get(server, key, &size);
	assert_true(value && size <= sizeof(early));
	memcpy(early, value, size);
	rank_pass(rank, 'A');
	crew_pass(200 * BEEST_MS);
	fake_kv_put(server, key, early, size, 0);
	crew_pass(2 * BEEST_SECOND);
	rank_pass(rank, 'a');
}

/* It has arrived in a pass of the view before, which is no pass of this one. */
static void a_pass_of_an_earlier_view(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 3; i++)
		crew_start(i == 2 ? held_up_record : rank_run, rank_make(i, i, 3, "aaaAa"));
	registry_run();
	all_have(3, 5);
	for (i = 0; i < 3; i++)
		assert_true(ranks[i].ended >= ranks[2].came);
}

static uint8_t dead_lead[1024];
static size_t dead_size;

/* The server loses all, and then carries out a write of a leader that has died. */
static void lead_late(void *data)
{
	crew_pass(*(int64_t *)data);
	fake_kv_flush(server);
	fake_kv_put(server, "hb1/job/fence/a/lead", dead_lead, dead_size, 0);
}

/* The leader takes over again, instead of taking the dead one for a second process of rank 0. */
static void a_late_write_of_a_dead_leader(void **state)
{
	const void *value;
	int64_t at;
	int i;

	(void)state;
	crew_start(rank_run, rank_make(0, 0, 3, "A"));
	registry_stage.timeout = BEEST_SECOND;
	registry_run();
	value = fake_kv_get(server, "hb1/job/fence/a/lead", &dead_size);
	assert_true(value && dead_size <= sizeof(dead_lead));
	memcpy(dead_lead, value, dead_size);
	ranks_free(true);
	registry_stage.timeout = LONG;
	for (at = 0; at < 3 * BEEST_MS; at += 40 * BEEST_US) {
		ranks_make(3, "A");
		crew_start(lead_late, &at);
		registry_run();
		for (i = 0; i < 3; i++)
			if (ranks[i].ret != 0)
				rank_has(&ranks[i], -ESTALE, "");
		ranks_free(true);
		fake_kv_reset();
	}
}

static size_t items_before_members;

static void items_look(void *data)
{
	(void)data;
	crew_pass(1500 * BEEST_MS);
	items_before_members = items_with("");
}

/* What the members of a run have left is in no view of the next one, which has no chunks yet. */
static void leftovers_are_not_proposed(void **state)
{
	int i;

	(void)state;
	registry_stage.timeout = 2 * BEEST_SECOND;
	for (i = 1; i < 40; i++)
		crew_start(rank_run, rank_make(i, i, 40, "a"));
	registry_run();
	ranks_free(false);
	registry_stage.timeout = LONG;
	ranks_make(40, "a");
	for (i = 1; i < 40; i++)
		ranks[i].delay = 2 * BEEST_SECOND;
	crew_start(items_look, NULL);
	registry_run();
	all_have(40, 1);
	assert_int_equal(items_before_members, 40);
}

/* -------------------------------------------------------------- nothing grows --- */
/* promise: hartebeest-exchange(7) */

/* Runs under one job id.  Of each, @missing ranks from the last on do not come. */
static const struct {
	int size, missing, runs;
	const char *names;
	size_t bytes;
	bool secrets;			/* each run has its own */
	bool killed;
} growth[] = {
	{ 4, 1, 300, "a", 0, false, true },
	{ 4, 0, 300, "aAb", 0, false, true },
	{ 4, 0, 300, "aAb", 1024, true, false },
	{ 40, 1, 30, "A", 1659, false, true },
	{ 40, 0, 30, "A", 1659, false, true },
	{ 40, 0, 30, "A", 1659, true, false },
};

static void grows_not(size_t row, int run)
{
	const size_t names = strlen(growth[row].names) > 1 ? 2 : 1;

	if (items_with("") > names * (size_t)growth[row].size)
		fail_msg("row %zu, run %d: %zu items of %zu bytes", row, run, found, found_bytes);
}

static void nothing_grows(void **state)
{
	char secret[32];
	size_t row;
	int run, i;

	(void)state;
	for (row = 0; row < BEEST_COUNT(growth); row++) {
		for (run = 0; run < growth[row].runs; run++) {
			snprintf(secret, sizeof(secret), "the secret of run %d", run);
			registry_stage.secret = growth[row].secrets ? secret : NULL;
			registry_stage.timeout = growth[row].missing ? BEEST_SECOND : LONG;
			ranks_make(growth[row].size, growth[row].names);
			for (i = 0; i < growth[row].size; i++) {
				ranks[i].run = run;
				ranks[i].bytes += growth[row].bytes;
				if (i >= growth[row].size - growth[row].missing)
					ranks[i].names = "";
			}
			registry_run();
			if (!growth[row].missing)
				all_have(growth[row].size, (int)strlen(growth[row].names));
			ranks_free(growth[row].killed);
			grows_not(row, run);
		}
		registry_stage.timeout = LONG;
		nobody_passes_before_the_last_one(growth[row].size, growth[row].names);
		registry_stage.secret = NULL;
		clear();
	}
}

/* ---------------------------------------------------------------- who is missing --- */
/* promise: hartebeest_msg(3) */

/*
 * Those that are here wait, and name all others.  It works in the same way with 1 000 000 ranks, as
 * many as a job can have, but takes minutes then.
 */
static void many_ranks_are_missing(void **state)
{
	static const int here[] = { 0, 50000, 99999 };
	size_t i;

	(void)state;
	registry_stage.timeout = BEEST_SECOND;
	for (i = 0; i < BEEST_COUNT(here); i++)
		crew_start(rank_run, rank_make((int)i, here[i], REGISTRY_IDS, "a"));
	registry_run();
	rank_has(&ranks[0], -ETIMEDOUT, "after 1 s" USUAL ": 99997 of 100000 ranks have not "
		 "arrived: ranks 1-49999 (never seen), ranks 50001-99998 (never seen)");
	for (i = 1; i < BEEST_COUNT(here); i++)
		rank_has(&ranks[i], -ETIMEDOUT, "");
}

/* ------------------------------------------------------------ the end of a limit --- */
/* promise: hartebeest_msg(3) */

/* Ranks whose limit ended continue the same pass. */
static void go_on(int size, int passes)
{
	int i;

	fake_kv.hold = NULL;
	registry_stage.timeout = LONG;
	for (i = 0; i < size; i++) {
		if (ranks[i].passed == passes)
			continue;
		ranks[i].names += ranks[i].passed;
		ranks[i].ret = 0;
		ranks[i].delay = 0;
		crew_start(rank_run, &ranks[i]);
	}
	registry_run();
	all_have(size, passes);
}

/* True: it has passed at the end of its limit. */
static bool passed_at_last(const struct rank *rank)
{
	if (rank->ret == 0)
		return rank->ended - rank->came >= 2700 * BEEST_MS;
	assert_int_equal(rank->ret, -ETIMEDOUT);
	if (!strstr(rank->error, ": after 3 s" USUAL ": 1 of 3 ranks has not arrived: rank ") &&
	    !strstr(rank->error, ": after 3 s" USUAL ": all ranks have arrived in the "
		    "meantime, but ") &&
	    rank != held.rank)
		fail_msg("held up at %d: rank %d: %s", held.at, rank->rank, rank->error);

	return false;
}

/* One rank is held up until just before the limit of all, and again soon after that. */
static void one_is_held_up_until_the_end(void **state)
{
	static const char *const names[] = { "a", "A", "aa", "aA" };
	int at_last = 0, timed_out = 0, i, which;
	size_t row;
	int64_t span;

	(void)state;
	for (row = 0; row < BEEST_COUNT(names); row++)
		for (which = 0; which < 12; which++)
			for (span = 2800 * BEEST_MS; span < 3 * BEEST_SECOND;
			     span += 10 * BEEST_MS * unit_stride(2)) {
				clear();
				registry_stage.timeout = 3 * BEEST_SECOND;
				ranks_make(3, names[row]);
				held = (struct hold){ &ranks[which % 2 * 2], which / 2, 0, span,
						      2 * BEEST_SECOND };
				fake_kv.hold = hold_up;
				registry_run();
				for (i = 0; i < 3; i++) {
					at_last += passed_at_last(&ranks[i]);
					timed_out += ranks[i].ret != 0;
				}
				go_on(3, (int)strlen(names[row]));
			}
	assert_true(at_last > 0);
	assert_true(timed_out > 0);
}

/* One call is cancelled, or ends with its limit, and goes on in the next. */
static void gives_up(void *data)
{
	struct rank *rank = data;

	crew_pass(rank->delay);
	rank->cancelled = rank->delay > 0;
	rank_pass(rank, 'a');
	rank_has(rank, rank->cancelled ? -ECANCELED : -ETIMEDOUT, "");
	rank->cancelled = false;
	/* What goes on is a barrier: no gather. */
	if (rank->ret == -ETIMEDOUT) {
		rank_pass(rank, 'A');
		rank_has(rank, -EINVAL, "the last call for 'a' has not ended: this one has to "
			 "continue it, with the same value");
	}
	rank_pass(rank, 'b');
	rank_pass(rank, 'a');
}

static void a_call_that_is_given_up_goes_on(void **state)
{
	int who, cancels;

	(void)state;
	for (who = 0; who < 2; who++)
		for (cancels = 0; cancels < 2; cancels++) {
			registry_stage.timeout = 2 * BEEST_SECOND;
			crew_start(gives_up, rank_make(who, who, 2, ""));
			crew_start(rank_run, rank_make(1 - who, 1 - who, 2, "ba"));
			ranks[who].delay = cancels;
			ranks[1 - who].delay = cancels ? BEEST_SECOND : 3 * BEEST_SECOND;
			registry_run();
			all_have(2, 2);
			clear();
		}
}

/* -------------------------------------------------------------- records that change --- */
/* promise: hartebeest_msg(3) */

static char spoilt[BEEST_KEY_MAX + 1];
static struct spoil {
	int at;				/* the request before which it happens */
	const char *which;		/* end of the key; "": a chunk */
	enum { EVICT, FORMER } way;
} spoil;

/* The record of the first run, which comes late. */
static struct {
	uint8_t bytes[65536];
	size_t size;
} former;

static bool is_chosen(const char *key)
{
	const size_t size = strlen(key), end = strlen(spoil.which);

	if (!strstr(key, "/fence/") || end > size)
		return false;

	return end ? strcmp(key + size - end, spoil.which) == 0 : strlen(strrchr(key, '/')) == 17;
}

static void choose_visit(const char *key, const void *value, size_t size, void *data)
{
	(void)value;
	(void)size;
	(void)data;
	if (is_chosen(key))
		strcpy(spoilt, key);
}

static bool spoil_find(void)
{
	spoilt[0] = '\0';
	fake_kv_visit(server, choose_visit, NULL);

	return spoilt[0];
}

static void spoil_now(void)
{
	if (!spoil_find())
		return;
	if (spoil.way == EVICT)
		fake_kv_evict(server, spoilt);
	else
		fake_kv_put(server, spoilt, former.bytes, former.size, 600);
}

static void spoil_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)kv;
	(void)request;
	if (spoil.at && --spoil.at == 0)
		spoil_now();
}

/* What the ranks of an incomplete run have stored, of which the first record counts. */
static void former_make(int size, const char *names)
{
	const void *value;
	int i;

	registry_stage.timeout = BEEST_SECOND;
	ranks_make(size, "");
	for (i = 0; i < size - 1; i++)
		ranks[i].names = names;
	registry_run();
	assert_true(spoil_find());
	value = fake_kv_get(server, spoilt, &former.size);
	assert_true(former.size <= sizeof(former.bytes));
	memcpy(former.bytes, value, former.size);
	registry_stage.timeout = LONG;
}

/* At each @step-th request of a run.  Ranks that stay look after their records. */
static void spoil_each(int size, const char *names, int step)
{
	int i, n;

	if (spoil.way == FORMER)
		former_make(size, names);
	for (n = 1; ; n += step) {
		clear();
		spoil.at = n;
		fake_kv.hook = spoil_hook;
		ranks_make(size, names);
		for (i = 0; i < size; i++)
			ranks[i].stays = true;
		registry_run();
		if (spoil.at)
			break;
		for (i = 0; i < size; i++)
			if (ranks[i].ret)
				print_error("way %d of %s at %d\n", spoil.way, spoil.which, n);
		all_have(size, (int)strlen(names));
	}
	assert_in_range(n, 3 * size, 1000 * size);
	clear();
}

static const struct {
	int size;
	const char *names;
	const char *which;
	int step;
	bool former;			/* also a late record of the dead */
} spoilers[] = {
	{ 4, "aab", "/a/lead", 1, false },
	{ 4, "aAb", "/a/1", 1, true },
	{ 4, "AAb", "/a/3", 1, false },
	{ 40, "aab", "/a/lead", 41, false },
	{ 40, "AAb", "/a/1", 41, true },
	{ 40, "AAb", "", 41, false },
};

/* A record that is lost at any time, or that a dead process has sent, which comes late. */
static void records_that_are_lost(void **state)
{
	size_t row;
	int way;

	(void)state;
	for (row = 0; row < BEEST_COUNT(spoilers); row++)
		for (way = EVICT; way <= (spoilers[row].former ? FORMER : EVICT); way++) {
			spoil.which = spoilers[row].which;
			spoil.way = way;
			spoil_each(spoilers[row].size, spoilers[row].names,
				   spoilers[row].step * unit_stride(3));
		}
}

/* ------------------------------------------------------------------- secrets --- */
/* promise: hartebeest_msg(3) */

#define UNREADABLE "1 of 3 ranks has not arrived: rank 2 (its record cannot be read: a record of " \
	"version 2; this library understands version 1 only); key hb1/job/fence/a/lead; "

/* A record that cannot be read: of another secret, or (its fourth byte) another version. */
static const struct {
	const char *which, *secret;
	bool version;
	int missing, ret;
	const char *what;
	const char *presence;		/* its key is not readable, either */
} strange[] = {
	{ "/a/2", "another secret of this job", false, 2, -EKEYREJECTED,
	  "1 of 3 ranks has not arrived: rank 2 (its record cannot be read); key "
	  "hb1/job/fence/a/lead; key hb1/job/fence/a/2 cannot be read: a record sealed with "
	  "another secret", NULL },
	{ "/a/lead", "another secret of this job", false, 0, -EKEYREJECTED,
	  "key hb1/job/fence/a/lead cannot be read: a record sealed with another secret", NULL },
	{ "/a/2", NULL, true, 2, -EPROTONOSUPPORT,
	  "1 of 3 ranks has not arrived: rank 2 (its record cannot be read); key "
	  "hb1/job/fence/a/lead; key hb1/job/fence/a/2 cannot be read: a record of version 2; ",
	  NULL },
	{ "/a/2", NULL, true, 2, -EPROTONOSUPPORT, UNREADABLE, "rank/2" },
	{ "/a/lead", NULL, true, 0, -EPROTONOSUPPORT,
	  "key hb1/job/fence/a/lead cannot be read: a record of version 2; ", NULL },
};

static void put_strange(void *data)
{
	const size_t row = (size_t)data;
	char key[64];

	snprintf(key, sizeof(key), "hb1/job/fence%s", strange[row].which);
	crew_pass(BEEST_SECOND);
	fake_kv_put(server, key, former.bytes, former.size, 0);
	snprintf(key, sizeof(key), "hb1/job/%s", strange[row].presence);
	if (strange[row].presence)
		fake_kv_put(server, key, former.bytes, former.size, 0);
}

/* It keeps nobody from passing, and is told where its rank is missing. */
static void records_that_cannot_be_read(void **state)
{
	size_t row;
	int alone;

	(void)state;
	for (row = 0; row < BEEST_COUNT(strange); row++) {
		spoil.which = strange[row].which;
		registry_stage.secret = strange[row].secret;
		former_make(4, "a");
		former.bytes[3] += strange[row].version;
		registry_stage.secret = strange[row].secret ? "the secret of this job" : NULL;
		for (alone = 0; alone < 2; alone++) {
			clear();
			registry_stage.timeout = alone ? 3 * BEEST_SECOND : LONG;
			ranks_make(3, "a");
			ranks[strange[row].missing].delay = 3 * BEEST_SECOND;
			if (alone)
				ranks[strange[row].missing].names = "";
			crew_start(put_strange, (void *)row);
			registry_run();
			if (alone)
				rank_has(&ranks[strange[row].missing ? 0 : 1], strange[row].ret,
					 strange[row].what);
			else
				all_have(3, 1);
			/* Of those who do not read its other record, too. */
			if (alone && strange[row].presence)
				rank_has(&ranks[1], -ETIMEDOUT, strange[row].what);
		}
		clear();
	}
	registry_stage.secret = NULL;
}

/* ------------------------------------------------------------- one reader of a host --- */
/* promise: hartebeest_msg(3) */

static struct {
	char root[SCRATCH_SIZE], folder[SCRATCH_SIZE + 32];
	size_t reads;			/* of chunks, from the server */
	void (*spoil)(int fd, size_t size);
} host;

/* Changes whatever is in the folder. */
static void host_spoil(void)
{
	DIR *list = opendir(host.folder);
	const struct dirent *entry;
	struct stat status;
	int fd;

	while (list && (entry = readdir(list))) {
		fd = openat(dirfd(list), entry->d_name, O_RDWR);
		if (entry->d_name[0] != '.' && fstat(fd, &status) == 0)
			host.spoil(fd, (size_t)status.st_size);
		if (fd >= 0)
			close(fd);
	}
	if (list)
		closedir(list);
}

static void host_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	(void)kv;
	for (i = 0; i < request->key_count; i++)
		host.reads += strstr(request->keys[i], "/fence/") &&
			      strlen(strrchr(request->keys[i], '/')) == 17;
	if (host.spoil)
		host_spoil();
}

static void each_byte_flipped(int fd, size_t size)
{
	uint8_t byte;
	size_t at;

	for (at = 0; at < size; at += 50)
		if (pread(fd, &byte, 1, (off_t)at) == 1) {
			byte ^= 0x41;
			if (pwrite(fd, &byte, 1, (off_t)at) != 1)
				fail();
		}
}

/* Only what follows the head of a file. */
static void contents_flipped(int fd, size_t size)
{
	uint8_t byte;

	if (size > 100 && pread(fd, &byte, 1, (off_t)size - 20) == 1) {
		byte ^= 0x41;
		if (pwrite(fd, &byte, 1, (off_t)size - 20) != 1)
			fail();
	}
}

static void all_cut(int fd, size_t size)
{
	if (ftruncate(fd, (off_t)size / 2) < 0)
		fail();
}

static void all_empty(int fd, size_t size)
{
	(void)size;
	if (ftruncate(fd, 0) < 0)
		fail();
}

/*
 * The ranks of a host, which are these, read a chunk from the server once.  If others spoil what
 * they give each other, or the job has a secret, all have the right values nevertheless.
 */
static void one_reader_of_a_host(void **state)
{
	static void (*const spoils[])(int fd, size_t size) = {
		NULL, each_byte_flipped, contents_flipped, all_cut, all_empty,
	};
	size_t i;

	(void)state;
	scratch_folder(host.root, "barrier");
	snprintf(host.folder, sizeof(host.folder), "%s/hartebeest-%u", host.root,
		 (unsigned int)geteuid());
	for (i = 0; i < 2 * BEEST_COUNT(spoils); i++) {
#ifndef HAVE_CRYPTO
		if (i % 2)
			continue;
#endif
		registry_stage.secret = i % 2 ? "a secret of this job" : NULL;
		beest_nodefiles_root = host.root;
		host.spoil = spoils[i / 2];
		host.reads = 0;
		fake_kv.hook = host_hook;
		ranks_make(100, "AaA");
		registry_run();
		all_have(100, 3);
		/* Three calls of four chunks, which the leader has.  Otherwise, 99 ranks read. */
		if (!host.spoil)
			assert_in_range(host.reads, 12, 24);
		else
			assert_in_range(host.reads, 24, 2 * 12 * 99);
		clear();
	}
	registry_stage.secret = NULL;
	assert_int_equal(rmdir(host.folder), 0);
	assert_int_equal(rmdir(host.root), 0);
}

/* A rank that polls does not wait for what a process of its host fetches, which is held up. */
static void a_poll_beside_a_reader(void **state)
{
	int at;

	(void)state;
	scratch_folder(host.root, "barrier");
	snprintf(host.folder, sizeof(host.folder), "%s/hartebeest-%u", host.root,
		 (unsigned int)geteuid());
	for (at = 0; at < 12 * 37; at++) {
		beest_nodefiles_root = host.root;
		ranks_make(40, "A");
		ranks[2].polls_by_itself = true;
		fake_kv.hold = hold_up;
		held = (struct hold){ &ranks[3 + at / 12], at % 12, .span = 100 * BEEST_MS };
		registry_run();
		all_have(40, 1);
		if (ranks[2].longest > 10 * FAKE_KV_LATENCY)
			fail_msg("%d: a poll took %d us", at, (int)(ranks[2].longest / BEEST_US));
		clear();
	}
	assert_int_equal(rmdir(host.folder), 0);
	assert_int_equal(rmdir(host.root), 0);
}

/* A rank of bench/crowd, which reads what others contribute and forgets it, or a usual one. */
struct reading {
	int rank;
	bool forgets;
	struct beest_fence fence;
	struct reader reader;
};

static int forget(void *data, struct beest_view *view)
{
	return reader_take(&((struct reading *)data)->reader, view);
}

static void reading_run(void *data)
{
	static const size_t none[1];
	struct reading *reading = data;
	struct beest_limit limit;
	char value[100];
	struct beest_fence_call call = {
		.registry = registry_make(reading->rank, 100), .ranks = registry_ranks(100),
		.rank = reading->rank, .name = "r", .title = "r", .value = value,
		.size = sizeof(value), .setup = { .what = BEEST_FENCE_GATHER, .form = 1 },
		.limit = registry_limit(0, &limit), .data = reading,
		.take = reading->forgets ? forget : NULL,
		.needs = { reading->forgets ? none : NULL, 0 },
	};

	memset(value, reading->rank, sizeof(value));
	reading->reader.call = &call;
	assert_int_equal(beest_fencecall_run(&reading->fence, &call), 0);
	reader_end(&reading->reader);
	beest_fence_end(&reading->fence);
}

/* bench/crowd asks for what ranks ask for, but with one request more to begin with. */
static void readers_of_the_bench(void **state)
{
	static struct reading readings[100];
	size_t reads[2];
	uint64_t keys[2];
	int forgets, i;

	(void)state;
	for (forgets = 0; forgets < 2; forgets++) {
		memset(readings, 0, sizeof(readings));
		memset(&host, 0, sizeof(host));
		fake_kv.hook = host_hook;
		for (i = 0; i < 100; i++) {
			readings[i].rank = i;
			readings[i].forgets = forgets;
			crew_start(reading_run, &readings[i]);
		}
		registry_run();
		reads[forgets] = host.reads;
		keys[forgets] = fake_kv.keys;
		registry_end();
		registry_start();
		server = fake_kv_server("a:1");
	}
	/* And a leader looks after what it has stored. */
	assert_in_range(reads[0], 99 * 4, 99 * 4 + 8);
	assert_in_range(reads[1], 99 * 4, 99 * 4 + 8);
	assert_in_range(keys[1], keys[0] * 9 / 10, keys[0] * 12 / 10);
}

/* --------------------------------------------------------- what a server refuses --- */
/* promise: hartebeest_msg(3) */

/* The record of the leader alone is refused.  It asks why, and does not store it without pause. */
static void a_server_without_memory(void **state)
{
	static const char *const names[] = { "b", "B", "a", "A" };
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(names); i++) {
		ranks_make(2, "a");
		registry_run();
		all_have(2, 1);
		server->bytes_max = server->bytes;
		server->refuses = true;
		fake_kv.hook = count_hook;
		ranks[0].names = names[i];
		crew_start(rank_run, &ranks[0]);
		registry_run();
		rank_has(&ranks[0], -ENOSPC, "server a:1 is out of memory (memcached -M ");
		assert_in_range(ranks[0].ended - ranks[0].came, 0, 10 * BEEST_SECOND);
		assert_in_range(ranks[0].keys[1], 1, 20000);
		clear();
	}
}

/* ------------------------------------------------------------ servers that fail --- */
/* promise: hartebeest_msg(3) */

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

#define BARRIER_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BARRIER_TEST(costs),
		BARRIER_TEST(how_many_compare_servers),
		BARRIER_TEST(a_pass_of_an_earlier_view),
		BARRIER_TEST(a_late_write_of_a_dead_leader),
		BARRIER_TEST(leftovers_are_not_proposed),
		BARRIER_TEST(nothing_grows),
		BARRIER_TEST(many_ranks_are_missing),
		BARRIER_TEST(one_is_held_up_until_the_end),
		BARRIER_TEST(a_call_that_is_given_up_goes_on),
		BARRIER_TEST(records_that_are_lost),
		BARRIER_TEST(one_reader_of_a_host),
		BARRIER_TEST(a_poll_beside_a_reader),
		BARRIER_TEST(readers_of_the_bench),
		BARRIER_TEST(records_that_cannot_be_read),
		BARRIER_TEST(a_server_without_memory),
		BARRIER_TEST(a_server_that_falls_silent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
