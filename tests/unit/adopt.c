/* SPDX-License-Identifier: MIT */
/*
 * adopt.c - adopting objects of the program: they get names, are read back, and survive close
 *
 * promise: hartebeest_adopt(3)
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

#define RW (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct hartebeest_context *hb;

/* The program's own objects, on whichever device a test opens. */
static struct {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char memory[64];
} own;

static void own_make(struct ibv_context *verbs, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = type, .cap = { .max_send_wr = 3, .max_recv_wr = 5, .max_send_sge = 2 },
	};
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 8, .max_sge = 1 } };

	own.verbs = verbs;
	own.pd = ibv_alloc_pd(verbs);
	own.cq = ibv_create_cq(verbs, 16, NULL, NULL, 0);
	own.srq = ibv_create_srq(own.pd, &shared);
	own.mr = (ibv_reg_mr)(own.pd, own.memory, sizeof(own.memory), RW);
	attr.send_cq = attr.recv_cq = own.cq;
	own.qp = ibv_create_qp(own.pd, &attr);
	assert_non_null(own.qp);
}

static void own_destroy(void)
{
	assert_int_equal(ibv_destroy_qp(own.qp), 0);
	assert_int_equal(ibv_dereg_mr(own.mr), 0);
	assert_int_equal(ibv_destroy_srq(own.srq), 0);
	assert_int_equal(ibv_destroy_cq(own.cq), 0);
	assert_int_equal(ibv_dealloc_pd(own.pd), 0);
}

static struct ibv_context *open_device(int number)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *verbs = ibv_open_device(list[number]);

	ibv_free_device_list(list);
	assert_non_null(verbs);
	return verbs;
}

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	fake_verbs_reset();
	memset(&own, 0, sizeof(own));
	hb = NULL;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	hartebeest_close(hb);
	return fake_verbs.open;
}

/* Opens a context on a device that the program opened, with the program's objects there. */
static void open_on_own(enum ibv_qp_type type)
{
	own_make(open_device(0), type);
	assert_int_equal(hartebeest_open_verbs(&hb, NULL, own.verbs, 0), 0);
}

static void close_all(void)
{
	assert_int_equal(hartebeest_close(hb), 0);
	hb = NULL;
	own_destroy();
	assert_int_equal(ibv_close_device(own.verbs), 0);
	assert_int_equal(fake_verbs.open, 0);
}

static void adopt_all(void)
{
	assert_int_equal(hartebeest_pd_adopt(hb, "pd", own.pd), 0);
	assert_int_equal(hartebeest_cq_adopt(hb, "cq", own.cq), 0);
	assert_int_equal(hartebeest_srq_adopt(hb, "srq", own.srq), 0);
	assert_int_equal(hartebeest_mr_adopt(hb, "mr", own.mr, RW), 0);
	assert_int_equal(hartebeest_qp_adopt(hb, "qp", own.qp), 0);
}

static struct beest_qp *adopted_qp(void)
{
	struct beest_node *node;

	node = beest_table_find(&hb->objects, &beest_qp_kind, "qp");
	assert_non_null(node);
	return BEEST_CONTAINER(node, struct beest_qp, node);
}

static int connect_it(struct beest_qp *qp)
{
	struct beest_endpoint remote = qp->local.endpoint;

	remote.rank = 1;
	remote.qp_num = 0xabcdef;
	return beest_qp_connect(qp, "far", &remote, 0, NULL);
}

/* ---------------------------------------------------------------- names --- */

static void all_are_found_by_name(void **state)
{
	struct ibv_srq *srq;
	struct ibv_qp_cap cap;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;

	(void)state;
	open_on_own(IBV_QPT_RC);
	adopt_all();
	assert_int_equal(hartebeest_pd_get(hb, "pd", &pd), 0);
	assert_int_equal(hartebeest_cq_get(hb, "cq", &cq), 0);
	assert_int_equal(hartebeest_srq_get(hb, "srq", &srq), 0);
	assert_int_equal(hartebeest_mr_get(hb, "mr", &mr), 0);
	assert_int_equal(hartebeest_qp_get(hb, "qp", &qp), 0);
	assert_true(pd == own.pd && cq == own.cq && srq == own.srq && mr == own.mr &&
		    qp == own.qp);
	assert_int_equal(hartebeest_qp_cap(hb, "qp", &cap), 0);
	assert_int_equal(cap.max_send_sge, 2);

	/* The library's own objects can be made from adopted ones. */
	assert_int_equal(mr_make(hb, "second", "pd", 64, RW, NULL), 0);
	assert_int_equal(qp_make(hb, "second", "pd", IBV_QPT_RC, "cq", "cq", NULL), 0);
	close_all();
}

