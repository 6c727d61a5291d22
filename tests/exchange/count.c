/* SPDX-License-Identifier: MIT */
/*
 * count.c - a real memcached counts the same as tests/exchange/cost does with fake servers
 *
 * It counts sets and adds, keys that were asked for, and items.  The library's clock runs a
 * thousand times slower here, so that nothing is done because time has passed.
 *
 * promise: hartebeest-exchange(7)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "hartebeest.h"
#include "lib/base/clock.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static int64_t begin;

static int64_t real_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * BEEST_SECOND + now.tv_nsec;
}

static int64_t slow_now(void)
{
	return begin + (real_now() - begin) / 1000;
}

static void short_sleep(int64_t instant)
{
	(void)instant;
	usleep(100);
}

static const struct beest_clock_source slow_clock = { slow_now, short_sleep };

static struct cache *cache;
static struct hartebeest_context *hb[2];
static void open_both(const char *job)
{
	char servers[340], id[64], rank[32];
	const char *options[] = { servers, id, rank, "job.participants=0,1", NULL };
	int i;

	snprintf(servers, sizeof(servers), "exchange.servers=%s", cache_hostport(cache)->text);
	snprintf(id, sizeof(id), "job.id=%s", job);
	for (i = 0; i < 2; i++) {
		snprintf(rank, sizeof(rank), "job.rank=%d", i);
		assert_int_equal(hartebeest_open(&hb[i], options), 0);
		assert_int_equal(hartebeest_pd_create(hb[i], "pd", NULL), 0);
		assert_int_equal(cq_make(hb[i], "cq", 0, 0, NULL), 0);
		assert_int_equal(mr_make(hb[i], "mr", "pd", 4096, ACCESS, NULL), 0);
		assert_int_equal(qp_make(hb[i], "qp", "pd", IBV_QPT_RC, "cq", "cq",
						      NULL), 0);
	}
}

static void close_both(void)
{
	hartebeest_close(hb[0]);
	hartebeest_close(hb[1]);
	hb[0] = hb[1] = NULL;
}

/* ------------------------------------------------------------------------- the steps --- */

static int mr_publish(void)
{
	return hartebeest_mr_publish(hb[0], "mr", "a", 0);
}

static int mr_publish_other(void)
{
	return hartebeest_mr_publish(hb[1], "mr", "b", 0);
}

static int qp_publish(void)
{
	return hartebeest_qp_publish(hb[0], "qp", "0", 0);
}

static int msg_push(void)
{
	return hartebeest_msg_push(hb[0], "m", "text", 4, 0);
}

static int msg_wait(void)
{
	char text[8];

	return hartebeest_msg_wait(hb[1], "m", text, sizeof(text), NULL, 0);
}

static int msg_delete(void)
{
	return hartebeest_msg_delete(hb[1], "m", 0);
}

static int qp_fetch(void)
{
	return hartebeest_qp_fetch(hb[1], "0", NULL, 0);
}

/* All look in turn, once each, until all have passed: so each run is the same. */
static int in_turns(int (*look)(int rank))
{
	int ret[2] = { -EAGAIN, -EAGAIN }, i, looks = 0;

	while ((ret[0] == -EAGAIN || ret[1] == -EAGAIN) && looks++ < 1000)
		for (i = 0; i < 2; i++)
			if (ret[i] == -EAGAIN)
				ret[i] = look(i);
	return ret[0] ? ret[0] : ret[1];
}

static int barrier_look(int rank)
{
	return hartebeest_barrier(hb[rank], "b", HARTEBEEST_ONCE);
}

static int gather_look(int rank)
{
	uint64_t value = (uint64_t)rank, all[2];

	return hartebeest_gather(hb[rank], "g", &value, sizeof(value), all, HARTEBEEST_ONCE);
}

static int barrier(void)
{
	return in_turns(barrier_look);
}

static int gather(void)
{
	return in_turns(gather_look);
}

static const struct step {
	const char *name;
	int (*take)(void);
	long sets, gets, items;
	/* So many more, where a look had no answer in time, as on a busy machine. */
	long more_sets, more_gets;
} steps[] = {
	{ "the first publication", mr_publish, 5, 3, 4, 0, 0 },
	{ "another process's", mr_publish_other, 5, 3, 7, 0, 0 },
	{ "mr_publish", mr_publish, 1, 2, 7, 0, 0 },
	{ "qp_publish", qp_publish, 1, 2, 8, 0, 0 },
	{ "the first message", msg_push, 1, 0, 9, 0, 0 },
	{ "msg_push", msg_push, 1, 0, 9, 0, 0 },
	{ "the first msg_wait", msg_wait, 0, 3, 9, 0, 0 },
	{ "msg_wait", msg_wait, 0, 2, 9, 0, 0 },
	{ "msg_delete", msg_delete, 0, 2, 8, 0, 0 },	/* may be one for one reader */
	{ "qp_fetch", qp_fetch, 0, 2, 8, 0, 0 },
	{ "the first barrier", barrier, 6, 51, 10, 2, 30 },
	{ "a later barrier", barrier, 2, 19, 10, 2, 30 },
	{ "the first gather", gather, 6, 51, 12, 2, 30 },
	{ "a later gather", gather, 4, 50, 12, 2, 30 },
};

/* What the server counted since @since.  A write without an answer may still be on its way. */
static void counted(const struct step *step, const char *name, long since, long expected,
		    long more)
{
	long count;
	int i;

	for (i = 0; i < 30000; i++) {
		count = cache_stat(cache, name) - since;
		if (count >= expected && count <= expected + more)
			return;
		usleep(1000);
	}
	fail_msg("%s: %s is %ld, not %ld", step->name, name, count, expected);
}

static void single_steps(void **state)
{
	long sets, gets, before = cache_stat(cache, "curr_items");
	size_t i;

	(void)state;
	open_both("job");
	for (i = 0; i < BEEST_COUNT(steps); i++) {
		sets = cache_stat(cache, "cmd_set");
		gets = cache_stat(cache, "cmd_get");
		if (steps[i].take() != 0)
			fail_msg("%s: %s", steps[i].name, hartebeest_error());
		counted(&steps[i], "cmd_set", sets, steps[i].sets, steps[i].more_sets);
		counted(&steps[i], "cmd_get", gets, steps[i].gets, steps[i].more_gets);
		counted(&steps[i], "curr_items", before, steps[i].items, 0);
	}
	close_both();
}

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	fake_verbs_reset();
	cache = cache_start(NULL);
	begin = real_now();
	beest_clock_source = &slow_clock;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close_both();
	cache_end(cache);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(single_steps, setup, teardown),
	};

	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
