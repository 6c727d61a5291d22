/* SPDX-License-Identifier: MIT */
/* board.c - lib/board against a real server: publishing and waiting */
#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/rendezvous/board.h"
#include "lib/base/clock.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/unit.h"

#define JOB "job"
#define KEY(word, name) "hb1/" JOB "/" word "/" name

static struct cache *cache;
static struct fake *fake;

/* What was logged, one line each. */
static char logged[65536];
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static void log_write(void *data, int level, const char *text)
{
	size_t used;

	(void)data;
	(void)level;
	pthread_mutex_lock(&log_lock);
	used = strlen(logged);
	snprintf(logged + used, sizeof(logged) - used, "%s\n", text);
	pthread_mutex_unlock(&log_lock);
}

static const struct beest_log log_to = { .level = BEEST_LOG_INFO, .write = log_write };

static int times_logged(const char *text)
{
	const char *at = logged;
	int times = 0;

	pthread_mutex_lock(&log_lock);
	while ((at = strstr(at, text)) != NULL) {
		times++;
		at++;
	}
	pthread_mutex_unlock(&log_lock);
	return times;
}

static struct beest_board *board_with(const struct beest_hostport *server, int rank,
				      int64_t timeout, int64_t ttl)
{
	const struct beest_board_config config = {
		.servers = server, .server_count = 1, .job = JOB, .rank = rank, .size = 4,
		.timeout = timeout, .ttl = ttl, .log = &log_to,
	};
	struct beest_board *board = NULL;

	assert_int_equal(beest_board_open(&board, &config), 0);
	return board;
}

static struct beest_board *board_of(int rank, int64_t timeout)
{
	return board_with(cache_hostport(cache), rank, timeout, 600 * BEEST_SECOND);
}

static int setup(void **state)
{
	(void)state;
	cache = cache_start(NULL);
	logged[0] = '\0';
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cache_end(cache);
	cache = NULL;
	if (fake)
		fake_end(fake);
	fake = NULL;
	return 0;
}

static int publish(struct beest_board *board, const char *name, const char *text)
{
	return beest_board_publish(board, BEEST_KIND_QP, name, text, strlen(text));
}

static int push(struct beest_board *board, const char *name, const char *text)
{
	return beest_board_publish(board, BEEST_KIND_MESSAGE, name, text, strlen(text));
}

/* Waits for one record; its payload as text goes to @text. */
static int await_kind(struct beest_board *board, enum beest_record_kind kind,
		      const char *name, char text[64])
{
	struct beest_wish wish = { .kind = kind, .name = name };
	int ret = beest_board_wait(board, &wish, 1, NULL, NULL);

	text[0] = '\0';
	if (ret == 0)
		snprintf(text, 64, "%.*s", (int)wish.record.payload_size,
			 (const char *)wish.record.payload);
	beest_wishes_free(&wish, 1);
	return ret;
}

static int await(struct beest_board *board, const char *name, char text[64])
{
	return await_kind(board, BEEST_KIND_QP, name, text);
}

static void assert_comes(struct beest_board *board, const char *name, const char *expected)
{
	char text[64];

	assert_int_equal(await(board, name, text), 0);
	assert_string_equal(text, expected);
}

/* By a raw socket, behind everybody's back. */
static bool on_server(const char *key)
{
	char line[300], answer[8192];

	snprintf(line, sizeof(line), "get %s\r\n", key);
	return !strncmp(cache_talk(cache, line, answer, sizeof(answer)), "VALUE ", 6);
}

static void raw(const char *request)
{
	char answer[256];

	cache_talk(cache, request, answer, sizeof(answer));
}

/* ------------------------------------------------------- publish and wait --- */

static void a_record_reaches_another_board(void **state)
{
	struct beest_wish wish = { .kind = BEEST_KIND_QP, .name = "qp1" };
	struct beest_board *a = board_of(0, 5 * BEEST_SECOND);
	struct beest_board *b = board_of(1, 5 * BEEST_SECOND);
	char host[64];

	(void)state;
	assert_int_equal(publish(a, "qp1", "hello"), 0);
	assert_int_equal(beest_board_wait(b, &wish, 1, NULL, NULL), 0);
	assert_int_equal(wish.record.kind, BEEST_KIND_QP);
	assert_string_equal(wish.record.key, KEY("qp", "qp1"));
	assert_memory_equal(wish.record.payload, "hello", 5);
	assert_memory_equal(&wish.record.author.incarnation, beest_board_incarnation(a), 16);
	assert_int_equal(wish.record.author.rank, 0);
	assert_int_equal(wish.record.author.pid, getpid());
	gethostname(host, sizeof(host));
	assert_string_equal(wish.record.author.host, host);
	assert_true(wish.record.author.time > 1600000000);
	beest_wishes_free(&wish, 1);
	assert_null(wish.bytes);
	assert_memory_not_equal(beest_board_incarnation(a), beest_board_incarnation(b), 16);
	beest_board_close(a);
	beest_board_close(b);
}

static void the_first_call_shows_the_rank(void **state)
{
	struct beest_board *a = board_of(3, BEEST_SECOND);
	struct beest_board *nameless = board_of(-1, 0);
	struct beest_rank_payload rank;
	struct beest_wish wish = { .kind = BEEST_KIND_RANK, .name = "3" };
	char text[64];

	(void)state;
	assert_false(on_server(KEY("rank", "3")));
	assert_int_equal(publish(a, "x", ""), 0);
	assert_true(on_server(KEY("rank", "3")));
	assert_int_equal(await(nameless, "x", text), 0);
	assert_int_equal(cache_stat(cache, "curr_items"), 4);	/* with rank/servers */

	assert_int_equal(beest_board_wait(a, &wish, 1, NULL, NULL), 0);
	assert_int_equal(beest_codec_decode(&beest_rank_layout, wish.record.payload,
					    wish.record.payload_size, &rank), 0);
	assert_int_equal(rank.size, 4);
	assert_true(rank.servers != 0);
	beest_wishes_free(&wish, 1);
	beest_board_close(a);
	beest_board_close(nameless);
	assert_int_equal(cache_stat(cache, "curr_items"), 0);
}

