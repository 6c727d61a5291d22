/* SPDX-License-Identifier: MIT */
/*
 * slow.c - a server, or the way to it, that is slow: all calls succeed, over one connection a rank
 *
 * Counts connections and bytes, and no time: what a slow server adds to a bring-up is its own.
 *
 * promise: hartebeest(7)
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hartebeest.h"
#include "hartebeest-mesh.h"
#include "lib/base/clock.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/rank.h"
#include "tests/support/slow.h"
#include "tests/support/unit.h"

#define RANKS 4
#define MESSAGE (24 * 1024)
#define MUCH (300 * BEEST_SECOND)
#define PATIENCE (3 * BEEST_SECOND)	/* of a request, see lib/rendezvous/pace.c */
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct slow slow;
static int64_t finished;	/* steps that ranks have ended; atomic */

struct rank {
	struct hartebeest_context *hb;
	int number, ret;
	pthread_t thread;
	const char *step;
	char error[1024];
};

static const char *name_of(const char *kind, int a, int b)
{
	static __thread char names[8][32];
	static __thread unsigned int turn;
	char *name = names[turn++ % 8];

	snprintf(name, 32, "%s%d-%d", kind, a, b);
	return name;
}

/* ----------------------------------------------------------------------- what ranks do --- */

static int make(struct rank *rank)
{
	int ret = hartebeest_pd_create(rank->hb, "pd", NULL);

	if (ret == 0)
		ret = cq_make(rank->hb, "cq", 64, 0, NULL);
	return ret < 0 ? ret : mr_make(rank->hb, "mr", "pd", 4096, ACCESS, NULL);
}

static int messages(struct rank *rank)
{
	char *text = calloc(1, MESSAGE);
	size_t length;
	int i, ret;

	memset(text, 'a' + rank->number, MESSAGE);
	ret = hartebeest_msg_push(rank->hb, name_of("m", rank->number, 0), text, MESSAGE, 0);
	for (i = 0; i < RANKS && ret == 0; i++) {
		ret = hartebeest_msg_wait(rank->hb, name_of("m", i, 0), text, MESSAGE, &length, 0);
		if (ret == 0 && (length != MESSAGE || text[0] != 'a' + i ||
				 text[MESSAGE - 1] != 'a' + i))
			ret = -EBADMSG;
	}
	free(text);
	return ret;
}

static int barrier(struct rank *rank)
{
	return hartebeest_barrier(rank->hb, "b", 0);
}

static int gather(struct rank *rank)
{
	int32_t all[RANKS], i, ret;

	ret = hartebeest_gather(rank->hb, "g", &rank->number, sizeof(rank->number), all, 0);
	for (i = 0; i < RANKS && ret == 0; i++)
		ret = all[i] == i ? 0 : -EBADMSG;
	return ret;
}

static int pairs(struct rank *rank)
{
	struct hartebeest_pair pair[RANKS];
	size_t count = 0;
	int i, ret = 0;

	for (i = 0; i < RANKS && ret == 0; i++) {
		if (i == rank->number)
			continue;
		hartebeest_pair_init(&pair[count]);
		pair[count].qp = pair[count].key = strdup(name_of("q", rank->number, i));
		pair[count].peer_key = strdup(name_of("q", i, rank->number));
		ret = qp_make(rank->hb, pair[count].qp, "pd", IBV_QPT_RC, "cq", "cq", NULL);
		count++;
	}
	if (ret == 0)
		ret = hartebeest_pairs_connect(rank->hb, pair, count, 0);
	while (count--) {
		ret = ret == 0 ? pair[count].result : ret;
		free((char *)pair[count].qp);
		free((char *)pair[count].peer_key);
	}
	return ret;
}

static int mesh(struct rank *rank)
{
	static const char *const offer[] = { "mr" };
	struct hartebeest_mesh *mesh;
	struct hartebeest_mesh_attr attr;

	hartebeest_mesh_attr_init(&attr);
	attr.pd = "pd";
	attr.cq = "cq";
	attr.regions = offer;
	attr.region_count = 1;
	return hartebeest_mesh_connect(rank->hb, "mesh", &attr, &mesh, 0);
}

