/* SPDX-License-Identifier: MIT */
/*
 * timer.h - interrupts a test program repeatedly, for runs that ask for it
 *
 * With BEEST_TEST_TIMER_MS in the environment, a timer whose handler lacks SA_RESTART runs
 * from the start of the program, also in forked ranks.  The signal reaches every thread.  No
 * result of a test may depend on it.
 */
#ifndef TESTS_TIMER_H
#define TESTS_TIMER_H

#include <errno.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* A test waits for its children however often it is interrupted. */
#define waitpid(pid, status, options) TEMP_FAILURE_RETRY(waitpid(pid, status, options))

/* Links this file into the program; it starts by itself. */
void timer_need(void);

/* Call it before exec(2): the new program must not die of a pending signal. */
void timer_leave(void);

#endif
