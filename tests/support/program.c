/* SPDX-License-Identifier: MIT */
/* program.c - see program.h */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/memcached.h"
#include "tests/support/program.h"
#include "tests/support/ranks.h"
#include "tests/support/talk.h"
#include "tests/support/unit.h"

struct program {
	char path[4096];
	const char *const (*arguments)[2];	/* of the ranks; NULL: none, or no more */
	char output[2][64];		/* files with the ranks' standard output */
};

static int program_rank(int rank, void *data)
{
	const struct program *program = data;
	int file = open(program->output[rank], O_WRONLY | O_CREAT | O_TRUNC, 0600);

	EXPECT(file >= 0);
	EXPECT(dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
	execl(program->path, program->path, program->arguments[rank][0],
	      program->arguments[rank][1], (char *)NULL);
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

void program_run_with(const char *path, const char *const arguments[2][2],
		      const char *expected_0, const char *expected_1)
{
	struct cache *cache = cache_start(NULL);
	struct ranks ranks = { .count = 2, .server = cache_hostport(cache)->text,
			       .job = "examples" };
	struct program program = { .arguments = arguments };
	char text[8192], build[3072];
	int rank, failed;

	talk_build_folder(build, sizeof(build));
	snprintf(program.path, sizeof(program.path), "%s/%s", build, path);
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

void program_run(const char *path, const char *expected_0, const char *expected_1)
{
	static const char *const none[2][2];

	program_run_with(path, none, expected_0, expected_1);
}
