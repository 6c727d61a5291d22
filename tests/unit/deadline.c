/* SPDX-License-Identifier: MIT */
/*
 * deadline.c - every function that waits, with every kind of deadline
 *
 * One table lists all of them.  Each waits in vain, for a peer that is absent or for a server that
 * does not answer.  hartebeest_resolve() is tested in rdmacm.c.
 *
 * promise: hartebeest_cancel(3), hartebeest(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "hartebeest-mesh.h"
#include "lib/base/clock.h"
#include "lib/base/limit.h"
#include "lib/base/macro.h"
#include "tests/support/crew.h"
#include "tests/support/fake-process.h"
#include "tests/support/logged.h"
#include "tests/support/make.h"
#include "tests/support/party.h"
#include "tests/support/registry.h"

#define TIMEOUT (10 * BEEST_SECOND)	/* exchange.timeout of a party */

static struct hartebeest_context *hb;
static struct hartebeest_mesh *lattice[2];	/* of both ranks, if a test needs a mesh */

static int setup(void **state)
{
	(void)state;
	crew_need();
	party_start();
	party_open(0, 0, 2, NULL);
	party_open(1, 1, 2, NULL);
	hb = party[0].hb;
	party_pair(&party[0], 1, IBV_QPT_RC);
	party_pair(&party[1], 0, IBV_QPT_RC);
	return 0;
}

/* ----------------------------------------------------------- the calls that wait --- */

static int call_qp_fetch(int64_t deadline)
{
	return hartebeest_qp_fetch(hb, "nobody", NULL, deadline);
}

static int call_mr_fetch(int64_t deadline)
{
	struct hartebeest_remote_mr mr;

	return hartebeest_mr_fetch(hb, "nobody", &mr, deadline);
}

static int call_qp_confirm(int64_t deadline)
{
	return hartebeest_qp_confirm(hb, "q0-1", "1/0", deadline);
}

static int call_qp_reconnect(int64_t deadline)
{
	return hartebeest_qp_reconnect(hb, "q0-1", "1/0", deadline);
}

static int call_pairs_connect(int64_t deadline)
{
	int ret = hartebeest_pairs_connect(hb, party[0].pairs, 1, deadline);

	assert_true(ret == -EINVAL || ret == party[0].pairs[0].result);
	return ret;
}

static int call_msg_wait(int64_t deadline)
{
	return hartebeest_msg_wait(hb, "nobody", NULL, 0, NULL, deadline);
}

static int call_msgs_wait(int64_t deadline)
{
	struct hartebeest_message message;

	hartebeest_message_init(&message);
	message.peer_key = "nobody";
	return hartebeest_msgs_wait(hb, &message, 1, 0, deadline);
}

static int call_barrier(int64_t deadline)
{
	return hartebeest_barrier(hb, "all", deadline);
}

static int call_gather(int64_t deadline)
{
	char all[2];

	return hartebeest_gather(hb, "all", "x", 1, all, deadline);
}

static int call_mesh_connect(int64_t deadline)
{
	struct hartebeest_mesh *mesh;
	int ret = hartebeest_mesh_connect(hb, "lattice", NULL, &mesh, deadline);

	assert_true(ret < 0);
	return ret;
}

/* The other rank does not come. */
static int call_mesh_barrier(int64_t deadline)
{
	return hartebeest_mesh_barrier(lattice[0], deadline);
}

static int call_mesh_repair(int64_t deadline)
{
	return hartebeest_mesh_repair(lattice[0], deadline);
}

static int call_event_get(int64_t deadline)
{
	struct hartebeest_event event;

	return hartebeest_event_get(hb, &event, deadline);
}

static int call_qp_publish(int64_t deadline)
{
	return hartebeest_qp_publish(hb, "q0-1", "0/1", deadline);
}

static int call_mr_publish(int64_t deadline)
{
	return hartebeest_mr_publish(hb, "mr0", "mr", deadline);
}

static int call_msg_push(int64_t deadline)
{
	return hartebeest_msg_push(hb, "word", "x", 1, deadline);
}

static int call_msg_delete(int64_t deadline)
{
	return hartebeest_msg_delete(hb, "word", deadline);
}

static int call_counter_add(int64_t deadline)
{
	uint64_t value;

	return hartebeest_counter_add(hb, "sum", 1, &value, deadline);
}

static int call_service_listen(int64_t deadline)
{
	return hartebeest_service_listen(hb, "other", deadline);
}

static int call_service_accept(int64_t deadline)
{
	struct hartebeest_client request;

	return hartebeest_service_accept(hb, "empty", &request, deadline);
}

static int call_service_request(int64_t deadline)
{
	struct hartebeest_client request;

	return hartebeest_service_request(hb, "other", NULL, 0, &request, deadline);
}

/* Resetting makes it publish again. */
static int call_qp_connect(int64_t deadline)
{
	assert_int_equal(hartebeest_qp_reset(hb, "q0-1"), 0);
	return hartebeest_qp_connect(hb, "q0-1", "1/0", deadline);
}

/* Connects to a peer that has published but does not connect. */
static void connect_alone(void)
{
	assert_int_equal(hartebeest_qp_publish(party[1].hb, "q1-0", "1/0", 0), 0);
	assert_int_equal(hartebeest_qp_publish(hb, "q0-1", "0/1", 0), 0);
	assert_int_equal(hartebeest_qp_fetch(hb, "1/0", NULL, 0), 0);
	assert_int_equal(hartebeest_qp_connect(hb, "q0-1", "1/0", 0), 0);
}