static int service(struct rank *rank)
{
	int ret;

	if (rank->number == 0)
		ret = hartebeest_service_listen(rank->hb, "s", 0);
	else
		ret = hartebeest_counter_add(rank->hb, "c", 1, &(uint64_t){ 0 }, 0);
	return ret;
}

static const struct step {
	const char *name;
	int (*run)(struct rank *rank);
} steps[] = {
	{ "make", make }, { "messages", messages }, { "barrier", barrier }, { "gather", gather },
	{ "pairs", pairs }, { "mesh", mesh }, { "service", service },
};

static void *rank_run(void *data)
{
	struct rank *rank = data;
	size_t i;

	for (i = 0; i < BEEST_COUNT(steps) && rank->ret == 0; i++) {
		rank->step = steps[i].name;
		rank->ret = steps[i].run(rank);
		__atomic_add_fetch(&finished, rank->ret == 0, __ATOMIC_RELAXED);
	}
	snprintf(rank->error, sizeof(rank->error), "%s", hartebeest_error());
	return NULL;
}

/* --------------------------------------------------------------------------------- rows --- */

static const struct row {
	const char *name;
	struct slow slow;
} rows[] = {
	{ "quick", { .delay = 0 } },
	{ "answers after 1.5 s", { .delay = 1500 * BEEST_MS } },
	{ "gives 64 KiB a second", { .rate = 64 * 1024 } },
};

static void all_calls_succeed(void **state)
{
	static const char *const nothing[] = { NULL };
	struct rank ranks[RANKS];
	const struct row *row = *state;
	struct cache *cache = cache_start(nothing);
	struct rank_settings settings = { .job = "slow", .size = RANKS, .timeout = "1h" };
	int i, gone = 0;

	fake_verbs_reset();
	finished = 0;
	slow = row->slow;
	slow.cache = cache;
	slow_start(&slow);
	settings.servers = slow.endpoint.text;
	for (i = 0; i < RANKS; i++) {
		ranks[i] = (struct rank){ .number = i };
		settings.rank = i;
		assert_int_equal(rank_open(&ranks[i].hb, &settings), 0);
	}
	for (i = 0; i < RANKS; i++)
		pthread_create(&ranks[i].thread, NULL, rank_run, &ranks[i]);
	for (i = 0; i < RANKS; i++)
		pthread_join(ranks[i].thread, NULL);
	for (i = 0; i < RANKS; i++)
		if (ranks[i].ret)
			print_error("rank %d, %s: %d, %s\n", i, ranks[i].step, ranks[i].ret,
				    ranks[i].error);
	assert_int_equal(finished, RANKS * BEEST_COUNT(steps));
	print_message("%s: %d connections, %lld bytes, %lld ms\n", row->name,
		      slow_accepted(&slow), (long long)slow_bytes(&slow),
		      (long long)(slow_longest(&slow) / BEEST_MS));
	/* on a machine that is too busy to answer within that, more may be right */
	assert_true(slow_accepted(&slow) <= RANKS || slow_longest(&slow) > PATIENCE);
	/* what is slow is asked less often */
	assert_true(slow_bytes(&slow) <= 8 * RANKS * RANKS * MESSAGE ||
		    (!row->slow.delay && !row->slow.rate));
	/* a slow server, too, gets what says that a rank has left */
	for (i = 1; i < RANKS; i++)
		hartebeest_close(ranks[i].hb);
	for (i = 1; i < RANKS; i++)
		gone += hartebeest_qp_follow(ranks[0].hb, name_of("q", 0, i), name_of("q", i, 0),
					     NULL, hartebeest_clock() + MUCH) == -ESHUTDOWN;
	assert_true(gone == RANKS - 1 || slow_longest(&slow) > PATIENCE);
	hartebeest_close(ranks[0].hb);
	slow_end(&slow);
	cache_end(cache);
}

/* ------------------------------------------------------------------------ large packets --- */

