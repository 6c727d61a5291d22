/* SPDX-License-Identifier: MIT */
/*
 * queues.c - waiting for completions, shared receive queues, and a close that cannot
 * destroy everything
 *
 * promise: hartebeest_cq(3), hartebeest_srq(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "hartebeest-post.h"
#include "hartebeest.h"
#include "lib/core/context.h"
#include "lib/verbs/qp.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/logged.h"
#include "tests/support/make.h"

#define NEVER INT64_MAX

static struct hartebeest_context *hb;

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	fake_verbs_reset();
	logged[0] = '\0';
	return hartebeest_open(&hb, NULL) ||
	       hartebeest_log_set(hb, HARTEBEEST_LOG_WARN, logged_keep, NULL) ||
	       hartebeest_pd_create(hb, "pd", NULL);
}

static int teardown(void **state)
{
	(void)state;
	fake_verbs.hook = NULL;
	hartebeest_close(hb);
	return fake_verbs.open;
}

/* ------------------------------------------------------------- channels --- */

static struct ibv_cq *channel_cq(void)
{
	struct ibv_cq *cq = NULL;

	assert_int_equal(cq_make(hb, "cq", 8, HARTEBEEST_CQ_CHANNEL, &cq), 0);
	assert_non_null(cq->channel);
	return cq;
}

static void complete(struct ibv_cq *cq, uint64_t wr_id)
{
	struct ibv_wc wc = { .wr_id = wr_id };

	fake_verbs_complete(cq, &wc);
}

static bool is_readable(void)
{
	struct pollfd fd = { .fd = hartebeest_cq_fd(hb, "cq"), .events = POLLIN };

	assert_true(fd.fd >= 0);
	return poll(&fd, 1, 0) == 1;
}

/* As epoll(7) requires: an empty queue is armed, and an emptied one is not readable. */
static void empty_means_armed(void **state)
{
	struct ibv_cq *cq = channel_cq();
	struct ibv_wc wc[4];
	int round;

	(void)state;
	for (round = 0; round < 3; round++) {
		assert_int_equal(hartebeest_cq_wait(hb, cq, 4, wc, HARTEBEEST_ONCE), -EAGAIN);
		assert_false(is_readable());
		complete(cq, 1);
		complete(cq, 2);
		assert_true(is_readable());
		assert_int_equal(hartebeest_cq_wait(hb, cq, 1, wc, HARTEBEEST_ONCE), 1);
		assert_int_equal(wc[0].wr_id, 1);
		assert_int_equal(hartebeest_cq_wait(hb, cq, 4, wc, 0), 1);
		assert_int_equal(wc[0].wr_id, 2);
	}
	assert_int_equal(hartebeest_cq_wait(hb, cq, 4, wc, HARTEBEEST_ONCE), -EAGAIN);
	assert_int_equal(hartebeest_cq_wait(hb, cq, 4, wc, HARTEBEEST_ONCE), -EAGAIN);
	assert_error_is("completion queue 'cq' is empty");
	assert_int_equal(fake_verbs_calls("ibv_req_notify_cq"), 4);	/* one for each event */
	assert_int_equal(hartebeest_cq_wait(hb, cq, 4, wc, hartebeest_clock() - 1), -ETIMEDOUT);
	assert_error_is("the deadline had passed: nothing completed on completion queue 'cq'");
	assert_string_equal(logged, "");
	assert_int_equal(hartebeest_cq_destroy(hb, "cq"), 0);
	assert_int_equal(fake_verbs.channels, 0);
}

static struct ibv_cq *late_cq;

static void complete_before_arming(const char *function)
{
	if (strcmp(function, "ibv_req_notify_cq") != 0)
		return;
	fake_verbs.hook = NULL;
	complete(late_cq, 7);
}

/* A completion before arming makes no event: a wait that slept now would never end. */
static void between_looking_and_arming(void **state)
{
	struct ibv_wc wc;

	(void)state;
	late_cq = channel_cq();
	fake_verbs.hook = complete_before_arming;
	assert_int_equal(hartebeest_cq_wait(hb, late_cq, 1, &wc, HARTEBEEST_ONCE), 1);
	assert_int_equal(wc.wr_id, 7);
	assert_false(is_readable());
}

static void *complete_later(void *data)
{
	while (!fake_verbs_calls("ibv_req_notify_cq"))
		sched_yield();
	complete(data, 9);
	return NULL;
}

static void another_thread_completes(void **state)
{
	struct ibv_cq *cq = channel_cq();
	pthread_t thread;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, complete_later, cq), 0);
	assert_int_equal(hartebeest_cq_wait(hb, cq, 1, &wc, NEVER), 1);
	assert_int_equal(wc.wr_id, 9);
	pthread_join(thread, NULL);
}

