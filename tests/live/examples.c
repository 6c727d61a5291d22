/* SPDX-License-Identifier: MIT */
/*
 * examples.c - the examples as two processes, and what they print
 *
 * examples/original stands for programs written for the original Hartebeest.
 */
#include "config.h"

#include "tests/support/live.h"
#include "tests/support/memcached.h"
#include "tests/support/program.h"
#include "tests/support/unit.h"

static void hello(void **state)
{
	(void)state;
	program_run("examples/hello", "a reads: hello from b\n", "b reads: hello from a\n");
}

static void original(void **state)
{
	(void)state;
	program_run("examples/original", "node 0: acknowledged\n", "node 1: a string from node 0\n");
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

int main(void)
{
	const struct CMUnitTest tests[] = {
#if HAVE_CXX
		cmocka_unit_test(core),
		cmocka_unit_test(raii),
#endif
#if HAVE_FORTRAN
		cmocka_unit_test(fortran),
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
