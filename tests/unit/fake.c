/* SPDX-License-Identifier: MIT */
/*
 * fake.c - the fake verbs layer refuses what the kernel refuses
 *
 * Other tests rely on it, so its rules are stated here a second time, by the tables of
 * ibv_modify_qp(3).
 */
#include "config.h"

#include <errno.h>
#include <ifaddrs.h>
#include <sys/socket.h>
#include <stdio.h>

#include "tests/support/fake-verbs.h"
#include "tests/support/unit.h"

static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct ibv_cq *cq;

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[0]);

	ibv_free_device_list(list);
	return context;
}

static int open_all(void **state)
{
	(void)state;
	fake_verbs_reset();
	verbs = open_first();
	pd = ibv_alloc_pd(verbs);
	cq = ibv_create_cq(verbs, 16, NULL, NULL, 0);
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	return ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || ibv_close_device(verbs) ||
	       fake_verbs.open;
}

#define OPENED(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)

static struct ibv_qp *new_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = type,
		.cap = { .max_send_wr = 10, .max_recv_wr = 10, .max_send_sge = 1,
			 .max_recv_sge = 1, .max_inline_data = 64 },
	};

	return ibv_create_qp(pd, &attr);
}

/* Values that satisfy every rule. */
static struct ibv_qp_attr good_attr(enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {
		.qp_state = state, .cur_qp_state = IBV_QPS_RTR, .port_num = 1,
		.path_mtu = IBV_MTU_1024, .dest_qp_num = 5, .timeout = 14,
		.max_rd_atomic = 1, .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 3 } },
	};
	uint8_t peer[16] = { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2 };

	memcpy(attr.ah_attr.grh.dgid.raw, peer, sizeof(peer));
	return attr;
}

/* -------------------------------------------------------------- masks --- */

#define BITS 26

static const struct step {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
	int required, optional;
} steps[] = {
	{ IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT,
	  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
	  IBV_QP_MAX_QP_RD_ATOMIC,
	  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
	  IBV_QP_PATH_MIG_STATE },
	{ IBV_QPT_UC, IBV_QPS_RESET, IBV_QPS_INIT,
	  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0 },
	{ IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPT_UC, IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_STATE | IBV_QP_SQ_PSN,
	  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE },
	{ IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT,
	  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0 },
	{ IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_STATE, IBV_QP_PKEY_INDEX | IBV_QP_QKEY },
	{ IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_STATE | IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY },
};

static const struct step *step_from(enum ibv_qp_type type, enum ibv_qp_state from)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(steps); i++)
		if (steps[i].type == type && steps[i].from == from)
			return &steps[i];

	fail();
	return NULL;
}

static int go(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr attr = good_attr(to);

	return ibv_modify_qp(qp, &attr, mask);
}

static struct ibv_qp *qp_in(enum ibv_qp_type type, enum ibv_qp_state state)
{
	struct ibv_qp *qp = new_qp(type);
	const struct step *step;

	while (qp->state != state) {
		step = step_from(type, qp->state);
		assert_int_equal(go(qp, step->to, step->required), 0);
	}
	return qp;
}

