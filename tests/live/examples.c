/* SPDX-License-Identifier: MIT */
/*
 * examples.c - the examples as two processes, and what they print
 *
 * examples/original stands for programs written for the original Hartebeest.
 */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/live.h"
#include "tests/support/memcached.h"
#include "tests/support/unit.h"

struct program {
	const char *path;		/* from the build folder, where tests run */
	char output[2][64];		/* files of the ranks' standard output */
};

static int program_rank(int rank, void *data)
{
	const struct program *program = data;
	int file = open(program->output[rank], O_WRONLY | O_CREAT | O_TRUNC, 0600);

	EXPECT(file >= 0);
	EXPECT(dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
	execl(program->path, program->path, (char *)NULL);
	EXPECT(!"the program can be started");
	return 1;
}

static void read_output(const char *path, char *text, size_t size)
{
	FILE *file = fopen(path, "r");
	size_t length;

	assert_non_null(file);
	length = fread(text, 1, size - 1, file);
	text[length] = '\0';
	fclose(file);
	unlink(path);
}

/* Runs @path as ranks 0 and 1; both succeed and print their texts. */
static void run(const char *path, const char *expected_0, const char *expected_1)
{
	struct cache *cache = cache_start(NULL);
	struct ranks ranks = { .count = 2, .server = cache_hostport(cache)->text,
			       .job = "examples" };
	struct program program = { .path = path };
	char text[8192];
	int rank, failed;

	for (rank = 0; rank < 2; rank++)
		snprintf(program.output[rank], sizeof(program.output[rank]),
			 "/tmp/hartebeest-%d-rank-%d", getpid(), rank);
	failed = ranks_run(&ranks, program_rank, &program);
	cache_end(cache);
	assert_int_equal(failed, 0);

	read_output(program.output[0], text, sizeof(text));
	assert_non_null(strstr(text, expected_0));
	read_output(program.output[1], text, sizeof(text));
	assert_non_null(strstr(text, expected_1));
}

static void hello(void **state)
{
	(void)state;
	run("examples/hello", "a reads: hello from b\n", "b reads: hello from a\n");
}

static void original(void **state)
{
	(void)state;
	run("examples/original", "node 0: acknowledged\n", "node 1: a string from node 0\n");
}

#if HAVE_CXX
static void core(void **state)
{
	(void)state;
	run("examples/core", "node 0: acknowledged\n",
	    "node 1: a string from node 0, in C++\n");
}

static void raii(void **state)
{
	(void)state;
	run("examples/raii", "a reads: hello from b\n", "b reads: hello from a\n");
}
#endif

static void mesh(void **state)
{
	(void)state;
	run("examples/mesh", ": 0 1\n", ": 0 1\n");
}

static void pair(void **state)
{
	(void)state;
	run("examples/pair", "SEND and RECV 8192 bytes: contents right",
	    "SEND and RECV 8192 bytes: contents right");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#if HAVE_CXX
		cmocka_unit_test(core),
		cmocka_unit_test(raii),
#endif
		cmocka_unit_test(hello),
		cmocka_unit_test(original),
		cmocka_unit_test(mesh),
		cmocka_unit_test(pair),
	};

	ranks_need_device();
	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
