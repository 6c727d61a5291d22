/* SPDX-License-Identifier: MIT */
/*
 * post.c - what the helpers of hartebeest-post.h pass to the device
 *
 * post-symbols.c includes this file, to test the exported symbols.
 *
 * promise: hartebeest_post(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <time.h>

#include <sys/syscall.h>
#include <unistd.h>

#include "hartebeest-post.h"
#include "tests/support/fake-verbs.h"

#define MS INT64_C(1000000)
#define REMOTE UINT64_C(0xfedcba9876543210)
#define RKEY 0x89abcdefU
#define LKEY 0xfedcba98U
#define WR_ID UINT64_C(0xf123456789abcdef)
#define FLAGS (IBV_SEND_SIGNALED | IBV_SEND_FENCE | IBV_SEND_SOLICITED)

static struct ibv_qp *qp;
static uint64_t memory[64];
static int64_t leap;		/* seconds by which the clock is ahead */

/* In place of libc's, for the library, too. */
int clock_gettime(clockid_t id, struct timespec *time)
{
	int ret = (int)syscall(SYS_clock_gettime, id, time);

	time->tv_sec += leap;
	return ret;
}

/* ------------------------------------------------------------- helpers --- */

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *verbs = ibv_open_device(list[0]);
	struct ibv_qp *made;

	ibv_free_device_list(list);
	memset(&attr, 0, sizeof(attr));
	attr.qp_type = type;
	attr.send_cq = ibv_create_cq(verbs, 16, NULL, NULL, 0);
	attr.recv_cq = ibv_create_cq(verbs, 16, NULL, NULL, 0);
	attr.cap.max_send_wr = attr.cap.max_recv_wr = 4;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	attr.cap.max_inline_data = 32;
	made = ibv_create_qp(ibv_alloc_pd(verbs), &attr);
	assert_non_null(made);
	fake_verbs_set_state(made, IBV_QPS_RTS);
	return made;
}

static int setup(void **state)
{
	size_t i;

	(void)state;
	fake_verbs_reset();
	for (i = 0; i < BEEST_COUNT(memory); i++)
		memory[i] = 0x0101010101010101 * i;
	qp = make_qp(IBV_QPT_RC);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	fake_verbs_reset();
	return 0;
}

/* Checks what all sends have in common, and returns the last one. */
static const struct fake_wr *sent(enum ibv_wr_opcode opcode, uint32_t length)
{
	const struct fake_wr *wr = fake_verbs_posted(0);

	assert_non_null(wr);
	assert_int_equal(fake_verbs.posted_count, 1);
	fake_verbs.posted_count = 0;
	assert_false(wr->receive);
	assert_int_equal(wr->qp_num, qp->qp_num);
	assert_int_equal(wr->send.wr_id, WR_ID);
	assert_null(wr->send.next);
	assert_int_equal(wr->send.opcode, opcode);
	assert_int_equal(wr->send.send_flags, FLAGS);
	assert_int_equal(wr->send.num_sge, length ? 1 : 0);
	if (length) {
		assert_int_equal(wr->sge[0].addr, (uintptr_t)memory);
		assert_int_equal(wr->sge[0].length, length);
		assert_int_equal(wr->sge[0].lkey, LKEY);
	}
	return wr;
}

static void to_remote(const struct fake_wr *wr)
{
	assert_int_equal(wr->send.wr.rdma.remote_addr, REMOTE);
	assert_int_equal(wr->send.wr.rdma.rkey, RKEY);
}

/* Immediate data is sent in network byte order, whatever that of the host. */
static void with_imm(const struct fake_wr *wr)
{
	static const uint8_t bytes[] = { 0xde, 0xad, 0xbe, 0xef };

	assert_memory_equal(&wr->send.imm_data, bytes, sizeof(bytes));
}

static const uint32_t lengths[] = { 0, 1, 8, 4096, 0x80000000U, UINT32_MAX };

/* ----------------------------------------------------------- every post --- */

static void post_write(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(lengths); i++) {
		assert_int_equal(hartebeest_post_write(qp, memory, lengths[i], LKEY, REMOTE, RKEY,
						       WR_ID, FLAGS), 0);
		to_remote(sent(IBV_WR_RDMA_WRITE, lengths[i]));
	}
}