static void names_are_checked(void **state)
{
	static const struct {
		const char *name, *sentence;
	} rows[] = {
		{ "", "the name is empty" },
		{ "a b", "the name 'a b' cannot be part of a key: byte 2 is 0x20" },
		{ "a\r\nset x 0 0 1", "byte 2 is 0x0d" },
		{ "gr\xc3\xbc\xc3\x9f" "e", "byte 3 is 0xc3" },
	};
	struct beest_board *board = board_of(0, BEEST_SECOND);
	char key[BEEST_KEY_MAX + 1], name[300], text[64];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		assert_int_equal(publish(board, rows[i].name, ""), -EINVAL);
		assert_error_has(rows[i].sentence);
		assert_int_equal(await(board, rows[i].name, text), -EINVAL);
		assert_int_equal(beest_board_remove(board, BEEST_KIND_QP, rows[i].name), -EINVAL);
	}
	assert_int_equal(beest_board_key(board, BEEST_KIND_CONFIRM, "x/y", key), 0);
	assert_string_equal(key, KEY("confirm", "x/y"));
	unit_repeat(name, 'n', BEEST_KEY_MAX - strlen(KEY("qp", "")));
	assert_int_equal(publish(board, name, ""), 0);
	strcat(name, "n");
	assert_int_equal(publish(board, name, ""), -ENAMETOOLONG);
	assert_error_has("251 bytes");
	beest_board_close(board);
}

static void a_bad_job_is_refused(void **state)
{
	const struct beest_board_config config = {
		.servers = cache_hostport(cache), .server_count = 1, .job = "a job", .rank = 0,
		.log = &log_to,
	};
	struct beest_board *board = NULL;

	(void)state;
	assert_int_equal(beest_board_open(&board, &config), -EINVAL);
	assert_error_has("job id");
	assert_null(board);
	beest_board_close(NULL);
}

static void a_large_payload_is_refused(void **state)
{
	static uint8_t payload[BEEST_VALUE_MAX];
	struct beest_board *board = board_of(0, BEEST_SECOND);
	char text[64];

	(void)state;
	assert_int_equal(publish(board, "big", "old"), 0);
	assert_int_equal(beest_board_publish(board, BEEST_KIND_QP, "big", payload,
					     sizeof(payload)), -EMSGSIZE);
	assert_error_has("at most");
	assert_int_equal(await(board, "big", text), 0);
	assert_string_equal(text, "old");
	assert_int_equal(beest_board_publish(board, BEEST_KIND_QP, "big", payload,
					     BEEST_VALUE_MAX - BEEST_RECORD_OVERHEAD), 0);
	beest_board_close(board);
}

static void remove_tells_whether_it_was_there(void **state)
{
	struct beest_board *board = board_of(0, 100 * BEEST_MS);
	char text[64];

	(void)state;
	assert_int_equal(publish(board, "x", "1"), 0);
	assert_int_equal(beest_board_remove(board, BEEST_KIND_QP, "x"), 0);
	assert_int_equal(await(board, "x", text), -ETIMEDOUT);
	assert_int_equal(beest_board_remove(board, BEEST_KIND_QP, "x"), -ENOENT);
	assert_error_has(KEY("qp", "x"));
	assert_int_equal(times_logged("lost"), 0);
	beest_board_close(board);
}

/* ------------------------------------------------------------- deadlines --- */

static void the_deadline_names_what_is_missing(void **state)
{
	struct beest_board *board = board_of(0, 300 * BEEST_MS);
	char text[64], expected[512];
	int64_t begin = beest_clock_now();

	(void)state;
	assert_int_equal(await(board, "qp1", text), -ETIMEDOUT);
	assert_in_range(beest_clock_now() - begin, 300 * BEEST_MS, 5 * BEEST_SECOND);
	snprintf(expected, sizeof(expected), "after 300 ms: no qp 'qp1' (key %s) was published; "
		 "server %s answers", KEY("qp", "qp1"), cache_hostport(cache)->text);
	assert_error_is(expected);
	beest_board_close(board);
}

static void several_missing_are_counted(void **state)
{
	struct beest_wish wishes[6] = {
		{ .kind = BEEST_KIND_QP, .name = "here" },
		{ .kind = BEEST_KIND_QP, .name = "a" },
		{ .kind = BEEST_KIND_MR, .name = "b" },
		{ .kind = BEEST_KIND_QP, .name = "c" },
		{ .kind = BEEST_KIND_QP, .name = "d" },
		{ .kind = BEEST_KIND_QP, .name = "e" },
	};
	struct beest_board *board = board_of(0, 50 * BEEST_MS);
	size_t i;

	(void)state;
	assert_int_equal(publish(board, "here", "1"), 0);
	assert_int_equal(beest_board_wait(board, wishes, 6, NULL, NULL), -ETIMEDOUT);
	assert_error_has("no qp 'a' (key " KEY("qp", "a") ") was published, "
			 "no mr 'b' (key " KEY("mr", "b") ") was published, "
			 "no qp 'c' (key " KEY("qp", "c") ") was published and 2 more; server ");
	for (i = 0; i < 6; i++)
		assert_null(wishes[i].bytes);
	beest_board_close(board);
}

static int count_call(void *data)
{
	++*(int *)data;
	return 0;
}

static void no_time_is_one_look(void **state)
{
	struct beest_wish wish = { .kind = BEEST_KIND_QP, .name = "x" };
	struct beest_board *board = board_of(0, 0);
	int looks = 0;

	(void)state;
	assert_int_equal(beest_board_wait(board, &wish, 1, count_call, &looks), -ETIMEDOUT);
	assert_int_equal(looks, 1);
	assert_int_equal(publish(board, "x", ""), 0);
	assert_int_equal(beest_board_wait(board, &wish, 1, count_call, &looks), 0);
	assert_int_equal(looks, 2);
	beest_wishes_free(&wish, 1);
	assert_int_equal(beest_board_wait(board, NULL, 0, count_call, &looks), 0);
	assert_int_equal(looks, 3);
	beest_board_close(board);
}

