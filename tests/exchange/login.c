/* SPDX-License-Identifier: MIT */
/*
 * login.c - servers that demand a user and a password (SASL)
 *
 * A real "memcached -S" with a user database of the test's own.  A login also changes the
 * protocol: binary instead of text.
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hartebeest.h"
#include "lib/base/clock.h"
#include "lib/kv/kv.h"
#include "lib/kv/login.h"
#include "tests/support/kv-scenarios.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/rank.h"
#include "tests/support/raw-kv.h"
#include "tests/support/scratch.h"
#include "tests/support/stack.h"
#include "tests/support/unit.h"

#define USER "beest"
#define PASSWORD "open sesame"

static struct cache *cache;
static char folder[SCRATCH_SIZE];
static struct hartebeest_context *hb;
static struct beest_kv *exchange;
static char said[8192];			/* all log lines */

static int64_t soon(void)
{
	return beest_clock_deadline(60 * BEEST_SECOND);
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static void write_file(const char *name, const void *bytes, size_t size, mode_t mode)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	fchmod(fd, mode);
	close(fd);
}

/* ------------------------------------------------------------ the fixture --- */

static void cannot(const char *why)
{
	fprintf(stderr, "%s\n", why);
	exit(77);
}

static void need_sasl(void)
{
#ifndef BEEST_HAVE_SASL
	cannot("this libmemcached has no SASL");
#endif
	if (system("memcached -h | grep -q enable-sasl") != 0)
		cannot("this memcached has no SASL");
	if (system("PATH=$PATH:/usr/sbin command -v saslpasswd2 >/dev/null") != 0)
		cannot("no saslpasswd2 (package sasl2-bin or cyrus-sasl)");
}

static void make_user(void)
{
	char command[512], text[512];

	snprintf(text, sizeof(text), "mech_list: plain\npwcheck_method: auxprop\n"
		 "auxprop_plugin: sasldb\nsasldb_path: %s/sasldb\n", folder);
	write_file("memcached.conf", text, strlen(text), 0600);
	snprintf(command, sizeof(command), "PATH=$PATH:/usr/sbin; printf '%s' | "
		 "saslpasswd2 -p -a memcached -c -f %s/sasldb -u $(hostname) " USER, PASSWORD,
		 folder);
	if (system(command) != 0)
		cannot("saslpasswd2 does not make a user");
}

static int group_setup(void **state)
{
	static const char *const arguments[] = { "-S", NULL };

	(void)state;
	surroundings_clear();
	cache_need();
	need_sasl();
	scratch_folder(folder, "exchange-login");
	make_user();
	write_file("password", PASSWORD "\n", strlen(PASSWORD) + 1, 0600);
	setenv("SASL_CONF_PATH", folder, 1);
	cache = cache_start(arguments);
	unsetenv("SASL_CONF_PATH");
	return 0;
}

static int group_teardown(void **state)
{
	char command[128];

	(void)state;
	cache_end(cache);
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return system(command);
}

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	said[0] = '\0';
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	hartebeest_close(hb);
	beest_kv_close(exchange);
	hb = NULL;
	exchange = NULL;
	return 0;
}

static void note(void *data, int level, const char *text)
{
	size_t used = strlen(said);

	(void)data, (void)level;
	snprintf(said + used, sizeof(said) - used, "%s\n", text);
}

static void open_context(const char *const *more)
{
	struct rank_settings settings = {
		.servers = cache_hostport(cache)->text, .job = "login", .timeout = "1h",
	};
	int i;

	for (i = 0; more && more[i]; i++)
		settings.more[i] = more[i];
	assert_int_equal(rank_open(&hb, &settings), 0);
	hartebeest_log_set(hb, HARTEBEEST_LOG_DEBUG, note, NULL);
}

