/* SPDX-License-Identifier: MIT */
/*
 * pairs.c - many queue pairs connect to their peers in one call, whatever the peers do
 *
 * Ranks are coroutines with their own contexts, over the fake device and the fake servers.
 *
 * promise: hartebeest_pairs(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hartebeest-post.h"
#include "lib/base/clock.h"
#include "lib/core/context.h"
#include "tests/support/crew.h"
#include "tests/support/logged.h"
#include "tests/support/make.h"
#include "tests/support/fake-process.h"
#include "tests/support/party.h"
#include "tests/support/registry.h"
#include "tests/support/scratch.h"

static int setup(void **state)
{
	(void)state;
	crew_need();
	party_start();
	return 0;
}

/* ------------------------------------------------------------------------- helpers --- */

static const struct fake_modify *told(const struct party_member *member, const char *name,
				      enum ibv_qp_state *state, uint32_t *number)
{
	struct ibv_qp *qp;

	assert_int_equal(hartebeest_qp_get(member->hb, name, &qp), 0);
	*state = qp->state;
	*number = qp->qp_num;
	return fake_verbs_last_modify(qp);
}

/* The queue pair is in RTS, connected to that peer. */
static void assert_connected(const struct party_member *member, size_t i,
			     const struct party_member *peer)
{
	enum ibv_qp_state state;
	uint32_t number;

	if (member->pairs[i].result)
		print_error("%s: %s\n", member->pairs[i].qp, member->pairs[i].reason);
	assert_int_equal(member->pairs[i].result, 0);
	assert_string_equal(member->pairs[i].reason, "");
	assert_int_equal(member->pairs[i].peer.rank, peer->rank);
	told(member, member->pairs[i].qp, &state, &number);
	assert_int_equal(state, IBV_QPS_RTS);
}

static void assert_peer(const struct party_member *member, size_t i,
			const struct party_member *peer, size_t j)
{
	enum ibv_qp_state state;
	uint32_t number;

	assert_connected(member, i, peer);
	told(peer, peer->pairs[j].qp, &state, &number);
	assert_int_equal(member->pairs[i].peer.qp_num, number);
}

/* For the next of several cases in one test. */
static void again(void)
{
	assert_int_equal(party_teardown(NULL), 0);
	setup(NULL);
}

/* These ranks connect, and then those that were started otherwise, too. */
static void some_connect(int first, int last)
{
	for (; first <= last; first++)
		crew_start(party_connect, &party[first]);
	registry_run();
}

static void all_connect(int count)
{
	some_connect(0, count - 1);
}

static void all_came(size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (party[i].ret)
			print_error("rank %d: %s\n", party[i].rank, party[i].error);
		assert_int_equal(party[i].ret, 0);
	}
}

static void connected(int count)
{
	all_connect(count);
	all_came((size_t)count);
}

/* The call of a rank has failed, and that pair with it. */
static void assert_failed(int rank, size_t i, int ret, const char *reason)
{
	assert_int_equal(party[rank].ret, ret);
	assert_int_equal(party[rank].pairs[i].result, ret);
	if (!strstr(party[rank].pairs[i].reason, reason))
		print_error("%s\n", party[rank].pairs[i].reason);
	assert_non_null(strstr(party[rank].pairs[i].reason, reason));
}

/* Ranks 0 and 1 have a pair, of which rank 0 offers regions, and rank 1 has room for them. */
static void two(int type, uint32_t offered, uint32_t room)
{
	party_open(0, 0, 2, NULL);
	party_open(1, 1, 2, NULL);
	party_offer(party_pair(&party[0], 1, type), offered, 0);
	party_offer(party_pair(&party[1], 0, type), 0, room);
}

/* Rank 0 has pairs with two others, which may not come. */
static struct hartebeest_pair *alone(void)
{
	party_open(0, 0, 3, NULL);
	party_pair(&party[0], 1, IBV_QPT_RC);
	party_pair(&party[0], 2, IBV_QPT_RC);
	return party[0].pairs;
}

/* Gives each pair of ranks RC queue pairs with a region each. */
static void mesh(int size)
{
	int i, j;

	for (i = 0; i < size; i++) {
		party_open(i, i, size, NULL);
		for (j = 0; j < size; j++)
			if (j != i)
				party_offer(party_pair(&party[i], j, IBV_QPT_RC), 1, 1);
	}
}

/* The position of the pair to @peer among those of @rank. */
static size_t to(int rank, int peer)
{
	return (size_t)(peer > rank ? peer - 1 : peer);
}

/* ---------------------------------------------------------------------- what it costs --- */

static struct {
	const void *kv;
	uint64_t trips, requests, keys, last_keys;
} spent;

static void spent_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	static const void *former;

	(void)request;
	if (former == spent.kv)
		spent.keys += fake_kv.keys - spent.last_keys;
	spent.last_keys = fake_kv.keys;
	former = kv;
	spent.requests += kv == spent.kv;
}

/* The peers are already there and confirm at once: counts the share of rank 0, the last. */
static void costs_for(int n)
{
	int i;

	again();
	party_open(0, 0, n + 1, NULL);
	for (i = 1; i <= n; i++) {
		party_offer(party_pair(&party[0], i, IBV_QPT_RC), 1, 1);
		party_open(i, i, n + 1, NULL);
		party_offer(party_pair(&party[i], 0, IBV_QPT_RC), 1, 1);
		crew_start(party_connect, &party[i]);
	}
	crew_start(party_connect, &party[0]);
	memset(&spent, 0, sizeof(spent));
	assert_int_equal(hartebeest_msg_push(party[0].hb, "opens", "x", 1, 0), 0);
	spent.kv = party_kv(&party[0]);
	fake_kv.hook = spent_hook;
	registry_run();
	fake_kv.hook = NULL;
	all_came((size_t)n + 1);
	for (i = 1; i <= n; i++) {
		assert_peer(&party[0], (size_t)i - 1, &party[i], 0);
		assert_peer(&party[i], 0, &party[0], (size_t)i - 1);
		assert_int_equal(party[0].pairs[i - 1].region_count, 1);
		assert_int_equal(party[0].regions[i - 1][0].length, 4096);
	}
	if (spent.requests > 4 || spent.keys > 5 * (uint64_t)n + 10)
		print_error("%d pairs: %d requests, %d keys\n", n, (int)spent.requests,
			    (int)spent.keys);
	assert_in_range(spent.requests, 1, 4);
	assert_in_range(spent.keys, 1, 5 * n + 10);
}

static void costs(void **state)
{
	(void)state;
	costs_for(1);
	costs_for(2);
	costs_for(16);
	costs_for(60);
}

/*
 * A look that finds the peer connects to it.  The next look stores the record that says so, and the
 * peer waits for it: so there is no pause between them, however long the wait has lasted.
 */
static struct {
	int64_t begun, longest;		/* the last look; up to one that stores a record, at most */
} looks[2];

static void looks_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	int i = kv == party_kv(&party[1]);
	int64_t passed = looks[i].begun ? crew_now() - looks[i].begun : 0;

	if (request->write_count && passed > looks[i].longest)
		looks[i].longest = passed;
	looks[i].begun = crew_now();
}

static void connected_is_said_at_once(void **state)
{
	int64_t delay;
	int i;

	(void)state;
	for (delay = 0; delay < 20 * BEEST_MS; delay += 7 * BEEST_US + delay / 50) {
		again();
		mesh(2);
		for (i = 0; i < 2; i++) {
			assert_int_equal(hartebeest_msg_push(party[i].hb, "opens", "x", 1, 0), 0);
			looks[i].begun = looks[i].longest = 0;
		}
		party[1].delay = delay;
		fake_kv.hook = looks_hook;
		all_connect(2);
		fake_kv.hook = NULL;
		all_came(2);
		assert_in_range(looks[0].longest, 1, fake_kv.latency);
		assert_in_range(looks[1].longest, 1, fake_kv.latency);
	}
}

/* --------------------------------------------------------------- peers that do not come --- */

