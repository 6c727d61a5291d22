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
#include "lib/rendezvous/entry.h"
#include "lib/rendezvous/message.h"
#include "tests/support/crew.h"
#include "tests/support/registry.h"
#include "tests/support/unit.h"

#define PASSES 5

#define BARRIERS 3
static const char *const barriers[BARRIERS] = { "a", "b", "c" };

struct rank {
	struct beest_registry *registry;
	struct beest_roll roll;
	struct beest_barrier *barrier[BARRIERS];	/* by the last letter of the name */
	int rank, size;
	const char *names;		/* of the passes, for example "aab"; in capitals: gathers */
	int64_t delay;			/* before the first pass */
	int64_t dies;			/* silently, at the first look from this instant on */
	bool stays;			/* after the passes, to look after its records */
	bool polls_by_itself;		/* one look in each call */

	int ret;			/* of the last pass */
	int passed;
	char error[1024];
	int64_t came, ended;
	/* In each pass: the looks that only poll, the parts of lists that were read, other keys. */
	uint64_t polls[PASSES + 1], parts[PASSES + 1], keys[PASSES + 1];
	int requests;
};

static struct rank ranks[REGISTRY_RANKS + 1];
static struct fake_kv_server *server;

/* -------------------------------------------------------- who has asked for what --- */

static struct {
	struct beest_kv *kv;
	uint64_t keys, parts;
	bool polls;
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
		rank->keys[rank->passed] += fake_kv.keys - last.keys - last.parts;
	if (rank)
		rank->parts[rank->passed] += last.parts;
	last.keys = fake_kv.keys;
	last.kv = NULL;
}

/* Is it a part of a list, of which there are several? */
static bool is_part(const char *key)
{
	return last.size > BEEST_TALLY_PART && strstr(key, "/barrier/") && !strstr(key, "/head");
}

/* A rank that polls writes nothing, and asks neither for parts nor for other ranks. */
static void count_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	count_last();
	last.kv = kv;
	last.polls = !request->write_count;
	for (i = last.parts = 0; i < request->key_count; i++) {
		last.parts += is_part(request->keys[i]);
		last.polls &= !is_part(request->keys[i]) && !strstr(request->keys[i], "/rank/");
	}
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
	const bool gathers = name < 'a';
	const int64_t deadline = rank->polls_by_itself ? HARTEBEEST_ONCE : 0;

	rank->came = crew_now();
	do {
		crew_pass(rank->ret ? 5 * BEEST_MS : 0);
		rank->ret = beest_barrier_wait(rank->registry, &rank->roll,
					       rank->barrier[name - (gathers ? 'A' : 'a')],
					       gathers, registry_ranks(rank->size), rank->rank,
					       REGISTRY_LIMIT(deadline));
	} while (rank->ret == -EAGAIN && crew_now() < rank->came + 30 * BEEST_SECOND);
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

static size_t items_with(const char *text)
{
	barrier_items = 0;
	fake_kv_visit(server, item_count, (void *)text);
	return barrier_items;
}

static void cost_check(const struct rank *rank, int pass, uint64_t keys, uint64_t parts)
{
	if (rank->keys[pass] > keys || rank->parts[pass] > parts || rank->polls[pass] > 12)
		print_error("%d ranks, rank %d, pass %d: %d keys, %d parts, %d looks in vain\n",
			    rank->size, rank->rank, pass + 1, (int)rank->keys[pass],
			    (int)rank->parts[pass], (int)rank->polls[pass]);
	assert_in_range(rank->keys[pass], 0, keys);
	assert_in_range(rank->parts[pass], 0, parts);
	assert_in_range(rank->polls[pass], 0, 12);
}

/*
 * The first pass includes the first publication (4 keys more, and 3 by which the process begins),
 * has two lists, and reads the starts in each look.  Looks that only poll are counted separately.
 * A list of more than 32 ranks is in parts here, of which each rank reads its own as a sample.
 */
