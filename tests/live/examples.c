/* SPDX-License-Identifier: MIT */
/*
 * examples.c - runs each example as the ranks of a job, and checks their output
 *
 * examples/original represents programs written for the original Hartebeest.
 *
 * promise: hartebeest(3)
 */
#include "config.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/live.h"
#include "tests/support/memcached.h"
#include "tests/support/program.h"
#include "tests/support/spawn.h"
#include "tests/support/unit.h"

static const struct program programs[] = {
#if HAVE_CXX
	{ "core", 2, .says = { "node 0: acknowledged\n",
			      "node 1: a string from node 0, in C++\n" } },
	{ "raii", 2, .says = { "a reads: hello from b\n", "b reads: hello from a\n" } },
	{ "raii-mesh", 2, .says = { "rank # of 2: 0 1\n" } },
#endif
#if HAVE_FORTRAN
	{ "fortran", 2, .says = { "rank a reads: 2.5 3.5 4.5\n",
				 "rank b reads: 1.5 2.5 3.5\n" } },
#endif
	{ "bytes", 1, .says = { "a reads: hello from b\n", "b reads: hello from a\n" } },
	{ "adopt", 2, .says = { "200 round trips of 1024 bytes, " } },
	{ "stencil", 2, .says = { "tile # of 2 x 1: 50 steps, 0 of 16 rows are wrong\n" } },
	{ "stencil", 3, .says = { "tile # of 3 x 1: 50 steps, 0 of 16 rows are wrong\n" } },
	{ "stencil", 4, .says = { "tile # of 2 x 2: 50 steps, 0 of 16 rows are wrong\n" } },
	{ "atomics", 2, .says = { "rank #: 400 tickets were drawn, 400 are in the account\n" } },
	{ "atomics", 3, .says = { "rank #: 600 tickets were drawn, 600 are in the account\n" } },
	{ "atomics", 4, .says = { "rank #: 800 tickets were drawn, 800 are in the account\n" } },
	{ "datagram", 2, .says = { "rank # hears: hello from rank @\n" } },
	{ "datagram", 3, .says = { "rank # hears: hello from rank @\n" } },
	{ "datagram", 4, .says = { "rank # hears: hello from rank @\n" } },
	{ "mesh", 2, .says = { "rank # of 2, 1 queue pairs in * us: 0 1\n" } },
	{ "mesh", 3, .says = { "rank # of 3, 2 queue pairs in * us: 0 1 4\n" } },
	{ "mesh", 4, .says = { "rank # of 4, 3 queue pairs in * us: 0 1 4 9\n" } },
	{ "adopt-srq", 2, .says = { "returned 100 messages\n", "100 of 100 came back right\n" } },
	{ "registry", 2, .says = { "client-1 has come\nclients served: 1\n",
				  "client-1: 10 echoes\n" } },
	{ "srq", 2, .says = { "rank 1 sent 100 messages\n", "rank 1: all sent\n" } },
	{ "epoll", 2, .says = { "tick 4 of the other, and 5 of 5\n" } },
	{ "hello", 2, .says = { "a reads: hello from b\n", "b reads: hello from a\n" } },
	{ "original", 2, .says = { "node 0: acknowledged\n", "node 1: a string from node 0\n" } },
	{ "pair", 2, .says = { "SEND and RECV 8192 bytes: contents right" } },
};

static void example(void **state)
{
	program_run("live/examples", *state);
}

/* examples/adopt was made from this one, so comparing the two is useful only if both work. */
static void pingpong_socket(void **state)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	socklen_t size = sizeof(any);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char port[8];
	const struct program program = {
		"pingpong-socket", 2, .says = { "200 round trips of 1024 bytes, " },
		.arguments = { { port }, { port, "127.0.0.1" } },
	};

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&any, size), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &size), 0);
	close(fd);
	snprintf(port, sizeof(port), "%u", ntohs(any.sin_port));
	program_run("live/examples", &program);
}

/* Kills each end in turn; the new process continues from the number that the other end has. */
static void reconnect(void **state)
{
	static const char *const end[] = { "60", NULL };
	struct spawn *ranks[2];
	int killed;

	(void)state;
	for (killed = 0; killed < 2; killed++)
		ranks[killed] = spawn_start("examples/reconnect", killed, end);
	for (killed = 0; killed < 2; killed++) {
		spawn_await(ranks[!killed], killed ? "\n40\n" : "\n20\n", 1);
		spawn_end(ranks[killed], SIGKILL);
		ranks[killed] = spawn_start("examples/reconnect", killed, end);
	}
	for (killed = 0; killed < 2; killed++) {
		spawn_ends_well(ranks[killed]);
		assert_int_equal(spawn_lines(ranks[killed], "\n60\n"), 1);
		assert_int_equal(spawn_lines(ranks[killed], "\n1\n"), 0);
	}
	assert_true(spawn_lines(ranks[0], "the peer is gone\n") > 0);
}

int main(void)
{
	struct CMUnitTest tests[BEEST_COUNT(programs) + 2] = {
		cmocka_unit_test(pingpong_socket),
		cmocka_unit_test_setup_teardown(reconnect, spawn_setup, spawn_teardown),
	};
	char names[BEEST_COUNT(programs)][64];
	size_t i;

	for (i = 0; i < BEEST_COUNT(programs); i++) {
		snprintf(names[i], sizeof(names[i]), "%s with %d ranks", programs[i].name,
			 programs[i].ranks);
		tests[2 + i].name = names[i];
		tests[2 + i].test_func = example;
		tests[2 + i].initial_state = (void *)&programs[i];
	}
	ranks_need_device();
	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