static const struct waiter {
	const char *name;
	int (*call)(int64_t deadline);
	const char *wanted;		/* part of the sentence, also if the server fails */
	bool connected;			/* needs a connected queue pair */
	bool meshed;			/* needs a mesh */
	bool of_server;			/* waits only for the server, which is silent */
	bool of_device;			/* asks no server */
	bool idle;			/* finding nothing is not logged */
	bool meets;			/* needs all ranks, so more than one look */
} waiters[] = {
	{ .name = "qp_fetch", .wanted = "nobody", .call = call_qp_fetch },
	{ .name = "mr_fetch", .wanted = "nobody", .call = call_mr_fetch },
	{ .name = "qp_confirm", .wanted = "1/0", .call = call_qp_confirm, .connected = true },
	{ .name = "qp_reconnect", .wanted = "1/0", .call = call_qp_reconnect, .connected = true },
	{ .name = "pairs_connect", .wanted = "1/0", .call = call_pairs_connect },
	{ .name = "msg_wait", .wanted = "nobody", .call = call_msg_wait },
	{ .name = "msgs_wait", .wanted = "nobody", .call = call_msgs_wait },
	{ .name = "barrier", .wanted = "barrier", .call = call_barrier },
	{ .name = "gather", .wanted = "gather 'all', pass 1: ", .call = call_gather },
	{ .name = "mesh_connect", .wanted = "mesh 'lattice': ", .call = call_mesh_connect,
	  .meets = true },
	{ .name = "mesh_barrier", .wanted = "mesh 'lattice', barrier 1: ",
	  .call = call_mesh_barrier, .meshed = true },
	{ .name = "mesh_repair", .wanted = "mesh 'lattice': ", .call = call_mesh_repair,
	  .meshed = true, .meets = true },
	{ .name = "event_get", .call = call_event_get, .of_device = true, .idle = true },
	{ .name = "service_accept", .wanted = "empty", .call = call_service_accept, .idle = true },
	{ .name = "service_listen", .wanted = "service", .call = call_service_listen,
	  .of_server = true },
	{ .name = "service_request", .wanted = "service", .call = call_service_request,
	  .of_server = true },
	{ .name = "qp_publish", .wanted = "key hb1", .call = call_qp_publish, .of_server = true },
	{ .name = "mr_publish", .wanted = "key hb1", .call = call_mr_publish, .of_server = true },
	{ .name = "msg_push", .wanted = "key hb1", .call = call_msg_push, .of_server = true },
	{ .name = "msg_delete", .wanted = "key hb1", .call = call_msg_delete, .of_server = true },
	{ .name = "counter_add", .wanted = "key hb1", .call = call_counter_add,
	  .of_server = true },
	{ .name = "qp_connect", .wanted = "key hb1", .call = call_qp_connect, .connected = true,
	  .of_server = true },
};

static void mesh_one(void *data)
{
	const int rank = *(int *)data;

	assert_int_equal(hartebeest_mesh_connect(party[rank].hb, "lattice", NULL, &lattice[rank],
						 0), 0);
}

static void mesh_both(void)
{
	static int ranks[] = { 0, 1 };

	crew_start(mesh_one, &ranks[0]);
	crew_start(mesh_one, &ranks[1]);
	registry_run();
}

/* -------------------------------------------------------------------- each of them --- */

static struct {
	const struct waiter *waiter;
	int64_t deadline, took;
	int ret;
	uint64_t requests;
} run;

static void run_once(void *data)
{
	int64_t began = crew_now();

	(void)data;
	fake_kv_count_again();
	logged[0] = '\0';
	run.ret = run.waiter->call(run.deadline);
	run.took = crew_now() - began;
	run.requests = fake_kv.requests;
}

static void wait_with(const struct waiter *waiter, int64_t deadline)
{
	run.waiter = waiter;
	run.deadline = deadline;
	fake_kv_server("a:1")->error = waiter->of_server ? EHOSTDOWN : 0;
	crew_start(run_once, NULL);
	registry_run();
	fake_kv_server("a:1")->error = 0;
}

static void prepare(const struct waiter *waiter)
{
	party_teardown(NULL);
	setup(NULL);
	assert_int_equal(hartebeest_log_set(hb, HARTEBEEST_LOG_WARN, logged_keep, NULL), 0);
	assert_int_equal(hartebeest_msg_push(hb, "opens", "x", 1, 0), 0);
	assert_int_equal(hartebeest_service_listen(hb, "empty", 0), 0);
	if (waiter->connected)
		connect_alone();
	if (waiter->meshed)
		mesh_both();
}

static void expect(bool good, const char *what)
{
	if (good)
		return;
	print_error("hartebeest_%s(%lld): %s: %d after %lld ns, %d requests, '%s'\n%s",
		    run.waiter->name, (long long)run.deadline, what, run.ret, (long long)run.took,
		    (int)run.requests, hartebeest_error(), logged);
	fail();
}

/* A program with many calls must learn which one failed. */
static void each_names_what_was_wanted(void **state)
{
	const struct waiter *waiter;

	(void)state;
	for (waiter = waiters; waiter < waiters + BEEST_COUNT(waiters); waiter++) {
		if (waiter->of_device)
			continue;
		prepare(waiter);
		fake_kv_server("a:1")->error = EHOSTDOWN;
		run.waiter = waiter;
		run.deadline = 0;
		crew_start(run_once, NULL);
		registry_run();
		expect(run.ret == -EHOSTDOWN, "a silent server");
		expect(strstr(hartebeest_error(), waiter->wanted) != NULL, "what was wanted");
		expect(strstr(hartebeest_error(), "a:1") != NULL, "which server");
		expect(strstr(hartebeest_error(), "tried for 10 s (HARTEBEEST_TIMEOUT): ") != NULL,
		       "how long, and by which setting");
	}
}

