/* SPDX-License-Identifier: MIT */
/*
 * store.c - the simple conversation of hartebeest(1) with a server, and what counts as text
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "tests/support/memcached.h"
#include "tools/out.h"
#include "tools/store.h"

static int64_t now = 1000 * BEEST_SECOND;

static int64_t settable(void)
{
	return now;
}

static const struct beest_clock_source clock_source = { .now = settable };

static int setup(void **state)
{
	(void)state;
	beest_clock_source = &clock_source;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	beest_clock_source = NULL;
	return 0;
}

/* Long lists take many requests, each with its own time limit.  The answer ends a bit later. */
static void each_question_has_its_time(void **state)
{
	const struct fake_service service = { .drip_ms = 30 };
	struct fake *server;
	struct store *store;
	uint8_t *value;
	size_t size;
	int i;

	(void)state;
	surroundings_need_loopback();
	server = fake_start_service(&service);
	assert_int_equal(store_open(&store, fake_hostport(server), 100 * BEEST_SECOND), 0);
	for (i = 0; i < 5; i++, now += 90 * BEEST_SECOND) {
		assert_int_equal(store_get(store, "key", &value, &size), 0);
		assert_int_equal(size, 1);
		assert_memory_equal(value, "x", 1);
		free(value);
	}
	store_close(store);
	fake_end(server);
}

static void a_server_without_connections(void **state)
{
	static const char answer[] = "ERROR Too many open connections\r\n";
	const struct fake_service service = { .banner = answer, .banner_size = strlen(answer) };
	struct fake *server;
	struct store *store;
	char version[32];

	(void)state;
	surroundings_need_loopback();
	server = fake_start_service(&service);
	assert_int_equal(store_open(&store, fake_hostport(server), 100 * BEEST_SECOND), 0);
	assert_int_equal(store_version(store, version, sizeof(version)), -EUSERS);
	assert_non_null(strstr(beest_error_text(), ": all its connections are in use"));
	store_close(store);
	fake_end(server);
}

/* Text has no terminal controls and no broken characters; @length ends it. */
static void text_or_not(void **state)
{
	static const char *const texts[] = { "", "one\ttwo\r\n", "\xc3\xa4\xe2\x82\xac" };
	static const char *const others[] = {
		"\033[2J", "\x7f", "\xc2\x9b", "\xc3", "\xe2\x82", "\xff", "\xe2\x80\xae",
	};
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(texts); i++)
		assert_true(out_is_text(texts[i], strlen(texts[i])));
	for (i = 0; i < BEEST_COUNT(others); i++)
		assert_false(out_is_text(others[i], strlen(others[i])));
	assert_false(out_is_text("a\0b", 3));
	assert_true(out_is_text("a\0b", 1));
}

/* The title's memory may be gone when the next line is printed. */
static void a_title_whose_memory_is_gone(void **state)
{
	char title[] = "to rank 1";
	struct json_object *part;
	struct out out;

	(void)state;
	out_start(&out, "ping", true);
	out_title(&out, 10, title);
	memset(title, 'x', sizeof(title) - 1);
	out_line(&out, OUT_OK, "peer", "rank 2");
	assert_true(json_object_object_get_ex(out.check, "part", &part));
	assert_string_equal(json_object_get_string(part), "to rank 1");
	json_object_put(out.json);
}

/* Each once, in order; one that is part of another counts. */
static void labels_of_what_is_bad(void **state)
{
	static const char *const labels[] = { "mlx5_0:1", "mlx5_0", "0:1", "mlx5_0", "mlx5_0:1" };
	struct out out;
	size_t i;

	(void)state;
	out_start(&out, "doctor", true);
	out_line(&out, OUT_OK, "server", "fine");
	for (i = 0; i < BEEST_COUNT(labels); i++)
		out_line(&out, OUT_WARNING, labels[i], "bad");
	assert_string_equal(out.worst, "mlx5_0:1, mlx5_0, 0:1");
	json_object_put(out.json);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_question_has_its_time),
		cmocka_unit_test(a_server_without_connections),
		cmocka_unit_test(text_or_not),
		cmocka_unit_test(a_title_whose_memory_is_gone),
		cmocka_unit_test(labels_of_what_is_bad),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
