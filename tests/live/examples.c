/* SPDX-License-Identifier: MIT */
/*
 * examples.c - runs each example as two processes, and checks their output
 *
 * examples/original represents programs written for the original Hartebeest.
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

static void hello(void **state)
{
	(void)state;
	program_run("examples/hello", "a reads: hello from b\n", "b reads: hello from a\n");
}

static void original(void **state)
{
	(void)state;
	program_run("examples/original", "node 0: acknowledged\n",
		    "node 1: a string from node 0\n");
}

#if HAVE_CXX
static void core(void **state)
{
	(void)state;
	program_run("examples/core", "node 0: acknowledged\n",
		    "node 1: a string from node 0, in C++\n");
}

static void raii(void **state)
{
	(void)state;
	program_run("examples/raii", "a reads: hello from b\n", "b reads: hello from a\n");
}

static void raii_mesh(void **state)
{
	(void)state;
	program_run("examples/raii-mesh", "rank 0 of 2: 0 1\n", "rank 1 of 2: 0 1\n");
}
#endif

#if HAVE_FORTRAN
static void fortran(void **state)
{
	(void)state;
	program_run("examples/fortran", "rank a reads: 2.5 3.5 4.5\n",
		    "rank b reads: 1.5 2.5 3.5\n");
}
#endif

static void mesh(void **state)
{
	(void)state;
	program_run("examples/mesh", ": 0 1\n", ": 0 1\n");
}

static void pair(void **state)
{
	(void)state;
	program_run("examples/pair", "SEND and RECV 8192 bytes: contents right",
		    "SEND and RECV 8192 bytes: contents right");
}

static void adopt(void **state)
{
	(void)state;
	program_run("examples/adopt", "200 round trips of 1024 bytes, ",
		    "200 round trips of 1024 bytes, ");
}

/* examples/adopt was made from this one, so comparing the two is useful only if both work. */
static void pingpong_socket(void **state)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	socklen_t size = sizeof(any);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char port[8];
	const char *const arguments[2][2] = { { port }, { port, "127.0.0.1" } };

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&any, size), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&any, &size), 0);
	close(fd);
	snprintf(port, sizeof(port), "%u", ntohs(any.sin_port));
	program_run_with("examples/pingpong-socket", arguments,
			 "200 round trips of 1024 bytes, ", "200 round trips of 1024 bytes, ");
}

static void stencil(void **state)
{
	(void)state;
	program_run("examples/stencil", "tile 0 of 2 x 1: 50 steps, 0 of 16 rows are wrong\n",
		    "tile 1 of 2 x 1: 50 steps, 0 of 16 rows are wrong\n");
}

static void atomics(void **state)
{
	(void)state;
	program_run("examples/atomics", "rank 0: 400 tickets were drawn, 400 are in the account\n",
		    "rank 1: 400 tickets were drawn, 400 are in the account\n");
}

static void datagram(void **state)
{
	(void)state;
	program_run("examples/datagram", "rank 0 hears: hello from rank 1\n",
		    "rank 1 hears: hello from rank 0\n");
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

static void adopt_srq(void **state)
{
	(void)state;
	program_run("examples/adopt-srq", "returned 100 messages\n",
		    "100 of 100 came back right\n");
}

static void registry(void **state)
{
	(void)state;
	program_run("examples/registry", "client-1 has come\nclients served: 1\n",
		    "client-1: 10 echoes\n");
}

static void srq(void **state)
{
	(void)state;
	program_run("examples/srq", "rank 1 sent 100 messages\n", "rank 1: all sent\n");
}

static void epoll(void **state)
{
	(void)state;
	program_run("examples/epoll", "tick 4 of the other, and 5 of 5\n",
		    "tick 4 of the other, and 5 of 5\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#if HAVE_CXX
		cmocka_unit_test(core),
		cmocka_unit_test(raii),
		cmocka_unit_test(raii_mesh),
#endif
#if HAVE_FORTRAN
		cmocka_unit_test(fortran),
#endif
		cmocka_unit_test(adopt),
		cmocka_unit_test(pingpong_socket),
		cmocka_unit_test(stencil),
		cmocka_unit_test(atomics),
		cmocka_unit_test(datagram),
		cmocka_unit_test_setup_teardown(reconnect, spawn_setup, spawn_teardown),
		cmocka_unit_test(adopt_srq),
		cmocka_unit_test(registry),
		cmocka_unit_test(srq),
		cmocka_unit_test(epoll),
		cmocka_unit_test(hello),
		cmocka_unit_test(original),
		cmocka_unit_test(mesh),
		cmocka_unit_test(pair),
	};

	ranks_need_device();
	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