static void a_dead_device_ends_the_wait(void **state)
{
	struct ibv_async_event event = { .event_type = IBV_EVENT_DEVICE_FATAL };
	struct ibv_cq *cq = channel_cq();
	struct ibv_wc wc;

	(void)state;
	fake_verbs_raise(&event);
	assert_int_equal(hartebeest_cq_wait(hb, cq, 1, &wc, NEVER), -EIO);
	assert_error_has("device fake0 reported a fatal error");
}

/* A completion that is there is returned even after a cancel. */
static void a_cancel_ends_the_wait(void **state)
{
	struct ibv_cq *cq = channel_cq();
	struct ibv_wc wc;

	(void)state;
	hartebeest_cancel(hb);
	assert_int_equal(hartebeest_cq_wait(hb, cq, 1, &wc, NEVER), -ECANCELED);
	complete(cq, 3);
	assert_int_equal(hartebeest_cq_wait(hb, cq, 1, &wc, NEVER), 1);
	assert_int_equal(wc.wr_id, 3);
	hartebeest_cancel_clear(hb);
	assert_int_equal(hartebeest_cq_wait(hb, cq, 1, &wc, HARTEBEEST_ONCE), -EAGAIN);
}

static void waits_that_cannot_be(void **state)
{
	struct ibv_cq *cq = channel_cq(), *mute, *foreign;
	struct ibv_context *verbs;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(cq_make(hb, "mute", 8, 0, &mute), 0);
	assert_null(mute->channel);
	assert_int_equal(hartebeest_cq_fd(hb, "mute"), -ENODATA);
	assert_error_has("completion queue 'mute' has no channel: ");
	assert_int_equal(hartebeest_cq_wait(hb, mute, 1, &wc, NEVER), -ENODATA);
	assert_int_equal(hartebeest_cq_fd(hb, "none"), -ENOENT);
	assert_int_equal(hartebeest_verbs(hb, &verbs), 0);
	foreign = ibv_create_cq(verbs, 8, NULL, NULL, 0);
	assert_int_equal(hartebeest_cq_wait(hb, foreign, 1, &wc, NEVER), -ENOENT);
	ibv_destroy_cq(foreign);
	assert_int_equal(hartebeest_cq_wait(hb, cq, 0, &wc, 0), -EINVAL);
	assert_int_equal(hartebeest_cq_wait(hb, cq, 1, NULL, 0), -EINVAL);
	assert_int_equal(hartebeest_cq_wait(hb, NULL, 1, &wc, 0), -EINVAL);
	assert_int_equal(hartebeest_cq_wait(hb, cq, 1, &wc, -2), -EINVAL);
	assert_int_equal(cq_make(hb, "x", 8, 2, NULL), -E2BIG);
	assert_error_has("unknown flags 0x2");
}

/* The program may choose the vector, and read the events of its own channel itself. */
static void a_channel_of_the_program(void **state)
{
	struct hartebeest_cq_attr attr;
	struct ibv_context *verbs;
	struct ibv_cq *cq = NULL;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(hartebeest_verbs(hb, &verbs), 0);
	verbs->num_comp_vectors = 4;
	hartebeest_cq_attr_init(&attr);
	attr.channel = ibv_create_comp_channel(verbs);
	attr.cq_context = &wc;
	attr.comp_vector = 4;
	assert_int_equal(hartebeest_cq_create(hb, "own", &attr, &cq), -EINVAL);
	assert_error_is("fake0:1 has 4 completion vectors, and no comp_vector 4");
	attr.comp_vector = 3;
	attr.flags = HARTEBEEST_CQ_CHANNEL;
	assert_int_equal(hartebeest_cq_create(hb, "own", &attr, &cq), -EINVAL);
	assert_error_has("attr->channel is set, and flags ask for another channel");
	attr.flags = 0;
	assert_int_equal(hartebeest_cq_create(hb, "own", &attr, &cq), 0);
	assert_ptr_equal(cq->channel, attr.channel);
	assert_ptr_equal(cq->cq_context, &wc);
	assert_int_equal(fake_verbs_vector(cq), 3);
	assert_int_equal(hartebeest_cq_wait(hb, cq, 1, &wc, NEVER), -ENODATA);
	assert_int_equal(ibv_destroy_comp_channel(attr.channel), EBUSY);
	assert_int_equal(hartebeest_cq_destroy(hb, "own"), 0);
	assert_int_equal(ibv_destroy_comp_channel(attr.channel), 0);

	/* Without attributes: polled, as deep as the option says. */
	assert_int_equal(hartebeest_cq_create(hb, "own", NULL, &cq), 0);
	assert_null(cq->channel);
	assert_int_equal(cq->cqe, 1023);
}

