/* SPDX-License-Identifier: MIT */
/*
 * cost.c - round trips, keys, verbs calls, items and bytes of each call, counted exactly
 *
 * No clock is read: fake servers and peers answer at once.  The same steps then go to a real
 * memcached, whose own counters must agree (tests/exchange/count).  Let no row of the budget
 * grow by accident.
 */
#include "config.h"

#include "tests/support/make.h"
#include "tests/support/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "hartebeest-post.h"
#include "lib/base/clock.h"
#include "lib/core/context.h"
#include "tests/support/crew.h"
#include "tests/support/party.h"
#include "tests/support/registry.h"

static struct hartebeest_context *one, *two;

static int setup(void **state)
{
	(void)state;
	party_start();
	one = party_open(0, 0, 2, NULL)->hb;
	two = party_open(1, 1, 2, NULL)->hb;
	party_pair(&party[0], 1, IBV_QPT_RC);
	party_pair(&party[1], 0, IBV_QPT_RC);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	crew_clear();
	party_end();
	return fake_verbs.open;
}

/* Checks what was spent since the last check. */
static void spent(const char *what, uint64_t trips, uint64_t commands, uint64_t keys)
{
	if (fake_kv.round_trips != trips || fake_kv.commands != commands || fake_kv.keys != keys)
		print_error("%s: %d trips, %d commands, %d keys\n", what, (int)fake_kv.round_trips,
			    (int)fake_kv.commands, (int)fake_kv.keys);
	assert_int_equal(fake_kv.round_trips, trips);
	assert_int_equal(fake_kv.commands, commands);
	assert_int_equal(fake_kv.keys, keys);
	fake_kv_count_again();
}

/* --------------------------------------------------------------------- single steps --- */

/*
 * Presence, record, start (twice) and epoch are written; epoch, record and presence are read back.
 */
static void first_publication(void **state)
{
	(void)state;
	assert_int_equal(hartebeest_mr_publish(one, "mr0", "a", 0), 0);
	spent("the first", 1, 6, 8);
	assert_int_equal(hartebeest_mr_publish(two, "mr0", "b", 0), 0);
	spent("another process's", 1, 6, 8);
	assert_int_equal(hartebeest_mr_publish(one, "mr1", "c", 0), 0);
	spent("mr_publish", 1, 2, 3);
	assert_int_equal(hartebeest_qp_publish(one, "q0-1", "0/1", 0), 0);
	spent("qp_publish", 1, 2, 3);
	assert_int_equal(hartebeest_qp_publish(one, "q0-1", "0/1", 0), 0);
	spent("again", 1, 2, 3);
}

/* With a connection open, only the message is written. */
static void messages(void **state)
{
	char text[8];
	size_t length;

	(void)state;
	assert_int_equal(hartebeest_mr_publish(one, "mr0", "a", 0), 0);
	fake_kv_count_again();
	assert_int_equal(hartebeest_msg_push(one, "m", "text", 4, 0), 0);
	spent("the first", 1, 1, 1);
	assert_int_equal(hartebeest_msg_push(one, "n", "text", 4, 0), 0);
	spent("msg_push", 1, 1, 1);
	assert_int_equal(hartebeest_msg_wait(one, "m", text, sizeof(text), &length, 0), 0);
	spent("the first msg_wait, and is this rank alone?", 1, 1, 3);
	assert_int_equal(hartebeest_msg_wait(one, "m", text, sizeof(text), &length, 0), 0);
	spent("msg_wait", 1, 1, 2);
	assert_int_equal(hartebeest_msg_delete(one, "m", 0), 0);
	spent("msg_delete", 1, 1, 1);
	assert_int_equal(hartebeest_msg_delete(two, "n", 0), 0);
	spent("the first msg_delete, by another process", 2, 3, 4);
	assert_int_equal(hartebeest_msg_push(one, "n", "text", 4, 0), 0);
	assert_int_equal(hartebeest_msg_delete(two, "n", 0), 0);
	spent("msg_delete by another process", 3, 3, 4);
}

