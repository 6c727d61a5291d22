/* SPDX-License-Identifier: MIT */
/*
 * wait.c - deadlines, sentences, and who ends a wait
 *
 * promise: hartebeest(7)
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/rendezvous/message.h"
#include "tests/support/crew.h"
#include "tests/support/fake-process.h"
#include "tests/support/registry.h"
#include "tests/support/unit.h"

static struct beest_registry *one, *two;

#define GETS 40
static char keys[GETS][64], names[GETS][8];
static struct beest_wait_get gets[GETS];
static int seen[GETS];			/* number of calls */
static int verdict[GETS];		/* returned by see() */

static int see(void *data, const struct beest_record *record)
{
	size_t i = (size_t)((struct beest_wait_get *)data - gets);

	(void)record;
	seen[i]++;
	return verdict[i] < 0 ? beest_fail(-verdict[i], "what is this") : verdict[i];
}

static int setup(void **state)
{
	size_t i;

	(void)state;
	crew_need();
	registry_start();
	memset(seen, 0, sizeof(seen));
	memset(gets, 0, sizeof(gets));
	for (i = 0; i < GETS; i++) {
		snprintf(names[i], sizeof(names[i]), "n%zu", i);
		snprintf(keys[i], sizeof(keys[i]), "hb1/job/qp/n%zu", i);
		gets[i].kind = BEEST_KIND_QP;
		gets[i].key = keys[i];
		gets[i].name = names[i];
		gets[i].see = see;
		gets[i].data = &gets[i];
		verdict[i] = 1;
	}
	return 0;
}

static void make(void)
{
	one = registry_make(0, 2);
	two = registry_make(1, 2);
}

static void publish(struct beest_registry *registry, size_t i)
{
	assert_int_equal(registry_publish(registry, BEEST_KIND_QP, names[i], "text"), 0);
}

static int wait_for(size_t count, int64_t deadline, bool once)
{
	struct beest_wait wait = { .gets = gets, .count = count };

	wait.limit = REGISTRY_LIMIT(once ? HARTEBEEST_ONCE : deadline);
	return beest_wait_run(one, &wait);
}

/* It ends so. */
static void fails(size_t count, int64_t span, int ret, const char *text)
{
	assert_int_equal(wait_for(count, beest_clock_deadline(span), false), ret);
	assert_error_has(text);
}

static void again(void)
{
	registry_teardown(NULL);
	setup(NULL);
}

#define HINT "; HARTEBEEST_JOB (here job) and the servers must be the same on both sides"

/* "; this job also has rank 1 on HOST, pid PID" and @more. */
static const char *also(int32_t rank, const char *more)
{
	static char text[400];
	char host[BEEST_HOST_MAX] = "";

	gethostname(host, sizeof(host) - 1);
	snprintf(text, sizeof(text), "; this job also has rank %d on %s, pid %d%s", rank, host,
		 (int)getpid(), more);
	return text;
}

/* ----------------------------------------------------------------------- deadlines --- */

static void present_records(void **state)
{
	(void)state;
	make();
	publish(two, 0);
	publish(two, 1);
	fake_kv_count_again();
	assert_int_equal(wait_for(2, 0, false), 0);
	assert_int_equal(fake_kv.round_trips, 1);
	/* The epoch, added and read; both keys; presence and starts log, written and read. */
	assert_int_equal(fake_kv.keys, 2 + 2 + 2 + 3);
	assert_int_equal(seen[0], 1);
}

static void the_default_timeout(void **state)
{
	int64_t began;

	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	make();
	began = registry_stage.now;
	assert_int_equal(wait_for(1, 0, false), -ETIMEDOUT);
	assert_error_is("after 3 s (HARTEBEEST_TIMEOUT): no queue pair 'n0' (key hb1/job/qp/n0) "
			"was published; server a:1 answers" HINT);
	assert_in_range(registry_stage.now - began, 3 * BEEST_SECOND, 3 * BEEST_SECOND + BEEST_MS);
}

/* A wait whose deadline has passed still looks once. */
static void a_past_deadline(void **state)
{
	(void)state;
	make();
	publish(two, 0);
	registry_stage.now += 100 * BEEST_SECOND;
	assert_int_equal(wait_for(1, 1, false), 0);
	assert_int_equal(wait_for(2, 1, false), -ETIMEDOUT);
	assert_error_has(" before the call (it is a time of hartebeest_clock(), not a span): no "
			 "queue pair 'n1' (key hb1/job/qp/n1) was published");
	assert_int_equal(seen[0], 2);
	assert_int_equal(wait_for(2, registry_stage.now - BEEST_SECOND, false), -ETIMEDOUT);
	assert_error_has("the deadline had passed: no queue pair 'n1'");
	assert_int_equal(wait_for(2, registry_stage.now - 90 * BEEST_SECOND, false), -ETIMEDOUT);
	assert_error_has("the deadline had passed 90 s before the call (it is a time of "
			 "hartebeest_clock(), not a span): no queue pair 'n1'");
}

static void once(void **state)
{
	(void)state;
	make();
	registry_publish(one, BEEST_KIND_MR, "x", "x");
	registry_stage.log[0] = '\0';
	fake_kv_count_again();
	assert_int_equal(wait_for(1, 0, true), -EAGAIN);
	assert_int_equal(fake_kv.round_trips, 1);
	assert_string_equal(registry_stage.log, "");
	publish(two, 0);
	assert_int_equal(wait_for(1, 0, true), 0);
	registry_server->error = EHOSTDOWN;
	assert_int_equal(wait_for(1, 0, true), -EAGAIN);
	assert_error_has("server a:1");
	assert_string_equal(registry_stage.log, "");
}

static void a_server_that_is_silent(void **state)
{
	int64_t began;

	(void)state;
	make();
	publish(one, 1);
	registry_server->error = ECONNREFUSED;
	began = registry_stage.now;
	fails(1, 2 * BEEST_SECOND, -ECONNREFUSED, "tried for 2 s: server a:1");
	assert_in_range(registry_stage.now - began, 2 * BEEST_SECOND, 3 * BEEST_SECOND);
	assert_int_equal(registry_stage.warnings, 1);
	assert_non_null(strstr(registry_stage.log, "trying again for up to "));
}

/* ----------------------------------------------------------------------- sentences --- */

static void absent_first_and_refused_last(void **state)
{
	(void)state;
	make();
	publish(two, 0);
	verdict[0] = 0;
	gets[0].unmet = "has not connected";
	fails(2, BEEST_SECOND, -ETIMEDOUT, "after 1 s: no queue pair 'n1' (key hb1/job/qp/n1) "
	      "was published, queue pair 'n0' (key hb1/job/qp/n0) was published, but has not "
	      "connected; server a:1 answers; this job also has ");
	assert_error_has(also(1, ""));
	assert_null(strstr(beest_error_text(), "HARTEBEEST_JOB"));
	fails(9, BEEST_SECOND, -ETIMEDOUT, "no queue pair 'n1' (key hb1/job/qp/n1) was "
	      "published, no queue pair 'n2' (key hb1/job/qp/n2) was published, no queue pair "
	      "'n3' (key hb1/job/qp/n3) was published and 6 more; server");
}

