/* SPDX-License-Identifier: MIT */
/*
 * slurm.c - hartebeest(1) under a real srun, on a real device
 *
 * Owns a cluster of one node: munged, slurmctld and slurmd.  They listen only at the address of
 * this host's name, and keep all their files in one folder.  Slurm settings of this machine are
 * not read.
 *
 * promise: hartebeest(7)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/talk.h"


static const char *tool;
static char folder[SCRATCH_SIZE];
static struct cache *cache;
static struct talk talk;
static pid_t daemons[3];

#define SRUN(...) TALK(&talk, "/usr/bin/env", "srun", "--overcommit", "-n", __VA_ARGS__)
#define SAYS(text) talk_says(&talk, text)

/* ------------------------------------------------------------ the cluster --- */

static int BEEST_PRINTF(1, 2) shell(const char *format, ...)
{
	char command[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	return system(command);
}

static int free_port(void)
{
	struct beest_hostport port;

	close(bind_free(&port));
	return atoi(strrchr(port.text, ':') + 1);
}

static FILE *settings(const char *name)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	return file;
}

/* slurmd uses control groups of version 1 only if a setting asks for them; none does. */
static void write_settings(void)
{
	char path[128], host[64] = "";
	FILE *file = settings("cgroup.conf");

	fputs("CgroupPlugin=cgroup/v1\n", file);
	assert_int_equal(fclose(file), 0);

	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	file = settings("slurm.conf");
	fprintf(file, "ClusterName=hartebeest\n"
		"SlurmctldHost=%s\nSlurmctldPort=%d\nSlurmdPort=%d\n"
		"CommunicationParameters=NoCtldInAddrAny,NoInAddrAny\n", host, free_port(),
		free_port());
	fprintf(file, "SlurmUser=%s\nSlurmdUser=%s\n", getpwuid(geteuid())->pw_name,
		getpwuid(geteuid())->pw_name);
	fprintf(file, "AuthType=auth/munge\nAuthInfo=socket=%s/munge\nCredType=cred/munge\n"
		"StateSaveLocation=%s/state\nSlurmdSpoolDir=%s/spool\n"
		"SlurmctldPidFile=%s/slurmctld.pid\nSlurmdPidFile=%s/slurmd.pid\n"
		"PlugStackConfig=%s/no-plugins\n", folder, folder, folder, folder, folder, folder);
	fprintf(file, "ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nMpiDefault=none\n"
		"SchedulerType=sched/builtin\nSelectType=select/linear\n"
		"NodeName=%s CPUs=1 State=UNKNOWN\n"
		"PartitionName=all Nodes=%s Default=YES State=UP\n", host, host);
	assert_int_equal(fclose(file), 0);
	snprintf(path, sizeof(path), "%s/slurm.conf", folder);
	setenv("SLURM_CONF", path, 1);
}

/* Starts a daemon; its output goes to a file of its name. */
static pid_t begin(const char *const *words)
{
	pid_t pid;
	int to;

	fflush(NULL);
	pid = fork();
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	timer_leave();
	if (chdir(folder) == 0) {
		to = open(words[0], O_WRONLY | O_CREAT | O_APPEND, 0600);
		dup2(to, STDOUT_FILENO), dup2(to, STDERR_FILENO);
		execvp(words[0], (char *const *)words);
	}
	_exit(127);
}

static bool one_has_ended(void)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(daemons); i++)
		if (daemons[i] > 0 && waitpid(daemons[i], NULL, WNOHANG) == daemons[i]) {
			daemons[i] = 0;
			return true;
		}
	return false;
}

/* Waits until @command succeeds; fails if a daemon ends. */
static void await(const char *command)
{
	while (shell("cd %s && %s", folder, command) != 0) {
		if (one_has_ended()) {
			shell("cd %s && for each in munged slurmctld slurmd; do "
			      "tail -n 20 $each; done >&2", folder);
			fail_msg("never: %s", command);
		}
		pause_ms(100);
	}
}

/* munged requires that everybody may enter its folder. */
static void start_cluster(void)
{
	chmod(folder, 0711);
	write_settings();
	assert_int_equal(shell("cd %s && mkdir state spool && umask 077 && "
			       "head -c 128 /dev/urandom >key", folder), 0);
	daemons[0] = begin((const char *[]){ "munged", "-F", "--key-file=key", "--socket=munge",
					     "--pid-file=munged.pid", "--seed-file=seed", NULL });
	await("test -S munge");
	daemons[1] = begin((const char *[]){ "slurmctld", "-D", "-i", NULL });
	daemons[2] = begin((const char *[]){ "slurmd", "-D", NULL });
	await("sinfo -h -o %T 2>/dev/null | grep -q idle");
}

