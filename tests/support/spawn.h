/* SPDX-License-Identifier: MIT */
/*
 * spawn.h - examples as processes that come, crash and return, and their output
 *
 * Owns the processes, their output files, and a Memcached server for all of them.  program.h is
 * for programs that run from start to end as ranks 0 and 1.
 */
#ifndef TESTS_SPAWN_H
#define TESTS_SPAWN_H

#include <stddef.h>

struct spawn;

/* Starts and stops the server of a test; for cmocka_unit_test_setup_teardown(). */
int spawn_setup(void **state);
int spawn_teardown(void **state);

/*
 * Starts @path, relative to the build folder, with @words, which NULL ends.  @rank: one of two, on
 * the port of that number; -1: without a rank, on the next port.
 */
struct spawn *spawn_start(const char *path, int rank, const char *const *words);

/* All its output; how often @words occurs in it. */
const char *spawn_printed(struct spawn *spawn);
size_t spawn_lines(struct spawn *spawn, const char *words);

/* Waits until it has printed @words @count times; fails if it ends before. */
void spawn_await(struct spawn *spawn, const char *words, size_t count);

/* Ends it by a signal. */
void spawn_end(struct spawn *spawn, int signal_number);

/* Waits until it ends, which must be successfully. */
void spawn_ends_well(struct spawn *spawn);

#endif