static void emptied_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)kv;
	(void)request;
	fake_kv.hook = NULL;
	fake_kv_flush(registry_server);
}

/*
 * A moment of silence does not outweigh an answer, but is mentioned, as is a limit of connections,
 * which may be what keeps the peer away.  If contents are lost, an author may have stored its
 * record, and does so again only when it looks.
 */
static void a_server_that_failed_meanwhile(void **state)
{
	static const struct {
		int error;		/* of the second request; 0: the contents are lost */
		const char *text;
	} rows[] = {
		{ EUSERS, "after 2 s: no queue pair 'n0' (key hb1/job/qp/n0) was published; server "
		  "a:1 answers; meanwhile it failed: server a:1" },
		{ EHOSTDOWN, "server a:1 answers; meanwhile it failed: server a:1: " },
		{ 0, "server a:1 answers; meanwhile it lost its contents; others store theirs "
		  "again in their next call, so a missing one may have been here" },
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		again();
		make();
		publish(one, 1);
		if (rows[i].error)
			fake_kv_fail(FAKE_KV_REQUEST, 2, rows[i].error, FAKE_KV_REFUSED);
		else
			fake_kv.hook = emptied_hook;
		fails(1, 2 * BEEST_SECOND, -ETIMEDOUT, rows[i].text);
		fails(1, 2 * BEEST_SECOND, -ETIMEDOUT, "");
		assert_null(strstr(beest_error_text(), "meanwhile"));
	}
}

/* A request that lasts beyond the limit proves nothing, so one more follows. */
static void standstill_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)kv;
	(void)request;
	fake_kv.hook = NULL;
	registry_stage.now += 100 * BEEST_SECOND;
	fake_kv_fail(FAKE_KV_REQUEST, 1, EHOSTDOWN, FAKE_KV_LOST);
}

static void a_machine_that_stood_still(void **state)
{
	(void)state;
	make();
	publish(two, 0);
	fake_kv.hook = standstill_hook;
	assert_int_equal(wait_for(1, beest_clock_deadline(2 * BEEST_SECOND), false), 0);
	publish(one, 1);
	fake_kv.hook = standstill_hook;
	assert_int_equal(beest_store_delete(one, keys[1],
					    REGISTRY_LIMIT(beest_clock_deadline(BEEST_SECOND))),
			 0);
}

/* ------------------------------------------------------------------ a torn answer --- */

static size_t counts[8], request_count;		/* keys of each request */

static void counts_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)kv;
	if (request_count < BEEST_COUNT(counts))
		counts[request_count++] = request->key_count;
}

/* What had come counts, and is not asked for again. */
static void an_answer_that_is_torn(void **state)
{
	size_t i;

	(void)state;
	make();
	for (i = 0; i < GETS; i++)
		publish(two, i);
	assert_int_equal(wait_for(1, 0, false), 0);	/* the epoch is known by then */
	memset(seen, 0, sizeof(seen));
	fake_kv.hook = counts_hook;
	request_count = 0;
	fake_kv_fail(FAKE_KV_REQUEST, 1, EHOSTDOWN, FAKE_KV_TORN);
	assert_int_equal(wait_for(GETS, 0, false), 0);
	for (i = 0; i < GETS; i++)
		assert_int_equal(seen[i], 1);
	/* the epoch and all keys; the epoch and those that had not come, half as many at most */
	assert_int_equal(counts[0], 1 + GETS);
	assert_int_equal(counts[1], 1 + GETS / 2);
	assert_int_equal(counts[2], 1 + 1);
	assert_int_equal(request_count, 3);
}

/* A torn answer of which not even the canary has come says nothing. */
static void an_answer_without_its_canary(void **state)
{
	(void)state;
	make();
	publish(two, 0);
	fake_kv_fail(FAKE_KV_REQUEST, 1, EHOSTDOWN, FAKE_KV_LOST);
	assert_int_equal(wait_for(1, 0, true), -EAGAIN);
	assert_error_has("server a:1");
	assert_int_equal(seen[0], 0);
	assert_int_equal(wait_for(1, 0, true), 0);
}

/* Fails each request for more than a few keys, as a way does that loses large packets. */
#define FEW 6
#define WATCHED 4	/* keys that are read now and then, too: presence, news, failure, list */

static void few_keys_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	counts_hook(kv, request);
	if (request->key_count > FEW)
		fake_kv_fail(FAKE_KV_REQUEST, 1, EHOSTDOWN, FAKE_KV_LOST);
}

/* Half as many keys each time, in turn, until all were asked for. */
static void a_server_that_answers_few_keys(void **state)
{
	size_t i;

	(void)state;
	make();
	for (i = 0; i < GETS; i++)
		publish(two, i);
	assert_int_equal(wait_for(1, 0, false), 0);
	fake_kv.hook = few_keys_hook;
	request_count = 0;
	assert_int_equal(wait_for(GETS, 0, false), 0);
	assert_int_equal(counts[0], 1 + GETS);
	for (i = 1; i < request_count && counts[i - 1] > FEW; i++)
		assert_true(counts[i] <= 1 + counts[i - 1] / 2 + WATCHED);
	assert_true(i >= 3);
	for (i = 0; i < GETS; i++)
		assert_true(seen[i] >= 1);
}

/* If a server evicts, an absent record may have been published. */
static void a_server_that_evicts(void **state)
{
	(void)state;
	make();
	publish(one, 1);
	publish(two, 0);
	assert_true(fake_kv_evict(registry_server, keys[0]));
	fails(1, 3 * BEEST_SECOND, -ETIMEDOUT, "");
	assert_null(strstr(beest_error_text(), "evicted"));
	assert_true(fake_kv_evict(registry_server, keys[1]));
	fails(1, 3 * BEEST_SECOND, -ETIMEDOUT, "server a:1 answers; it has evicted 2 records, "
	      "perhaps what is missing here, too; this job also has rank 1 ");
}

/* Nobody stores an evicted message again, so the server is asked at the end of the wait. */
static void a_server_that_has_evicted_a_message(void **state)
{
	const char *key = registry_key(BEEST_KIND_MESSAGE, "m");

	(void)state;
	make();
	assert_int_equal(registry_publish(two, BEEST_KIND_MESSAGE, "m", "text"), 0);
	assert_true(fake_kv_evict(registry_server, key));
	assert_int_equal(beest_message_wait(one, "m", NULL, 0, NULL,
					    REGISTRY_LIMIT(HARTEBEEST_ONCE)), -EAGAIN);
	assert_int_equal(fake_kv.probes, 0);
	assert_int_equal(beest_message_wait(one, "m", NULL, 0, NULL,
					    REGISTRY_LIMIT(beest_clock_deadline(BEEST_SECOND))),
			 -ETIMEDOUT);
	assert_int_equal(fake_kv.probes, 1);
	assert_error_has("no message 'm' (key hb1/job/msg/m) was published; server a:1 answers; it "
			 "has evicted 1 record, perhaps what is missing here, too; ");
}