static void post_read(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(lengths); i++) {
		assert_int_equal(hartebeest_post_read(qp, memory, lengths[i], LKEY, REMOTE, RKEY,
						      WR_ID, FLAGS), 0);
		to_remote(sent(IBV_WR_RDMA_READ, lengths[i]));
	}
}

static void post_write_imm(void **state)
{
	const struct fake_wr *wr;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(lengths); i++) {
		assert_int_equal(hartebeest_post_write_imm(qp, memory, lengths[i], LKEY, REMOTE,
							   RKEY, 0xdeadbeef, WR_ID, FLAGS), 0);
		wr = sent(IBV_WR_RDMA_WRITE_WITH_IMM, lengths[i]);
		to_remote(wr);
		with_imm(wr);
	}
}

static void post_rdma(void **state)
{
	(void)state;
	assert_int_equal(hartebeest_post_rdma(qp, IBV_WR_RDMA_READ, memory, 16, LKEY, REMOTE, RKEY,
					      WR_ID, FLAGS), 0);
	to_remote(sent(IBV_WR_RDMA_READ, 16));
	assert_int_equal(hartebeest_post_rdma(qp, IBV_WR_RDMA_WRITE, memory, 0, LKEY, REMOTE, RKEY,
					      WR_ID, FLAGS), 0);
	to_remote(sent(IBV_WR_RDMA_WRITE, 0));
}

static void post_send(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(lengths); i++) {
		assert_int_equal(hartebeest_post_send(qp, memory, lengths[i], LKEY, WR_ID, FLAGS),
				 0);
		sent(IBV_WR_SEND, lengths[i]);
	}
}

static void post_send_imm(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(lengths); i++) {
		assert_int_equal(hartebeest_post_send_imm(qp, memory, lengths[i], LKEY, 0xdeadbeef,
							  WR_ID, FLAGS), 0);
		with_imm(sent(IBV_WR_SEND_WITH_IMM, lengths[i]));
	}
}

static void post_send_ud(void **state)
{
	const struct fake_wr *wr;
	struct ibv_ah *ah;
	struct ibv_ah_attr attr;

	(void)state;
	qp = make_qp(IBV_QPT_UD);
	memset(&attr, 0, sizeof(attr));
	attr.port_num = attr.is_global = 1;
	attr.grh.dgid.raw[0] = 0xfe;
	ah = ibv_create_ah(qp->pd, &attr);
	assert_non_null(ah);

	assert_int_equal(hartebeest_post_send_ud(qp, memory, 24, LKEY, ah, 0xabcdef, 0x0badcafe,
						 WR_ID, FLAGS), 0);
	wr = sent(IBV_WR_SEND, 24);
	assert_ptr_equal(wr->send.wr.ud.ah, ah);
	assert_int_equal(wr->send.wr.ud.remote_qpn, 0xabcdef);
	assert_int_equal(wr->send.wr.ud.remote_qkey, 0x0badcafe);
	assert_int_equal(hartebeest_post_send_ud(qp, NULL, 0, 0, ah, 1, 2, WR_ID, FLAGS), 0);
	sent(IBV_WR_SEND, 0);
}

