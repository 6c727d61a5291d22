/* SPDX-License-Identifier: MIT */
/*
 * rc.c - reliable connections on a real device: every operation, both ways
 *
 * Checks the contents of memory after each operation, and reads back from the device the
 * attributes on which both ends agreed.
 *
 * promise: hartebeest_qp(3), hartebeest_post(3)
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/live.h"
#include "tests/support/unit.h"

/* Offsets in the buffer. */
#define OWN 0
#define LANDED 16384		/* written or sent by the peer */
#define FETCHED 32768		/* read from the peer */
#define WORDS 49152		/* for atomics */
#define SIZE 10000		/* several packets, not a multiple of the MTU */

static char *part(const struct live *live, size_t offset)
{
	return (char *)live->mr->addr + offset;
}

static void post_landing(struct live *live, uint64_t wr_id)
{
	EXPECT(hartebeest_post_recv(live->qp, part(live, LANDED), SIZE, live->mr->lkey,
				    wr_id) == 0);
}

static void begin(struct live *live, int rank)
{
	live_open(live, rank, IBV_QPT_RC, NULL);
	live_fill(part(live, OWN), rank, SIZE);
}

/* ----------------------------------------------------------- one-sided --- */

static int write_rank(int rank, void *data)
{
	struct ibv_wc wc;
	struct live live;

	(void)data;
	begin(&live, rank);
	live_connect(&live);
	EXPECT(hartebeest_post_write(live.qp, part(&live, OWN), SIZE, live.mr->lkey,
				     live.there.address + LANDED, live.there.rkey, 11,
				     IBV_SEND_SIGNALED) == 0);
	live_complete(&live, 11, &wc);
	EXPECT(hartebeest_barrier(live.hb, "written", 0) == 0);
	EXPECT(live_is(part(&live, LANDED), !rank, SIZE));
	EXPECT(part(&live, LANDED)[SIZE] == 0);
	live_close(&live);
	return 0;
}

static int inline_rank(int rank, void *data)
{
	struct ibv_qp_cap cap;
	struct ibv_wc wc;
	struct live live;
	char bytes[64];

	(void)data;
	begin(&live, rank);
	live_connect(&live);
	EXPECT(hartebeest_qp_cap(live.hb, "qp", &cap) == 0);
	EXPECT(cap.max_inline_data >= sizeof(bytes));
	EXPECT(cap.max_send_wr >= 128);
	live_fill(bytes, rank, sizeof(bytes));
	EXPECT(hartebeest_post_write(live.qp, bytes, sizeof(bytes), 0,
				     live.there.address + LANDED, live.there.rkey, 12,
				     IBV_SEND_SIGNALED | IBV_SEND_INLINE) == 0);
	memset(bytes, 0, sizeof(bytes));	/* inline data was copied by the call */
	live_complete(&live, 12, &wc);
	EXPECT(hartebeest_barrier(live.hb, "written", 0) == 0);
	EXPECT(live_is(part(&live, LANDED), !rank, sizeof(bytes)));
	live_close(&live);
	return 0;
}

static int read_rank(int rank, void *data)
{
	struct ibv_wc wc;
	struct live live;

	(void)data;
	begin(&live, rank);
	live_connect(&live);
	EXPECT(hartebeest_post_read(live.qp, part(&live, FETCHED), SIZE, live.mr->lkey,
				    live.there.address + OWN, live.there.rkey, 13,
				    IBV_SEND_SIGNALED) == 0);
	live_complete(&live, 13, &wc);
	EXPECT(live_is(part(&live, FETCHED), !rank, SIZE));
	live_close(&live);
	return 0;
}

/* Each rank adds to a word of the other rank, then swaps it. */
static int atomic_rank(int rank, void *data)
{
	struct ibv_wc wc;
	struct live live;
	uint64_t *words;

	(void)data;
	begin(&live, rank);
	words = (uint64_t *)part(&live, WORDS);
	words[0] = 1000 + (uint64_t)rank;
	live_connect(&live);
	EXPECT(hartebeest_post_fetch_add(live.qp, &words[1], live.mr->lkey,
					 live.there.address + WORDS, live.there.rkey, 7, 14,
					 IBV_SEND_SIGNALED) == 0);
	live_complete(&live, 14, &wc);
	EXPECT(words[1] == 1000 + (uint64_t)!rank);
	EXPECT(hartebeest_barrier(live.hb, "added", 0) == 0);
	EXPECT(words[0] == 1007 + (uint64_t)rank);
	EXPECT(hartebeest_barrier(live.hb, "looked", 0) == 0);	/* before it changes again */

	EXPECT(hartebeest_post_compare_swap(live.qp, &words[1], live.mr->lkey,
					    live.there.address + WORDS, live.there.rkey,
					    1007 + (uint64_t)!rank, 5, 15,
					    IBV_SEND_SIGNALED) == 0);
	live_complete(&live, 15, &wc);
	EXPECT(words[1] == 1007 + (uint64_t)!rank);
	EXPECT(hartebeest_barrier(live.hb, "swapped", 0) == 0);
	EXPECT(words[0] == 5);

	/* A comparison that fails stores nothing, and returns the current value. */
	EXPECT(hartebeest_post_compare_swap(live.qp, &words[1], live.mr->lkey,
					    live.there.address + WORDS, live.there.rkey, 6, 9,
					    16, IBV_SEND_SIGNALED) == 0);
	live_complete(&live, 16, &wc);
	EXPECT(words[1] == 5);
	EXPECT(hartebeest_barrier(live.hb, "kept", 0) == 0);
	EXPECT(words[0] == 5);
	live_close(&live);
	return 0;
}

