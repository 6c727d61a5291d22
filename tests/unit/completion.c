/* SPDX-License-Identifier: MIT */
/*
 * completion.c - the text of every completion status, with both ends named
 *
 * promise: hartebeest_post(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "hartebeest.h"
#include "lib/core/context.h"
#include "lib/verbs/qp.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"

static struct hartebeest_context *hb;
static struct ibv_qp *qp;

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	fake_verbs_reset();
	return hartebeest_open(&hb, NULL) || hartebeest_pd_create(hb, "pd", NULL) ||
	       cq_make(hb, "cq", 0, 0, NULL) ||
	       qp_make(hb, "to-b", "pd", IBV_QPT_RC, "cq", "cq", &qp) ||
	       hartebeest_qp_init(hb, "to-b");
}

static int teardown(void **state)
{
	(void)state;
	hartebeest_close(hb);
	return fake_verbs.open;
}

/* Does what hartebeest_qp_connect() does, but without a server. */
static void connect_to(const char *name, const char *key, int rank)
{
	struct beest_endpoint remote = {
		.rank = rank, .link_layer = IBV_LINK_LAYER_ETHERNET, .roce = BEEST_ROCE_V2,
		.mtu = IBV_MTU_1024, .pkey = 0xffff, .qp_num = 99,
		.gid = { { [10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2 } },
	};
	struct beest_node *node;
	struct beest_qp *own;

	node = beest_table_find(&hb->objects, &beest_qp_kind, name);
	assert_non_null(node);
	own = BEEST_CONTAINER(node, struct beest_qp, node);
	remote.qp_type = own->local.endpoint.qp_type;
	assert_int_equal(beest_qp_connect(own, key, &remote, UNIT_LIMIT(0), NULL), 0);
}

static struct ibv_wc completion(enum ibv_wc_status status, uint32_t qp_num)
{
	struct ibv_wc wc;

	memset(&wc, 0, sizeof(wc));
	wc.status = status;
	wc.qp_num = qp_num;
	wc.vendor_err = 0x81;
	wc.wr_id = UINT64_MAX;
	return wc;
}

static void text_is(const struct ibv_wc *wc, const char *wanted)
{
	char text[1024];

	assert_true(hartebeest_completion_text(hb, wc, text, sizeof(text)) >= 0);
	assert_string_equal(text, wanted);
}

/* A status that users meet has a cause; others have at least libibverbs' name. */
static void every_status(void **state)
{
	static const char *const causes[] = {
		[IBV_WC_SUCCESS] = "done",
		[IBV_WC_LOC_LEN_ERR] = "the message is longer than the receive buffer or the path "
			"MTU allows",
		[IBV_WC_LOC_QP_OP_ERR] = "bad local request: check lkey, length and flags, whether "
			"a receive is as long as the message, whether the link is up, and the "
			"type: UC and UD have no reads and atomics",
		[IBV_WC_LOC_PROT_ERR] = "the lkey does not cover the local buffer, or its region "
			"lacks IBV_ACCESS_LOCAL_WRITE, which receives, reads and atomics need",
		[IBV_WC_WR_FLUSH_ERR] = "dropped, because an earlier request failed, or one of "
			"the peer that this end refused; look for the first failure at both ends",
		[IBV_WC_REM_INV_REQ_ERR] = "the peer refuses the request: its queue pair's access "
			"flags (qp_attr.access_flags) forbid it, it is longer than the receive, an "
			"atomic's address is no multiple of 8, or the path MTU differs",
		[IBV_WC_REM_ACCESS_ERR] = "the peer's rkey does not cover this address and length, "
			"or lacks the access flag",
		[IBV_WC_REM_OP_ERR] = "the peer could not complete it: its receive buffer is too "
			"small, or its queue pair failed",
		[IBV_WC_RETRY_EXC_ERR] = "the peer does not answer: it is gone, its queue pair is "
			"not in RTR, the path is broken, or it has no receive posted (some "
			"devices count that, too)",
		[IBV_WC_RNR_RETRY_EXC_ERR] = "the peer has no receive posted",
		[IBV_WC_TM_RNDV_INCOMPLETE] = NULL,
	};
	char wanted[1024];
	struct ibv_wc wc;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(causes); i++) {
		wc = completion((enum ibv_wc_status)i, qp->qp_num);
		snprintf(wanted, sizeof(wanted), "%s (status %zu, vendor error 0x81): %s; request "
			 "18446744073709551615 of queue pair 'to-b' on fake0:1",
			 ibv_wc_status_str(wc.status), i,
			 causes[i] ? causes[i] : ibv_wc_status_str(wc.status));
		text_is(&wc, wanted);
	}
}

