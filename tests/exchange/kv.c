/* SPDX-License-Identifier: MIT */
/*
 * kv.c - lib/kv/ against real servers in every state, and against other services
 *
 * promise: hartebeest(7)
 */
#include "config.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/kv/kv.h"
#include "tests/support/kv-scenarios.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/raw-kv.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#define TTL 600

static struct cache *cache;		/* of the running test */
static struct fake *fake;
static struct beest_kv *exchange;

static int64_t soon(void)
{
	return beest_clock_deadline(60 * BEEST_SECOND);
}

static int64_t briefly(void)
{
	return beest_clock_deadline(200 * BEEST_MS);
}

static void open_at(const struct beest_hostport *endpoint)
{
	assert_int_equal(beest_kv_open(&exchange, endpoint, 1), 0);
}

static void start(const char *const *arguments)
{
	cache = cache_start(arguments);
	open_at(cache_hostport(cache));
}

static int setup(void **state)
{
	(void)state;
	start(NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	beest_kv_close(exchange);
	exchange = NULL;
	cache_end(cache);
	cache = NULL;
	if (fake)
		fake_end(fake);
	fake = NULL;
	return 0;
}

static int put_bytes(const char *key, const void *value, size_t size)
{
	return raw_kv_put(exchange, key, value, size, TTL, soon());
}

static int put(const char *key, const char *value)
{
	return put_bytes(key, value, strlen(value));
}

/* The value as text, "(absent)", or NULL after a failure. */
static const char *get(const char *key)
{
	static __thread char text[256];
	struct beest_kv_value value;

	if (raw_kv_get(exchange, &key, 1, &value, soon()) < 0)
		return NULL;
	snprintf(text, sizeof(text), "%.*s", value.bytes ? (int)value.size : 8,
		 value.bytes ? (const char *)value.bytes : "(absent)");
	beest_kv_values_free(&value, 1);
	return text;
}

static int get_error(const char *key, int64_t deadline)
{
	struct beest_kv_value value = { .bytes = (uint8_t *)"", .size = 1 };
	int ret = raw_kv_get(exchange, &key, 1, &value, deadline);

	assert_null(value.bytes);
	return ret;
}

enum { PUT, ADD, DELETE, GET, OPERATIONS };

static int operate(int operation, const char *key, int64_t deadline)
{
	switch (operation) {
	case PUT:
		return raw_kv_put(exchange, key, "v", 1, TTL, deadline);
	case ADD:
		return raw_kv_add(exchange, key, "v", 1, TTL, deadline);
	case DELETE:
		return raw_kv_delete(exchange, key, deadline);
	default:
		return get_error(key, deadline);
	}
}

/* Repeats an operation that got no answer in time, unless that is the expected result. */
static int operate_until(int operation, const char *key, int err)
{
	int ret;

	do
		ret = operate(operation, key, briefly());
	while (ret == -EHOSTDOWN && err != EHOSTDOWN);
	return ret;
}

/* All four operations end with @err and name the server. */
static void all_fail_with(int err, const char *server)
{
	int operation;

	for (operation = 0; operation < OPERATIONS; operation++) {
		assert_int_equal(operate_until(operation, "k", err), -err);
		assert_error_has(server);
	}
}

/* ---------------------------------------------------------- a good server --- */

static void values_come_back(void **state)
{
	struct beest_kv_value value;
	const char *key = "hb1/j/msg/bytes";

	(void)state;
	assert_string_equal(get(key), "(absent)");
	assert_int_equal(put_bytes(key, "a\0\r\nEND\r\n", 9), 0);
	assert_int_equal(raw_kv_get(exchange, &key, 1, &value, soon()), 0);
	assert_int_equal(value.size, 9);
	assert_memory_equal(value.bytes, "a\0\r\nEND\r\n", 9);
	beest_kv_values_free(&value, 1);
	assert_null(value.bytes);
	assert_int_equal(put(key, "new"), 0);
	assert_string_equal(get(key), "new");
}

/* Every third key exists.  Keys are asked for in another order, and must get their own values. */
static void many_keys_meet_their_values(void **state)
{
	enum { MANY = 1000, LONG = 250 };
	static char text[MANY][LONG + 1];
	const char *keys[MANY + 1];
	struct beest_kv_value values[MANY + 1];
	char expected[16];
	int i, at;

	(void)state;
	for (i = 0; i < MANY; i++) {
		memset(text[i], 'x', LONG);
		text[i][sprintf(text[i], "%d/", i)] = 'x';
		keys[i * 7 % MANY] = text[i];
	}
	for (i = 0; i < MANY; i += 3) {
		snprintf(expected, sizeof(expected), "%d", i);
		assert_int_equal(put(text[i], expected), 0);
	}
	keys[MANY] = keys[0];		/* twice in one request */

	assert_int_equal(raw_kv_get(exchange, keys, MANY + 1, values, soon()), 0);
	for (i = 0; i < MANY; i++) {
		at = i * 7 % MANY;
		snprintf(expected, sizeof(expected), "%d", i);
		assert_int_equal(values[at].bytes != NULL, i % 3 == 0);
		if (values[at].bytes)
			assert_memory_equal(values[at].bytes, expected, strlen(expected));
	}
	assert_non_null(values[MANY].bytes);
	beest_kv_values_free(values, MANY + 1);
}

/* On many hosts "localhost" is ::1 first, where nobody listens. */
static void names_are_resolved(void **state)
{
	struct beest_hostport endpoint = { .host = "localhost" };
	int tries = 0;

	(void)state;
	surroundings_need_localhost();
	cache = cache_start(NULL);
	endpoint.port = cache_hostport(cache)->port;
	snprintf(endpoint.text, sizeof(endpoint.text), "localhost:%d", endpoint.port);
	open_at(&endpoint);
	while (put("k", "v") < 0 && tries < 3)
		tries++;
	assert_string_equal(get("k"), "v");
	cache_kill(cache);
	get_error("k", soon());
	assert_int_equal(get_error("k", soon()), -ECONNREFUSED);
	assert_error_has("localhost:");
	assert_error_has("(127.0.0.1)");
}

static void an_unknown_name(void **state)
{
	const struct beest_hostport endpoint = {
		.text = "no_such..host:1", .host = "no_such..host", .port = 1,
	};

	(void)state;
	open_at(&endpoint);
	assert_string_equal(beest_kv_label(exchange, 0), "no_such..host:1");
	assert_int_equal(put("k", "v"), -EADDRNOTAVAIL);
	assert_error_has("server no_such..host:1: the name cannot be resolved: ");
}

/* ------------------------------------------------------------------- keys --- */

static void bad_keys_are_refused(void **state)
{
	static const struct {
		const char *key, *sentence;
	} rows[] = {
		{ "", "empty" },
		{ "a b", "byte 2 is a blank" },
		{ "a\r\nset injected 0 0 1\r\nx", "byte 2 is 0x0d" },
		{ "a\nset injected 0 0 1\r\nx", "byte 2 is 0x0a" },
		{ "\x01", "byte 1 is 0x01" },
		{ "abc\x7f", "byte 4 is 0x7f" },
		{ "na\xc3\xafve", "byte 3 is 0xc3" },
	};
	char answer[256];
	size_t i;
	int operation;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++)
		for (operation = 0; operation < OPERATIONS; operation++) {
			assert_int_equal(operate(operation, rows[i].key, soon()), -EINVAL);
			assert_error_has(rows[i].sentence);
			assert_null(strpbrk(beest_error_text(), "\r\n\x01\x7f"));
		}
	assert_string_equal(cache_talk(cache, "get injected\r\n", answer, sizeof(answer)),
			    "END\r\n");
	assert_int_equal(cache_stat(cache, "curr_items"), 0);
	assert_int_equal(cache_stat(cache, "cmd_set"), 0);
}

