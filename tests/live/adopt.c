/* SPDX-License-Identifier: MIT */
/*
 * adopt.c - a program makes all objects by its own verbs calls, and connects them by name
 *
 * promise: hartebeest_adopt(3)
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/live.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/unit.h"

#define SIZE 4096

/* The objects that the program itself makes. */
struct own {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char memory[2 * SIZE];		/* own bytes, then those that the peer writes */
};

static struct own own;			/* each rank is a process */

/* Uses ibv_create_qp_ex() where the provider has it, otherwise ibv_create_qp(). */
static struct ibv_qp *create_qp(bool shared)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC, .send_cq = own.cq, .recv_cq = own.cq,
		.srq = shared ? own.srq : NULL,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = own.pd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(own.verbs, &attr);

	return qp ? qp : ibv_create_qp(own.pd, (struct ibv_qp_init_attr *)(void *)&attr);
}

static void own_make(int rank, struct ibv_context *verbs, bool shared)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };

	own.verbs = verbs;
	EXPECT((own.pd = ibv_alloc_pd(verbs)));
	EXPECT((own.channel = ibv_create_comp_channel(verbs)));
	EXPECT((own.cq = ibv_create_cq(verbs, 64, &own, own.channel, 0)));
	EXPECT((own.srq = ibv_create_srq(own.pd, &attr)));
	EXPECT((own.mr = ibv_reg_mr(own.pd, own.memory, sizeof(own.memory), LIVE_ACCESS)));
	EXPECT((own.qp = create_qp(shared)));
	live_fill(own.memory, rank, SIZE);
}

/* The kernel would refuse these calls if the library had destroyed an object, or still used it. */
static void own_destroy(void)
{
	EXPECT(ibv_destroy_qp(own.qp) == 0);
	EXPECT(ibv_dereg_mr(own.mr) == 0);
	EXPECT(ibv_destroy_srq(own.srq) == 0);
	EXPECT(ibv_destroy_cq(own.cq) == 0);
	EXPECT(ibv_destroy_comp_channel(own.channel) == 0);
	EXPECT(ibv_dealloc_pd(own.pd) == 0);
}

static struct ibv_context *open_first_active(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **each;
	struct ibv_context *verbs = NULL;
	struct ibv_port_attr attr;

	for (each = list; each && *each && !verbs; each++) {
		verbs = ibv_open_device(*each);
		if (verbs && ibv_query_port(verbs, 1, &attr) == 0 &&
		    attr.state == IBV_PORT_ACTIVE)
			break;
		if (verbs)
			ibv_close_device(verbs);
		verbs = NULL;
	}
	ibv_free_device_list(list);
	EXPECT(verbs);
	return verbs;
}

static enum ibv_qp_state own_state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	EXPECT(ibv_query_qp(own.qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}

static void completes(struct hartebeest_context *hb, uint64_t wr_id)
{
	char text[512];
	struct ibv_wc wc;

	live_await(own.cq, &wc);
	EXPECT(hartebeest_completion_text(hb, &wc, text, sizeof(text)) >= 0);
	if (wc.status != IBV_WC_SUCCESS)
		fprintf(stderr, "%s\n", text);
	EXPECT(strstr(text, "queue pair 'mine'"));
	EXPECT(wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id);
}

static void connect_and_write(struct hartebeest_context *hb, int rank, const char *name)
{
	static const char *const offer[] = { "region" };
	struct hartebeest_remote_mr there;
	struct hartebeest_pair pair;

	hartebeest_pair_init(&pair);
	pair.qp = "mine";
	pair.key = rank ? "right" : "left";
	pair.peer_key = rank ? "left" : "right";
	pair.offer = offer;
	pair.offer_count = 1;
	pair.regions = &there;
	pair.region_room = 1;
	EXPECT(hartebeest_pairs_connect(hb, &pair, 1, 0) == 0);
	EXPECT(pair.region_count == 1);
	EXPECT(own_state() == IBV_QPS_RTS);
	EXPECT(hartebeest_post_write(own.qp, own.memory, SIZE, own.mr->lkey,
				     there.address + SIZE, there.rkey, 5,
				     IBV_SEND_SIGNALED) == 0);
	completes(hb, 5);
	EXPECT(hartebeest_barrier(hb, name, 0) == 0);
	EXPECT(live_is(own.memory + SIZE, !rank, SIZE));
}

static void adopt(struct hartebeest_context *hb)
{
	EXPECT(hartebeest_mr_adopt(hb, "region", own.mr, LIVE_ACCESS) == 0);
	EXPECT(hartebeest_qp_adopt(hb, "mine", own.qp) == 0);
}

/* Connects by name and reconnects; close leaves the program's objects alone. */
static int own_rank(int rank, void *data)
{
	struct ibv_context *verbs = open_first_active();
	struct hartebeest_context *hb;

	(void)data;
	own_make(rank, verbs, false);
	EXPECT(hartebeest_open_verbs(&hb, NULL, verbs, 0) == 0);
	adopt(hb);
	EXPECT(own_state() == IBV_QPS_RESET);
	connect_and_write(hb, rank, "written");
	EXPECT(hartebeest_qp_reconnect(hb, "mine", rank ? "left" : "right", 0) == 0);
	EXPECT(own_state() == IBV_QPS_RTS);
	memset(own.memory + SIZE, 0, SIZE);	/* before the peer writes again */
	EXPECT(hartebeest_barrier(hb, "reconnected", 0) == 0);
	connect_and_write(hb, rank, "again");
	EXPECT(hartebeest_close(hb) == 0);
	EXPECT(own_state() == IBV_QPS_RTS);
	own_destroy();
	EXPECT(ibv_close_device(verbs) == 0);
	return 0;
}

/* The library must keep the program's INIT, access flags and posted receives. */
static int init_rank(int rank, void *data)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_context *verbs = open_first_active();
	struct ibv_qp_init_attr init;
	struct hartebeest_context *hb;

	(void)data;
	own_make(rank, verbs, false);
	EXPECT(ibv_modify_qp(own.qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
			     IBV_QP_ACCESS_FLAGS) == 0);
	EXPECT(hartebeest_post_recv(own.qp, own.memory + SIZE, SIZE, own.mr->lkey, 7) == 0);
	EXPECT(hartebeest_open_verbs(&hb, NULL, verbs, 1) == 0);
	EXPECT(hartebeest_qp_adopt(hb, "mine", own.qp) == 0);
	EXPECT(hartebeest_qp_publish(hb, "mine", rank ? "right" : "left", 0) == 0);
	EXPECT(hartebeest_qp_fetch(hb, rank ? "left" : "right", NULL, 0) == 0);
	EXPECT(hartebeest_qp_connect(hb, "mine", rank ? "left" : "right", 0) == 0);
	EXPECT(hartebeest_qp_confirm(hb, "mine", rank ? "left" : "right", 0) == 0);
	EXPECT(ibv_query_qp(own.qp, &attr, IBV_QP_ACCESS_FLAGS, &init) == 0);
	EXPECT(attr.qp_access_flags == IBV_ACCESS_REMOTE_WRITE);
	EXPECT(hartebeest_post_send(own.qp, own.memory, SIZE, own.mr->lkey, 8, 0) == 0);
	completes(hb, 7);
	EXPECT(live_is(own.memory + SIZE, !rank, SIZE));
	EXPECT(hartebeest_barrier(hb, "received", 0) == 0);
	EXPECT(hartebeest_qp_destroy(hb, "mine") == 0);
	EXPECT(own_state() == IBV_QPS_RTS);
	EXPECT(hartebeest_close(hb) == 0);
	own_destroy();
	EXPECT(ibv_close_device(verbs) == 0);
	return 0;
}

