/* SPDX-License-Identifier: MIT */
/*
 * event.c - asynchronous events: read by the program, and reported while it waits
 *
 * The fake device raises them; a real Memcached is there to wait for.
 *
 * promise: hartebeest_event(3)
 */
#include "config.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hartebeest-mesh.h"
#include "hartebeest-post.h"
#include "hartebeest.h"
#include "lib/base/clock.h"
#include "lib/verbs/event.h"
#include "tests/support/fake-clock.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/rank.h"
#include "tests/support/unit.h"

static struct cache *cache;
static struct hartebeest_context *hb;
static struct ibv_qp *qp;
static char said[8192];

static void note(void *data, int level, const char *text)
{
	size_t used = strlen(said);

	(void)data;
	snprintf(said + used, sizeof(said) - used, "%d %s\n", level, text);
}

static void open_context(const char *more)
{
	const struct rank_settings settings = {
		.servers = cache_hostport(cache)->text, .job = "event", .size = 2, .more = { more },
	};

	assert_int_equal(rank_open(&hb, &settings), 0);
	hartebeest_log_set(hb, HARTEBEEST_LOG_INFO, note, NULL);
	assert_int_equal(hartebeest_pd_create(hb, "pd", NULL), 0);
	assert_int_equal(cq_make(hb, "cq", 0, 0, NULL), 0);
	assert_int_equal(qp_make(hb, "qp", "pd", IBV_QPT_RC, "cq", "cq", &qp), 0);
}

static int group_setup(void **state)
{
	(void)state;
	surroundings_clear();
	cache_need();
	cache = cache_start(NULL);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	cache_end(cache);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	fake_verbs_reset();
	said[0] = '\0';
	open_context(NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	hartebeest_close(hb);
	hb = NULL;
	return fake_verbs.open;
}

static void raise_port(enum ibv_event_type type, int port)
{
	struct ibv_async_event event = { .event_type = type };

	event.element.port_num = port;
	fake_verbs_raise(&event);
}

static void port_is(enum ibv_port_state state)
{
	__atomic_store_n(&fake_verbs.devices[0].ports[0].state, state, __ATOMIC_RELAXED);
}

/* Raises the event after 50 ms in another thread, as if a cable was pulled during a wait. */
static void *pull(void *data)
{
	pause_ms(50);
	port_is(IBV_PORT_DOWN);
	raise_port(IBV_EVENT_PORT_ERR, 1);
	return data;
}

static void *die(void *data)
{
	pause_ms(50);
	raise_port(IBV_EVENT_DEVICE_FATAL, 0);
	return data;
}

/* ---------------------------------------------------------- read by name --- */

static void none_is_zero(void **state)
{
	struct hartebeest_event event = { .port = 77 };
	int64_t begin = beest_clock_now();

	(void)state;
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), -EAGAIN);
	assert_int_equal(hartebeest_event_get(hb, &event, hartebeest_clock() + 60 * BEEST_MS),
			 -ETIMEDOUT);
	assert_true(beest_clock_now() - begin >= 60 * BEEST_MS);
	assert_int_equal(event.port, 77);
}

static void events_come_in_order(void **state)
{
	struct ibv_async_event raw = { .event_type = IBV_EVENT_QP_FATAL };
	struct hartebeest_event event;

	(void)state;
	raise_port(IBV_EVENT_GID_CHANGE, 1);
	raw.element.qp = qp;
	fake_verbs_raise(&raw);
	raise_port(IBV_EVENT_PORT_ERR, 2);
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
	assert_int_equal(event.type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(event.port, 1);
	assert_int_equal(event.fatal, 0);
	assert_string_equal(event.text, "port fake0:1: its GID table changed: published records "
			    "may have an address that is gone (GID_CHANGE)");
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
	assert_int_equal(event.qp_num, qp->qp_num);
	assert_string_equal(event.text, "queue pair 'qp': an error that no completion reports "
			    "(QP_FATAL)");
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
	assert_int_equal(event.port, 2);
	assert_int_equal(event.fatal, 0);	/* a port not in use */
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), -EAGAIN);
	assert_int_equal(fake_verbs.acked_events, 3);
}