static void names_and_objects_are_taken_once(void **state)
{
	struct ibv_context *other = open_device(0);
	struct ibv_pd *pd = ibv_alloc_pd(other);
	struct ibv_pd *made;

	(void)state;
	open_on_own(IBV_QPT_RC);
	adopt_all();
	assert_int_equal(hartebeest_qp_adopt(hb, "qp", own.qp), -EEXIST);
	assert_int_equal(hartebeest_qp_adopt(hb, "again", own.qp), -EALREADY);
	assert_error_is("this queue pair is called 'qp' already");
	assert_int_equal(hartebeest_pd_create(hb, "made", &made), 0);
	assert_int_equal(hartebeest_pd_adopt(hb, "x", made), -EALREADY);
	assert_int_equal(hartebeest_pd_adopt(hb, "x", pd), -EXDEV);
	assert_error_has("protection domain 'x' was made on another struct ibv_context");
	assert_int_equal(hartebeest_pd_adopt(hb, "", own.pd), -EINVAL);
	assert_int_equal(hartebeest_pd_adopt(hb, "x", NULL), -EINVAL);

	/* After it was forgotten, it can be adopted under another name. */
	assert_int_equal(hartebeest_qp_destroy(hb, "qp"), 0);
	assert_int_equal(hartebeest_qp_get(hb, "qp", &own.qp), -ENOENT);
	assert_int_equal(hartebeest_qp_adopt(hb, "again", own.qp), 0);
	assert_int_equal(fake_verbs_calls("ibv_destroy_qp"), 0);
	ibv_dealloc_pd(pd);
	ibv_close_device(other);
	close_all();
}

static void only_what_can_be_connected(void **state)
{
	(void)state;
	open_on_own(IBV_QPT_RAW_PACKET);
	assert_int_equal(hartebeest_qp_adopt(hb, "qp", own.qp), -EOPNOTSUPP);
	fake_verbs_fail("ibv_query_qp", 1, EIO);
	own.qp->qp_type = IBV_QPT_RC;
	assert_int_equal(hartebeest_qp_adopt(hb, "qp", own.qp), -EIO);
	assert_int_equal(hartebeest_qp_adopt(hb, "qp", own.qp), 0);
	close_all();
}

/* ------------------------------------------------------------ queue pairs --- */

static void from_reset(void **state)
{
	struct beest_qp *qp;

	(void)state;
	open_on_own(IBV_QPT_RC);
	adopt_all();
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(own.qp->state, IBV_QPS_INIT);
	qp = adopted_qp();
	assert_int_equal(connect_it(qp), 0);
	assert_int_equal(own.qp->state, IBV_QPS_RTS);
	close_all();
}

static void take_to_init(uint16_t pkey_index, uint8_t port, unsigned int flags_or_qkey)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = port, .pkey_index = pkey_index,
		.qp_access_flags = flags_or_qkey, .qkey = flags_or_qkey,
	};

	assert_int_equal(ibv_modify_qp(own.qp, &attr, IBV_QP_STATE | IBV_QP_PORT |
				       IBV_QP_PKEY_INDEX | (own.qp->qp_type == IBV_QPT_UD ?
				       IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), 0);
}

