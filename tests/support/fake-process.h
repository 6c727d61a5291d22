/* SPDX-License-Identifier: MIT */
/*
 * fake-process.h - contexts of one process that look like those of many
 *
 * tests/support/libfakekv.a, linked before lib/libbeest.la, defines the functions of
 * lib/base/process.h, and getpid(2).  A test sets the number before it opens a context.  The
 * clock of all hosts is beest_clock_now().
 */
#ifndef FAKE_PROCESS_H
#define FAKE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct beest_incarnation;

/* Equal for contexts of the same process.  Each process is on its own host, or all on one. */
extern uint32_t fake_process;
extern bool fake_process_one_host;

/* What getpid(2) says; 0: the truth. */
extern pid_t fake_process_pid;

/* Replaces beest_process_began(); NULL: unknown for all. */
extern int64_t (*fake_process_began)(pid_t pid);

/* All processes live, each on its own host; what hides deaths stays. */
void fake_process_reset(void);

/* From now on others know that this process is dead, as they do on the same host; ... */
void fake_process_kill(const struct beest_incarnation *incarnation);

/* ... unless this is set. */
extern bool fake_process_hides_deaths;

#endif
