/* SPDX-License-Identifier: MIT */
/*
 * faults.c - failures on a real device, and the sentences about them
 *
 * Devices, ports, addresses and memory that do not exist; and requests that the peer refuses,
 * whose completions become sentences that name both ends.
 *
 * promise: hartebeest_qp(3)
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/live.h"
#include "tests/support/make.h"
#include "tests/support/unit.h"

#define SIZE 2000

/* -------------------------------------------------------- wrong settings --- */

struct wrong {
	const char *option;
	int err;
	const char *names;		/* the culprit, which the sentence names */
};

static const struct wrong wrong_rows[] = {
	{ "device.name=mlx99_7", -ENODEV, "mlx99_7" },
	{ "device.gid=index:99", -ENODATA, "99" },
	{ "device.gid=ip:192.0.2.7", -ENODATA, "192.0.2.7" },
	{ "device.gid=netdev:nothere0", -ENODATA, "nothere0" },
};

static int bring_up_to_init(struct hartebeest_context *hb)
{
	int ret;

	ret = hartebeest_pd_create(hb, "pd", NULL);
	if (ret == 0)
		ret = cq_make(hb, "cq", 0, 0, NULL);
	if (ret == 0)
		ret = qp_make(hb, "qp", "pd", IBV_QPT_RC, "cq", "cq", NULL);
	return ret < 0 ? ret : hartebeest_qp_init(hb, "qp");
}

static void wrong_settings(void **state)
{
	const char *options[] = { NULL, NULL };
	struct hartebeest_context *hb;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(wrong_rows); i++) {
		options[0] = wrong_rows[i].option;
		assert_int_equal(hartebeest_open(&hb, options), 0);
		assert_int_equal(bring_up_to_init(hb), wrong_rows[i].err);
		assert_non_null(strstr(hartebeest_error(), wrong_rows[i].names));
		hartebeest_close(hb);
	}
}

static void wrong_port(void **state)
{
	const char *options[] = { NULL, NULL };
	struct hartebeest_context *hb;
	char name[160], *colon;

	(void)state;
	snprintf(name, sizeof(name), "device.name=%s", ranks_port(0));
	colon = strrchr(name, ':');
	assert_non_null(colon);
	strcpy(colon, ":200");
	options[0] = name;
	assert_int_equal(hartebeest_open(&hb, options), 0);
	assert_int_equal(hartebeest_port_num(hb), -ENXIO);
	assert_non_null(strstr(hartebeest_error(), "200"));
	hartebeest_close(hb);
}

/* The objects made before a refusal still work after it. */
static void wrong_memory(void **state)
{
	void *readonly = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct hartebeest_context *hb;
	struct ibv_mr *mr;

	(void)state;
	assert_int_equal(hartebeest_open(&hb, NULL), 0);
	assert_int_equal(bring_up_to_init(hb), 0);
	assert_int_equal(mr_make_of(hb, "ro", "pd", readonly, 4096,
				    IBV_ACCESS_LOCAL_WRITE, NULL), -EFAULT);
	assert_non_null(strstr(hartebeest_error(), "'ro'"));
	assert_int_equal(mr_make(hb, "bad", "pd", 4096, IBV_ACCESS_REMOTE_WRITE,
				 NULL), -EINVAL);
	assert_non_null(strstr(hartebeest_error(), "IBV_ACCESS_LOCAL_WRITE"));
	assert_int_equal(hartebeest_mr_get(hb, "bad", &mr), -ENOENT);
	assert_int_equal(mr_make(hb, "good", "pd", 5000, LIVE_ACCESS, &mr), 0);
	assert_int_equal(mr->length, 5000);
	assert_int_equal((uintptr_t)mr->addr % 4096, 0);
	assert_int_equal(hartebeest_pd_destroy(hb, "pd"), -EBUSY);
	assert_int_equal(hartebeest_cq_destroy(hb, "cq"), -EBUSY);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	hartebeest_close(hb);
	munmap(readonly, 4096);
}