static void post_fetch_add(void **state)
{
	const struct fake_wr *wr;

	(void)state;
	assert_int_equal(hartebeest_post_fetch_add(qp, memory, LKEY, REMOTE, RKEY, UINT64_MAX,
						   WR_ID, FLAGS), 0);
	wr = sent(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
	assert_int_equal(wr->send.wr.atomic.remote_addr, REMOTE);
	assert_int_equal(wr->send.wr.atomic.rkey, RKEY);
	assert_int_equal(wr->send.wr.atomic.compare_add, UINT64_MAX);
	assert_int_equal(wr->send.wr.atomic.swap, 0);
}

static void post_compare_swap(void **state)
{
	const struct fake_wr *wr;

	(void)state;
	assert_int_equal(hartebeest_post_compare_swap(qp, memory, LKEY, REMOTE, RKEY, 17,
						      UINT64_C(1) << 63, WR_ID, FLAGS), 0);
	wr = sent(IBV_WR_ATOMIC_CMP_AND_SWP, 8);
	assert_int_equal(wr->send.wr.atomic.remote_addr, REMOTE);
	assert_int_equal(wr->send.wr.atomic.rkey, RKEY);
	assert_int_equal(wr->send.wr.atomic.compare_add, 17);
	assert_int_equal(wr->send.wr.atomic.swap, UINT64_C(1) << 63);
}

/* The request is the caller's; the helper sets only next, the elements and the data. */
static void post_wr(void **state)
{
	struct ibv_send_wr wr;

	(void)state;
	memset(&wr, 0, sizeof(wr));
	wr.wr_id = WR_ID;
	wr.opcode = IBV_WR_SEND_WITH_INV;
	wr.send_flags = FLAGS;
	wr.invalidate_rkey = RKEY;
	wr.next = &wr;
	wr.num_sge = 99;
	assert_int_equal(hartebeest_post_wr(qp, &wr, memory, 40, LKEY), 0);
	assert_int_equal(sent(IBV_WR_SEND_WITH_INV, 40)->send.invalidate_rkey, RKEY);
}

static void post_recv(void **state)
{
	const struct fake_wr *wr;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(lengths); i++) {
		assert_int_equal(hartebeest_post_recv(qp, memory, lengths[i], LKEY, WR_ID), 0);
		wr = fake_verbs_posted(0);
		assert_true(wr->receive);
		assert_int_equal(wr->qp_num, qp->qp_num);
		assert_int_equal(wr->recv.wr_id, WR_ID);
		assert_null(wr->recv.next);
		assert_int_equal(wr->recv.num_sge, lengths[i] ? 1 : 0);
		if (!lengths[i])
			continue;
		assert_int_equal(wr->sge[0].addr, (uintptr_t)memory);
		assert_int_equal(wr->sge[0].length, lengths[i]);
		assert_int_equal(wr->sge[0].lkey, LKEY);
	}
}

/* With IBV_SEND_INLINE, data is copied at once and lkey is ignored. */
static void post_inline(void **state)
{
	const struct fake_wr *wr;

	(void)state;
	assert_int_equal(hartebeest_post_write(qp, memory + 1, 16, 0, REMOTE, RKEY, WR_ID,
					       IBV_SEND_INLINE), 0);
	memset(memory, 0xff, sizeof(memory));
	wr = fake_verbs_posted(0);
	assert_int_equal(wr->byte_count, 16);
	assert_int_equal(wr->bytes[0], 1);
	assert_int_equal(wr->bytes[15], 2);
	assert_int_equal(wr->send.send_flags, IBV_SEND_INLINE);

	assert_int_equal(hartebeest_post_send(qp, memory, 32, 0, 1, IBV_SEND_INLINE), 0);
	assert_int_equal(hartebeest_post_send(qp, memory, 33, 0, 1, IBV_SEND_INLINE), -EINVAL);
	assert_int_equal(fake_verbs.posted_count, 2);
}

/* -------------------------------------------------------------- errors --- */

static int post_number(int i)
{
	switch (i) {
	case 0:	return hartebeest_post_write(qp, memory, 8, LKEY, REMOTE, RKEY, 1, 0);
	case 1:	return hartebeest_post_read(qp, memory, 8, LKEY, REMOTE, RKEY, 1, 0);
	case 2:	return hartebeest_post_write_imm(qp, memory, 8, LKEY, REMOTE, RKEY, 2, 1, 0);
	case 3:	return hartebeest_post_send(qp, memory, 8, LKEY, 1, 0);
	case 4:	return hartebeest_post_send_imm(qp, memory, 8, LKEY, 2, 1, 0);
	case 5:	return hartebeest_post_send_ud(qp, memory, 8, LKEY, NULL, 1, 2, 1, 0);
	case 6:	return hartebeest_post_fetch_add(qp, memory, LKEY, REMOTE, RKEY, 1, 1, 0);
	case 7:	return hartebeest_post_compare_swap(qp, memory, LKEY, REMOTE, RKEY, 1, 2, 1, 0);
	case 8:	return hartebeest_post_recv(qp, memory, 8, LKEY, 1);
	}
	return 1;
}

