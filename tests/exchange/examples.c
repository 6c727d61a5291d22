/* SPDX-License-Identifier: MIT */
/* examples.c - the examples that need no device, run as two processes */
#include "config.h"

#include "tests/support/memcached.h"
#include "tests/support/program.h"
#include "tests/support/unit.h"

static void message(void **state)
{
	(void)state;
	program_run("examples/message", "rank 0 of 2: 1.5 2.5 3.5\n",
		    "rank 1 of 2: 1.5 2.5 3.5\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(message),
	};

	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