/* ------------------------------------------------------- refused requests --- */

struct refused {
	size_t offset;			/* added to the address of the peer's buffer */
	uint32_t rkey;			/* added to the correct rkey */
	bool small_receive;
	enum ibv_wc_status status;
	const char *says;
};

static const struct refused refused_rows[] = {
	{ 0, 0x100, false, IBV_WC_REM_ACCESS_ERR, "the peer's rkey does not cover" },
	{ LIVE_BUFFER, 0, false, IBV_WC_REM_ACCESS_ERR, "the peer's rkey does not cover" },
	{ 0, 0, true, IBV_WC_REM_OP_ERR, "receive buffer is too small" },
};

static int post_refused(struct live *live, const struct refused *refused)
{
	if (refused->small_receive)
		return hartebeest_post_send(live->qp, live->mr->addr, SIZE, live->mr->lkey, 51,
					    IBV_SEND_SIGNALED);
	return hartebeest_post_write(live->qp, live->mr->addr, SIZE, live->mr->lkey,
				     live->there.address + refused->offset,
				     live->there.rkey + refused->rkey, 51, IBV_SEND_SIGNALED);
}

static void expect_refusal(struct live *live, const struct refused *refused)
{
	struct ibv_wc wc;
	char text[768];

	live_await(live->cq, &wc);
	EXPECT(wc.status == refused->status);
	EXPECT(wc.wr_id == 51);
	EXPECT(hartebeest_completion_text(live->hb, &wc, text, sizeof(text)) >= 0);
	EXPECT(strstr(text, refused->says) != NULL);
	EXPECT(strstr(text, "request 51 of queue pair 'qp'") != NULL);
	EXPECT(strstr(text, "'rank-1'") != NULL);
	EXPECT(strstr(text, "rank 1)") != NULL);
	EXPECT(live_state(live) == IBV_QPS_ERR);
}

static int refused_rank(int rank, void *data)
{
	const struct refused *refused = data;
	struct live live;

	live_open(&live, rank, IBV_QPT_RC, NULL);
	if (refused->small_receive)
		EXPECT(hartebeest_post_recv(live.qp, live.mr->addr, 10, live.mr->lkey, 52) == 0);
	live_connect(&live);
	/* A refused request moves the peer to ERR, so the peer must have connected before. */
	EXPECT(hartebeest_barrier(live.hb, "connected", 0) == 0);
	if (rank == 0) {
		EXPECT(post_refused(&live, refused) == 0);
		expect_refusal(&live, refused);
	}
	live_close(&live);
	return 0;
}

static void refused_requests(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(refused_rows); i++)
		assert_int_equal(live_pair(refused_rank, (void *)&refused_rows[i]), 0);
}

/* Transports that differ are found before the queue pair leaves INIT. */
static int mismatch_rank(int rank, void *data)
{
	struct live live;

	(void)data;
	live_open(&live, rank, rank ? IBV_QPT_UC : IBV_QPT_RC, NULL);
	EXPECT(hartebeest_qp_publish(live.hb, "qp", live.me, 0) == 0);
	EXPECT(hartebeest_qp_fetch(live.hb, live.peer, NULL, 0) == 0);
	EXPECT(hartebeest_qp_connect(live.hb, "qp", live.peer, 0) == -EPROTOTYPE);
	EXPECT(strstr(hartebeest_error(), "RC") && strstr(hartebeest_error(), "UC"));
	EXPECT(live_state(&live) == IBV_QPS_INIT);
	live_close(&live);
	return 0;
}

static void mismatch(void **state)
{
	(void)state;
	assert_int_equal(live_pair(mismatch_rank, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_settings),
		cmocka_unit_test(wrong_port),
		cmocka_unit_test(wrong_memory),
		cmocka_unit_test(refused_requests),
		cmocka_unit_test(mismatch),
	};

	ranks_need_device();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