/* Those who are connected hear why others are not. */
static void a_server_without_connections(void **state)
{
	static const struct {
		int error;
		uint64_t turned_away;
		const char *text;
	} rows[] = {
		{ 0, 0, "server a:1 answers; this job also has " },
		{ EUSERS, 0, "server a:1 answers; but it refuses new connections: all that it may "
		  "have are in use (memcached -c); " },
		{ EHOSTDOWN, 0, "server a:1 answers; but a new connection gets no answer: all that "
		  "it may have may be in use (memcached -c); " },
		{ 0, 7, "server a:1 answers; it has refused connections since all 30 that it may "
		  "have were in use (memcached -c); " },
	};
	size_t i;

	(void)state;
	make();
	publish(two, 1);
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		registry_server->probe_error = rows[i].error;
		registry_server->turned_away = rows[i].turned_away;
		fails(1, BEEST_SECOND, -ETIMEDOUT, rows[i].text);
		fake_kv_count_again();
		assert_int_equal(wait_for(1, beest_clock_deadline(BEEST_SECOND / 4), false),
				 -ETIMEDOUT);
		assert_int_equal(fake_kv.probes, 0);
		assert_null(strstr(beest_error_text(), "(memcached -c)"));
	}
}

/* A foreign value, or a silent server, is the reason only of the keys that it concerns. */
static void each_has_its_own_reason(void **state)
{
	struct beest_wait wait = { .gets = gets, .count = 3 };
	char text[256];

	(void)state;
	make();
	fake_kv_put(registry_server, keys[1], "no record", 9, 0);
	publish(two, 2);
	verdict[2] = 0;
	wait.limit = REGISTRY_LIMIT(beest_clock_deadline(BEEST_SECOND));
	assert_int_equal(beest_wait_run(one, &wait), -ETIMEDOUT);
	assert_error_has("after 1 s: no queue pair 'n0' (key hb1/job/qp/n0) was published, queue "
			 "pair 'n2' (key hb1/job/qp/n2) was published, but is not accepted, "
			 "queue pair 'n1' (key hb1/job/qp/n1): 9 bytes are too few for a record; "
			 "server a:1 answers");
	assert_true(wait.expired);
	assert_int_equal(beest_wait_say(one, &wait, &gets[0], text, sizeof(text)), -ETIMEDOUT);
	assert_string_equal(text, "no queue pair 'n0' (key hb1/job/qp/n0) was published");
	assert_int_equal(beest_wait_say(one, &wait, &gets[1], text, sizeof(text)), -EBADMSG);
	assert_int_equal(beest_wait_say(one, &wait, &gets[2], text, sizeof(text)), -ETIMEDOUT);

	/* One look ends where a deadline goes on: another record may replace the malformed one. */
	gets[0] = gets[1];
	wait.count = 1;
	wait.limit = REGISTRY_LIMIT(HARTEBEEST_ONCE);
	assert_int_equal(beest_wait_run(one, &wait), -EAGAIN);
	assert_error_has("9 bytes are too few for a record");
	assert_int_equal(beest_wait_say(one, &wait, &gets[0], text, sizeof(text)), -EAGAIN);
}

static void one_server_of_two_is_silent(void **state)
{
	struct beest_wait wait = { .gets = gets, .count = GETS };
	struct fake_kv_server *silent = fake_kv_server("b:1");
	char text[256];
	size_t i, of_silent = 0;
	int ret;

	(void)state;
	registry_stage.servers = "a:1 b:1";
	make();
	publish(one, 0);
	silent->error = EHOSTDOWN;
	wait.limit = REGISTRY_LIMIT(beest_clock_deadline(2 * BEEST_SECOND));
	assert_int_equal(beest_wait_run(one, &wait), -EHOSTDOWN);
	assert_error_has("tried for 2 s: server b:1");
	for (i = 1; i < GETS; i++) {
		ret = beest_wait_say(one, &wait, &gets[i], text, sizeof(text));
		if (registry_home(one, BEEST_KIND_QP, names[i]) == silent) {
			assert_int_equal(ret, -EHOSTDOWN);
			assert_non_null(strstr(text, "server b:1"));
			of_silent++;
		} else {
			assert_int_equal(ret, -ETIMEDOUT);
			assert_null(strstr(text, "server"));
		}
	}
	assert_in_range(of_silent, 5, GETS - 5);

	wait.limit = REGISTRY_LIMIT(HARTEBEEST_ONCE);
	assert_int_equal(beest_wait_run(one, &wait), -EAGAIN);
	assert_error_has("server b:1");
	for (i = 1; i < GETS; i++) {
		assert_int_equal(beest_wait_say(one, &wait, &gets[i], text, sizeof(text)),
				 -EAGAIN);
		assert_int_equal(registry_home(one, BEEST_KIND_QP, names[i]) == silent,
				 strstr(text, "server b:1") != NULL);
	}
}

/* What a poll watches there can wait: only now and then does it take a quarter of a second. */
static void a_poll_beside_a_silent_server(void **state)
{
	int64_t began, slow = 0;
	int i;

	(void)state;
	registry_stage.servers = "a:1 b:1";
	make();
	publish(one, 1);
	assert_int_equal(wait_for(1, 0, true), -EAGAIN);
	fake_kv_server(registry_home(one, BEEST_KIND_QP, names[0]) == fake_kv_server("a:1") ?
		       "b:1" : "a:1")->silent = true;
	for (i = 0; i < 200; i++) {
		registry_stage.now += 5 * BEEST_MS;
		began = registry_stage.now;
		assert_int_equal(wait_for(1, 0, true), -EAGAIN);
		assert_error_has("no queue pair 'n0' (key hb1/job/qp/n0) was published");
		slow += registry_stage.now - began >= BEEST_LIMIT_LOOK;
	}
	assert_in_range(slow, 1, 2);
}

/* A server that takes requests but stores nothing is named, whichever own record is there. */
static void an_own_record_that_is_not_stored(void **state)
{
	struct fake_kv_server *full = fake_kv_server("b:1");
	struct beest_wait wait = { .own_count = 2 };
	const char *own[2] = { NULL, NULL };	/* the second is not stored */
	char expected[512];
	size_t i;

	(void)state;
	registry_stage.servers = "a:1 b:1";
	make();
	if (beest_registry_server(one, BEEST_KEY_RANK) == 1)	/* the presence is first */
		full = fake_kv_server("a:1");
	for (i = 0; !own[0] || !own[1]; i++) {
		own[registry_home(one, BEEST_KIND_QP, names[i]) == full] = keys[i];
		assert_int_equal(registry_put(one, BEEST_KIND_QP, names[i], "text", NULL), 0);
	}
	full->refuses = true;
	full->bytes_max = 40;			/* room for the epoch alone */
	snprintf(expected, sizeof(expected), "after 500 ms: not all own records are stored; to be "
		 "stored: key %s; server %s answers", own[1], full->text);
	for (i = 0; i < 2; i++) {
		wait.own_keys = (const char *[]){ own[i], own[!i] };
		wait.limit = REGISTRY_LIMIT(beest_clock_deadline(500 * BEEST_MS));
		assert_int_equal(beest_wait_run(one, &wait), -ETIMEDOUT);
		assert_error_has(expected);
	}
}

