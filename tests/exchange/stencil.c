/* SPDX-License-Identifier: MIT */
/*
 * stencil.c - 64 ranks, each with its four neighbours in one call, over a real memcached
 *
 * Ranks are threads with contexts of their own over the fake device.  They form a torus of
 * 8 x 8.  Each offers each neighbour two regions whose lengths identify the rank.
 *
 * promise: hartebeest_pairs(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"

#define SIDE 8
#define RANKS (SIDE * SIDE)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* A rank with all its neighbours inside the grid. */
#define CHOSEN 27

static struct cache *cache;
static char job[32];

/* The opposite of way k is (k + 2) % 4. */
static const int ways[4][2] = { { 0, 1 }, { 1, 0 }, { 0, -1 }, { -1, 0 } };

static struct rank {
	pthread_t thread;
	int number, ret;
	int64_t deadline;
	struct hartebeest_context *hb;
	struct hartebeest_pair pairs[4];
	struct hartebeest_remote_mr regions[4][2];
	struct ibv_qp *qp[4];
	char names[4][2][24];			/* own key, which is also the name; peer's key */
	char error[1024];
} ranks[RANKS];

static int neighbour(int rank, int way)
{
	int x = (rank % SIDE + ways[way][0] + SIDE) % SIDE;
	int y = (rank / SIDE + ways[way][1] + SIDE) % SIDE;

	return SIDE * y + x;
}

static size_t length_of(int rank, int region)
{
	return (size_t)(RANKS * region + rank + 1) * 4096;
}

static int rank_prepare(struct rank *rank)
{
	static const char *const offer[] = { "mr0", "mr1" };
	char servers[340], id[64], number[32];
	const char *options[] = {
		servers, id, number, "job.participants=0-63", "exchange.timeout=1h", NULL,
	};
	struct hartebeest_pair *pair;
	int i, ret;

	snprintf(servers, sizeof(servers), "exchange.servers=%s", cache_hostport(cache)->text);
	snprintf(id, sizeof(id), "job.id=%s", job);
	snprintf(number, sizeof(number), "job.rank=%d", rank->number);
	ret = hartebeest_open(&rank->hb, options) ||
	      hartebeest_pd_create(rank->hb, "pd", NULL) ||
	      cq_make(rank->hb, "cq", 0, 0, NULL) ||
	      mr_make(rank->hb, "mr0", "pd", length_of(rank->number, 0), ACCESS,
		      NULL) ||
	      mr_make(rank->hb, "mr1", "pd", length_of(rank->number, 1), ACCESS, NULL);
	for (i = 0; i < 4 && ret == 0; i++) {
		snprintf(rank->names[i][0], 24, "%d.%d", rank->number, i);
		snprintf(rank->names[i][1], 24, "%d.%d", neighbour(rank->number, i), (i + 2) % 4);
		ret = qp_make(rank->hb, rank->names[i][0], "pd", IBV_QPT_RC, "cq", "cq",
			      &rank->qp[i]);
		pair = &rank->pairs[i];
		hartebeest_pair_init(pair);
		pair->qp = pair->key = rank->names[i][0];
		pair->peer_key = rank->names[i][1];
		pair->offer = offer;
		pair->offer_count = 2;
		pair->regions = rank->regions[i];
		pair->region_room = 2;
	}

	return ret;
}

static void *rank_run(void *data)
{
	struct rank *rank = data;

	rank->ret = rank->hb ? 0 : rank_prepare(rank);
	if (rank->ret == 0)
		rank->ret = hartebeest_pairs_connect(rank->hb, rank->pairs, 4, rank->deadline);
	snprintf(rank->error, sizeof(rank->error), "%s", rank->ret ? hartebeest_error() : "");

	return NULL;
}

static void rank_start(int number, int64_t deadline)
{
	ranks[number].number = number;
	ranks[number].deadline = deadline;
	assert_int_equal(pthread_create(&ranks[number].thread, NULL, rank_run, &ranks[number]), 0);
}

static void rank_join(int number)
{
	assert_int_equal(pthread_join(ranks[number].thread, NULL), 0);
}

static int setup(void **state)
{
	static int count;

	(void)state;
	snprintf(job, sizeof(job), "stencil-%d", count++);
	memset(ranks, 0, sizeof(ranks));
	fake_verbs_reset();
	return 0;
}

static int teardown(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < RANKS; i++)
		hartebeest_close(ranks[i].hb);
	return fake_verbs.open;
}

/* ------------------------------------------------------------------------- helpers --- */