/* The password appears in no sentence, log line or option. */
static void nothing_is_shown(void)
{
	char text[256];

	assert_null(strstr(said, PASSWORD));
	assert_null(strstr(hartebeest_error(), PASSWORD));
	assert_true(hartebeest_option_get(hb, "exchange.password", text, sizeof(text),
					  NULL) >= 0);
	assert_null(strstr(text, PASSWORD));
}

static void works(void)
{
	size_t length = 0;
	char text[16];

	assert_int_equal(hartebeest_msg_push(hb, "m", "hello", 5, 0), 0);
	assert_int_equal(hartebeest_msg_wait(hb, "m", text, sizeof(text), &length, 0), 0);
	assert_int_equal(length, 5);
	assert_memory_equal(text, "hello", 5);
	assert_int_equal(hartebeest_msg_delete(hb, "m", 0), 0);
	assert_int_equal(hartebeest_msg_delete(hb, "m", 0), -ENOENT);
	nothing_is_shown();
}

/* Refused at once, since no other attempt would end differently; the limit outlasts the test. */
static void is_refused(int err, const char *sentence)
{
	assert_int_equal(hartebeest_msg_push(hb, "m", "x", 1, 0), -err);
	assert_error_has(sentence);
	assert_int_equal(hartebeest_msg_wait(hb, "m", NULL, 0, NULL, 0), -err);
	assert_error_has(sentence);
	nothing_is_shown();
}

/* -------------------------------------------------------------- the login --- */

static void by_file(void **state)
{
	char file[160];
	const char *more[] = { "exchange.user=" USER, file, NULL };

	(void)state;
	snprintf(file, sizeof(file), "exchange.password_file=%s", path_of("password"));
	open_context(more);
	works();
	assert_null(strstr(said, "may read"));
}

static void by_environment(void **state)
{
	const char *source;
	char text[64];

	(void)state;
	setenv("HARTEBEEST_EXC_USER", USER, 1);
	setenv("HARTEBEEST_EXC_PASSWORD_FILE", path_of("password"), 1);
	setenv("HARTEBEEST_EXC_PASSWORD", "not this one", 1);	/* the last resort */
	open_context(NULL);
	works();
	hartebeest_close(hb);
	unsetenv("HARTEBEEST_EXC_PASSWORD_FILE");
	setenv("HARTEBEEST_EXC_PASSWORD", PASSWORD, 1);
	open_context(NULL);
	works();
	assert_true(hartebeest_option_get(hb, "exchange.password", text, sizeof(text),
					  &source) >= 0);
	assert_string_equal(text, "(hidden)");
	assert_string_equal(source, "environment HARTEBEEST_EXC_PASSWORD");
}

static void wrong_password(void **state)
{
	char wanted[400];

	(void)state;
	setenv("HARTEBEEST_EXC_USER", USER, 1);
	setenv("HARTEBEEST_EXC_PASSWORD", "close sesame", 1);
	open_context(NULL);
	snprintf(wanted, sizeof(wanted), "server %s, user '" USER "': the login was refused: "
		 "wrong user or password", cache_hostport(cache)->text);
	is_refused(EACCES, wanted);
	assert_null(strstr(said, "close sesame"));
}

static void wrong_user(void **state)
{
	(void)state;
	setenv("HARTEBEEST_EXC_USER", "nobody", 1);
	setenv("HARTEBEEST_EXC_PASSWORD", PASSWORD, 1);
	open_context(NULL);
	is_refused(EACCES, "user 'nobody': the login was refused");
}

static void no_login(void **state)
{
	char wanted[400];

	(void)state;
	open_context(NULL);
	snprintf(wanted, sizeof(wanted), "server %s: login missing: the server demands one "
		 "(options exchange.user and exchange.password_file)",
		 cache_hostport(cache)->text);
	is_refused(EACCES, wanted);
}

