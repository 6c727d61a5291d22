/* SPDX-License-Identifier: MIT */
/* fake-process.c - see fake-process.h */
#include "config.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/process.h"
#include "tests/support/fake-process.h"

uint32_t fake_process;

/* Belongs to no process on this machine, so process ids mean nothing. */
int beest_process_mark(uint8_t mark[BEEST_PROCESS_SIZE])
{
	uint32_t halves[2] = { ~fake_process, fake_process };

	memcpy(mark, halves, BEEST_PROCESS_SIZE);
	return 0;
}

static pid_t pid;			/* 0: unknown */

static void pid_forget(void)
{
	pid = 0;
}

static void pid_watch(void)
{
	pthread_atfork(NULL, NULL, pid_forget);
}

/* The library asks at each look.  Only fork(3) changes the answer, so spare the system call. */
pid_t getpid(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!pid) {
		pthread_once(&once, pid_watch);
		pid = (pid_t)syscall(SYS_getpid);
	}
	return pid;
}
