/* SPDX-License-Identifier: MIT */
/*
 * posting.c - why a post was refused
 *
 * promise: hartebeest_post(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"

static struct hartebeest_context *hb;
static struct ibv_sge elements[3];
static struct ibv_send_wr wr;
static struct ibv_ah *const handle = (void *)&wr;	/* never dereferenced */

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	fake_verbs_reset();
	memset(&wr, 0, sizeof(wr));
	wr.sg_list = elements;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	elements[0].length = elements[1].length = elements[2].length = 100;
	if (hartebeest_open(&hb, NULL) < 0)
		return -1;
	return hartebeest_pd_create(hb, "pd", NULL) || cq_make(hb, "cq", 0, 0, NULL);
}

static int teardown(void **state)
{
	(void)state;
	hartebeest_close(hb);
	return fake_verbs.open;
}

/* A queue pair in @state, of which the library need not know. */
static struct ibv_qp *qp_in(enum ibv_qp_state state, enum ibv_qp_type type)
{
	struct ibv_qp *qp;

	assert_int_equal(qp_make(hb, "qp", "pd", type, "cq", "cq", &qp), 0);
	fake_verbs_set_state(qp, state);
	return qp;
}

static void says(struct ibv_qp *qp, const struct ibv_send_wr *posted, int ret, const char *part)
{
	char text[400];

	assert_true(hartebeest_post_text(hb, qp, posted, ret, text, sizeof(text)) >= 0);
	if (!strstr(text, part))
		print_error("'%s'\n", text);
	assert_non_null(strstr(text, part));
	assert_non_null(strstr(text, strerror(abs(ret))));
}

static void the_state(void **state)
{
	struct ibv_qp *qp = qp_in(IBV_QPS_INIT, IBV_QPT_RC);
	char text[400];

	(void)state;
	assert_true(hartebeest_post_text(hb, qp, &wr, -EINVAL, text, sizeof(text)) >= 0);
	assert_non_null(strstr(text, "queue pair 'qp' (QP "));
	assert_non_null(strstr(text, ", RC) did not accept a write of 100 bytes: it is in the "
			       "state INIT, and takes send requests from RTS on: "
			       "hartebeest_qp_connect() or hartebeest_pairs_connect() first "
			       "(Invalid argument)"));
	fake_verbs_set_state(qp, IBV_QPS_RESET);
	says(qp, NULL, EINVAL, "did not accept a request: it is in the state RESET, and takes "
	     "receives from INIT on (hartebeest_qp_init()), send requests from RTS on "
	     "(hartebeest_qp_connect())");
	fake_verbs_set_state(qp, IBV_QPS_ERR);
	says(qp, &wr, -EIO, "in the state ERR after a failure, which a completion reports: "
	     "hartebeest_qp_reconnect() brings it back");
	fake_verbs_set_state(qp, IBV_QPS_RTS);
	says(qp, &wr, -EIO, "the device refuses it");
	fake_verbs_fail("ibv_query_qp", 1, EIO);
	says(qp, &wr, -EIO, "the device refuses it");
}

/* Posted by the helpers, whose requests nobody sees. */
static void an_unknown_request(void **state)
{
	struct ibv_qp *qp = qp_in(IBV_QPS_INIT, IBV_QPT_RC);

	(void)state;
	says(qp, NULL, -EINVAL, "did not accept a request: it is in the state INIT, and takes "
	     "send requests from RTS on: hartebeest_qp_connect() or ");
	fake_verbs_set_state(qp, IBV_QPS_RTS);
	says(qp, NULL, -EINVAL, "did not accept a request: the device refuses it; it sends at ");
	says(qp, NULL, -EINVAL, " bytes inline, and takes at most ");
	says(qp, NULL, -EINVAL, "; an atomic needs RC and a remote address that is a multiple "
	     "of 8");
	says(qp, NULL, -EIO, "the device refuses it (");
}

static void silent(struct ibv_qp *qp, const struct ibv_send_wr *posted, const char *sentence)
{
	char text[600];

	assert_true(hartebeest_post_text(hb, qp, posted, -ETIMEDOUT, text, sizeof(text)) > 0);
	if (!strstr(text, sentence))
		print_error("'%s'\n", text);
	assert_non_null(strstr(text, sentence));
}

#define RECEIVES "a receive must be posted here before a message completes, and at the peer " \
	"before a send does"

