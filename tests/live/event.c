/* SPDX-License-Identifier: MIT */
/*
 * event.c - the port of a real device goes down for a moment
 *
 * Takes v0, the interface below rxe0, down and up again, so it runs only in the tests' own
 * virtual machine.
 *
 * promise: hartebeest_event(3)
 */
#include "config.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hartebeest-post.h"
#include "hartebeest.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/rank.h"
#include "tests/support/ranks.h"
#include "tests/support/unit.h"

static struct cache *cache;

static void need_machine(void)
{
	if (geteuid() == 0 && access("/sys/class/net/v0", F_OK) == 0 &&
	    access("/sys/class/infiniband/rxe0", F_OK) == 0)
		return;
	fprintf(stderr, "no rxe0 over v0, as in the tests' virtual machine\n");
	exit(77);
}

/* A cable that is put back in. */
static void *plug(void *data)
{
	pause_ms(300);
	return system("ip link set v0 up") == 0 ? NULL : data;
}

static struct hartebeest_context *open_at_rxe0(const char *timeout)
{
	const struct rank_settings settings = {
		.servers = cache_hostport(cache)->text,
		.timeout = timeout ? timeout : RANKS_PATIENCE, .device = "rxe0",
		.more = { "job.rank=0" },
	};
	struct ibv_context *verbs;
	struct hartebeest_context *hb;

	assert_int_equal(rank_open(&hb, &settings), 0);
	assert_int_equal(hartebeest_verbs(hb, &verbs), 0);
	return hb;
}

/* Waits for an event of @type; events of other types may come first. */
static void comes(struct hartebeest_context *hb, enum ibv_event_type type, int fatal)
{
	struct hartebeest_event event;

	do
		assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_FOREVER), 1);
	while (event.type != type);
	assert_int_equal(event.port, 1);
	assert_int_equal(event.fatal, fatal);
}

/* What needs no device goes on; what needs the port waits for it. */
static void a_port_that_goes_down(void **state)
{
	struct hartebeest_context *hb = open_at_rxe0("2s");
	struct hartebeest_event event;
	struct pollfd waiting = { .events = POLLIN };
	pthread_t thread;

	(void)state;
	while (hartebeest_event_get(hb, &event, HARTEBEEST_ONCE) > 0)
		;			/* events from the machine's start */
	assert_int_equal(hartebeest_pd_create(hb, "pd", NULL), 0);
	assert_int_equal(cq_make(hb, "cq", 16, 0, NULL), 0);
	assert_int_equal(qp_make(hb, "qp", "pd", IBV_QPT_RC, "cq", "cq", NULL), 0);
	assert_int_equal(system("ip link set v0 down"), 0);
	waiting.fd = hartebeest_event_fd(hb);
	assert_int_equal(poll(&waiting, 1, -1), 1);
	assert_int_equal(hartebeest_msg_push(hb, "there", "", 0, HARTEBEEST_FOREVER), 0);
	assert_int_equal(hartebeest_msg_wait(hb, "there", NULL, 0, NULL, HARTEBEEST_FOREVER), 0);
	assert_int_equal(UNTIL_ANSWERED(hartebeest_qp_fetch(hb, "never", NULL, 0)), -ETIMEDOUT);
	assert_int_equal(hartebeest_qp_publish(hb, "qp", "own", HARTEBEEST_ONCE), -EAGAIN);
	assert_non_null(strstr(hartebeest_error(), "port rxe0:1 is down, for "));
	assert_int_equal(hartebeest_qp_publish(hb, "qp", "own", 0), -ENETDOWN);
	assert_non_null(strstr(hartebeest_error(), "tried for 2 s "
			       "(HARTEBEEST_TIMEOUT): port rxe0:1 is down, for "));
	comes(hb, IBV_EVENT_PORT_ERR, 0);

	pthread_create(&thread, NULL, plug, NULL);
	assert_int_equal(hartebeest_qp_publish(hb, "qp", "own", hartebeest_clock() +
					       INT64_C(60000000000)), 0);
	pthread_join(thread, NULL);
	comes(hb, IBV_EVENT_PORT_ACTIVE, 0);
	hartebeest_close(hb);
}

/* A program that begins while its port is down. */
static void a_port_that_comes_late(void **state)
{
	const struct rank_settings settings = {
		.servers = cache_hostport(cache)->text, .timeout = "60s", .device = "rxe0",
	};
	struct hartebeest_context *hb;
	pthread_t thread;

	(void)state;
	assert_int_equal(system("ip link set v0 down"), 0);
	pthread_create(&thread, NULL, plug, NULL);
	assert_int_equal(rank_open(&hb, &settings), 0);
	assert_int_equal(hartebeest_pd_create(hb, "pd", NULL), 0);
	pthread_join(thread, NULL);
	hartebeest_close(hb);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_that_goes_down),
		cmocka_unit_test(a_port_that_comes_late),
	};

	need_machine();
	cache_need();
	cache = cache_start(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