/* Newer than the header of CentOS 7, or than that of this build. */
static void the_newest_events(void **state)
{
	static const char *const texts[] = {
		"device fake0: a work queue of the program has a fatal error (WQ_FATAL)",
		"device fake0: the speed of a link has changed (DEVICE_SPEED_CHANGE)",
		"device fake0: an unknown event (unknown)",
	};
	struct ibv_async_event raw = { .event_type = IBV_EVENT_WQ_FATAL };
	struct hartebeest_event event;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(texts); i++) {
		fake_verbs_raise(&raw);
		assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
		assert_string_equal(event.text, texts[i]);
		raw.event_type++;
	}
}

/* Events of one overflowing queue must not displace other events. */
static void repeats_are_folded(void **state)
{
	struct ibv_async_event raw = { .event_type = IBV_EVENT_CQ_ERR }, fatal = raw;
	struct ibv_cq foreign, *cq;
	struct hartebeest_event event;
	int i;

	(void)state;
	assert_int_equal(hartebeest_cq_get(hb, "cq", &cq), 0);
	fatal.event_type = IBV_EVENT_QP_FATAL;
	fatal.element.qp = qp;
	fake_verbs_raise(&fatal);
	for (i = 0; i < 70; i++) {
		raw.element.cq = i % 2 ? &foreign : cq;
		fake_verbs_raise(&raw);
		/* A wait reads events, too.  A server on a busy machine may answer late. */
		if (i % 7 == 6)
			assert_true(hartebeest_msg_wait(hb, "never", NULL, 0, NULL,
							HARTEBEEST_ONCE) < 0);
	}
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
	assert_int_equal(event.type, IBV_EVENT_QP_FATAL);
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
	assert_string_equal(event.text, "completion queue 'cq': it overflowed: completions are "
			    "lost (CQ_ERR)");
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
	assert_string_equal(event.text, "a completion queue of device fake0: it overflowed: "
			    "completions are lost (CQ_ERR)");
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), -EAGAIN);
	assert_non_null(strstr(said, "4 completion queue 'cq'"));
	assert_null(strstr(strstr(said, "4 completion queue 'cq'") + 1, "4 completion queue 'cq'"));

	raise_port(IBV_EVENT_PORT_ERR, 1);	/* other events between: kept */
	raise_port(IBV_EVENT_PORT_ACTIVE, 1);
	raise_port(IBV_EVENT_PORT_ERR, 1);
	for (i = 0; i < 3; i++)
		assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
	assert_int_equal(event.type, IBV_EVENT_PORT_ERR);
}

/* A full queue drops its oldest event, and keeps the order of all others. */
static void a_full_queue_drops_its_oldest(void **state)
{
	const int raised = BEEST_EVENTS_MAX + 3;
	struct hartebeest_event event;
	int i;

	(void)state;
	for (i = 1; i <= raised; i++) {
		raise_port(IBV_EVENT_SM_CHANGE, i);
		/* a wait reads events */
		if (i % 7 == 0 || i == raised)
			assert_true(hartebeest_msg_wait(hb, "never", NULL, 0, NULL,
							HARTEBEEST_ONCE) < 0);
	}
	for (i = raised - BEEST_EVENTS_MAX + 1; i <= raised; i++) {
		assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
		assert_int_equal(event.port, i);
	}
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), -EAGAIN);
}

static bool is_readable(int fd)
{
	struct pollfd waiting = { .fd = fd, .events = POLLIN };

	return poll(&waiting, 1, 0) == 1;
}