/* The read of one is its look, and then the tombstone. */
static void messages_for_one_reader(void **state)
{
	struct hartebeest_msg_attr once;
	char text[8];
	size_t length;
	int i;

	(void)state;
	hartebeest_msg_attr_init(&once);
	once.flags = HARTEBEEST_MSG_ONCE;
	assert_int_equal(hartebeest_msg_push(one, "first", "text", 4, 0), 0);
	assert_int_equal(hartebeest_msg_wait(one, "first", text, sizeof(text), &length, 0), 0);
	for (i = 0; i < 2; i++) {
		fake_kv_count_again();
		assert_int_equal(hartebeest_msg_push_attr(one, "m", "text", 4, &once, 0), 0);
		if (i == 0)
			spent("msg_push_attr", 1, 1, 1);
		else
			spent("and a tombstone is there, which is read and replaced", 3, 3, 4);
		assert_int_equal(hartebeest_msg_wait(one, "m", text, sizeof(text), &length, 0), 0);
		spent("msg_wait", 2, 2, 3);
	}
}

static void fetching(void **state)
{
	struct hartebeest_remote_mr region;
	struct hartebeest_remote_qp remote;

	(void)state;
	assert_int_equal(hartebeest_mr_publish(one, "mr0", "a", 0), 0);
	assert_int_equal(hartebeest_qp_publish(two, "q1-0", "1/0", 0), 0);
	assert_int_equal(hartebeest_mr_publish(two, "mr0", "b", 0), 0);
	fake_kv_count_again();
	assert_int_equal(hartebeest_qp_fetch(one, "1/0", &remote, 0), 0);
	spent("qp_fetch, and is this rank alone?", 1, 1, 3);
	assert_int_equal(hartebeest_qp_fetch(one, "1/0", &remote, 0), 0);
	spent("qp_fetch", 1, 1, 2);
	assert_int_equal(hartebeest_mr_fetch(one, "b", &region, 0), 0);
	spent("mr_fetch, and is its author alive?", 2, 2, 4);
	assert_int_equal(hartebeest_mr_fetch(one, "b", &region, 0), 0);
	spent("within a second", 1, 1, 2);
	registry_stage.now += 2 * BEEST_SECOND;
	assert_int_equal(hartebeest_mr_fetch(one, "b", &region, 0), 0);
	spent("later", 2, 2, 4);
}

/* From two published queue pairs to two confirmed ones. */
static void connecting(void **state)
{
	struct hartebeest_remote_mr region;

	(void)state;
	assert_int_equal(hartebeest_qp_publish(one, "q0-1", "0/1", 0), 0);
	assert_int_equal(hartebeest_qp_publish(two, "q1-0", "1/0", 0), 0);
	assert_int_equal(hartebeest_qp_fetch(one, "1/0", NULL, 0), 0);
	assert_int_equal(hartebeest_qp_fetch(two, "0/1", NULL, 0), 0);
	fake_kv_count_again();
	assert_int_equal(hartebeest_qp_connect(one, "q0-1", "1/0", 0), 0);
	spent("qp_connect", 0, 1, 1);
	assert_int_equal(hartebeest_qp_connect(two, "q1-0", "0/1", 0), 0);
	spent("its peer's", 0, 1, 1);
	assert_int_equal(hartebeest_qp_confirm(one, "q0-1", "1/0", 0), 0);
	spent("qp_confirm", 1, 1, 3);
	assert_int_equal(hartebeest_qp_confirm(two, "q1-0", "0/1", 0), 0);
	spent("its peer's", 1, 1, 3);
	assert_int_equal(hartebeest_qp_confirm(two, "q1-0", "0/1", 0), 0);
	spent("again", 1, 1, 2);
	assert_int_equal(hartebeest_qp_follow(two, "q1-0", "0/1", NULL, HARTEBEEST_ONCE), 0);
	spent("qp_follow", 1, 1, 2);
	assert_int_equal(hartebeest_mr_publish(one, "mr0", "a", 0), 0);
	fake_kv_count_again();
	assert_int_equal(hartebeest_mr_fetch(two, "a", &region, 0), 0);
	spent("mr_fetch from a peer that has confirmed", 1, 1, 2);
}

/* On a connection that was idle for a while, connect also waits for the answer, once. */
static void connecting_late(void **state)
{
	(void)state;
	assert_int_equal(hartebeest_qp_publish(one, "q0-1", "0/1", 0), 0);
	assert_int_equal(hartebeest_qp_publish(two, "q1-0", "1/0", 0), 0);
	assert_int_equal(hartebeest_qp_fetch(one, "1/0", NULL, 0), 0);
	registry_stage.now += 150 * BEEST_MS;
	fake_kv_count_again();
	assert_int_equal(hartebeest_qp_connect(one, "q0-1", "1/0", 0), 0);
	spent("qp_connect", 1, 2, 3);
}

/*
 * Contexts of the original's interface.  Over a good connection, records are only sent; the next
 * look reads them back, and brings what connecting has changed.
 */