static void a_dead_server_is_tried_until_the_deadline(void **state)
{
	struct beest_board *board = board_of(0, 300 * BEEST_MS);
	int64_t begin;
	char text[64];
	int round;

	(void)state;
	cache_kill(cache);
	for (round = 0; round < 3; round++) {
		begin = beest_clock_now();
		assert_int_equal(round == 0 ? await(board, "x", text) :
				 round == 1 ? publish(board, "x", "") :
				 beest_board_remove(board, BEEST_KIND_QP, "x"), -ECONNREFUSED);
		assert_in_range(beest_clock_now() - begin, 250 * BEEST_MS, 5 * BEEST_SECOND);
		assert_error_has("tried for 300 ms: server ");
		assert_error_has(cache_hostport(cache)->text);
		assert_error_has("connection refused");
	}
	assert_int_equal(times_logged("trying again for up to 300 ms"), 3);
	beest_board_close(board);
}

static void a_silent_server_is_tried_until_the_deadline(void **state)
{
	struct beest_board *board = board_of(0, 300 * BEEST_MS);
	int64_t begin = beest_clock_now();
	char text[64];

	(void)state;
	cache_stop(cache);
	assert_int_equal(await(board, "x", text), -EHOSTDOWN);
	assert_in_range(beest_clock_now() - begin, 250 * BEEST_MS, 5 * BEEST_SECOND);
	assert_error_has("tried for 300 ms: server ");
	beest_board_close(board);
}

/* What will not pass is told at once. */
static void no_memcached_is_told_at_once(void **state)
{
	struct beest_board *board;
	int64_t begin = beest_clock_now();
	char text[64];

	(void)state;
	fake = fake_start("SSH-2.0-OpenSSH_9.2\r\n", 0);
	board = board_with(fake_hostport(fake), 0, 20 * BEEST_SECOND, 0);
	assert_int_equal(await(board, "x", text), -EPROTO);
	assert_int_equal(publish(board, "x", ""), -EPROTO);
	assert_in_range(beest_clock_now() - begin, 0, 10 * BEEST_SECOND);
	beest_board_close(board);
}

static void a_full_server_is_told(void **state)
{
	static const char *const arguments[] = { "-M", "-m", "3", NULL };
	static uint8_t payload[200 * 1024];
	struct beest_board *board;
	char name[16];
	int i, ret = 0;

	(void)state;
	cache = cache_start(arguments);
	board = board_of(0, 100 * BEEST_MS);
	for (i = 0; i < 100 && ret == 0; i++) {
		snprintf(name, sizeof(name), "%d", i);
		ret = beest_board_publish(board, BEEST_KIND_MR, name, payload, sizeof(payload));
	}
	assert_int_equal(ret, -ENOBUFS);
	assert_error_has("tried for 100 ms");
	assert_error_has("out of memory");
	beest_board_close(board);
}

/* ---------------------------------------------------------- what is accepted --- */

struct choice {
	struct beest_incarnation wanted;
	int calls;
};

static int accept_wanted(void *data, const struct beest_record *record)
{
	struct choice *choice = data;

	choice->calls++;
	return !memcmp(&record->author.incarnation, &choice->wanted, sizeof(choice->wanted));
}

struct later {
	struct beest_board *board;
	const char *name, *text;
	int ms;
	int ret;
};

static void *publish_later(void *data)
{
	struct later *later = data;

	pause_ms(later->ms);
	later->ret = publish(later->board, later->name, later->text);
	return NULL;
}