/* A living peer may still replace a malformed value. */
static void malformed_records(void **state)
{
	(void)state;
	make();
	fake_kv_put(registry_server, keys[0], "no record", 9, 0);
	fails(1, BEEST_SECOND, -EBADMSG, "after 1 s: queue pair 'n0' (key hb1/job/qp/n0): ");
	assert_int_equal(registry_stage.warnings, 1);
	assert_non_null(strstr(registry_stage.log, "key 'hb1/job/qp/n0' is ignored: "));
	publish(two, 0);
	assert_int_equal(wait_for(1, 0, false), 0);
}

static void refused_by_see(void **state)
{
	(void)state;
	make();
	publish(two, 0);
	verdict[0] = -EINVAL;
	assert_int_equal(wait_for(1, 0, false), -EINVAL);
	assert_error_has("what is this");
}

/* ------------------------------------------------------------ asked again in turn --- */

static uint64_t most_keys;

static void keys_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	if (kv == one->kv && request->key_count > most_keys && request->key_count != 1 + 31 + 1)
		most_keys = request->key_count;
}

static void eight_in_turn(void **state)
{
	size_t i;

	(void)state;
	make();
	for (i = 0; i < 30; i++) {
		gets[i].recheck = true;
		publish(two, i);
	}
	assert_int_equal(wait_for(31, beest_clock_deadline(BEEST_MS), false), -ETIMEDOUT);
	most_keys = 0;
	memset(seen, 0, sizeof(seen));
	for (i = 0; i < 30; i++)
		gets[i].recheck = i != 7;
	fake_kv.hook = keys_hook;
	assert_int_equal(wait_for(31, beest_clock_deadline(200 * BEEST_MS), false), -ETIMEDOUT);
	fake_kv.hook = NULL;
	/* After the first look: the starts log is read, too, and 4 are watched. */
	assert_int_equal(most_keys, 1 + 1 + 8 + 1 + 4);
	for (i = 0; i < 30; i++)
		assert_true(i == 7 ? seen[i] == 1 : seen[i] > 2);
}

/* A record that disappears while others are awaited no longer counts. */
static void a_record_that_disappears(void **state)
{
	(void)state;
	make();
	publish(two, 0);
	gets[0].recheck = true;
	verdict[0] = 1;
	gets[1].recheck = true;
	assert_int_equal(wait_for(2, beest_clock_deadline(BEEST_MS), false), -ETIMEDOUT);
	assert_true(gets[0].got);
	assert_false(gets[1].got);
}

/* --------------------------------------------------------------- interrupt and each --- */

static int asked;

static int interrupt(void *data)
{
	(void)data;
	return ++asked < 5 ? 0 : beest_fail(EINTR, "enough");
}

static void interrupted(void **state)
{
	(void)state;
	registry_stage.interrupt = interrupt;
	make();
	asked = 0;
	assert_int_equal(wait_for(1, 0, false), -EINTR);
	assert_error_is("enough");
	assert_int_equal(asked, 5);
	publish(two, 0);
	assert_int_equal(wait_for(1, 0, false), 0);		/* not interrupted */
	assert_int_equal(asked, 5);
}

static int each(void *data)
{
	int *left = data;

	return --*left > 0 ? 0 : *left == 0 ? 1 : beest_fail(ECANCELED, "each");
}

static void each_look(void **state)
{
	int left = 4;
	struct beest_wait wait = {
		.gets = gets, .count = 1, .each = each, .data = &left,
	};

	(void)state;
	wait.limit = REGISTRY_LIMIT(0);
	make();
	fake_kv_count_again();
	assert_int_equal(beest_wait_run(one, &wait), 0);
	assert_int_equal(fake_kv.round_trips, 4);
	assert_int_equal(beest_wait_run(one, &wait), -ECANCELED);
	assert_error_is("each");
}

/* -------------------------------------------------------------- who else is there --- */

/* A crew member that waits for n0, which never comes. */
struct waiter {
	struct beest_registry *registry;
	struct beest_wait_get get;
	int64_t delay, began, ended;
	int ret;
	char error[1024];
};

static void waiter_run(void *data)
{
	struct waiter *waiter = data;
	struct beest_wait wait = { .gets = &waiter->get, .count = 1 };

	crew_pass(waiter->delay);
	wait.limit = REGISTRY_LIMIT(0);
	waiter->began = crew_now();
	waiter->ret = registry_publish(waiter->registry, BEEST_KIND_MR,
				       waiter->registry == one ? "o" : "t", "x");
	if (waiter->ret == 0)
		waiter->ret = beest_wait_run(waiter->registry, &wait);
	waiter->ended = crew_now();
	snprintf(waiter->error, sizeof(waiter->error), "%s", waiter->ret ? beest_error_text() : "");
}

static struct waiter waiters[2];

static void ended(const struct waiter *waiter, int ret, const char *text)
{
	if (waiter->ret != ret || !strstr(waiter->error, text))
		print_error("%d: %s\n", waiter->ret, waiter->error);
	assert_int_equal(waiter->ret, ret);
	assert_non_null(strstr(waiter->error, text));
}

static struct waiter *waiter_start(size_t i, struct beest_registry *registry, int64_t delay)
{
	memset(&waiters[i], 0, sizeof(waiters[i]));
	waiters[i].registry = registry;
	waiters[i].delay = delay;
	waiters[i].get = gets[0];
	waiters[i].get.see = NULL;
	crew_start(waiter_run, &waiters[i]);
	return &waiters[i];
}

static struct waiter *wait_alone(struct beest_registry *registry)
{
	struct waiter *waiter = waiter_start(0, registry, 0);

	registry_run();
	return waiter;
}

/* Each is in the job, but not where the other waits for it. */
static void two_that_wait_elsewhere(void **state)
{
	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	make();
	waiter_start(0, one, 0);
	waiter_start(1, two, 0);
	waiters[1].get.kind = BEEST_KIND_NUMBERS;
	waiters[1].get.noun = "mesh";
	waiters[1].get.name = "m";
	registry_run();
	ended(&waiters[0], -ETIMEDOUT, also(1, ", which last waited for mesh 'm'"));
	assert_non_null(strstr(waiters[1].error, also(0, ", which last waited for queue pair "
						     "'n0'")));
	assert_null(strstr(waiters[0].error, "HARTEBEEST_JOB"));
}

/* Until both have told each other. */
#define SOON (2100 * BEEST_MS)

#define SECRET_ONE "0123456789abcdef"
#define SECRET_TWO "fedcba9876543210"
#define SECRETS_DIFFER "have different settings: another secret; " \
		       "HARTEBEEST_SECRET_FILE (exchange.secret_file) must name the same secret"

#define TWICE .ret = -EADDRINUSE, .both = "rank 1 runs twice: as pid "
#define OTHERS .ret = -EPROTO, .both = "another set of participants"
#define FIRST "have different settings: the first has "