#define HINT "; server a:1 answers; HARTEBEEST_JOB (here job) and the servers must be the same " \
	     "on both sides"

/* A foreign value under one key is the reason of one pair only. */
static void a_record_that_is_none(void **state)
{
	(void)state;
	mesh(3);
	fake_kv_put(fake_kv_server("a:1"), "hb1/job/qp/1/0", "no record", 9, 0);
	party[0].deadline = crew_now() + 3 * BEEST_SECOND;
	some_connect(0, 0);
	assert_int_equal(party[0].pairs[to(0, 1)].result, -EBADMSG);
	assert_string_equal(party[0].pairs[to(0, 1)].reason, "queue pair '1/0' (key "
			    "hb1/job/qp/1/0): 9 bytes are too few for a record");
	assert_int_equal(party[0].pairs[to(0, 2)].result, -ETIMEDOUT);
	assert_string_equal(party[0].pairs[to(0, 2)].reason,
			    "no queue pair '2/0' (key hb1/job/qp/2/0) was published");
}

/* What a last look has put, but not stored, connects no pair, whatever the others lack. */
static void a_peer_that_confirms_at_the_last_look(void **state)
{
	struct hartebeest_pair *pairs = alone();
	int i;

	(void)state;
	party_open(1, 1, 3, NULL);
	party_pair(&party[1], 0, IBV_QPT_RC);
	party[0].deadline = HARTEBEEST_ONCE;
	for (i = 0; i < 3; i++) {
		some_connect(0, 0);
		registry_stage.now += BEEST_SECOND;
	}
	party[1].deadline = crew_now() + BEEST_SECOND / 2;
	some_connect(1, 1);
	assert_int_equal(party[1].ret, -ETIMEDOUT);
	some_connect(0, 0);
	assert_int_equal(pairs[0].result, -EAGAIN);
	assert_string_equal(pairs[0].reason, "that this end is connected was not stored in time");
	assert_int_equal(pairs[1].result, -EAGAIN);
	some_connect(0, 0);
	assert_int_equal(pairs[0].result, 0);
	party[1].deadline = crew_now() + BEEST_SECOND / 2;
	some_connect(1, 1);
	assert_int_equal(party[1].ret, 0);
}

static void said_in_order(const char *const *lines, size_t count)
{
	const char *at = logged;
	size_t i;

	for (i = 0; i < count && lines[i]; i++) {
		at = strstr(at, lines[i]);
		if (!at)
			fail_msg("not '%s' in its turn in:\n%s", lines[i], logged);
	}
}

/*
 * Level debug shows the progress: states, requests with their keys, and what is missing.  Neither
 * retries nor waits flood the log: there are a few lines a second, not one for each look.
 */
static const struct followed {
	int server_error, ret;
	const char *lines[10];
} followed[] = {
	{ 0, -ETIMEDOUT, {
		"7 queue pair 'q0-1' is QP ", " of fake0:1, in INIT\n",
		" to a:1: set hb1/job/qp/0/1 (",
		"7 look 1 after ", ": 0 of 1 records are there, 1 of 1 own are stored; no queue "
		"pair '1/0' (key hb1/job/qp/1/0) was published\n",
		"7 look ", "ms: 0 of 1 records", "7 look ", "ms: 0 of 1 records",
		"3 queue pair 'q0-1' and '1/0': after 10 s (HARTEBEEST_TIMEOUT): no queue pair "
		"'1/0' (key hb1/job/qp/1/0) was published" HINT "; unknown environment variable "
		"HARTEBEEST_TIMOUT, the nearest is HARTEBEEST_TIMEOUT\n",
	} },
	{ ECONNREFUSED, -ECONNREFUSED, {
		" to a:1: set hb1/job/qp/0/1 (",
		"4 server a:1: ", "; trying again for up to ",
		"7 look ", ": server a:1: ", "7 look ", ": server a:1: ",
		"3 queue pair 'q0-1' and '1/0': ",
	} },
};

static void a_failed_bringup_can_be_followed(void **state)
{
	const struct followed *row;

	(void)state;
	for (row = followed; row < followed + BEEST_COUNT(followed); row++) {
		again();
		logged[0] = '\0';
		setenv("HARTEBEEST_TIMOUT", "1s", 1);
		party_pair(party_open(0, 0, 2, NULL), 1, IBV_QPT_RC);
		hartebeest_log_set(party[0].hb, HARTEBEEST_LOG_DEBUG, logged_keep, NULL);
		fake_kv_server("a:1")->error = row->server_error;
		some_connect(0, 0);
		assert_int_equal(party[0].ret, row->ret);
		said_in_order(row->lines, BEEST_COUNT(row->lines));
		assert_true(strlen(logged) < 4096);
	}
}

/* What was agreed is one line, not one for each queue pair. */
static void agreements_are_logged_once(void **state)
{
	size_t i, said = 0;
	const char *at;

	(void)state;
	logged[0] = '\0';
	mesh(4);
	hartebeest_log_set(party[0].hb, HARTEBEEST_LOG_INFO, logged_keep, NULL);
	connected(4);
	for (i = 0, at = logged; (at = strstr(at, " connected to ")); i++)
		at++;
	for (at = logged; (at = strstr(at, "path MTU")); said++)
		at++;
	assert_int_equal(i, 1);
	assert_int_equal(said, 1);
}

static void published_but_not_connected(void **state)
{
	(void)state;
	mesh(2);
	assert_int_equal(hartebeest_qp_publish(party[1].hb, "q1-0", "1/0", 0), 0);
	party[0].deadline = crew_now() + BEEST_SECOND;
	some_connect(0, 0);
	assert_failed(0, 0, -ETIMEDOUT, "queue pair '1/0' (key hb1/job/qp/1/0) was published, but "
		      "its process has not connected");
}

/* Only its closed record is left, which confirms the pair with rank 0. */
static void a_peer_that_has_closed(void **state)
{
	(void)state;
	mesh(3);
	party[0].count = party[1].count = 1;
	connected(2);
	party_close(&party[1]);
	party[2].pairs[to(2, 1)].peer_key = "1/0";
	some_connect(2, 2);
	assert_int_equal(party[2].pairs[to(2, 1)].result, -ETIMEDOUT);
	assert_non_null(strstr(party[2].pairs[to(2, 1)].reason, "its process has left"));
}

static void close_later(void *data)
{
	crew_pass(500 * BEEST_MS);
	party_close(data);
}

/* A peer that published but left without connecting is not awaited until the deadline. */
static void a_peer_that_leaves(void **state)
{
	(void)state;
	mesh(3);
	assert_int_equal(hartebeest_qp_publish(party[1].hb, "q1-0", "1/0", 0), 0);
	party[2].delay = 4 * BEEST_SECOND;
	party[2].count = 1;
	crew_start(close_later, &party[1]);
	crew_start(party_connect, &party[2]);
	some_connect(0, 0);
	assert_failed(0, 0, -ESHUTDOWN, "rank 1 on ");
	assert_non_null(strstr(party[0].pairs[0].reason, " has left"));
	assert_connected(&party[0], to(0, 2), &party[2]);
	assert_int_equal(party[2].ret, 0);
}

/* Connects, and closes at once if that fails, as programs do. */
static void connect_or_close(void *data)
{
	struct party_member *member = data;

	party_connect(member);
	if (member->ret < 0)
		party_close(member);
}

/*
 * Two ends, of which the first to see the other's record gives up.  The other one hears of it, and
 * does not wait until its deadline for a record that is gone.
 */