/* A leftover of a former run stands there until the live peer comes. */
static void the_live_record_replaces_the_stale_one(void **state)
{
	struct beest_board *former = board_of(1, BEEST_SECOND);
	struct beest_board *live = board_of(1, BEEST_SECOND);
	struct beest_board *board = board_of(0, 5 * BEEST_SECOND);
	struct choice choice = { .calls = 0 };
	struct beest_wish wish = { .kind = BEEST_KIND_QP, .name = "x", .accept = accept_wanted,
				   .data = &choice };
	struct later later = { live, "x", "live", 100, -1 };
	pthread_t thread;

	(void)state;
	assert_int_equal(publish(former, "x", "stale"), 0);
	choice.wanted = *beest_board_incarnation(live);
	assert_int_equal(pthread_create(&thread, NULL, publish_later, &later), 0);
	assert_int_equal(beest_board_wait(board, &wish, 1, NULL, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(later.ret, 0);
	assert_memory_equal(wish.record.payload, "live", 4);
	assert_true(choice.calls > 1);
	beest_wishes_free(&wish, 1);
	beest_board_close(former);
	assert_true(on_server(KEY("qp", "x")));		/* it is the other's now */
	beest_board_close(live);
	assert_false(on_server(KEY("qp", "x")));
	beest_board_close(board);
}

static void what_is_not_accepted_is_described(void **state)
{
	struct beest_board *peer = board_of(7, BEEST_SECOND);
	struct beest_board *board = board_of(0, 50 * BEEST_MS);
	struct choice choice = { .calls = 0 };
	struct beest_wish wishes[] = {
		{ .kind = BEEST_KIND_QP, .name = "x", .accept = accept_wanted, .data = &choice },
		{ .kind = BEEST_KIND_QP, .name = "absent" },
	};
	char host[64], expected[256];

	(void)state;
	gethostname(host, sizeof(host));
	assert_int_equal(publish(peer, "x", "stale"), 0);
	assert_int_equal(beest_board_wait(board, wishes, 2, NULL, NULL), -ETIMEDOUT);
	snprintf(expected, sizeof(expected), "(key " KEY("qp", "absent") ") was published, "
		 "qp 'x' (key " KEY("qp", "x") ") was published by host %s, pid %d, rank 7, "
		 "but is not accepted; server", host, getpid());
	assert_error_has(expected);
	beest_board_close(peer);
	beest_board_close(board);
}

static int accept_never(void *data, const struct beest_record *record)
{
	(void)data;
	return beest_fail(EPROTOTYPE, "%s is of another type", record->key);
}

static void a_refusal_ends_the_wait_at_once(void **state)
{
	struct beest_board *board = board_of(0, 20 * BEEST_SECOND);
	struct beest_wish wishes[] = {
		{ .kind = BEEST_KIND_QP, .name = "good" },
		{ .kind = BEEST_KIND_QP, .name = "x", .accept = accept_never },
	};
	int64_t begin = beest_clock_now();

	(void)state;
	assert_int_equal(publish(board, "good", ""), 0);
	assert_int_equal(publish(board, "x", ""), 0);
	assert_int_equal(beest_board_wait(board, wishes, 2, NULL, NULL), -EPROTOTYPE);
	assert_in_range(beest_clock_now() - begin, 0, 10 * BEEST_SECOND);
	assert_error_has("qp 'x' (key ");
	assert_error_has("is of another type");
	assert_null(wishes[0].bytes);
	beest_board_close(board);
}

/* Accepts when `each` has been called three times: own state decides too. */
static int accept_third(void *data, const struct beest_record *record)
{
	(void)record;
	return *(int *)data >= 3;
}

static void accept_is_asked_at_every_look(void **state)
{
	struct beest_board *board = board_of(0, 5 * BEEST_SECOND);
	int looks = 0;
	struct beest_wish wish = { .kind = BEEST_KIND_QP, .name = "x", .accept = accept_third,
				   .data = &looks };

	(void)state;
	assert_int_equal(publish(board, "x", ""), 0);
	assert_int_equal(beest_board_wait(board, &wish, 1, count_call, &looks), 0);
	assert_int_equal(looks, 4);
	beest_wishes_free(&wish, 1);
	beest_board_close(board);
}

static int publish_wished(void *data)
{
	return publish(data, "x", "by each");
}

static int end_wait(void *data)
{
	return *(int *)data;
}

static void each_may_publish_and_end_the_wait(void **state)
{
	struct beest_board *board = board_of(0, 5 * BEEST_SECOND);
	struct beest_wish wish = { .kind = BEEST_KIND_QP, .name = "x" };
	int end = -ECANCELED;

	(void)state;
	assert_int_equal(beest_board_wait(board, &wish, 1, end_wait, &end), -ECANCELED);
	end = 1;
	assert_int_equal(beest_board_wait(board, &wish, 1, end_wait, &end), 0);
	assert_null(wish.bytes);
	assert_int_equal(beest_board_wait(board, &wish, 1, publish_wished, board), 0);
	assert_memory_equal(wish.record.payload, "by each", 7);
	beest_wishes_free(&wish, 1);
	beest_board_close(board);
}

static void a_malformed_record_is_passed_over(void **state)
{
	struct beest_board *peer = board_of(1, BEEST_SECOND);
	struct beest_board *board = board_of(0, 300 * BEEST_MS);
	struct later later = { peer, "x", "good", 50, -1 };
	pthread_t thread;
	char text[64];

	(void)state;
	raw("set " KEY("qp", "x") " 0 0 7\r\ngarbage\r\n");
	assert_int_equal(await(board, "x", text), -EBADMSG);
	assert_error_has("after 300 ms: qp 'x' (key " KEY("qp", "x") "): ");
	assert_error_has("too few for a record");
	assert_int_equal(times_logged("is passed over"), 1);

	assert_int_equal(pthread_create(&thread, NULL, publish_later, &later), 0);
	assert_int_equal(await(board, "x", text), 0);
	pthread_join(thread, NULL);
	assert_string_equal(text, "good");

	raw("set " KEY("qp", "y") " 0 0 60\r\nHBR\x09"
	    "12345678901234567890123456789012345678901234567890123456\r\n");
	assert_int_equal(await(board, "y", text), -EPROTONOSUPPORT);
	assert_error_has("version 9");
	beest_board_close(peer);
	beest_board_close(board);
}

static void hundreds_of_wishes(void **state)
{
	enum { MANY = 300 };
	static char names[MANY][16];
	static struct beest_wish wishes[MANY];
	struct beest_board *a = board_of(0, 10 * BEEST_SECOND);
	struct beest_board *b = board_of(1, 10 * BEEST_SECOND);
	int i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof(names[i]), "n%d", i);
		wishes[i].kind = BEEST_KIND_QP;
		wishes[i].name = names[i];
		assert_int_equal(publish(i % 2 ? a : b, names[i], names[i]), 0);
	}
	assert_int_equal(beest_board_wait(a, wishes, MANY, NULL, NULL), 0);
	for (i = 0; i < MANY; i++)
		assert_memory_equal(wishes[i].record.payload, names[i], strlen(names[i]));
	beest_wishes_free(wishes, MANY);
	beest_board_close(a);
	beest_board_close(b);
	assert_int_equal(cache_stat(cache, "curr_items"), 0);
}

/* --------------------------------------------------------- loss and repair --- */

struct waiter {
	struct beest_board *board;
	const char *name;
	int ret;
	char text[64];
};

static void *wait_in_thread(void *data)
{
	struct waiter *waiter = data;

	waiter->ret = await(waiter->board, waiter->name, waiter->text);
	return NULL;
}

/* Two ranks wait for each other's second record while the server loses the first ones. */
static void records_survive_a_restart(void **state)
{
	enum { MANY = 20 };
	struct beest_board *a = board_of(0, 10 * BEEST_SECOND);
	struct beest_board *b = board_of(1, 10 * BEEST_SECOND);
	struct waiter waiter = { .board = a, .name = "b", .ret = -1 };
	char name[64];
	pthread_t thread;
	int i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "a%d", i);
		assert_int_equal(publish(a, name, name), 0);
	}
	assert_int_equal(push(a, "letter", "dear b"), 0);
	assert_int_equal(pthread_create(&thread, NULL, wait_in_thread, &waiter), 0);
	pause_ms(50);
	cache_restart(cache);

	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "a%d", i);
		assert_comes(b, name, name);
	}
	assert_int_equal(await_kind(b, BEEST_KIND_MESSAGE, "letter", name), 0);
	assert_string_equal(name, "dear b");
	assert_int_equal(publish(b, "b", "from b"), 0);
	pthread_join(thread, NULL);
	assert_int_equal(waiter.ret, 0);
	assert_string_equal(waiter.text, "from b");
	assert_int_equal(times_logged("putting all records back"), 1);
	beest_board_close(a);
	beest_board_close(b);
}

/* Which record is missing is found by turns, eight a look. */
static void an_evicted_record_comes_back(void **state)
{
	enum { MANY = 40 };
	struct beest_board *board = board_of(0, 400 * BEEST_MS);
	char name[16], text[64];
	int i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		assert_int_equal(publish(board, name, name), 0);
	}
	raw("delete " KEY("qp", "r33") "\r\n");
	raw("delete " KEY("rank", "0") "\r\n");
	assert_int_equal(await(board, "nobody", text), -ETIMEDOUT);
	assert_true(on_server(KEY("qp", "r33")));
	assert_true(on_server(KEY("rank", "0")));
	assert_int_equal(times_logged("putting all records back"), 1);

	raw("delete " KEY("qp", "r25") "\r\n");
	assert_int_equal(await(board, "nobody", text), -ETIMEDOUT);
	assert_true(on_server(KEY("qp", "r25")));
	assert_int_equal(times_logged("putting all records back"), 2);
	beest_board_close(board);
}

