/* SPDX-License-Identifier: MIT */
/*
 * lists.c - lists of one, two and three servers, and addresses of all kinds
 *
 * Through the public interface, without a device: messages and barriers show as well as
 * queue pairs which server is asked for what.
 *
 * promise: hartebeest_msg(3)
 */
#include "config.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "hartebeest.h"
#include "lib/base/clock.h"
#include "lib/kv/kv.h"
#include "tests/support/fake-clock.h"
#include "tests/support/memcached.h"
#include "tests/support/rank.h"
#include "tests/support/raw-kv.h"
#include "tests/support/unit.h"

#define SERVERS 3

static struct cache *caches[SERVERS];
static char job[32];
static char said[16384];

/* -------------------------------------------------------------- one rank --- */

struct rank {
	struct hartebeest_context *hb;
	int number, ret;
	pthread_t thread;
	char error[1024];
	int64_t patience;		/* of in_vain(); 0: the default limit */
};

static void note(void *data, int level, const char *text)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	size_t used;

	(void)data, (void)level;
	pthread_mutex_lock(&lock);
	used = strlen(said);
	snprintf(said + used, sizeof(said) - used, "%s\n", text);
	pthread_mutex_unlock(&lock);
}

/* @servers: "0", "012": which of the three, in this order. */
static const char *list_of(const char *servers)
{
	static char list[SERVERS * 300];

	for (list[0] = '\0'; *servers; servers++) {
		strcat(list, list[0] ? "," : "");
		strcat(list, cache_hostport(caches[*servers - '0'])->text);
	}
	return list;
}

static void join_at(struct rank *rank, int number, const char *list)
{
	const struct rank_settings settings = {
		.servers = list, .job = job, .rank = number, .size = 2,
	};

	memset(rank, 0, sizeof(*rank));
	rank->number = number;
	assert_int_equal(rank_open(&rank->hb, &settings), 0);
	hartebeest_log_set(rank->hb, HARTEBEEST_LOG_INFO, note, NULL);
}

static void join(struct rank *rank, int number, const char *servers)
{
	join_at(rank, number, list_of(servers));
}

static void leave(struct rank *rank)
{
	hartebeest_close(rank->hb);
	rank->hb = NULL;
}

static void *barrier(void *data)
{
	struct rank *rank = data;

	rank->ret = hartebeest_barrier(rank->hb, "go", 0);
	snprintf(rank->error, sizeof(rank->error), "%s", hartebeest_error());
	return NULL;
}

/* For what never comes, wherever it would; and then it leaves, as programs do. */
static void *in_vain(void *data)
{
	struct rank *rank = data;
	int64_t deadline = rank->patience ? hartebeest_clock() + rank->patience : 0;

	rank->ret = hartebeest_msg_wait(rank->hb, "never", NULL, 0, NULL, deadline);
	snprintf(rank->error, sizeof(rank->error), "%s", hartebeest_error());
	leave(rank);
	return NULL;
}

static void both(struct rank *a, struct rank *b, void *(*work)(void *data))
{
	pthread_create(&a->thread, NULL, work, a);
	pthread_create(&b->thread, NULL, work, b);
	pthread_join(a->thread, NULL);
	pthread_join(b->thread, NULL);
}

static void meet(struct rank *a, struct rank *b)
{
	both(a, b, barrier);
}

static int setup(void **state)
{
	static int number;
	int i;

	(void)state;
	surroundings_clear();
	snprintf(job, sizeof(job), "job%d", number++);
	said[0] = '\0';
	for (i = 0; i < SERVERS; i++)
		caches[i] = cache_start(NULL);
	return 0;
}

static int teardown(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < SERVERS; i++)
		cache_end(caches[i]);
	return 0;
}

/* --------------------------------------------------------- the same list --- */

static void lists_of_all_lengths(void **state)
{
	static const char *const lists[] = { "0", "01", "012" };
	struct rank a, b;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(lists); i++) {
		join(&a, 0, lists[i]);
		join(&b, 1, lists[i]);
		meet(&a, &b);
		assert_int_equal(a.ret, 0);
		assert_int_equal(b.ret, 0);
		leave(&a);
		leave(&b);
		strcat(job, "x");
	}
}

static void the_order_does_not_matter(void **state)
{
	struct rank a, b;

	(void)state;
	join(&a, 0, "012");
	join(&b, 1, "201");
	meet(&a, &b);
	assert_int_equal(a.ret, 0);
	assert_int_equal(b.ret, 0);
	leave(&a);
	leave(&b);
}

/* ------------------------------------------------------- different lists --- */