/* Each device was told of the other, and the regions are the peer's. */
static void assert_link(int number, int way)
{
	const struct rank *rank = &ranks[number], *peer = &ranks[neighbour(number, way)];
	const struct hartebeest_pair *pair = &rank->pairs[way];
	struct ibv_qp *there = peer->qp[(way + 2) % 4];

	if (pair->result)
		print_error("rank %d, way %d: %s\n", number, way, pair->reason);
	assert_int_equal(pair->result, 0);
	assert_string_equal(pair->reason, "");
	assert_int_equal(rank->qp[way]->state, IBV_QPS_RTS);
	assert_int_equal(pair->peer.rank, peer->number);
	assert_int_equal(pair->peer.qp_num, there->qp_num);
	assert_int_equal(pair->peer.psn, fake_verbs_last_modify(there)->attr.sq_psn);
	assert_int_equal(pair->region_count, 2);
	assert_int_equal(rank->regions[way][0].length, length_of(peer->number, 0));
	assert_int_equal(rank->regions[way][1].length, length_of(peer->number, 1));
}

static void assert_all_linked(void)
{
	int i, way;

	for (i = 0; i < RANKS; i++) {
		if (ranks[i].ret)
			print_error("rank %d: %s\n", i, ranks[i].error);
		assert_int_equal(ranks[i].ret, 0);
		for (way = 0; way < 4; way++)
			assert_link(i, way);
	}
}

/* --------------------------------------------------------------------------- tests --- */

static void all_come(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < RANKS; i++)
		rank_start(i, 0);
	for (i = 0; i < RANKS; i++)
		rank_join(i);
	assert_all_linked();
}

/* Are all links there except those to the missing rank? */
static bool others_are_linked(void)
{
	int i, way;

	for (i = 0; i < RANKS; i++)
		for (way = 0; way < 4 && i != CHOSEN; way++)
			if (neighbour(i, way) != CHOSEN && ranks[i].pairs[way].result)
				return false;
	return true;
}

/* The ranks call for a moment each, until only the links to the missing rank are missing. */
static void one_is_missing(void **state)
{
	const struct hartebeest_pair *pair;
	int i, way;

	(void)state;
	do {
		for (i = 0; i < RANKS; i++)
			if (i != CHOSEN)
				rank_start(i, hartebeest_clock() + 200000000);
		for (i = 0; i < RANKS; i++)
			if (i != CHOSEN)
				rank_join(i);
	} while (!others_are_linked());
	for (way = 0; way < 4; way++) {
		i = neighbour(CHOSEN, way);
		pair = &ranks[i].pairs[(way + 2) % 4];
		assert_int_equal(ranks[i].ret, -ETIMEDOUT);
		assert_int_equal(pair->result, -ETIMEDOUT);
		assert_non_null(strstr(pair->reason, " was published"));
		assert_non_null(strstr(ranks[i].error, pair->reason));
	}

	for (i = 0; i < RANKS; i++)		/* the rank came late: all call again */
		rank_start(i, 0);
	for (i = 0; i < RANKS; i++)
		rank_join(i);
	assert_all_linked();
}

/* The chosen rank as a process, which dies silently once all its neighbours are linked to it. */
static pid_t chosen_begin(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		ranks[CHOSEN].number = CHOSEN;
		rank_run(&ranks[CHOSEN]);
		_exit(ranks[CHOSEN].ret != 0);
	}
	return pid;
}

/* Ranks two steps away from the chosen one: until they come, its neighbours have to wait. */
static bool is_held(int number)
{
	int way;

	for (way = 0; way < 4; way++)
		if (number == neighbour(neighbour(CHOSEN, way), way))
			return true;
	return false;
}

static void one_is_replaced(void **state)
{
	int i, status;
	pid_t pid;

	(void)state;
	pid = chosen_begin();		/* before there are threads */
	assert_true(pid > 0);
	for (i = 0; i < RANKS; i++)
		if (i != CHOSEN && !is_held(i))
			rank_start(i, 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	rank_start(CHOSEN, 0);		/* its neighbours still wait for others */
	rank_join(CHOSEN);
	for (i = 0; i < RANKS; i++)
		if (is_held(i))
			rank_start(i, 0);
	for (i = 0; i < RANKS; i++)
		if (i != CHOSEN)
			rank_join(i);
	assert_all_linked();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_is_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(all_come, setup, teardown),
		cmocka_unit_test_setup_teardown(one_is_missing, setup, teardown),
	};
	int ret;

	surroundings_clear();
	cache_need();
	cache = cache_start(NULL);
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	cache_end(cache);
	return ret;
}