/* A server too full to take it back is told of once, not at every look. */
static void a_loss_is_told_once(void **state)
{
	static const char *const arguments[] = { "-M", "-m", "3", NULL };
	static uint8_t payload[200 * 1024];
	struct beest_board *board, *other;
	char name[16], text[64];
	int i, ret = 0;

	(void)state;
	cache = cache_start(arguments);
	board = board_of(0, 300 * BEEST_MS);
	other = board_of(1, 0);
	assert_int_equal(beest_board_publish(board, BEEST_KIND_MR, "big", payload,
					     sizeof(payload)), 0);
	raw("delete " KEY("mr", "big") "\r\n");
	for (i = 0; i < 100 && ret == 0; i++) {
		snprintf(name, sizeof(name), "%d", i);
		ret = beest_board_publish(other, BEEST_KIND_MR, name, payload, sizeof(payload));
	}
	assert_int_equal(await(board, "nobody", text), -ENOBUFS);
	assert_error_has("tried for 300 ms");
	assert_int_equal(times_logged("lost key '" KEY("mr", "big") "'"), 1);
	beest_board_close(other);
	assert_int_equal(await(board, "nobody", text), -ETIMEDOUT);
	assert_int_equal(cache_stat(cache, "curr_items"), 3);
	beest_board_close(board);
}

/* Putting back must not overwrite what another has put there meanwhile. */
static void another_s_record_is_not_overwritten(void **state)
{
	struct beest_board *a = board_of(0, 200 * BEEST_MS);
	struct beest_board *b = board_of(1, 200 * BEEST_MS);
	char text[64];

	(void)state;
	assert_int_equal(publish(a, "x", "of a"), 0);
	assert_int_equal(publish(b, "x", "of b"), 0);
	raw("delete " KEY("rank", "0") "\r\n");
	assert_int_equal(await(a, "nobody", text), -ETIMEDOUT);
	assert_true(on_server(KEY("rank", "0")));
	assert_comes(a, "x", "of b");
	beest_board_close(a);
	beest_board_close(b);
}

static void a_letter_taken_away_stays_away(void **state)
{
	struct beest_board *a = board_of(0, 200 * BEEST_MS);
	struct beest_board *b = board_of(1, 200 * BEEST_MS);
	char text[64];

	(void)state;
	assert_int_equal(push(a, "m", "text"), 0);
	assert_int_equal(await_kind(b, BEEST_KIND_MESSAGE, "m", text), 0);
	assert_int_equal(beest_board_remove(b, BEEST_KIND_MESSAGE, "m"), 0);
	assert_int_equal(await(a, "nobody", text), -ETIMEDOUT);
	assert_false(on_server(KEY("msg", "m")));
	assert_int_equal(times_logged("lost"), 0);
	beest_board_close(a);
	beest_board_close(b);
}

/* The rank's record is of both contexts, so its end says nothing about letters. */
static void a_letter_stays_away_when_another_context_closes(void **state)
{
	struct beest_board *a = board_of(0, 200 * BEEST_MS);
	struct beest_board *beside = board_of(0, 200 * BEEST_MS);
	struct beest_board *reader = board_of(1, 200 * BEEST_MS);
	char text[64];

	(void)state;
	assert_int_equal(push(a, "m", "text"), 0);
	assert_int_equal(beest_board_remove(reader, BEEST_KIND_MESSAGE, "m"), 0);
	assert_int_equal(push(beside, "other", "text"), 0);
	beest_board_close(beside);
	assert_false(on_server(KEY("rank", "0")));
	assert_int_equal(await(a, "nobody", text), -ETIMEDOUT);
	assert_true(on_server(KEY("rank", "0")));
	assert_false(on_server(KEY("msg", "m")));
	beest_board_close(a);
	beest_board_close(reader);
}

/* The server's record of its loss is not hidden by putting that anew in time. */
static void a_letter_survives_a_restart_before_a_renewal(void **state)
{
	struct beest_board *board = board_with(cache_hostport(cache), 0, 200 * BEEST_MS,
					       6 * BEEST_SECOND);
	char text[64];

	(void)state;
	assert_int_equal(push(board, "m", "text"), 0);
	pause_ms(2100);				/* over a third of the time */
	cache_restart(cache);
	assert_int_equal(publish(board, "x", ""), 0);
	assert_int_equal(publish(board, "y", ""), 0);
	assert_int_equal(await(board, "nobody", text), -ETIMEDOUT);
	assert_true(on_server(KEY("msg", "m")));
	beest_board_close(board);
}

/* A long time without a call: what is past its time is put anew, and not called lost. */
static void what_outlived_its_time_is_not_lost(void **state)
{
	struct beest_board *a = board_with(cache_hostport(cache), 0, 200 * BEEST_MS,
					   2 * BEEST_SECOND);
	struct beest_board *reader = board_of(1, 200 * BEEST_MS);
	char text[64];

	(void)state;
	assert_int_equal(publish(a, "x", ""), 0);
	assert_int_equal(push(a, "m", "text"), 0);
	assert_int_equal(beest_board_remove(reader, BEEST_KIND_MESSAGE, "m"), 0);
	pause_ms(3200);
	assert_false(on_server(KEY("qp", "x")));
	assert_int_equal(await(a, "nobody", text), -ETIMEDOUT);
	assert_true(on_server(KEY("qp", "x")));
	assert_true(on_server(KEY("rank", "0")));
	assert_false(on_server(KEY("msg", "m")));
	assert_int_equal(times_logged("lost"), 0);
	beest_board_close(a);
	beest_board_close(reader);
}

/* Whose home is @server, of those in @exchange: "0", "1", ... */
static void name_at(struct beest_kv *exchange, const char *server, int *number,
		    char name[16])
{
	char key[200];

	do {
		snprintf(name, 16, "%d", (*number)++);
		snprintf(key, sizeof(key), KEY("qp", "%s"), name);
	} while (strcmp(beest_kv_server(exchange, key), server) != 0);
}