static void a_queue_that_fails(void **state)
{
	struct ibv_cq *cq = channel_cq();
	struct ibv_wc wc;

	(void)state;
	fake_verbs_fail("ibv_poll_cq", 1, EINVAL);
	assert_int_equal(hartebeest_cq_wait(hb, cq, 1, &wc, NEVER), -EIO);
	assert_error_is("completion queue 'cq' cannot be polled");
	fake_verbs_fail("ibv_req_notify_cq", 1, EINVAL);
	assert_int_equal(hartebeest_cq_wait(hb, cq, 1, &wc, NEVER), -EINVAL);
	assert_error_has("completion queue 'cq' cannot be armed");
	assert_int_equal(hartebeest_cq_wait(hb, cq, 1, &wc, HARTEBEEST_ONCE), -EAGAIN);
}

static void every_failure_of_a_channel(void **state)
{
	int n, ret;

	(void)state;
	for (n = 1; ; n++) {
		fake_verbs.fired = 0;
		fake_verbs_fail("*", n, ENOMEM);
		ret = cq_make(hb, "cq", 8, HARTEBEEST_CQ_CHANNEL, NULL);
		if (!fake_verbs.fired)
			break;
		assert_int_equal(ret, -ENOMEM);
		assert_true(beest_error_text()[0]);
		assert_int_equal(fake_verbs.cqs + fake_verbs.channels, 0);
	}
	assert_int_equal(ret, 0);
	assert_int_equal(n, 3);
	memset(fake_verbs.failures, 0, sizeof(fake_verbs.failures));
}

/* ------------------------------------------------- shared receive queues --- */

static struct ibv_qp *shared_qp(struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .srq = srq };
	struct ibv_qp *qp;

	assert_int_equal(cq_make(hb, "cq", 0, 0, &attr.send_cq), 0);
	attr.recv_cq = attr.send_cq;
	assert_int_equal(hartebeest_qp_create_verbs(hb, "qp", "pd", &attr, &qp), 0);
	assert_ptr_equal(qp->srq, srq);
	return qp;
}

static void shared_receives(void **state)
{
	struct ibv_srq *srq, *found;
	char memory[16];

	(void)state;
	assert_int_equal(srq_make(hb, "srq", "pd", 16, 1, &srq), 0);
	assert_int_equal(hartebeest_srq_get(hb, "srq", &found), 0);
	assert_ptr_equal(found, srq);
	assert_int_equal(hartebeest_post_srq_recv(srq, memory, sizeof(memory), 5, 77), 0);
	assert_true(fake_verbs_posted(0)->receive);
	assert_int_equal(fake_verbs_posted(0)->recv.wr_id, 77);
	assert_int_equal(fake_verbs_posted(0)->sge[0].length, sizeof(memory));
	shared_qp(srq);
	assert_int_equal(hartebeest_srq_destroy(hb, "srq"), -EBUSY);
	assert_error_is("cannot destroy shared receive queue 'srq': Device or resource busy; a "
			"queue pair still uses it: queue pair 'qp'");
	assert_int_equal(hartebeest_qp_destroy(hb, "qp"), 0);
	assert_int_equal(hartebeest_pd_destroy(hb, "pd"), -EBUSY);
	assert_error_has("still use it: shared receive queue 'srq'");
	assert_int_equal(hartebeest_srq_destroy(hb, "srq"), 0);
	assert_int_equal(hartebeest_srq_get(hb, "srq", &found), -ENOENT);
	assert_int_equal(hartebeest_pd_destroy(hb, "pd"), 0);
}

/* Sizes have defaults, and are limited to what the device has. */
static void sizes_of_a_shared_queue(void **state)
{
	struct ibv_device_attr *limits = &fake_verbs.devices[0].attr;
	struct hartebeest_srq_attr attr;
	struct ibv_srq *srq = NULL;

	(void)state;
	hartebeest_srq_attr_init(&attr);
	attr.pd = "pd";
	attr.srq_context = limits;
	assert_int_equal(hartebeest_srq_create(hb, "default", &attr, &srq), 0);
	assert_ptr_equal(srq->srq_context, limits);
	assert_int_equal(srq_make(hb, "much", "pd", UINT32_MAX, UINT32_MAX, NULL), 0);
	assert_int_equal(srq_make(hb, "much", "pd", 1, 1, NULL), -EEXIST);
	assert_int_equal(srq_make(hb, "lost", "none", 1, 1, NULL), -ENOENT);
	fake_verbs_fail("ibv_create_srq", 1, ENOMEM);
	assert_int_equal(srq_make(hb, "none", "pd", 10, 2, NULL), -ENOMEM);
	/* A limit on locked memory would follow. */
	assert_error_has("fake0:1: cannot create a shared receive queue of 10 requests with 2 "
			 "elements: Cannot allocate memory");
	assert_int_equal(limits->max_srq_wr, 4096);
	assert_int_equal(fake_verbs.srqs, 2);
}

