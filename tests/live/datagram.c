/* SPDX-License-Identifier: MIT */
/*
 * datagram.c - UC and UD on a real device, with data both ways
 *
 * promise: hartebeest_qp(3)
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/live.h"
#include "tests/support/unit.h"

#define OWN 0
#define LANDED 16384
#define SIZE 5000
#define UD_SIZE 900		/* one packet: at most the path MTU */
#define GRH 40			/* bytes before the data that a UD queue pair receives */

static char *part(const struct live *live, size_t offset)
{
	return (char *)live->mr->addr + offset;
}

static int uc_rank(int rank, void *data)
{
	struct ibv_wc wc;
	struct live live;

	(void)data;
	live_open(&live, rank, IBV_QPT_UC, NULL);
	live_fill(part(&live, OWN), rank, SIZE);
	EXPECT(hartebeest_post_recv(live.qp, part(&live, 0), 0, 0, 31) == 0);
	live_connect(&live);

	/* The immediate value tells the other end that all data has arrived. */
	EXPECT(hartebeest_post_write_imm(live.qp, part(&live, OWN), SIZE, live.mr->lkey,
					 live.there.address + LANDED, live.there.rkey, 77, 32,
					 0) == 0);
	live_complete(&live, 31, &wc);
	EXPECT(hartebeest_wc_imm(&wc) == 77);
	EXPECT(live_is(part(&live, LANDED), !rank, SIZE));
	live_close(&live);
	return 0;
}

static int uc_send_rank(int rank, void *data)
{
	struct ibv_wc wc;
	struct live live;

	(void)data;
	live_open(&live, rank, IBV_QPT_UC, NULL);
	live_fill(part(&live, OWN), rank, SIZE);
	EXPECT(hartebeest_post_recv(live.qp, part(&live, LANDED), SIZE, live.mr->lkey,
				    33) == 0);
	live_connect(&live);
	EXPECT(hartebeest_post_send(live.qp, part(&live, OWN), SIZE, live.mr->lkey, 34, 0) == 0);
	live_complete(&live, 33, &wc);
	EXPECT(wc.byte_len == SIZE);
	EXPECT(live_is(part(&live, LANDED), !rank, SIZE));
	live_close(&live);
	return 0;
}

static int ud_rank(int rank, void *data)
{
	struct hartebeest_ud_address address;
	struct ibv_wc wc;
	struct live live;

	(void)data;
	live_open(&live, rank, IBV_QPT_UD, NULL);
	live_fill(part(&live, OWN), rank, UD_SIZE);
	EXPECT(hartebeest_post_recv(live.qp, part(&live, LANDED), GRH + UD_SIZE,
				    live.mr->lkey, 35) == 0);
	EXPECT(hartebeest_qp_ud_address(live.hb, "qp", live.peer, &address) == -ENOTCONN);
	live_connect(&live);
	EXPECT(hartebeest_qp_ud_address(live.hb, "qp", live.peer, &address) == 0);
	EXPECT(hartebeest_post_send_ud(live.qp, part(&live, OWN), UD_SIZE, live.mr->lkey,
				       address.ah, address.qp_num, address.qkey, 36, 0) == 0);
	live_complete(&live, 35, &wc);
	EXPECT(wc.byte_len == GRH + UD_SIZE);
	EXPECT(wc.src_qp == address.qp_num);
	EXPECT(live_is(part(&live, LANDED) + GRH, !rank, UD_SIZE));
	EXPECT(hartebeest_qp_confirm(live.hb, "qp", live.peer, 0) == -EOPNOTSUPP);
	live_close(&live);
	return 0;
}

static void run_pair(void **state)
{
	int (*const *function)(int rank, void *data) = *state;

	assert_int_equal(live_pair(*function, NULL), 0);
}

static int (*const functions[])(int rank, void *data) = { uc_rank, uc_send_rank, ud_rank };

#define PAIR(index, what) { what, run_pair, NULL, NULL, (void *)&functions[index] }

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR(0, "UC: write with immediate value"),
		PAIR(1, "UC: send and receive"),
		PAIR(2, "UD: send and receive"),
	};

	ranks_need_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