/* As a path does whose MTU nobody told the hosts: small packets pass. */
static void large_packets_that_vanish(void **state)
{
	static const char *const nothing[] = { NULL };
	static char text[5000];
	struct cache *cache = cache_start(nothing);
	struct rank_settings settings = { .job = "large", .size = 2 };
	struct hartebeest_context *hb;
	int ret, tries = 0;

	(void)state;
	slow = (struct slow){ .cache = cache, .largest = 1400 };
	slow_start(&slow);
	settings.servers = slow.endpoint.text;
	assert_int_equal(rank_open(&hb, &settings), 0);
	assert_int_equal(hartebeest_msg_push(hb, "small", "x", 1, 0), 0);
	/* On a busy machine, the small question that follows the failure may get no answer. */
	do
		ret = hartebeest_msg_push(hb, "large", text, sizeof(text),
					  hartebeest_clock() + 8 * BEEST_SECOND);
	while (strstr(hartebeest_error(), ": no answer") && tries++ < 5);
	if (ret != -EHOSTDOWN ||
	    !strstr(hartebeest_error(), "answers small requests, but not this one (50"))
		fail_msg("%s", hartebeest_error());
	assert_non_null(strstr(hartebeest_error(), "large packets are lost on the way (path MTU)"));
	assert_int_equal(hartebeest_msg_push(hb, "small", "y", 1, 0), 0);
	hartebeest_close(hb);
	slow_end(&slow);
	cache_end(cache);
}

/* A deadline that comes before the answers: the sentence tells a slow server from a silent one. */
static void a_deadline_at_a_slow_server(void **state)
{
	static const char *const nothing[] = { NULL };
	struct cache *cache = cache_start(nothing);
	struct rank_settings settings = { .job = "late", .size = 2 };
	struct hartebeest_context *hb;
	int ret;

	(void)state;
	slow = (struct slow){ .cache = cache, .delay = 300 * BEEST_MS };
	slow_start(&slow);
	settings.servers = slow.endpoint.text;
	assert_int_equal(rank_open(&hb, &settings), 0);
	ret = hartebeest_msg_wait(hb, "never", NULL, 0, NULL,
				  hartebeest_clock() + 5 * BEEST_SECOND);
	/* on a machine that is too busy for an answer within that, another sentence may be right */
	if (slow_longest(&slow) < BEEST_SECOND &&
	    (ret != -ETIMEDOUT || !strstr(hartebeest_error(), " answers slowly: 0.0 MB in ") ||
	     !strstr(hartebeest_error(), ", and 2 ranks ask it") ||
	     strstr(hartebeest_error(), "silent")))
		fail_msg("%d: %s", ret, hartebeest_error());
	hartebeest_close(hb);
	slow_end(&slow);
	cache_end(cache);
}

/* No look of a quarter of a second is ever answered, but a program that goes on is. */
static void polls_of_a_slow_server(void **state)
{
	static const char *const nothing[] = { NULL };
	const int64_t end = hartebeest_clock() + MUCH;
	struct cache *cache = cache_start(nothing);
	struct rank_settings settings = { .job = "polls", .size = 2 };
	struct hartebeest_context *hb;
	int ret;

	(void)state;
	slow = (struct slow){ .cache = cache, .delay = 350 * BEEST_MS };
	slow_start(&slow);
	settings.servers = slow.endpoint.text;
	assert_int_equal(rank_open(&hb, &settings), 0);
	do
		ret = hartebeest_msg_push(hb, "word", "x", 1, HARTEBEEST_ONCE);
	while (ret == -EAGAIN && hartebeest_clock() < end);
	/* on a machine that is too busy for three answers within 2 s, none may come */
	if (ret < 0 && (ret != -EAGAIN || slow_longest(&slow) < BEEST_SECOND / 2))
		fail_msg("%d: %s", ret, hartebeest_error());
	hartebeest_close(hb);
	slow_end(&slow);
	cache_end(cache);
}

int main(void)
{
	struct CMUnitTest tests[BEEST_COUNT(rows) + 3] = {
		[BEEST_COUNT(rows)] = cmocka_unit_test(large_packets_that_vanish),
		cmocka_unit_test(a_deadline_at_a_slow_server),
		cmocka_unit_test(polls_of_a_slow_server),
	};
	size_t i;

	cache_need();
	for (i = 0; i < BEEST_COUNT(rows); i++)
		tests[i] = (struct CMUnitTest){
			.name = rows[i].name, .test_func = all_calls_succeed,
			.initial_state = (void *)&rows[i],
		};

	return cmocka_run_group_tests_name("exchange/slow", tests, NULL, NULL);
}