static void by_the_original(void **state)
{
	(void)state;
	one->unconfirmed = true;
	assert_int_equal(hartebeest_qp_publish(two, "q1-0", "1/0", 0), 0);
	fake_kv_count_again();
	assert_int_equal(hartebeest_mr_publish(one, "mr0", "a", 0), 0);
	spent("the first", 1, 6, 7);
	assert_int_equal(hartebeest_mr_publish(one, "mr1", "c", 0), 0);
	spent("mr_publish", 0, 1, 1);
	assert_int_equal(hartebeest_qp_publish(one, "q0-1", "0/1", 0), 0);
	spent("qp_publish", 0, 1, 1);
	assert_int_equal(hartebeest_qp_fetch(one, "1/0", NULL, 0), 0);
	spent("qp_fetch, reads back, is this rank alone, and its author alive?", 2, 2, 8);
	assert_int_equal(hartebeest_qp_fetch(one, "1/0", NULL, 0), 0);
	spent("again", 1, 1, 2);
	assert_int_equal(hartebeest_qp_connect(one, "q0-1", "1/0", 0), 0);
	spent("qp_connect", 0, 0, 0);
	assert_int_equal(hartebeest_msg_push(one, "m", NULL, 0, 0), 0);
	spent("msg_push, and the record that says so", 2, 3, 4);
	assert_int_equal(hartebeest_qp_fetch(two, "0/1", NULL, 0), 0);
	assert_int_equal(hartebeest_qp_connect(two, "q1-0", "0/1", 0), 0);
	assert_int_equal(hartebeest_qp_confirm(two, "q1-0", "0/1", 0), 0);
}

/* What was sent over a connection that had just broken is stored by the next looks. */
static void sent_and_lost(void **state)
{
	struct hartebeest_remote_mr region;

	(void)state;
	one->unconfirmed = true;
	assert_int_equal(hartebeest_mr_publish(one, "mr0", "a", 0), 0);
	fake_kv_restart(registry_server);
	assert_int_equal(hartebeest_mr_publish(one, "mr1", "c", 0), 0);
	spent("the first, and one that is lost", 1, 6, 7);
	assert_int_equal(hartebeest_mr_fetch(one, "a", &region, 0), 0);
	assert_int_equal(hartebeest_mr_fetch(two, "c", &region, 0), 0);
}

/* ---------------------------------------------------------------------- at the end --- */

/* A look reads which records are still ours; one write deletes all, with news and presence. */
static void closing(void **state)
{
	static const int counts[] = { 1, 16, 200 };
	char key[16];
	size_t i;
	int n;

	(void)state;
	for (i = 0; i < BEEST_COUNT(counts); i++) {
		party_open(2, 2, 4, NULL);
		for (n = 0; n < counts[i]; n++) {
			snprintf(key, sizeof(key), "r%d", n);
			assert_int_equal(hartebeest_mr_publish(party[2].hb, "mr0", key, 0), 0);
		}
		fake_kv_count_again();
		party_close(&party[2]);
		if (fake_kv.round_trips > 2)
			print_error("%d trips, %d keys for %d records\n", (int)fake_kv.round_trips,
				    (int)fake_kv.keys, counts[i]);
		assert_in_range(fake_kv.round_trips, 1, 2);
		assert_in_range(fake_kv.keys, 1, 2 * counts[i] + 8);
		assert_int_equal(fake_kv.servers[0].items, 4);	/* epoch, presence, starts, news */
	}
}

/* ----------------------------------------------------------------- the verbs layer --- */

static const char *const queries[] = {
	"ibv_query_port", "ibv_query_gid", "ibv_query_gid_ex", "ibv_query_pkey", "ibv_create_ah",
	"ibv_query_device", "ibv_open_device", "ibv_get_device_list", "getifaddrs",
};

static int query_calls(void)
{
	size_t i;
	int sum = 0;

	for (i = 0; i < BEEST_COUNT(queries); i++)
		sum += fake_verbs_calls(queries[i]);
	return sum;
}

/* The port is chosen only once. */
static void init_after_the_first(void **state)
{
	char name[16];
	int before, modified, i;

	(void)state;
	assert_int_equal(hartebeest_qp_init(one, "q0-1"), 0);
	before = query_calls();
	modified = fake_verbs_calls("ibv_modify_qp");
	for (i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "more%d", i);
		assert_int_equal(qp_make(one, name, "pd", IBV_QPT_RC, "cq", "cq",
						      NULL), 0);
		assert_int_equal(hartebeest_qp_init(one, name), 0);
	}
	assert_int_equal(query_calls(), before);
	assert_int_equal(fake_verbs_calls("ibv_modify_qp"), modified + 10);
	assert_int_equal(fake_kv.requests, 0);
}