static void names_both_ranks(const char *sentence, int self, int other)
{
	char wanted[128];

	snprintf(wanted, sizeof(wanted), "rank %d on ", self);
	assert_non_null(strstr(sentence, wanted));
	snprintf(wanted, sizeof(wanted), " and rank %d on ", other);
	assert_non_null(strstr(sentence, wanted));
	assert_non_null(strstr(sentence, "have different settings: another list of servers"));
}

/* Both are told long before the time-out, each by the other's presence. */
static void different_lists_are_reported(void **state)
{
	static const char *const lists[][2] = {
		{ "0", "01" }, { "01", "0" }, { "01", "12" }, { "012", "01" },
	};
	struct rank a, b;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(lists); i++) {
		join(&a, 0, lists[i][0]);
		join(&b, 1, lists[i][1]);
		both(&a, &b, in_vain);
		assert_int_equal(a.ret, -EPROTO);
		assert_int_equal(b.ret, -EPROTO);
		names_both_ranks(a.error, 0, 1);
		names_both_ranks(b.error, 1, 0);
		strcat(job, "x");
	}
}

/* A server on a busy machine may not answer the last look. */
static bool ran_out_of_time(const struct rank *rank)
{
	return rank->ret == -ETIMEDOUT || rank->ret == -EHOSTDOWN;
}

/* All keys are on it, so its names are of no account: ranks that wait look at them each second. */
static void one_server_of_two_names(void **state)
{
	int i, port = cache_hostport(caches[0])->port;
	struct rank rank[2];
	char lists[2][2][80];
	size_t k;

	(void)state;
	surroundings_need_localhost();
	sprintf(lists[0][0], "127.0.0.1:%d", port);
	sprintf(lists[0][1], "localhost:%d", port);
	sprintf(lists[1][0], "127.0.0.1:%d,localhost:%d", port, port);
	sprintf(lists[1][1], "localhost:%d,127.0.0.1:%d", port, port);
	for (k = 0; k < BEEST_COUNT(lists); k++) {
		for (i = 0; i < 2; i++)
			join_at(&rank[i], i, lists[k][i]);
		meet(&rank[0], &rank[1]);
		assert_int_equal(rank[0].ret, 0);
		assert_int_equal(rank[1].ret, 0);
		rank[0].patience = rank[1].patience = 2500 * BEEST_MS;
		both(&rank[0], &rank[1], in_vain);
		assert_true(ran_out_of_time(&rank[0]));
		assert_true(ran_out_of_time(&rank[1]));
		assert_null(strstr(said, "another list"));
		strcat(job, "x");
	}
}

/* A rank that is gone spoils nothing: it may have been of another run. */
static void a_leftover_of_another_list(void **state)
{
	struct beest_kv *exchange;
	struct beest_kv_value value;
	struct rank a, b;
	char key[64];
	const char *at = key;

	(void)state;
	snprintf(key, sizeof(key), "hb1/%s/rank/servers", job);
	join(&a, 0, "01");
	assert_int_equal(IN_VAIN(hartebeest_msg_wait(a.hb, "never", NULL, 0, NULL, 0)), -ETIMEDOUT);
	assert_int_equal(beest_kv_open(&exchange, cache_hostport(caches[0]), 1), 0);
	assert_int_equal(raw_kv_get(exchange, &at, 1, &value,
					 beest_clock_deadline(RANK_PATIENCE_S * BEEST_SECOND)), 0);
	assert_non_null(value.bytes);
	leave(&a);
	assert_int_equal(raw_kv_put(exchange, key, value.bytes, value.size, 60,
				    beest_clock_deadline(RANK_PATIENCE_S * BEEST_SECOND)), 0);
	beest_kv_values_free(&value, 1);
	beest_kv_close(exchange);

	join(&a, 0, "0");
	assert_int_equal(IN_VAIN(hartebeest_msg_wait(a.hb, "never", NULL, 0, NULL, 0)), -ETIMEDOUT);
	assert_error_has("answers");
	assert_error_has("; rank 0 on ");
	assert_error_has("had another list of servers");
	leave(&a);
	join(&a, 0, "0");
	join(&b, 1, "0");
	meet(&a, &b);
	assert_int_equal(a.ret, 0);
	assert_int_equal(b.ret, 0);
	leave(&a);
	leave(&b);
}

/* ----------------------------------------------------- one of them is dead --- */

/* The number of the server of @servers that has this key. */
static int home_of(const char *key, const char *servers)
{
	struct beest_hostport endpoints[SERVERS];
	size_t count = strlen(servers), i;
	struct beest_kv *exchange;
	int home;

	for (i = 0; i < count; i++)
		endpoints[i] = *cache_hostport(caches[servers[i] - '0']);
	assert_int_equal(beest_kv_open(&exchange, endpoints, count), 0);
	home = servers[beest_kv_server_of(exchange, key)] - '0';
	beest_kv_close(exchange);
	return home;
}