/* Events are awaited by poll(2), which uses the real clock, so that wait is short. */
static void each_ends_in_time(void **state)
{
	const struct waiter *waiter;
	int64_t limit;
	int failure;

	(void)state;
	for (waiter = waiters; waiter < waiters + BEEST_COUNT(waiters); waiter++) {
		failure = waiter->of_server ? -EHOSTDOWN : -ETIMEDOUT;
		prepare(waiter);
		if (!waiter->of_device) {
			wait_with(waiter, 0);
			expect(run.ret == failure, "default");
			expect(run.took >= TIMEOUT && run.took < TIMEOUT + BEEST_SECOND, "default");
			expect((logged[0] == '\0') == waiter->idle, "default");
			prepare(waiter);
			limit = 3 * BEEST_SECOND;
			wait_with(waiter, crew_now() + limit);
			expect(run.ret == failure, "a time");
			expect(run.took >= limit && run.took < limit + BEEST_SECOND, "a time");
			expect((logged[0] == '\0') == waiter->idle, "a time");
		}

		prepare(waiter);
		wait_with(waiter, crew_now() - 5);
		expect(run.ret == failure, "past");
		expect(run.took < BEEST_MS, "past");
		expect(waiter->idle || strstr(hartebeest_error(), "the deadline had passed: "),
		       "past");
		expect((logged[0] == '\0') == waiter->idle, "past");
		wait_with(waiter, -2);
		expect(run.ret == -EINVAL && run.requests == 0, "invalid");
		expect(strstr(hartebeest_error(), "deadline -2 is invalid") != NULL, "invalid");
	}
}

static void once_is_one_silent_look(void **state)
{
	const struct waiter *waiter;

	(void)state;
	for (waiter = waiters; waiter < waiters + BEEST_COUNT(waiters); waiter++) {
		if (waiter->meets)
			continue;
		prepare(waiter);
		wait_with(waiter, HARTEBEEST_ONCE);
		expect(run.ret == -EAGAIN, "once");
		expect(run.took < BEEST_MS, "once");
		expect((int)run.requests == !waiter->of_device,
		       "once");
		expect(logged[0] == '\0', "once");
		expect(hartebeest_error()[0] != '\0', "once");
	}
}

/* Errors of a server, and whether a call with a deadline would go on. */
static const struct trouble {
	int error;
	bool passes;
} troubles[] = {
	{ EADDRNOTAVAIL, true }, { ECONNREFUSED, true }, { ECONNRESET, true },
	{ EHOSTDOWN, true }, { EHOSTUNREACH, true }, { ENETUNREACH, true },
	{ ENOBUFS, true }, { EUSERS, true },
	{ EACCES, false }, { EMFILE, false }, { ENOMEM, false }, { ENOSPC, false },
	{ EPROTO, false },
};

/* A program that polls calls again after -EAGAIN, whatever the cause, and gives up after others. */
static void once_in_trouble(void **state)
{
	const struct waiter *waiter;
	const struct trouble *trouble;

	(void)state;
	for (waiter = waiters; waiter < waiters + BEEST_COUNT(waiters); waiter++)
		for (trouble = troubles; trouble < troubles + BEEST_COUNT(troubles); trouble++) {
			if (waiter->meets || waiter->of_device)
				continue;
			prepare(waiter);
			fake_kv_server("a:1")->error = trouble->error;
			run.waiter = waiter;
			run.deadline = HARTEBEEST_ONCE;
			crew_start(run_once, NULL);
			registry_run();
			fake_kv_server("a:1")->error = 0;
			expect(run.ret == (trouble->passes ? -EAGAIN : -trouble->error),
			       strerror(trouble->error));
			expect(strstr(hartebeest_error(), strerror(trouble->error)) != NULL,
			       "which trouble");
			expect(strstr(hartebeest_error(), "a:1") != NULL, "which server");
			expect(logged[0] == '\0', "once, in trouble");
		}
}

/* A server that does not answer holds a call up for one look beyond its limit, not for several. */
static void a_silent_server_is_left_in_time(void **state)
{
	static const int64_t limits[] = { -1, 0, 100 * BEEST_MS, 2 * BEEST_SECOND };
	const struct waiter *waiter;
	size_t i;

	(void)state;
	for (waiter = waiters; waiter < waiters + BEEST_COUNT(waiters); waiter++)
		for (i = 0; i < BEEST_COUNT(limits) && !waiter->of_device; i++) {
			if (limits[i] < 0 && waiter->meets)
				continue;
			prepare(waiter);
			fake_kv_server("a:1")->silent = true;
			run.waiter = waiter;
			run.deadline = limits[i] < 0 ? HARTEBEEST_ONCE : crew_now() + limits[i];
			crew_start(run_once, NULL);
			registry_run();
			fake_kv_server("a:1")->silent = false;
			expect(run.ret == (limits[i] < 0 ? -EAGAIN : -EHOSTDOWN), "silent");
			expect(run.took <= BEEST_MAX(limits[i], 0) + BEEST_LIMIT_LOOK, "silent");
		}
}

/* -------------------------------------------------------- programs that only poll --- */

#define POLL_TIME (2 * BEEST_SECOND)	/* in which hartebeest_fail() is heard, says hartebeest.h */
#define WATCH_TIME (22 * BEEST_MS)	/* between two watches of two ranks */

static int watches;

static void watches_count(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	(void)kv;
	for (i = 0; i < request->key_count; i++)
		watches += strcmp(request->keys[i], "hb1/job/news") == 0;
}

/* Calls it every millisecond until it fails otherwise than with -EAGAIN, or @until. */
static void poll_until(void *until)
{
	const int64_t end = crew_now() + POLL_TIME;

	run.deadline = HARTEBEEST_ONCE;
	do {
		crew_pass(BEEST_MS);
		run_once(NULL);
		expect(run.requests <= 3, "looks of a poll");
	} while (run.ret == -EAGAIN && crew_now() < end &&
		 !(until && ((bool (*)(void))until)()));
	run.took = crew_now() - (end - POLL_TIME);
}

static void other_fails(void)
{
	assert_int_equal(hartebeest_fail(party[1].hb, "out of ideas"), 0);
}