/* Two processes that wait for each other, of which something differs. */
static const struct odd_pair {
	int first_rank, second_size;	/* the first is one of two, and the second has rank 1 */
	const char *servers;		/* of the second; NULL: the same */
	const char *secrets[2];
	bool same_process;
	int64_t delay, within;		/* the second starts later; both end within that time */
	int ret;
	const char *both, *texts[2][3];	/* of the sentences: of both, and of each */
} odd_pairs[] = {
	{ 1, 2, .within = 2 * BEEST_SECOND, TWICE },
	{ 1, 2, .delay = 10 * BEEST_MS, .within = 2 * BEEST_SECOND, TWICE },
	{ 1, 2, .delay = 500 * BEEST_MS, .within = 2 * BEEST_SECOND, TWICE },
	{ 1, 2, .delay = 3 * BEEST_SECOND, .within = 2 * BEEST_SECOND, TWICE },
	/* Two contexts of one process may share a rank. */
	{ 1, 2, .same_process = true, .within = 6 * BEEST_SECOND, .ret = -ETIMEDOUT,
	  .both = "no queue pair 'n0'" },
	{ 0, 2, .servers = "a:1 b:1", .within = SOON, .ret = -EPROTO,
	  .both = "another list of servers", .texts[0] = { "both use server a:1" } },
	{ 0, 3, .within = SOON, OTHERS, .texts[0] = { "(2 ranks)", "(3 ranks)" } },
	{ 0, 3, .delay = 4 * BEEST_SECOND, .within = 3 * BEEST_SECOND, OTHERS },
#ifdef HAVE_CRYPTO
	{ 0, 2, .secrets = { SECRET_ONE, SECRET_TWO }, .within = SOON, .ret = -EPROTO,
	  .both = SECRETS_DIFFER, .texts = { { "rank 0 on ", " and a process whose name is "
	  "sealed, which both use server a:1, " }, { "rank 1 on " } } },
	{ 0, 2, .secrets = { SECRET_ONE, SECRET_TWO }, .delay = 4 * BEEST_SECOND,
	  .within = 3 * BEEST_SECOND, .ret = -EPROTO, .both = SECRETS_DIFFER },
	/* A rank without a secret stores its name readably. */
	{ 0, 2, .secrets = { SECRET_ONE }, .within = SOON, .ret = -EPROTO,
	  .both = "; HARTEBEEST_SECRET_FILE (exchange.secret_file) must name the same secret "
	  "everywhere", .texts = {
		{ "rank 1 on ", FIRST "a secret, the second has none; " },
		{ " and a process whose name is sealed, ",
		  FIRST "no secret, the second has one; " },
	  } },
#endif
};

static void odd_pair_run(const struct odd_pair *row)
{
	const char *const *text;
	size_t i;

	again();
	registry_stage.timeout = 5 * BEEST_SECOND;
	registry_stage.secret = row->secrets[0];
	one = registry_make(row->first_rank, 2);
	registry_stage.secret = row->secrets[1];
	registry_stage.same_process = row->same_process;
	if (row->servers)
		registry_stage.servers = row->servers;
	two = registry_make(1, row->second_size);
	waiter_start(0, one, 0);
	waiter_start(1, two, row->delay);
	registry_run();
	for (i = 0; i < 2; i++) {
		ended(&waiters[i], row->ret, row->both);
		for (text = row->texts[i]; *text; text++)
			ended(&waiters[i], row->ret, *text);
		assert_null(strstr(waiters[i].error, SECRET_ONE));
		assert_in_range(waiters[i].ended - waiters[1].began, 0, row->within);
	}
}

static void two_that_differ(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(odd_pairs); i++)
		odd_pair_run(&odd_pairs[i]);
}

/* The later process ends before the earlier one, which alone is left, looks again. */
static void a_rank_that_ran_twice(void **state)
{
	struct beest_registry *earlier;

	(void)state;
	make();
	assert_int_equal(wait_for(1, beest_clock_deadline(BEEST_MS), false), -ETIMEDOUT);
	earlier = one;
	one = registry_make(0, 2);
	assert_int_equal(wait_for(1, beest_clock_deadline(BEEST_SECOND), false), -ETIMEDOUT);
	registry_close(one);
	one = earlier;
	fails(1, 3 * BEEST_SECOND, -ETIMEDOUT, " had the rank of this process meanwhile, and has "
	      "ended");
}

/* The presence of a former run that has left is replaced silently. */
static void a_replacement(void **state)
{
	(void)state;
	make();
	publish(two, 1);
	registry_close(two);
	two = registry_make(1, 2);
	publish(two, 1);
	one = (registry_kill(one), two);
	two = NULL;
	assert_int_equal(wait_for(1, beest_clock_deadline(3 * BEEST_SECOND), false), -ETIMEDOUT);
}

#ifdef HAVE_CRYPTO
/* With a common secret, all works as without one, and nothing is readable. */
static void the_same_secret(void **state)
{
	const char *key = registry_key(BEEST_KIND_QP, "n0");
	const uint8_t *bytes;
	size_t size;

	(void)state;
	registry_stage.secret = SECRET_ONE;
	make();
	assert_int_equal(registry_put(two, BEEST_KIND_QP, "n0", "body", NULL), 0);
	assert_int_equal(registry_look(two, 0), 0);
	assert_int_equal(wait_for(1, beest_clock_deadline(3 * BEEST_SECOND), false), 0);
	assert_string_equal(registry_said(one, BEEST_KIND_QP, "n0"), "body");
	bytes = fake_kv_get(registry_server, key, &size);
	assert_int_equal(size, 4 + BEEST_RECORD_EMPTY_MAX);
	assert_memory_equal(bytes, "HBE", 3);
	assert_null(memmem(bytes, size, "body", 4));
}

/* An attacker stores a well-formed record, and then bytes of his own. */
static void forged_records_are_ignored(void **state)
{
	const char *key = registry_key(BEEST_KIND_QP, "n0");
	struct beest_record record = { .kind = BEEST_KIND_QP, .rank = 1 };
	uint8_t bytes[BEEST_RECORD_EMPTY_MAX] = "HBE\1";
	int size;

	(void)state;
	registry_stage.secret = SECRET_ONE;
	make();
	size = beest_record_encode(NULL, &record, key, bytes, sizeof(bytes));
	fake_kv_put(registry_server, key, bytes, (size_t)size, 60);
	fails(1, BEEST_SECOND, -EKEYREJECTED, "queue pair 'n0' (key hb1/job/qp/n0): a record "
	      "that is not sealed: its author has no secret");

	/* A record that was sealed under another key. */
	assert_int_equal(registry_put(two, BEEST_KIND_QP, "n1", "", NULL), 0);
	assert_int_equal(registry_look(two, 0), 0);
	memcpy(bytes, fake_kv_get(registry_server, registry_key(BEEST_KIND_QP, "n1"),
				  &(size_t){ 0 }), sizeof(bytes));
	fake_kv_put(registry_server, key, bytes, sizeof(bytes), 60);
	fails(1, BEEST_SECOND, -EBADMSG, "queue pair 'n0' (key hb1/job/qp/n0): a sealed record "
	      "that is forged, damaged, or of another key");
	assert_non_null(strstr(registry_stage.log, "key 'hb1/job/qp/n0' is ignored: a sealed "
			       "record that is forged"));

	/* The author may still replace it. */
	assert_int_equal(registry_put(two, BEEST_KIND_QP, "n0", "body", NULL), 0);
	assert_int_equal(registry_look(two, 0), 0);
	assert_int_equal(wait_for(1, beest_clock_deadline(BEEST_SECOND), false), 0);
}
#endif

#define HONEST 7

static struct waiter crowd[HONEST + 1];