static void many(int size)
{
	const size_t parts = ((size_t)size + BEEST_TALLY_PART - 1) / BEEST_TALLY_PART;
	const size_t list = parts + (parts > 1);
	size_t leases = SIZE_MAX;
	int i, pass;

	fake_kv_reset();
	fake_kv.hook = count_hook;
	memset(&last, 0, sizeof(last));
	last.size = size;
	ranks_make(size, "aaaab");
	registry_run();
	all_have(size, PASSES);
	for (i = 0; i < size; i++)
		for (pass = 0; pass < PASSES; pass++)
			cost_check(&ranks[i], pass, (pass ? 5 : 16) + (parts == 1 ? 0 : pass ?
				   6 : 15), parts == 1 ? 0 : pass ? 3 : parts + 5);
	fake_kv.hook = NULL;
	for (i = 0; i < size; i++)
		leases = BEEST_MIN(leases, beest_lease_count(ranks[i].registry->leases, false));
	/* Of the passes of a barrier, the last two are left. */
	assert_int_equal(leases, 6);
	assert_int_equal(items_with("/a/"), 2 * list);
	assert_int_equal(items_with("/b/"), list);
	assert_int_equal(items_with("/-/"), 2 * list);
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

/* While ranks come slowly, those that wait soon read little besides the head. */
static void a_slow_start(void **state)
{
	int i;

	(void)state;
	come_in_turn(64, 100 * BEEST_MS);
	for (i = 0; i < 64; i++)
		assert_in_range(ranks[i].parts[0], 3, 100);
}

static bool held;

static void pass_and_leave(void *data)
{
	struct rank *rank = data;

	rank_pass(rank, 'a');
	crew_pass(rank->delay);
	rank_pass(rank, 'a');
	rank_free(rank, false);
}

/* Holds up a rank that has read the list and asks whether rank 19 still lives. */
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

/* Meanwhile rank 19 came, so that all passed, and left like all others. */
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
			       "not arrived: rank 2 (not there; it began as rank 2 on "));
	assert_non_null(strstr(ranks[0].error, ", which last waited for barrier 'c'); key "
			       "hb1/job/barrier/"));
	assert_non_null(strstr(ranks[0].error, "/b/1/0; server a:1 answers"));
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
	assert_non_null(strstr(ranks[0].error, ": rank 1 (never seen), rank 2 (not there; it began "
			       "as rank 2 on "));
	assert_non_null(strstr(ranks[0].error, ", which last waited for message 'm'); key "
			       "hb1/job/barrier/-/-/0; server a:1 answers; HARTEBEEST_JOB "));
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

/* True: it has passed at the end of its limit. */
static bool passed_at_last(const struct rank *rank)
{
	const char *error = rank->error;

	if (rank->ret == 0)
		return rank->ended - rank->came >= 2800 * BEEST_MS;
	if (!strstr(error, ": after 3 s: 1 of 3 ranks has not arrived: rank 2 (last seen as "))
		fail_msg("rank %d, pass %d: %s", rank->rank, stuck.passed + 1, error);

	return false;
}

/*
 * The last rank appends its entry just before the limit of others, and is held up after that.
 * Those who see the entry pass; in a roll call, they name the rank that has yet to answer.
 */
static void the_last_one_is_held_up(void **state)
{
	int at_last[2] = { 0, 0 }, named = 0;
	size_t i;

	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	for (stuck.passed = 0; stuck.passed < 2; stuck.passed++)
		for (stuck.at = 1; stuck.at <= 6; stuck.at++)
			for (stuck.late = 2800 * BEEST_MS; stuck.late < 3 * BEEST_SECOND;
			     stuck.late += 10 * BEEST_MS) {
				fake_kv_reset();
				ranks_make(3, stuck.passed ? "aa" : "a");
				stuck.requests = 0;
				fake_kv.hold = hold_rank_2;
				registry_run();
				for (i = 0; i < 2; i++) {
					at_last[stuck.passed] += passed_at_last(&ranks[i]);
					named += strstr(ranks[i].error, ", which has not answered "
							"since); key ") != NULL;
				}
				ranks_free(true);
			}
	assert_true(at_last[0] > 0);
	assert_true(at_last[1] > 0);
	assert_true(named > 0);
}

/* ---------------------------------------------------------------- damaged lists --- */

#define FIRST_LIST "hb1/job/barrier/-/-/0"

static uint8_t list[65536];
static size_t list_size;

static void list_take(const char *key)
{
	const void *value = fake_kv_get(server, key, &list_size);

	assert_non_null(value);
	assert_true(list_size <= sizeof(list));
	memcpy(list, value, list_size);
}