static const struct refusal {
	const char *name;
	const char *settings[2];
	int types[2];
	int step, error;	/* rank 1's call of ibv_modify_qp(3) that fails; 0: none */
	int ret[2];
	const char *said[2];
} refusals[] = {
	{ "transports", { NULL, NULL }, { IBV_QPT_RC, IBV_QPT_UC }, 0, 0,
	  { -EPROTOTYPE, -EPROTOTYPE },
	  { "the transport differs: RC here (fake0:1) but UC at the peer (rank 1)",
	    "the transport differs: UC here (fake0:1) but RC at the peer (rank 0)" } },
	{ "one is UD", { NULL, NULL }, { IBV_QPT_RC, IBV_QPT_UD }, 0, 0,
	  { -EPROTOTYPE, -EPROTOTYPE },
	  { "the transport differs: RC here", "the transport differs: UD here" } },
	{ "RoCE versions", { "device.roce=v1", "device.roce=v2" }, { IBV_QPT_RC, IBV_QPT_RC }, 0, 0,
	  { -EPROTO, -EPROTO },
	  { "the RoCE version differs: RoCE v1 here", "the RoCE version differs: RoCE v2 here" } },
	{ "the device of one end refuses", { NULL, NULL }, { IBV_QPT_RC, IBV_QPT_RC }, 2, ENOMEM,
	  { -ECONNABORTED, -ENOMEM },
	  { "peer (rank 1 on ", "INIT -> RTR of QP " } },
};

static const struct refusal *refusing;
static int steps_left;

static void refuse_step(const char *function)
{
	if (crew_data() == &party[1] && !strcmp(function, "ibv_modify_qp") && --steps_left == 0)
		fake_verbs_fail(function, 1, refusing->error);
}

static void refusal_run(const struct refusal *row, int delayed)
{
	int i;

	refusing = row;
	steps_left = row->step;
	fake_verbs.hook = refuse_step;
	for (i = 0; i < 2; i++) {
		party_open(i, i, 2, row->settings[i]);
		party_pair(&party[i], !i, row->types[i]);
		party[i].began = crew_now();
		party[i].delay = i == delayed ? 100 * BEEST_MS : 0;
		crew_start(connect_or_close, &party[i]);
	}
	registry_run();
	for (i = 0; i < 2; i++) {
		if (party[i].ret != row->ret[i] || !strstr(party[i].error, row->said[i]))
			print_error("%s, rank %d: %d: %s\n", row->name, i, party[i].ret,
				    party[i].error);
		assert_int_equal(party[i].ret, row->ret[i]);
		assert_non_null(strstr(party[i].error, row->said[i]));
		assert_in_range(party[i].ended - party[i].began, 0, 2 * BEEST_SECOND);
	}
}

static void an_end_that_refuses(void **state)
{
	size_t i;
	int delayed;

	(void)state;
	for (i = 0; i < BEEST_COUNT(refusals); i++)
		for (delayed = 0; delayed < 2; delayed++) {
			refusal_run(&refusals[i], delayed);
			again();
		}
}

/* ------------------------------------------------- resources of the whole device --- */

/* What the 12 queue pairs of four ranks on one device get of the reads that it answers. */
static const struct reads {
	const char *setting;
	int total;		/* max_res_rd_atom */
	int least, most;	/* answered by a queue pair */
} reads[] = {
	{ NULL, 0, 16, 16 },			/* the device does not say */
	{ NULL, 16 * 1024, 16, 16 },		/* enough for all that it can have */
	{ NULL, 64, 4, 4 },			/* a sixteenth each */
	{ NULL, 16, 1, 1 },
	{ NULL, 4, 0, 1 },			/* used up: the others go without */
	{ "qp_attr.max_dest_rd_atomic=16", 64, 0, 16 },
	{ "qp_attr.max_dest_rd_atomic=16", 20, 0, 16 },
	{ "qp_attr.max_dest_rd_atomic=3", 64, 3, 3 },
};

static struct ibv_qp_attr attr_of(const struct party_member *member, size_t i)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	assert_int_equal(hartebeest_qp_get(member->hb, member->pairs[i].qp, &qp), 0);
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init), 0);
	return attr;
}

/* No end has more reads under way than the other one answers. */
static void reads_run(const struct reads *row)
{
	int i, j, least = 255, most = 0, sum = 0;
	struct ibv_qp_attr own, other;

	fake_verbs.devices[0].attr.max_res_rd_atom = row->total;
	logged[0] = '\0';
	for (i = 0; i < 4; i++) {
		party_open(i, i, 4, row->setting);
		hartebeest_log_set(party[i].hb, HARTEBEEST_LOG_WARN, logged_keep, NULL);
		for (j = 0; j < 4; j++)
			if (j != i)
				party_pair(&party[i], j, IBV_QPT_RC);
	}
	connected(4);
	for (i = 0; i < 4; i++)
		for (j = 0; j < 4; j++) {
			if (j == i)
				continue;
			own = attr_of(&party[i], to(i, j));
			other = attr_of(&party[j], to(j, i));
			assert_int_equal(own.max_rd_atomic,
					 BEEST_MIN(16, other.max_dest_rd_atomic));
			least = BEEST_MIN(least, own.max_dest_rd_atomic);
			most = BEEST_MAX(most, own.max_dest_rd_atomic);
			sum += own.max_dest_rd_atomic;
		}
	assert_int_equal(least, row->least);
	assert_int_equal(most, row->most);
	assert_true(!row->total || sum <= row->total);
	assert_int_equal(!strstr(logged, " reads and atomics at once instead of "),
			 row->least > 0);
}

static void reads_of_the_whole_device(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(reads); i++) {
		reads_run(&reads[i]);
		again();
	}
}

/* The devices have none, and no option says that this is meant. */
static void no_reads(void **state)
{
	static const struct {
		int in, out;
		const char *said[2];
	} rows[] = {
		{ 0, 16, { "queue pair 'q0-1' cannot read from its peer, nor use atomics there: "
			   "the peer answers none (its device, or qp_attr.max_dest_rd_atomic "
			   "there)\n",
			   "queue pair 'q0-1' answers no reads and atomics of its peer: device "
			   "fake0 has no resources for them\n" } },
		{ 16, 0, { "there: the device of this end has no reads\n", "" } },
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		fake_verbs.devices[0].attr.max_qp_rd_atom = rows[i].in;
		fake_verbs.devices[0].attr.max_qp_init_rd_atom = rows[i].out;
		mesh(2);
		logged[0] = '\0';
		hartebeest_log_set(party[0].hb, HARTEBEEST_LOG_WARN, logged_keep, NULL);
		connected(2);
		assert_non_null(strstr(logged, rows[i].said[0]));
		assert_non_null(strstr(logged, rows[i].said[1]));
		again();
	}
}

static void come_and_go(void *data)
{
	int i;

	for (i = 0; i < 8; i++) {
		crew_pass(10 * BEEST_MS);
		party_close(&party[1]);
		crew_pass(300 * BEEST_MS);
		party_open(1, 1, 2, NULL);
		party_offer(party_pair(&party[1], 0, IBV_QPT_RC), 1, 1);
		assert_int_equal(hartebeest_qp_publish(party[1].hb, "q1-0", "1/0", 0), 0);
	}
	party_connect(data);
}

/* A peer that comes back is not given up, however often it does. */
static void a_peer_that_comes_and_goes(void **state)
{
	(void)state;
	mesh(2);
	assert_int_equal(hartebeest_qp_publish(party[1].hb, "q1-0", "1/0", 0), 0);
	crew_start(come_and_go, &party[1]);
	some_connect(0, 0);
	all_came(2);
	assert_connected(&party[0], to(0, 1), &party[1]);
}

/* One pair cannot be connected, since its queue pair does not exist. */
static void one_that_cannot_be_connected(void **state)
{
	(void)state;
	mesh(2);
	party_pair(&party[0], 9, IBV_QPT_UC)->qp = "none";
	party[0].pairs[1].key = "other";
	all_connect(2);
	assert_int_equal(party[0].ret, -ENOENT);
	assert_int_equal(party[0].pairs[1].result, -ENOENT);
	assert_peer(&party[0], 0, &party[1], 0);
	assert_int_equal(party[1].ret, 0);
}