/* ----------------------------------------------------------- two-sided --- */

static int send_rank(int rank, void *data)
{
	struct ibv_wc wc;
	struct live live;

	(void)data;
	begin(&live, rank);
	post_landing(&live, 21);
	live_connect(&live);
	EXPECT(hartebeest_post_send(live.qp, part(&live, OWN), SIZE, live.mr->lkey, 22, 0) == 0);
	live_complete(&live, 21, &wc);
	EXPECT(wc.opcode == IBV_WC_RECV);
	EXPECT(wc.byte_len == SIZE);
	EXPECT(live_is(part(&live, LANDED), !rank, SIZE));
	live_close(&live);
	return 0;
}

static int imm_rank(int rank, void *data)
{
	struct ibv_wc wc;
	struct live live;

	(void)data;
	begin(&live, rank);
	post_landing(&live, 23);
	post_landing(&live, 24);
	live_connect(&live);
	EXPECT(hartebeest_post_send_imm(live.qp, part(&live, OWN), 100, live.mr->lkey,
					0xcafe0000u + (uint32_t)rank, 25, 0) == 0);
	live_complete(&live, 23, &wc);
	EXPECT(wc.wc_flags & IBV_WC_WITH_IMM);
	EXPECT(hartebeest_wc_imm(&wc) == 0xcafe0000u + (uint32_t)!rank);
	EXPECT(live_is(part(&live, LANDED), !rank, 100));

	EXPECT(hartebeest_post_write_imm(live.qp, part(&live, OWN), SIZE, live.mr->lkey,
					 live.there.address + FETCHED, live.there.rkey,
					 0xbeef0000u + (uint32_t)rank, 26, 0) == 0);
	live_complete(&live, 24, &wc);
	EXPECT(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT(hartebeest_wc_imm(&wc) == 0xbeef0000u + (uint32_t)!rank);
	EXPECT(live_is(part(&live, FETCHED), !rank, SIZE));
	live_close(&live);
	return 0;
}

/* ----------------------------------------------------------- agreement --- */

static int agreed_rank(int rank, void *data)
{
	static const char *const options[2][4] = {
		{ "qp_attr.path_mtu=2", "qp_attr.max_rd_atomic=9", "qp_attr.rc:timeout=15", NULL },
		{ "qp_attr.max_dest_rd_atomic=4", "qp_attr.retry_cnt=5", NULL },
	};
	struct hartebeest_remote_qp remote;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct live live;

	(void)data;
	live_open(&live, rank, 0, options[rank]);
	live_connect(&live);
	EXPECT(hartebeest_qp_fetch(live.hb, live.peer, &remote, 0) == 0);
	EXPECT(ibv_query_qp(live.qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			    IBV_QP_RQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT |
			    IBV_QP_AV, &init) == 0);
	EXPECT(attr.path_mtu == IBV_MTU_512);
	EXPECT(attr.dest_qp_num == remote.qp_num);
	EXPECT(attr.rq_psn == remote.psn);
	EXPECT(attr.timeout == (rank == 0 ? 15 : 14));
	EXPECT(attr.retry_cnt == (rank == 0 ? 7 : 5));
	EXPECT(rank == 1 || attr.max_rd_atomic == 4);	/* rxe rounds up to a power of 2 */
	EXPECT(remote.rank == !rank);
	EXPECT(remote.qp_type == IBV_QPT_RC);
	live_close(&live);
	return 0;
}

/* Runs one of the functions above as a cmocka test. */
static void run_pair(void **state)
{
	int (*const *function)(int rank, void *data) = *state;

	assert_int_equal(live_pair(*function, NULL), 0);
}

static int (*const functions[])(int rank, void *data) = {
	write_rank, inline_rank, read_rank, atomic_rank, send_rank, imm_rank, agreed_rank,
};

#define PAIR(index, what) { what, run_pair, NULL, NULL, (void *)&functions[index] }

int main(void)
{
	const struct CMUnitTest tests[] = {
		PAIR(0, "write"),
		PAIR(1, "inline write"),
		PAIR(2, "read"),
		PAIR(3, "fetch-add and compare-swap"),
		PAIR(4, "send and receive"),
		PAIR(5, "immediate values"),
		PAIR(6, "what was agreed, read back from the device"),
	};

	ranks_need_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
