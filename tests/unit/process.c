/* SPDX-License-Identifier: MIT */
/* process.c - the mark of a process, when it began, and whether it has ended */
#include "config.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/macro.h"
#include "lib/base/process.h"
#include "tests/support/began.h"
#include "tests/support/scratch.h"
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
	began_need();
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

/* Of this place; the mark differs from that of this process. */
static bool is_dead(pid_t pid, time_t since)
{
	struct beest_incarnation own = { { 0 } }, other;

	assert_int_equal(beest_process_mark(own.bytes), 0);
	other = own;
	other.bytes[BEEST_PROCESS_SIZE - 1] ^= 1;

	return beest_process_is_dead(&other, pid, (uint64_t)since, &own);
}

/* A dead process is known as such as soon as it has ended, and when its id is in use again. */
static void the_dead_are_told_from_the_living(void **state)
{
	struct beest_incarnation own = { { 0 } }, stranger = { { 1, 2, 3 } };
	siginfo_t info;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	assert_false(is_dead(pid, time(NULL)));
	assert_true(is_dead(pid, time(NULL) - 3600));	/* this one had not begun by then */
	assert_true(is_dead(getpid(), time(NULL)));	/* and has another mark now */
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_true(is_dead(pid, time(NULL)));		/* not waited for */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(is_dead(pid, time(NULL)));
	assert_int_equal(beest_process_mark(own.bytes), 0);
	assert_false(beest_process_is_dead(&stranger, pid, 0, &own));
	assert_false(beest_process_is_dead(&own, pid, 0, &own));
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

static int change_root(void)
{
	bool good = is_same_place();

	return chroot(scratch()) < 0 || !good || !is_same_place();
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
		cmocka_unit_test(where_a_process_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