static int refilled;

static int refill(void *data, struct ibv_qp *qp)
{
	(void)data, (void)qp;
	return refilled++, 0;
}

/* Shared receives survive the reset of a queue pair. */
static void no_refill_of_a_shared_queue(void **state)
{
	struct ibv_srq *srq;

	(void)state;
	assert_int_equal(srq_make(hb, "srq", "pd", 0, 0, &srq), 0);
	shared_qp(srq);
	refilled = 0;
	assert_int_equal(hartebeest_qp_refill_set(hb, "qp", refill, NULL), 0);
	assert_int_equal(hartebeest_qp_init(hb, "qp"), 0);
	assert_int_equal(refilled, 0);
}

/* ---------------------------------------------------------------- closing --- */

/* The program's own queue pair uses queues and domain of the context. */
static void close_under_a_foreign_queue_pair(void **state)
{
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp;
	struct ibv_pd *pd;

	(void)state;
	assert_int_equal(hartebeest_pd_get(hb, "pd", &pd), 0);
	attr.send_cq = attr.recv_cq = channel_cq();
	assert_int_equal(srq_make(hb, "srq", "pd", 0, 0, &attr.srq), 0);
	assert_int_equal(cq_make(hb, "free", 0, 0, NULL), 0);
	qp = ibv_create_qp(pd, &attr);
	assert_non_null(qp);
	assert_int_equal(hartebeest_close(hb), -EBUSY);
	hb = NULL;
	assert_error_is("device fake0 stays open until the process ends, since objects of the "
			"program depend on it: shared receive queue 'srq' is still in use; "
			"completion queue 'cq' is still in use; protection domain 'pd' is still "
			"in use");
	assert_non_null(strstr(logged, "4 device fake0 stays open until the process ends"));
	assert_int_equal(fake_verbs.cqs, 1);
	assert_int_equal(fake_verbs.contexts, 1);

	/* All that the queue pair uses still exists. */
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(attr.srq), 0);
	assert_int_equal(ibv_destroy_cq(attr.send_cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	fake_verbs_reset();
}

/* A dead device refuses everything, which does not keep it open. */
static void close_of_a_dead_device(void **state)
{
	(void)state;
	fake_verbs_fail("ibv_dealloc_pd", 0, EIO);
	assert_int_equal(hartebeest_close(hb), 0);
	hb = NULL;
	assert_non_null(strstr(logged,
			       "4 cannot destroy protection domain 'pd': Input/output error"));
	assert_int_equal(fake_verbs_calls("ibv_close_device"), 1);
	fake_verbs_reset();
}

/* What it does not destroy keeps what that depends on, and no object of the program is blamed. */
static void close_of_a_device_that_is_gone(void **state)
{
	(void)state;
	channel_cq();
	assert_int_equal(qp_make(hb, "last", "pd", IBV_QPT_RC, "cq", "cq", NULL), 0);
	fake_verbs_fail("ibv_destroy_qp", 0, EIO);
	assert_int_equal(hartebeest_close(hb), -EIO);
	hb = NULL;
	assert_error_is("device fake0 stays open until the process ends, since it did not destroy "
			"an object, on which others depend: cannot destroy queue pair 'last': "
			"Input/output error");
	assert_int_equal(fake_verbs_calls("ibv_close_device"), 0);
	fake_verbs_reset();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(empty_means_armed),
		TEST(between_looking_and_arming),
		TEST(another_thread_completes),
		TEST(a_dead_device_ends_the_wait),
		TEST(a_cancel_ends_the_wait),
		TEST(waits_that_cannot_be),
		TEST(a_channel_of_the_program),
		TEST(a_queue_that_fails),
		TEST(every_failure_of_a_channel),
		TEST(shared_receives),
		TEST(sizes_of_a_shared_queue),
		TEST(no_refill_of_a_shared_queue),
		TEST(close_under_a_foreign_queue_pair),
		TEST(close_of_a_dead_device),
		TEST(close_of_a_device_that_is_gone),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