/* The rank's own record has its home on a server that is away from the start. */
static void notes_go_to_the_servers_that_are_there(void **state)
{
	struct cache *away = cache_start(NULL);
	struct beest_hostport servers[] = { *cache_hostport(cache), *cache_hostport(away) };
	struct beest_board_config config = {
		.servers = servers, .server_count = 2, .job = JOB, .size = 1,
		.timeout = BEEST_SECOND, .ttl = 60 * BEEST_SECOND, .log = &log_to,
	};
	struct beest_board *board = NULL;
	struct beest_kv *exchange;
	char name[16], key[200], text[64];
	int number = 0;
	uint64_t note;

	(void)state;
	assert_int_equal(beest_kv_open(&exchange, servers, 2), 0);
	do
		snprintf(key, sizeof(key), KEY("rank", "%d"), config.rank++);
	while (strcmp(beest_kv_server(exchange, key), servers[1].text) != 0);
	config.rank--;
	do {
		snprintf(name, sizeof(name), "%d", number++);
		snprintf(key, sizeof(key), KEY("confirm", "%s"), name);
	} while (strcmp(beest_kv_server(exchange, key), servers[0].text) != 0);
	cache_kill(away);
	assert_int_equal(beest_board_open(&board, &config), 0);
	assert_int_equal(beest_board_note(board, BEEST_KIND_CONFIRM, name, "", 0, &note), 0);
	assert_false(on_server(key));
	assert_true(await(board, "nobody", text) < 0);
	assert_true(on_server(key));
	beest_board_close(board);
	beest_kv_close(exchange);
	cache_end(away);
}

/* One of two servers is away: records on the other are renewed all the same. */
static void a_healthy_server_keeps_its_records(void **state)
{
	struct cache *away = cache_start(NULL);
	struct beest_hostport servers[] = { *cache_hostport(cache), *cache_hostport(away) };
	const struct beest_board_config config = {
		.servers = servers, .server_count = 2, .job = JOB, .size = 1,
		.timeout = BEEST_SECOND, .ttl = 4 * BEEST_SECOND, .log = &log_to,
	};
	struct beest_board *board = NULL;
	struct beest_kv *exchange;
	int64_t end = beest_clock_deadline(5 * BEEST_SECOND);
	char names[8][16], further[16], key[200];
	int i, number = 0;

	(void)state;
	assert_int_equal(beest_kv_open(&exchange, servers, 2), 0);
	assert_int_equal(beest_board_open(&board, &config), 0);
	for (i = 0; i < 8; i++) {
		name_at(exchange, servers[i % 2].text, &number, names[i]);
		assert_int_equal(publish(board, names[i], ""), 0);
	}
	name_at(exchange, servers[0].text, &number, further);
	cache_kill(away);
	while (beest_clock_left(end)) {
		assert_int_equal(publish(board, further, ""), 0);
		pause_ms(100);
	}
	for (i = 0; i < 8; i += 2) {
		snprintf(key, sizeof(key), KEY("qp", "%s"), names[i]);
		assert_true(on_server(key));
	}
	beest_board_close(board);
	beest_kv_close(exchange);
	cache_end(away);
}

static void a_removed_record_is_not_put_back(void **state)
{
	struct beest_board *board = board_of(0, 200 * BEEST_MS);
	char text[64];

	(void)state;
	assert_int_equal(publish(board, "x", ""), 0);
	assert_int_equal(beest_board_remove(board, BEEST_KIND_QP, "x"), 0);
	cache_restart(cache);
	assert_int_equal(await(board, "nobody", text), -ETIMEDOUT);
	assert_true(on_server(KEY("rank", "0")));
	assert_false(on_server(KEY("qp", "x")));
	beest_board_close(board);
}

static void records_outlive_their_time(void **state)
{
	struct beest_board *board = board_with(cache_hostport(cache), 0, 5200 * BEEST_MS,
					       4 * BEEST_SECOND);
	char text[64];

	(void)state;
	assert_int_equal(publish(board, "x", ""), 0);
	assert_int_equal(await(board, "nobody", text), -ETIMEDOUT);
	assert_true(on_server(KEY("qp", "x")));
	assert_true(on_server(KEY("rank", "0")));
	assert_int_equal(times_logged("lost"), 0);
	beest_board_close(board);
}

/* A server that is away for a while costs time, nothing else. */
static void an_outage_is_survived(void **state)
{
	struct beest_board *a = board_of(0, 10 * BEEST_SECOND);
	struct beest_board *b = board_of(1, 10 * BEEST_SECOND);
	struct waiter waiter = { .board = b, .name = "x", .ret = -1 };
	pthread_t thread;

	(void)state;
	assert_int_equal(publish(a, "y", ""), 0);
	cache_kill(cache);
	assert_int_equal(pthread_create(&thread, NULL, wait_in_thread, &waiter), 0);
	pause_ms(200);
	cache_restart(cache);
	assert_int_equal(publish(a, "x", "at last"), 0);
	pthread_join(thread, NULL);
	assert_int_equal(waiter.ret, 0);
	assert_string_equal(waiter.text, "at last");
	assert_int_equal(times_logged("trying again"), 2);	/* one each */
	assert_int_equal(times_logged("works again"), 1);
	beest_board_close(a);
	beest_board_close(b);
}

/* --------------------------------------------------------------- ownership --- */

static void close_takes_back_what_is_ours(void **state)
{
	struct beest_board *a = board_of(0, BEEST_SECOND);
	struct beest_board *b = board_of(1, BEEST_SECOND);

	(void)state;
	assert_int_equal(publish(a, "mine", ""), 0);
	assert_int_equal(publish(a, "taken", ""), 0);
	assert_int_equal(publish(b, "taken", ""), 0);
	assert_int_equal(push(a, "letter", ""), 0);
	assert_int_equal(beest_board_publish(a, BEEST_KIND_CONFIRM, "c", "", 0), 0);
	assert_int_equal(beest_board_publish(a, BEEST_KIND_BARRIER, "b", "", 0), 0);
	beest_board_close(a);
	assert_false(on_server(KEY("qp", "mine")));
	assert_false(on_server(KEY("rank", "0")));
	assert_true(on_server(KEY("qp", "taken")));
	assert_true(on_server(KEY("msg", "letter")));
	assert_true(on_server(KEY("confirm", "c")));	/* a peer may be about to read them */
	assert_true(on_server(KEY("barrier", "b")));
	beest_board_close(b);
	assert_int_equal(cache_stat(cache, "curr_items"), 3);
}