/* The descriptor is readable, even if a wait has read the event from the device. */
static void the_descriptor(void **state)
{
	struct hartebeest_event event;
	int fd;

	(void)state;
	fd = hartebeest_event_fd(hb);
	assert_true(fd >= 0);
	assert_int_equal(hartebeest_event_fd(hb), fd);
	assert_false(is_readable(fd));
	raise_port(IBV_EVENT_LID_CHANGE, 1);
	raise_port(IBV_EVENT_PKEY_CHANGE, 1);
	assert_true(is_readable(fd));
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
	assert_true(is_readable(fd));
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
	assert_int_equal(event.type, IBV_EVENT_PKEY_CHANGE);
	assert_false(is_readable(fd));
}

static int wait_msg(void)
{
	return hartebeest_msg_wait(hb, "never", NULL, 0, NULL, 0);
}

static void left_to_the_program(void **state)
{
	struct hartebeest_event event;

	(void)state;
	hartebeest_close(hb);
	open_context("device.events=0");
	raise_port(IBV_EVENT_DEVICE_FATAL, 0);
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), -EOPNOTSUPP);
	assert_int_equal(hartebeest_event_fd(hb), -EOPNOTSUPP);
	hartebeest_close(hb);
	open_context(NULL);
	fake_verbs.event_count = 0;
	assert_int_equal(IN_VAIN(wait_msg()), -ETIMEDOUT);
	assert_int_equal(fake_verbs.acked_events, 0);
}

/* Asking for events may be the first use of the device, and so fail without one. */
static void no_device(void **state)
{
	const struct rank_settings settings = { .servers = cache_hostport(cache)->text };
	struct hartebeest_event event;

	(void)state;
	hartebeest_close(hb);
	fake_verbs.device_count = 0;
	assert_int_equal(rank_open(&hb, &settings), 0);
	assert_int_equal(hartebeest_event_fd(hb), -ENODEV);
	assert_error_has("hartebeest_event_fd(): this machine has no RDMA device");
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), -ENODEV);
	assert_error_has("hartebeest_event_get(): this machine has no RDMA device");
	assert_int_equal(hartebeest_event_get(hb, &event, 0), -ENODEV);
	assert_error_has("hartebeest_event_get(): this machine has no RDMA device");
}

/* ------------------------------------------------------------ while waiting --- */

static int wait_barrier(void)
{
	return hartebeest_barrier(hb, "go", 0);
}

static int wait_qp(void)
{
	return hartebeest_qp_fetch(hb, "never", NULL, 0);
}

static int wait_mr(void)
{
	struct hartebeest_remote_mr mr;

	return hartebeest_mr_fetch(hb, "never", &mr, 0);
}

/* The context connects to itself, under another key: a peer that is there and never confirms. */
static int connect_to_itself(void)
{
	int ret;

	ret = hartebeest_qp_reset(hb, "qp");
	if (ret == 0)
		ret = hartebeest_qp_publish(hb, "qp", "peer", 0);
	if (ret == 0)
		ret = hartebeest_qp_publish(hb, "qp", "own", 0);
	if (ret == 0)
		ret = hartebeest_qp_fetch(hb, "peer", NULL, 0);
	if (ret == 0)
		ret = hartebeest_qp_connect(hb, "qp", "peer", 0);
	return ret;
}

static int wait_confirm(void)
{
	int ret = connect_to_itself();

	return ret < 0 ? ret : hartebeest_qp_confirm(hb, "qp", "peer", 0);
}

static int (*const waits[])(void) = { wait_msg, wait_barrier, wait_qp, wait_mr, wait_confirm };

static void all_waits_end(void *(*trouble)(void *), int err, const char *sentence)
{
	pthread_t thread;
	size_t i;

	for (i = 0; i < BEEST_COUNT(waits); i++) {
		port_is(IBV_PORT_ACTIVE);
		pthread_create(&thread, NULL, trouble, NULL);
		assert_int_equal(waits[i](), -err);
		assert_error_has(sentence);
		pthread_join(thread, NULL);
	}
}