static void at_once_or_not(void **state)
{
	int i;

	(void)state;
	mesh(2);
	for (i = 0; i < 2; i++)
		party[i].deadline = HARTEBEEST_ONCE;
	for (i = 0; i < 8; i++) {
		some_connect(i % 2, i % 2);
		if (i == 0)
			assert_failed(0, 0, -EAGAIN, "no queue pair '1/0'");
	}
	all_came(2);
	assert_peer(&party[0], 0, &party[1], 0);
	assert_peer(&party[1], 0, &party[0], 0);
}

/* A pair that can never succeed is reported rather than one that still may. */
static void once_and_never(void **state)
{
	struct hartebeest_pair *never = &alone()[1];

	(void)state;
	never->qp = "nosuch";
	party[0].deadline = HARTEBEEST_ONCE;
	party_connect(&party[0]);
	assert_int_equal(party[0].pairs[0].result, -EAGAIN);
	assert_int_equal(never->result, -ENOENT);
	assert_int_equal(party[0].ret, -ENOENT);
	assert_non_null(strstr(party[0].error, "'nosuch'"));
}

static bool late_one_came;

static void connect_late(void *data)
{
	crew_pass(BEEST_SECOND);
	late_one_came = true;
	party_connect(data);
}

static int64_t hold_party_0(const struct beest_kv *kv)
{
	bool holds = late_one_came && kv == party_kv(&party[0]);

	late_one_came &= !holds;

	return holds ? 100 * BEEST_MS : 0;
}

/*
 * Two processes use one key: the one that the peer does not choose learns why.  That is the one
 * that is held up when the peer comes.
 */
static void one_key_of_two(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		party_open(i, i, 3, NULL);
		party_pair(&party[i], i == 1 ? 0 : 1, IBV_QPT_RC);
	}
	party[2].pairs[0].key = party[0].pairs[0].key;
	party[2].pairs[0].peer_key = party[0].pairs[0].peer_key;
	crew_start(party_connect, &party[0]);
	crew_start(connect_late, &party[1]);
	fake_kv.hold = hold_party_0;
	some_connect(2, 2);
	fake_kv.hold = NULL;
	assert_int_equal(party[0].ret, -ETIMEDOUT);
	assert_non_null(strstr(party[0].error, "; another process publishes its own record under "
			       "key hb1/job/qp/0/1, too; server "));
	assert_int_equal(party[1].ret, 0);
	assert_int_equal(party[2].ret, 0);
}

/* Asking again sends nothing again: each call is one request, which only reads. */
static void ask_again(const char *setting)
{
	int i;

	party_open(0, 0, 3, setting);
	party_pair(&party[0], 1, IBV_QPT_RC);
	party_offer(party_pair(&party[0], 2, IBV_QPT_RC), 3, 0);
	party[0].deadline = HARTEBEEST_ONCE;
	for (i = 0; i < 10; i++) {
		fake_kv_count_again();
		party_connect(&party[0]);
		assert_int_equal(party[0].ret, -EAGAIN);
		assert_int_equal(fake_kv.requests, 1);
		if (i > 0)
			assert_int_equal(fake_kv.commands, 1);
	}
	assert_int_equal(hartebeest_mr_destroy(party[0].hb, "mr2"), 0);
	fake_kv_count_again();
	party_offer(&party[0].pairs[1], 2, 0);
	party_connect(&party[0]);
	assert_int_equal(fake_kv.commands, 2);
	party_open(1, 1, 3, setting);
	party_pair(&party[1], 0, IBV_QPT_RC);
	party_open(2, 2, 3, setting);
	party_offer(party_pair(&party[2], 0, IBV_QPT_RC), 0, 3);
	party[0].deadline = 0;
	connected(3);
	assert_int_equal(party[2].pairs[0].region_count, 2);
}

static void asking_again(void **state)
{
#ifdef HAVE_CRYPTO
	char path[SCRATCH_SIZE], setting[128];
#endif

	(void)state;
	ask_again(NULL);
#ifdef HAVE_CRYPTO
	/* Each seal of a record has different bytes. */
	again();
	scratch_text(path, "hartebeest-secret", "0123456789abcdef0123456789abcdef");
	snprintf(setting, sizeof(setting), "exchange.secret_file=%s", path);
	ask_again(setting);
	unlink(path);
#endif
}

/* ------------------------------------------------------------------------- UD, regions --- */

/* Rank @i of three has one queue pair for both peers. */
static void datagram_open(int i)
{
	party_open(i, i, 3, NULL);
	party_pair(&party[i], (i + 1) % 3, IBV_QPT_UD);
	party[i].pairs[1] = party[i].pairs[0];		/* the same, to another peer */
	party[i].count = 2;
	snprintf(party[i].names[0][1], 24, "ud%d", i);
	snprintf(party[i].names[0][2], 24, "ud%d", (i + 1) % 3);
	snprintf(party[i].names[1][2], 24, "ud%d", (i + 2) % 3);
	party[i].pairs[1].peer_key = party[i].names[1][2];
	party[i].pairs[1].regions = party[i].regions[1];
}

/* The address handle that @member has for this peer, whose number and Q_Key go with it. */
static struct ibv_ah *address_of(const struct party_member *member,
				 const struct party_member *peer)
{
	struct hartebeest_ud_address address;
	enum ibv_qp_state state;
	uint32_t number;

	assert_int_equal(hartebeest_qp_ud_address(member->hb, member->pairs[0].qp,
						  peer->pairs[0].key, &address), 0);
	told(peer, peer->pairs[0].qp, &state, &number);
	assert_int_equal(address.qp_num, number);
	assert_int_equal(state, IBV_QPS_RTS);
	assert_true(address.qkey != 0);
	return address.ah;
}

static void datagrams(void)
{
	int i;

	for (i = 0; i < 3; i++)
		datagram_open(i);
	connected(3);
	for (i = 0; i < 3; i++) {
		assert_connected(&party[i], 0, &party[(i + 1) % 3]);
		assert_connected(&party[i], 1, &party[(i + 2) % 3]);
		assert_int_equal(party[i].pairs[0].peer.qp_type, IBV_QPT_UD);
		assert_ptr_not_equal(address_of(&party[i], &party[(i + 1) % 3]),
				     address_of(&party[i], &party[(i + 2) % 3]));
	}
}

/* How rank 0 learns that another process has the rank of one of its peers. */
static int look_by_pairs(struct party_member *member)
{
	int ret = hartebeest_pairs_connect(member->hb, member->pairs, 2, HARTEBEEST_ONCE);

	return ret < 0 ? ret : 1;
}

static int look_by_following(struct party_member *member)
{
	return hartebeest_qp_follow(member->hb, member->pairs[0].qp, "ud1", NULL,
				    HARTEBEEST_ONCE);
}

static int look_by_single_steps(struct party_member *member)
{
	int ret = hartebeest_qp_fetch(member->hb, "ud1", NULL, 0);

	if (ret == 0)
		ret = hartebeest_qp_connect(member->hb, member->pairs[0].qp, "ud1", 0);
	return ret < 0 ? ret : 1;
}

/* Its address is replaced; that of the other peer stays, and the queue pair never leaves RTS. */
static void peer_is_replaced(int (*look)(struct party_member *member))
{
	const struct ibv_ah *other;
	enum ibv_qp_state rts;
	uint32_t number;
	size_t modified;

	datagrams();
	other = address_of(&party[0], &party[2]);
	party_kill(&party[1]);
	datagram_open(1);
	some_connect(1, 1);
	assert_int_equal(party[1].ret, 0);
	told(&party[0], party[0].pairs[0].qp, &rts, &number);
	modified = fake_verbs.modified_count;
	assert_int_equal(look(&party[0]), 1);
	assert_int_equal(fake_verbs.modified_count, modified);
	address_of(&party[0], &party[1]);
	assert_ptr_equal(address_of(&party[0], &party[2]), other);
}

static void datagrams_of_a_peer_that_is_replaced(void **state)
{
	(void)state;
	peer_is_replaced(look_by_pairs);
	again();
	peer_is_replaced(look_by_following);
	again();
	peer_is_replaced(look_by_single_steps);
}