/* A message's key that lives on that server of @servers. */
static const char *message_at(int server, const char *servers)
{
	static char name[32];
	char key[128];
	int n = 0;

	do {
		snprintf(name, sizeof(name), "m%d", n++);
		snprintf(key, sizeof(key), "hb1/%s/msg/%s", job, name);
	} while (home_of(key, servers) != server);
	return name;
}

static void the_dead_one_is_named(struct rank *rank, const char *servers, int dead)
{
	const char *text = cache_hostport(caches[dead])->text;
	const char *name = message_at(dead, servers);

	assert_int_equal(IN_VAIN(hartebeest_msg_push(rank->hb, name, NULL, 0, 0)), -ECONNREFUSED);
	assert_error_has(text);
	assert_int_equal(IN_VAIN(hartebeest_msg_wait(rank->hb, name, NULL, 0, NULL, 0)),
			 -ECONNREFUSED);
	assert_error_has(text);
}

static void the_others_go_on(struct rank *rank, const char *servers, int dead)
{
	const char *server;

	for (server = servers; *server; server++) {
		if (*server - '0' == dead)
			continue;
		assert_int_equal(hartebeest_msg_push(rank->hb, message_at(*server - '0', servers),
						     "x", 1, 0), 0);
		assert_int_equal(hartebeest_msg_wait(rank->hb, message_at(*server - '0', servers),
						     NULL, 0, NULL, 0), 0);
		assert_int_equal(hartebeest_msg_delete(rank->hb,
						       message_at(*server - '0', servers), 0), 0);
	}
}

/* Whichever it is: the one of the rank's own record too, and one dead from the beginning. */
static void one_is_killed(void **state)
{
	static const char *const lists[] = { "01", "012" };
	struct rank early, late;
	size_t i;
	int dead;

	(void)state;
	for (i = 0; i < BEEST_COUNT(lists); i++) {
		for (dead = 0; lists[i][dead]; dead++) {
			strcat(job, "x");
			join(&early, 0, lists[i]);
			assert_int_equal(hartebeest_msg_push(early.hb, message_at(0, lists[i]),
							     NULL, 0, 0), 0);
			cache_kill(caches[dead]);
			join(&late, 1, lists[i]);
			the_others_go_on(&early, lists[i], dead);
			the_others_go_on(&late, lists[i], dead);
			the_dead_one_is_named(&early, lists[i], dead);
			the_dead_one_is_named(&late, lists[i], dead);
			cache_restart(caches[dead]);
			the_others_go_on(&early, lists[i], -1);
			the_others_go_on(&late, lists[i], -1);
			leave(&early);
			leave(&late);
		}
	}
}

/* Its record cannot be stored, which the log says once; all else goes on. */
static void the_server_of_the_own_record_is_dead(void **state)
{
	const char *found;
	struct rank a;
	char key[64];
	int home;

	(void)state;
	snprintf(key, sizeof(key), "hb1/%s/rank/0", job);
	home = home_of(key, "012");
	cache_kill(caches[home]);
	join(&a, 0, "012");
	the_others_go_on(&a, "012", home);
	found = strstr(said, "what other servers have is not affected");
	assert_non_null(found);
	assert_non_null(strstr(said, cache_hostport(caches[home])->text));
	IN_VAIN(hartebeest_msg_wait(a.hb, message_at((home + 1) % 3, "012"), NULL, 0, NULL, 0));
	assert_null(strstr(found + 1, "what other servers have is not affected"));
	leave(&a);
}

/* A wait for what comes in a moment is not ended by a server that has no part in it. */
static void a_wait_beside_a_dead_server(void **state)
{
	struct rank a;

	(void)state;
	join(&a, 0, "012");
	assert_int_equal(hartebeest_msg_push(a.hb, "m", NULL, 0, 0), 0);
	cache_kill(caches[2]);
	assert_int_equal(IN_VAIN(hartebeest_msg_wait(a.hb, message_at(1, "012"), NULL, 0, NULL, 0)),
			 -ETIMEDOUT);
	assert_error_has(cache_hostport(caches[1])->text);
	leave(&a);
}