/* munged, which the others need, ends last. */
static void end_cluster(void)
{
	int i;

	for (i = BEEST_COUNT(daemons) - 1; i >= 0; i--) {
		if (daemons[i] <= 0)
			continue;
		kill(daemons[i], SIGTERM);
		waitpid(daemons[i], NULL, 0);
	}
	shell("rm -rf %s", folder);
}

static int setup(void **state)
{
	(void)state;
	cache = cache_start(NULL);
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
	setenv("HARTEBEEST_TIMEOUT", RANKS_PATIENCE, 1);
	unsetenv("HARTEBEEST_NID");
	unsetenv("HARTEBEEST_JOB");
	start_cluster();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	end_cluster();
	cache_end(cache);
	return 0;
}

static void succeeds(int status)
{
	if (status != 0)
		fail_msg("ended with %d:\n%s%s", status, talk.out, talk.err);
}

/* ----------------------------------------------------------------- tests --- */

static void where_rank_and_job_come_from(void **state)
{
	(void)state;
	succeeds(SRUN("2", "-l", tool, "info"));
	SAYS("0:   OK    rank          rank 0 of 2 (from SLURM_PROCID, SLURM_STEP_NUM_TASKS), "
	     "local rank 0 (from SLURM_LOCALID), job 1.0 (from SLURM_JOB_ID");
	SAYS("1:   OK    rank          rank 1 of 2 (from SLURM_PROCID, SLURM_STEP_NUM_TASKS), "
	     "local rank 1 (from SLURM_LOCALID), job 1.0 (from SLURM_JOB_ID");
}

static void a_mesh_of_four(void **state)
{
	(void)state;
	succeeds(SRUN("4", tool, "mesh", "-c", "5"));
	SAYS("mesh of 4 ranks, RC write of 8 bytes");
	SAYS("  OK    pairs       12 of 12 work: least ");
}

/* Like the job script in the manual; each step is a job of its own. */
static void barriers_of_a_step(void **state)
{
	(void)state;
	succeeds(SRUN("3", "sh", "-c", "$0 msg barrier staged -t 1h && echo past", tool));
	SAYS("past\npast\npast\n");
	assert_int_equal(TALK(&talk, tool, "keys", "--all"), 0);
	SAYS("  --    3.0  ");
}

/* The server comes with the job: of one step, and of a batch script whose steps have own ids. */
static void a_server_of_the_job(void **state)
{
	(void)state;
	unsetenv("HARTEBEEST_EXC_IP_PORT");
	setenv("HOME", folder, 1);
	succeeds(TALK(&talk, tool, "serve", "--", "srun", "--overcommit", "-n", "2", tool, "mesh",
		      "-c", "5"));
	SAYS("  OK    pairs       2 of 2 work: least ");
	succeeds(TALK(&talk, "/bin/sh", "-c", "eval \"$($0 serve --background)\"; for i in 1 2; do "
		      "srun --overcommit -n 2 sh -c \"$0 msg barrier all && echo past\"; done; "
		      "$0 keys --all", tool));
	SAYS("past\npast\npast\npast\n");
	SAYS("  --    5.0  ");
	SAYS("  --    6.0  ");
	assert_int_equal(shell("test -z \"$(ls %s/.hartebeest)\"", folder), 0);
	setenv("HARTEBEEST_EXC_IP_PORT", cache_hostport(cache)->text, 1);
}

/* In the long run. */
static void a_ping_by_ranks(void **state)
{
	(void)state;
	succeeds(SRUN("2", tool, "ping", "-c", "5"));
	SAYS("RC write to rank 1");
	SAYS("  OK    data        5 of 5 returned");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(where_rank_and_job_come_from),
		cmocka_unit_test(a_mesh_of_four),
		cmocka_unit_test(barriers_of_a_step),
		cmocka_unit_test(a_server_of_the_job),
		/* The last one, since the others assert the numbers of jobs. */
		{ unit_whole() ? "a_ping_by_ranks" : NULL, a_ping_by_ranks, NULL, NULL, NULL },
	};
	char path[4096];

	snprintf(path, sizeof(path), "%s:/usr/sbin:/sbin", getenv("PATH"));
	setenv("PATH", path, 1);
	if (system("for each in munged slurmctld slurmd srun; do "
		   "command -v $each >/dev/null || exit 1; done") != 0) {
		fprintf(stderr, "Slurm is not installed: slurmctld, slurmd, slurm-client, munge\n");
		return 77;
	}
	ranks_need_device();
	cache_need();
	tool = talk_tool();
	scratch_folder(folder, "hartebeest-slurm");
	return cmocka_run_group_tests(tests, setup, teardown);
}
