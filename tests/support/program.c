/* SPDX-License-Identifier: MIT */
/* program.c - see program.h */
#include "config.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/memcached.h"
#include "tests/support/program.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/talk.h"
#include "tests/support/unit.h"

#define OUTPUT 8192

/* The file with a rank's standard output. */
static const char *output_of(pid_t test, int rank)
{
	static char path[SCRATCH_SIZE];

	snprintf(path, sizeof(path), "%s/rank-%d-%d", scratch(), (int)test, rank);
	return path;
}

static int program_rank(int rank, void *data)
{
	const struct program *program = data;
	const char *const *arguments = program->arguments[rank > 0];
	int file = open(output_of(getppid(), rank), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	char path[4096];

	/* The settings file of the machine may have a limit that suits no test. */
	setenv("HARTEBEEST_TIMEOUT", RANKS_PATIENCE, 0);
	EXPECT(file >= 0);
	EXPECT(dup2(file, STDOUT_FILENO) == STDOUT_FILENO);
	talk_build_folder(path, sizeof(path) / 2);
	snprintf(path + strlen(path), sizeof(path) / 2, "/examples/%s", program->name);
	execl(path, path, arguments[0], arguments[1], (char *)NULL);
	EXPECT(!"the program can be started");
	return 1;
}

static void read_output(int rank, char *text)
{
	FILE *file = fopen(output_of(getpid(), rank), "r");
	size_t length = 0;

	if (file) {
		length = fread(text, 1, OUTPUT - 1, file);
		fclose(file);
	}
	text[length] = '\0';
	unlink(output_of(getpid(), rank));
}

bool program_says(const char *text, const char *says, int rank, int other)
{
	char pattern[256] = "*";
	size_t used = 1;

	for (; *says && used < sizeof(pattern) - 16; says++) {
		if (*says == '#' || *says == '@')
			used += (size_t)sprintf(pattern + used, "%d", *says == '#' ? rank : other);
		else
			pattern[used++] = *says;
	}
	strcpy(pattern + used, "*");
	return fnmatch(pattern, text, 0) == 0;
}

static bool rank_says(const struct program *program, int rank)
{
	const char *says = program->says[rank > 0 && program->says[1]];
	char text[OUTPUT];
	int other;

	read_output(rank, text);
	for (other = 0; other < program->ranks; other++) {
		if (other == rank || program_says(text, says, rank, other))
			continue;
		print_message("%s: rank %d of %d does not say '%s', but:\n%s", program->name, rank,
			      program->ranks, says, text);
		return false;
	}
	return true;
}

static bool program_works(const struct program *program)
{
	struct cache *cache = cache_start(NULL);
	struct ranks ranks = { .count = program->ranks, .server = cache_hostport(cache)->text,
			       .job = "examples" };
	int rank, good = 0, failed = ranks_run(&ranks, program_rank, (void *)program);

	cache_end(cache);
	for (rank = 0; rank < program->ranks; rank++)
		good += rank_says(program, rank);
	return failed == 0 && good == program->ranks;
}

void program_run(const char *test, const struct program *program)
{
	bool works = program_works(program);

	if (!program->known_failure) {
		assert_true(works);
		return;
	}
	if (works)
		fail_msg("%s with %d ranks works now: remove its mark '%s'", program->name,
			 program->ranks, program->known_failure);
	printf("XFAIL %s %s with %d ranks: %s\n", test, program->name,
	       program->ranks, program->known_failure);
	fflush(stdout);
}
