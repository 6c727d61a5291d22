/* SPDX-License-Identifier: MIT */
/* log.c - the exact lines on stderr and in files, and the text a callback sees */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "tests/support/scratch.h"
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

/* The last line written to stderr, "" if none was; valid until the next call. */
static const char *written(void)
{
	static char line[4096];
	ssize_t got = recv(sink, line, sizeof(line) - 1, 0);

	line[got > 0 ? got : 0] = '\0';
	return line;
}

/*
 * Expects "2026-11-22T03:15:17.123456Z HOST hartebeest[PID] rank RANK " and then @rest; returns
 * where @rest begins in the line.
 */
static const char *assert_line(const char *line, const char *rank, const char *rest)
{
	char host[256] = "", wanted[1024];
	struct tm utc = { .tm_isdst = 0 };
	const char *end = strptime(line, "%Y-%m-%dT%H:%M:%S.", &utc);
	time_t at = timegm(&utc), now = time(NULL);

	assert_non_null(end);
	assert_in_range(at, now - 86400, now + 86400);	/* time(2) may lag, and clocks are set */
	assert_int_equal(end - line, strlen("2026-11-22T03:15:17."));
	assert_int_equal(strspn(end, "0123456789"), 6);

	gethostname(host, sizeof(host) - 1);
	snprintf(wanted, sizeof(wanted), "Z %s hartebeest[%d] rank %s ", host, (int)getpid(), rank);
	assert_memory_equal(end + 6, wanted, strlen(wanted));
	end += 6 + strlen(wanted);
	if (rest)
		assert_string_equal(end, rest);
	return end;
}

static void test_one_write_a_line(void **state)
{
	const struct beest_log log = { .level = BEEST_LOG_DEBUG, .rank = 3 };

	(void)state;
	beest_log(&log, BEEST_LOG_ERROR, "peer '%s' of %d", "a", 2);
	beest_log(&log, BEEST_LOG_WARN, "w");
	beest_log(&log, BEEST_LOG_INFO, "i");
	beest_log(&log, BEEST_LOG_DEBUG, "d");
	assert_line(written(), "3", "error: peer 'a' of 2\n");
	assert_line(written(), "3", "warn: w\n");
	assert_line(written(), "3", "info: i\n");
	assert_line(written(), "3", "debug: d\n");
	assert_string_equal(written(), "");
}

static void test_an_unknown_rank_is_a_dash(void **state)
{
	const struct beest_log log = { .level = BEEST_LOG_DEBUG, .rank = -1 };

	(void)state;
	beest_log(&log, BEEST_LOG_INFO, "i");
	assert_line(written(), "-", "info: i\n");
}

