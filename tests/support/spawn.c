/* SPDX-License-Identifier: MIT */
/* spawn.c - see spawn.h */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/ended.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/spawn.h"
#include "tests/support/unit.h"

#define WORDS 700
#define SPAWNS 32		/* at a time */

static struct cache *cache;
static int started;			/* programs until now */

static struct spawn {
	pid_t pid;
	char output[SCRATCH_SIZE];
	char text[65536];
} spawns[SPAWNS];

static void print_all(void);

int spawn_setup(void **state)
{
	(void)state;
	ended_prints(print_all);
	cache = cache_start(NULL);
	return 0;
}

int spawn_teardown(void **state)
{
	int i;

	(void)state;
	cache_end(cache);
	for (i = 0; i < SPAWNS; i++)
		if (spawns[i].output[0])
			unlink(spawns[i].output);
	return 0;
}

static void set_environment(int rank)
{
	int place = rank < 0 ? started % 2 : rank % 2;
	const char *port = ranks_port(place);
	char text[16];

	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	setenv("HARTEBEEST_JOB", "spawn", 1);
	setenv("HARTEBEEST_TIMEOUT", RANKS_PATIENCE, 1);
	setenv("HARTEBEEST_DEVICE", port ? port : ranks_port(0), 0);
	if (rank < 0)
		return;
	snprintf(text, sizeof(text), "%d", rank);
	setenv("HARTEBEEST_NID", text, 1);
	setenv("HARTEBEEST_PARTICIPANTS", "0,1", 1);
}

struct spawn *spawn_start(const char *path, int rank, const char *const *words)
{
	struct spawn *spawn = &spawns[started % SPAWNS];
	const char *argv[WORDS] = { path };
	int file, i;

	started++;
	if (spawn->output[0])
		unlink(spawn->output);
	file = scratch_file(spawn->output, "hartebeest-spawn");
	for (i = 0; words[i] && i < WORDS - 2; i++)
		argv[i + 1] = words[i];
	fflush(NULL);
	spawn->pid = fork();
	if (spawn->pid != 0) {
		close(file);
		return spawn;
	}

	prctl(PR_SET_PDEATHSIG, SIGKILL);	/* if the test fails, nothing stays */
	dup2(file, STDOUT_FILENO);
	dup2(file, STDERR_FILENO);
	set_environment(rank);
	execv(path, (char *const *)argv);
	_exit(127);
}

const char *spawn_printed(struct spawn *spawn)
{
	FILE *file = fopen(spawn->output, "r");
	size_t length = 0;

	if (file) {
		length = fread(spawn->text, 1, sizeof(spawn->text) - 1, file);
		fclose(file);
	}
	spawn->text[length] = '\0';
	return spawn->text;
}

size_t spawn_lines(struct spawn *spawn, const char *words)
{
	const char *at = spawn_printed(spawn);
	size_t count = 0;

	while ((at = strstr(at, words))) {
		count++;
		at++;
	}
	return count;
}

static void print_all(void)
{
	int i;

	for (i = started > SPAWNS ? started - SPAWNS : 0; i < started; i++)
		print_error("program %d printed:\n%s", i, spawn_printed(&spawns[i % SPAWNS]));
}

/* Leaves the process to be waited for. */
static bool has_ended(const struct spawn *spawn)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)spawn->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       info.si_pid != 0;
}

void spawn_await(struct spawn *spawn, const char *words, size_t count)
{
	bool ended = false;

	while (spawn_lines(spawn, words) < count) {
		if (ended) {
			print_error("%zu times '%s' expected\n", count, words);
			print_all();
			fail();
		}
		pause_ms(20);
		ended = has_ended(spawn);
	}
}

void spawn_end(struct spawn *spawn, int signal_number)
{
	int status;

	kill(spawn->pid, signal_number);
	assert_int_equal(waitpid(spawn->pid, &status, 0), spawn->pid);
	spawn->pid = 0;
}

void spawn_ends_well(struct spawn *spawn)
{
	int status = 0;

	waitpid(spawn->pid, &status, 0);
	if (status)
		print_all();
	assert_int_equal(status, 0);
}