/* This rank has met others, so only a watch shows the other process. */
static void twin_comes(void)
{
	assert_int_equal(hartebeest_msg_wait(hb, "opens", NULL, 0, NULL, 0), 0);
	party_open(2, 0, 2, NULL);
	assert_int_equal(hartebeest_msg_wait(party[2].hb, "nobody", NULL, 0, NULL,
					     crew_now() + 100 * BEEST_MS), -ETIMEDOUT);
}

static const struct {
	void (*happens)(void);
	int ret;
	const char *said;
} happenings[] = {
	{ other_fails, -ECONNABORTED, "has failed: out of ideas" },
	{ twin_comes, -EADDRINUSE, "rank 0 runs twice" },
};

static bool is_poll_in_vain(const struct waiter *waiter)
{
	return !waiter->meets && !waiter->of_device && !waiter->of_server;
}

static void happen(void *what)
{
	((void (*)(void))what)();
}

static void each_poll_hears_what_a_wait_hears(void **state)
{
	const struct waiter *waiter;
	size_t i;

	(void)state;
	for (waiter = waiters; waiter < waiters + BEEST_COUNT(waiters); waiter++)
		for (i = 0; i < BEEST_COUNT(happenings) && is_poll_in_vain(waiter); i++) {
			prepare(waiter);
			run.waiter = waiter;
			crew_start(happen, happenings[i].happens);
			registry_run();
			crew_start(poll_until, NULL);
			registry_run();
			expect(run.ret == happenings[i].ret, "what happened");
			expect(strstr(hartebeest_error(), happenings[i].said) != NULL, "said");
			expect(run.took <= 2 * WATCH_TIME, "soon");
		}
}

static bool region_is_there(void)
{
	size_t size;

	return fake_kv_get(fake_kv_server("a:1"), "hb1/job/mr/mine", &size) != NULL;
}

static void each_poll_restores_what_is_lost(void **state)
{
	const struct waiter *waiter;

	(void)state;
	for (waiter = waiters; waiter < waiters + BEEST_COUNT(waiters); waiter++) {
		if (!is_poll_in_vain(waiter))
			continue;
		prepare(waiter);
		run.waiter = waiter;
		assert_int_equal(hartebeest_mr_publish(hb, "mr0", "mine", 0), 0);
		assert_true(fake_kv_evict(fake_kv_server("a:1"), "hb1/job/mr/mine"));
		crew_start(poll_until, region_is_there);
		registry_run();
		expect(run.ret == -EAGAIN && region_is_there(), "restored");
	}
}

/* Different calls share the time of the last watch. */
static void poll_in_turn(void *data)
{
	const int64_t end = crew_now() + POLL_TIME;

	(void)data;
	while (crew_now() < end) {
		crew_pass(BEEST_MS);
		assert_int_equal(call_msg_wait(HARTEBEEST_ONCE), -EAGAIN);
		assert_int_equal(call_qp_fetch(HARTEBEEST_ONCE), -EAGAIN);
		assert_int_equal(call_mr_fetch(crew_now() + BEEST_MS), -ETIMEDOUT);
	}
}

static void polls_watch_now_and_then(void **state)
{
	(void)state;
	prepare(&(struct waiter){ .name = "" });
	watches = 0;
	fake_kv.hook = watches_count;
	crew_start(poll_in_turn, NULL);
	registry_run();
	fake_kv.hook = NULL;
	assert_in_range(watches, POLL_TIME / WATCH_TIME / 2, POLL_TIME / WATCH_TIME);
}

/* It may need longer for its first answer than each single look has. */
static void one_look_in_eight_is_patient(void **state)
{
	static int (*const calls[])(int64_t deadline) = { call_msg_wait, call_counter_add };
	struct waiter waiter = { .name = "poll" };
	size_t i;
	int n;

	(void)state;
	for (i = 0; i < BEEST_COUNT(calls); i++) {
		prepare(&waiter);
		waiter.call = calls[i];
		run.waiter = &waiter;
		run.deadline = HARTEBEEST_ONCE;
		fake_kv_server("a:1")->silent = true;
		for (n = 1; n <= 16; n++) {
			crew_start(run_once, NULL);
			registry_run();
			expect(run.ret == -EAGAIN, "silent");
			expect(run.took == (n % 8 ? BEEST_LIMIT_LOOK : 2 * BEEST_SECOND),
			       "patience");
		}
		fake_kv_server("a:1")->silent = false;
	}
}

/* -------------------------------------------------------------- calls that only ask --- */

static int call_qp_follow(int64_t deadline)
{
	return hartebeest_qp_follow(hb, "q0-1", "1/0", NULL, deadline);
}

static int call_peer_text(int64_t deadline)
{
	char text[128];
	int ret = hartebeest_peer_text(hb, "1/0", text, sizeof(text), deadline);

	return ret > 0 ? 0 : ret;
}

static const struct waiter askers[] = {
	{ .name = "qp_follow", .call = call_qp_follow },
	{ .name = "peer_text", .call = call_peer_text },
};

/* Silence is no failure of theirs, but takes until the deadline. */
static void each_asker_gives_up_in_time(void **state)
{
	static const int64_t limits[] = { -1, 0, 100 * BEEST_MS, 2 * BEEST_SECOND };
	const struct waiter *asker;
	size_t i;

	(void)state;
	prepare(&(struct waiter){ .connected = true });
	for (asker = askers; asker < askers + BEEST_COUNT(askers); asker++) {
		wait_with(asker, HARTEBEEST_ONCE);
		expect(run.ret == 0 && run.requests == 1, "once");
		wait_with(asker, -2);
		expect(run.ret == -EINVAL && run.requests == 0, "invalid");
		for (i = 0; i < BEEST_COUNT(limits); i++) {
			fake_kv_server("a:1")->silent = true;
			run.deadline = limits[i] < 0 ? HARTEBEEST_ONCE : crew_now() + limits[i];
			crew_start(run_once, NULL);
			registry_run();
			fake_kv_server("a:1")->silent = false;
			expect(run.ret == 0, "silent");
			expect(run.took >= limits[i], "silent");
			expect(run.took <= BEEST_MAX(limits[i], 0) + BEEST_LIMIT_LOOK, "silent");
		}
	}
}