static void post_errors_are_negative(void **state)
{
	static const int errors[] = { ENOMEM, EINVAL, EIO, EOPNOTSUPP, 4095 };
	size_t e;
	int i;

	(void)state;
	for (e = 0; e < BEEST_COUNT(errors); e++)
		for (i = 0; i < 9; i++) {
			fake_verbs_fail(i == 8 ? "ibv_post_recv" : "ibv_post_send", 1, errors[e]);
			errno = 0;
			assert_int_equal(post_number(i), -errors[e]);
			assert_int_equal(post_number(i), 0);
		}
	assert_error_is("");		/* no sentence on the hot path */
}

static int minus_enomem(struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)to;
	*bad = wr;
	return -ENOMEM;
}

static int minus_one(struct ibv_qp *to, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)to;
	*bad = wr;
	return -1;
}

/* Some providers return a negative value: it is passed on. */
static void negative_provider(void **state)
{
	(void)state;
	qp->context->ops.post_send = minus_enomem;
	qp->context->ops.post_recv = minus_one;
	assert_int_equal(post_number(0), -ENOMEM);
	assert_int_equal(post_number(8), -1);
}

static void states_refuse(void **state)
{
	(void)state;
	fake_verbs_set_state(qp, IBV_QPS_RESET);
	assert_int_equal(post_number(8), -EINVAL);
	assert_int_equal(post_number(0), -EINVAL);
	fake_verbs_set_state(qp, IBV_QPS_INIT);
	assert_int_equal(post_number(8), 0);
	assert_int_equal(post_number(0), -EINVAL);
	fake_verbs_set_state(qp, IBV_QPS_RTR);
	assert_int_equal(post_number(0), -EINVAL);
}

/* ---------------------------------------------------------------- poll --- */

static void complete(uint64_t wr_id)
{
	struct ibv_wc wc;

	memset(&wc, 0, sizeof(wc));
	wc.wr_id = wr_id;
	wc.qp_num = qp->qp_num;
	fake_verbs_complete(qp->send_cq, &wc);
}

static void poll_takes_up_to_count(void **state)
{
	struct ibv_wc wc[8];
	int i;

	(void)state;
	assert_int_equal(hartebeest_poll(qp->send_cq, 8, wc), 0);
	for (i = 1; i <= 5; i++)
		complete((uint64_t)i);
	assert_int_equal(hartebeest_poll(qp->recv_cq, 8, wc), 0);
	assert_int_equal(hartebeest_poll(qp->send_cq, 0, wc), 0);
	assert_int_equal(hartebeest_poll(qp->send_cq, 3, wc), 3);
	assert_int_equal(wc[0].wr_id, 1);
	assert_int_equal(wc[2].wr_id, 3);
	assert_int_equal(hartebeest_poll(qp->send_cq, 8, wc), 2);
	assert_int_equal(wc[0].wr_id, 4);
	assert_int_equal(hartebeest_poll(qp->send_cq, 8, wc), 0);
}