/* What needs no device goes on, and ends for its own reasons only. */
static void a_port_that_goes_down(void **state)
{
	struct hartebeest_event event;
	size_t i;

	(void)state;
	assert_int_equal(connect_to_itself(), 0);
	pull(NULL);
	for (i = 0; i + 1 < BEEST_COUNT(waits); i++)
		assert_int_equal(IN_VAIN(waits[i]()), -ETIMEDOUT);
	assert_int_equal(IN_VAIN(hartebeest_qp_confirm(hb, "qp", "peer", 0)), -ETIMEDOUT);
	assert_int_equal(hartebeest_msg_push(hb, "there", NULL, 0, 0), 0);
	assert_int_equal(hartebeest_msg_wait(hb, "there", NULL, 0, NULL, 0), 0);
	assert_int_equal(hartebeest_msg_delete(hb, "there", 0), 0);
	/* The waits did not consume the event. */
	assert_int_equal(hartebeest_event_get(hb, &event, HARTEBEEST_ONCE), 1);
	assert_int_equal(event.type, IBV_EVENT_PORT_ERR);
	assert_int_equal(event.fatal, 0);
}

/* A cable that is put back in after 50 ms. */
static void *plug(void *data)
{
	pause_ms(50);
	port_is(IBV_PORT_ACTIVE);
	raise_port(IBV_EVENT_PORT_ACTIVE, 1);
	return data;
}

static void *up(void *data)
{
	pause_ms(50);
	port_is(IBV_PORT_ACTIVE);
	return data;
}

static int need_init(int64_t deadline)
{
	(void)deadline;
	return hartebeest_qp_init(hb, "qp");
}

static int need_publish(int64_t deadline)
{
	return hartebeest_qp_publish(hb, "qp", "own", deadline);
}

static int need_connect(int64_t deadline)
{
	return hartebeest_qp_connect(hb, "qp", "peer", deadline);
}

static int need_pairs(int64_t deadline)
{
	struct hartebeest_pair pair;
	int ret;

	hartebeest_pair_init(&pair);
	pair.qp = "qp", pair.key = "own", pair.peer_key = "peer";
	ret = hartebeest_pairs_connect(hb, &pair, 1, deadline);
	/* It is connected to itself, which never confirms. */
	return ret == -ETIMEDOUT && qp->state == IBV_QPS_RTS ? 0 : ret;
}

static int need_reconnect(int64_t deadline)
{
	int ret = hartebeest_qp_reconnect(hb, "qp", "peer", deadline);

	return ret == -ETIMEDOUT && qp->state == IBV_QPS_RTS ? 0 : ret;
}

static int need_mesh(int64_t deadline)
{
	static const int32_t self[] = { 0 };
	struct hartebeest_mesh_attr attr;
	struct hartebeest_mesh *mesh;
	int ret;

	hartebeest_mesh_attr_init(&attr);
	attr.ranks = self, attr.rank_count = 1;
	ret = hartebeest_mesh_connect(hb, "mesh", &attr, &mesh, deadline);
	if (ret == 0)
		hartebeest_mesh_close(mesh);
	return ret;
}