/* What needs a single peer refuses, and loses no address. */
static void datagrams_have_no_single_peer(void **state)
{
	const char *name;
	int i;

	(void)state;
	datagrams();
	name = party[0].pairs[0].qp;
	for (i = 1; i < 3; i++) {
		assert_int_equal(hartebeest_qp_confirm(party[0].hb, name, party[i].pairs[0].key, 0),
				 -EOPNOTSUPP);
		assert_int_equal(hartebeest_qp_reconnect(party[0].hb, name,
							 party[i].pairs[0].key, 0), -EOPNOTSUPP);
	}
	address_of(&party[0], &party[1]);
	address_of(&party[0], &party[2]);
	party_close(&party[1]);
	assert_int_equal(hartebeest_qp_follow(party[0].hb, name, "ud2", NULL, HARTEBEEST_ONCE), 0);
	assert_int_equal(hartebeest_qp_follow(party[0].hb, name, "ud1", NULL, HARTEBEEST_ONCE),
			 -ESHUTDOWN);
	assert_int_equal(hartebeest_qp_follow(party[0].hb, name, "udx", NULL, HARTEBEEST_ONCE),
			 -ENOTCONN);
	address_of(&party[0], &party[2]);
}

static const char *looked_for;
static int found;

static void visit_key(const char *key, const void *value, size_t size, void *data)
{
	(void)value;
	(void)size;
	(void)data;
	found += strstr(key, looked_for) != NULL;
}

static bool is_stored(const char *server, const char *key)
{
	looked_for = key;
	found = 0;
	fake_kv_visit(fake_kv_server(server), visit_key, NULL);
	return found > 0;
}

/* The peer is there, but cannot find this end, whose record belongs on a server that is away. */
static void an_own_record_that_is_not_stored(void **state)
{
	const char *two = "exchange.servers=a:1,b:1", *up, *down;
	int i, stored = 0, lost = 0;

	(void)state;
	party_open(1, 1, 2, two);
	party_pair(&party[1], 0, IBV_QPT_UD);
	snprintf(party[1].names[0][1], 24, "there");
	assert_int_equal(hartebeest_pairs_connect(party[1].hb, party[1].pairs, 1,
						  HARTEBEEST_ONCE), -EAGAIN);
	up = is_stored("a:1", "/there") ? "a:1" : "b:1";
	down = up[0] == 'a' ? "b:1" : "a:1";
	assert_true(is_stored(up, "/there"));
	fake_kv_server(down)->error = EHOSTDOWN;
	for (i = 0; i < 8; i++) {
		party_open(0, 0, 2, two);
		party_pair(&party[0], 1, IBV_QPT_UD);
		snprintf(party[0].names[0][1], 24, "own%d-%d", i, 7919 * i);
		snprintf(party[0].names[0][2], 24, "there");
		some_connect(0, 0);
		if (is_stored(up, party[0].names[0][1])) {
			assert_int_equal(party[0].ret, 0);
			stored++;
		} else {
			assert_failed(0, 0, -EHOSTDOWN, down);
			lost++;
		}
		party_kill(&party[0]);
	}
	assert_true(stored && lost);
	fake_kv_server(down)->error = 0;
}

/*
 * A former process's record is not taken for that of a living peer.  Where its death is not known,
 * the first wait takes longer.
 */
static void a_datagram_leftover(bool is_known)
{
	int i;

	fake_process_hides_deaths = !is_known;
	datagrams();
	for (i = 0; i < 3; i++)
		party_kill(&party[i]);
	for (i = 0; i < 3; i++) {
		party_open(i, i, 3, NULL);
		party_pair(&party[i], (i + 1) % 3, IBV_QPT_UD);
		snprintf(party[i].names[0][1], 24, "ud%d", i);
		snprintf(party[i].names[0][2], 24, "ud%d", (i + 1) % 3);
		assert_int_equal(hartebeest_msg_push(party[i].hb, "here", "x", 1, 0), 0);
	}
	assert_int_equal(hartebeest_pairs_connect(party[0].hb, party[0].pairs, 1,
						  HARTEBEEST_ONCE), -EAGAIN);
	if (!is_known) {
		assert_error_has("(key hb1/job/qp/ud1): it does not count until it is known "
				 "whether another process of this rank is alive; server a:1 "
				 "answers; rank 0 on ");
		assert_error_has(" had the rank of this process, and may be alive");
		registry_stage.now += 2 * BEEST_SECOND;
		assert_int_equal(hartebeest_pairs_connect(party[0].hb, party[0].pairs, 1,
							  HARTEBEEST_ONCE), -EAGAIN);
	}
	assert_error_has("(key hb1/job/qp/ud1) was published by a process that is gone; its "
			 "successor is rank 1 on ");
	party[2].delay = BEEST_SECOND;
	connected(3);
	for (i = 0; i < 3; i++)
		assert_peer(&party[i], 0, &party[(i + 1) % 3], 0);
	fake_process_hides_deaths = false;
}

static void datagram_leftovers(void **state)
{
	(void)state;
	a_datagram_leftover(true);
	again();
	a_datagram_leftover(false);
}

/* Looks may be rare. */
static void datagrams_at_once(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		datagram_open(i);
		party[i].deadline = HARTEBEEST_ONCE;
	}
	for (i = 0; i < 6; i++) {
		registry_stage.now += 5 * BEEST_SECOND;
		some_connect(i % 3, i % 3);
	}
	all_came(3);
	for (i = 0; i < 3; i++) {
		address_of(&party[i], &party[(i + 1) % 3]);
		address_of(&party[i], &party[(i + 2) % 3]);
	}
}

/* Single steps find them, too: whether the peer is there, and with which regions, by one look. */
static void regions_of_a_fetched_peer(void **state)
{
	struct hartebeest_remote_mr seen[4] = { { 0 } };
	const char *key;

	(void)state;
	two(IBV_QPT_RC, 4, 4);
	key = party[1].pairs[0].peer_key;
	assert_int_equal(hartebeest_pairs_connect(party[0].hb, party[0].pairs, 1,
						  HARTEBEEST_ONCE), -EAGAIN);
	assert_int_equal(hartebeest_peer_regions(party[1].hb, key, seen, 4), -ENOENT);
	assert_int_equal(hartebeest_qp_fetch(party[1].hb, key, NULL, HARTEBEEST_ONCE), 0);
	fake_kv_count_again();
	assert_int_equal(hartebeest_peer_regions(party[1].hb, key, NULL, 0), 4);
	assert_int_equal(hartebeest_peer_regions(party[1].hb, key, seen, 3), 4);
	assert_int_equal(seen[2].length, 3 * 4096);
	assert_int_equal(seen[3].length, 0);
	assert_int_equal(fake_kv.requests, 0);
	assert_int_equal(hartebeest_qp_confirm(party[1].hb, NULL, key, 0), -ENOTCONN);
	assert_error_has("no queue pair of this context is connected to '0/1'");

	/* All at once, and a confirmation by the peer's key alone.  Regions cost no request. */
	connected(2);
	fake_kv_count_again();
	party[1].deadline = HARTEBEEST_ONCE;
	some_connect(1, 1);
	assert_int_equal(party[1].ret, 0);
	assert_int_equal(fake_kv.requests, 1);
	assert_int_equal(hartebeest_qp_confirm(party[1].hb, NULL, key, 0), 0);
	assert_int_equal(hartebeest_peer_regions(party[1].hb, key, NULL, 0), 4);
}

