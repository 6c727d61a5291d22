/* SPDX-License-Identifier: MIT */
/* log.c - the exact lines on stderr and the text a callback sees */
#include "config.h"

#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "tests/support/unit.h"

/* --- stderr, one packet for each write(2) --- */

#define ON_SINK(test) cmocka_unit_test_setup_teardown(test, catch_stderr, release_stderr)

static int sink = -1;
static int real_stderr = -1;

static int catch_stderr(void **state)
{
	int pair[2];

	(void)state;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) < 0)
		return -1;
	sink = pair[0];
	real_stderr = dup(STDERR_FILENO);
	dup2(pair[1], STDERR_FILENO);
	return close(pair[1]);
}

static int release_stderr(void **state)
{
	(void)state;
	dup2(real_stderr, STDERR_FILENO);
	close(real_stderr);
	return close(sink);
}

/* What the next write(2) wrote, "" when there was none; valid until the next call. */
static const char *written(void)
{
	static char line[4096];
	ssize_t got = recv(sink, line, sizeof(line) - 1, 0);

	line[got > 0 ? got : 0] = '\0';
	return line;
}

static void test_one_write_a_line(void **state)
{
	const struct beest_log log = { .level = BEEST_LOG_DEBUG };

	(void)state;
	beest_log(&log, BEEST_LOG_ERROR, "peer '%s' of %d", "a", 2);
	beest_log(&log, BEEST_LOG_WARN, "w");
	beest_log(&log, BEEST_LOG_INFO, "i");
	beest_log(&log, BEEST_LOG_DEBUG, "d");
	assert_string_equal(written(), "hartebeest: error: peer 'a' of 2\n");
	assert_string_equal(written(), "hartebeest: warn: w\n");
	assert_string_equal(written(), "hartebeest: info: i\n");
	assert_string_equal(written(), "hartebeest: debug: d\n");
	assert_string_equal(written(), "");
}

static void test_level_silences(void **state)
{
	struct beest_log log = { .level = BEEST_LOG_WARN };

	(void)state;
	beest_log(&log, BEEST_LOG_INFO, "no");
	assert_string_equal(written(), "");
	beest_log(&log, BEEST_LOG_WARN, "yes");
	assert_string_equal(written(), "hartebeest: warn: yes\n");

	log.level = BEEST_LOG_NONE;
	beest_log(&log, BEEST_LOG_ERROR, "no");
	assert_string_equal(written(), "");
}

/* A peer's name must neither forge a line nor drive the terminal. */
static void test_controls_are_masked(void **state)
{
	const struct beest_log log = { .level = BEEST_LOG_ERROR };

	(void)state;
	beest_log(&log, BEEST_LOG_ERROR, "%s", "a\r\nhartebeest: \x1b[2J\t\x7f Z\xc3\xbcrich");
	assert_string_equal(written(),
			    "hartebeest: error: a??hartebeest: ?[2J?? Z\xc3\xbcrich\n");
}

static void test_long_lines_keep_their_newline(void **state)
{
	const struct beest_log log = { .level = BEEST_LOG_ERROR };
	char text[3000];
	const char *line;

	(void)state;
	beest_log(&log, BEEST_LOG_ERROR, "%s", unit_repeat(text, 'x', sizeof(text) - 1));
	line = written();
	assert_int_equal(strlen(line), 1024);
	assert_int_equal(line[1022], 'x');
	assert_int_equal(line[1023], '\n');
}

static void test_errno_is_kept(void **state)
{
	const struct beest_log log = { .level = BEEST_LOG_ERROR };

	(void)state;
	errno = ENOENT;
	beest_log(&log, BEEST_LOG_ERROR, "%m");
	assert_int_equal(errno, ENOENT);
	assert_string_equal(written(), "hartebeest: error: No such file or directory\n");
}

static void test_errno_is_kept_without_stderr(void **state)
{
	const struct beest_log log = { .level = BEEST_LOG_ERROR };
	int saved = dup(STDERR_FILENO);

	(void)state;
	close(STDERR_FILENO);
	errno = ENOENT;
	beest_log(&log, BEEST_LOG_ERROR, "x");
	assert_int_equal(errno, ENOENT);
	dup2(saved, STDERR_FILENO);
	close(saved);
}

/* --- callback --- */

struct seen {
	int calls;
	int level;
	char text[2048];
};

static void see(void *data, int level, const char *text)
{
	struct seen *seen = data;

	seen->calls++;
	seen->level = level;
	strcpy(seen->text, text);
	errno = EDOM;
}

static void test_callback(void **state)
{
	struct seen seen = { 0, 0, "" };
	const struct beest_log log = { BEEST_LOG_WARN, see, &seen };

	(void)state;
	errno = ENOENT;
	beest_log(&log, BEEST_LOG_WARN, "port %d\n", 1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(seen.calls, 1);
	assert_int_equal(seen.level, BEEST_LOG_WARN);
	assert_string_equal(seen.text, "port 1?");
	assert_string_equal(written(), "");

	beest_log(&log, BEEST_LOG_INFO, "more than was asked for");
	assert_int_equal(seen.calls, 1);
}

/* --- levels --- */

static void test_level_names(void **state)
{
	static const char *const names[] = { "none", "error", "warn", "info", "debug" };
	int64_t level;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(names); i++) {
		assert_int_equal(beest_log_level(names[i], &level), 0);
		assert_string_equal(beest_log_level_name(level), names[i]);
	}
	assert_string_equal(beest_log_level_name(99), "unknown");
}

static void test_level_values_are_syslogs(void **state)
{
	int64_t level;

	(void)state;
	assert_int_equal(beest_log_level("error", &level), 0);
	assert_int_equal(level, 3);
	assert_int_equal(beest_log_level("debug", &level), 0);
	assert_int_equal(level, 7);
}

static void test_unknown_level(void **state)
{
	int64_t level = 42;

	(void)state;
	assert_int_equal(beest_log_level("Debug", &level), -EINVAL);
	assert_error_is("'Debug' is not a log level: none, error, warn, info or debug is "
			"expected");
	assert_int_equal(beest_log_level("", &level), -EINVAL);
	assert_int_equal(beest_log_level("warning", &level), -EINVAL);
	assert_int_equal(level, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_SINK(test_one_write_a_line),
		ON_SINK(test_level_silences),
		ON_SINK(test_controls_are_masked),
		ON_SINK(test_long_lines_keep_their_newline),
		ON_SINK(test_errno_is_kept),
		ON_SINK(test_errno_is_kept_without_stderr),
		ON_SINK(test_callback),
		cmocka_unit_test(test_level_names),
		cmocka_unit_test(test_level_values_are_syslogs),
		cmocka_unit_test(test_unknown_level),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