/* What needs the port waits for it until the deadline, and then says how long it has been down. */
static void what_needs_a_port(void **state)
{
	static const struct {
		int (*call)(int64_t deadline);
		bool connects;		/* it has been published, and its peer fetched */
		bool looks;		/* it may be a single look */
	} rows[] = {
		{ need_init, false, false },
		{ need_publish, false, true },
		{ need_connect, true, true },
		{ need_pairs, false, true },
		{ need_reconnect, true, true },
		{ need_mesh, false, false },
	};
	pthread_t thread;
	int ret, tries;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		assert_int_equal(connect_to_itself(), 0);
		assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
		if (rows[i].connects)
			assert_int_equal(hartebeest_qp_publish(hb, "qp", "own", 0), 0);
		raise_port(IBV_EVENT_GID_CHANGE, 1);	/* the choice is made again */
		port_is(IBV_PORT_DOWN);
		raise_port(IBV_EVENT_PORT_ERR, 1);
		if (rows[i].looks) {
			assert_int_equal(rows[i].call(HARTEBEEST_ONCE), -EAGAIN);
			assert_error_has("port fake0:1 is down, for ");
		}
		assert_int_equal(IN_VAIN(rows[i].call(0)), -ENETDOWN);
		assert_error_has("tried for 60 s (HARTEBEEST_TIMEOUT): ");
		assert_error_has("port fake0:1 is down, for ");
		assert_non_null(strstr(said, "4 port fake0:1 is down, for "));
		assert_non_null(strstr(strstr(said, "4 port fake0:1 is down, for "),
				       "; trying again for up to "));
		pthread_create(&thread, NULL, plug, NULL);
		/* On a busy machine, the port may not be up within that. */
		for (tries = 0; (ret = rows[i].call(hartebeest_clock() + 3 * BEEST_SECOND)) < 0 &&
		     tries < 20; tries++)
			;
		assert_int_equal(ret, 0);
		pthread_join(thread, NULL);
	}
}

/* All ports of the machine are down when the program begins. */
static void a_port_that_comes_late(void **state)
{
	const struct rank_settings settings = { .servers = cache_hostport(cache)->text };
	pthread_t thread;
	char text[1024];

	(void)state;
	hartebeest_close(hb);
	hb = NULL;
	port_is(IBV_PORT_DOWN);
	pthread_create(&thread, NULL, up, NULL);
	open_context(NULL);
	pthread_join(thread, NULL);
	hartebeest_close(hb);
	hb = NULL;
	assert_int_equal(rank_open(&hb, &settings), 0);
	port_is(IBV_PORT_DOWN);
	/* Whoever asks what is there gets an answer at once. */
	assert_int_equal(hartebeest_device_text(hb, text, sizeof(text)), -ENETDOWN);
	assert_error_has("no port of any RDMA device can be used: port fake0:1 is down");
	assert_int_equal(IN_SILENCE(hartebeest_pd_create(hb, "pd", NULL)), -ENETDOWN);
	assert_error_has("tried for 60 s (HARTEBEEST_TIMEOUT): no port of any RDMA device can be "
			 "used: port fake0:1 ");
}

static void a_device_that_dies(void **state)
{
	(void)state;
	all_waits_end(die, EIO, "device fake0 reported a fatal error: close the context");
}

/* hartebeest_qp_follow() does not wait, but reports a failure of the local device. */
static void a_look_at_a_peer(void **state)
{
	(void)state;
	assert_int_equal(connect_to_itself(), 0);
	assert_int_equal(hartebeest_qp_reset(hb, "qp"), 0);
	assert_int_equal(hartebeest_qp_follow(hb, "qp", "peer", NULL, HARTEBEEST_ONCE), -ENOTCONN);
	assert_int_equal(hartebeest_qp_follow(hb, "none", "peer", NULL, HARTEBEEST_ONCE), -ENOENT);
	assert_int_equal(connect_to_itself(), 0);
	assert_true(hartebeest_qp_follow(hb, "qp", "peer", NULL, HARTEBEEST_ONCE) >= 0);
	raise_port(IBV_EVENT_DEVICE_FATAL, 0);
	assert_int_equal(hartebeest_qp_follow(hb, "qp", "peer", NULL, HARTEBEEST_ONCE), -EIO);
	assert_error_has("device fake0 reported a fatal error");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(none_is_zero),
		TEST(events_come_in_order),
		TEST(the_newest_events),
		TEST(repeats_are_folded),
		TEST(a_full_queue_drops_its_oldest),
		TEST(the_descriptor),
		TEST(left_to_the_program),
		TEST(no_device),
		TEST(a_port_that_goes_down),
		TEST(a_device_that_dies),
		TEST(what_needs_a_port),
		TEST(a_port_that_comes_late),
		TEST(a_look_at_a_peer),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