/* What was lost with one server goes back to it though another is dead. */
static void records_return_while_another_server_is_dead(void **state)
{
	struct rank a;
	char key[128], request[160], answer[1024];
	int lost;

	(void)state;
	join(&a, 0, "01");
	assert_int_equal(hartebeest_msg_push(a.hb, "m", NULL, 0, 0), 0);
	snprintf(key, sizeof(key), "hb1/%s/rank/0", job);
	lost = home_of(key, "01");
	cache_restart(caches[lost]);
	cache_kill(caches[!lost]);
	assert_int_equal(IN_VAIN(hartebeest_msg_wait(a.hb, message_at(lost, "01"), NULL, 0, NULL,
						     0)),
			 -ETIMEDOUT);
	snprintf(request, sizeof(request), "get %s\r\n", key);
	assert_non_null(strstr(cache_talk(caches[lost], request, answer, sizeof(answer)),
			       "VALUE"));
	leave(&a);
}

/* -------------------------------------------------------------- addresses --- */

static int try_at(const char *list)
{
	struct rank a, b;

	strcat(job, "x");
	join_at(&a, 0, list);
	join_at(&b, 1, list);
	meet(&a, &b);
	if (a.ret || b.ret)
		print_message("%s: %s; %s\n", list, a.error, b.error);
	assert_int_equal(a.ret, b.ret);
	leave(&a);
	leave(&b);
	return a.ret;
}

static void meet_at(const char *list)
{
	assert_int_equal(try_at(list), 0);
}

static void host_name(void **state)
{
	char list[64];

	(void)state;
	surroundings_need_localhost();
	snprintf(list, sizeof(list), "localhost:%d", cache_hostport(caches[0])->port);
	meet_at(list);
}

static void ipv6(void **state)
{
	static const char *const arguments[] = { "-l", "::1", NULL };
	struct cache *cache;
	char list[64];
	int64_t begin;
	int ret;

	(void)state;
	surroundings_need_ipv6();
	if (!cache_since(6))
		skip();
	cache = cache_start(arguments);
	snprintf(list, sizeof(list), "[::1]:%d", cache_hostport(cache)->port);
	begin = beest_clock_now();
	ret = try_at(list);
	/* libmemcached 1.0.16: said long before the wait's limit */
	if (ret == -EAFNOSUPPORT) {
		assert_in_range(beest_clock_now() - begin, 0, 20 * BEEST_SECOND);
		cache_end(cache);
		skip();
	}
	assert_int_equal(ret, 0);
	snprintf(list, sizeof(list), "[0:0::1]:%d", cache_hostport(cache)->port);
	meet_at(list);
	cache_end(cache);
}

static void unix_socket(void **state)
{
	struct cache *cache = cache_start_unix();
	char list[700];

	(void)state;
	meet_at(cache_hostport(cache)->text);
	snprintf(list, sizeof(list), "%s,127.0.0.1:%d", cache_hostport(cache)->text,
		 cache_hostport(caches[0])->port);
	meet_at(list);			/* a mixed list */
	cache_end(cache);
}

static void nobody_there(void **state)
{
	static const struct {
		const char *list;
		int err;
	} rows[] = {
		{ "/nowhere/at/all", ECONNREFUSED }, { "no-such-host.invalid:1", EADDRNOTAVAIL },
	};
	struct rank a;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		join_at(&a, 0, rows[i].list);
		assert_int_equal(IN_VAIN(hartebeest_msg_push(a.hb, "m", NULL, 0, 0)), -rows[i].err);
		assert_error_has(rows[i].list);
		assert_error_has("; to be stored: key hb1/");
		assert_int_equal(IN_VAIN(hartebeest_msg_wait(a.hb, "m", NULL, 0, NULL, 0)),
				 -rows[i].err);
		assert_error_has("; wanted: message 'm'");
		leave(&a);
	}
}

/* Before anything is asked of a server. */
static void a_malformed_list_is_refused_at_once(void **state)
{
	static const struct {
		const char *list;
		int err;
	} rows[] = {
		{ "[::1", EINVAL },
		{ "host:99999", ERANGE },
		{ "http://host:1", EINVAL },
		{ "a:1;b:1", EINVAL },
	};
	struct rank_settings settings = { .job = job, .rank = 0, .size = 2 };
	struct hartebeest_context *hb;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		settings.servers = rows[i].list;
		assert_int_equal(rank_open(&hb, &settings), -rows[i].err);
	}
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lists_of_all_lengths),
		TEST(the_order_does_not_matter),
		TEST(different_lists_are_reported),
		TEST(one_server_of_two_names),
		TEST(a_leftover_of_another_list),
		TEST(one_is_killed),
		TEST(the_server_of_the_own_record_is_dead),
		TEST(a_wait_beside_a_dead_server),
		TEST(records_return_while_another_server_is_dead),
		TEST(host_name),
		TEST(ipv6),
		TEST(unix_socket),
		TEST(nobody_there),
		TEST(a_malformed_list_is_refused_at_once),
	};

	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
