/* SPDX-License-Identifier: MIT */
/* process.c - the mark of a process, when it began, and whether it is alive */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/file.h"
#include "lib/base/macro.h"
#include "lib/base/process.h"
#include "tests/support/pause.h"
#include "tests/support/timer.h"
#include "tests/support/unit.h"

static void one_process_has_one_mark(void **state)
{
	uint8_t first[BEEST_PROCESS_SIZE], second[BEEST_PROCESS_SIZE];

	(void)state;
	assert_int_equal(beest_process_mark(first), 0);
	assert_int_equal(beest_process_mark(second), 0);
	assert_memory_equal(first, second, BEEST_PROCESS_SIZE);
}

static void a_child_is_another_of_the_same_place(void **state)
{
	uint8_t mine[BEEST_PROCESS_SIZE], its[BEEST_PROCESS_SIZE] = { 0 };
	int ends[2], status = -1;
	pid_t pid;

	(void)state;
	assert_int_equal(beest_process_mark(mine), 0);
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	if (pid == 0)
		_exit(beest_process_mark(its) < 0 ||
		      write(ends[1], its, sizeof(its)) != (ssize_t)sizeof(its));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(read(ends[0], its, sizeof(its)), sizeof(its));
	assert_memory_equal(mine, its, BEEST_PLACE_SIZE);
	assert_memory_not_equal(mine, its, BEEST_PROCESS_SIZE);
	close(ends[0]);
	close(ends[1]);
}

/* One that nobody has waited for has ended, too. */
static void a_zombie_has_ended(void **state)
{
	siginfo_t info;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_true(beest_process_has_ended(pid));
	assert_int_equal(beest_process_began(pid), -1);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(beest_process_has_ended(pid));
	assert_false(beest_process_has_ended(getpid()));
	assert_false(beest_process_has_ended(1));
}

static void began_before_now_and_in_order(void **state)
{
	int64_t before = beest_process_clock(), mine = beest_process_began(getpid());
	int64_t its;
	int status = -1;
	pid_t pid;

	(void)state;
	assert_true(mine > 0 && mine <= before);
	assert_true(beest_process_began(1) <= mine);
	pid = fork();
	if (pid == 0) {
		its = beest_process_began(getpid());
		_exit(its + BEEST_PROCESS_TICK < before || its > beest_process_clock() ||
		      beest_process_began(getppid()) != mine);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(beest_process_began(pid), -1);	/* it has ended */
}

/* A program's name may look like the rest of the line. */
static void a_strange_name(void **state)
{
	int64_t mine = beest_process_began(getpid());

	(void)state;
	assert_int_equal(prctl(PR_SET_NAME, "x) S 1 (y) 2"), 0);
	assert_int_equal(beest_process_began(getpid()), mine);
}

/* ----------------------------------------------------------------- dead or alive --- */

/* Of a process of this place, with another mark than this one. */
static enum beest_process_life life(pid_t pid, uint64_t ticks)
{
	struct beest_incarnation own = { { 0 } }, other;

	assert_int_equal(beest_process_mark(own.bytes), 0);
	other = own;
	other.bytes[BEEST_PROCESS_SIZE - 1] ^= 1;

	return beest_process_life(&other, pid, ticks, &own);
}

static void *rest(void *data)
{
	pause();
	return data;
}

/* It ends with the test at the latest. */
static pid_t start(bool ends_first_thread)
{
	pid_t pid = fork();
	pthread_t thread;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ends_first_thread && pthread_create(&thread, NULL, rest, NULL) == 0)
		pthread_exit(NULL);
	rest(NULL);
	_exit(0);
}

/* A dead process is known as such as soon as it has ended, and when its id is in use again. */
static void the_dead_are_told_from_the_living(void **state)
{
	const pid_t pid = start(false);
	const uint64_t ticks = beest_process_ticks(pid);
	const struct {
		pid_t pid;
		uint64_t ticks;
		enum beest_process_life life;	/* until the process is killed */
	} rows[] = {
		{ pid, ticks, BEEST_PROCESS_ALIVE },
		{ pid, ticks - 1, BEEST_PROCESS_DEAD },		/* the id is another's now */
		{ pid, ticks + 1, BEEST_PROCESS_DEAD },
		{ pid, 0, BEEST_PROCESS_UNKNOWN },
		{ getpid(), beest_process_ticks(getpid()), BEEST_PROCESS_DEAD },
		{ getpid(), 0, BEEST_PROCESS_DEAD },
	};
	siginfo_t info;
	size_t i;

	(void)state;
	assert_true(ticks > 0);
	for (i = 0; i < BEEST_COUNT(rows); i++)
		assert_int_equal(life(rows[i].pid, rows[i].ticks), rows[i].life);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	for (i = 0; i < BEEST_COUNT(rows); i++)
		assert_int_equal(life(rows[i].pid, rows[i].ticks), BEEST_PROCESS_DEAD);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	for (i = 0; i < BEEST_COUNT(rows); i++)
		assert_int_equal(life(rows[i].pid, rows[i].ticks), BEEST_PROCESS_DEAD);
}

