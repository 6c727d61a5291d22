/* SPDX-License-Identifier: MIT */
/*
 * service.c - examples/service on a real device: a server and clients that come, crash and
 * return
 *
 * Each is a process, whose output tells what it saw.
 *
 * promise: hartebeest_service(3)
 */
#include "config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/memcached.h"
#include "tests/support/ranks.h"
#include "tests/support/spawn.h"
#include "tests/support/unit.h"

#define PROGRAM "examples/service"
#define WORDS 700

#define START(...) spawn_start(PROGRAM, -1, (const char *const[]){ __VA_ARGS__, NULL })

/* ---------------------------------------------------------------------- the store --- */

#define CLIENTS 4
#define ADDITIONS 100		/* at most */

/* All clients add to one counter at once, and each to a counter of its own. */
static void four_clients(void **state)
{
	static const char *const own[CLIENTS] = { "a", "b", "c", "d" };
	struct spawn *server = START("serve"), *clients[CLIENTS], *reader;
	const char *words[WORDS];
	char sum[2][32];
	int i, k, n, additions = unit_whole() ? ADDITIONS : ADDITIONS / 10;

	(void)state;
	snprintf(sum[0], sizeof(sum[0]), "is %d\n", additions / 2 * 1000);
	snprintf(sum[1], sizeof(sum[1]), "all is %d\n", CLIENTS * additions / 2);
	spawn_await(server, "serving", 1);
	for (i = 0; i < CLIENTS; i++) {
		for (k = n = 0; k < additions; k++) {
			words[n++] = "add";
			words[n++] = k % 2 ? "all" : own[i];
			words[n++] = k % 2 ? "1" : "1000";
		}
		words[n++] = "get";
		words[n++] = own[i];
		words[n] = NULL;
		clients[i] = spawn_start(PROGRAM, -1, words);
	}
	for (i = 0; i < CLIENTS; i++) {
		spawn_ends_well(clients[i]);
		assert_non_null(strstr(spawn_printed(clients[i]), sum[0]));
	}
	reader = START("get", "all", "get", "c", "get", "nothing");
	spawn_ends_well(reader);
	assert_int_equal(spawn_lines(reader, sum[1]), 1);
	assert_int_equal(spawn_lines(reader, sum[0]), 1);
	assert_int_equal(spawn_lines(reader, "nothing is not there\n"), 1);
	spawn_await(server, "has left", CLIENTS + 1);
	spawn_end(server, SIGTERM);
}

/* A crash delays no other client, and a client that comes back is served again. */
static void a_client_that_crashes(void **state)
{
	struct spawn *server = START("serve"), *other, *client = START("add", "x", "1",
									 "sleep", "1000");

	(void)state;
	spawn_await(server, "is connected", 1);
	other = START("add", "x", "1", "sleep", "2", "get", "x");
	spawn_end(client, SIGKILL);
	spawn_await(server, "is connected", 2);
	client = START("add", "x", "1");
	spawn_ends_well(client);
	spawn_ends_well(other);
	assert_int_equal(spawn_lines(other, "x is"), 1);
	spawn_await(server, "client 1 has crashed", 1);
	spawn_await(server, "has left", 2);
	spawn_end(server, SIGTERM);
}

/*
 * Soft-RoCE keeps a queue pair's old route even after RESET.  If the server came back with another
 * address, its clients would have to send new requests.
 */
static struct spawn *serve_at_the_same_port(void)
{
	struct spawn *server;

	setenv("HARTEBEEST_DEVICE", ranks_port(0), 1);
	server = START("serve");
	unsetenv("HARTEBEEST_DEVICE");
	return server;
}

/* The clients continue with the new server and its table. */
static void a_server_that_is_restarted(void **state)
{
	struct spawn *server = serve_at_the_same_port(), *clients[CLIENTS];
	int i, count = unit_whole() ? CLIENTS : 2;

	(void)state;
	for (i = 0; i < count; i++)
		clients[i] = START("add", "x", "100", "sleep", "4", "add", "y", "1",
				   "sleep", "4", "get", "y");
	spawn_await(server, "is connected", count);
	spawn_end(server, SIGKILL);
	server = serve_at_the_same_port();
	spawn_await(server, "is still there", count);
	for (i = 0; i < count; i++) {
		spawn_ends_well(clients[i]);
		assert_true(spawn_lines(clients[i], "connecting again") > 0);
		assert_int_equal(spawn_lines(clients[i], "asking again"), 0);
	}
	spawn_await(server, "has left", count);
	spawn_end(server, SIGTERM);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, spawn_setup, spawn_teardown)

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