/* One of eight has other settings: rank 3 assumes @size ranks and has the second secret. */
static const struct crowd_row {
	int size;
	const char *secrets[2], *texts[5];
} crowd_rows[] = {
	{ 9, { NULL }, { "rank 3 on ", " (9 ranks)", " (8 ranks)",
			 "have different settings: another set of participants; "
			 "HARTEBEEST_PARTICIPANTS" } },
#ifdef HAVE_CRYPTO
	{ HONEST + 1, { SECRET_ONE, SECRET_TWO }, { SECRETS_DIFFER } },
#endif
};

/* All ranks are told which rank differs. */
static void bystanders_are_told(void **state)
{
	const struct crowd_row *row;
	const char *const *text;
	size_t i;

	(void)state;
	for (row = crowd_rows; row < crowd_rows + BEEST_COUNT(crowd_rows); row++) {
		again();
		memset(crowd, 0, sizeof(crowd));
		for (i = 0; i <= HONEST; i++) {
			registry_stage.secret = row->secrets[i == 3];
			crowd[i].registry = registry_make((int)i, i == 3 ? row->size : HONEST + 1);
			crowd[i].delay = (int64_t)i * 5 * BEEST_MS;
			crowd[i].get = gets[0];
			crowd[i].get.see = NULL;
			crew_start(waiter_run, &crowd[i]);
		}
		registry_run();
		for (i = 0; i <= HONEST; i++) {
			for (text = row->texts; *text; text++)
				ended(&crowd[i], -EPROTO, *text);
			assert_in_range(crowd[i].ended - crowd[i].began, 0, 3 * BEEST_SECOND);
		}
	}
}

/* A leftover of a former run is only suspicious. */
static void a_leftover(void **state)
{
	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	two = registry_make(1, 3);
	waiter_start(1, two, 0);
	registry_run();
	assert_int_equal(waiters[1].ret, -ETIMEDOUT);
	registry_kill(two);
	two = NULL;
	one = registry_make(0, 2);
	wait_alone(one);
	ended(&waiters[0], -ETIMEDOUT, "; rank 1 on ");
	assert_non_null(strstr(waiters[0].error, " had another set of participants"));
	registry_kill(one);
	one = registry_make(0, 2);
	wait_alone(one);
	assert_null(strstr(waiters[0].error, "had other"));
}

/* -------------------------------------------------------------- who has left or failed --- */

static void leave(void *data)
{
	crew_pass(700 * BEEST_MS);
	registry_close(data);
	two = NULL;
}

static struct waiter *waiter_of_two(void)
{
	struct waiter *waiter = waiter_start(0, one, 0);

	waiter->get.has_author = true;
	waiter->get.rank = 1;
	waiter->get.author = two->presence.incarnation;
	return waiter;
}

static int questions;			/* for the presence of rank 1 */

/* Loses the first question, unless it counts as asked. */
static void question_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	for (i = 0; i < request->key_count && kv == one->kv; i++)
		if (strcmp(request->keys[i], "hb1/job/rank/1") == 0 && questions++ == 0)
			fake_kv_fail(FAKE_KV_REQUEST, 1, ECONNRESET, FAKE_KV_REFUSED);
}

/* If the look that asks whose the news are fails, it asks again. */
static void the_author_leaves(void **state)
{
	struct waiter *waiter;
	int lost;

	(void)state;
	for (lost = 0; lost < 2; lost++) {
		again();
		make();
		publish(two, 1);
		waiter = waiter_of_two();
		crew_start(leave, two);
		questions = !lost;
		fake_kv.hook = question_hook;
		registry_run();
		fake_kv.hook = NULL;
		assert_int_equal(fake_kv.fired, lost);
		ended(waiter, -ESHUTDOWN, "rank 1 on ");
		ended(waiter, -ESHUTDOWN, "has left");
		/* For a second, it may come back. */
		assert_in_range(waiter->ended - waiter->began, 1700 * BEEST_MS,
				(lost ? 4000 : 3000) * BEEST_MS);
	}
}

/* Sees an insufficient record of rank 1. */
static int see_author(void *data, const struct beest_record *record)
{
	struct waiter *waiter = data;

	waiter->get.has_author = true;
	waiter->get.rank = record->rank;
	waiter->get.author = record->incarnation;
	return 0;
}

static struct fake_kv_server *away;

static void come_back(void *data)
{
	(void)data;
	crew_pass(3 * BEEST_SECOND);
	away->error = 0;
}

static void only_wait(void *data)
{
	struct waiter *waiter = data;
	struct beest_wait wait = { .gets = &waiter->get, .count = 1 };

	wait.limit = REGISTRY_LIMIT(0);
	waiter->began = crew_now();
	waiter->ret = beest_wait_run(waiter->registry, &wait);
	waiter->ended = crew_now();
}

/* Its record stays behind, on a server that is away until the news are old. */
static void the_news_came_before_the_record(void **state)
{
	static const char *const servers[] = { "a:1", "b:1", "c:1" };
	struct waiter waiter = { 0 };
	size_t i = 0, at = 0;

	(void)state;
	registry_stage.servers = "a:1 b:1 c:1";
	make();
	while (at == beest_registry_server(two, BEEST_KEY_RANK) ||
	       at == beest_registry_server(two, BEEST_KEY_NEWS))
		at++;
	away = fake_kv_server(servers[at]);
	while (registry_home(two, BEEST_KIND_QP, names[i]) != away)
		i++;
	publish(two, i);
	away->error = ECONNREFUSED;
	registry_close(two);
	two = NULL;
	waiter.registry = one;
	waiter.get = gets[i];
	waiter.get.see = see_author;
	waiter.get.data = &waiter;
	crew_start(only_wait, &waiter);
	crew_start(come_back, NULL);
	registry_run();
	assert_int_equal(waiter.ret, -ESHUTDOWN);
	assert_in_range(waiter.ended - waiter.began, 4 * BEEST_SECOND, 7 * BEEST_SECOND);
}

/* Without a rank, only waits for its own records end. */
static void the_author_fails(void **state)
{
	struct beest_registry *none;
	struct waiter *waiter;

	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	make();
	none = registry_make(-1, 2);
	assert_int_equal(registry_publish(none, BEEST_KIND_QP, "x", "x"), 0);
	publish(two, 1);
	assert_int_equal(beest_store_fail(none, "no luck"), 0);
	waiter = waiter_start(0, one, 0);
	waiter->get.has_author = true;
	waiter->get.rank = -1;
	waiter->get.author = none->presence.incarnation;
	waiter_start(1, two, 0);
	registry_run();
	ended(waiter, -ECONNABORTED, "pid ");
	assert_non_null(strstr(waiter->error, " has failed: no luck"));
	assert_in_range(waiter->ended - waiter->began, 0, BEEST_SECOND);
	assert_int_equal(waiters[1].ret, -ETIMEDOUT);
}

/* A process of the same rank has left, but not the author: the author's replacement may come. */
static void a_former_run_has_left(void **state)
{
	struct waiter *waiter;

	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	make();
	publish(two, 1);
	waiter = waiter_of_two();
	waiter->get.author.bytes[15] ^= 1;
	crew_start(leave, two);
	registry_run();
	ended(waiter, -ETIMEDOUT, also(1, ", which has left"));
}

