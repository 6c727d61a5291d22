/* SPDX-License-Identifier: MIT */
/*
 * many.c - up to 64 queue pairs between two processes, each with its own data
 *
 * promise: hartebeest_qp(3)
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/live.h"
#include "tests/support/make.h"
#include "tests/support/unit.h"

#define PAIRS 64		/* in the long run; else a quarter */
#define SLICE 512

static struct {
	char name[32], me[32], peer[32];
	struct ibv_qp *qp;
} ends[PAIRS];

static void create_and_publish(struct live *live, int i)
{
	snprintf(ends[i].name, sizeof(ends[i].name), "qp-%d", i);
	snprintf(ends[i].me, sizeof(ends[i].me), "%d-of-%d", i, live->rank);
	snprintf(ends[i].peer, sizeof(ends[i].peer), "%d-of-%d", i, !live->rank);
	EXPECT(qp_make(live->hb, ends[i].name, "pd", IBV_QPT_RC, "cq", "cq",
				    &ends[i].qp) == 0);
	EXPECT(hartebeest_qp_publish(live->hb, ends[i].name, ends[i].me, 0) == 0);
}

static void connect_one(struct live *live, int i)
{
	EXPECT(hartebeest_qp_fetch(live->hb, ends[i].peer, NULL, 0) == 0);
	EXPECT(hartebeest_qp_connect(live->hb, ends[i].name, ends[i].peer, 0) == 0);
	EXPECT(hartebeest_qp_confirm(live->hb, ends[i].name, ends[i].peer, 0) == 0);
}

/* Queue pair @i, and no other, writes slice @i of the upper half of the peer's buffer. */
static void write_slice(struct live *live, int i)
{
	char *own = (char *)live->mr->addr + i * SLICE;
	struct ibv_wc wc;

	memset(own, i + 1 + 64 * live->rank, SLICE);
	EXPECT(hartebeest_post_write(ends[i].qp, own, SLICE, live->mr->lkey,
				     live->there.address + LIVE_BUFFER / 2 + i * SLICE,
				     live->there.rkey, 100 + i, IBV_SEND_SIGNALED) == 0);
	live_complete(live, 100 + i, &wc);
	EXPECT(wc.qp_num == ends[i].qp->qp_num);
}

static void check_slice(struct live *live, int i)
{
	const unsigned char *slice = (unsigned char *)live->mr->addr + LIVE_BUFFER / 2 +
				     i * SLICE;
	int byte;

	for (byte = 0; byte < SLICE; byte++)
		EXPECT(slice[byte] == (unsigned char)(i + 1 + 64 * !live->rank));
}

static int many_rank(int rank, void *data)
{
	struct live live;
	int64_t start = hartebeest_clock();
	int i, pairs = unit_whole() ? PAIRS : PAIRS / 4;

	(void)data;
	live_open(&live, rank, IBV_QPT_RC, NULL);
	live_connect(&live);
	for (i = 0; i < pairs; i++)
		create_and_publish(&live, i);
	for (i = 0; i < pairs; i++)
		connect_one(&live, i);
	printf("rank %d: %d queue pairs confirmed after %d ms\n", rank, pairs,
	       (int)((hartebeest_clock() - start) / 1000000));
	for (i = 0; i < pairs; i++)
		write_slice(&live, i);
	EXPECT(hartebeest_barrier(live.hb, "written", 0) == 0);
	for (i = 0; i < pairs; i++)
		check_slice(&live, i);
	live_close(&live);
	return 0;
}

static void many(void **state)
{
	(void)state;
	assert_int_equal(live_pair(many_rank, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many),
	};

	ranks_need_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