static void half_a_login(void **state)
{
	(void)state;
	setenv("HARTEBEEST_EXC_USER", USER, 1);
	open_context(NULL);
	is_refused(EINVAL, "exchange.user '" USER "' has no password: set "
		   "HARTEBEEST_EXC_PASSWORD_FILE");
	hartebeest_close(hb);
	unsetenv("HARTEBEEST_EXC_USER");
	setenv("HARTEBEEST_EXC_PASSWORD", PASSWORD, 1);
	open_context(NULL);
	is_refused(EINVAL, "a password without a user: set HARTEBEEST_EXC_USER");
}

/* At a server without -S, libmemcached 1.0 goes on without a login, 1.1 does not. */
static void a_login_nobody_asked_for(void **state)
{
	struct cache *demanding = cache;

	(void)state;
	setenv("HARTEBEEST_EXC_USER", USER, 1);
	setenv("HARTEBEEST_EXC_PASSWORD", PASSWORD, 1);
	cache = cache_start(NULL);
	open_context(NULL);
	if (hartebeest_msg_push(hb, "m", NULL, 0, 0) == 0)
		works();
	else
		is_refused(EACCES, "user '" USER "': it does not support logins (memcached "
			   "without -S)");
	cache_end(cache);
	cache = demanding;
}

/* ------------------------------------------------------- the password's file --- */

static void password_files(void **state)
{
	static char long_line[1100];
	static const struct {
		const char *bytes;
		size_t size;
		const char *sentence;
	} rows[] = {
		{ "", 0, "its first line is empty" },
		{ "\nsecond", 7, "its first line is empty" },
		{ "a\0b", 3, "byte 2 is NUL" },
		{ long_line, sizeof(long_line), "more than 1023 bytes" },
	};
	size_t i;

	(void)state;
	memset(long_line, 'x', sizeof(long_line));
	setenv("HARTEBEEST_EXC_USER", USER, 1);
	setenv("HARTEBEEST_EXC_PASSWORD_FILE", path_of("bad"), 1);
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		write_file("bad", rows[i].bytes, rows[i].size, 0600);
		open_context(NULL);
		is_refused(EINVAL, rows[i].sentence);
		assert_error_has("environment HARTEBEEST_EXC_PASSWORD_FILE "
				 "(exchange.password_file): '");
		assert_error_has("/bad': ");
		hartebeest_close(hb);
	}
	unlink(path_of("bad"));
	open_context(NULL);
	is_refused(ENOENT, "/bad': No such file or directory");
	hartebeest_close(hb);
	setenv("HARTEBEEST_EXC_PASSWORD_FILE", folder, 1);
	open_context(NULL);
	is_refused(EISDIR, folder);
}

static void a_file_for_all_to_read(void **state)
{
	(void)state;
	write_file("open", PASSWORD "\r\nanything", strlen(PASSWORD) + 10, 0644);
	setenv("HARTEBEEST_EXC_USER", USER, 1);
	setenv("HARTEBEEST_EXC_PASSWORD_FILE", path_of("open"), 1);
	open_context(NULL);
	works();
	assert_non_null(strstr(said, "users other than its owner may read or write it (mode 644)"));
}

/* ------------------------------------------------------- the binary protocol --- */

static void open_exchange(void)
{
	struct beest_login login = { strdup(USER), strdup(PASSWORD) };

	assert_int_equal(beest_kv_open(&exchange, cache_hostport(cache), 1, &login), 0);
	assert_null(login.user);
	assert_null(login.password);
}

static void add_and_delete_report_what_was_there(void **state)
{
	(void)state;
	open_exchange();
	assert_int_equal(raw_kv_delete(exchange, "k", soon()), -ENOENT);
	assert_int_equal(raw_kv_add(exchange, "k", "1", 1, 60, soon()), 0);
	assert_int_equal(raw_kv_add(exchange, "k", "2", 1, 60, soon()), -EEXIST);
	assert_int_equal(raw_kv_put(exchange, "k", "3", 1, 60, soon()), 0);
	assert_int_equal(raw_kv_delete(exchange, "k", soon()), 0);
	assert_int_equal(raw_kv_put(exchange, "a b", "3", 1, 60, soon()), -EINVAL);
	assert_error_has("byte 2 is a blank");
}

