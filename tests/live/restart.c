/* SPDX-License-Identifier: MIT */
/*
 * restart.c - leftovers, late ranks, failures and restarts on a real device
 *
 * Keys have no job id here, so the records that one process leaves get in the way of the next.
 *
 * promise: hartebeest_qp(3)
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/live.h"
#include "tests/support/memcached.h"
#include "tests/support/unit.h"

#define SIZE 3000

static void write_there(struct live *live, uint32_t rkey, struct ibv_wc *wc)
{
	EXPECT(hartebeest_post_write(live->qp, live->mr->addr, SIZE, live->mr->lkey,
				     live->there.address + LIVE_BUFFER / 4, rkey, 43,
				     IBV_SEND_SIGNALED) == 0);
	live_await(live->cq, wc);
}

/* ------------------------------------------------------------ leftovers --- */

static int leave_rank(int rank, void *data)
{
	struct live live;

	(void)data;
	live_begin(&live, rank);
	live_connect(&live);
	EXPECT(hartebeest_barrier(live.hb, "leaving", 0) == 0);
	_exit(0);		/* deletes no record, as if killed */
}

static int talk_rank(int rank, void *data)
{
	struct live live;

	(void)data;
	live_begin(&live, rank);
	live_connect(&live);
	live_talk(&live);
	live_close(&live);
	return 0;
}

#define LATE_MS (unit_whole() ? 1000 : 300)

/* Either rank may come late, after leftovers have misled the other one. */
static void leftovers(void **state)
{
	struct cache *cache = cache_start(NULL);
	struct ranks ranks = { .count = 2, .server = cache_hostport(cache)->text };

	(void)state;
	assert_int_equal(ranks_run(&ranks, leave_rank, NULL), 0);
	assert_int_equal(ranks_run(&ranks, talk_rank, NULL), 0);
	assert_int_equal(ranks_run(&ranks, leave_rank, NULL), 0);
	ranks.delay_ms[1] = LATE_MS;
	assert_int_equal(ranks_run(&ranks, talk_rank, NULL), 0);
	assert_int_equal(ranks_run(&ranks, leave_rank, NULL), 0);
	ranks.delay_ms[1] = 0;
	ranks.delay_ms[0] = LATE_MS;
	assert_int_equal(ranks_run(&ranks, talk_rank, NULL), 0);
	cache_end(cache);
}

/* ----------------------------------------------------------------- late --- */

static void late(int rank)
{
	struct cache *cache = cache_start(NULL);
	struct ranks ranks = { .count = 2, .server = cache_hostport(cache)->text };

	ranks.delay_ms[rank] = unit_whole() ? 5000 : 1500;
	assert_int_equal(ranks_run(&ranks, talk_rank, NULL), 0);
	cache_end(cache);
}

static void rank_0_late(void **state)
{
	(void)state;
	late(0);
}

static void rank_1_late(void **state)
{
	(void)state;
	late(1);
}

static int lonely_rank(int rank, void *data)
{
	static const char *const options[] = { "exchange.timeout=2s", NULL };
	struct hartebeest_remote_mr mr;
	struct live live;
	int64_t start;

	(void)data;
	if (rank == 1)
		return 0;
	live_open(&live, rank, IBV_QPT_RC, options);
	start = hartebeest_clock();
	EXPECT(UNTIL_ANSWERED(hartebeest_mr_fetch(live.hb, "nobody", &mr, 0)) == -ETIMEDOUT);
	EXPECT(strstr(hartebeest_error(), "nobody") != NULL);
	EXPECT(hartebeest_clock() - start >= INT64_C(2000000000));
	hartebeest_close(live.hb);
	return 0;
}

static void never(void **state)
{
	(void)state;
	assert_int_equal(live_pair(lonely_rank, NULL), 0);
}

/* -------------------------------------------------------------- failure --- */

/* A wrong rkey breaks both ends; both reconnect, and everything works again. */
static int broken_rank(int rank, void *data)
{
	struct ibv_wc wc;
	struct live live;
	char text[512];

	(void)data;
	live_begin(&live, rank);
	live_connect(&live);
	live_talk(&live);
	if (rank == 0) {
		write_there(&live, live.there.rkey + 0x100, &wc);
		EXPECT(wc.status == IBV_WC_REM_ACCESS_ERR);
		EXPECT(hartebeest_completion_text(live.hb, &wc, text, sizeof(text)) >= 0);
		EXPECT(strstr(text, "rkey") && strstr(text, "'rank-1'"));
		EXPECT(live_state(&live) == IBV_QPS_ERR);
	}
	EXPECT(hartebeest_barrier(live.hb, "broken", 0) == 0);
	EXPECT(hartebeest_qp_reconnect(live.hb, "qp", live.peer, 0) == 0);
	EXPECT(live_state(&live) == IBV_QPS_RTS);
	live_talk(&live);
	live_close(&live);
	return 0;
}

static void broken(void **state)
{
	(void)state;
	assert_int_equal(live_pair(broken_rank, NULL), 0);
}

static void first_life(void)
{
	pid_t pid = fork();
	struct live live;
	int status = -1;

	if (pid == 0) {
		live_begin(&live, 1);
		live_connect(&live);
		live_talk(&live);
		_exit(0);
	}
	EXPECT(waitpid(pid, &status, 0) == pid);
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Rank 1 dies and is started again; rank 0 notices and reconnects by name alone. */
static int restarted_rank(int rank, void *data)
{
	struct ibv_wc wc;
	struct live live;
	char text[512];

	(void)data;
	if (rank == 1)
		first_life();
	live_begin(&live, rank);
	live_connect(&live);
	if (rank == 0) {
		live_talk(&live);
		do {
			write_there(&live, live.there.rkey, &wc);
		} while (wc.status == IBV_WC_SUCCESS);
		EXPECT(wc.status == IBV_WC_RETRY_EXC_ERR);
		EXPECT(hartebeest_completion_text(live.hb, &wc, text, sizeof(text)) >= 0);
		EXPECT(strstr(text, "does not answer"));
		EXPECT(hartebeest_qp_reconnect(live.hb, "qp", live.peer, 0) == 0);
	}
	live_talk(&live);
	hartebeest_close(live.hb);
	return 0;
}

static void restarted(void **state)
{
	(void)state;
	assert_int_equal(live_pair(restarted_rank, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leftovers),
		cmocka_unit_test(rank_0_late),
		cmocka_unit_test(rank_1_late),
		cmocka_unit_test(never),
		cmocka_unit_test(broken),
		cmocka_unit_test(restarted),
	};

	ranks_need_device();
	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