/* ------------------------------------------------------------- a rank has given up --- */

/* The longest time from a rank's failure until others know of it. */
#define TOLD (1100 * BEEST_MS)

static int64_t said;
static int say_ret;

static void say(void *data)
{
	crew_pass(3 * BEEST_SECOND);
	said = crew_now();
	say_ret = beest_store_fail(data, "no luck");
}

static void is_told(const struct waiter *waiter)
{
	ended(waiter, -ECONNABORTED, "rank 2 on ");
	assert_non_null(strstr(waiter->error, " has failed: no luck"));
}

static struct beest_registry *third_fails(void)
{
	struct beest_registry *third = registry_make(2, 3);

	assert_int_equal(beest_store_fail(third, "no luck"), 0);
	return third;
}

static void all_waits_are_told(void **state)
{
	struct beest_registry *third;
	size_t i;

	(void)state;
	one = registry_make(0, 3);
	two = registry_make(1, 3);
	third = registry_make(2, 3);
	waiter_start(0, one, 0);
	waiter_start(1, two, BEEST_SECOND / 2);
	crew_start(say, third);
	registry_run();
	assert_int_equal(say_ret, 0);
	for (i = 0; i < 2; i++) {
		is_told(&waiters[i]);
		assert_in_range(waiters[i].ended, said, said + TOLD);
	}
	for (i = 0; i < 2; i++)			/* and in all later waits */
		waiter_start(i, i ? two : one, 0);
	registry_run();
	for (i = 0; i < 2; i++) {
		is_told(&waiters[i]);
		assert_in_range(waiters[i].ended - waiters[i].began, 0, 100 * BEEST_MS);
	}
}

/* The number of ranks is unknown, so none are named; those that wait are told nevertheless. */
static void waits_without_a_size_are_told(void **state)
{
	(void)state;
	one = registry_make(0, 0);
	two = registry_make(2, 0);
	waiter_start(0, one, 0);
	crew_start(say, two);
	registry_run();
	is_told(&waiters[0]);
	assert_in_range(waiters[0].ended, said, said + TOLD);
}

/* A rank that had published before the failure waits for the first time much later. */
static void a_later_wait_is_told(void **state)
{
	(void)state;
	one = registry_make(0, 3);
	publish(one, 1);
	registry_close(third_fails());
	registry_stage.now += 300 * BEEST_SECOND;
	waiter_start(0, one, 300 * BEEST_SECOND);
	registry_run();
	is_told(&waiters[0]);
	assert_in_range(waiters[0].ended - waiters[0].began, 0, 100 * BEEST_MS);
}

#define AUTHOR 100			/* process ids */
#define WAITER 200
#define GONE INT64_MIN

/* A rank of another process fails, and closes its context.  Two seconds later, rank 0 waits. */
static const struct late_row {
	const char *what;
	bool one_host;
	int64_t waiter;			/* its process began as many ms after the failure */
	int64_t author;			/* and the one with the author's process id; GONE: none */
	bool told;
} late_rows[] = {
	{ "it began before", true, -1000, GONE, true },
	{ "it began about then", true, -5, GONE, false },
	{ "it began later", true, 1000, GONE, false },
	{ "it began later, but the author lives", true, 1000, -5000, true },
	{ "it began later, and the process id is another's", true, 1000, 500, false },
	{ "elsewhere, it began before", false, -4000, GONE, true },
	{ "elsewhere, perhaps before, by a clock of whole seconds", false, -500, GONE, false },
	{ "elsewhere, it began later, and a process has that id", false, 1000, -5000, false },
}, *late_row;

static int64_t failed_at;

static int64_t late_row_began(pid_t pid)
{
	const int64_t author = fake_process_pid == AUTHOR ? -5000 : late_row->author;
	int64_t ms = pid == AUTHOR ? author : late_row->waiter;

	return ms == GONE ? -1 : failed_at + ms * BEEST_MS;
}

/* Stores the failure of rank 2, and makes rank 0. */
static void fail_before_others_come(void)
{
	fake_kv_flush(registry_server);
	fake_process_began = late_row_began;
	fake_process_one_host = late_row->one_host;
	fake_process_pid = AUTHOR;
	failed_at = registry_stage.now;
	registry_close(third_fails());
	registry_stage.now += 2 * BEEST_SECOND;
	fake_process_pid = WAITER;
	one = registry_make(0, 3);
}

static void wait_after_failure(bool told)
{
	wait_alone(one);
	if (told) {
		is_told(&waiters[0]);
		assert_in_range(waiters[0].ended - waiters[0].began, 0, 100 * BEEST_MS);
	} else {
		ended(&waiters[0], -ETIMEDOUT, " had failed: no luck");
	}
}

/* Its first wait is told if the failure is certainly of its run, and so are later ones. */
static void a_first_wait_after_the_failure(void **state)
{
	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	for (late_row = late_rows; late_row < late_rows + BEEST_COUNT(late_rows); late_row++) {
		print_message("%s\n", late_row->what);
		fail_before_others_come();
		wait_after_failure(late_row->told);
		wait_after_failure(late_row->told);
		registry_kill(one);
	}
}

/* A process that has had a context before the failure may begin another run with the next one. */
static void a_new_context_after_the_failure(void **state)
{
	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	late_row = &late_rows[0];
	fail_before_others_come();
	registry_kill(one);
	one = registry_make(0, 3);
	wait_after_failure(false);
}

static void clock_comes_back(void *data)
{
	(void)data;
	crew_pass(1500 * BEEST_MS);
	registry_server->probe_error = 0;
}

/* A server that does not give its time is asked again. */
static void a_failure_whose_time_is_learned_late(void **state)
{
	(void)state;
	late_row = &late_rows[5];
	fail_before_others_come();
	registry_server->probe_error = EHOSTDOWN;
	waiter_start(0, one, 0);
	crew_start(clock_comes_back, NULL);
	registry_run();
	is_told(&waiters[0]);
	assert_in_range(waiters[0].ended - waiters[0].began, 1500 * BEEST_MS, 3 * BEEST_SECOND);
}

/* A former run's failure does not end a new run, but is mentioned in its sentence. */
static void a_former_run_has_failed(void **state)
{
	struct beest_registry *third;

	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	one = registry_make(0, 3);
	publish(one, 1);
	registry_kill(third_fails());
	registry_kill(one);

	one = registry_make(0, 3);
	wait_alone(one);
	ended(&waiters[0], -ETIMEDOUT, "; rank 2 on ");
	assert_non_null(strstr(waiters[0].error, " had failed: no luck"));

	third = registry_make(2, 3);		/* the replacement ends that failure */
	wait_alone(third);
	assert_int_equal(waiters[0].ret, -ETIMEDOUT);
	assert_null(strstr(waiters[0].error, "failed"));
	two = registry_make(1, 3);
	wait_alone(two);
	assert_int_equal(waiters[0].ret, -ETIMEDOUT);
	assert_null(strstr(waiters[0].error, "failed"));
}