/* A value may contain any bytes: only its length ends it. */
static void values_come_back(void **state)
{
	static uint8_t bytes[BEEST_VALUE_MAX];
	static const size_t sizes[] = { 0, 1, 9, 4096, BEEST_VALUE_MAX };
	struct beest_kv_value value;
	const char *key = "k";
	size_t i, k;

	(void)state;
	open_exchange();
	for (k = 0; k < sizeof(bytes); k++)
		bytes[k] = (uint8_t)(k % 251 ? k : 0);
	for (i = 0; i < BEEST_COUNT(sizes); i++) {
		assert_int_equal(raw_kv_put(exchange, key, bytes, sizes[i], 60, soon()), 0);
		assert_int_equal(raw_kv_get(exchange, &key, 1, &value, soon()), 0);
		assert_non_null(value.bytes);
		assert_int_equal(value.size, sizes[i]);
		assert_memory_equal(value.bytes, bytes, sizes[i]);
		beest_kv_values_free(&value, 1);
	}
}

#define MANY 300

static void many_keys_meet_their_values(void **state)
{
	static char keys[MANY][16];
	struct beest_kv_value values[MANY];
	const char *asked[MANY];
	size_t i;

	(void)state;
	open_exchange();
	for (i = 0; i < MANY; i++) {
		snprintf(keys[i], sizeof(keys[i]), "key-%zu", i);
		asked[i] = keys[i];
		if (i % 3)
			assert_int_equal(raw_kv_put(exchange, keys[i], keys[i],
						    strlen(keys[i]), 60, soon()), 0);
	}
	assert_int_equal(raw_kv_get(exchange, asked, MANY, values, soon()), 0);
	for (i = 0; i < MANY; i++) {
		assert_true((values[i].bytes != NULL) == (i % 3 != 0));
		if (values[i].bytes)
			assert_memory_equal(values[i].bytes, keys[i], strlen(keys[i]));
	}
	beest_kv_values_free(values, MANY);
}

/* A server that looks up its own name at each login may take longer than an attempt. */
static int get_in_the_end(const char *key, struct beest_kv_value *value)
{
	int64_t end = beest_clock_deadline(600 * BEEST_SECOND);
	int ret;

	do
		ret = raw_kv_get(exchange, &key, 1, value, soon());
	while (ret == -EHOSTDOWN && beest_clock_left(end));

	return ret;
}

/* Equal failures have the same errno in the text and the binary protocol. */
static void trouble_is_told_apart(void **state)
{
	struct beest_kv_value value;
	const char *key = "k";

	(void)state;
	open_exchange();
	assert_int_equal(raw_kv_put(exchange, key, "v", 1, 60, soon()), 0);
	cache_stop(cache);
	assert_int_equal(raw_kv_get(exchange, &key, 1, &value,
				    beest_clock_deadline(200 * BEEST_MS)), -EHOSTDOWN);
	cache_resume(cache);
	assert_int_equal(get_in_the_end(key, &value), 0);
	assert_int_equal(value.size, 1);
	beest_kv_values_free(&value, 1);
	cache_kill(cache);
	assert_true(beest_kv_transient(raw_kv_get(exchange, &key, 1, &value, soon())));
	assert_int_equal(raw_kv_put(exchange, key, "v", 1, 60, soon()), -ECONNREFUSED);
	setenv("SASL_CONF_PATH", folder, 1);
	cache_restart(cache);
	assert_int_equal(get_in_the_end(key, &value), 0);
	assert_null(value.bytes);
}

