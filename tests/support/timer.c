/* SPDX-License-Identifier: MIT */
/*
 * timer.c - see timer.h
 *
 * Uses timer_create(2), since tests use alarm(2) and setitimer(2) themselves.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/timer.h"

/*
 * Not a real-time signal: those are queued, and while a thread blocks them or stands still they
 * use up what setrlimit(2) allows all of the user's processes (RLIMIT_SIGPENDING).  Nothing else
 * in the tests uses this one.
 */
#define SIGNAL SIGVTALRM

static long period_ms;

/* Since glibc 2.32: false once there may be other threads. */
extern char __libc_single_threaded __attribute__((weak));

struct entry {
	uint64_t inode, offset;
	unsigned short size;
	unsigned char type;
	char name[];
};

static void pass_on(const char *names, long size)
{
	const struct entry *entry;
	long at;

	for (at = 0; at < size; at += entry->size) {
		entry = (const struct entry *)(names + at);
		if (entry->name[0] != '.' && atoi(entry->name) != getpid())
			syscall(SYS_tgkill, getpid(), atoi(entry->name), SIGNAL);
	}
}

/* The kernel prefers the main thread, which passes the signal on to all others. */
static void tick(int signal)
{
	char names[4096] __attribute__((aligned(8)));
	int fd, saved = errno;
	long size;

	(void)signal;
	if (&__libc_single_threaded && __libc_single_threaded)
		return;
	if (syscall(SYS_gettid) != getpid())
		return;
	fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (fd >= 0 && (size = syscall(SYS_getdents64, fd, names, sizeof(names))) > 0)
		pass_on(names, size);
	if (fd >= 0)
		close(fd);
	errno = saved;
}

static void begin(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGNAL };
	struct itimerspec times = {
		.it_value = { period_ms / 1000, period_ms % 1000 * 1000000 },
		.it_interval = { period_ms / 1000, period_ms % 1000 * 1000000 },
	};
	timer_t timer;

	if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0 ||
	    timer_settime(timer, 0, &times, NULL) < 0)
		abort();
}

/* Runs before main(), which may clear the environment.  Timers are not inherited by a fork. */
__attribute__((constructor)) static void start(void)
{
	const char *ms = getenv("BEEST_TEST_TIMER_MS");
	struct sigaction action = { .sa_handler = tick };

	if (!ms)
		return;
	period_ms = atol(ms);
	sigaction(SIGNAL, &action, NULL);
	pthread_atfork(NULL, NULL, begin);
	begin();
}

void timer_need(void)
{
}

void timer_leave(void)
{
	signal(SIGNAL, SIG_IGN);
}