/* ------------------------------------------------------------------- on the server --- */

struct tally {
	const char *part;
	size_t items, bytes, most;
};

static void tally_item(const char *key, const void *value, size_t size, void *data)
{
	struct tally *tally = data;

	(void)value;
	if (!strstr(key, tally->part))
		return;
	tally->items++;
	tally->bytes += strlen(key) + size;
	tally->most = strlen(key) + size > tally->most ? strlen(key) + size : tally->most;
}

static void connect_both(void)
{
	crew_start(party_connect, &party[0]);
	crew_start(party_connect, &party[1]);
	registry_run();
	assert_int_equal(party[0].ret, 0);
	assert_int_equal(party[1].ret, 0);
}

/*
 * Each end takes three looks.  It leaves one item, in one slab class of memcached while keys are at
 * most 60 bytes long.
 */
static void items_of_a_pair(void **state)
{
	char key[2][64];
	struct tally tally = { .part = "/qp/" };
	size_t i;

	(void)state;
	crew_need();
	for (i = 0; i < 2; i++) {
		memset(key[i], 'a' + (int)i, sizeof(key[i]));
		key[i][60 - strlen("hb1/job/qp/")] = '\0';
		party[i].pairs[0].key = key[i];
		party[!i].pairs[0].peer_key = key[i];
	}
	fake_kv_count_again();
	connect_both();
	spent("both ends of the pair, and their presences", 6, 18, 36);
	fake_kv_visit(&fake_kv.servers[0], tally_item, &tally);
	assert_int_equal(tally.items, 2);
	if (tally.most > 181)
		print_error("%d bytes\n", (int)tally.most);
	assert_in_range(tally.most, 100, 181);
	tally = (struct tally){ .part = "hb1/" };
	fake_kv_visit(&fake_kv.servers[0], tally_item, &tally);
	assert_int_equal(tally.items, 2 + 2 + 2 + 1);	/* records, presences, starts, the epoch */
}

/* ---------------------------------------------------------------------- barriers --- */

static int barrier_ret[2];

static void barrier_run(void *data)
{
	struct party_member *member = data;

	barrier_ret[member->rank] = hartebeest_barrier(member->hb, "b", 0);
}

/* Beside the two lists of the roll call, there are those of the last two passes. */
static void items_of_barriers(void **state)
{
	struct tally tally = { .part = "/barrier/" };
	int pass, i;

	(void)state;
	crew_need();
	for (pass = 0; pass < 5; pass++) {
		for (i = 0; i < 2; i++)
			crew_start(barrier_run, &party[i]);
		registry_run();
		assert_int_equal(barrier_ret[0], 0);
		assert_int_equal(barrier_ret[1], 0);
		tally.items = 0;
		fake_kv_visit(&fake_kv.servers[0], tally_item, &tally);
		assert_int_equal(tally.items, 2 + BEEST_MIN(pass, 2));
	}
}

/*
 * A later pass: each rank appends its entry, by two commands, and reads the list, one of them
 * twice.  One rank deletes an earlier list.
 */
static void passes(void **state)
{
	int pass, i;

	(void)state;
	crew_need();
	for (pass = 0; pass < 4; pass++) {
		fake_kv_count_again();
		for (i = 0; i < 2; i++)
			crew_start(barrier_run, &party[i]);
		registry_run();
		assert_int_equal(barrier_ret[0], 0);
		assert_int_equal(barrier_ret[1], 0);
	}
	spent("a later pass of two", 3, 8, 11);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(first_publication, setup, teardown),
		cmocka_unit_test_setup_teardown(messages, setup, teardown),
		cmocka_unit_test_setup_teardown(messages_for_one_reader, setup, teardown),
		cmocka_unit_test_setup_teardown(fetching, setup, teardown),
		cmocka_unit_test_setup_teardown(connecting, setup, teardown),
		cmocka_unit_test_setup_teardown(connecting_late, setup, teardown),
		cmocka_unit_test_setup_teardown(by_the_original, setup, teardown),
		cmocka_unit_test_setup_teardown(sent_and_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(closing, setup, teardown),
		cmocka_unit_test_setup_teardown(init_after_the_first, setup, teardown),
		cmocka_unit_test_setup_teardown(items_of_a_pair, setup, teardown),
		cmocka_unit_test_setup_teardown(items_of_barriers, setup, teardown),
		cmocka_unit_test_setup_teardown(passes, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
