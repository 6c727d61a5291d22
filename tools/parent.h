/* SPDX-License-Identifier: MIT */
/*
 * parent.h - a process that must not outlive its parent
 */
#ifndef TOOLS_PARENT_H
#define TOOLS_PARENT_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

#include "tools/command.h"

/* Called after fork(2): this process gets @signal_number when @parent ends. */
static inline void parent_end_with(pid_t parent, int signal_number)
{
	prctl(PR_SET_PDEATHSIG, signal_number);
	if (getppid() != parent)
		_exit(STATUS_FAILED);
}

#endif
