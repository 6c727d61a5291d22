/* SPDX-License-Identifier: MIT */
/*
 * start.c - how long until two programs have started and hold each other's message
 *
 * The clock runs from before the first fork(2) until the later message has arrived.  Loading,
 * opening and connecting are measured, closing is not.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "bench/bench.h"

static pid_t start(const struct bench_pass *pass, const char *name, const char *rank, int output)
{
	const char *program = bench_program(name);
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm((unsigned int)pass->limit);
	dup2(output, STDOUT_FILENO);
	execl(program, name, rank, pass->server, pass->job, (char *)NULL);
	_exit(127);
}

static bool ended_well(pid_t pid)
{
	int state;

	return waitpid(pid, &state, 0) == pid && WIFEXITED(state) && WEXITSTATUS(state) == 0;
}

static int two(struct bench_pass *pass, const char *name)
{
	int64_t begin = bench_clock();
	long long stamp, last = 0;
	pid_t first, second;
	int ends[2], count = 0;
	bool well;
	FILE *output;

	if (pipe(ends) < 0)
		return -errno;
	first = start(pass, name, "0", ends[1]);
	second = start(pass, name, "1", ends[1]);
	close(ends[1]);
	output = fdopen(ends[0], "r");
	while (fscanf(output, "0 %lld\n", &stamp) == 1) {
		last = stamp > last ? stamp : last;
		count++;
	}
	fclose(output);
	well = ended_well(first);
	well = ended_well(second) && well;
	pass->figures[BENCH_TIME] = (double)(last - begin) / 1e6;
	return well && count == 2 ? 0 : -EIO;
}

static int ours_programs(struct bench_pass *pass)
{
	return two(pass, "start-ours");
}

static int plain_programs(struct bench_pass *pass)
{
	return two(pass, "start-plain");
}

/* The ranks of PMIx print 0 as their start. */
static int pmix_programs(struct bench_pass *pass)
{
	double begin = (double)bench_clock() / 1e6;
	int ret = bench_command(pass, 2, BENCH_MPIRUN " -n 2 %s start", pass->limit,
				bench_program("pmix"));

	pass->figures[BENCH_TIME] -= begin;
	return ret;
}

#define OURS "hartebeest"
#define PLAIN "plain libmemcached"
#define PMIX "PMIx under mpirun"

static const struct bench_side sides[] = {
	{ .name = OURS, .programs = ours_programs },
	{ .name = PLAIN, .programs = plain_programs },
	{ .name = PMIX, .programs = pmix_programs, .missing = bench_pmix_missing },
	{ .name = NULL }
};

static const struct bench_goal goals[] = {
	{ BENCH_GUARD, OURS, BENCH_TIME, PLAIN, 2, 2, 0, 1.5 },
	{ BENCH_GUARD, OURS, BENCH_TIME, PMIX, 2, 2, 0, 1 / 12.0 },
	{ BENCH_AIM, OURS, BENCH_TIME, PLAIN, 2, 2, 0, 1.3 },
	{ .side = NULL }
};

static const int sizes[] = { 2, 0 };

int main(int argc, char **argv)
{
	static const struct bench bench = {
		.name = "start",
		.title = "from exec(2) of two programs until both hold a message",
		.sizes = sizes,
		.sides = sides,
		.goals = goals,
		.ranks = 2,
	};

	return bench_main(argc, argv, &bench);
}
