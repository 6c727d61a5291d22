/* SPDX-License-Identifier: MIT */
/*
 * timer.h - interrupts a test program again and again, for runs that ask for it
 *
 * With BEEST_TEST_TIMER_MS in the environment a timer with a handler without SA_RESTART
 * runs from the start of the program on, in forked ranks too.  The signal reaches every
 * thread.  Nothing a test says may depend on it.
 */
#ifndef TESTS_TIMER_H
#define TESTS_TIMER_H

#include <errno.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* A test waits for its children however often it is interrupted. */
#define waitpid(pid, status, options) TEMP_FAILURE_RETRY(waitpid(pid, status, options))

/* Keeps this file in the program: it begins by itself. */
void timer_need(void);

/* Before exec(2): the new program must not die of a signal that is under way. */
void timer_leave(void);

#endif