/* If this end lost its address, the peer is not blamed. */
static void the_own_address_is_gone(void **state)
{
	static const enum ibv_wc_status blaming[] = {
		IBV_WC_RETRY_EXC_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_RESP_TIMEOUT_ERR,
	};
	struct fake_gid *gid = fake_verbs.devices[0].ports[0].gids;
	char text[1024];
	struct ibv_wc wc;
	size_t i;

	(void)state;
	for (i = 0; i < FAKE_GIDS; i++)
		gid[i].gid = gid[i].gid ? "fd00::77" : NULL;
	for (i = 0; i < BEEST_COUNT(blaming); i++) {
		wc = completion(blaming[i], qp->qp_num);
		assert_true(hartebeest_completion_text(hb, &wc, text, sizeof(text)) >= 0);
		assert_non_null(strstr(text, "of queue pair 'to-b' on fake0:1; but the address of "
				       "this end is gone from the GID table"));
	}
	wc = completion(IBV_WC_REM_ACCESS_ERR, qp->qp_num);
	assert_true(hartebeest_completion_text(hb, &wc, text, sizeof(text)) >= 0);
	assert_null(strstr(text, "is gone"));
}

/* Two hosts with one address: what this end sends arrives here. */
static void a_peer_with_this_address(void **state)
{
	struct ibv_wc wc = completion(IBV_WC_RETRY_EXC_ERR, qp->qp_num);
	struct beest_qp *own;
	char text[1024];
	int i;

	(void)state;
	connect_to("to-b", "b/qp", 3);
	assert_int_equal(beest_context_find_qp(hb, "to-b", &own), 0);
	for (i = 0; i < 3; i++) {
		if (i)
			own->remote.gid = own->local.endpoint.gid;
		if (i == 2)		/* a process of this host */
			assert_int_equal(beest_process_mark(own->remote.incarnation.bytes), 0);
		assert_true(hartebeest_completion_text(hb, &wc, text, sizeof(text)) >= 0);
		assert_int_equal(strstr(text, "; and the peer, on another host or in another "
					"container, has the address of this end: two machines "
					"with one address, such as clones?") != NULL, i == 1);
	}
}

static void unknown_status(void **state)
{
	struct ibv_wc wc = completion((enum ibv_wc_status)1000, qp->qp_num);

	(void)state;
	text_is(&wc, "unknown (status 1000, vendor error 0x81): unknown; request "
		"18446744073709551615 of queue pair 'to-b' on fake0:1");
}

static void unknown_queue_pair(void **state)
{
	struct ibv_wc wc = completion(IBV_WC_WR_FLUSH_ERR, qp->qp_num + 1);

	(void)state;
	text_is(&wc, "Work Request Flushed Error (status 5, vendor error 0x81): dropped, because "
		"an earlier request failed, or one of the peer that this end refused; look for the "
		"first failure at both ends; request 18446744073709551615 of a queue pair unknown "
		"to this context");
}

static void both_ends_once_connected(void **state)
{
	struct ibv_wc wc = completion(IBV_WC_RNR_RETRY_EXC_ERR, qp->qp_num);

	(void)state;
	connect_to("to-b", "b/qp", 3);
	text_is(&wc, "RNR retry counter exceeded (status 13, vendor error 0x81): the peer has no "
		"receive posted; request 18446744073709551615 of queue pair 'to-b' on fake0:1, "
		"connected to 'b/qp' (QP 99 of the peer (rank 3))");
	assert_int_equal(hartebeest_qp_reset(hb, "to-b"), 0);
	text_is(&wc, "RNR retry counter exceeded (status 13, vendor error 0x81): the peer has no "
		"receive posted; request 18446744073709551615 of queue pair 'to-b' on fake0:1");
	assert_int_equal(hartebeest_qp_init(hb, "to-b"), 0);
	connect_to("to-b", "b/qp", -1);
	text_is(&wc, "RNR retry counter exceeded (status 13, vendor error 0x81): the peer has no "
		"receive posted; request 18446744073709551615 of queue pair 'to-b' on fake0:1, "
		"connected to 'b/qp' (QP 99 of the peer)");
}