/* Has the first rank of a list with @size ranks leave an entry there, and end. */
static void leave_an_entry(int size)
{
	registry_stage.timeout = BEEST_SECOND;
	ranks_make(size, "");
	ranks[0].names = "a";
	registry_run();
	assert_int_equal(ranks[0].ret, -ETIMEDOUT);
	list_take(FIRST_LIST);
	ranks_free(true);
	fake_kv_reset();
	registry_stage.timeout = 10 * BEEST_SECOND;
}

/* All but the last rank have come when @change is called.  They pass soon after the last. */
static void changed_meanwhile(int size, void (*change)(void *))
{
	int i;

	ranks_make(size, "aab");
	ranks[size - 1].delay = 3 * BEEST_SECOND;
	crew_start(change, server);
	registry_run();
	all_have(size, 3);
	for (i = 0; i < size; i++)
		assert_in_range(ranks[i].ended - ranks[size - 1].came, 0, 2 * BEEST_SECOND);
	ranks_free(true);
	fake_kv_reset();
}

static void each_size(void (*test)(int size))
{
	static const int sizes[] = { 2, 32, 33, 40, 70 };
	size_t i;

	for (i = 0; i < BEEST_COUNT(sizes); i++)
		test(sizes[i]);
}

static void append_again(void *data)
{
	static uint8_t longer[2 * sizeof(list)];
	const void *value;
	size_t size;

	crew_pass(BEEST_SECOND);
	value = fake_kv_get(data, FIRST_LIST, &size);
	assert_non_null(value);
	memcpy(longer, value, size);
	memcpy(longer + size, list, list_size);
	fake_kv_put(data, FIRST_LIST, longer, size + list_size, 0);
}

static void append_late(int size)
{
	leave_an_entry(size);
	changed_meanwhile(size, append_again);
}

/* What a killed process has sent arrives behind the entry of its heir, which says its own again. */
static void a_late_entry_of_the_dead(void **state)
{
	(void)state;
	each_size(append_late);
}

/* One byte in each 40: no entry is left. */
static void damage(void *data)
{
	size_t i;

	crew_pass(BEEST_SECOND);
	list_take(FIRST_LIST);
	for (i = 20; i < list_size; i += 40)
		list[i] ^= 0x10;
	fake_kv_put(data, FIRST_LIST, list, list_size, 0);
}

static void cut(void *data)
{
	crew_pass(BEEST_SECOND);
	list_take(FIRST_LIST);
	fake_kv_put(data, FIRST_LIST, list, list_size / 3, 0);
}

static void damage_list(int size)
{
	changed_meanwhile(size, damage);
	changed_meanwhile(size, cut);
}

static void damaged_entries(void **state)
{
	(void)state;
	each_size(damage_list);
}

static char evicted[BEEST_KEY_MAX + 1];
static int evict_at, evict_number;

static void number_visit(const char *key, const void *value, size_t size, void *data)
{
	int *left = data;

	(void)value;
	(void)size;
	if (strstr(key, "/barrier/") && (*left)-- == 0)
		strcpy(evicted, key);
}

static void evict_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	int left = evict_number;

	(void)kv;
	(void)request;
	if (!evict_at || --evict_at)
		return;
	evicted[0] = '\0';
	fake_kv_visit(server, number_visit, &left);
	if (evicted[0])
		fake_kv_evict(server, evicted);
}

/* Evicts the list of that @number at each @step-th request. */
static void evict_each(int size, int number, int step)
{
	int i, n;

	for (n = 1; ; n += step) {
		fake_kv_reset();
		evict_at = n;
		evict_number = number;
		fake_kv.hook = evict_hook;
		ranks_make(size, "aab");
		for (i = 0; i < size; i++)
			ranks[i].stays = true;
		registry_run();
		if (evict_at)
			break;
		all_have(size, 3);
		ranks_free(true);
	}
	fake_kv.hook = NULL;
	assert_in_range(n, 3 * size, 1000 * size);
	ranks_free(true);
}

/* Heads, parts of roll calls and of passes. */
static void evicted_lists(void **state)
{
	int number;

	(void)state;
	for (number = 0; number < 3; number++)
		evict_each(4, number, 1);
	for (number = 0; number < 7; number += unit_stride(5))
		evict_each(40, number, 41);
}