static void try_mask(const struct step *step, int mask, int wanted)
{
	struct ibv_qp *qp = qp_in(step->type, step->from);

	assert_int_equal(go(qp, step->to, mask), wanted);
	assert_int_equal(qp->state, wanted ? step->from : step->to);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void test_masks(void **state)
{
	const struct step *step;
	int bit;

	(void)state;
	for (step = steps; step < steps + BEEST_COUNT(steps); step++)
		for (bit = 1; bit < 1 << BITS; bit <<= 1) {
			if (step->required == bit)
				continue;	/* UD to RTR: an empty mask changes nothing */
			if (step->required & bit)
				try_mask(step, step->required & ~bit, EINVAL);
			else
				try_mask(step, step->required | bit,
					 step->optional & bit ? 0 : EINVAL);
		}
}

/* Every state can go to ERR and RESET with the state alone, except RESET to ERR. */
static void test_reset_and_error(void **state)
{
	static const enum ibv_qp_type all[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct ibv_qp *qp;
	int from, to;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(all); i++)
		for (from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++)
			for (to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to += IBV_QPS_ERR) {
				qp = new_qp(all[i]);
				fake_verbs_set_state(qp, (enum ibv_qp_state)from);
				assert_int_equal(go(qp, (enum ibv_qp_state)to, IBV_QP_STATE),
						 from == IBV_QPS_RESET && to == IBV_QPS_ERR ?
						 EINVAL : 0);
				ibv_destroy_qp(qp);
			}
}

static void test_no_short_cut(void **state)
{
	struct ibv_qp *qp = new_qp(IBV_QPT_RC);
	const struct step *init = step_from(IBV_QPT_RC, IBV_QPS_RESET);
	const struct step *rtr = step_from(IBV_QPT_RC, IBV_QPS_INIT);

	(void)state;
	assert_int_equal(go(qp, IBV_QPS_RTR, rtr->required), EINVAL);
	assert_int_equal(go(qp, IBV_QPS_RTS, IBV_QP_STATE), EINVAL);
	fake_verbs_set_state(qp, IBV_QPS_ERR);
	assert_int_equal(go(qp, IBV_QPS_INIT, init->required), EINVAL);
	assert_int_equal(go(qp, IBV_QPS_RESET, IBV_QP_STATE), 0);
	assert_int_equal(go(qp, IBV_QPS_INIT, init->required), 0);
	assert_int_equal(go(qp, IBV_QPS_INIT, init->required), 0);	/* INIT again */
	ibv_destroy_qp(qp);
}

/* ------------------------------------------------------------- values --- */

static struct ibv_qp_attr attr;
static const int to_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
static const int to_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
static const int to_rts = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

/* Changes one of the good values, and expects the error @wanted. */
#define REFUSED(qp, to, mask, change, wanted)				\
	do {								\
		attr = good_attr(to);					\
		change;							\
		assert_int_equal(ibv_modify_qp(qp, &attr, mask), wanted);	\
	} while (0)

static void test_values_of_init(void **state)
{
	struct ibv_qp *qp = new_qp(IBV_QPT_RC);

	(void)state;
	REFUSED(qp, IBV_QPS_INIT, to_init, attr.port_num = 0, EINVAL);
	REFUSED(qp, IBV_QPS_INIT, to_init, attr.port_num = 2, EINVAL);
	REFUSED(qp, IBV_QPS_INIT, to_init, attr.pkey_index = 1, EINVAL);
	REFUSED(qp, IBV_QPS_INIT, to_init, attr.pkey_index = 0, 0);
	ibv_destroy_qp(qp);
}

static void test_values_of_rtr(void **state)
{
	struct ibv_qp *qp = qp_in(IBV_QPT_RC, IBV_QPS_INIT);

	(void)state;
	fake_verbs.devices[0].attr.phys_port_cnt = 2;
	fake_verbs.devices[0].ports[1] = fake_verbs.devices[0].ports[0];
	fake_verbs.devices[0].ports[0].gids[4].error = EINVAL;
	fake_verbs.devices[0].ports[0].gids[5].gid = "::ffff:10.0.0.9";
	fake_verbs.devices[0].ports[0].gids[5].ah_error = ENETUNREACH;

	REFUSED(qp, IBV_QPS_RTR, to_rtr, attr.ah_attr.port_num = 2, EINVAL);
	REFUSED(qp, IBV_QPS_RTR, to_rtr, attr.ah_attr.is_global = 0, EINVAL);
	REFUSED(qp, IBV_QPS_RTR, to_rtr, attr.ah_attr.grh.sgid_index = 4, ENODEV);
	REFUSED(qp, IBV_QPS_RTR, to_rtr, attr.ah_attr.grh.sgid_index = 5, ENETUNREACH);
	REFUSED(qp, IBV_QPS_RTR, to_rtr, attr.ah_attr.grh.sgid_index = 7, ENODATA);
	REFUSED(qp, IBV_QPS_RTR, to_rtr, attr.ah_attr.grh.sgid_index = 200, ENODATA);
	REFUSED(qp, IBV_QPS_RTR, to_rtr, attr.ah_attr.grh.sgid_index = 0, EINVAL);
	REFUSED(qp, IBV_QPS_RTR, to_rtr, memset(&attr.ah_attr.grh.dgid, 0, 16), EINVAL);
	REFUSED(qp, IBV_QPS_RTR, to_rtr, attr.path_mtu = (enum ibv_mtu)0, EINVAL);
	REFUSED(qp, IBV_QPS_RTR, to_rtr, attr.path_mtu = (enum ibv_mtu)6, EINVAL);
	REFUSED(qp, IBV_QPS_RTR, to_rtr, attr.max_dest_rd_atomic = 17, EINVAL);
	REFUSED(qp, IBV_QPS_RTR, to_rtr, attr.rq_psn = 0x1ffffff, 0);
	ibv_destroy_qp(qp);
}

static void test_values_of_rts(void **state)
{
	struct ibv_qp *qp = qp_in(IBV_QPT_RC, IBV_QPS_RTR);

	(void)state;
	REFUSED(qp, IBV_QPS_RTS, to_rts, attr.max_rd_atomic = 17, EINVAL);
	REFUSED(qp, IBV_QPS_RTS, to_rts, attr.timeout = 32, EINVAL);
	REFUSED(qp, IBV_QPS_RTS, to_rts, attr.max_rd_atomic = 16, 0);
	ibv_destroy_qp(qp);
}

static void test_infiniband_address(void **state)
{
	struct ibv_qp *qp;

	(void)state;
	fake_verbs.devices[0].ports[0].link_layer = IBV_LINK_LAYER_INFINIBAND;
	qp = qp_in(IBV_QPT_UC, IBV_QPS_INIT);
	fake_verbs.devices[0].ports[0].flags = IBV_QPF_GRH_REQUIRED;
	REFUSED(qp, IBV_QPS_RTR, step_from(IBV_QPT_UC, IBV_QPS_INIT)->required,
		attr.ah_attr.is_global = 0, EINVAL);
	fake_verbs.devices[0].ports[0].flags = 0;
	REFUSED(qp, IBV_QPS_RTR, step_from(IBV_QPT_UC, IBV_QPS_INIT)->required,
		attr.ah_attr.is_global = 0, 0);
	ibv_destroy_qp(qp);
}

/* --------------------------------------------------------- bookkeeping --- */

static void test_history(void **state)
{
	struct ibv_qp *qp = qp_in(IBV_QPT_RC, IBV_QPS_RTR), *other = new_qp(IBV_QPT_UD);
	struct ibv_qp_init_attr init;

	(void)state;
	REFUSED(qp, IBV_QPS_RTS, to_rts, attr.timeout = 40, EINVAL);
	assert_int_equal(fake_verbs.modified_count, 3);
	assert_null(fake_verbs_last_modify(other));
	assert_int_equal(fake_verbs_last_modify(qp)->ret, EINVAL);
	assert_int_equal(fake_verbs_last_modify(qp)->attr.timeout, 40);
	assert_int_equal(fake_verbs_last_modify(qp)->mask, to_rts);
	assert_int_equal(fake_verbs_last_modify(qp)->from, IBV_QPS_RTR);
	assert_int_equal(fake_verbs.modified[1].attr.dest_qp_num, 5);

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTR);
	assert_int_equal(attr.dest_qp_num, 5);
	assert_int_equal(attr.timeout, 0);
	assert_int_equal(init.cap.max_send_wr, 16);
	ibv_destroy_qp(other);
	ibv_destroy_qp(qp);
}