static void longest_key_fits(void **state)
{
	char key[252];

	(void)state;
	assert_int_equal(put(unit_repeat(key, 'k', 250), "v"), 0);
	assert_string_equal(get(key), "v");
	assert_int_equal(put(unit_repeat(key, 'k', 251), "v"), -EINVAL);
	assert_error_has(" is longer than the 250 bytes that Memcached takes");
}

/* ------------------------------------------------------------ bad servers --- */

/* A request that hears nothing ends with its patience, and else with its deadline. */
static void patience_ends_with_silence(void **state)
{
	const char *key = "k";
	struct beest_kv_value value;
	struct beest_kv_request request = {
		.keys = &key, .key_count = 1, .values = &value, .patience = 300 * BEEST_MS,
	};

	(void)state;
	assert_int_equal(put("k", "v"), 0);
	cache_stop(cache);
	assert_int_equal(beest_kv_run(exchange, &request, 1, INT64_MAX, NULL), -EHOSTDOWN);
	assert_true(request.took >= 290 * BEEST_MS);
	cache_resume(cache);
	assert_int_equal(beest_kv_run(exchange, &request, 1, INT64_MAX, NULL), 0);
	beest_kv_values_free(&value, 1);
}

/* Returns when the server has counted the connection or refused it. */
static int connect_counted(void)
{
	struct pollfd pollfd = { .fd = cache_connect(cache), .events = POLLIN };

	assert_int_equal(write(pollfd.fd, "version\r\n", 9), 9);
	assert_int_equal(TEMP_FAILURE_RETRY(poll(&pollfd, 1, 10000)), 1);
	return pollfd.fd;
}

/* A server that refuses a value drops the old one, so the library must not send it. */
static void large_value_is_refused_here(void **state)
{
	static char value[BEEST_VALUE_MAX + 1];

	(void)state;
	assert_int_equal(put("k", "old"), 0);
	assert_int_equal(put_bytes("k", value, sizeof(value)), -EMSGSIZE);
	assert_string_equal(get("k"), "old");
	assert_int_equal(put_bytes("k", value, BEEST_VALUE_MAX), 0);
}

static void large_value_is_refused_there(void **state)
{
	static const char *const arguments[] = { "-I", "512k", NULL };
	static char value[700 * 1024];

	(void)state;
	start(arguments);
	assert_int_equal(put_bytes("k", value, sizeof(value)), -EMSGSIZE);
	assert_error_has("larger than it takes");
}

static void strange_answers(void **state)
{
	static const struct {
		const char *answer;
		int err;
		const char *sentence;
	} rows[] = {
		{ "SSH-2.0-OpenSSH_9.2\r\n", EPROTO, "" },
		{ "HTTP/1.1 400 Bad Request\r\n", EPROTO, "" },
		{ "ERROR\r\n", EUSERS, "" },
		{ "ERROR Too many open connections\r\n", EUSERS, "" },
		{ "SERVER_ERROR proxy write failed\r\n", ENOBUFS, "'proxy write failed'" },
		{ "SERVER_ERROR out of memory storing object\r\n", ENOBUFS, "" },
		{ "CLIENT_ERROR unauthenticated\r\n", EACCES, "" },
		{ "CLIENT_ERROR something else\r\n", EPROTO, "" },
		{ "", ECONNRESET, "" },
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++) {
		fake = fake_start(rows[i].answer, 0);
		open_at(fake_hostport(fake));
		all_fail_with(rows[i].err, fake_hostport(fake)->text);
		assert_error_has(rows[i].sentence);
		teardown(state);
	}
}