static int replaced;

static void follow(void *data)
{
	(void)data;
	replaced = hartebeest_qp_follow(hb, "q0-1", "1/0", NULL, INT64_MAX);
}

static void publish_another(void *data)
{
	(void)data;
	crew_pass(7 * BEEST_SECOND);
	assert_int_equal(hartebeest_qp_reset(party[1].hb, "q1-0"), 0);
	assert_int_equal(hartebeest_qp_publish(party[1].hb, "q1-0", "1/0", 0), 0);
}

static void follow_waits_for_a_successor(void **state)
{
	(void)state;
	prepare(&(struct waiter){ .connected = true });
	crew_start(follow, NULL);
	crew_start(publish_another, NULL);
	registry_run();
	assert_int_equal(replaced, 1);
}

/* A switch dies, and with it the servers: a rank prints what became of each of its requests. */
static void texts_of_completions_ask_nobody(void **state)
{
	struct ibv_wc wc = { .status = IBV_WC_RETRY_EXC_ERR };
	char text[768];
	struct ibv_qp *qp;
	int i;

	(void)state;
	prepare(&(struct waiter){ .connected = true });
	assert_int_equal(hartebeest_qp_get(hb, "q0-1", &qp), 0);
	wc.qp_num = qp->qp_num;
	fake_kv_server("a:1")->silent = true;
	fake_kv_count_again();
	for (i = 0; i < 1023; i++)
		assert_true(hartebeest_completion_text(hb, &wc, text, sizeof(text)) >= 0);
	assert_int_equal(fake_kv.requests + fake_kv.probes, 0);
	assert_null(strstr(text, "; the peer is"));

	/* What was heard of the peer before is known without a server. */
	fake_kv_server("a:1")->silent = false;
	party_close(&party[1]);
	assert_true(call_peer_text(0) >= 0);
	fake_kv_server("a:1")->silent = true;
	fake_kv_count_again();
	assert_true(hartebeest_completion_text(hb, &wc, text, sizeof(text)) >= 0);
	assert_non_null(strstr(text, "; the peer is rank 1, which has left"));
	assert_int_equal(fake_kv.requests + fake_kv.probes, 0);
}

/* ------------------------------------------------------- calls without a deadline --- */

#define CLOSING (3 * BEEST_SECOND)	/* how long a closing context waits for a silent server */
#define MANY 40

static struct hartebeest_client asked[MANY];

static int end_request(int i)
{
	return hartebeest_service_leave(hb, "empty", &asked[i]);
}

static int refuse_request(int i)
{
	return hartebeest_service_leave(party[1].hb, "empty", &asked[i]);
}

static int end_region(int i)
{
	char name[16];

	snprintf(name, sizeof(name), "many-%d", i);
	return hartebeest_mr_destroy(hb, name);
}

static int end_queue_pair(int i)
{
	return i ? 0 : hartebeest_qp_destroy(hb, "q0-1");
}

static int end_rank(int i)
{
	return i ? 0 : hartebeest_fail(hb, "no more");
}

static int end_context(int i)
{
	int ret = i ? 0 : hartebeest_close(hb);

	party[0].hb = i ? party[0].hb : NULL;
	return ret;
}

/* Each is called for all its objects, one after the other. */
static const struct ender {
	const char *name;
	int (*call)(int i);
	int servers;			/* that its objects' records are on */
} enders[] = {
	{ "service_leave, of a client", end_request, 1 },
	{ "service_leave, of the listener", refuse_request, 1 },
	{ "mr_destroy", end_region, 5 },
	{ "qp_destroy", end_queue_pair, 1 },
	{ "fail", end_rank, 1 },
	{ "close", end_context, 1 },
};

static void prepare_many(void)
{
	static const char servers[] = "exchange.servers=a:1,b:1,c:1,d:1,e:1";
	char name[16];
	int i;

	party_teardown(NULL);
	crew_need();
	party_start();
	party_open(0, 0, 2, servers);
	party_open(1, 1, 2, servers);
	hb = party[0].hb;
	party_pair(&party[0], 1, IBV_QPT_RC);
	party_pair(&party[1], 0, IBV_QPT_RC);
	connect_alone();
	assert_int_equal(hartebeest_service_listen(party[1].hb, "empty", 0), 0);
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "many-%d", i);
		assert_int_equal(mr_make(hb, name, "pd", 8, 0, NULL), 0);
		assert_int_equal(hartebeest_mr_publish(hb, name, name, 0), 0);
		assert_int_equal(hartebeest_service_request(hb, "empty", NULL, 0, &asked[i], 0),
				 0);
	}
}

static int64_t ended;

static void end_many(void *data)
{
	const struct ender *ender = data;
	int i;

	for (i = 0; i < MANY; i++)
		ender->call(i);
	ended = crew_now();
}

/*
 * However many calls in a row are made.  A call that is about all servers waits for all of them
 * at once.
 */
static void what_has_no_deadline_has_one_limit(void **state)
{
	struct fake_kv_server *server;
	const struct ender *ender;
	int64_t began;

	(void)state;
	for (ender = enders; ender < enders + BEEST_COUNT(enders); ender++) {
		prepare_many();
		for (server = fake_kv.servers; server->text[0]; server++)
			server->silent = true;
		began = crew_now();
		crew_start(end_many, (void *)ender);
		registry_run();
		for (server = fake_kv.servers; server->text[0]; server++)
			server->silent = false;
		if (ended - began > ender->servers * CLOSING + BEEST_LIMIT_LOOK)
			fail_msg("%s took %lld ns", ender->name, (long long)(ended - began));
	}
}

/* ------------------------------------------------------------------- cancelled --- */