static void nothing_is_known_of_other_places(void **state)
{
	struct beest_incarnation own = { { 0 } }, foreign = { { 1, 2, 3 } };

	(void)state;
	assert_int_equal(beest_process_mark(own.bytes), 0);
	assert_int_equal(beest_process_life(&foreign, getpid(), 1, &own), BEEST_PROCESS_UNKNOWN);
	assert_int_equal(beest_process_life(&own, getpid(), 1, &own), BEEST_PROCESS_ALIVE);
}

/* The first thread may end alone, and then looks like a process that has ended. */
static void a_process_lives_as_long_as_any_thread(void **state)
{
	const pid_t pid = start(true);
	const uint64_t ticks = beest_process_ticks(pid);
	char line[1024] = "";

	(void)state;
	while (!strstr(line, ") Z ")) {
		pause_ms(1);
		assert_true(beest_file_line(line, sizeof(line), "/proc/%d/stat", (int)pid));
	}
	assert_false(beest_process_has_ended(pid));
	assert_int_equal(life(pid, ticks), BEEST_PROCESS_ALIVE);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(life(pid, ticks), BEEST_PROCESS_DEAD);
}

/* ---------------------------------------------------------------- other surroundings --- */

#define REFUSED 77			/* an exit status */

static uint8_t before[BEEST_PROCESS_SIZE];	/* the mark of the process that starts the other */

static bool is_same_place(void)
{
	uint8_t now[BEEST_PROCESS_SIZE];

	return beest_process_mark(now) == 0 && memcmp(now, before, BEEST_PLACE_SIZE) == 0;
}

/* Calls @look in a further child. */
static int child_looks(int (*look)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(look());
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int look_here(void)
{
	return !is_same_place();
}

static int rename_host(void)
{
	if (sethostname("elsewhere", 9) < 0)
		return REFUSED;
	return !is_same_place() || child_looks(look_here);
}

/*
 * Then nobody reads of another process whether it is alive, but all know that one has ended.  The
 * root is a folder that everybody may enter by name: a new name space of users ends the right to
 * enter a scratch folder through /proc/PID/fd.
 */
static int change_root(void)
{
	const pid_t pid = start(false);
	const uint64_t ticks = beest_process_ticks(pid);
	bool good = is_same_place();

	if (chroot("/etc") < 0)
		good = false;
	good = good && is_same_place() && !beest_process_ticks(getpid()) &&
	       life(pid, ticks) == BEEST_PROCESS_UNKNOWN;
	kill(pid, SIGKILL);
	return waitpid(pid, NULL, 0) != pid || !good || life(pid, ticks) != BEEST_PROCESS_DEAD;
}

/* This process is process 1, but not that of /proc. */
static int look_with_another_proc(void)
{
	const pid_t pid = start(false);

	return is_same_place() || beest_process_ticks(getpid()) || beest_process_ticks(pid) ||
	       life(pid, 1) != BEEST_PROCESS_UNKNOWN;
}

static int leave_processes(void)
{
	return child_looks(look_with_another_proc);
}

static int look_elsewhere(void)
{
	return is_same_place();
}

static int leave_time(void)
{
	return child_looks(look_elsewhere);
}

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/* A name space of times, and perhaps the user, are for children. */
static void where_a_process_lives(void **state)
{
	static const struct {
		const char *what;
		int leaves;
		int (*look)(void);	/* in a child; 0, or REFUSED */
	} rows[] = {
		{ "the host has another name", CLONE_NEWUTS, rename_host },
		{ "without /proc", CLONE_NEWNS, change_root },
		{ "with the /proc of other processes", CLONE_NEWPID, leave_processes },
		{ "where the host began at another time", CLONE_NEWTIME, leave_time },
	};
	int status = -1;
	size_t i;
	pid_t pid;

	(void)state;
	assert_int_equal(beest_process_mark(before), 0);
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		pid = fork();
		if (pid == 0)
			_exit(unshare(rows[i].leaves | (geteuid() ? CLONE_NEWUSER : 0)) < 0 ?
			      REFUSED : rows[i].look());
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (WIFEXITED(status) && WEXITSTATUS(status) == REFUSED)
			print_message("%s: not permitted here\n", rows[i].what);
		else if (status)
			fail_msg("%s: status 0x%x", rows[i].what, (unsigned int)status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_process_has_one_mark),
		cmocka_unit_test(a_child_is_another_of_the_same_place),
		cmocka_unit_test(a_zombie_has_ended),
		cmocka_unit_test(began_before_now_and_in_order),
		cmocka_unit_test(a_strange_name),
		cmocka_unit_test(the_dead_are_told_from_the_living),
		cmocka_unit_test(nothing_is_known_of_other_places),
		cmocka_unit_test(a_process_lives_as_long_as_any_thread),
		cmocka_unit_test(where_a_process_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