/* A read that fails half-way is an error, never "absent". */
static void a_failed_get_is_not_absence(void **state)
{
	static const struct {
		const char *answer;
		int err;
	} rows[] = {
		{ "SERVER_ERROR out of memory writing get response\r\n", ENOBUFS },
		{ "CLIENT_ERROR unauthenticated\r\n", EACCES },
		{ "VALUE other 0 1\r\nx\r\nEND\r\n", EPROTO },
		{ "VALUE k 0 1\r\nx\r\nVALUE k 0 1\r\ny\r\nEND\r\n", EPROTO },
		{ "VALUE k 0 5\r\nx\r\n", EHOSTDOWN },
		{ "VALUE k 0 5", EHOSTDOWN },
		{ "", ECONNRESET },
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++) {
		fake = fake_start(rows[i].answer, 0);
		open_at(fake_hostport(fake));
		assert_int_equal(operate_until(GET, "k", rows[i].err), -rows[i].err);
		teardown(state);
	}
}

/* Behind the canary, what had come before the silence is kept; without it, nothing is. */
static void what_came_before_the_silence(void **state)
{
	static const struct {
		const char *answer;
		bool kept;
	} rows[] = {
		{ "VALUE epoch 0 1\r\ne\r\nVALUE a 0 1\r\nx\r\nVALUE b 0 5\r\ny", true },
		{ "VALUE a 0 1\r\nx\r\nVALUE b 0 5\r\ny", false },
	};
	static const char *const keys[] = { "epoch", "a", "b" };
	struct beest_kv_value values[BEEST_COUNT(keys)];
	struct beest_kv_request request = {
		.keys = keys, .key_count = BEEST_COUNT(keys), .values = values,
		.patience = 3 * BEEST_SECOND,
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++) {
		fake = fake_start(rows[i].answer, 0);
		open_at(fake_hostport(fake));
		assert_int_equal(beest_kv_run(exchange, &request, 1, soon(), NULL), -EHOSTDOWN);
		assert_int_equal(values[0].bytes != NULL, rows[i].kept);
		assert_int_equal(values[1].bytes && values[1].bytes[0] == 'x', rows[i].kept);
		assert_null(values[2].bytes);
		beest_kv_values_free(values, BEEST_COUNT(values));
		teardown(state);
	}
}

/* The server spoke Memcached before: an answer that is cut off is a transient error. */
static void a_torn_answer_is_transient(void **state)
{
	(void)state;
	fake = fake_start("VALbroken\r\n", 1);
	open_at(fake_hostport(fake));
	assert_int_equal(operate(DELETE, "k", soon()), -ENOENT);
	assert_int_equal(operate(DELETE, "k", soon()), -ECONNRESET);
}

static void transient_errors(void **state)
{
	static const int passing[] = {
		ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, ECONNRESET, EHOSTDOWN, EUSERS, ENOBUFS,
		ENODATA, EADDRNOTAVAIL,
	};
	static const int lasting[] = {
		EMSGSIZE, EACCES, EINVAL, EPROTO, ENOMEM, EEXIST, ENOENT,
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(passing); i++)
		assert_true(beest_kv_transient(-passing[i]));
	for (i = 0; i < BEEST_COUNT(lasting); i++)
		assert_false(beest_kv_transient(-lasting[i]));
	assert_false(beest_kv_transient(0));
}

/* -------------------------------------------------- signals, forks, threads --- */

static volatile sig_atomic_t ticks;

static void tick(int signal)
{
	(void)signal;
	ticks++;
}

/* The first tick comes after @first_ms, more follow every @then_ms; 0: no more. */
static void set_timer(int first_ms, int then_ms)
{
	struct itimerval timer = {
		.it_value.tv_usec = first_ms * 1000, .it_interval.tv_usec = then_ms * 1000,
	};

	setitimer(ITIMER_REAL, &timer, NULL);
}

/* If two ticks leave the operation waiting for ever, a third one ends it after 8 s. */
static void tick_twice(int signal)
{
	tick(signal);
	if (ticks == 1)
		set_timer(130, 0);
	if (ticks == 2)
		set_timer(8000, 0);
}

/* libmemcached 1.1 would wait for ever: it counts the time before the first signal twice. */
static void two_signals_do_not_matter(void **state)
{
	struct sigaction action = { .sa_handler = tick_twice };
	int64_t begin;

	(void)state;
	assert_int_equal(put("k", "v"), 0);
	assert_string_equal(get("k"), "v");
	cache_stop(cache);
	ticks = 0;
	sigaction(SIGALRM, &action, NULL);
	set_timer(130, 0);
	begin = beest_clock_now();
	assert_int_equal(get_error("k", begin + 300 * BEEST_MS), -EHOSTDOWN);
	assert_in_range(beest_clock_now() - begin, 250 * BEEST_MS, 60 * BEEST_SECOND);
	set_timer(0, 0);
	signal(SIGALRM, SIG_IGN);	/* valgrind delivers late */
}

/* -------------------------------------------------------- several servers --- */

struct pair {
	struct cache *caches[2];
	struct beest_hostport endpoints[2];
};

static struct pair pair;

static int pair_setup(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 2; i++) {
		pair.caches[i] = cache_start(NULL);
		pair.endpoints[i] = *cache_hostport(pair.caches[i]);
	}
	return beest_kv_open(&exchange, pair.endpoints, 2);
}

static int pair_teardown(void **state)
{
	teardown(state);
	cache_end(pair.caches[0]);
	cache_end(pair.caches[1]);
	return 0;
}

/* The index of the key's server, 0 or 1. */
static int home_of(const char *key)
{
	return (int)beest_kv_server_of(exchange, key);
}

static void two_servers_share_the_keys(void **state)
{
	char key[16];
	int i, homes[2] = { 0, 0 };

	(void)state;
	for (i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		assert_int_equal(put(key, key), 0);
		homes[home_of(key)]++;
	}
	assert_in_range(homes[0], 25, 75);
	for (i = 0; i < 2; i++)
		assert_int_equal(cache_stat(pair.caches[i], "curr_items"), homes[i]);
	for (i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		assert_string_equal(get(key), key);
	}
}

