/* SPDX-License-Identifier: MIT */
/*
 * began.h - skips a test where nothing says when a child has begun
 *
 * qemu's emulation of a processor answers in place of /proc, and says of a forked child when its
 * parent began.
 */
#ifndef TESTS_BEGAN_H
#define TESTS_BEGAN_H

#include "lib/base/process.h"
#include "tests/support/pause.h"
#include "tests/support/timer.h"
#include "tests/support/unit.h"

static inline void began_need(void)
{
	int64_t began = beest_process_began(getpid());
	int status = -1;
	pid_t child;

	pause_ms(50);				/* a process begins by a clock of 10 ms */
	child = fork();
	if (child == 0)
		_exit(beest_process_began(getpid()) == began);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (status)
		skip();
}

#endif
