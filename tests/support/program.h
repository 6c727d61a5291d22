/* SPDX-License-Identifier: MIT */
/*
 * program.h - an example as two processes, and what they print
 */
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

/*
 * Runs @path, relative to the build folder, as ranks 0 and 1 with their own Memcached server;
 * asserts that both succeed and print the expected texts.
 */
void program_run(const char *path, const char *expected_0, const char *expected_1);

/* The same with up to two arguments for each rank; NULL: none, or no more. */
void program_run_with(const char *path, const char *const arguments[2][2],
		      const char *expected_0, const char *expected_1);

#endif