/* The chance that all 60 keys have one server is 1 in 2^59. */
static void a_dead_one_is_named_and_not_replaced(void **state)
{
	char key[16];
	int i;

	(void)state;
	cache_kill(pair.caches[1]);
	for (i = 0; i < 60; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		assert_int_equal(put(key, "v"), home_of(key) ? -ECONNREFUSED : 0);
		if (home_of(key))
			assert_error_has(pair.endpoints[1].text);
	}
}

/* The server of a key depends neither on the list's order nor on resolved addresses. */
static void lists_agree_in_any_order(void **state)
{
	const struct beest_hostport list[] = {
		{ .text = "a:1", .host = "127.0.0.1", .port = 1 },
		{ .text = "b:1", .host = "127.0.0.2", .port = 1 },
		{ .text = "c:1", .host = "127.0.0.3", .port = 1 },
	};
	const struct beest_hostport turned[] = {
		{ .text = "c:1", .host = "127.0.0.9", .port = 1 },
		{ .text = "a:1", .host = "127.0.0.1", .port = 1 },
		{ .text = "b:1", .host = "127.0.0.2", .port = 1 },
	};
	struct beest_kv *one, *other, *fewer;
	const char *home;
	char key[16];
	int i;

	(void)state;
	assert_int_equal(beest_kv_open(&one, list, 3), 0);
	assert_int_equal(beest_kv_open(&other, turned, 3), 0);
	assert_int_equal(beest_kv_open(&fewer, list, 2), 0);
	assert_true(beest_kv_digest(one) == beest_kv_digest(other));
	assert_true(beest_kv_digest(one) != beest_kv_digest(fewer));
	for (i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		home = raw_kv_server(one, key);
		assert_string_equal(home, raw_kv_server(other, key));
		if (strcmp(home, "c:1"))	/* only keys of the third server move */
			assert_string_equal(home, raw_kv_server(fewer, key));
	}
	beest_kv_close(one);
	beest_kv_close(other);
	beest_kv_close(fewer);
}

/* The choice is part of the wire form: other programs must choose the same server. */
static void the_choice_is_fixed(void **state)
{
	const struct beest_hostport list[] = {
		{ .text = "10.0.0.1:11211", .host = "10.0.0.1", .port = 11211 },
		{ .text = "10.0.0.2:11211", .host = "10.0.0.2", .port = 11211 },
		{ .text = "10.0.0.3:11211", .host = "10.0.0.3", .port = 11211 },
	};
	static const char homes[] = "232122331112222223112223";
	struct beest_kv *three;
	char key[32], found[sizeof(homes)] = "";
	size_t i;

	(void)state;
	assert_int_equal(beest_kv_open(&three, list, 3), 0);
	for (i = 0; i < sizeof(homes) - 1; i++) {
		snprintf(key, sizeof(key), "hb1/job/qp/%zu", i);
		found[i] = raw_kv_server(three, key)[7];
	}
	beest_kv_close(three);
	assert_string_equal(found, homes);
}

/* --------------------------------------------------------------- requests --- */

static void stage_restart(void)
{
	cache_restart(cache);
}

static void stage_pause(int seconds)
{
	pause_ms(seconds * 1000);
}

/* The fake of the unit tests passes the same table. */
static void requests_do_as_the_fake_says(void **state)
{
	struct kv_stage stage = { NULL, stage_restart, stage_pause };
	const struct kv_scenario *scenario;

	for (scenario = kv_scenarios; scenario->name; scenario++) {
		print_message("%s\n", scenario->name);
		setup(state);
		stage.kv = exchange;
		scenario->run(&stage);
		teardown(state);
	}
}

static struct beest_kv_write opening = {
	.verb = BEEST_KV_ADD, .key = "epoch", .value = "E", .size = 1,
};

/* Flags of a request: all its writes are answered; it is lazy. */
enum { ANSWERED = 1, LAZY = 2 };

/* Makes @count writes and reads @keys; the caller frees the values. */
static int request_at(size_t server, unsigned int flags, struct beest_kv_write *writes,
		      size_t count, const char *const *keys, size_t key_count,
		      struct beest_kv_value *values, int64_t deadline)
{
	struct beest_kv_request request = {
		.server = server, .lazy = flags & LAZY, .writes = writes,
		.write_count = count, .opening = &opening, .keys = keys, .key_count = key_count,
		.values = values,
	};
	size_t i;
	int ret;

	for (i = 0; i < count; i++)
		writes[i].answered = flags & ANSWERED || writes[i].verb == BEEST_KV_INCR;
	ret = beest_kv_run(exchange, &request, 1, deadline, NULL);
	assert_int_equal(request.ret, ret);
	if (ret < 0)	/* some may have come */
		beest_kv_values_free(values, key_count);
	return ret;
}

/* Sets @key, and reads the epoch and @key; *same: was the value just set read back? */
static int exchange_value(const char *key, const char *value, bool *same, int64_t deadline)
{
	struct beest_kv_write write = {
		.verb = BEEST_KV_SET, .key = key, .value = value, .size = strlen(value), .ttl = TTL,
	};
	const char *keys[] = { "epoch", key };
	struct beest_kv_value values[2];
	int ret;

	ret = request_at(0, 0, &write, 1, keys, 2, values, deadline);
	*same = ret == 0 && values[1].bytes && values[1].size == strlen(value) &&
		!memcmp(values[1].bytes, value, values[1].size);
	beest_kv_values_free(values, 2);
	return ret;
}

static int exchange_k(int64_t deadline)
{
	bool same;
	int ret = exchange_value("k", "v", &same, deadline);

	assert_int_equal(same, ret == 0);
	return ret;
}

static void assert_probe(int wanted, struct beest_kv_stats *stats)
{
	static struct beest_kv_stats unused;
	const int64_t deadline = wanted == -EHOSTDOWN ? briefly() : soon();

	assert_int_equal(beest_kv_probe(exchange, 0, deadline, stats ? stats : &unused), wanted);
}

#define BYTES(text) (text), sizeof(text) - 1