/* A room is a capacity, but a peer that offers nothing lacks what is asked for. */
static const struct {
	int type;
	uint32_t offered, room;
	int ret;
	const char *reason;
} rooms[] = {
	{ IBV_QPT_RC, 0, 0, 0, "" },
	{ IBV_QPT_RC, 1, 4, 0, "" },
	{ IBV_QPT_RC, 4, 4, 0, "" },
	{ IBV_QPT_RC, 3, 2, -EMSGSIZE, "'0/1' offers 3 regions, but there is room for 2" },
	{ IBV_QPT_RC, 1, 0, -EMSGSIZE, "'0/1' offers 1 regions, but there is room for 0" },
	{ IBV_QPT_RC, 0, 1, -ENOMSG, "'0/1' offers no regions, but this end has room for 1: the "
	  "peer names them in the field offer of its pair" },
	{ IBV_QPT_UC, 0, 4, -ENOMSG, "'0/1' offers no regions, but this end has room for 4: " },
	{ IBV_QPT_UD, 0, 2, -ENOMSG, "'0/1' offers no regions, but this end has room for 2: " },
};

static void rooms_and_offers(void **state)
{
	const struct hartebeest_pair *pair = party[1].pairs;
	enum ibv_qp_state now;
	uint32_t number;
	size_t i, k;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rooms); i++) {
		two(rooms[i].type, rooms[i].offered, rooms[i].room);
		all_connect(2);
		assert_int_equal(party[0].ret, 0);
		assert_int_equal(party[1].ret, rooms[i].ret);
		assert_int_equal(pair->result, rooms[i].ret);
		assert_ptr_equal(strstr(pair->reason, rooms[i].reason), pair->reason);
		assert_int_equal(pair->region_count, rooms[i].offered);
		for (k = 0; k < BEEST_MIN(rooms[i].offered, rooms[i].room); k++) {
			assert_int_equal(pair->regions[k].length, 4096 * (k + 1));
			assert_int_not_equal(pair->regions[k].rkey, 0);
		}
		/* It is connected, whatever it lacks. */
		told(&party[1], pair->qp, &now, &number);
		assert_int_equal(now, IBV_QPS_RTS);
		told(&party[0], party[0].pairs[0].qp, &now, &number);
		assert_int_equal(pair->peer.qp_num, number);
		again();
	}
}

/* Another call continues: the peer has made up for it. */
static void an_offer_that_follows(void **state)
{
	(void)state;
	two(IBV_QPT_RC, 0, 1);
	all_connect(2);
	assert_int_equal(party[1].ret, -ENOMSG);
	party_offer(&party[0].pairs[0], 1, 0);
	party[1].delay = BEEST_SECOND;
	connected(2);
	assert_int_equal(party[1].regions[0][0].length, 4096);
}

/* With a name of 255 bytes and a long key, the sentence is not cut. */
static void long_names(void **state)
{
	char name[256], key[200];
	struct hartebeest_pair pair;

	(void)state;
	party_open(0, 0, 2, NULL);
	unit_repeat(name, 'q', 255);
	unit_repeat(key, 'k', 199);
	hartebeest_pair_init(&pair);
	assert_int_equal(qp_make(party[0].hb, name, "pd", IBV_QPT_RC, "cq", "cq", NULL), 0);
	pair.qp = name;
	pair.key = "own";
	pair.peer_key = key;
	assert_int_equal(hartebeest_pairs_connect(party[0].hb, &pair, 1, HARTEBEEST_ONCE),
			 -EAGAIN);
	assert_string_equal(pair.reason + strlen(pair.reason) - strlen(" was published"),
			    " was published");
	assert_error_has(pair.reason);
}

/* -------------------------------------------------------------------- what is refused --- */

static int try(size_t count, int64_t deadline)
{
	return hartebeest_pairs_connect(party[0].hb, party[0].pairs, count, deadline);
}

/* The first @count of two pairs have the call's failure: none looks as if it were connected. */
static void all_have(int result, size_t count)
{
	const struct hartebeest_pair *pairs = party[0].pairs;
	size_t i;

	for (i = 0; i < 2; i++) {
		assert_int_equal(pairs[i].result, i < count ? result : 0);
		assert_string_equal(pairs[i].reason, i < count ? hartebeest_error() : "");
	}
}

static void refuses(size_t count, const char *sentence)
{
	assert_int_equal(try(2, 0), -EINVAL);
	assert_error_has(sentence);
	all_have(-EINVAL, count);
}

static void nonsense(void **state)
{
	struct hartebeest_pair *pairs = alone(), good[2];

	(void)state;
	memcpy(good, pairs, sizeof(good));
	assert_int_equal(try(0, 0), 0);
	assert_int_equal(try(2, -2), -EINVAL);
	assert_error_has("deadline -2 is invalid: give 0, HARTEBEEST_ONCE");

	pairs[1].qp = pairs[0].qp;
	refuses(2, "two pairs have the queue pair 'q0-1'");
	memcpy(pairs, good, sizeof(good));
	pairs[1].key = pairs[0].key;
	refuses(2, "two pairs have the key '0/1'");
	pairs[0].qp = "unknown";		/* errors that need no look-up come first */
	refuses(2, "two pairs have the key '0/1'");
	memcpy(pairs, good, sizeof(good));
	pairs[1].peer_key = NULL;
	refuses(2, "pair 1: the field peer_key is NULL");
	pairs[0].qp = NULL;
	refuses(2, "pair 0: the field qp is NULL");
	memcpy(pairs, good, sizeof(good));
	party_offer(&pairs[0], 256, 0);
	refuses(2, "pair 0 offers 256 regions, at most 255 are possible");
	assert_int_equal(fake_kv.requests, 0);
}

/* Behind a struct of a wrong size, nothing is known, and nothing is written. */
static void structs_that_were_not_initialized(void **state)
{
	struct hartebeest_pair *pairs = alone();

	(void)state;
	pairs[1].size = sizeof(*pairs) + 8;
	refuses(1, "pair 1 has the size");
	memset(pairs[0].reason, 0, sizeof(pairs[0].reason));
	pairs[0].result = 0;
	pairs[0].size = 0;
	refuses(0, "pair 0 has the size 0");
}

/* The exchange cannot be used: the results are not those of an earlier call. */
static void the_context_of_a_parent(void **state)
{
	struct hartebeest_context *hb;

	(void)state;
	alone();
	hb = party[0].hb;
	assert_int_equal(try(2, HARTEBEEST_ONCE), -EAGAIN);
	hb->pid++;
	assert_int_equal(try(2, HARTEBEEST_ONCE), -EPERM);
	all_have(-EPERM, 2);
	hb->pid--;
}

/* It would find its own record under the peer's key, and write to its own memory. */
static void a_peer_of_itself(void **state)
{
	struct hartebeest_pair *pair = party[0].pairs;
	struct hartebeest_context *hb;

	(void)state;
	hb = party_open(0, 0, 2, NULL)->hb;
	party_pair(&party[0], 1, IBV_QPT_RC);
	pair->peer_key = pair->key;
	assert_int_equal(hartebeest_pairs_connect(hb, pair, 1, 0), -EINVAL);
	assert_error_has("queue pair 'q0-1' and its peer have the same key '0/1': the peer's is "
			 "the one under which the peer publishes");
	assert_int_equal(fake_kv.requests, 0);
	assert_int_equal(hartebeest_qp_publish(hb, pair->qp, "k", 0), 0);
	assert_int_equal(hartebeest_qp_fetch(hb, "k", NULL, 0), 0);
	assert_int_equal(hartebeest_qp_connect(hb, pair->qp, "k", 0), -EINVAL);
	assert_error_has("queue pair 'q0-1' and its peer have the same key 'k'");
	assert_int_equal(hartebeest_qp_reconnect(hb, pair->qp, "k", 0), -EINVAL);
	assert_error_has("have the same key 'k'");
	pair = party_pair(&party[0], 0, IBV_QPT_UD);
	pair->peer_key = pair->key;
	assert_int_equal(hartebeest_pairs_connect(hb, pair, 1, 0), 0);
}

