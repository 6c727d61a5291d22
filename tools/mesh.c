/* SPDX-License-Identifier: MIT */
/*
 * mesh.c - hartebeest mesh: every rank connected to every other, measured and shown
 *
 * Owns the options, and the ranks of --local.  survey.c measures, and verdict.c shows the
 * results.
 */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/command.h"
#include "tools/local.h"
#include "tools/session.h"
#include "tools/survey.h"
#include "tools/verdict.h"

#define LOCAL_MAX 64

static int64_t local_ranks, ping_count = 100, ping_size = 8, rate_size;
static bool wants_rates;
static const char *svg_path, *old_path;

/* --------------------------------------------------------------- a rank --- */

static int survey_and_show(struct survey *survey, struct verdict *verdict)
{
	int ret;

	if (survey->is_first &&
	    picture_open(&verdict->picture, survey->out) != STATUS_GOOD) {
		hartebeest_fail(survey->hb, "its picture cannot be written");
		return STATUS_FAILED;
	}
	ret = survey_run(survey);
	if (ret == -ECANCELED)
		return STATUS_FAILED;
	if (ret == 0)
		return survey->is_first ? verdict_show(verdict) : STATUS_GOOD;
	if (survey->is_first)
		verdict_show_errors(verdict);
	return ret == -ETIMEDOUT ? STATUS_TIMEOUT : STATUS_FAILED;
}

static int with_context(struct survey *survey, struct verdict *verdict)
{
	int size = hartebeest_size(survey->hb), status = STATUS_FAILED;

	if (hartebeest_rank(survey->hb) < 0 || size < 2) {
		out_error(survey->out, "a mesh needs two ranks or more: start it by mpirun, srun "
			  "or 'hartebeest run', or give --local N");
		return STATUS_MISUSED;
	}
	if (survey_start(survey))
		status = survey_and_show(survey, verdict);
	else
		out_error(survey->out, "%d ranks are too many for one picture", size);
	matrix_free(&survey->matrix);
	return status;
}

static int run_rank(struct out *out)
{
	struct survey survey = { .out = out, .count = ping_count, .size = ping_size,
				 .rate_size = rate_size || !wants_rates ? rate_size :
					      SURVEY_RATE_SIZE };
	struct verdict verdict = { .out = out, .survey = &survey, .matrix = &survey.matrix,
				   .picture.path = svg_path, .old_path = old_path };
	int status = old_path ? verdict_read_old(&verdict) : STATUS_GOOD;

	if (status == STATUS_GOOD)
		status = session_open(out, &survey.hb);
	if (status == STATUS_GOOD) {
		status = with_context(&survey, &verdict);
		session_close(survey.hb);
	}
	verdict_free(&verdict);
	return status;
}

/* ----------------------------------------------------------- ranks here --- */

/* Runs in a child, without output: that of the first rank is enough. */
static int run_child(struct out *out, int rank, pid_t parent)
{
	int null = open("/dev/null", O_WRONLY);

	local_rank(rank, parent);
	old_path = NULL;
	dup2(null, STDOUT_FILENO);
	_exit(run_rank(out));
}

static int start_ranks(struct out *out, pid_t *pids)
{
	pid_t parent = getpid();
	int i;

	fflush(stdout);
	for (i = 1; i < local_ranks; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			run_child(out, i, parent);
		if (pids[i] < 0) {
			out_error(out, "rank %d cannot be started: %s", i, strerror(errno));
			return STATUS_FAILED;
		}
	}
	return STATUS_GOOD;
}

static void end_ranks(const pid_t *pids, bool kills)
{
	int i;

	for (i = 1; i < local_ranks; i++) {
		if (pids[i] <= 0)
			continue;
		if (kills)
			kill(pids[i], SIGTERM);
		while (waitpid(pids[i], NULL, 0) < 0 && errno == EINTR)
			;
	}
}

static int run_local(struct out *out)
{
	struct local local = { .name = "mesh", .count = (int)local_ranks, .is_new = true };
	pid_t pids[LOCAL_MAX] = { 0 };
	int status = local_begin(out, &local);

	if (status == STATUS_GOOD) {
		status = start_ranks(out, pids);
		if (status == STATUS_GOOD)
			status = run_rank(out);
		end_ranks(pids, status != STATUS_GOOD);
	}
	local_end(&local);
	return status;
}

static int mesh(struct out *out, int count, char **operands)
{
	(void)count, (void)operands;
	return local_ranks ? run_local(out) : run_rank(out);
}

static const struct args_option options[] = {
	{ "local", 'n', ARGS_INT, &local_ranks, .value = "N", .min = 2, .max = LOCAL_MAX,
	  .help = "start N ranks on this machine" },
	{ "count", 'c', ARGS_INT, &ping_count, .value = "N", .min = 1, .max = 1000000,
	  .help = "pings of each pair, default 100" },
	{ "size", 's', ARGS_INT, &ping_size, .value = "BYTES", .min = 0, .max = PLAN_LAST_MAX,
	  .help = "size of a ping, default 8" },
	{ "bw", 'b', ARGS_FLAG, &wants_rates, .help = "measure bandwidth, too" },
	{ "bw-size", 0, ARGS_INT, &rate_size, .value = "BYTES", .min = 1, .max = PLAN_LAST_MAX,
	  .help = "the same by messages of this size, default 65536" },
	{ "svg", 0, ARGS_TEXT, &svg_path, .value = "FILE", .help = "write the picture to FILE" },
	{ "diff", 0, ARGS_TEXT, &old_path, .value = "FILE",
	  .help = "show what changed since FILE, written by --json" },
	{ .name = NULL },
};

const struct command mesh_command = {
	.name = "mesh",
	.help = "Connects every rank to every other, and shows which pairs are slow or fail.",
	.options = options,
	.run = mesh,
	.more = "Start it by mpirun, srun or 'hartebeest run', one rank per host; the first\n"
		"rank shows the results of all.  Exit status 1: a pair failed, or with --diff\n"
		"became slower.\n",
};