static void test_busy(void **state)
{
	struct ibv_cq *second = ibv_create_cq(verbs, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = second,
					 .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	char buffer[8];

	(void)state;
	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
	assert_int_equal(ibv_destroy_cq(second), EBUSY);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(second), 0);

	mr = (ibv_reg_mr)(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(fake_verbs.mrs, 1);
	assert_int_equal(ibv_dereg_mr(mr), 0);

	srq = ibv_create_srq(pd, &srq_attr);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(fake_verbs.open, 3);
}

static void test_refused_objects(void **state)
{
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	char buffer[8];

	(void)state;
	errno = 0;
	assert_null((ibv_reg_mr)(pd, buffer, sizeof(buffer), IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(verbs, 65536, NULL, NULL, 0));

	init.cap.max_inline_data = FAKE_INLINE + 1;
	assert_null(ibv_create_qp(pd, &init));
	init.cap.max_inline_data = 0;
	init.cap.max_send_wr = 4097;
	assert_null(ibv_create_qp(pd, &init));
	init.cap.max_send_wr = 0;
	init.cap.max_recv_sge = 17;
	assert_null(ibv_create_qp(pd, &init));
}

static void test_failures(void **state)
{
	(void)state;
	fake_verbs_fail("ibv_alloc_pd", 2, ENOSPC);
	assert_int_equal(ibv_dealloc_pd(ibv_alloc_pd(verbs)), 0);
	assert_null(ibv_alloc_pd(verbs));
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(fake_verbs.fired, 1);
	assert_int_equal(ibv_dealloc_pd(ibv_alloc_pd(verbs)), 0);
	assert_int_equal(fake_verbs_calls("ibv_alloc_pd"), 4);	/* one of them by setup() */

	errno = 0;
	fake_verbs_fail("*", 1, FAKE_NO_ERRNO);
	assert_null(ibv_create_cq(verbs, 1, NULL, NULL, 0));
	assert_int_equal(errno, 0);

	fake_verbs_fail("*", 1, EIO);		/* spares destructors */
	fake_verbs_fail("ibv_dealloc_pd", 1, EIO);
	assert_int_equal(ibv_dealloc_pd(pd), EIO);
	assert_int_equal(fake_verbs.pds, 1);
	assert_null(ibv_alloc_pd(verbs));
}

static void test_reset_frees_all(void **state)
{
	(void)state;
	fake_verbs_reset();
	verbs = open_first();
	pd = ibv_alloc_pd(verbs);
	cq = ibv_create_cq(verbs, 1, NULL, NULL, 0);
	assert_non_null(new_qp(IBV_QPT_UD));
	fake_verbs_complete(cq, &(struct ibv_wc){ .wr_id = 1 });
	assert_int_equal(fake_verbs.open, 4);
	fake_verbs_infiniband();
	assert_int_equal(fake_verbs.open, 0);
}

static void test_interfaces(void **state)
{
	struct ifaddrs *list, *entry;
	int ups = 0, count = 0, addresses = 0;

	(void)state;
	fake_verbs_reset();
	fake_verbs.devices[0].ports[0].gids[4] =
		(struct fake_gid){ .gid = "fe80::2", .roce = 2, .netdev = "eth1",
				   .netdev_down = true };
	assert_int_equal(getifaddrs(&list), 0);
	for (entry = list; entry; entry = entry->ifa_next) {
		if (entry->ifa_addr && entry->ifa_addr->sa_family != AF_PACKET) {
			addresses++;
			continue;
		}
		count++;
		ups += (entry->ifa_flags & 1) != 0;
	}
	freeifaddrs(list);
	assert_int_equal(count, 3);		/* eth0, eth1 and one without an address */
	assert_int_equal(ups, 1);
	assert_int_equal(addresses, 5);		/* one for each GID */
}

/* ---------------------------------------------------------- post, poll --- */

static void test_post_and_poll(void **state)
{
	struct ibv_qp *qp = qp_in(IBV_QPT_RC, IBV_QPS_RTR);
	char data[] = "hartebeest";
	struct ibv_sge sge = { .addr = (uintptr_t)data, .length = sizeof(data), .lkey = 3 };
	struct ibv_send_wr wr = {
		.wr_id = 7, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
	}, *bad = NULL;
	struct ibv_wc wc[2];

	(void)state;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(go(qp, IBV_QPS_RTS, to_rts), 0);

	fake_verbs.complete_sends = true;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	memset(data, 0, sizeof(data));
	assert_string_equal((const char *)fake_verbs_posted(0)->bytes, "hartebeest");
	assert_int_equal(fake_verbs_posted(0)->sge[0].lkey, 3);
	assert_int_equal(fake_verbs_posted(0)->send.wr_id, 7);
	assert_null(fake_verbs_posted(1));
	assert_int_equal(ibv_poll_cq(cq, 2, wc), 1);
	assert_int_equal(wc[0].wr_id, 7);
	assert_int_equal(wc[0].opcode, IBV_WC_RDMA_WRITE);
	assert_int_equal(ibv_poll_cq(cq, 2, wc), 0);

	wr.num_sge = 2;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	wr.num_sge = 1;
	sge.length = 65;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);	/* inline granted: 64 */
	ibv_destroy_qp(qp);
}

static void test_receives(void **state)
{
	struct ibv_qp *qp = new_qp(IBV_QPT_UD);
	struct ibv_recv_wr second = { .wr_id = 2 }, first = { .wr_id = 1, .next = &second };
	struct ibv_recv_wr *bad = NULL;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(ibv_post_recv(qp, &first, &bad), EINVAL);
	fake_verbs_set_state(qp, IBV_QPS_INIT);
	assert_int_equal(ibv_post_recv(qp, &first, &bad), 0);
	assert_true(fake_verbs_posted(1)->receive);
	assert_int_equal(fake_verbs_posted(0)->recv.wr_id, 2);
	fake_verbs_fail("ibv_post_recv", 2, ENOMEM);
	assert_int_equal(ibv_post_recv(qp, &first, &bad), ENOMEM);
	assert_ptr_equal(bad, &second);

	fake_verbs_set_state(qp, IBV_QPS_ERR);
	assert_int_equal(ibv_post_recv(qp, &second, &bad), 0);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	fake_verbs_fail("ibv_poll_cq", 1, EIO);
	assert_true(ibv_poll_cq(cq, 1, &wc) < 0);
	ibv_destroy_qp(qp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		OPENED(test_masks),
		OPENED(test_reset_and_error),
		OPENED(test_no_short_cut),
		OPENED(test_values_of_init),
		OPENED(test_values_of_rtr),
		OPENED(test_values_of_rts),
		OPENED(test_infiniband_address),
		OPENED(test_history),
		OPENED(test_busy),
		OPENED(test_refused_objects),
		OPENED(test_failures),
		cmocka_unit_test(test_reset_frees_all),
		cmocka_unit_test(test_interfaces),
		OPENED(test_post_and_poll),
		OPENED(test_receives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