/* The peer would be refused only when it uses the region. */
static void an_offer_of_another_domain(void **state)
{
	static char memory[4096];
	struct hartebeest_pair *pair = party[0].pairs;
	struct hartebeest_context *hb;

	(void)state;
	hb = party_open(0, 0, 2, NULL)->hb;
	party_pair(&party[0], 1, IBV_QPT_RC);
	assert_int_equal(hartebeest_pd_create(hb, "other", NULL), 0);
	assert_int_equal(mr_make_of(hb, "m", "other", memory, sizeof(memory), 0, NULL), 0);
	pair->offer = (const char *const []){ "m" };
	pair->offer_count = 1;
	assert_int_equal(hartebeest_pairs_connect(hb, pair, 1, 0), -EINVAL);
	assert_error_has("region 'm' is of another protection domain than queue pair 'q0-1'");
}

/* The pairs of a datagram queue pair share one record, so they must offer the same regions. */
static void datagrams_that_offer_otherwise(void **state)
{
	struct hartebeest_pair *pairs = party[0].pairs;

	(void)state;
	party_open(0, 0, 3, NULL);
	party_offer(party_pair(&party[0], 1, IBV_QPT_UD), 2, 0);
	pairs[1] = pairs[0];
	pairs[1].peer_key = "2/0";
	assert_int_equal(try(2, HARTEBEEST_ONCE), -EAGAIN);
	pairs[1].offer_count = 1;
	assert_int_equal(try(2, HARTEBEEST_ONCE), -EINVAL);
	assert_error_has("two pairs of queue pair 'q0-1' offer different regions under the "
			 "key '0/1'");
	pairs[1].key = "another";
	assert_int_equal(try(2, HARTEBEEST_ONCE), -EAGAIN);

	party_pair(&party[0], 2, IBV_QPT_RC);
	pairs[1].key = pairs[0].key;
	assert_int_equal(try(2, HARTEBEEST_ONCE), -EINVAL);
	assert_error_has("two pairs have the key '0/1'");
}

/* The caller was compiled with the longer struct of a later version. */
static void a_longer_struct(void **state)
{
	struct {
		struct hartebeest_pair pair;
		uint64_t later;
	} longer[2];
	size_t i;

	(void)state;
	party_open(0, 0, 3, NULL);
	for (i = 0; i < 2; i++) {
		longer[i].pair = *party_pair(&party[0], (int)i + 1, IBV_QPT_RC);
		longer[i].pair.size = sizeof(longer[0]);
		longer[i].later = 0;
	}
	assert_int_equal(hartebeest_pairs_connect(party[0].hb, &longer[0].pair, 2,
						  HARTEBEEST_ONCE), -EAGAIN);
	assert_int_equal(longer[1].pair.result, -EAGAIN);
	longer[1].later = 1;
	assert_int_equal(hartebeest_pairs_connect(party[0].hb, &longer[0].pair, 2,
						  HARTEBEEST_ONCE), -E2BIG);
	for (i = 0; i < 2; i++)
		assert_int_equal(longer[i].pair.result, -E2BIG);
}

/* A peer that read of another address would give up, although nothing is wrong with that peer. */
static void a_lost_address_is_not_published(void **state)
{
	struct ibv_async_event changed = { .event_type = IBV_EVENT_GID_CHANGE };
	struct fake_gid *gids = fake_verbs.devices[0].ports[0].gids;
	struct fake_kv_server *server;
	char before[512];
	size_t size, size_now;
	const void *now;
	int i;

	(void)state;
	mesh(2);
	connected(2);
	server = fake_kv_server("a:1");
	now = fake_kv_get(server, "hb1/job/qp/0/1", &size);
	assert_non_null(now);
	assert_true(size <= sizeof(before));
	memcpy(before, now, size);

	gids[2].gid = gids[3].gid = NULL;		/* the IPv4 entries */
	changed.element.port_num = 1;
	fake_verbs_raise(&changed);
	for (i = 0; i < 2; i++) {			/* fails again the second time */
		assert_int_equal(hartebeest_qp_reconnect(party[0].hb, "q0-1", "1/0", 0), -ENODATA);
		assert_error_has("queue pair 'q0-1' and '1/0': the GID ::ffff:10.0.0.1 (RoCE v2) "
				 "of this end is no longer in the table");
		now = fake_kv_get(server, "hb1/job/qp/0/1", &size_now);
		assert_int_equal(size_now, size);
		assert_memory_equal(now, before, size);
	}
}

/* Of the first pair. */
static uint32_t psn_sent(const struct party_member *member)
{
	enum ibv_qp_state state;
	uint32_t number;

	return told(member, member->pairs[0].qp, &state, &number)->attr.sq_psn;
}

static uint32_t psn_expected(const struct party_member *member)
{
	const struct fake_modify *modify;
	size_t i = fake_verbs.modified_count;
	enum ibv_qp_state state;
	uint32_t number;

	told(member, member->pairs[0].qp, &state, &number);
	do {
		modify = &fake_verbs.modified[--i % FAKE_HISTORY];
	} while (modify->qp_num != number || modify->attr.qp_state != IBV_QPS_RTR);
	return modify->attr.rq_psn;
}

/* ------------------------------------------------- a LID and an MTU that change --- */

#define OLD_LID 7
#define NEW_LID 17

/* Rank 0 has a port of its own; it changes once rank 0 has published. */
static void port_changes(void)
{
	struct ibv_async_event event = { .event_type = IBV_EVENT_LID_CHANGE };

	fake_verbs.devices[0].ports[0].lid = NEW_LID;
	fake_verbs.devices[0].ports[0].active_mtu = IBV_MTU_1024;
	event.element.port_num = 1;
	fake_verbs_raise(&event);
}

static void port_party(int rank, int type)
{
	party_open(rank, rank, 3, rank ? "device.name=fake1" : "device.name=fake0");
	party_pair(&party[rank], !rank, type);
	hartebeest_log_set(party[rank].hb, HARTEBEEST_LOG_INFO, logged_keep, NULL);
}

static int publish(struct party_member *member)
{
	return hartebeest_qp_publish(member->hb, member->pairs[0].qp, member->pairs[0].key, 0);
}

static int connect_again(struct party_member *member)
{
	return hartebeest_qp_connect(member->hb, member->pairs[0].qp, member->pairs[0].peer_key, 0);
}

static void confirm(void *data)
{
	struct party_member *member = data;

	member->ret = hartebeest_qp_confirm(member->hb, member->pairs[0].qp,
					    member->pairs[0].peer_key, 0);
	snprintf(member->error, sizeof(member->error), "%s", member->ret ? hartebeest_error() : "");
}

static void both_confirm(void)
{
	crew_start(confirm, &party[0]);
	crew_start(confirm, &party[1]);
	registry_run();
	all_came(2);
}

static void both_connect(void)
{
	assert_int_equal(publish(&party[0]), 0);
	assert_int_equal(publish(&party[1]), 0);
	assert_int_equal(connect_again(&party[1]), 0);
	assert_int_equal(connect_again(&party[0]), 0);
	both_confirm();
}

/* The peer has connected to the old one before this end connects. */
static void by_connect(void)
{
	assert_int_equal(publish(&party[0]), 0);
	assert_int_equal(publish(&party[1]), 0);
	assert_int_equal(connect_again(&party[1]), 0);
	assert_int_equal(attr_of(&party[1], 0).ah_attr.dlid, OLD_LID);
	port_changes();
	assert_int_equal(connect_again(&party[0]), 0);
	both_confirm();
}

/* Long after they were connected, the peer is started again. */
static void by_follow(void)
{
	both_connect();
	port_changes();
	party_kill(&party[1]);
	port_party(1, IBV_QPT_RC);
	assert_int_equal(publish(&party[1]), 0);
	assert_int_equal(connect_again(&party[1]), 0);
	assert_int_equal(attr_of(&party[1], 0).ah_attr.dlid, OLD_LID);
	assert_int_equal(hartebeest_qp_follow(party[0].hb, party[0].pairs[0].qp,
					      party[0].pairs[0].peer_key, NULL,
					      HARTEBEEST_ONCE), 1);
	both_confirm();
}

static void by_pairs(void)
{
	party[0].deadline = HARTEBEEST_ONCE;
	party_connect(&party[0]);
	assert_int_equal(party[0].ret, -EAGAIN);
	port_changes();
	party[0].deadline = 0;
	connected(2);
}