/* The entry of rank 7 is the last of its part.  It dies before it can name the part. */
static void complete_and_die(void *data)
{
	struct rank *rank = data;
	const char *name;

	for (name = rank->names; name[1]; name++)
		rank_pass(rank, *name);
	crew_pass(BEEST_SECOND);
	rank->dies = crew_now() + 1;
	rank_pass(rank, *name);
	assert_int_equal(rank->ret, -EINTR);
	crew_pass(rank->delay);
	rank_free(rank, true);
	if (rank->delay)
		rank_run(rank_make(7, 7, rank->size, name));
}

static void a_part_that_is_not_named(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 40; i++)
		crew_start(i == 7 ? complete_and_die : rank_run, rank_make(i, i, 40, "aa"));
	registry_run();
	for (i = 0; i < 40; i++) {
		assert_int_equal(ranks[i].passed, i == 7 ? 1 : 2);
		assert_in_range(ranks[i].ended - ranks[i].came, 0, 2 * BEEST_SECOND);
	}
}

/* The same in the roll call: all pass with the heir. */
static void a_part_of_the_roll_call_that_is_not_named(void **state)
{
	int i, which;

	(void)state;
	for (which = 0; which < 3; which++) {
		fake_kv_reset();
		for (i = 0; i < 40; i++)
			crew_start(i == 7 ? complete_and_die : rank_run,
				   rank_make(i, i, 40, "a"));
		ranks[7].delay = (which == 0 ? 1 : which == 1 ? 60 : 3000) * BEEST_MS;
		registry_run();
		all_have(40, 1);
		ranks_free(true);
	}
}

/* ------------------------------------------------------------------- secrets --- */

static void sealed(int size)
{
	registry_stage.secret = "the secret of this job";
	nobody_passes_before_the_last_one(size, "aab");
	ranks_free(true);
	fake_kv_reset();
}

static void sealed_entries(void **state)
{
	(void)state;
	each_size(sealed);
}