/* Peers receive the values that the program chose, and a second INIT repeats them. */
static void from_init(void **state)
{
	const struct fake_modify *modify;
	uint32_t generation;
	struct beest_qp *qp;

	(void)state;
	fake_verbs_infiniband();
	open_on_own(IBV_QPT_RC);
	take_to_init(1, 1, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(hartebeest_qp_adopt(hb, "qp", own.qp), 0);
	qp = adopted_qp();
	assert_int_equal(qp->local.endpoint.pkey, 0x8012);
	assert_int_equal(qp->local.endpoint.lid, 7);
	assert_true(qp->local.endpoint.generation > 0);
	generation = qp->local.endpoint.generation;
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);	/* nothing is left to do */
	assert_int_equal(qp->local.endpoint.generation, generation);
	assert_int_equal(fake_verbs.modified_count, 1);
	assert_int_equal(connect_it(qp), 0);

	assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	modify = fake_verbs_last_modify(own.qp);
	assert_int_equal(modify->attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(modify->attr.pkey_index, 1);
	assert_int_equal(modify->attr.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(connect_it(qp), 0);
	close_all();
}

static void datagrams_from_init(void **state)
{
	struct beest_qp *qp;

	(void)state;
	open_on_own(IBV_QPT_UD);
	take_to_init(0, 1, 0x4711);
	assert_int_equal(hartebeest_qp_adopt(hb, "qp", own.qp), 0);
	qp = adopted_qp();
	assert_int_equal(qp->local.endpoint.qkey, 0x4711);
	assert_int_equal(qp->local.endpoint.pkey, 0xffff);
	assert_int_equal(connect_it(qp), 0);
	assert_int_equal(fake_verbs.ahs, 1);
	close_all();
}

/* Datagrams have no sequence number to agree on. */
static void datagrams_in_use(void **state)
{
	struct beest_qp *qp;

	(void)state;
	open_on_own(IBV_QPT_UD);
	take_to_init(0, 1, 0x4711);
	fake_verbs_set_state(own.qp, IBV_QPS_RTS);
	assert_int_equal(hartebeest_qp_adopt(hb, "qp", own.qp), 0);
	qp = adopted_qp();
	assert_int_equal(qp->local.endpoint.qkey, 0x4711);
	assert_int_equal(qp->local.endpoint.pkey, 0xffff);
	assert_true(qp->local.endpoint.qp_num == own.qp->qp_num && qp->local.endpoint.generation);
	assert_int_equal(hartebeest_qp_publish(hb, "qp", "key", 0), -EDESTADDRREQ);
	assert_int_equal(connect_it(qp), 0);
	assert_int_equal(fake_verbs.ahs, 1);
	assert_int_equal(fake_verbs.modified_count, 1);
	assert_int_equal(own.qp->state, IBV_QPS_RTS);
	close_all();
}

/* Adopted in RESET, then taken to INIT by the program: its state is read when it is used. */
static void init_after_adopting(void **state)
{
	(void)state;
	open_on_own(IBV_QPT_RC);
	adopt_all();
	take_to_init(0, 1, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(adopted_qp()->local.access_flags, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(connect_it(adopted_qp()), 0);
	close_all();
}

static void init_on_another_port(void **state)
{
	struct ibv_qp *qp;

	(void)state;
	fake_verbs.devices[0].attr.phys_port_cnt = 2;
	fake_verbs.devices[0].ports[1] = fake_verbs.devices[0].ports[0];
	open_on_own(IBV_QPT_RC);
	take_to_init(0, 2, IBV_ACCESS_REMOTE_WRITE);
	assert_int_equal(hartebeest_qp_adopt(hb, "qp", own.qp), -EINVAL);
	assert_error_is("queue pair 'qp' was initialized on port 2, but this context uses port "
			"fake0:1");
	assert_int_equal(hartebeest_qp_get(hb, "qp", &qp), -ENOENT);
	close_all();
}

static void beyond_init(void **state)
{
	char text[256];
	struct ibv_wc wc = { .status = IBV_WC_WR_FLUSH_ERR };

	(void)state;
	open_on_own(IBV_QPT_RC);
	fake_verbs_set_state(own.qp, IBV_QPS_RTS);
	assert_int_equal(hartebeest_qp_adopt(hb, "qp", own.qp), 0);
	wc.qp_num = own.qp->qp_num;
	assert_true(hartebeest_completion_text(hb, &wc, text, sizeof(text)) >= 0);
	assert_non_null(strstr(text, "queue pair 'qp' on fake0:1"));
	assert_int_equal(hartebeest_qp_init(hb, "qp"), -EISCONN);
	assert_int_equal(hartebeest_qp_publish(hb, "qp", "key", 0), -EISCONN);
	assert_error_has("queue pair 'qp' is beyond INIT already");
	assert_int_equal(connect_it(adopted_qp()), -EISCONN);
	assert_int_equal(own.qp->state, IBV_QPS_RTS);
	assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(connect_it(adopted_qp()), 0);
	close_all();
}

/* ---------------------------------------------------------------- closing --- */

/* Close touches no adopted object: the program may have destroyed it already. */
static void close_touches_nothing(void **state)
{
	(void)state;
	open_on_own(IBV_QPT_RC);
	adopt_all();
	own_destroy();
	memset(&own.qp, 0, sizeof(own.qp));
	assert_int_equal(hartebeest_close(hb), 0);
	hb = NULL;
	assert_int_equal(fake_verbs_calls("ibv_close_device"), 0);
	assert_int_equal(ibv_close_device(own.verbs), 0);
}

/* Adopts objects that the program made on a device that the library opened. */
static void adopt_on_device_of_library(void)
{
	struct ibv_context *verbs;

	assert_int_equal(hartebeest_open(&hb, NULL), 0);
	assert_int_equal(hartebeest_verbs(hb, &verbs), 0);
	own_make(verbs, IBV_QPT_RC);
	adopt_all();
}

/* On the library's device, adopted objects must be given back before close. */
static void close_under_adopted_objects(void **state)
{
	(void)state;
	adopt_on_device_of_library();
	assert_int_equal(hartebeest_close(hb), -EBUSY);
	hb = NULL;
	assert_error_has("queue pair 'qp' is adopted; memory region 'mr' is adopted; ");
	assert_int_equal(fake_verbs_calls("ibv_close_device"), 0);
	own_destroy();
	fake_verbs_reset();
}

static void given_back_before_close(void **state)
{
	(void)state;
	adopt_on_device_of_library();
	assert_int_equal(hartebeest_qp_destroy(hb, "qp"), 0);
	assert_int_equal(hartebeest_mr_destroy(hb, "mr"), 0);
	assert_int_equal(hartebeest_srq_destroy(hb, "srq"), 0);
	assert_int_equal(hartebeest_cq_destroy(hb, "cq"), 0);
	assert_int_equal(hartebeest_pd_destroy(hb, "pd"), 0);
	own_destroy();
	assert_int_equal(hartebeest_close(hb), 0);
	hb = NULL;
	assert_int_equal(fake_verbs.contexts, 0);
}

/* ------------------------------------------------------------- open_verbs --- */

static void opened_by_the_program(void **state)
{
	const char *options[] = { "device.name=elsewhere", NULL };
	struct ibv_context *verbs = open_device(0), *same;
	struct hartebeest_event event;
	char text[512];

	(void)state;
	assert_int_equal(hartebeest_open_verbs(&hb, options, verbs, 1), 0);
	assert_int_equal(hartebeest_verbs(hb, &same), 0);
	assert_ptr_equal(same, verbs);
	assert_int_equal(hartebeest_port_num(hb), 1);
	assert_true(hartebeest_device_text(hb, text, sizeof(text)) >= 0);
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), -EOPNOTSUPP);
	assert_error_is("hartebeest_event_get(): the program reads the events of its own "
			"struct ibv_context itself");
	assert_int_equal(hartebeest_event_fd(hb), -EOPNOTSUPP);
	assert_int_equal(hartebeest_pd_create(hb, "pd", NULL), 0);
	assert_int_equal(fake_verbs_calls("ibv_open_device"), 1);
	assert_int_equal(hartebeest_close(hb), 0);
	hb = NULL;
	assert_int_equal(fake_verbs.pds, 0);
	assert_int_equal(ibv_close_device(verbs), 0);
}

static void ports_of_the_program(void **state)
{
	static const char *const soon[] = { "exchange.timeout=100ms", NULL };
	struct fake_device *device = &fake_verbs.devices[0];
	struct ibv_context *verbs;

	(void)state;
	device->attr.phys_port_cnt = 2;
	device->ports[1] = device->ports[0];
	device->ports[0].state = IBV_PORT_DOWN;
	verbs = open_device(0);
	assert_int_equal(hartebeest_open_verbs(&hb, NULL, verbs, 0), 0);
	assert_int_equal(hartebeest_port_num(hb), 2);
	assert_int_equal(hartebeest_close(hb), 0);
	hb = NULL;
	assert_int_equal(hartebeest_open_verbs(&hb, soon, verbs, 1), -ENETDOWN);
	assert_error_is("tried for 100 ms (HARTEBEEST_TIMEOUT): port fake0:1 is down");
	assert_int_equal(hartebeest_open_verbs(&hb, NULL, verbs, 3), -ENXIO);
	assert_int_equal(hartebeest_open_verbs(&hb, NULL, verbs, -1), -EINVAL);
	assert_int_equal(hartebeest_open_verbs(&hb, NULL, NULL, 1), -EINVAL);
	assert_int_equal(hartebeest_open_verbs(NULL, NULL, verbs, 1), -EINVAL);
	fake_verbs_fail("ibv_query_device", 1, EIO);
	assert_int_equal(hartebeest_open_verbs(&hb, NULL, verbs, 2), -EIO);
	assert_null(hb);
	assert_int_equal(fake_verbs.contexts, 1);
	assert_int_equal(ibv_close_device(verbs), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(all_are_found_by_name),
		TEST(names_and_objects_are_taken_once),
		TEST(only_what_can_be_connected),
		TEST(from_reset),
		TEST(from_init),
		TEST(datagrams_from_init),
		TEST(datagrams_in_use),
		TEST(init_after_adopting),
		TEST(init_on_another_port),
		TEST(beyond_init),
		TEST(close_touches_nothing),
		TEST(close_under_adopted_objects),
		TEST(given_back_before_close),
		TEST(opened_by_the_program),
		TEST(ports_of_the_program),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