static void cancel_later(void *data)
{
	(void)data;
	crew_pass(2 * BEEST_SECOND);
	hartebeest_cancel(hb);
}

/* Every call that waits for ever ends soon after hartebeest_cancel(). */
static void cancelled_in_progress(void **state)
{
	const struct waiter *waiter;

	(void)state;
	for (waiter = waiters; waiter < waiters + BEEST_COUNT(waiters); waiter++) {
		if (waiter->of_device)
			continue;
		prepare(waiter);
		crew_start(cancel_later, NULL);
		wait_with(waiter, INT64_MAX);
		expect(run.ret == -ECANCELED, "cancelled");
		expect(run.took >= 2 * BEEST_SECOND && run.took < 3 * BEEST_SECOND, "cancelled");
		expect(!strstr(logged, "cancel"), "cancelled");
		assert_error_has("hartebeest_cancel() ended the call");
		expect(strstr(hartebeest_error(), waiter->wanted) != NULL, "what was wanted");
	}
}

/* Each request of a server that is silent lasts that long, and then fails. */
#define SILENCE (900 * BEEST_MS)

static int64_t hold_silently(const struct beest_kv *kv)
{
	(void)kv;
	return SILENCE;
}

static void cancel_soon(void *data)
{
	(void)data;
	crew_pass(300 * BEEST_MS);
	hartebeest_cancel(hb);
}

/* A call that is cancelled makes no further request. */
static void cancelled_in_silence(void **state)
{
	const struct waiter *waiter;

	(void)state;
	for (waiter = waiters; waiter < waiters + BEEST_COUNT(waiters); waiter++) {
		if (waiter->of_device)
			continue;
		prepare(waiter);
		fake_kv.hold = hold_silently;
		fake_kv_server("a:1")->error = EHOSTDOWN;
		run.waiter = waiter;
		run.deadline = INT64_MAX;
		crew_start(run_once, NULL);
		crew_start(cancel_soon, NULL);
		registry_run();
		fake_kv.hold = NULL;
		fake_kv_server("a:1")->error = 0;
		expect(run.ret == -ECANCELED, "cancelled in silence");
		expect(run.took < SILENCE + 100 * BEEST_MS, "cancelled in silence");
	}
}

static void cancelled_before(void **state)
{
	const struct waiter *waiter;

	(void)state;
	for (waiter = waiters; waiter < waiters + BEEST_COUNT(waiters); waiter++) {
		prepare(waiter);
		hartebeest_cancel(hb);
		wait_with(waiter, INT64_MAX);
		expect(run.ret == -ECANCELED && run.took < BEEST_SECOND, "cancelled before");
		wait_with(waiter, INT64_MAX);
		expect(run.ret == -ECANCELED && run.took < BEEST_SECOND, "cancelled twice");
		hartebeest_cancel_clear(hb);
		wait_with(waiter, crew_now() + !waiter->of_device);
		expect(run.ret == (waiter->of_server ? -EHOSTDOWN : -ETIMEDOUT), "cleared");
	}

	/* A call that can succeed at once still does. */
	hartebeest_cancel(hb);
	assert_int_equal(hartebeest_msg_push(hb, "word", "x", 1, 0), 0);
	assert_int_equal(hartebeest_msg_wait(hb, "word", NULL, 0, NULL, 0), 0);
	hartebeest_cancel(NULL);
	hartebeest_cancel_clear(NULL);
}

static void cancel_and_clear(void *data)
{
	(void)data;
	crew_pass(BEEST_SECOND);
	hartebeest_cancel(hb);
	hartebeest_cancel_clear(hb);
}

/* The cancellation is cleared before the waiting call looks again. */
static void cleared_at_once(void **state)
{
	(void)state;
	prepare(&waiters[0]);
	crew_start(cancel_and_clear, NULL);
	wait_with(&waiters[0], INT64_MAX);
	expect(run.ret == -ECANCELED, "cleared at once");
}

/* Uses real threads and the real clock. */
static void *event_thread(void *data)
{
	*(int *)data = call_event_get(INT64_MAX);
	return NULL;
}

static void cancelled_from_another_thread(void **state)
{
	pthread_t thread;
	int ret = 0;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, event_thread, &ret), 0);
	hartebeest_cancel(hb);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(ret, -ECANCELED);
}

/* ------------------------------------------------------- without ever blocking --- */

static int pass_alone(struct party_member *member, const char *name)
{
	int64_t began = crew_now();
	int ret = hartebeest_barrier(member->hb, name, HARTEBEEST_ONCE);

	assert_true(crew_now() - began < BEEST_MS);
	assert_true(ret == 0 || ret == -EAGAIN);
	return ret;
}

static void come_and_go(void *data)
{
	struct party_member *member = data;
	int tries;

	crew_pass(member->delay);
	for (tries = 0; tries < 400 && pass_alone(member, "first") < 0; tries++)
		crew_pass(5 * BEEST_MS);
	member->ret = tries < 400 ? 0 : -EAGAIN;
	for (; tries < 400 && pass_alone(member, "second") < 0; tries++)
		crew_pass(5 * BEEST_MS);
	member->count = (size_t)tries;
}

/* Successive calls advance a barrier step by step, though none of them waits. */
static void barriers_without_waiting(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 5; i++) {
		party_close(&party[i]);
		party_open(i, i, 5, NULL);
		party[i].delay = i * 3 * BEEST_MS;
		crew_start(come_and_go, &party[i]);
	}
	registry_run();
	for (i = 0; i < 5; i++) {
		assert_int_equal(party[i].ret, 0);
		assert_in_range(party[i].count, 1, 100);
	}
}

/* HARTEBEEST_ONCE names the missing ranks like a barrier that waits. */
static void a_barrier_once_names_who_is_missing(void **state)
{
	(void)state;
	assert_int_equal(hartebeest_barrier(hb, "all", HARTEBEEST_ONCE), -EAGAIN);
	assert_error_has("barrier 'all', pass 1: 1 of 2 ranks has not arrived: rank 1 "
			 "(never seen); key hb1/job/fence/all/lead; server a:1 answers");
}