/* What a poll that times out leaves to guess. */
static void nothing_completes(void **state)
{
	struct ibv_qp *qp = qp_in(IBV_QPS_INIT, IBV_QPT_RC);
	struct hartebeest_qp_attr request;
	struct hartebeest_cq_attr small;

	(void)state;
	silent(qp, NULL, ", RC): nothing completed; it is in the state INIT and sends nothing "
	       "before RTS: hartebeest_qp_connect() or hartebeest_pairs_connect() first; a send "
	       "request completes only with IBV_SEND_SIGNALED, and in the send_cq; " RECEIVES);
	fake_verbs_set_state(qp, IBV_QPS_ERR);
	silent(qp, NULL, "nothing completed; it is in the state ERR after a failure, which an "
	       "earlier completion reported: hartebeest_qp_reconnect() brings it back; a send ");
	fake_verbs_set_state(qp, IBV_QPS_RTS);
	silent(qp, NULL, "nothing completed; a send request completes only with ");
	silent(qp, &wr, "nothing completed; the request was posted without IBV_SEND_SIGNALED; "
	       RECEIVES);
	wr.send_flags = IBV_SEND_SIGNALED;
	silent(qp, &wr, "nothing completed; " RECEIVES "; this queue pair may have no reads and "
	       "atomics under way (qp_attr.max_rd_atomic ");
	silent(qp, &wr, "; Soft-RoCE never notices that a peer is gone while qp_attr.retry_cnt is "
	       "7");
	fake_verbs_fail("ibv_query_qp", 1, EIO);
	silent(qp, NULL, "nothing completed; a send request completes only with ");

	hartebeest_cq_attr_init(&small);
	small.depth = 1;
	assert_int_equal(hartebeest_cq_create(hb, "small", &small, NULL), 0);
	hartebeest_qp_attr_init(&request);
	request.pd = "pd";
	request.send_cq = "small";
	request.type = IBV_QPT_RC;
	request.sq_sig_all = 1;
	assert_int_equal(hartebeest_qp_create(hb, "q", &request, &qp), 0);
	fake_verbs_set_state(qp, IBV_QPS_RTS);
	silent(qp, NULL, "nothing completed; it may have ");
	silent(qp, NULL, " requests under way, but its completion queue has 1 entry, so "
	       "completions may be lost; " RECEIVES);
}

static void unsupported_requests(void **state)
{
	struct ibv_qp *qp = qp_in(IBV_QPS_RTS, IBV_QPT_UC);

	(void)state;
	wr.opcode = IBV_WR_RDMA_READ;
	says(qp, &wr, -EINVAL, "a read of 100 bytes: a queue pair of this type cannot do that");
	wr.opcode = IBV_WR_SEND;
	wr.num_sge = 3;
	says(qp, &wr, -EINVAL, "a send of 300 bytes: it has 3 elements, but the queue pair takes");
	wr.num_sge = 1;
	elements[0].length = 1000000;
	wr.send_flags = IBV_SEND_INLINE;
	says(qp, &wr, -EINVAL, "it is to be sent inline, but the queue pair sends at most ");
	wr.opcode = (enum ibv_wr_opcode)99;
	wr.send_flags = 0;
	says(qp, &wr, -EINVAL, "did not accept a request of opcode 99: the device refuses it");
}

/* A request that just fits is not blamed on the limit. */
static void the_limits(void **state)
{
	struct ibv_qp *qp = qp_in(IBV_QPS_RTS, IBV_QPT_RC);
	struct ibv_qp_cap cap;

	(void)state;
	assert_int_equal(hartebeest_qp_cap(hb, "qp", &cap), 0);
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_INLINE;
	elements[0].length = cap.max_inline_data;
	says(qp, &wr, -EINVAL, "the device refuses it");
	elements[0].length++;
	says(qp, &wr, -EINVAL, "it is to be sent inline, but");
	wr.send_flags = 0;
	wr.num_sge = (int)cap.max_send_sge;
	says(qp, &wr, -EINVAL, "the device refuses it");
	wr.num_sge++;
	says(qp, &wr, -EINVAL, "elements, but the queue pair takes at most ");
	fake_verbs_set_state(qp, IBV_QPS_SQE);
	says(qp, &wr, -EINVAL, "in the state SQE after a failure");
}