/* ibv_poll_cq(3) only says "negative". */
static void poll_of_a_broken_queue(void **state)
{
	struct ibv_wc wc;

	(void)state;
	fake_verbs_fail("ibv_poll_cq", 1, 1);
	assert_int_equal(hartebeest_poll(qp->send_cq, 1, &wc), -EIO);
	fake_verbs_fail("ibv_poll_cq", 1, ENOMEM);
	assert_int_equal(hartebeest_poll(qp->send_cq, 1, &wc), -EIO);
	fake_verbs_fail("ibv_poll_cq", 70, ENOMEM);
	assert_int_equal(hartebeest_poll_until(qp->send_cq, 1, &wc, INT64_MAX), -EIO);
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void clock_is_the_monotonic_one(void **state)
{
	int64_t before = now(), clock = hartebeest_clock(), after = now();

	(void)state;
	assert_true(before <= clock && clock <= after);
}

static void poll_until_the_deadline(void **state)
{
	int64_t start = hartebeest_clock(), end;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(hartebeest_poll_until(qp->send_cq, 1, &wc, start + 20 * MS), -ETIMEDOUT);
	end = hartebeest_clock();
	assert_true(end - start >= 20 * MS);
	assert_true(end - start < 2000 * MS);	/* generous: valgrind, busy machine */
}

/* Polls once even if the deadline has passed. */
static void poll_until_looks_at_least_once(void **state)
{
	static const struct { int64_t deadline; int empty; } rows[] = {
		{ 1, -ETIMEDOUT }, { HARTEBEEST_ONCE, -EAGAIN },
	};
	struct ibv_wc wc[4];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		assert_int_equal(hartebeest_poll_until(qp->send_cq, 4, wc, rows[i].deadline),
				 rows[i].empty);
		complete(1);
		complete(2);
		assert_int_equal(hartebeest_poll_until(qp->send_cq, 4, wc, rows[i].deadline), 2);
		assert_int_equal(wc[1].wr_id, 2);
	}
	assert_int_equal(hartebeest_poll_until(qp->send_cq, 4, wc, INT64_MIN), -EINVAL);
}

static void leap_late(const char *function)
{
	if (strcmp(function, "ibv_poll_cq") == 0)
		leap = fake_verbs_calls(function) >= 2000 ? 31 :
		       fake_verbs_calls(function) >= 1000 ? 29 : 0;
}

/* 30 seconds, as that of a context. */
static void poll_until_the_default(void **state)
{
	struct ibv_wc wc;

	(void)state;
	fake_verbs.hook = leap_late;
	assert_int_equal(hartebeest_poll_until(qp->send_cq, 1, &wc, HARTEBEEST_DEFAULT),
			 -ETIMEDOUT);
	assert_in_range(fake_verbs_calls("ibv_poll_cq"), 2000, 2063);
	leap = 0;
}

static void complete_late(const char *function)
{
	if (strcmp(function, "ibv_poll_cq") == 0 && fake_verbs_calls(function) == 1000)
		complete(77);
}

static void poll_until_it_comes(void **state)
{
	struct ibv_wc wc[2];

	(void)state;
	fake_verbs.hook = complete_late;
	assert_int_equal(hartebeest_poll_until(qp->send_cq, 2, wc, HARTEBEEST_FOREVER), 1);
	assert_int_equal(wc[0].wr_id, 77);
	assert_int_equal(fake_verbs_calls("ibv_poll_cq"), 1001);
}

static void imm_there_and_back(void **state)
{
	static const uint32_t values[] = { 0, 1, 0x01020304, 0xdeadbeef, UINT32_MAX };
	struct ibv_wc wc;
	size_t i;

	(void)state;
	memset(&wc, 0, sizeof(wc));
	memcpy(&wc.imm_data, "\x01\x02\x03\x04", 4);
	assert_int_equal(hartebeest_wc_imm(&wc), 0x01020304);
	for (i = 0; i < BEEST_COUNT(values); i++) {
		assert_int_equal(hartebeest_post_send_imm(qp, NULL, 0, 0, values[i], 0, 0), 0);
		wc.imm_data = fake_verbs_posted(0)->send.imm_data;
		assert_int_equal(hartebeest_wc_imm(&wc), values[i]);
	}
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(post_write),
		TEST(post_read),
		TEST(post_write_imm),
		TEST(post_rdma),
		TEST(post_send),
		TEST(post_send_imm),
		TEST(post_send_ud),
		TEST(post_fetch_add),
		TEST(post_compare_swap),
		TEST(post_wr),
		TEST(post_recv),
		TEST(post_inline),
		TEST(post_errors_are_negative),
		TEST(negative_provider),
		TEST(states_refuse),
		TEST(poll_takes_up_to_count),
		TEST(poll_of_a_broken_queue),
		TEST(clock_is_the_monotonic_one),
		TEST(poll_until_the_deadline),
		TEST(poll_until_looks_at_least_once),
		TEST(poll_until_the_default),
		TEST(poll_until_it_comes),
		TEST(imm_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