/* A chunk has the longest key of a barrier, which is checked before there is any. */
static void names_that_are_too_long(void **state)
{
	const size_t most = 219;
	uint64_t value;
	char name[400];

	(void)state;
	fake_kv_count_again();
	assert_int_equal(hartebeest_barrier(hb, unit_repeat(name, 'n', 399), 0), -ENAMETOOLONG);
	assert_int_equal(hartebeest_barrier(hb, unit_repeat(name, 'n', most + 1), 0),
			 -ENAMETOOLONG);
	assert_error_has("...' has 220 bytes, at most 219 are possible in job 'job'");
	assert_int_equal(hartebeest_barrier(hb, "a b", 0), -EINVAL);
	assert_int_equal(hartebeest_barrier(hb, "", 0), -EINVAL);
	assert_int_equal(hartebeest_msg_push(hb, unit_repeat(name, 'n', 239), NULL, 0, 0),
			 -ENAMETOOLONG);
	assert_error_has("...' of a message has 239 bytes, at most 238 are possible in job 'job'");
	assert_int_equal(hartebeest_counter_add(hb, unit_repeat(name, 'n', 235), 1, &value, 0),
			 -ENAMETOOLONG);
	assert_error_has("...' of a counter has 235 bytes, at most 234 are possible in job 'job'");
	assert_int_equal(fake_kv.requests, 0);
	assert_int_equal(hartebeest_msg_push(hb, unit_repeat(name, 'n', 238), NULL, 0, 0), 0);
	assert_int_equal(hartebeest_barrier(hb, unit_repeat(name, 'n', most), HARTEBEEST_ONCE),
			 -EAGAIN);
}

/* One call finds the one message among a thousand keys. */
static void a_thousand_possible_peers(void **state)
{
	static struct hartebeest_message messages[1000];
	static char keys[1000][16];
	int64_t began = crew_now();
	size_t i;
	int found = 0;

	(void)state;
	for (i = 0; i < 1000; i++) {
		snprintf(keys[i], sizeof(keys[i]), "peer-%zu", i);
		hartebeest_message_init(&messages[i]);
		messages[i].peer_key = keys[i];
	}
	assert_int_equal(hartebeest_msg_push(party[1].hb, "peer-777", "x", 1, 0), 0);
	assert_int_equal(hartebeest_msg_push(hb, "first", "x", 1, 0), 0);
	assert_int_equal(hartebeest_log_set(hb, HARTEBEEST_LOG_DEBUG, logged_keep, NULL), 0);
	logged[0] = '\0';
	for (i = 0; i < 1000; i++)
		found += hartebeest_msg_wait(hb, keys[i], NULL, 0, NULL, HARTEBEEST_ONCE) == 0;
	assert_int_equal(found, 1);

	fake_kv_count_again();
	assert_int_equal(hartebeest_msgs_wait(hb, messages, 1000, 1, HARTEBEEST_ONCE), 1);
	assert_int_equal(messages[777].result, 0);
	assert_int_equal(messages[776].result, -EAGAIN);
	assert_int_equal(fake_kv.requests, 1);
	assert_string_equal(logged, "");
	assert_true(crew_now() - began < 1100 * FAKE_KV_LATENCY);
}

static int letter_read(char text[8])
{
	return hartebeest_msg_wait(party[0].hb, "b", text, 8, NULL, HARTEBEEST_ONCE);
}

/* Rank 1 as another process, which comes to the servers, and may leave again. */
static void successor_come(bool leaves)
{
	party_open(1, 1, 2, NULL);
	assert_int_equal(hartebeest_msg_push(party[1].hb, "c", "", 0, 0), 0);
	if (leaves)
		party_close(&party[1]);
}

/*
 * Two runs in a row have one job id.  Rank 0 was killed, so it knows that others may have left
 * messages.  It takes those of a process that has left, which may be of its own run.
 */
static void a_message_of_a_former_run(void **state)
{
	static const struct {
		bool leaves, hidden;		/* rank 1 leaves; that it is dead cannot be seen */
		bool again;			/* its successor leaves, too, and has one */
		bool early, late;		/* taken before its successor comes, and after */
	} rows[] = {
		{ false, false, false, false, false },
		{ false, true, false, true, false },
		{ false, true, true, true, false },
		{ true, false, false, true, true },
		{ true, false, true, true, true },
	}, *row;
	char text[8];

	for (row = rows; row < rows + BEEST_COUNT(rows); row++) {
		party_teardown(state);
		setup(state);
		assert_int_equal(hartebeest_msg_push(party[0].hb, "a", "", 0, 0), 0);
		assert_int_equal(hartebeest_msg_push(party[1].hb, "b", "old", 4, 0), 0);
		fake_process_hides_deaths = row->hidden;
		party_kill(&party[0]);
		if (row->leaves)
			party_close(&party[1]);
		else
			party_kill(&party[1]);
		party_open(0, 0, 2, NULL);
		letter_read(text);
		registry_stage.now += 2 * BEEST_SECOND;
		/* Who has pushed it is asked in the second request. */
		fake_kv_fail(FAKE_KV_REQUEST, 2, EHOSTDOWN, FAKE_KV_REFUSED);
		assert_int_equal(letter_read(text), -EAGAIN);
		assert_error_has("message 'b' (key hb1/job/msg/b) was published by rank 1, but "
				 "server a:1 does not answer whether that process still is of this "
				 "run");
		registry_stage.now += 5 * BEEST_SECOND;
		assert_int_equal(letter_read(text), row->early ? 0 : -EAGAIN);
		if (!row->early)
			assert_error_has("message 'b' (key hb1/job/msg/b) was published by rank 1 "
					 "on ");
		if (!row->early)
			assert_error_has(", whose process is dead");
		successor_come(row->again);
		registry_stage.now += 2 * BEEST_SECOND;
		if (row->again)
			successor_come(false);
		assert_int_equal(letter_read(text), row->late ? 0 : -EAGAIN);
		if (!row->late)
			assert_error_has("message 'b' (key hb1/job/msg/b) was published by a "
					 "process that is gone; its successor is rank 1 on ");
		assert_int_equal(hartebeest_msg_push(party[1].hb, "b", "new", 4, 0), 0);
		assert_int_equal(letter_read(text), 0);
		assert_string_equal(text, "new");
		fake_process_hides_deaths = false;
	}
}