/* A datagram queue pair has many peers, so none of them is blamed. */
static void datagrams_have_no_single_peer(void **state)
{
	struct ibv_qp *ud = NULL;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(qp_make(hb, "ud", "pd", IBV_QPT_UD, "cq", "cq", &ud), 0);
	assert_int_equal(hartebeest_qp_init(hb, "ud"), 0);
	connect_to("ud", "b/qp", 3);
	wc = completion(IBV_WC_LOC_PROT_ERR, ud->qp_num);
	text_is(&wc, "local protection error (status 4, vendor error 0x81): the lkey does not "
		"cover the local buffer, or its region lacks IBV_ACCESS_LOCAL_WRITE, which "
		"receives, reads and atomics need; request 18446744073709551615 of queue pair 'ud' "
		"on fake0:1");
}

/* Finds the right one of several queue pairs, and none that was destroyed. */
static void the_queue_pair_by_number(void **state)
{
	struct ibv_qp *made[8];
	char name[32], text[512];
	struct ibv_wc wc;
	int i;

	(void)state;
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "qp-%d", i);
		assert_int_equal(qp_make(hb, name, "pd", 2, "cq", "cq", &made[i]), 0);
	}
	for (i = 0; i < 8; i++) {
		snprintf(name, sizeof(name), "'qp-%d'", i);
		wc = completion(IBV_WC_SUCCESS, made[i]->qp_num);
		assert_true(hartebeest_completion_text(hb, &wc, text, sizeof(text)) >= 0);
		assert_non_null(strstr(text, name));
	}
	assert_int_equal(hartebeest_qp_destroy(hb, "qp-7"), 0);
	assert_true(hartebeest_completion_text(hb, &wc, text, sizeof(text)) >= 0);
	assert_non_null(strstr(text, "unknown to this context"));
}

static void cut_to_fit(void **state)
{
	struct ibv_wc wc = completion(IBV_WC_SUCCESS, qp->qp_num);
	char text[32], whole[768];
	int length;

	(void)state;
	memset(text, 'x', sizeof(text));
	length = hartebeest_completion_text(hb, &wc, whole, sizeof(whole));
	assert_int_equal(length, strlen(whole));
	assert_int_equal(hartebeest_completion_text(hb, &wc, text, 8), length);
	assert_string_equal(text, "success");
	assert_int_equal(text[8], 'x');
	assert_int_equal(hartebeest_completion_text(hb, &wc, text, 1), length);
	assert_string_equal(text, "");
	assert_int_equal(hartebeest_completion_text(hb, &wc, NULL, 0), length);
}

/* The peer comes last, and is named even if both names have the maximal length. */
static void the_longest_names(void **state)
{
	char text[1024], key[251], name[256];
	struct ibv_wc wc;

	(void)state;
	unit_repeat(name, 'n', 255);
	unit_repeat(key, 'k', 250);
	assert_int_equal(qp_make(hb, name, "pd", 2, "cq", "cq", &qp), 0);
	assert_int_equal(hartebeest_qp_init(hb, name), 0);
	connect_to(name, key, 3);
	wc = completion(IBV_WC_SUCCESS, qp->qp_num);
	assert_true(hartebeest_completion_text(hb, &wc, text, sizeof(text)) >= 0);
	assert_non_null(strstr(text, "k' (QP 99 of the peer (rank 3))"));
	assert_true(hartebeest_completion_text(hb, &wc, text, 100) >= 0);
	assert_int_equal(strlen(text), 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_status, setup, teardown),
		cmocka_unit_test_setup_teardown(unknown_status, setup, teardown),
		cmocka_unit_test_setup_teardown(the_own_address_is_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(a_peer_with_this_address, setup, teardown),
		cmocka_unit_test_setup_teardown(unknown_queue_pair, setup, teardown),
		cmocka_unit_test_setup_teardown(both_ends_once_connected, setup, teardown),
		cmocka_unit_test_setup_teardown(datagrams_have_no_single_peer, setup, teardown),
		cmocka_unit_test_setup_teardown(the_queue_pair_by_number, setup, teardown),
		cmocka_unit_test_setup_teardown(cut_to_fit, setup, teardown),
		cmocka_unit_test_setup_teardown(the_longest_names, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