/* Before others have looked, a process without a rank fails, too. */
static void two_failures_in_turn(void **state)
{
	struct beest_registry *third, *none;

	(void)state;
	one = registry_make(0, 3);
	publish(one, 1);
	third = registry_make(2, 3);
	none = registry_make(-1, 3);
	assert_int_equal(beest_store_fail(third, "no luck"), 0);
	assert_int_equal(beest_store_fail(none, "neither"), 0);
	wait_alone(one);
	is_told(&waiters[0]);
}

/* Nobody else knows to which run a process without a rank belongs. */
static void without_rank_only_its_own_are_told(void **state)
{
	struct beest_registry *none;

	(void)state;
	make();
	none = registry_make(-1, 2);
	waiter_start(0, one, 0);
	crew_start(say, none);
	registry_run();
	assert_int_equal(say_ret, 0);
	assert_int_equal(waiters[0].ret, -ETIMEDOUT);
}

static void own_waits_go_on(void **state)
{
	struct waiter *waiter;

	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	make();
	assert_int_equal(beest_store_fail(one, "first"), 0);
	assert_int_equal(beest_store_fail(two, "second"), 0);
	waiter = wait_alone(one);
	ended(waiter, -ETIMEDOUT, also(1, ", which has failed"));
	publish(one, 3);
}

static bool failure_is_there(const char *key)
{
	return fake_kv_get(registry_server, key, NULL);
}

/* The failure stays as long as its context is open, and for ten minutes more. */
static void a_failure_stays(void **state)
{
	struct waiter *waiter;
	char text[300];

	(void)state;
	registry_stage.timeout = 700 * BEEST_SECOND;
	registry_stage.ttl = 86400 * BEEST_SECOND;
	make();
	assert_int_equal(beest_store_fail(two, unit_repeat(text, 'x', 299)), 0);
	waiter = wait_alone(two);
	assert_int_equal(waiter->ret, -ETIMEDOUT);
	assert_true(failure_is_there("hb1/job/failed"));
	assert_true(failure_is_there("hb1/job/rank/1"));
	registry_close(two);
	registry_stage.now += 350 * BEEST_SECOND;
	assert_true(failure_is_there("hb1/job/failed"));
	assert_true(failure_is_there("hb1/job/rank/1"));
	registry_stage.now += 300 * BEEST_SECOND;
	assert_false(failure_is_there("hb1/job/failed"));
	assert_false(failure_is_there("hb1/job/rank/1"));
}

/* A look that finds the failure missing stores it again. */
static void a_failure_is_stored_again(void **state)
{
	struct waiter *waiter;

	(void)state;
	registry_stage.timeout = 3 * BEEST_SECOND;
	make();
	publish(one, 1);
	assert_int_equal(beest_store_fail(two, "no luck"), 0);
	assert_true(fake_kv_evict(registry_server, "hb1/job/failed"));
	waiter = waiter_start(1, two, 0);
	registry_run();
	assert_int_equal(waiter->ret, -ETIMEDOUT);
	assert_true(failure_is_there("hb1/job/failed"));
	waiter = wait_alone(one);
	ended(waiter, -ECONNABORTED, "rank 1 on ");
}

/* One failed command does not matter; a silent server costs a second. */
static void failing_with_a_failing_server(void **state)
{
	int64_t began;
	int n;

	(void)state;
	for (n = 1; ; n++) {
		registry_end();
		registry_start();
		make();
		publish(one, 1);
		fake_kv_fail(FAKE_KV_COMMAND, n, ECONNRESET, FAKE_KV_LOST);
		assert_int_equal(beest_store_fail(two, "no luck"), 0);
		assert_true(failure_is_there("hb1/job/failed"));
		assert_true(failure_is_there("hb1/job/rank/1"));
		if (!fake_kv.fired)
			break;
	}
	assert_in_range(n, 4, 20);
	registry_server->error = EHOSTDOWN;
	registry_server->silent = true;
	began = registry_stage.now;
	assert_int_equal(beest_store_fail(two, "again"), -EHOSTDOWN);
	assert_in_range(registry_stage.now - began, 0, 3 * BEEST_SECOND + BEEST_MS);
}

static int news_read, presence_read;
static int64_t news_from;

static void news_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	for (i = 0; i < request->key_count && kv == one->kv; i++) {
		news_read += crew_now() > news_from &&
			     strcmp(request->keys[i], "hb1/job/news") == 0;
		presence_read += strcmp(request->keys[i], "hb1/job/rank/1") == 0;
	}
}

/*
 * News are read once a second, however often it looks; the presence only when they change, when
 * the wait has ended in vain, and after 1, 2, 4 and 8 s for the log.
 */
static void news_once_a_second(void **state)
{
	struct waiter *waiter;

	(void)state;
	make();
	publish(two, 1);
	fake_kv_put(registry_server, "hb1/job/news", "0123456789abcdef", 16, 0);
	waiter = waiter_of_two();
	fake_kv.hook = news_hook;
	news_read = presence_read = 0;
	news_from = crew_now() + 3 * BEEST_SECOND;
	registry_run();
	fake_kv.hook = NULL;
	assert_int_equal(waiter->ret, -ETIMEDOUT);
	assert_in_range(news_read, 6, 8);		/* in seven seconds; at first more often */
	assert_int_equal(presence_read, 7);
}

#define WITH(test) cmocka_unit_test_setup_teardown(test, setup, registry_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(present_records),
		WITH(the_default_timeout),
		WITH(a_past_deadline),
		WITH(once),
		WITH(a_server_that_is_silent),
		WITH(absent_first_and_refused_last),
		WITH(a_server_that_failed_meanwhile),
		WITH(a_machine_that_stood_still),
		WITH(an_answer_that_is_torn),
		WITH(an_answer_without_its_canary),
		WITH(a_server_that_answers_few_keys),
		WITH(a_server_that_evicts),
		WITH(a_server_that_has_evicted_a_message),
		WITH(a_server_without_connections),
		WITH(each_has_its_own_reason),
		WITH(one_server_of_two_is_silent),
		WITH(a_poll_beside_a_silent_server),
		WITH(an_own_record_that_is_not_stored),
		WITH(malformed_records),
		WITH(refused_by_see),
		WITH(eight_in_turn),
		WITH(a_record_that_disappears),
		WITH(interrupted),
		WITH(each_look),
		WITH(two_that_wait_elsewhere),
		WITH(a_rank_that_ran_twice),
		WITH(a_replacement),
		WITH(two_that_differ),
#ifdef HAVE_CRYPTO
		WITH(the_same_secret),
		WITH(forged_records_are_ignored),
#endif
		WITH(bystanders_are_told),
		WITH(a_leftover),
		WITH(the_author_leaves),
		WITH(the_news_came_before_the_record),
		WITH(the_author_fails),
		WITH(a_former_run_has_left),
		WITH(all_waits_are_told),
		WITH(waits_without_a_size_are_told),
		WITH(a_later_wait_is_told),
		WITH(a_first_wait_after_the_failure),
		WITH(a_new_context_after_the_failure),
		WITH(a_failure_whose_time_is_learned_late),
		WITH(a_former_run_has_failed),
		WITH(two_failures_in_turn),
		WITH(without_rank_only_its_own_are_told),
		WITH(own_waits_go_on),
		WITH(a_failure_stays),
		WITH(a_failure_is_stored_again),
		WITH(failing_with_a_failing_server),
		WITH(news_once_a_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
