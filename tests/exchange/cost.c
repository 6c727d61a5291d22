/* SPDX-License-Identifier: MIT */
/*
 * cost.c - round trips, keys, verbs calls, items and bytes of each call, counted exactly
 *
 * No clock is read: fake servers and peers answer at once.  The same steps then go to a real
 * memcached, whose own counters must agree (tests/exchange/count).  Let no row of the budget
 * grow by accident.
 *
 * promise: hartebeest-exchange(7)
 */
#include "config.h"

#include "tests/support/make.h"
#include "tests/support/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "hartebeest-mesh.h"
#include "hartebeest-post.h"
#include "lib/base/clock.h"
#include "lib/core/context.h"
#include "lib/core/handshake.h"
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

/* A name of a region and of a message: a server that does not answer has not deleted the latter. */
static void a_deletion_without_an_answer(void **state)
{
	(void)state;
	assert_int_equal(hartebeest_mr_publish(one, "mr0", "a", 0), 0);
	assert_int_equal(hartebeest_msg_push(one, "a", "x", 1, 0), 0);
	registry_server->silent = true;
	assert_int_equal(beest_handshake_withdraw(one, "a"), -EHOSTDOWN);
	registry_server->silent = false;
	assert_int_equal(hartebeest_msg_wait(two, "a", NULL, 0, NULL, HARTEBEEST_ONCE), 0);
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

struct sum {
	const char *part;
	size_t items, bytes, most;
};

static void sum_item(const char *key, const void *value, size_t size, void *data)
{
	struct sum *sum = data;

	(void)value;
	if (!strstr(key, sum->part))
		return;
	sum->items++;
	sum->bytes += strlen(key) + size;
	sum->most = strlen(key) + size > sum->most ? strlen(key) + size : sum->most;
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
	struct sum sum = { .part = "/qp/" };
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
	fake_kv_visit(&fake_kv.servers[0], sum_item, &sum);
	assert_int_equal(sum.items, 2);
	if (sum.most > 181)
		print_error("%d bytes\n", (int)sum.most);
	assert_in_range(sum.most, 100, 181);
	sum = (struct sum){ .part = "hb1/" };
	fake_kv_visit(&fake_kv.servers[0], sum_item, &sum);
	assert_int_equal(sum.items, 2 + 2 + 2 + 1);	/* records, presences, starts, epoch */
}

/* ------------------------------------------------------------------------ fences --- */

#define RANKS_MAX 40

static int fence_ret[RANKS_MAX];

static void barrier_run(void *data)
{
	struct party_member *member = data;

	fence_ret[member->rank] = hartebeest_barrier(member->hb, "b", 0);
}

static void gather_run(void *data)
{
	struct party_member *member = data;
	uint64_t value = (uint64_t)member->rank, all[RANKS_MAX];

	fence_ret[member->rank] = hartebeest_gather(member->hb, "g", &value, sizeof(value), all, 0);
	assert_true(fence_ret[member->rank] < 0 || all[0] == 0);
}

static struct hartebeest_mesh *meshes[RANKS_MAX];

static void mesh_run(void *data)
{
	struct party_member *member = data;

	fence_ret[member->rank] = hartebeest_mesh_connect(member->hb, "m", NULL,
							  &meshes[member->rank], 0);
}

static void mesh_barrier_run(void *data)
{
	struct party_member *member = data;

	fence_ret[member->rank] = hartebeest_mesh_barrier(meshes[member->rank], 0);
}

/* All ranks at once. */
static void fence_all(void (*run)(void *data), int ranks)
{
	int i;

	fake_kv_count_again();
	for (i = 0; i < ranks; i++)
		crew_start(run, &party[i]);
	registry_run();
	for (i = 0; i < ranks; i++)
		assert_int_equal(fence_ret[i], 0);
}

/* Beside the records, there are presences and starts, and the epoch. */
static struct sum fence_items(void)
{
	struct sum sum = { .part = "/fence/" };

	fake_kv_visit(&fake_kv.servers[0], sum_item, &sum);
	return sum;
}

/* A record of each rank, however many passes there were. */
static void items_of_barriers(void **state)
{
	struct sum sum;
	int pass;

	(void)state;
	crew_need();
	for (pass = 0; pass < 5; pass++) {
		fence_all(barrier_run, 2);
		sum = fence_items();
		assert_int_equal(sum.items, 2);
		assert_in_range(sum.bytes, 250, 300);
	}
}

/*
 * All begin at once, and take turns from rank 0 on.  So rank 0 reads what the others store one look
 * later.  A call takes each rank 6 round trips: add, see that all have, propose, acknowledge, see
 * that all have, commit.  In the first, those who begin before rank 0 have to follow it, too; here
 * none does.  A pass takes 3.  Views in chunks, which those of 40 ranks are, take one more; but so
 * many members rest longer than their leader, which looks meanwhile, and so take fewer: about as
 * many as in the row, since rests have a jitter.  The leader deletes the 2 chunks with the request
 * that commits: none stays.
 */
static const struct fence_row {
	const char *what;
	void (*run)(void *data);
	int ranks;
	uint64_t trips, commands, keys;
	size_t names;			/* so many were used: a record of each rank stays */
} fence_rows[] = {
	{ "the first barrier", barrier_run, 2, 12, 26, 61, 1 },
	{ "a later barrier", barrier_run, 2, 6, 8, 18, 1 },
	{ "the first gather", gather_run, 2, 12, 18, 51, 2 },
	{ "a later gather", gather_run, 2, 12, 16, 48, 2 },
	{ "a mesh", mesh_run, 2, 12, 18, 51, 3 },
	{ "a mesh's barrier", mesh_barrier_run, 2, 6, 8, 18, 3 },
	{ "the first barrier", barrier_run, 4, 24, 52, 131, 1 },
	{ "a later barrier", barrier_run, 4, 12, 16, 40, 1 },
	{ "the first gather", gather_run, 4, 24, 36, 111, 2 },
	{ "a later gather", gather_run, 4, 24, 32, 104, 2 },
	{ "a mesh", mesh_run, 4, 24, 36, 111, 3 },
	{ "a mesh's barrier", mesh_barrier_run, 4, 12, 16, 40, 3 },
	{ "the first barrier", barrier_run, 8, 48, 104, 271, 1 },
	{ "a later barrier", barrier_run, 8, 24, 32, 84, 1 },
	{ "the first gather", gather_run, 8, 48, 72, 231, 2 },
	{ "a later gather", gather_run, 8, 48, 64, 216, 2 },
	{ "a mesh", mesh_run, 8, 48, 72, 231, 3 },
	{ "a mesh's barrier", mesh_barrier_run, 8, 24, 32, 84, 3 },
	{ "the first barrier", barrier_run, 40, 227, 511, 2320, 1 },
	{ "a later barrier", barrier_run, 40, 81, 121, 358, 1 },
	{ "the first gather", gather_run, 40, 228, 352, 2164, 2 },
	{ "a later gather", gather_run, 40, 228, 312, 2091, 2 },
	{ "a mesh", mesh_run, 40, 228, 352, 2137, 3 },
	{ "a mesh's barrier", mesh_barrier_run, 40, 81, 121, 358, 3 },
};

static int setup_alone(void **state)
{
	(void)state;
	party_start();
	return 0;
}

/* A tenth more or less, if ranks rest. */
static bool is_about(uint64_t count, uint64_t expected, int ranks)
{
	const uint64_t slack = ranks > 8 ? expected / 10 : 0;

	return count + slack >= expected && count <= expected + slack;
}

static void fences(void **state)
{
	const struct fence_row *row;
	size_t items;
	int i, wrong = 0, ranks = 0;

	(void)state;
	crew_need();
	for (row = fence_rows; row < fence_rows + BEEST_COUNT(fence_rows); row++) {
		for (i = 0; i < ranks && row->ranks != ranks; i++) {
			hartebeest_mesh_close(meshes[i]);
			party_close(&party[i]);
		}
		if (row->ranks != ranks)
			fake_kv_reset();
		for (i = 0; i < row->ranks && row->ranks != ranks; i++)
			party_open(i, i, row->ranks, NULL);
		ranks = row->ranks;
		fence_all(row->run, ranks);
		items = fence_items().items;
		if (is_about(fake_kv.round_trips, row->trips, ranks) &&
		    is_about(fake_kv.commands, row->commands, ranks) &&
		    is_about(fake_kv.keys, row->keys, ranks) &&
		    items == row->names * (size_t)ranks)
			continue;
		print_error("%s of %d: %d trips, %d commands, %d keys, %d items\n", row->what,
			    ranks, (int)fake_kv.round_trips, (int)fake_kv.commands,
			    (int)fake_kv.keys, (int)items);
		wrong++;
	}
	for (i = 0; i < ranks; i++)
		hartebeest_mesh_close(meshes[i]);
	assert_int_equal(wrong, 0);
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
		cmocka_unit_test_setup_teardown(a_deletion_without_an_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(closing, setup, teardown),
		cmocka_unit_test_setup_teardown(init_after_the_first, setup, teardown),
		cmocka_unit_test_setup_teardown(items_of_a_pair, setup, teardown),
		cmocka_unit_test_setup_teardown(items_of_barriers, setup, teardown),
		cmocka_unit_test_setup_teardown(fences, setup_alone, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