/* The first request must do no harm, and the sentence must quote what answered. */
static void foreign_services(void **state)
{
	static const char zeros[512];
	static const struct {
		struct fake_service service;
		int probed;
		const char *sentence;
	} rows[] = {
		{ { .banner = "220 hi\r\n", .banner_size = 8 }, EPROTO, "'220 hi'" },
		{ { NULL, 0, BYTES("OK\r\n"), 0, 0, 0 }, EPROTO, "'OK" },
		{ { NULL, 0, BYTES("42\r\n"), 0, 0, 0 }, EPROTO, "'42" },
		{ { NULL, 0, BYTES("STORED\r\n"), 0, 0, 0 }, EPROTO, "'STORED" },
		{ { NULL, 0, BYTES("END\r\n"), 0, 0, 0 }, EPROTO, "'END" },
		{ { NULL, 0, BYTES(zeros), 0, 0, 0 }, EPROTO, "'\\x00\\x00" },
		{ { .echoes = 1 }, EPROTO, "'version" },
		{ { NULL, 0, BYTES("-ERR unknown command 'version'\r\n"), 0, 0, 0 }, EPROTO,
		  "'-ERR unknown" },
		{ { NULL, 0, BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"), 0, 0, 0 }, EPROTO,
		  "'HTTP/1.1 400" },
		{ { BYTES("SSH-2.0-OpenSSH_9.2\r\n"), NULL, 0, 0, 0, 0 }, EPROTO, "'SSH-2.0" },
		{ { NULL, 0, BYTES("\x15\x03\xff\x7f\x80garbage"), 0, 0, 0 }, EPROTO,
		  "'\\x15\\x03\\xff\\x7f\\x80garbage" },
		{ { .answer = NULL }, EHOSTDOWN, "silent" },
		{ { .closes = 1 }, ECONNRESET, "closes every connection" },
		{ { NULL, 0, BYTES("VALUE other 0 1\r\nx\r\nEND\r\n"), 0, 0, 0 }, EPROTO,
		  "'VALUE other" },
		{ { NULL, 0, BYTES("SERVER_ERROR no\r\n"), 0, 0, 0 }, ENOBUFS,
		  "it reports an error: 'SERVER_ERROR no'" },
		{ { NULL, 0, BYTES("CLIENT_ERROR unauthenticated\r\n"), 0, 0, 0 }, EACCES,
		  "it demands a login" },
		{ { BYTES("ERROR Too many open connections\r\n"), NULL, 0, 0, 1, 0 }, EUSERS,
		  "memcached -c" },
		{ { NULL, 0, BYTES("VERSION 1\r\n"), 0, 0, 0 }, EHOSTDOWN, "silent" },
	};
	static const unsigned int flags[] = { 0, ANSWERED, LAZY };
	struct beest_kv_write write = {
		.verb = BEEST_KV_SET, .key = "k", .value = "v", .size = 1, .ttl = TTL,
	};
	const char *const keys[] = { "epoch", "k" };
	struct beest_kv_value values[2];
	size_t i, k;

	for (i = 0; i < BEEST_COUNT(rows); i++) {
		fake = fake_start_service(&rows[i].service);
		open_at(fake_hostport(fake));
		for (k = 0; k < BEEST_COUNT(flags); k++) {
			assert_true(request_at(0, flags[k], &write, 1, keys, 2, values,
					       briefly()) < 0);
			assert_error_has(fake_hostport(fake)->text);
		}
		assert_probe(-rows[i].probed, NULL);
		assert_error_has(fake_hostport(fake)->text);
		assert_error_has(rows[i].sentence);
		teardown(state);
	}
}

/* Closes each connection at the first request unless that is of its protocol. */
struct stranger {
	const char *first;		/* byte of a request */
	const char *answer;
	size_t size;
	int err;
	const char *sentence;
	int listener;
};

static void *stranger_serve(void *data)
{
	const struct stranger *stranger = data;
	char request[512];
	int fd;

	while ((fd = TEMP_FAILURE_RETRY(accept(stranger->listener, NULL, NULL))) >= 0) {
		if (TEMP_FAILURE_RETRY(read(fd, request, sizeof(request))) > 0 &&
		    request[0] == stranger->first[0] &&
		    send(fd, stranger->answer, stranger->size, MSG_NOSIGNAL) < 0)
			perror("stranger");
		close(fd);
	}
	return NULL;
}

static void servers_of_other_protocols(void **state)
{
	struct stranger rows[] = {
		{ "\x80", BYTES("\x81\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), EPROTO,
		  "it speaks the binary protocol only (memcached -B binary)", -1 },
		{ "\x80", BYTES("\x81\x0a\0\0\0\0\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), EACCES,
		  "it demands a login (memcached -S or -Y), but the library does not log in", -1 },
		{ "\x16", BYTES("\x15\x03\x03\x00\x02\x02\x28"), EPROTO,
		  "it speaks TLS (memcached -Z)", -1 },
	};
	struct beest_hostport endpoint;
	pthread_t server;
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++) {
		rows[i].listener = bind_free(&endpoint);
		assert_int_equal(listen(rows[i].listener, 8), 0);
		assert_int_equal(pthread_create(&server, NULL, stranger_serve, &rows[i]), 0);
		open_at(&endpoint);
		assert_probe(-rows[i].err, NULL);
		assert_error_has(rows[i].sentence);
		shutdown(rows[i].listener, SHUT_RDWR);
		pthread_join(server, NULL);
		close(rows[i].listener);
		teardown(state);
	}
}

/* A counter is changed only after the server has proved to be a Memcached. */
static void foreign_services_get_no_incr(void **state)
{
	static const struct fake_service services[] = {
		{ NULL, 0, BYTES("OK\r\n"), 0, 0, 0 }, { NULL, 0, BYTES("END\r\n"), 0, 0, 0 },
		{ .echoes = 1 },
	};
	struct beest_kv_write write = { .verb = BEEST_KV_INCR, .key = "n" };
	const char *const keys[] = { "epoch" };
	struct beest_kv_value value;
	size_t i;

	for (i = 0; i < BEEST_COUNT(services); i++) {
		fake = fake_start_service(&services[i]);
		open_at(fake_hostport(fake));
		assert_true(request_at(0, 0, &write, 1, keys, 1, &value, briefly()) < 0);
		assert_true(write.ret < 0);
		assert_int_equal(fake_incremented(fake), 0);
		teardown(state);
	}
}

/* The deadline holds for all values together. */
static void a_dripping_server_is_left(void **state)
{
	enum { MANY = 600 };
	static const struct fake_service service = { .drip_ms = 50 };
	static char text[MANY][16];
	static struct beest_kv_value values[MANY];
	const char *keys[MANY];
	size_t i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		snprintf(text[i], sizeof(text[i]), "key%zu", i);
		keys[i] = text[i];
	}
	fake = fake_start_service(&service);
	open_at(fake_hostport(fake));
	assert_int_equal(request_at(0, 0, NULL, 0, keys, MANY, values, briefly()), -EHOSTDOWN);
	while (!fake_dripped(fake))	/* on a busy machine */
		pause_ms(1);
	assert_in_range(fake_dripped(fake), 1, MANY / 2);
}

static void requests_to_nobody(void **state)
{
	struct beest_hostport endpoint;

	(void)state;
	closed_hostport(&endpoint);
	open_at(&endpoint);
	all_fail_with(ECONNREFUSED, endpoint.text);
	assert_error_has("connection refused");
	all_fail_with(ECONNREFUSED, endpoint.text);	/* tried again, not "disabled" */
	assert_int_equal(exchange_k(soon()), -ECONNREFUSED);
	assert_probe(-ECONNREFUSED, NULL);
	assert_error_has("no memcached listens there");
}

static void requests_to_what_is_no_socket(void **state)
{
	const struct {
		const char *path, *what;
	} rows[] = {
		{ scratch(), "a directory" }, { "/dev/null", "a file" },
	};
	struct beest_hostport endpoint = { .port = 0 };
	char sentence[192];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		strcpy(endpoint.host, rows[i].path);
		strcpy(endpoint.text, rows[i].path);
		snprintf(sentence, sizeof(sentence), "server %s: %s, not a socket", rows[i].path,
			 rows[i].what);
		open_at(&endpoint);
		assert_int_equal(exchange_k(soon()), -ECONNREFUSED);
		assert_error_is(sentence);
		assert_probe(-ECONNREFUSED, NULL);
		assert_error_is(sentence);
		teardown(state);
	}
}

