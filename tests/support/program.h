/* SPDX-License-Identifier: MIT */
/*
 * program.h - an example as two processes, and what they print
 */
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

/*
 * Runs @path, from the build folder, as ranks 0 and 1 beside a Memcached server of their
 * own; asserts that both succeed and that each prints its text.
 */
void program_run(const char *path, const char *expected_0, const char *expected_1);

/* The same with up to two arguments for each rank; NULL: none, or no more. */
void program_run_with(const char *path, const char *const arguments[2][2],
		      const char *expected_0, const char *expected_1);

#endif