/* However many: not as many as fit into a second. */
static void close_takes_back_all(void **state)
{
	enum { MANY = 3000 };
	struct beest_board *board = board_of(0, 20 * BEEST_SECOND);
	char name[16];
	int i;

	(void)state;
	for (i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		assert_int_equal(publish(board, name, ""), 0);
	}
	assert_int_equal(cache_stat(cache, "curr_items"), MANY + 2);	/* rank, guest book */
	beest_board_close(board);
	assert_int_equal(cache_stat(cache, "curr_items"), 0);
	assert_int_equal(times_logged("stay behind"), 0);
}

static void close_does_not_hang(void **state)
{
	struct beest_board *board = board_of(0, BEEST_SECOND);
	char name[16];
	int64_t begin;
	int i;

	(void)state;
	for (i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		assert_int_equal(publish(board, name, ""), 0);
	}
	cache_stop(cache);
	begin = beest_clock_now();
	beest_board_close(board);
	assert_in_range(beest_clock_now() - begin, 0, 10 * BEEST_SECOND);
	assert_int_equal(times_logged("21 records stay behind on the servers"), 1);
}

/* Another process as rank 0; it lives until its standard pipe @go is closed. */
static pid_t other_rank_0(int ready[2], int go[2])
{
	struct beest_board *board;
	pid_t pid = fork();
	char byte = 0;

	if (pid)
		return pid;

	close(go[1]);
	board = board_of(0, 2 * BEEST_SECOND);
	if (publish(board, "other", "") < 0 || write(ready[1], &byte, 1) != 1)
		_exit(1);
	if (TEMP_FAILURE_RETRY(read(go[0], &byte, 1)) < 0)
		_exit(2);
	kill(getpid(), SIGKILL);		/* takes nothing back */
	_exit(3);
}

static void a_rank_that_runs_twice_is_told(void **state)
{
	struct beest_board *board = board_of(0, 2 * BEEST_SECOND);
	int ready[2], go[2], status;
	char byte, text[64], who[64];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ready) | pipe(go), 0);
	assert_int_equal(publish(board, "mine", ""), 0);
	pid = other_rank_0(ready, go);
	assert_int_equal(TEMP_FAILURE_RETRY(read(ready[0], &byte, 1)), 1);
	assert_int_equal(await(board, "nobody", text), -EADDRINUSE);
	assert_error_has("rank 0 runs twice");
	snprintf(who, sizeof(who), "as pid %d on host ", getpid());
	assert_error_has(who);
	snprintf(who, sizeof(who), "pid %d on host ", pid);
	assert_error_has(who);
	beest_board_close(board);
	assert_true(on_server(KEY("rank", "0")));	/* the other's */

	close(go[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	board = board_of(0, 100 * BEEST_MS);		/* its leftover is no duplicate */
	assert_int_equal(await(board, "nobody", text), -ETIMEDOUT);
	assert_int_equal(await(board, "nobody", text), -ETIMEDOUT);
	beest_board_close(board);
	close(ready[0]);
	close(ready[1]);
	close(go[0]);
}

/* What a killed process had sent may reach the server after its successor's record. */
static void a_predecessor_s_late_record_is_no_duplicate(void **state)
{
	struct beest_board *board = board_of(0, 200 * BEEST_MS), *other;
	char text[64], answer[1024];
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(publish(board, "mine", ""), 0);
	pid = fork();
	if (pid == 0) {
		other = board_of(0, 2 * BEEST_SECOND);
		if (publish(other, "other", "") == 0)
			kill(getpid(), SIGKILL);	/* takes nothing back */
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(await(board, "nobody", text), -ETIMEDOUT);
	cache_talk(cache, "get " KEY("rank", "0") "\r\n", answer, sizeof(answer));
	assert_non_null(memmem(answer, sizeof(answer), beest_board_incarnation(board), 16));
	beest_board_close(board);
}

static void two_contexts_of_a_process_are_no_duplicate(void **state)
{
	struct beest_board *a = board_of(0, 100 * BEEST_MS);
	struct beest_board *b = board_of(0, 100 * BEEST_MS);
	char text[64];

	(void)state;
	assert_int_equal(publish(a, "x", ""), 0);
	assert_int_equal(publish(b, "y", ""), 0);
	assert_int_equal(await(a, "nobody", text), -ETIMEDOUT);
	assert_int_equal(await(b, "nobody", text), -ETIMEDOUT);
	beest_board_close(a);
	beest_board_close(b);
}

static void a_child_may_use_the_board_and_removes_nothing(void **state)
{
	struct beest_board *board = board_of(0, 2 * BEEST_SECOND);
	char text[64];
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(publish(board, "parent", "p"), 0);
	pid = fork();
	if (pid == 0) {
		status = publish(board, "child", "c") < 0 || await(board, "parent", text) < 0;
		beest_board_close(board);
		_exit(status);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_comes(board, "child", "c");
	assert_comes(board, "parent", "p");
	beest_board_close(board);
	assert_false(on_server(KEY("qp", "parent")));
}

/* ----------------------------------------------------------------- threads --- */

static void waiting_blocks_nobody(void **state)
{
	struct beest_board *board = board_of(0, 60 * BEEST_SECOND);
	struct waiter waiter = { .board = board, .name = "last", .ret = -1 };
	pthread_t thread;
	int64_t begin;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, wait_in_thread, &waiter), 0);
	pause_ms(50);
	begin = beest_clock_now();
	assert_int_equal(publish(board, "first", ""), 0);
	assert_in_range(beest_clock_now() - begin, 0, 10 * BEEST_SECOND);
	assert_int_equal(publish(board, "last", "done"), 0);
	pthread_join(thread, NULL);
	assert_int_equal(waiter.ret, 0);
	assert_string_equal(waiter.text, "done");
	beest_board_close(board);
}

struct worker {
	struct beest_board *board;
	int number;
	int failures;
};

/* Publishes, waits for the neighbour's, replaces, and removes every other one. */
static void *work(void *data)
{
	struct worker *worker = data;
	char name[32], other[32], text[64];
	int i;

	for (i = 0; i < 25; i++) {
		snprintf(name, sizeof(name), "%d/%d", worker->number, i);
		snprintf(other, sizeof(other), "%d/%d", (worker->number + 1) % 8, i);
		worker->failures += publish(worker->board, name, "draft") < 0;
		worker->failures += publish(worker->board, name, name) < 0;
		worker->failures += await(worker->board, other, text) < 0;
		worker->failures += publish(worker->board, "shared", name) < 0;
		snprintf(name, sizeof(name), "%d/tmp%d", worker->number, i);
		worker->failures += publish(worker->board, name, "") < 0;
		worker->failures += beest_board_remove(worker->board, BEEST_KIND_QP, name) < 0;
	}
	return NULL;
}

static void eight_threads_work_on_one_board(void **state)
{
	struct beest_board *board = board_of(0, 10 * BEEST_SECOND);
	struct worker workers[8];
	pthread_t threads[8];
	int i;

	(void)state;
	for (i = 0; i < 8; i++) {
		workers[i] = (struct worker){ board, i, 0 };
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	for (i = 0; i < 8; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(workers[i].failures, 0);
	}
	assert_int_equal(times_logged("lost"), 0);
	assert_int_equal(cache_stat(cache, "curr_items"), 8 * 25 + 3);
	assert_comes(board, "3/24", "3/24");
	beest_board_close(board);
	assert_int_equal(cache_stat(cache, "curr_items"), 0);
}

static void *publish_some(void *data)
{
	struct worker *worker = data;
	char text[32];
	int i;

	for (i = 0; i < 5; i++) {
		snprintf(text, sizeof(text), "%d/%d", worker->number, i);
		worker->failures += publish(worker->board, "shared", text) < 0;
	}
	return NULL;
}

/* Whoever comes last: the server has what the board would put back. */
static void racing_publishers_agree_in_the_end(void **state)
{
	struct beest_board *board = board_of(0, 5 * BEEST_SECOND);
	char last[64], restored[64];
	struct worker workers[4];
	pthread_t threads[4];
	int round, i;

	(void)state;
	for (round = 0; round < 100; round++) {
		for (i = 0; i < 4; i++) {
			workers[i] = (struct worker){ board, i, 0 };
			assert_int_equal(pthread_create(&threads[i], NULL, publish_some,
							&workers[i]), 0);
		}
		for (i = 0; i < 4; i++) {
			pthread_join(threads[i], NULL);
			assert_int_equal(workers[i].failures, 0);
		}
		assert_int_equal(await(board, "shared", last), 0);
		raw("delete " KEY("qp", "shared") "\r\n");
		assert_int_equal(await(board, "shared", restored), 0);
		assert_string_equal(last, restored);
	}
	beest_board_close(board);
}

static void *come_and_go(void *data)
{
	struct worker *worker = data;
	int i;

	for (i = 0; i < 500; i++) {
		worker->failures += publish(worker->board, "tmp", "") < 0;
		pause_us(100);
		worker->failures += beest_board_remove(worker->board, BEEST_KIND_QP, "tmp") < 0;
	}
	__atomic_store_n(&worker->number, 1, __ATOMIC_RELAXED);
	return NULL;
}

static int end_at_once(void *data)
{
	(void)data;
	return 1;
}

/* A record removed between the question and the answer was not lost. */
static void removal_is_no_loss(void **state)
{
	struct beest_board *board = board_of(0, 10 * BEEST_SECOND);
	struct worker worker = { board, 0, 0 };
	struct beest_wish wish = { .kind = BEEST_KIND_QP, .name = "nobody" };
	pthread_t thread;
	int ret = 0;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, come_and_go, &worker), 0);
	while (ret == 0 && !__atomic_load_n(&worker.number, __ATOMIC_RELAXED))
		ret = beest_board_wait(board, &wish, 1, end_at_once, NULL);
	pthread_join(thread, NULL);
	assert_int_equal(ret, 0);
	assert_int_equal(worker.failures, 0);
	assert_int_equal(times_logged("lost"), 0);
	beest_board_close(board);
}