/* The kernel accepts connections, but nobody reads them. */
static void requests_that_nobody_accepts(void **state)
{
	(void)state;
	fake = fake_start(NULL, 0);
	open_at(fake_hostport(fake));
	all_fail_with(EHOSTDOWN, fake_hostport(fake)->text);
	assert_int_equal(exchange_k(briefly()), -EHOSTDOWN);
	assert_probe(-EHOSTDOWN, NULL);
	assert_error_has("silent");
}

/* What a firewall that drops packets looks like. */
static void requests_without_a_connection(void **state)
{
	struct beest_hostport endpoint;

	(void)state;
	mute_hostport(&endpoint);
	open_at(&endpoint);
	assert_int_equal(exchange_k(briefly()), -EHOSTDOWN);
	assert_error_has(": no answer to a connection: a firewall that drops packets, ");
	assert_probe(-EHOSTDOWN, NULL);
	assert_error_has(": no answer to a connection: a firewall that drops packets, ");
}

/* An attempt is given up after a second, which a busy machine may exceed. */
static void exchange_in_the_end(void)
{
	int tries = 0;

	while (exchange_k(soon()) < 0)
		assert_true(tries++ < 60);
}

static void requests_to_a_stopped_server(void **state)
{
	struct beest_kv_stats stats;

	(void)state;
	exchange_in_the_end();
	cache_stop(cache);
	assert_int_equal(exchange_k(briefly()), -EHOSTDOWN);
	assert_error_has("no answer");
	assert_int_equal(exchange_k(briefly()), -EHOSTDOWN);
	assert_error_has("silent: it takes connections but does not answer");
	assert_probe(-EHOSTDOWN, &stats);
	assert_error_has("silent: it takes connections but does not answer");
	cache_resume(cache);
	exchange_in_the_end();
}

/* Closing says goodbye on each idle connection, but never waits for an answer. */
static void closing_on_a_stopped_server(void **state)
{
	static const char *const keys[] = { "k" };
	struct beest_kv_value values[32];	/* as many connections are kept */
	struct beest_kv_request requests[32];
	int64_t begin;
	int tries = 0, ret;
	size_t i;

	(void)state;
	exchange_in_the_end();
	memset(requests, 0, sizeof(requests));
	for (i = 0; i < BEEST_COUNT(requests); i++) {
		requests[i].keys = keys;
		requests[i].key_count = 1;
		requests[i].values = &values[i];
	}
	do {
		assert_true(tries++ < 60);
		memset(values, 0, sizeof(values));
		ret = beest_kv_run(exchange, requests, BEEST_COUNT(requests), soon(), NULL);
		beest_kv_values_free(values, BEEST_COUNT(values));
	} while (ret < 0);
	cache_stop(cache);
	begin = beest_clock_now();
	beest_kv_close(exchange);
	exchange = NULL;
	assert_in_range(beest_clock_now() - begin, 0, 16 * BEEST_SECOND);	/* not 32 s */
}

/* A late answer to a request that was given up must not answer the next request. */
static void late_answers_of_requests(void **state)
{
	char value[16];
	bool same;
	int round;

	(void)state;
	for (round = 0; round < 5; round++) {
		cache_stop(cache);
		assert_int_equal(exchange_k(beest_clock_deadline(20 * BEEST_MS)), -EHOSTDOWN);
		cache_resume(cache);
		snprintf(value, sizeof(value), "%d", round);
		assert_int_equal(exchange_value("a", value, &same, soon()), 0);
		assert_true(same);
	}
}