static void by_reconnect(void)
{
	both_connect();
	port_changes();
	assert_int_equal(hartebeest_qp_reset(party[0].hb, party[0].pairs[0].qp), 0);
	assert_int_equal(hartebeest_qp_reset(party[1].hb, party[1].pairs[0].qp), 0);
	assert_int_equal(connect_again(&party[0]), 0);
	assert_int_equal(hartebeest_qp_fetch(party[1].hb, party[1].pairs[0].peer_key, NULL, 0), 0);
	assert_int_equal(connect_again(&party[1]), 0);
	both_confirm();
}

/* Rank 1 has a port, too, which stays as it is. */
static void two_ports(int type)
{
	int rank;

	again();
	logged[0] = '\0';
	fake_verbs_infiniband();
	fake_verbs_add("fake1")->ports[0].lid = 9;
	for (rank = 0; rank < 2; rank++)
		port_party(rank, type);
}

static void a_port_that_changes(void **state)
{
	static void (*const ways[])(void) = { by_connect, by_follow, by_pairs, by_reconnect };
	struct ibv_qp_attr attr;
	size_t i;
	int rank;

	(void)state;
	for (i = 0; i < BEEST_COUNT(ways); i++) {
		two_ports(IBV_QPT_RC);
		ways[i]();
		for (rank = 0; rank < 2; rank++) {
			attr = attr_of(&party[rank], 0);
			assert_int_equal(attr.ah_attr.dlid, rank ? NEW_LID : 9);
			assert_int_equal(attr.path_mtu, IBV_MTU_1024);
			assert_int_equal(attr.qp_state, IBV_QPS_RTS);
		}
	}
}

/* Datagrams do not confirm: a peer has to find the record that is right. */
static void datagrams_publish(void)
{
	assert_int_equal(publish(&party[0]), 0);
}

static void datagrams_connect(void)
{
	assert_int_equal(connect_again(&party[0]), 0);
}

static void datagrams_pair(void)
{
	party[0].deadline = HARTEBEEST_ONCE;
	party_connect(&party[0]);
	assert_int_equal(party[0].ret, 0);
}

static void datagrams_of_a_port_that_changes(void **state)
{
	static void (*const ways[])(void) = {
		datagrams_publish, datagrams_connect, datagrams_pair,
	};
	struct hartebeest_remote_qp remote;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(ways); i++) {
		two_ports(IBV_QPT_UD);
		assert_int_equal(publish(&party[0]), 0);
		assert_int_equal(publish(&party[1]), 0);
		port_changes();
		ways[i]();
		assert_int_equal(hartebeest_qp_fetch(party[1].hb, party[1].pairs[0].peer_key,
						     &remote, 0), 0);
		assert_int_equal(remote.lid, NEW_LID);
	}
}

static void reconnect_alone(void *member)
{
	struct party_member *it = member;

	it->ret = hartebeest_qp_reconnect(it->hb, "q0-1", "1/0", crew_now() + BEEST_SECOND);
	snprintf(it->error, sizeof(it->error), "%s", hartebeest_error());
}

/*
 * One end cannot reconnect alone, and its sentence says so.  A peer that connects pairs follows by
 * itself, and one that is dead cannot.
 */
static void a_reconnection_that_nobody_answers(void **state)
{
	int i;

	(void)state;
	mesh(2);
	connected(2);
	for (i = 0; i < 2; i++) {
		crew_start(reconnect_alone, &party[0]);
		registry_run();
		assert_int_equal(party[0].ret, -ETIMEDOUT);
		assert_non_null(strstr(party[0].error, "this end began again, so the peer of "
				       "'q0-1' must reconnect (hartebeest_qp_reconnect()) or "
				       "follow (hartebeest_qp_follow(), "
				       "hartebeest_pairs_connect())"));
	}

	connected(2);
	for (i = 0; i < 2; i++) {
		assert_peer(&party[i], 0, &party[!i], 0);
		assert_int_equal(psn_expected(&party[i]), psn_sent(&party[!i]));
	}

	party_kill(&party[1]);
	crew_start(reconnect_alone, &party[0]);
	registry_run();
	assert_int_equal(party[0].ret, -ETIMEDOUT);
	assert_ptr_equal(strstr(party[0].error, "the peer of 'q0-1' was rank 1 on "),
			 party[0].error);
	assert_non_null(strstr(party[0].error, ", whose process is dead; only its successor can "
			       "connect to this end: queue pair 'q0-1' "));
	assert_null(strstr(party[0].error, "must reconnect"));
}

/*
 * A region of the dead process must not be used, however alive that one was: its replacement will
 * publish another.
 */
static void the_region_of_a_peer_that_was_replaced(void **state)
{
	static const int64_t pauses[] = { 0, 5 * BEEST_SECOND };
	struct hartebeest_remote_mr region;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(pauses); i++) {
		again();
		mesh(2);
		assert_int_equal(hartebeest_mr_publish(party[1].hb, "mr0", "buffer", 0), 0);
		connected(2);
		assert_int_equal(hartebeest_mr_fetch(party[0].hb, "buffer", &region, 0), 0);
		party_kill(&party[1]);
		registry_stage.now += pauses[i];
		party_pair(party_open(1, 1, 2, NULL), 0, IBV_QPT_RC);
		assert_int_equal(hartebeest_qp_publish(party[1].hb, "q1-0", "1/0", 0), 0);
		assert_int_equal(hartebeest_qp_follow(party[0].hb, "q0-1", "1/0", NULL,
						      HARTEBEEST_ONCE), 1);
		assert_int_equal(hartebeest_mr_fetch(party[0].hb, "buffer", &region,
						     HARTEBEEST_ONCE), -EAGAIN);
		assert_error_has("region 'buffer' (key hb1/job/mr/buffer) was published by a "
				 "process that is gone; its successor is rank 1 on ");
		assert_int_equal(hartebeest_mr_publish(party[1].hb, "mr0", "buffer", 0), 0);
		assert_int_equal(hartebeest_mr_fetch(party[0].hb, "buffer", &region, 0), 0);
	}
}

#define SCENE(test) cmocka_unit_test_setup_teardown(test, setup, party_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE(costs),
		SCENE(connected_is_said_at_once),
		SCENE(a_record_that_is_none),
		SCENE(a_peer_that_confirms_at_the_last_look),
		SCENE(a_failed_bringup_can_be_followed),
		SCENE(agreements_are_logged_once),
		SCENE(published_but_not_connected),
		SCENE(the_region_of_a_peer_that_was_replaced),
		SCENE(a_peer_that_has_closed),
		SCENE(a_peer_that_leaves),
		SCENE(an_end_that_refuses),
		SCENE(reads_of_the_whole_device),
		SCENE(no_reads),
		SCENE(a_peer_that_comes_and_goes),
		SCENE(one_that_cannot_be_connected),
		SCENE(at_once_or_not),
		SCENE(once_and_never),
		SCENE(one_key_of_two),
		SCENE(datagrams_of_a_peer_that_is_replaced),
		SCENE(datagrams_have_no_single_peer),
		SCENE(an_own_record_that_is_not_stored),
		SCENE(datagram_leftovers),
		SCENE(datagrams_at_once),
		SCENE(a_peer_of_itself),
		SCENE(an_offer_of_another_domain),
		SCENE(datagrams_that_offer_otherwise),
		SCENE(asking_again),
		SCENE(regions_of_a_fetched_peer),
		SCENE(rooms_and_offers),
		SCENE(an_offer_that_follows),
		SCENE(long_names),
		SCENE(nonsense),
		SCENE(structs_that_were_not_initialized),
		SCENE(the_context_of_a_parent),
		SCENE(a_longer_struct),
		SCENE(a_reconnection_that_nobody_answers),
		SCENE(a_port_that_changes),
		SCENE(datagrams_of_a_port_that_changes),
		SCENE(a_lost_address_is_not_published),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
