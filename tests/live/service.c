/* SPDX-License-Identifier: MIT */
/*
 * service.c - examples/service on a real device: a server and clients that come, crash and
 * return
 *
 * All are processes of their own.  What they print tells what they saw.
 */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/ranks.h"
#include "tests/support/unit.h"

#define PROGRAM "examples/service"
#define PATIENCE_MS 120000
#define WORDS 700

static struct cache *cache;
static int started;			/* programs until now */

static struct program {
	pid_t pid;
	char output[64];
	char text[65536];
} programs[32];

/* Starts it with @words, on one port after the other. */
static struct program *start(const char *const *words)
{
	struct program *program = &programs[started % 32];
	const char *port = ranks_port(started % 2), *argv[WORDS] = { PROGRAM };
	int file, i = 0;

	snprintf(program->output, sizeof(program->output), "/tmp/hartebeest-%d-service-%d",
		 getpid(), started++);
	while (words[i]) {
		argv[i + 1] = words[i];
		i++;
	}
	fflush(NULL);
	program->pid = fork();
	if (program->pid != 0)
		return program;

	file = open(program->output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	dup2(file, STDOUT_FILENO);
	dup2(file, STDERR_FILENO);
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	setenv("HARTEBEEST_JOB", "service", 1);
	setenv("HARTEBEEST_TIMEOUT", "120s", 1);
	setenv("HARTEBEEST_DEVICE", port ? port : ranks_port(0), 0);
	execv(PROGRAM, (char *const *)argv);
	_exit(127);
}

#define START(...) start((const char *const[]){ __VA_ARGS__, NULL })

static const char *printed(struct program *program)
{
	FILE *file = fopen(program->output, "r");
	size_t length = 0;

	if (file) {
		length = fread(program->text, 1, sizeof(program->text) - 1, file);
		fclose(file);
	}
	program->text[length] = '\0';
	return program->text;
}

static size_t lines_with(struct program *program, const char *words)
{
	const char *at = printed(program);
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

	for (i = 0; i < started; i++)
		print_error("program %d printed:\n%s", i, printed(&programs[i % 32]));
}

static void await_lines(struct program *program, const char *words, size_t count)
{
	int waited;

	for (waited = 0; lines_with(program, words) < count; waited += 20) {
		if (waited > PATIENCE_MS) {
			print_error("%zu times '%s' expected\n", count, words);
			print_all();
			fail();
		}
		pause_ms(20);
	}
}

static void end_with(struct program *program, int number)
{
	int status;

	kill(program->pid, number);
	assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
	program->pid = 0;
}

static void ends_well(struct program *program)
{
	int status = 0, waited;

	for (waited = 0; waitpid(program->pid, &status, WNOHANG) == 0; waited += 20) {
		if (waited > PATIENCE_MS)
			kill(program->pid, SIGKILL);
		pause_ms(20);
	}
	if (status)
		print_all();
	assert_int_equal(status, 0);
}

static int setup(void **state)
{
	(void)state;
	cache = cache_start(NULL);
	return 0;
}

static int teardown(void **state)
{
	char command[96];

	(void)state;
	cache_end(cache);
	snprintf(command, sizeof(command), "rm -f /tmp/hartebeest-%d-service-*", getpid());
	return system(command);
}

/* ---------------------------------------------------------------------- the store --- */

#define CLIENTS 4
#define ADDITIONS 100

/* All add to the same counter at once, and to one of their own. */
static void four_clients(void **state)
{
	static const char *const own[CLIENTS] = { "a", "b", "c", "d" };
	struct program *server = START("serve"), *clients[CLIENTS], *reader;
	const char *words[WORDS];
	int i, k, n;

	(void)state;
	await_lines(server, "serving", 1);
	for (i = 0; i < CLIENTS; i++) {
		for (k = n = 0; k < ADDITIONS; k++) {
			words[n++] = "add";
			words[n++] = k % 2 ? "all" : own[i];
			words[n++] = k % 2 ? "1" : "1000";
		}
		words[n++] = "get";
		words[n++] = own[i];
		words[n] = NULL;
		clients[i] = start(words);
	}
	for (i = 0; i < CLIENTS; i++) {
		ends_well(clients[i]);
		assert_non_null(strstr(printed(clients[i]), "is 50000\n"));
	}
	reader = START("get", "all", "get", "c", "get", "nothing");
	ends_well(reader);
	assert_string_equal(printed(reader), "all is 200\nc is 50000\nnothing is not there\n");
	await_lines(server, "has left", CLIENTS + 1);
	end_with(server, SIGTERM);
}

/* Nobody else is held up; who comes back is served again. */
static void a_client_that_crashes(void **state)
{
	struct program *server = START("serve"), *other, *client = START("add", "x", "1",
									 "sleep", "1000");

	(void)state;
	await_lines(server, "is connected", 1);
	other = START("add", "x", "1", "sleep", "2", "get", "x");
	end_with(client, SIGKILL);
	await_lines(server, "is connected", 2);
	client = START("add", "x", "1");
	ends_well(client);
	ends_well(other);
	assert_int_equal(lines_with(other, "x is"), 1);
	await_lines(server, "client 1 has crashed", 1);
	await_lines(server, "has left", 2);
	end_with(server, SIGTERM);
}

/* The clients go on with the new one, and with its table. */
static void a_server_that_is_restarted(void **state)
{
	struct program *server = START("serve"), *clients[CLIENTS];
	int i;

	(void)state;
	for (i = 0; i < CLIENTS; i++)
		clients[i] = START("add", "x", "100", "sleep", "4", "add", "y", "1",
				   "sleep", "4", "get", "y");
	await_lines(server, "is connected", CLIENTS);
	end_with(server, SIGKILL);
	server = START("serve");
	await_lines(server, "is still there", CLIENTS);
	for (i = 0; i < CLIENTS; i++) {
		ends_well(clients[i]);
		assert_true(lines_with(clients[i], "connecting again") > 0);
	}
	await_lines(server, "has left", CLIENTS);
	end_with(server, SIGTERM);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(four_clients),
		TEST(a_client_that_crashes),
		TEST(a_server_that_is_restarted),
	};

	ranks_need_device();
	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