/* An unanswered set that found no room shows only when the key is read back. */
static void requests_to_a_full_server(void **state)
{
	static const char *const arguments[] = { "-M", "-m", "3", NULL };
	static char large[200 * 1024];
	static char text[40][8];
	struct beest_kv_write writes[40];
	const char *const keys[] = { "epoch", "k0", "k39" };
	struct beest_kv_value values[3];
	struct beest_kv_stats stats;
	size_t i;

	(void)state;
	if (!cache_since(6))		/* it takes the value for commands and hangs up */
		skip();
	start(arguments);
	for (i = 0; i < 40; i++) {
		snprintf(text[i], sizeof(text[i]), "k%zu", i);
		writes[i] = (struct beest_kv_write){
			.verb = BEEST_KV_SET, .key = text[i], .value = large,
			.size = sizeof(large), .ttl = TTL,
		};
	}
	assert_int_equal(exchange_k(soon()), 0);
	assert_int_equal(request_at(0, 0, writes, 40, keys, 3, values, soon()), 0);
	assert_non_null(values[1].bytes);
	assert_null(values[2].bytes);
	beest_kv_values_free(values, 3);
	assert_int_equal(request_at(0, ANSWERED, &writes[39], 1, keys, 1, values, soon()),
			 -ENOBUFS);
	assert_error_has("out of memory");
	assert_int_equal(writes[39].ret, -ENOBUFS);
	beest_kv_values_free(values, 1);
	assert_probe(0, &stats);
	assert_true(stats.out_of_memory_is_an_error);
	assert_int_equal(stats.limit_bytes, 3 << 20);
}

static void probe_sees_evictions(void **state)
{
	static const char *const arguments[] = { "-m", "3", NULL };
	static char large[200 * 1024];
	struct beest_kv_stats stats;
	char key[8];
	int i;

	(void)state;
	start(arguments);
	for (i = 0; i < 40; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		assert_int_equal(put_bytes(key, large, sizeof(large)), 0);
	}
	assert_probe(0, &stats);
	assert_true(stats.evictions > 0);
	assert_false(stats.out_of_memory_is_an_error);
}

/* memcached 1.5.22 counts each connection as rejected. */
static void probe_sees_rejections(void **state)
{
	static const struct {
		int total, rejected, disabled;
		uint64_t turned_away;
	} rows[] = {
		{ 2, 1, 0, 0 },
		{ 5021, 5020, 0, 0 },
		{ 5021, 5024, 0, 0 },
		{ 5021, 5020, 7, 7 },
		{ 5021, 0, 0, 0 },
		{ 1060, 3, 0, 3 },
		{ 1060, 9000, 0, 9000 },
	};
	struct beest_kv_stats stats;
	struct fake_service service = { .answer = NULL };
	char answer[160];
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++) {
		snprintf(answer, sizeof(answer), "VERSION 1\r\nSTAT total_connections %d\r\n"
			 "STAT rejected_connections %d\r\nSTAT listen_disabled_num %d\r\n"
			 "END\r\nEND\r\n", rows[i].total, rows[i].rejected, rows[i].disabled);
		service.answer = answer;
		service.answer_size = strlen(answer);
		fake = fake_start_service(&service);
		open_at(fake_hostport(fake));
		assert_probe(0, &stats);
		assert_int_equal(stats.turned_away, rows[i].turned_away);
		teardown(state);
	}
}

static void requests_to_a_server_full_of_connections(void **state)
{
	static const char *const arguments[] = { "-c", "64", NULL };
	int fds[80], i;

	(void)state;
	if (!cache_since(6))
		skip();
	start(arguments);
	for (i = 0; i < 80; i++)
		fds[i] = connect_counted();
	for (i = 0; i < 20; i++) {
		assert_true(beest_kv_transient(exchange_k(soon())));
		assert_probe(-EUSERS, NULL);
		assert_error_has("too many connections");
	}
	for (i = 0; i < 80; i++)
		close(fds[i]);
	while (exchange_k(soon()) < 0)
		pause_ms(5);
	assert_probe(0, NULL);
}

static void requests_over_a_unix_socket(void **state)
{
	struct beest_kv_stats stats;

	(void)state;
	cache = cache_start_unix();
	open_at(cache_hostport(cache));
	assert_int_equal(exchange_k(soon()), 0);
	assert_probe(0, &stats);
	cache_kill(cache);
	assert_true(exchange_k(soon()) < 0);
	assert_int_equal(exchange_k(soon()), -ECONNREFUSED);
	assert_probe(-ECONNREFUSED, &stats);
}

static void signals_do_not_disturb_requests(void **state)
{
	struct sigaction action = { .sa_handler = tick };
	int64_t begin;
	int i;

	(void)state;
	ticks = 0;
	sigaction(SIGALRM, &action, NULL);
	set_timer(1, 1);
	for (i = 0; i < 200 || ticks < 20; i++) {
		assert_int_equal(exchange_k(soon()), 0);
		if (i % 20 == 0)
			assert_probe(0, NULL);
	}

	set_timer(10, 10);	/* libmemcached 1.0.16 then gives up early */
	cache_stop(cache);
	begin = beest_clock_now();
	assert_int_equal(exchange_k(begin + 300 * BEEST_MS), -EHOSTDOWN);
	assert_in_range(beest_clock_now() - begin, 250 * BEEST_MS, 60 * BEEST_SECOND);
	set_timer(0, 0);
	signal(SIGALRM, SIG_IGN);	/* valgrind delivers late */
}

/* Writes and reads a key of its own; returns how often that failed or gave another's value. */
static int requests_mixed_up(const char *me, int rounds)
{
	char value[48];
	bool same;
	int i, wrong = 0;

	for (i = 0; i < rounds; i++) {
		snprintf(value, sizeof(value), "%s %d", me, i);
		if (exchange_value(me, value, &same, soon()) < 0 || !same)
			wrong++;
	}
	return wrong;
}

