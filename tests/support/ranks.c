/* SPDX-License-Identifier: MIT */
/* ranks.c - see ranks.h */
#include "config.h"

#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/pause.h"
#include "tests/support/ranks.h"

void ranks_fail(const char *condition, const char *file, int line)
{
	fprintf(stderr, "%s:%d: rank %s: not true: %s\n  hartebeest_error: %s\n", file, line,
		getenv("HARTEBEEST_NID"), condition, hartebeest_error());
	_exit(1);
}

/* --------------------------------------------------------------- ports --- */

static bool is_active(const char *state_file)
{
	char line[64] = "";
	FILE *file = fopen(state_file, "r");

	if (!file)
		return false;
	if (!fgets(line, sizeof(line), file))
		line[0] = '\0';
	fclose(file);
	return strstr(line, "ACTIVE") != NULL;
}

const char *ranks_port(int index)
{
	static char name[128];
	glob_t found;
	char device[64];
	size_t i;
	int port;

	name[0] = '\0';
	if (glob("/sys/class/infiniband/*/ports/*/state", 0, NULL, &found) == 0) {
		for (i = 0; i < found.gl_pathc; i++) {
			if (!is_active(found.gl_pathv[i]) || index-- > 0)
				continue;
			sscanf(found.gl_pathv[i], "/sys/class/infiniband/%63[^/]/ports/%d",
			       device, &port);
			snprintf(name, sizeof(name), "%s:%d", device, port);
			break;
		}
		globfree(&found);
	}
	return name[0] ? name : NULL;
}

void ranks_need_device(void)
{
	if (ranks_port(0))
		return;
	fprintf(stderr, "no verbs device with an active port on this machine\n");
	exit(77);
}

/* --------------------------------------------------------------- ranks --- */

static void set_environment(const struct ranks *ranks, int rank)
{
	char text[32];
	const char *port;

	snprintf(text, sizeof(text), "%d", rank);
	setenv("HARTEBEEST_NID", text, 1);
	snprintf(text, sizeof(text), "0-%d", ranks->count - 1);
	setenv("HARTEBEEST_PARTICIPANTS", text, 1);
	setenv("HARTEBEEST_EXC_IP_PORT", ranks->server, 1);
	setenv("HARTEBEEST_TIMEOUT", RANKS_PATIENCE, 1);
	if (ranks->job)
		setenv("HARTEBEEST_JOB", ranks->job, 1);
	port = ranks_port(rank);
	if (!port)
		port = ranks_port(0);
	if (port)
		setenv("HARTEBEEST_DEVICE", port, 0);
}

static pid_t start(const struct ranks *ranks, int rank, int (*function)(int, void *),
		   void *data)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;

	prctl(PR_SET_PDEATHSIG, SIGKILL);	/* if the test fails, no rank stays */
	set_environment(ranks, rank);
	if (ranks->delay_ms[rank])
		pause_ms(ranks->delay_ms[rank]);
	exit(function(rank, data) ? 1 : 0);
}

/* True if the child succeeded; @pid becomes 0 when it has ended. */
static bool ended_well(pid_t *pid, int options)
{
	int status = 0;

	if (*pid <= 0 || waitpid(*pid, &status, options) != *pid)
		return false;

	*pid = 0;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void end_all(const pid_t *pids, int count)
{
	int rank;

	for (rank = 0; rank < count; rank++)
		if (pids[rank] > 0)
			kill(pids[rank], SIGKILL);
}

int ranks_run(const struct ranks *ranks, int (*function)(int rank, void *data), void *data)
{
	pid_t pids[RANKS_MAX];
	int rank, left, well = 0;

	fflush(NULL);			/* or the children print it again */
	for (rank = 0; rank < ranks->count; rank++)
		pids[rank] = start(ranks, rank, function, data);

	do {
		for (rank = left = 0; rank < ranks->count; rank++) {
			well += ended_well(&pids[rank], WNOHANG);
			left += pids[rank] > 0;
		}
		if (well + left < ranks->count)
			end_all(pids, ranks->count);
		if (left)
			pause_ms(5);
	} while (left);
	return ranks->count - well;
}