/* All that a bring-up does, including records stored again by "add". */
static void a_restart_in_a_wait(void **state)
{
	(void)state;
	setenv("HARTEBEEST_EXC_USER", USER, 1);
	setenv("HARTEBEEST_EXC_PASSWORD", PASSWORD, 1);
	open_context((const char *const[]){ "job.rank=0", "job.participants=0", NULL });
	assert_int_equal(hartebeest_barrier(hb, "go", 0), 0);
	setenv("SASL_CONF_PATH", folder, 1);
	cache_restart(cache);
	assert_int_equal(hartebeest_barrier(hb, "go", 0), 0);
	nothing_is_shown();
}

static void stage_restart(void)
{
	setenv("SASL_CONF_PATH", folder, 1);
	cache_restart(cache);
	unsetenv("SASL_CONF_PATH");
}

static void stage_pause(int seconds)
{
	pause_ms(seconds * 1000);
}

static void requests_do_as_without_login(void **state)
{
	struct kv_stage stage = { NULL, stage_restart, stage_pause };
	const struct kv_scenario *scenario;

	for (scenario = kv_scenarios; scenario->name; scenario++) {
		if (scenario->without_login)
			continue;
		print_message("%s\n", scenario->name);
		stage_restart();
		open_exchange();
		stage.kv = exchange;
		scenario->run(&stage);
		teardown(state);
	}
}

/* A server that looks up its own name may take long. */
static int probe_in_the_end(struct beest_kv_stats *stats)
{
	return beest_kv_probe(exchange, 0, beest_clock_deadline(600 * BEEST_SECOND), stats);
}

static void the_probe_tells_that_a_login_is_missing(void **state)
{
	struct beest_kv_value value;
	const char *const keys[] = { "epoch" };
	struct beest_kv_request request = {
		.keys = keys, .key_count = 1, .values = &value, .patience = 200 * BEEST_MS,
	};
	struct beest_kv_stats stats;

	assert_int_equal(beest_kv_open(&exchange, cache_hostport(cache), 1, NULL), 0);
	assert_true(beest_kv_transient(beest_kv_run(exchange, &request, 1, soon(), NULL)));
	assert_int_equal(probe_in_the_end(&stats), -EACCES);
	assert_error_has("login missing: the server demands one");
	teardown(state);
	open_exchange();
	assert_int_equal(probe_in_the_end(&stats), 0);
	assert_int_equal(stats.limit_bytes, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

/* As hartebeest(7) says. */
#define STACK_MAX (64 * 1024)

static void *work_with_login(void *data)
{
	char text[16];

	*(int *)data = hartebeest_msg_push(hb, "m", "hello", 5, 0) ||
		hartebeest_msg_wait(hb, "m", text, sizeof(text), NULL, 0) ||
		UNTIL_ANSWERED(hartebeest_msg_wait(hb, "n", NULL, 0, NULL, HARTEBEEST_ONCE)) !=
		-EAGAIN;
	return NULL;
}

static void a_login_needs_more_stack(void **state)
{
	const char *more[] = { "exchange.user=" USER, NULL };
	int failed = -1;

	(void)state;
	if (!stack_counts())
		skip();
	setenv("HARTEBEEST_EXC_PASSWORD", PASSWORD, 1);
	open_context(more);
	assert_in_range(stack_of(work_with_login, &failed), 1, STACK_MAX);
	assert_int_equal(failed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(by_file),
		TEST(by_environment),
		TEST(wrong_password),
		TEST(wrong_user),
		TEST(no_login),
		TEST(half_a_login),
		TEST(a_login_nobody_asked_for),
		TEST(password_files),
		TEST(a_file_for_all_to_read),
		TEST(add_and_delete_report_what_was_there),
		TEST(values_come_back),
		TEST(many_keys_meet_their_values),
		TEST(trouble_is_told_apart),
		TEST(a_restart_in_a_wait),
		TEST(requests_do_as_without_login),
		TEST(a_login_needs_more_stack),
		TEST(the_probe_tells_that_a_login_is_missing),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