static void a_child_has_request_connections_of_its_own(void **state)
{
	int status = -1;
	long before;
	pid_t pid;

	(void)state;
	assert_int_equal(exchange_k(soon()), 0);
	before = cache_stat(cache, "total_connections");
	pid = fork();
	if (pid == 0) {
		status = requests_mixed_up("child", 300);
		beest_kv_close(exchange);
		_exit(status ? 1 : 0);
	}
	assert_int_equal(requests_mixed_up("parent", 300), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(cache_stat(cache, "total_connections"), before + 2);
}

static void *requests_thread(void *data)
{
	return (void *)(intptr_t)requests_mixed_up(data, 200);
}

static void threads_of_requests_do_not_meet(void **state)
{
	static char names[8][32];
	pthread_t threads[8];
	long before;
	void *wrong;
	int i;

	(void)state;
	before = cache_stat(cache, "total_connections");
	for (i = 0; i < 8; i++) {
		snprintf(names[i], sizeof(names[i]), "thread%d", i);
		assert_int_equal(pthread_create(&threads[i], NULL, requests_thread, names[i]), 0);
	}
	for (i = 0; i < 8; i++) {
		pthread_join(threads[i], &wrong);
		assert_null(wrong);
	}
	/* about one each: a connection just being given back may be missed */
	assert_in_range(cache_stat(cache, "total_connections"), before + 2, before + 33);
}

static int set_answered(void)
{
	struct beest_kv_write write = {
		.verb = BEEST_KV_SET, .key = "k", .value = "v", .size = 1, .ttl = TTL,
	};
	const char *const keys[] = { "epoch" };
	struct beest_kv_value value;
	int ret = request_at(0, ANSWERED, &write, 1, keys, 1, &value, soon());

	beest_kv_values_free(&value, 1);
	return ret;
}

/* The server notices a closed connection later. */
static void connections_become(long count)
{
	int64_t end = soon();

	while (cache_stat(cache, "curr_connections") != count)
		assert_true(beest_clock_left(end) > 0);
}

/* What is left when it has noticed all that are closed. */
static long connections_at_least(void)
{
	long count, least = LONG_MAX;
	int i;

	for (i = 0; i < 20; i++) {
		count = cache_stat(cache, "curr_connections");
		least = BEEST_MIN(count, least);
		pause_ms(1);
	}
	return least;
}

/* Requests with answered and with unanswered writes share one connection, until the end. */
static void one_connection_is_enough(void **state)
{
	long before;
	int i;

	(void)state;
	before = connections_at_least();
	for (i = 0; i < 20; i++) {
		assert_int_equal(exchange_k(soon()), 0);
		assert_int_equal(set_answered(), 0);
	}
	connections_become(before + 1);	/* one that a signal broke is closed */
	beest_kv_close(exchange);
	exchange = NULL;
	connections_become(before);
}

static void two_servers_at_once(void **state)
{
	struct beest_kv_request requests[2];
	struct beest_kv_value values[2];
	const char *const keys[] = { "epoch" };
	int i;

	(void)state;
	for (i = 0; i < 2; i++)
		requests[i] = (struct beest_kv_request){
			.server = (size_t)i, .opening = &opening, .keys = keys, .key_count = 1,
			.values = &values[i],
		};
	assert_int_equal(beest_kv_run(exchange, requests, 2, soon(), NULL), 0);
	beest_kv_values_free(values, 2);
	cache_kill(pair.caches[0]);
	assert_true(beest_kv_run(exchange, requests, 2, soon(), NULL) < 0);
	assert_error_has(pair.endpoints[0].text);
	assert_true(requests[0].ret < 0);
	assert_null(values[0].bytes);
	assert_int_equal(requests[1].ret, 0);
	assert_true(requests[1].answered);
	beest_kv_values_free(values, 2);
}

#define WITH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define ALONE(name) cmocka_unit_test_teardown(name, teardown)
#define TWO(name) cmocka_unit_test_setup_teardown(name, pair_setup, pair_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(values_come_back),
		WITH(many_keys_meet_their_values),
		ALONE(names_are_resolved),
		ALONE(an_unknown_name),
		WITH(bad_keys_are_refused),
		WITH(longest_key_fits),
		WITH(patience_ends_with_silence),
		WITH(large_value_is_refused_here),
		ALONE(large_value_is_refused_there),
		ALONE(strange_answers),
		ALONE(what_came_before_the_silence),
		ALONE(a_torn_answer_is_transient),
		ALONE(a_failed_get_is_not_absence),
		ALONE(transient_errors),
		WITH(two_signals_do_not_matter),
		TWO(two_servers_share_the_keys),
		TWO(a_dead_one_is_named_and_not_replaced),
		ALONE(lists_agree_in_any_order),
		ALONE(the_choice_is_fixed),
		ALONE(requests_do_as_the_fake_says),
		ALONE(foreign_services),
		ALONE(servers_of_other_protocols),
		ALONE(foreign_services_get_no_incr),
		ALONE(a_dripping_server_is_left),
		ALONE(requests_to_nobody),
		ALONE(requests_that_nobody_accepts),
		ALONE(requests_without_a_connection),
		WITH(requests_to_a_stopped_server),
		WITH(closing_on_a_stopped_server),
		WITH(late_answers_of_requests),
		ALONE(requests_to_a_full_server),
		ALONE(probe_sees_evictions),
		ALONE(probe_sees_rejections),
		ALONE(requests_to_a_server_full_of_connections),
		ALONE(requests_to_what_is_no_socket),
		ALONE(requests_over_a_unix_socket),
		WITH(signals_do_not_disturb_requests),
		WITH(a_child_has_request_connections_of_its_own),
		WITH(threads_of_requests_do_not_meet),
		WITH(one_connection_is_enough),
		TWO(two_servers_at_once),
	};

	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