/* Uses the device that the library opened: objects still adopted at close keep it open. */
static int mixed_rank(int rank, void *data)
{
	struct ibv_context *verbs;
	struct hartebeest_context *hb;
	bool gives_back = data != NULL;

	EXPECT(hartebeest_open(&hb, NULL) == 0);
	EXPECT(hartebeest_verbs(hb, &verbs) == 0);
	own_make(rank, verbs, true);
	adopt(hb);
	EXPECT(hartebeest_srq_adopt(hb, "receives", own.srq) == 0);
	EXPECT(hartebeest_post_srq_recv(own.srq, own.memory, 64, own.mr->lkey, 1) == 0);
	connect_and_write(hb, rank, "written");
	if (gives_back) {
		EXPECT(hartebeest_qp_destroy(hb, "mine") == 0);
		EXPECT(hartebeest_mr_destroy(hb, "region") == 0);
		EXPECT(hartebeest_srq_destroy(hb, "receives") == 0);
		own_destroy();
		EXPECT(hartebeest_close(hb) == 0);
		return 0;
	}
	EXPECT(hartebeest_close(hb) == -EBUSY);
	EXPECT(strstr(hartebeest_error(), "queue pair 'mine' is adopted"));
	EXPECT(own_state() == IBV_QPS_RTS);
	own_destroy();
	EXPECT(ibv_close_device(verbs) == 0);
	return 0;
}

/* The program's queue pair uses objects of the context, and is never adopted. */
static int foreign_rank(int rank, void *data)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct hartebeest_context *hb;
	struct ibv_pd *pd;
	struct ibv_qp *qp;

	(void)rank, (void)data;
	EXPECT(hartebeest_open(&hb, NULL) == 0);
	EXPECT(hartebeest_pd_create(hb, "pd", &pd) == 0);
	EXPECT(cq_make(hb, "cq", 0, 0, &attr.send_cq) == 0);
	attr.recv_cq = attr.send_cq;
	EXPECT((qp = ibv_create_qp(pd, &attr)));
	EXPECT(hartebeest_close(hb) == -EBUSY);
	EXPECT(strstr(hartebeest_error(), "completion queue 'cq' is still in use; protection "
		      "domain 'pd' is still in use"));
	EXPECT(ibv_destroy_qp(qp) == 0);
	EXPECT(ibv_destroy_cq(attr.send_cq) == 0);
	EXPECT(ibv_dealloc_pd(pd) == 0);
	return 0;
}

static void own_objects(void **state)
{
	(void)state;
	assert_int_equal(live_pair(own_rank, NULL), 0);
}

static void own_init(void **state)
{
	(void)state;
	assert_int_equal(live_pair(init_rank, NULL), 0);
}

static void given_back(void **state)
{
	(void)state;
	assert_int_equal(live_pair(mixed_rank, &own), 0);
}

static void not_given_back(void **state)
{
	(void)state;
	assert_int_equal(live_pair(mixed_rank, NULL), 0);
}

static void never_adopted(void **state)
{
	(void)state;
	assert_int_equal(live_pair(foreign_rank, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(own_objects),
		cmocka_unit_test(own_init),
		cmocka_unit_test(given_back),
		cmocka_unit_test(not_given_back),
		cmocka_unit_test(never_adopted),
	};

	ranks_need_device();
	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