/*
 * Stored later, it would replace a message that another process has pushed since; and each look
 * that tried to store it would fail with the server's error, whatever it reads.
 */
static void a_failed_push_stays_failed(void **state)
{
	static const int errors[] = { ECONNREFUSED, ENOBUFS };
	char word[8];
	size_t i;

	(void)state;
	assert_int_equal(hartebeest_msg_push(hb, "opens", "x", 1, 0), 0);
	for (i = 0; i < BEEST_COUNT(errors); i++) {
		fake_kv_server("a:1")->error = errors[i];
		assert_int_equal(hartebeest_msg_push(hb, "word", "old", 4, crew_now() + 1),
				 -errors[i]);
		fake_kv_server("a:1")->error = 0;
		assert_int_equal(hartebeest_msg_push(party[1].hb, "word", "new", 4, 0), 0);
		assert_int_equal(hartebeest_msg_wait(hb, "nobody", NULL, 0, NULL,
						     crew_now() + 3 * BEEST_SECOND), -ETIMEDOUT);
		assert_int_equal(hartebeest_msg_wait(hb, "word", word, sizeof(word), NULL, 0), 0);
		assert_string_equal(word, "new");
	}
}

static void heal_later(void *data)
{
	(void)data;
	crew_pass(3 * BEEST_SECOND);
	fake_kv_server("a:1")->error = 0;
}

static int64_t ends[2];
static int returned[2];

static void push_until(void *data)
{
	int64_t *end = data;

	returned[end - ends] = hartebeest_msg_push(hb, "word", end == ends ? "a" : "b", 2, *end);
}

/* One thread's push fails after another's has begun, or before: that one is stored all the same. */
static void a_failed_push_beside_another(void **state)
{
	char word[8];
	size_t first;

	(void)state;
	assert_int_equal(hartebeest_msg_push(hb, "opens", "x", 1, 0), 0);
	for (first = 0; first < 2; first++) {
		fake_kv_server("a:1")->error = ECONNREFUSED;
		ends[0] = crew_now() + BEEST_SECOND;
		ends[1] = crew_now() + 9 * BEEST_SECOND;
		crew_start(push_until, &ends[first]);
		crew_start(push_until, &ends[!first]);
		crew_start(heal_later, NULL);
		registry_run();
		assert_int_equal(returned[0], -ECONNREFUSED);
		assert_int_equal(returned[1], 0);
		assert_int_equal(hartebeest_msg_wait(party[1].hb, "word", word, sizeof(word), NULL,
						     HARTEBEEST_ONCE), 0);
		assert_string_equal(word, "b");
		assert_int_equal(hartebeest_msg_delete(hb, "word", 0), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_names_what_was_wanted, setup, party_teardown),
		cmocka_unit_test_setup_teardown(each_ends_in_time, setup, party_teardown),
		cmocka_unit_test_setup_teardown(once_is_one_silent_look, setup, party_teardown),
		cmocka_unit_test_setup_teardown(once_in_trouble, setup, party_teardown),
		cmocka_unit_test_setup_teardown(a_silent_server_is_left_in_time, setup,
						party_teardown),
		cmocka_unit_test_setup_teardown(each_poll_hears_what_a_wait_hears, setup,
						party_teardown),
		cmocka_unit_test_setup_teardown(each_poll_restores_what_is_lost, setup,
						party_teardown),
		cmocka_unit_test_setup_teardown(polls_watch_now_and_then, setup, party_teardown),
		cmocka_unit_test_setup_teardown(one_look_in_eight_is_patient, setup,
						party_teardown),
		cmocka_unit_test_setup_teardown(each_asker_gives_up_in_time, setup, party_teardown),
		cmocka_unit_test_setup_teardown(follow_waits_for_a_successor, setup,
						party_teardown),
		cmocka_unit_test_setup_teardown(texts_of_completions_ask_nobody, setup,
						party_teardown),
		cmocka_unit_test_setup_teardown(what_has_no_deadline_has_one_limit, setup,
						party_teardown),
		cmocka_unit_test_setup_teardown(cancelled_in_progress, setup, party_teardown),
		cmocka_unit_test_setup_teardown(cancelled_in_silence, setup, party_teardown),
		cmocka_unit_test_setup_teardown(cancelled_before, setup, party_teardown),
		cmocka_unit_test_setup_teardown(cleared_at_once, setup, party_teardown),
		cmocka_unit_test_setup_teardown(cancelled_from_another_thread, setup,
						party_teardown),
		cmocka_unit_test_setup_teardown(barriers_without_waiting, setup, party_teardown),
		cmocka_unit_test_setup_teardown(a_barrier_once_names_who_is_missing, setup,
						party_teardown),
		cmocka_unit_test_setup_teardown(names_that_are_too_long, setup, party_teardown),
		cmocka_unit_test_setup_teardown(a_thousand_possible_peers, setup, party_teardown),
		cmocka_unit_test_setup_teardown(a_message_of_a_former_run, setup, party_teardown),
		cmocka_unit_test_setup_teardown(a_failed_push_stays_failed, setup, party_teardown),
		cmocka_unit_test_setup_teardown(a_failed_push_beside_another, setup,
						party_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
