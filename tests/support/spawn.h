/* SPDX-License-Identifier: MIT */
/*
 * spawn.h - examples as processes that come, crash and return, and what they print
 *
 * Owns the processes, the files that they print to, and a Memcached server for all of them.
 * For programs that run from start to end as ranks 0 and 1 there is program.h.
 */
#ifndef TESTS_SPAWN_H
#define TESTS_SPAWN_H

#include <stddef.h>

struct spawn;

/* A server for a test, and its end; for cmocka_unit_test_setup_teardown(). */
int spawn_setup(void **state);
int spawn_teardown(void **state);

/*
 * Starts @path, from the build folder, with @words, a list that NULL ends.  Port: one after
 * the other.  @rank: of two, on the port of that number; -1: without a rank.
 */
struct spawn *spawn_start(const char *path, int rank, const char *const *words);

/* All that it has printed, and how often it printed @words. */
const char *spawn_printed(struct spawn *spawn);
size_t spawn_lines(struct spawn *spawn, const char *words);

/* Until it has printed @words @count times; fails after two minutes. */
void spawn_await(struct spawn *spawn, const char *words, size_t count);

/* Sends it a signal that ends it. */
void spawn_end(struct spawn *spawn, int signal_number);

/* Until it ends, which it does well. */
void spawn_ends_well(struct spawn *spawn);

#endif