/* An entry of another secret keeps nobody from passing, and is named where a rank is missing. */
static void an_entry_of_another_secret(void **state)
{
	int i;

	(void)state;
	registry_stage.secret = "another secret of this job";
	leave_an_entry(3);
	registry_stage.secret = "the secret of this job";
	changed_meanwhile(3, append_again);
	registry_stage.timeout = 3 * BEEST_SECOND;
	ranks_make(3, "a");
	ranks[2].names = "";
	crew_start(append_again, server);
	registry_run();
	for (i = 0; i < 2; i++) {
		assert_int_equal(ranks[i].ret, -EKEYREJECTED);
		assert_non_null(strstr(ranks[i].error, "1 of 3 ranks has not arrived: rank 2 "
				       "(never seen); key " FIRST_LIST "; the list has an entry "
				       "that cannot be read: a record sealed with another "
				       "secret"));
	}
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
	for (hold_at = 0; hold_at <= requests_of_last; hold_at += unit_stride(5)) {
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

/* A rank that has not seen that all know the roll when the next processes come still passes. */
static void scripts(void **state)
{
	(void)state;
	scripts_held_up(3, 60 * BEEST_MS);
	scripts_held_up(3, BEEST_SECOND);
	scripts_held_up(3, 5 * BEEST_SECOND);
	scripts_held_up(40, 100 * BEEST_MS);
	scripts_held_up(40, 5 * BEEST_SECOND);
}

static int dies_at, polling;

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
	ranks[0].polls_by_itself = polling & 1;
	ranks[1].polls_by_itself = polling & 2;
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
		for (dies_at = 0, passed = false; !passed; dies_at += unit_stride(5)) {
			heir_delay = delays[i];
			fake_kv_reset();
			passed = killed_once();
		}
	assert_in_range(dies_at - unit_stride(5), 2, 58 + unit_stride(5));
}

/* The same, with ranks that look once in each call. */
static void killed_at_any_time_polling(void **state)
{
	static const int64_t delays[] = { BEEST_MS, 55 * BEEST_MS, 300 * BEEST_MS };
	bool passed;
	size_t i;

	(void)state;
	for (polling = 1; polling < 4; polling++)
		for (i = 0; i < sizeof(delays) / sizeof(*delays); i++)
			for (dies_at = 0, passed = false; !passed; dies_at += unit_stride(5)) {
				heir_delay = delays[i];
				fake_kv_reset();
				passed = killed_once();
			}
	polling = 0;
}

/* Rank 2 has appended its entry, and is killed while it waits for the others. */
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

/* One entry names both to everybody. */
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

/* Where a newcomer is refused, a rank still passes that has not seen that all have come. */
static void a_refusal_before_all_have_passed(void **state)
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
		for (dies_at = 0; dies_at < 12; dies_at += unit_stride(5)) {
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

/* The same, but rank 0 is held up too, and sees that all know when about to refuse the heir. */
static void killed_while_two_are_held_up(void **state)
{
	(void)state;
	killed_while(both_hold);
}

/* Rank 2 dies as soon as it has said that it knows the roll; rank 1 gives that up slowly. */
static void give_up_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	struct rank *rank = rank_of(kv);
	size_t i;

	for (i = 0; i < request->write_count && rank; i++) {
		if (!strstr(request->writes[i].key, "/-/0/0") ||
		    request->writes[i].verb != BEEST_KV_APPEND)
			continue;
		rank->requests++;
		if (rank == &ranks[2])
			rank->dies = crew_now();
		if (rank == &ranks[1] && rank->requests == 2)
			crew_pass(6 * BEEST_SECOND);
	}
}

static int64_t first_hold(const struct beest_kv *kv)
{
	return rank_of(kv) == &ranks[0] && late_requests++ == hold_at ? 3 * BEEST_SECOND : 0;
}

/*
 * Before rank 1 gives the roll up, since it has learned of the heir, rank 0 says that it knows that
 * roll: by the order of their entries, both pass without the heir.
 */
static void a_roll_given_up_too_late(void **state)
{
	int too_late = 0;

	(void)state;
	heir_delay = 0;
	for (hold_at = 0; hold_at < 4; hold_at++) {
		fake_kv_reset();
		fake_kv.hook = give_up_hook;
		fake_kv.hold = first_hold;
		late_requests = 0;
		ranks_make(3, "aa");
		crew_start(heir_run, NULL);
		registry_run();
		assert_int_equal(ranks[0].passed, ranks[1].passed);
		too_late += ranks[1].requests > 1 && ranks[0].passed == 1;
		ranks_free(true);
	}
	assert_true(too_late > 0);
	fake_kv.hook = NULL;
	fake_kv.hold = NULL;
}

static void leave(void *data)
{
	crew_pass(BEEST_SECOND / 3);
	rank_free(data, false);
}

/*
 * The third rank ends while two wait for it, of which one looks once in each call: both fail at
 * once, with the reason.
 */
static void third_ends(void (*end)(void *), int errno_wanted, const char *who, const char *why)
{
	int i;

	ranks_make(3, "a");
	registry_run();
	for (i = 0; i < 2; i++) {
		ranks[i].names = "a";
		ranks[i].polls_by_itself = i == 1;
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
	beest_registry_present(rank->registry);
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

/* Barriers on the other servers work. */
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
		ranks_free(true);
	}
	assert_int_equal(failed, 1);		/* the server of the lists */
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

static void gives_up_and_comes_to_another(void *data)
{
	struct rank *rank = data;

	rank_pass(rank, 'a');
	assert_int_equal(rank->ret, -ETIMEDOUT);
	rank_pass(rank, 'b');
	rank_pass(rank, 'a');
}

/* The other rank, which comes to "a" then, must not wait for one that has come to it before. */
static void another_barrier_continues_the_roll_call(void **state)
{
	(void)state;
	registry_stage.timeout = 2 * BEEST_SECOND;
	crew_start(gives_up_and_comes_to_another, rank_make(0, 0, 2, ""));
	crew_start(rank_run, rank_make(1, 1, 2, "ab"));
	ranks[1].delay = 3 * BEEST_SECOND;
	registry_run();
	all_have(2, 2);
}

/* ---------------------------------------------------------- two functions with one name --- */

#define LONG (10 * BEEST_SECOND)

/* Of @size ranks, those from number @first to @last call what @others are, the rest @names. */
static const struct {
	int size, first, last;
	const char *names, *others;
	int64_t delay;			/* of the others */
	int64_t timeout;
	int says;			/* a rank, which says: */
	const char *what;
} mixed[] = {
	{ 2, 1, 1, "a", "A", 0, LONG, 0, "barrier 'a', pass 1: rank 1 calls hartebeest_gather() "
	  "with this name, but rank 0, this one, calls hartebeest_barrier()" },
	{ 2, 1, 1, "a", "A", 0, LONG, 1, "gather 'a', pass 1: rank 0 calls hartebeest_barrier() "
	  "with this name, but rank 1, this one, calls hartebeest_gather()" },
	{ 2, 1, 1, "A", "a", 5 * BEEST_SECOND, LONG, 0, "gather 'a', pass 1: rank 1 calls " },
	{ 2, 0, 0, "aaAa", "aaaA", 0, LONG, 0, "barrier 'a', pass 3: rank 1 calls " },
	{ 2, 1, 1, "bA", "ba", 0, LONG, 1, "barrier 'a', pass 1: rank 0 calls " },
	{ 5, 3, 3, "Ab", "ab", BEEST_SECOND, LONG, 4, "gather 'a', pass 1: rank 3 calls " },
	{ 70, 40, 40, "A", "a", 0, LONG, 69, "gather 'a', pass 1: rank 40 calls " },
	{ 70, 32, 63, "a", "A", 0, LONG, 0, "barrier 'a', pass 1: rank 32 calls " },
	{ 70, 64, 69, "bba", "bbA", 2 * BEEST_SECOND, LONG, 64, "gather 'a', pass 1: rank 0 " },
	/* These have no time to become suspicious. */
	{ 70, 32, 63, "a", "A", 0, 40 * BEEST_MS, 0, "barrier 'a', pass 1: rank 32 calls " },
};

static void call_and_leave(void *data)
{
	rank_run(data);
	rank_free(data, false);
}

/* All fail long before the deadline, and name both calls, even where a part is of one mind. */
static void other_calls(void **state)
{
	const char *error;
	size_t row;
	int i;

	(void)state;
	for (row = 0; row < BEEST_COUNT(mixed); row++) {
		registry_stage.timeout = mixed[row].timeout;
		for (i = 0; i < mixed[row].size; i++)
			crew_start(call_and_leave, rank_make(i, i, mixed[row].size,
							     mixed[row].names));
		for (i = mixed[row].first; i <= mixed[row].last; i++) {
			ranks[i].names = mixed[row].others;
			ranks[i].delay = mixed[row].delay;
		}
		registry_run();
		for (i = 0; i < mixed[row].size; i++) {
			if (ranks[i].ret != -EPROTO)
				print_error("row %zu, rank %d: %s\n", row, i, ranks[i].error);
			assert_int_equal(ranks[i].ret, -EPROTO);
			assert_in_range(ranks[i].ended - ranks[i].came, 0, 8 * BEEST_SECOND);
		}
		error = ranks[mixed[row].says].error;
		if (strncmp(error, mixed[row].what, strlen(mixed[row].what)) != 0)
			fail_msg("row %zu: %s", row, error);
	}
}

/* The list of that pass when only the entry was there that its author corrects. */
static struct {
	char key[BEEST_KEY_MAX + 1];
	uint8_t bytes[200];
	size_t size;
	int requests;			/* of rank 0, until the server loses the rest */
} wrong;

static void wrong_save(const char *key, const void *value, size_t size, void *data)
{
	(void)data;
	if (!strstr(key, "/a/1/0"))
		return;
	assert_in_range(size, 1, sizeof(wrong.bytes));
	snprintf(wrong.key, sizeof(wrong.key), "%s", key);
	memcpy(wrong.bytes, value, size);
	wrong.size = size;
}

static void wrong_restore(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)request;
	if (wrong.size && rank_of(kv) == &ranks[0] && --wrong.requests == 0)
		fake_kv_put(server, wrong.key, wrong.bytes, wrong.size, 600);
}

static void correct_itself(void *data)
{
	struct rank *rank = data;

	rank_pass(rank, 'b');
	if (rank->rank) {
		crew_pass(5 * BEEST_SECOND);
	} else {
		registry_stage.timeout = BEEST_SECOND;
		rank_pass(rank, 'a');
		assert_int_equal(rank->ret, -ETIMEDOUT);
		registry_stage.timeout = LONG;
		fake_kv_visit(server, wrong_save, NULL);
		fake_kv.hook = wrong_restore;
	}
	rank_pass(rank, 'A');
}

/* The next call continues the same pass, as the right function, whatever its server loses. */
static void a_call_that_is_corrected(void **state)
{
	int i, at;

	(void)state;
	for (at = 1; at < 5; at++) {
		wrong.requests = at;
		for (i = 0; i < 2; i++)
			crew_start(correct_itself, rank_make(i, i, 2, ""));
		registry_run();
		all_have(2, 2);
		assert_true(wrong.size && wrong.requests < 1);
		fake_kv.hook = NULL;
		ranks_free(false);
	}
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
					       false, registry_ranks(2), rank->rank,
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
		cmocka_unit_test_setup_teardown(a_slow_start, setup, teardown),
		cmocka_unit_test_setup_teardown(a_rank_that_left_has_passed, setup, teardown),
		cmocka_unit_test_setup_teardown(leftovers_of_a_complete_run, setup, teardown),
		cmocka_unit_test_setup_teardown(leftovers_of_an_incomplete_run, setup, teardown),
		cmocka_unit_test_setup_teardown(leftovers_have_other_settings, setup, teardown),
		cmocka_unit_test_setup_teardown(one_stays_away, setup, teardown),
		cmocka_unit_test_setup_teardown(one_waits_for_a_message, setup, teardown),
		cmocka_unit_test_setup_teardown(one_that_may_have_been_here, setup, teardown),
		cmocka_unit_test_setup_teardown(leftovers_are_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(the_last_one_is_held_up, setup, teardown),
		cmocka_unit_test_setup_teardown(a_late_entry_of_the_dead, setup, teardown),
		cmocka_unit_test_setup_teardown(damaged_entries, setup, teardown),
		cmocka_unit_test_setup_teardown(evicted_lists, setup, teardown),
		cmocka_unit_test_setup_teardown(a_part_that_is_not_named, setup, teardown),
		cmocka_unit_test_setup_teardown(a_part_of_the_roll_call_that_is_not_named, setup,
						teardown),
		cmocka_unit_test_setup_teardown(sealed_entries, setup, teardown),
		cmocka_unit_test_setup_teardown(an_entry_of_another_secret, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_before_the_roll_call_is_complete, setup,
						teardown),
		cmocka_unit_test_setup_teardown(scripts, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_at_any_time, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_at_any_time_polling, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_at_the_barrier, setup, teardown),
		cmocka_unit_test_setup_teardown(restarted_after_it, setup, teardown),
		cmocka_unit_test_setup_teardown(single_looks_remember, setup, teardown),
		cmocka_unit_test_setup_teardown(restarted_later, setup, teardown),
		cmocka_unit_test_setup_teardown(two_restarted, setup, teardown),
		cmocka_unit_test_setup_teardown(a_refusal_before_all_have_passed, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_while_one_is_held_up, setup, teardown),
		cmocka_unit_test_setup_teardown(killed_while_two_are_held_up, setup, teardown),
		cmocka_unit_test_setup_teardown(a_roll_given_up_too_late, setup, teardown),
		cmocka_unit_test_setup_teardown(left, setup, teardown),
		cmocka_unit_test_setup_teardown(failed, setup, teardown),
		cmocka_unit_test_setup_teardown(restarted_server, setup, teardown),
		cmocka_unit_test_setup_teardown(whatever_fails_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_server_that_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(a_server_that_falls_silent, setup, teardown),
		cmocka_unit_test_setup_teardown(one_of_several_is_away, setup, teardown),
		cmocka_unit_test_setup_teardown(other_names, setup, teardown),
		cmocka_unit_test_setup_teardown(two_in_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(another_barrier_continues_the_roll_call, setup,
						teardown),
		cmocka_unit_test_setup_teardown(other_calls, setup, teardown),
		cmocka_unit_test_setup_teardown(a_call_that_is_corrected, setup, teardown),
		cmocka_unit_test_setup_teardown(two_threads, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