static void atomics(void **state)
{
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .max_rd_atomic = 1 };
	struct ibv_qp *qp = qp_in(IBV_QPS_RTS, IBV_QPT_RC);

	(void)state;
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	elements[0].length = 8;
	wr.wr.atomic.remote_addr = 0x1004;
	says(qp, &wr, -EINVAL, "a fetch-and-add of 8 bytes: an atomic needs a remote address that "
	     "is a multiple of 8, which 0x1004 is not");
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	says(qp, &wr, -EINVAL, "a compare-and-swap of 8 bytes: an atomic needs");
	wr.wr.atomic.remote_addr = 0x1008;
	says(qp, &wr, -EINVAL, "this queue pair may have no reads and atomics under way "
	     "(qp_attr.max_rd_atomic and its device here, qp_attr.max_dest_rd_atomic and its");
	wr.opcode = IBV_WR_RDMA_READ;
	says(qp, &wr, -EINVAL, "this queue pair may have no reads and atomics under way");
	fake_verbs_set_state(qp, IBV_QPS_RTR);
	assert_int_equal(ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				       IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_MAX_QP_RD_ATOMIC), 0);
	says(qp, &wr, -EINVAL, "the device refuses it");
}

static void datagrams(void **state)
{
	struct ibv_qp *qp;

	(void)state;
	qp = qp_in(IBV_QPS_RESET, IBV_QPT_UD);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	fake_verbs_set_state(qp, IBV_QPS_RTS);
	wr.opcode = IBV_WR_SEND;
	says(qp, &wr, -EINVAL, "needs the address handle of its peer");
	wr.wr.ud.ah = handle;
	elements[0].length = 1000000;
	says(qp, &wr, -EINVAL, "a UD message can have at most ");
}

static void full_queues(void **state)
{
	struct ibv_qp *qp = qp_in(IBV_QPS_RTS, IBV_QPT_RC);

	(void)state;
	says(qp, &wr, -ENOMEM, "its send queue is full (");
	says(qp, NULL, -ENOMEM, "its queue is full (");
	says(qp, NULL, -ENOMEM, " receives): take completions, and post receives only as messages "
	     "arrive; a queue of 0 needs more room (qp_init_attr.cap)");
}

/* A queue pair that the program made and did not name. */
static void unnamed(void **state)
{
	struct ibv_qp *qp = qp_in(IBV_QPS_RTS, IBV_QPT_RC);
	struct ibv_qp_init_attr attr;
	struct ibv_qp *own;

	(void)state;
	memset(&attr, 0, sizeof(attr));
	attr.qp_type = IBV_QPT_RC;
	attr.send_cq = qp->send_cq;
	attr.recv_cq = qp->recv_cq;
	own = ibv_create_qp(qp->pd, &attr);
	assert_non_null(own);
	says(own, &wr, -EINVAL, "queue pair (QP ");
	assert_int_equal(ibv_destroy_qp(own), 0);
}

static void arguments(void **state)
{
	struct ibv_qp *qp = qp_in(IBV_QPS_RTS, IBV_QPT_RC);
	char text[8] = "1234567";

	(void)state;
	assert_int_equal(hartebeest_post_text(NULL, qp, NULL, -1, text, 8), -EINVAL);
	assert_int_equal(hartebeest_post_text(hb, NULL, NULL, -1, text, 8), -EINVAL);
	assert_int_equal(hartebeest_post_text(hb, qp, NULL, -1, NULL, 8), -EINVAL);
	assert_true(hartebeest_post_text(hb, qp, NULL, -1, NULL, 0) > 7);
	assert_int_equal(hartebeest_post_text(hb, qp, NULL, 0, text, 8), -EINVAL);
	assert_int_equal(hartebeest_post_text(hb, qp, NULL, -EIO, text, 8),
			 hartebeest_post_text(hb, qp, NULL, -EIO, NULL, 0));
	assert_string_equal(text, "queue p");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_state, setup, teardown),
		cmocka_unit_test_setup_teardown(an_unknown_request, setup, teardown),
		cmocka_unit_test_setup_teardown(nothing_completes, setup, teardown),
		cmocka_unit_test_setup_teardown(unsupported_requests, setup, teardown),
		cmocka_unit_test_setup_teardown(the_limits, setup, teardown),
		cmocka_unit_test_setup_teardown(atomics, setup, teardown),
		cmocka_unit_test_setup_teardown(datagrams, setup, teardown),
		cmocka_unit_test_setup_teardown(full_queues, setup, teardown),
		cmocka_unit_test_setup_teardown(unnamed, setup, teardown),
		cmocka_unit_test_setup_teardown(arguments, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
