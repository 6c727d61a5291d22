/* SPDX-License-Identifier: MIT */
/* process.c - the mark of a process, here and in a forked child */
#include "config.h"

#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/process.h"
#include "tests/support/timer.h"
#include "tests/support/unit.h"

static void one_process_has_one_mark(void **state)
{
	uint8_t first[BEEST_PROCESS_SIZE], second[BEEST_PROCESS_SIZE];

	(void)state;
	assert_int_equal(beest_process_mark(first), 0);
	assert_int_equal(beest_process_mark(second), 0);
	assert_memory_equal(first, second, BEEST_PROCESS_SIZE);
}

static void a_child_is_another_of_the_same_place(void **state)
{
	uint8_t mine[BEEST_PROCESS_SIZE], its[BEEST_PROCESS_SIZE] = { 0 };
	int ends[2], status = -1;
	pid_t pid;

	(void)state;
	assert_int_equal(beest_process_mark(mine), 0);
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0)
		_exit(beest_process_mark(its) < 0 ||
		      write(ends[1], its, sizeof(its)) != (ssize_t)sizeof(its));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(ends[0], its, sizeof(its)), sizeof(its));
	assert_memory_equal(mine, its, BEEST_PLACE_SIZE);
	assert_memory_not_equal(mine, its, BEEST_PROCESS_SIZE);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_process_has_one_mark),
		cmocka_unit_test(a_child_is_another_of_the_same_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