#define WITH(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define ALONE(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH(a_record_reaches_another_board),
		WITH(the_first_call_shows_the_rank),
		WITH(names_are_checked),
		WITH(a_bad_job_is_refused),
		WITH(a_large_payload_is_refused),
		WITH(remove_tells_whether_it_was_there),
		WITH(the_deadline_names_what_is_missing),
		WITH(several_missing_are_counted),
		WITH(no_time_is_one_look),
		WITH(a_dead_server_is_tried_until_the_deadline),
		WITH(a_silent_server_is_tried_until_the_deadline),
		ALONE(no_memcached_is_told_at_once),
		ALONE(a_full_server_is_told),
		WITH(the_live_record_replaces_the_stale_one),
		WITH(what_is_not_accepted_is_described),
		WITH(a_refusal_ends_the_wait_at_once),
		WITH(accept_is_asked_at_every_look),
		WITH(each_may_publish_and_end_the_wait),
		WITH(a_malformed_record_is_passed_over),
		WITH(hundreds_of_wishes),
		WITH(records_survive_a_restart),
		WITH(an_evicted_record_comes_back),
		ALONE(a_loss_is_told_once),
		WITH(another_s_record_is_not_overwritten),
		WITH(a_letter_taken_away_stays_away),
		WITH(a_letter_stays_away_when_another_context_closes),
		WITH(a_letter_survives_a_restart_before_a_renewal),
		WITH(what_outlived_its_time_is_not_lost),
		WITH(notes_go_to_the_servers_that_are_there),
		WITH(a_healthy_server_keeps_its_records),
		WITH(a_removed_record_is_not_put_back),
		WITH(records_outlive_their_time),
		WITH(an_outage_is_survived),
		WITH(close_takes_back_what_is_ours),
		WITH(close_takes_back_all),
		WITH(close_does_not_hang),
		WITH(a_rank_that_runs_twice_is_told),
		WITH(a_predecessor_s_late_record_is_no_duplicate),
		WITH(two_contexts_of_a_process_are_no_duplicate),
		WITH(a_child_may_use_the_board_and_removes_nothing),
		WITH(waiting_blocks_nobody),
		WITH(eight_threads_work_on_one_board),
		WITH(racing_publishers_agree_in_the_end),
		WITH(removal_is_no_loss),
	};

	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