/* A child's lines have its own process id, although the parent opened the log. */
static void test_a_forked_child_is_told_apart(void **state)
{
	const struct beest_log log = { .level = BEEST_LOG_DEBUG, .rank = 3 };
	char wanted[64];
	pid_t child = fork();
	int status;

	(void)state;
	if (child == 0) {
		beest_log(&log, BEEST_LOG_INFO, "i");
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	snprintf(wanted, sizeof(wanted), " hartebeest[%d] rank 3 info: i\n", (int)child);
	assert_non_null(strstr(written(), wanted));
}

static void test_level_silences(void **state)
{
	struct beest_log log = { .level = BEEST_LOG_WARN, .rank = 3 };

	(void)state;
	beest_log(&log, BEEST_LOG_INFO, "no");
	assert_string_equal(written(), "");
	beest_log(&log, BEEST_LOG_WARN, "yes");
	assert_line(written(), "3", "warn: yes\n");

	log.level = BEEST_LOG_NONE;
	beest_log(&log, BEEST_LOG_ERROR, "no");
	assert_string_equal(written(), "");
}

/* A peer's name must neither forge a line nor control the terminal. */
static void test_controls_are_escaped(void **state)
{
	const struct beest_log log = { .level = BEEST_LOG_ERROR, .rank = 3 };

	(void)state;
	beest_log(&log, BEEST_LOG_ERROR, "%s", "a\r\nhartebeest: \x1b[2J\t\x7f \x9b Z\xc3\xbcrich");
	assert_line(written(), "3", "error: a\\x0d\\x0ahartebeest: \\x1b[2J\\x09\\x7f \\x9b "
		    "Z\xc3\xbcrich\n");
}

static void test_long_lines_keep_their_newline(void **state)
{
	const struct beest_log log = { .level = BEEST_LOG_ERROR, .rank = 3 };
	char text[3000];
	const char *line;

	(void)state;
	beest_log(&log, BEEST_LOG_ERROR, "%s", unit_repeat(text, 'x', sizeof(text) - 1));
	line = assert_line(written(), "3", NULL);
	assert_true(strlen(line) >= strlen("error: ") + BEEST_ERROR_SIZE);
	assert_true(strlen(line) < 2 * BEEST_ERROR_SIZE);
	assert_string_equal(line + strlen(line) - 5, "x...\n");
}

static void test_errno_is_kept(void **state)
{
	const struct beest_log log = { .level = BEEST_LOG_ERROR, .rank = 3 };

	(void)state;
	errno = ENOENT;
	beest_log(&log, BEEST_LOG_ERROR, "%m");
	assert_int_equal(errno, ENOENT);
	assert_line(written(), "3", "error: No such file or directory\n");
}

static void test_errno_is_kept_without_stderr(void **state)
{
	const struct beest_log log = { .level = BEEST_LOG_ERROR, .rank = 3 };
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
	const struct beest_log log = { .level = BEEST_LOG_WARN, .write = see, .data = &seen };

	(void)state;
	errno = ENOENT;
	beest_log(&log, BEEST_LOG_WARN, "port %d\n", 1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(seen.calls, 1);
	assert_int_equal(seen.level, BEEST_LOG_WARN);
	assert_string_equal(seen.text, "port 1\\x0a");
	assert_string_equal(written(), "");

	beest_log(&log, BEEST_LOG_INFO, "more than was asked for");
	assert_int_equal(seen.calls, 1);
}

/* --- choices that many objects share --- */

static void test_equal_choices_are_said_once(void **state)
{
	uint64_t said[BEEST_LOG_SAID] = { 0 };
	struct beest_log log = { .level = BEEST_LOG_INFO, .said = said };
	char text[16];
	int i;

	(void)state;
	assert_int_equal(beest_log_once(&log, BEEST_LOG_INFO, "MTU 1024"), BEEST_LOG_INFO);
	assert_int_equal(beest_log_once(&log, BEEST_LOG_INFO, "MTU 4096"), BEEST_LOG_INFO);
	assert_int_equal(beest_log_once(&log, BEEST_LOG_INFO, "MTU 1024"), BEEST_LOG_DEBUG);
	assert_int_equal(beest_log_once(&log, BEEST_LOG_WARN, "MTU 4096"), BEEST_LOG_DEBUG);

	/* Beyond BEEST_LOG_SAID, the least recently used are forgotten. */
	for (i = 0; i < BEEST_LOG_SAID - 1; i++) {
		sprintf(text, "%d", i);
		assert_int_equal(beest_log_once(&log, BEEST_LOG_INFO, text), BEEST_LOG_INFO);
		assert_int_equal(beest_log_once(&log, BEEST_LOG_INFO, "MTU 1024"), BEEST_LOG_DEBUG);
	}
	assert_int_equal(beest_log_once(&log, BEEST_LOG_INFO, "MTU 4096"), BEEST_LOG_INFO);

	/* A line that was below the level does not count as said. */
	log.level = BEEST_LOG_ERROR;
	assert_int_equal(beest_log_once(&log, BEEST_LOG_INFO, "new"), BEEST_LOG_INFO);
	log.level = BEEST_LOG_INFO;
	assert_int_equal(beest_log_once(&log, BEEST_LOG_INFO, "new"), BEEST_LOG_INFO);
	assert_int_equal(beest_log_once(&log, BEEST_LOG_INFO, "new"), BEEST_LOG_DEBUG);
	log.said = NULL;
	assert_int_equal(beest_log_once(&log, BEEST_LOG_INFO, "new"), BEEST_LOG_INFO);
}

/* --- files --- */

static const char *file_text(const char *path)
{
	static char text[4096];
	int fd = open(path, O_RDONLY);
	ssize_t got = read(fd, text, sizeof(text) - 1);

	assert_true(fd >= 0 && got >= 0);
	close(fd);
	text[got] = '\0';
	return text;
}

static void test_a_file_instead_of_stderr(void **state)
{
	struct beest_log log = { .level = BEEST_LOG_INFO, .rank = 3 };
	char host[256] = "", path[PATH_MAX], pattern[PATH_MAX], folder[SCRATCH_SIZE];

	(void)state;
	gethostname(host, sizeof(host) - 1);
	scratch_folder(folder, "unit-log");
	snprintf(pattern, sizeof(pattern), "%s/%%h.%%p.%%r.100%%%%", folder);
	snprintf(path, sizeof(path), "%s/%s.%d.3.100%%", folder, host, (int)getpid());
	assert_int_equal(beest_log_open(&log, pattern), 0);
	assert_true(log.file > STDERR_FILENO);
	assert_true(fcntl(log.file, F_GETFD) & FD_CLOEXEC);

	beest_log(&log, BEEST_LOG_WARN, "w");
	assert_string_equal(written(), "");
	assert_line(file_text(path), "3", "warn: w\n");
	beest_log_close(&log);

	/* An existing file is appended to. */
	assert_int_equal(beest_log_open(&log, pattern), 0);
	beest_log(&log, BEEST_LOG_WARN, "again");
	assert_non_null(strstr(file_text(path), "warn: w\n"));
	assert_non_null(strstr(file_text(path), "warn: again\n"));
	beest_log_close(&log);
	beest_log_close(&log);
	beest_log(&log, BEEST_LOG_WARN, "e");
	assert_line(written(), "3", "warn: e\n");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
}

static void test_bad_files(void **state)
{
	struct beest_log log = { .level = BEEST_LOG_INFO, .rank = -1 };
	char path[2 * PATH_MAX];

	(void)state;
	assert_int_equal(beest_log_open(&log, "/nonexistent/%r"), -ENOENT);
	assert_error_is("'/nonexistent/-': No such file or directory");
	assert_int_equal(beest_log_open(&log, "/"), -EISDIR);
	assert_int_equal(beest_log_open(&log, "a%"), -EINVAL);
	assert_int_equal(beest_log_open(&log, "a%n"), -EINVAL);
	assert_error_is("'a%n': h, p, r or another % must follow a %");
	assert_int_equal(beest_log_open(&log, unit_repeat(path, 'x', sizeof(path) - 1)),
			 -ENAMETOOLONG);
	assert_int_equal(log.file, 0);
}

/* --- levels --- */

static void test_level_names(void **state)
{
	static const char *const names[] = { "none", "error", "warn", "info", "debug" };
	int64_t level;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(names); i++) {
		assert_int_equal(beest_parse_word(names[i], beest_log_words, &level), 0);
		assert_string_equal(beest_parse_word_text(beest_log_words, level), names[i]);
	}
	assert_null(beest_parse_word_text(beest_log_words, 99));
}

static void test_level_values_are_syslogs(void **state)
{
	int64_t level;

	(void)state;
	assert_int_equal(beest_parse_word("error", beest_log_words, &level), 0);
	assert_int_equal(level, 3);
	assert_int_equal(beest_parse_word("debug", beest_log_words, &level), 0);
	assert_int_equal(level, 7);
}

static void test_levels_in_any_case(void **state)
{
	int64_t level;

	(void)state;
	assert_int_equal(beest_parse_word("DEBUG", beest_log_words, &level), 0);
	assert_int_equal(level, BEEST_LOG_DEBUG);
	assert_int_equal(beest_parse_word("Info", beest_log_words, &level), 0);
	assert_int_equal(level, BEEST_LOG_INFO);
}

static void test_unknown_level(void **state)
{
	int64_t level = 42;

	(void)state;
	assert_int_equal(beest_parse_word("loud", beest_log_words, &level), -EINVAL);
	assert_error_is("'loud' is not one of none, error, warn, info, debug");
	assert_int_equal(beest_parse_word("", beest_log_words, &level), -EINVAL);
	assert_int_equal(beest_parse_word("warning", beest_log_words, &level), -EINVAL);
	assert_int_equal(beest_parse_word("war", beest_log_words, &level), -EINVAL);
	assert_int_equal(beest_parse_word("\xc4NFO", beest_log_words, &level), -EINVAL);
	assert_int_equal(level, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_SINK(test_one_write_a_line),
		ON_SINK(test_an_unknown_rank_is_a_dash),
		ON_SINK(test_a_forked_child_is_told_apart),
		ON_SINK(test_level_silences),
		ON_SINK(test_controls_are_escaped),
		ON_SINK(test_long_lines_keep_their_newline),
		ON_SINK(test_errno_is_kept),
		ON_SINK(test_errno_is_kept_without_stderr),
		ON_SINK(test_callback),
		cmocka_unit_test(test_equal_choices_are_said_once),
		ON_SINK(test_a_file_instead_of_stderr),
		cmocka_unit_test(test_bad_files),
		cmocka_unit_test(test_level_names),
		cmocka_unit_test(test_level_values_are_syslogs),
		cmocka_unit_test(test_levels_in_any_case),
		cmocka_unit_test(test_unknown_level),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
