/* SPDX-License-Identifier: MIT */
/*
 * examples.c - the examples that need no device, and one that fails before it needs one
 *
 * promise: hartebeest(3)
 */
#include "config.h"

#include <stdio.h>

#include "tests/support/memcached.h"
#include "tests/support/program.h"
#include "tests/support/talk.h"
#include "tests/support/unit.h"

static void message(void **state)
{
	const struct program program = {
		"message", 2, .says = { "rank # of 2: 1.5 2.5 3.5\n" },
	};

	(void)state;
#ifndef HAVE_FORTRAN
	skip();
#endif
	program_run("exchange/examples", &program);
}

/* The library's sentence, not one that follows from the negative errno. */
static void hello_with_a_typo(void **state)
{
	static struct talk talk;
	char path[512];
	size_t used;

	(void)state;
	talk_build_folder(path, sizeof(path));
	used = strlen(path);
	snprintf(path + used, sizeof(path) - used, "/examples/hello");
	assert_int_equal(TALK(&talk, "/usr/bin/env", "HARTEBEEST_NID=0",
			      "HARTEBEEST_PARTICIPANT=0,1", path), 1);
	talk_complains(&talk, "unknown environment variable HARTEBEEST_PARTICIPANT, the nearest "
		       "is");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(message),
		cmocka_unit_test(hello_with_a_typo),
	};

	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
