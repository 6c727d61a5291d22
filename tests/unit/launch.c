/* SPDX-License-Identifier: MIT */
/*
 * launch.c - the variables of every launcher, and options that override them
 *
 * promise: hartebeest_open(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <stdio.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "lib/settings/launch.h"

/* ------------------------------------------------------------ helpers --- */

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	return 0;
}

/* Sets "NAME=value NAME=value ..." */
static void set_all(const char *variables)
{
	char copy[512], *pair, *equals, *rest;

	snprintf(copy, sizeof(copy), "%s", variables);
	for (pair = strtok_r(copy, " ", &rest); pair; pair = strtok_r(NULL, " ", &rest)) {
		equals = strchr(pair, '=');
		*equals = '\0';
		setenv(pair, equals + 1, 1);
	}
}

static int read_with(struct beest_launch *launch, const char *const *arguments)
{
	struct beest_options options;
	int ret;

	assert_int_equal(beest_options_load(&options, NULL, NULL, arguments), 0);
	ret = beest_launch_read(launch, &options);
	beest_options_free(&options);
	return ret;
}

static void reads(const char *variables, const char *source)
{
	struct beest_launch launch;

	surroundings_clear();
	set_all(variables);
	if (read_with(&launch, NULL) < 0)
		fail_msg("%s: %s", variables, beest_error_text());
	assert_string_equal(launch.source, source);
	if (strstr(launch.warning, " is used"))
		fail_msg("%s: %s", variables, launch.warning);
	beest_launch_free(&launch);
}

static void refuses(const char *variables, int err, const char *sentence)
{
	struct beest_launch launch;

	surroundings_clear();
	set_all(variables);
	assert_int_equal(read_with(&launch, NULL), -err);
	assert_error_is(sentence);
	assert_null(launch.participants.id);
}

static void warns(const char *variables, const char *warning)
{
	struct beest_launch launch;

	surroundings_clear();
	set_all(variables);
	assert_int_equal(read_with(&launch, NULL), 0);
	/* Behind it, there may be one about the job id. */
	if (*warning)
		launch.warning[strlen(warning)] = '\0';
	assert_string_equal(strstr(launch.warning, " is used") ? launch.warning : "", warning);
	beest_launch_free(&launch);
}

#define SRUN "SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 SLURM_STEP_ID=0 SLURM_JOB_ID=4711 "

/* ---------------------------------------------------------- launchers --- */

static void nothing_given_is_no_error(void **state)
{
	struct beest_launch launch;

	(void)state;
	assert_int_equal(read_with(&launch, NULL), 0);
	assert_int_equal(launch.rank, -1);
	assert_int_equal(launch.participants.count, 0);
	assert_string_equal(launch.job, "-");
	assert_string_equal(launch.source, "no rank, no job id");
	assert_string_equal(launch.warning, "");
	beest_launch_free(&launch);
}

static void slurm_is_read(void **state)
{
	struct beest_launch launch;

	(void)state;
	set_all(SRUN);
	assert_int_equal(read_with(&launch, NULL), 0);
	assert_int_equal(launch.rank, 3);
	assert_int_equal(launch.participants.count, 8);
	assert_int_equal(launch.participants.id[0], 0);
	assert_int_equal(launch.participants.id[7], 7);
	assert_string_equal(launch.job, "4711.0");
	beest_launch_free(&launch);
	assert_int_equal(launch.participants.count, 0);
	beest_launch_free(&launch);
}

/* The job is the launcher's all the same. */
static void a_process_without_a_rank(void **state)
{
	(void)state;
	reads(SRUN "HARTEBEEST_NID=none", "no rank, job 4711.0 (from SLURM_JOB_ID.SLURM_STEP_ID)");
	reads(SRUN "HARTEBEEST_NID=none HARTEBEEST_PARTICIPANTS=0-7", "no rank, number of ranks 8 "
	      "(from HARTEBEEST_PARTICIPANTS), "
	      "job 4711.0 (from SLURM_JOB_ID.SLURM_STEP_ID)");
}

static void every_launcher_is_read(void **state)
{
	(void)state;
	reads(SRUN, "rank 3 of 8 (from SLURM_PROCID, SLURM_STEP_NUM_TASKS), "
	      "job 4711.0 (from SLURM_JOB_ID.SLURM_STEP_ID)");
	reads(SRUN "SLURM_RESTART_COUNT=2", "rank 3 of 8 (from SLURM_PROCID, "
	      "SLURM_STEP_NUM_TASKS), job 4711.0.2 (from "
	      "SLURM_JOB_ID.SLURM_STEP_ID.SLURM_RESTART_COUNT)");
	reads("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=prterun-n-7@1",
	      "rank 1 of 2 (from OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE), "
	      "job prterun-n-7@1 (from PMIX_NAMESPACE)");
	reads("PMI_RANK=0 PMI_SIZE=2 PMI_JOBID=12.3",
	      "rank 0 of 2 (from PMI_RANK, PMI_SIZE), job 12.3 (from PMI_JOBID)");
	reads("JSM_NAMESPACE_RANK=0 JSM_NAMESPACE_SIZE=2 LSB_JOBID=99",
	      "rank 0 of 2 (from JSM_NAMESPACE_RANK, JSM_NAMESPACE_SIZE), "
	      "job 99 (from LSB_JOBID)");
	reads("FLUX_TASK_RANK=1 FLUX_JOB_SIZE=4 FLUX_JOB_ID=f58",
	      "rank 1 of 4 (from FLUX_TASK_RANK, FLUX_JOB_SIZE), job f58 (from FLUX_JOB_ID)");
	reads("PALS_RANKID=1 PMI_SIZE=4 PALS_APID=a-b",
	      "rank 1 of 4 (from PALS_RANKID, PMI_SIZE), job a-b (from PALS_APID)");
	reads("MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=4 PBS_JOBID=5.host",
	      "rank 1 of 4 (from MV2_COMM_WORLD_RANK, MV2_COMM_WORLD_SIZE), "
	      "job 5.host (from PBS_JOBID)");
}

/* @wanted -1: none is known. */
static void local_rank_is(const char *variables, int wanted)
{
	struct beest_launch launch;

	surroundings_clear();
	set_all(variables);
	if (read_with(&launch, NULL) < 0)
		fail_msg("%s: %s", variables, beest_error_text());
	assert_int_equal(launch.local_rank, wanted);
	beest_launch_free(&launch);
	assert_int_equal(launch.local_rank, -1);
}

static void every_launchers_local_rank_is_read(void **state)
{
	(void)state;
	local_rank_is("", -1);
	local_rank_is(SRUN, -1);
	local_rank_is(SRUN "SLURM_LOCALID=1", 1);
	local_rank_is("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 "
		      "OMPI_COMM_WORLD_LOCAL_RANK=2", 2);
	local_rank_is("PMI_RANK=5 PMI_SIZE=8 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=4", 0);
	local_rank_is("JSM_NAMESPACE_RANK=5 JSM_NAMESPACE_SIZE=8 JSM_NAMESPACE_LOCAL_RANK=3", 3);
	local_rank_is("FLUX_TASK_RANK=5 FLUX_JOB_SIZE=8 FLUX_TASK_LOCAL_ID=4", 4);
	local_rank_is("PALS_RANKID=5 PMI_SIZE=8 PALS_LOCAL_RANKID=6", 6);
	local_rank_is("MV2_COMM_WORLD_RANK=5 MV2_COMM_WORLD_SIZE=8 MV2_COMM_WORLD_LOCAL_RANK=7",
		      7);
	local_rank_is("RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", 1);
	reads("RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 TORCHELASTIC_RUN_ID=run7", "rank 5 of 8 (from "
	      "RANK, WORLD_SIZE), local rank 1 (from LOCAL_RANK), job run7 (from "
	      "TORCHELASTIC_RUN_ID)");
}

/* Slurm's --mpi=pmi2, Cray's PALS and Flux set PMI_RANK too, but have their own local rank. */
static void the_local_rank_may_be_another_launchers(void **state)
{
	(void)state;
	local_rank_is("PMI_RANK=3 PMI_SIZE=8 SLURM_LOCALID=1 " SRUN, 1);
	local_rank_is("PMI_RANK=5 PMI_SIZE=8 PALS_RANKID=5 PALS_LOCAL_RANKID=1", 1);
	local_rank_is("PMI_RANK=5 PMI_SIZE=8 FLUX_TASK_RANK=5 FLUX_JOB_SIZE=8 "
		      "FLUX_TASK_LOCAL_ID=2", 2);
	/* This variable is about mpirun's daemon, which is another Slurm rank. */
	local_rank_is("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 SLURM_LOCALID=0 " SRUN, -1);
	/* An option that renumbers ranks does not change it; a malformed one is ignored. */
	local_rank_is("HARTEBEEST_NID=7 SLURM_LOCALID=1 " SRUN, 1);
	local_rank_is("HARTEBEEST_NID=7 SLURM_LOCALID=x " SRUN, -1);
}

/* The variables have common names, so one of them alone does not indicate a launcher. */
static void torchrun_and_pytorch_are_read(void **state)
{
	(void)state;
	reads("RANK=x", "no rank, no job id");
	reads("RANK=1 LOCAL_SIZE=2", "no rank, no job id");
	reads("RANK=1 WORLD_SIZE=2", "rank 1 of 2 (from RANK, WORLD_SIZE), no job id");
	refuses("RANK=1 LOCAL_RANK=1", ENODATA, "rank 1 (RANK), but the number of ranks is "
		"unknown: WORLD_SIZE is missing; set HARTEBEEST_PARTICIPANTS or "
		"HARTEBEEST_NPARTICIPANTS");
	/* srun starts one torchrun on each node, which starts the ranks. */
	reads("RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 HARTEBEEST_JOB=j", "rank 9 of 16 (from RANK, "
	      "WORLD_SIZE), local rank 1 (from LOCAL_RANK), job j (from HARTEBEEST_JOB)");
	warns("RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 " SRUN, "torchrun says rank 9 of 16 (RANK, "
	      "WORLD_SIZE), but Slurm says rank 3 of 8 (SLURM_PROCID, SLURM_STEP_NUM_TASKS); "
	      "torchrun is used");
}

/* In the shell that salloc starts as a step of its own, nothing was started by Slurm yet. */
static void the_shell_of_salloc_is_no_rank(void **state)
{
#define SALLOC "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_ID=4294967290 SLURM_JOB_ID=3 "
	(void)state;
	reads(SALLOC, "no rank, job 3 (from SLURM_JOB_ID)");
	reads(SALLOC "PMI_RANK=1 PMI_SIZE=2", "rank 1 of 2 (from PMI_RANK, PMI_SIZE), job 3 (from "
	      "SLURM_JOB_ID)");
	warns(SALLOC "PMI_RANK=1 PMI_SIZE=2", "");
}

/* An indexed Job gives a rank but no size: its pods may only need names. */
static void kubernetes_is_read(void **state)
{
	(void)state;
	reads("JOB_COMPLETION_INDEX=3", "rank 3 (from JOB_COMPLETION_INDEX), number of ranks "
	      "unknown, no job id");
	reads("JOB_COMPLETION_INDEX=3 HARTEBEEST_NPARTICIPANTS=4", "rank 3 of 4 (from "
	      "JOB_COMPLETION_INDEX, HARTEBEEST_NPARTICIPANTS), no job id");
	reads("JOB_COMPLETION_INDEX=3 RANK=1 WORLD_SIZE=2", "rank 1 of 2 (from RANK, WORLD_SIZE), "
	      "no job id");
	refuses("JOB_COMPLETION_INDEX=4 HARTEBEEST_NPARTICIPANTS=4", ENOENT,
		"rank 4 is not among the participants 0-3 (HARTEBEEST_NPARTICIPANTS)");
}

/* In the order of the table.  All agree, so there is no warning. */
static void the_first_of_the_table_is_taken(void **state)
{
	static const char *const pairs[][2] = {
		{ "RANK=1 WORLD_SIZE=4 LOCAL_RANK=0", "RANK" },
		{ "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_RANK" },
		{ "PMI_RANK=1 PMI_SIZE=4", "PMI_RANK" },
		{ "JSM_NAMESPACE_RANK=1 JSM_NAMESPACE_SIZE=4", "JSM_NAMESPACE_RANK" },
		{ "FLUX_TASK_RANK=1 FLUX_JOB_SIZE=4", "FLUX_TASK_RANK" },
		{ "PALS_RANKID=1 PMI_SIZE=4", "PALS_RANKID" },
		{ "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=4 SLURM_STEP_ID=0", "SLURM_PROCID" },
		{ "MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=4", "MV2_COMM_WORLD_RANK" },
	};
	struct beest_launch launch;
	char wanted[64];
	size_t i;

	(void)state;
	for (i = BEEST_COUNT(pairs); i-- > 0;) {
		set_all(pairs[i][0]);
		assert_int_equal(read_with(&launch, NULL), 0);
		snprintf(wanted, sizeof(wanted), "rank 1 of 4 (from %s, ", pairs[i][1]);
		assert_memory_equal(launch.source, wanted, strlen(wanted));
		assert_null(strstr(launch.warning, " is used"));
		beest_launch_free(&launch);
	}
}

/* A batch script has the variables of rank 0 of N, but runs only once. */
static void a_batch_script_is_no_launcher(void **state)
{
	(void)state;
	reads("SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=8 SLURM_JOB_ID=4711",
	      "no rank, job 4711 (from SLURM_JOB_ID)");
}

/* Only the ranks that a daemon started have a step. */
static void mpirun_within_slurm_has_one_job_for_all(void **state)
{
	(void)state;
	reads("PMI_RANK=0 PMI_SIZE=2 SLURM_JOB_ID=4711",
	      "rank 0 of 2 (from PMI_RANK, PMI_SIZE), job 4711 (from SLURM_JOB_ID)");
	reads("PMI_RANK=1 PMI_SIZE=2 SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_PROCID=1 "
	      "SLURM_STEP_NUM_TASKS=2",
	      "rank 1 of 2 (from PMI_RANK, PMI_SIZE), job 4711 (from SLURM_JOB_ID)");
}

static void an_empty_variable_is_none(void **state)
{
	(void)state;
	reads("PMI_RANK= PMI_SIZE= " SRUN, "rank 3 of 8 (from SLURM_PROCID, "
	      "SLURM_STEP_NUM_TASKS), job 4711.0 (from SLURM_JOB_ID.SLURM_STEP_ID)");
}

static void a_rank_without_size_is_refused(void **state)
{
	(void)state;
	refuses("PMI_RANK=3", ENODATA, "rank 3 (PMI_RANK), but the number of ranks is "
		"unknown: PMI_SIZE is missing; set HARTEBEEST_PARTICIPANTS or "
		"HARTEBEEST_NPARTICIPANTS");
	refuses("SLURM_PROCID=3 SLURM_STEP_ID=0", ENODATA, "rank 3 (SLURM_PROCID), but "
		"the number of ranks is unknown: SLURM_STEP_NUM_TASKS is missing; set "
		"HARTEBEEST_PARTICIPANTS or HARTEBEEST_NPARTICIPANTS");
	refuses("PMIX_RANK=3", ENODATA, "rank 3 (PMIX_RANK), but the number of ranks is "
		"unknown: set HARTEBEEST_PARTICIPANTS or HARTEBEEST_NPARTICIPANTS");
}

static void malformed_variables_are_named(void **state)
{
	(void)state;
	refuses("PMI_RANK=x PMI_SIZE=4", EINVAL, "environment PMI_RANK: "
		"'x' is not a number from 0 to 2147483647");
	refuses("PMI_RANK=1 PMI_SIZE=0", ERANGE, "environment PMI_SIZE: "
		"'0' is out of range: 1 to 1000000");
	refuses("PMI_RANK=-1 PMI_SIZE=4", ERANGE, "environment PMI_RANK: "
		"'-1' is out of range: 0 to 2147483647");
	refuses("PMI_RANK=4 PMI_SIZE=4", ENOENT,
		"rank 4 is not among the participants 0-3 (PMI_SIZE)");
}

static void a_contradiction_is_a_warning(void **state)
{
	(void)state;
	warns("OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=16 " SRUN,
	      "Open MPI says rank 5 of 16 (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE), but "
	      "Slurm says rank 3 of 8 (SLURM_PROCID, SLURM_STEP_NUM_TASKS); "
	      "Open MPI is used");
	warns("PMI_RANK=3 PMI_SIZE=9 " SRUN, "PMI says rank 3 of 9 (PMI_RANK, PMI_SIZE), but "
	      "Slurm says rank 3 of 8 (SLURM_PROCID, SLURM_STEP_NUM_TASKS); PMI is used");
	warns("PMI_RANK=3 PMI_SIZE=8 MV2_COMM_WORLD_RANK=2 MV2_COMM_WORLD_SIZE=8 " SRUN,
	      "PMI says rank 3 of 8 (PMI_RANK, PMI_SIZE), but MVAPICH2 says rank 2 of 8 "
	      "(MV2_COMM_WORLD_RANK, MV2_COMM_WORLD_SIZE); PMI is used");
	/* not a launcher; malformed; not asked */
	warns("PMI_RANK=5 PMI_SIZE=16 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=8", "");
	warns("PMI_RANK=5 PMI_SIZE=16 SLURM_PROCID=x SLURM_STEP_NUM_TASKS=8 SLURM_STEP_ID=0",
	      "");
	warns("HARTEBEEST_NID=0 HARTEBEEST_NPARTICIPANTS=2 PMI_RANK=5 PMI_SIZE=16 " SRUN, "");
}

/* ------------------------------------------------------------ options --- */

static void options_win(void **state)
{
	struct beest_launch launch;

	(void)state;
	set_all(SRUN "HARTEBEEST_NID=20 HARTEBEEST_PARTICIPANTS=10,20 HARTEBEEST_JOB=mine");
	assert_int_equal(read_with(&launch, NULL), 0);
	assert_int_equal(launch.rank, 20);
	assert_int_equal(launch.participants.count, 2);
	assert_int_equal(launch.participants.id[1], 20);
	assert_string_equal(launch.job, "mine");
	assert_string_equal(launch.source, "rank 20 of 2 (from HARTEBEEST_NID, "
			    "HARTEBEEST_PARTICIPANTS), job mine (from HARTEBEEST_JOB)");
	beest_launch_free(&launch);
}

/* A launcher is not even read if nothing is needed from it. */
static void a_malformed_launcher_that_is_not_needed(void **state)
{
	(void)state;
	reads("PMI_RANK=x HARTEBEEST_NID=1 HARTEBEEST_NPARTICIPANTS=2 HARTEBEEST_JOB=j",
	      "rank 1 of 2 (from HARTEBEEST_NID, HARTEBEEST_NPARTICIPANTS), "
	      "job j (from HARTEBEEST_JOB)");
}

static void arguments_and_files_are_named(void **state)
{
	const char *arguments[] = { "job.rank=1", "job.participants=0-1", "job.id=j", NULL };
	struct beest_launch launch;

	(void)state;
	assert_int_equal(read_with(&launch, arguments), 0);
	assert_string_equal(launch.source, "rank 1 of 2 (from job.rank in argument, "
			    "job.participants in argument), job j (from job.id in argument)");
	beest_launch_free(&launch);
}

static void options_and_launcher_combine(void **state)
{
	(void)state;
	reads("HARTEBEEST_NID=2 PMI_RANK=3 PMI_SIZE=4",
	      "rank 2 of 4 (from HARTEBEEST_NID, PMI_SIZE), no job id");
	reads("HARTEBEEST_NPARTICIPANTS=5 PMI_RANK=3",
	      "rank 3 of 5 (from PMI_RANK, HARTEBEEST_NPARTICIPANTS), no job id");
	reads("HARTEBEEST_PARTICIPANTS=0-4 PMIX_RANK=3 PMIX_NAMESPACE=ns",
	      "rank 3 of 5 (from PMIX_RANK, HARTEBEEST_PARTICIPANTS), "
	      "job ns (from PMIX_NAMESPACE)");
	refuses("HARTEBEEST_NID=4 PMI_RANK=3 PMI_SIZE=4", ENOENT,
		"rank 4 is not among the participants 0-3 (PMI_SIZE)");
}

static void half_of_the_options_may_do(void **state)
{
	(void)state;
	reads("HARTEBEEST_NPARTICIPANTS=5",
	      "no rank, number of ranks 5 (from HARTEBEEST_NPARTICIPANTS), no job id");
	reads("HARTEBEEST_NID=4", "rank 4 (from HARTEBEEST_NID), number of ranks unknown, "
	      "no job id");
}

static void the_rank_must_be_among_the_participants(void **state)
{
	(void)state;
	refuses("HARTEBEEST_NID=7 HARTEBEEST_PARTICIPANTS=0-3", ENOENT,
		"rank 7 is not among the participants 0-3 "
		"(HARTEBEEST_PARTICIPANTS)");
	refuses("HARTEBEEST_NID=7 HARTEBEEST_PARTICIPANTS=0,2,4-6,8,10-11", ENOENT,
		"rank 7 is not among the participants 0,2,4-6,8,10-11 "
		"(HARTEBEEST_PARTICIPANTS)");
	refuses("HARTEBEEST_NID=0 HARTEBEEST_PARTICIPANTS=4", ENOENT,
		"rank 0 is not among the participants 4 (HARTEBEEST_PARTICIPANTS), a list of one "
		"id: 4 ranks are HARTEBEEST_NPARTICIPANTS=4");
	refuses("HARTEBEEST_NID=2 HARTEBEEST_NPARTICIPANTS=2", ENOENT,
		"rank 2 is not among the participants 0-1 "
		"(HARTEBEEST_NPARTICIPANTS)");
}

static void a_long_list_is_cut(void **state)
{
	const char *arguments[] = { "job.rank=1", NULL, NULL };
	char list[1024] = "job.participants=0";
	struct beest_launch launch;
	int i;

	(void)state;
	for (i = 1000000000; i < 1000000060; i += 2)
		sprintf(list + strlen(list), ",%d", i);
	arguments[1] = list;
	assert_int_equal(read_with(&launch, arguments), -ENOENT);
	assert_error_has("rank 1 is not among the participants 0,1000000000,1000000002,");
	assert_error_has("... (job.participants in argument)");
}

static void the_two_counts_must_agree(void **state)
{
	(void)state;
	refuses("HARTEBEEST_NID=0 HARTEBEEST_PARTICIPANTS=0-3 HARTEBEEST_NPARTICIPANTS=3", EINVAL,
		"4 participants (HARTEBEEST_PARTICIPANTS), but their number is 3 "
		"(HARTEBEEST_NPARTICIPANTS): they must agree");
	reads("HARTEBEEST_NID=0 HARTEBEEST_PARTICIPANTS=0-3 HARTEBEEST_NPARTICIPANTS=4",
	      "rank 0 of 4 (from HARTEBEEST_NID, HARTEBEEST_PARTICIPANTS), no job id");
}

static void a_malformed_list_is_named(void **state)
{
	(void)state;
	refuses("HARTEBEEST_PARTICIPANTS=0-", EINVAL, "environment HARTEBEEST_PARTICIPANTS "
		"(job.participants): '0-' is not a list of ids such as 0,1 or 0-63: "
		"see byte 3");
}

/* ---------------------------------------------------------------- job --- */

static void job_is(const char *name, const char *value, const char *job)
{
	struct beest_launch launch;

	surroundings_clear();
	setenv(name, value, 1);
	assert_int_equal(read_with(&launch, NULL), 0);
	assert_string_equal(launch.job, job);
	beest_launch_free(&launch);
}

static void batch_jobs_are_known(void **state)
{
	(void)state;
	job_is("SLURM_JOB_ID", "1", "1");
	job_is("LSB_JOBID", "2", "2");
	job_is("PBS_JOBID", "3.server", "3.server");
	job_is("COBALT_JOBID", "4", "4");
	job_is("FLUX_JOB_ID", "5", "5");
	job_is("JOB_ID", "6", "6");
}

#define TORCH "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 "
#define MPICH "PMI_RANK=1 PMI_SIZE=2 "
#define NONE "no job id is known, and runs without one meet each other: give each run a " \
	"HARTEBEEST_JOB"
#define MASTERED(job, variables) "job id " job " (" variables ") is that of all runs with that " \
	"master, which find each other's messages: give each run a HARTEBEEST_JOB"
#define SHARED(job, variable) "job id " job " (" variable ") is that of all runs within an " \
	"allocation, which meet each other: give each run a HARTEBEEST_JOB"

/* What is no id of a run is not taken for one, or is told. */
static const struct id_row {
	const char *variables, *job, *warning;
} id_rows[] = {
	{ TORCH "TORCHELASTIC_RUN_ID=none", "-", NONE },
	{ TORCH "TORCHELASTIC_RUN_ID=None", "None", "" },
	{ TORCH "TORCHELASTIC_RUN_ID=none PBS_JOBID=3.x", "3.x", SHARED("3.x", "PBS_JOBID") },
	{ TORCH "TORCHELASTIC_RUN_ID=none HARTEBEEST_JOB=mine", "mine", "" },
	{ TORCH "TORCHELASTIC_RUN_ID=none MASTER_ADDR=cn08.x MASTER_PORT=29500", "cn08.x.29500",
	  MASTERED("cn08.x.29500", "MASTER_ADDR.MASTER_PORT") },
	{ TORCH "TORCHELASTIC_RUN_ID=none MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 "
	  "GROUP_WORLD_SIZE=1 TORCHELASTIC_RESTART_COUNT=2", "here.29500.2",
	  MASTERED("here.29500.2", "MASTER_ADDR.MASTER_PORT.TORCHELASTIC_RESTART_COUNT") },
	{ TORCH "TORCHELASTIC_RUN_ID=none MASTER_ADDR=cn08 MASTER_PORT=29500 SLURM_JOB_ID=4711",
	  "cn08.29500.4711",
	  MASTERED("cn08.29500.4711", "MASTER_ADDR.MASTER_PORT.SLURM_JOB_ID") },
	{ TORCH "TORCHELASTIC_RUN_ID=none MASTER_ADDR=a_name_of_a_host_that_is_longer_than_what_a_"
	  "key_has_room_for.example.org MASTER_PORT=29500", "fnv1a-fb2ab40c2d0a0646",
	  MASTERED("fnv1a-fb2ab40c2d0a0646", "MASTER_ADDR.MASTER_PORT") },
	{ "RANK=1 WORLD_SIZE=2 MASTER_ADDR=fd00::1 MASTER_PORT=29500", "fd00::1.29500",
	  MASTERED("fd00::1.29500", "MASTER_ADDR.MASTER_PORT") },
	{ MPICH "MASTER_ADDR=cn08 MASTER_PORT=29500", "-", NONE },
	{ "MASTER_ADDR=cn08 MASTER_PORT=29500", "-", "" },
	{ MPICH, "-", NONE },
	{ MPICH "I_MPI_HYDRA_UUID=9d260000-7c26-e807", "9d260000-7c26-e807", "" },
	{ MPICH "I_MPI_HYDRA_UUID=9d260000-7c26-e807 PMI_JOBID=12.3", "12.3", "" },
	{ "MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 MPISPAWN_MPIRUN_HOST=login1 "
	  "MPISPAWN_MPIRUN_ID=4242", "login1.4242", "" },
	{ "MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 MPISPAWN_MPIRUN_HOST=localhost "
	  "MPISPAWN_MPIRUN_ID=4242", "here.4242", "" },
	{ MPICH "SLURM_JOB_ID=4711", "4711", SHARED("4711", "SLURM_JOB_ID") },
	{ "JOB_COMPLETION_INDEX=1", "-", NONE },
	{ "MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2", "-", NONE },
	{ SRUN, "4711.0", "" },
	/* given by hand: whoever starts ranks so has read how */
	{ "HARTEBEEST_NID=1 HARTEBEEST_PARTICIPANTS=0,1", "-", "" },
	{ "HARTEBEEST_NID=1 HARTEBEEST_PARTICIPANTS=0,1 PBS_JOBID=3", "3", "" },
	{ "PBS_JOBID=3", "3", "" },
	/* tasks of an array, and what stands there where there is none */
	{ "LSB_JOBID=7 LSB_JOBINDEX=2", "7.2", "" },
	{ "LSB_JOBID=7 LSB_JOBINDEX=0", "7", "" },
	{ "JOB_ID=8 SGE_TASK_ID=3", "8.3", "" },
	{ "JOB_ID=8 SGE_TASK_ID=undefined", "8", "" },
	{ "JSM_NAMESPACE_RANK=0 JSM_NAMESPACE_SIZE=2 LSB_JOBID=7 LSB_JOBINDEX=2", "7.2",
	  SHARED("7.2", "LSB_JOBID.LSB_JOBINDEX") },
	/* host name and process id, as in all containers; with it, random bits of mpirun */
	{ "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMIX_NAMESPACE=182865 "
	  "OMPI_MCA_orte_precondition_transports=0123456789abcdef-fedcba9876543210",
	  "182865.0123456789abcdef-fedcba9876543210", "" },
};

static const char *host = "here";	/* the name of this one */

/* Replaces libc's. */
int gethostname(char *name, size_t size)
{
	snprintf(name, size, "%s", host);
	return 0;
}

/* Two processes on one Memcached server: are they of one run? */
static const struct beside_row {
	const char *one, *other;	/* its host, and its variables */
	bool same;
} beside_rows[] = {
#define NODES(count, restarts) "GROUP_WORLD_SIZE=" #count " TORCHELASTIC_RESTART_COUNT=" #restarts
#define RANK0 " RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 TORCHELASTIC_RUN_ID=none "
#define RANK1 " RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 TORCHELASTIC_RUN_ID=none "
#define MASTER(address, port) "MASTER_ADDR=" address " MASTER_PORT=" #port " "
	/* two jobs with torchrun's own run id, at once */
	{ "a" RANK0 MASTER("a", 29500), "a" RANK1 MASTER("a", 29501), false },
	{ "a" RANK0 MASTER("a", 29500), "b" RANK1 MASTER("b", 29500), false },
	{ "a" RANK0 MASTER("127.0.0.1", 29500), "b" RANK1 MASTER("127.0.0.1", 29500), false },
	{ "a" RANK0 MASTER("localhost", 29500), "b" RANK1 MASTER("localhost", 29500), false },
	{ "a" RANK0 MASTER("::1", 29500), "b" RANK1 MASTER("::1", 29500), false },
	{ "a" RANK0 MASTER("a", 29500) "TORCHELASTIC_RUN_ID=x",
	  "a" RANK1 MASTER("a", 29500) "TORCHELASTIC_RUN_ID=y", false },
	/* one job, on a node and on two */
	{ "a" RANK0 MASTER("127.0.0.1", 29500), "a" RANK1 MASTER("127.0.0.1", 29500), true },
	{ "a" RANK0 MASTER("a.x.org", 29500), "b" RANK1 MASTER("a.x.org", 29500), true },
	{ "a" RANK0 MASTER("10.0.0.1", 29500), "b" RANK1 MASTER("10.0.0.1", 29500), true },
	{ "a" RANK0 MASTER("a", 29500) "SLURM_JOB_ID=7",
	  "b" RANK1 MASTER("a", 29500) "SLURM_JOB_ID=7", true },
	{ "a" RANK0 MASTER("a", 29500) "TORCHELASTIC_RUN_ID=x",
	  "b" RANK1 MASTER("b", 29501) "TORCHELASTIC_RUN_ID=x", true },
	/* its next attempt: only on a single node do all ranks have the same count */
	{ "a" RANK0 MASTER("a", 29500) NODES(1, 0), "a" RANK1 MASTER("a", 29500) NODES(1, 1),
	  false },
	{ "a" RANK0 MASTER("a", 29500) NODES(1, 1), "a" RANK1 MASTER("a", 29500) NODES(1, 1),
	  true },
	{ "a" RANK0 MASTER("a", 29500) NODES(2, 1), "b" RANK1 MASTER("a", 29500) NODES(2, 0),
	  true },
	/* another allocation, where the same master follows */
	{ "a" RANK0 MASTER("a", 29500) "SLURM_JOB_ID=7",
	  "a" RANK1 MASTER("a", 29500) "SLURM_JOB_ID=8", false },
	/* variables by hand; and Kubeflow, where only the master itself calls itself localhost */
	{ "a RANK=0 WORLD_SIZE=2 " MASTER("a", 1), "b RANK=1 WORLD_SIZE=2 " MASTER("a", 2),
	  false },
	{ "a RANK=0 WORLD_SIZE=2 " MASTER("a", 1), "b RANK=1 WORLD_SIZE=2 " MASTER("a", 1), true },
	{ "j-master-0 RANK=0 WORLD_SIZE=2 " MASTER("localhost", 1),
	  "j-worker-0 RANK=1 WORLD_SIZE=2 " MASTER("j-master-0", 1), true },
	/* DeepSpeed's launcher */
	{ "a RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 " MASTER("10.0.0.1", 1),
	  "b RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 " MASTER("10.0.0.1", 1), true },
	/* an own id wins; half of an address is none */
	{ "a" RANK0 MASTER("a", 1) "HARTEBEEST_JOB=j", "b" RANK1 MASTER("b", 2) "HARTEBEEST_JOB=j",
	  true },
	{ "a" RANK0 "MASTER_PORT=1", "a" RANK1 "MASTER_PORT=2", true },
	{ "a" RANK0 "MASTER_ADDR=a", "a" RANK1 "MASTER_ADDR=b", true },
};

static void job_beside(const char *row, char job[BEEST_JOB_MAX + 1])
{
	struct beest_launch launch;
	char name[32];

	snprintf(name, sizeof(name), "%.*s", (int)strcspn(row, " "), row);
	host = name;
	surroundings_clear();
	set_all(row + strlen(name) + 1);
	assert_int_equal(read_with(&launch, NULL), 0);
	snprintf(job, BEEST_JOB_MAX + 1, "%s", launch.job);
	beest_launch_free(&launch);
	host = "here";
}

static void two_runs_beside_each_other(void **state)
{
	char one[BEEST_JOB_MAX + 1], other[BEEST_JOB_MAX + 1];
	const struct beside_row *row;

	(void)state;
	for (row = beside_rows; row < beside_rows + BEEST_COUNT(beside_rows); row++) {
		job_beside(row->one, one);
		job_beside(row->other, other);
		if (!strcmp(one, other) != row->same)
			fail_msg("%s: job %s\n%s: job %s", row->one, one, row->other, other);
	}
}

static void what_is_no_id_of_a_run(void **state)
{
	const struct id_row *row;
	struct beest_launch launch;

	(void)state;
	for (row = id_rows; row < id_rows + BEEST_COUNT(id_rows); row++) {
		surroundings_clear();
		set_all(row->variables);
		assert_int_equal(read_with(&launch, NULL), 0);
		if (strcmp(launch.job, row->job) || strcmp(launch.warning, row->warning))
			fail_msg("%s: job %s, '%s'", row->variables, launch.job, launch.warning);
		beest_launch_free(&launch);
	}
}

/* Values of another implementation of FNV-1a: ranks of different builds must agree. */
static void unsafe_jobs_are_hashed(void **state)
{
	char text[256];

	(void)state;
	job_is("FLUX_JOB_ID", "\xc6\x92" "2Az", "fnv1a-2c8b66c2abe2c856");
	job_is("PBS_JOBID", "a b", "fnv1a-e63f991904833892");
	job_is("PBS_JOBID", "a/b", "fnv1a-e620c3190468cf61");
	job_is("PBS_JOBID", "azAZ09._:@+-", "azAZ09._:@+-");
	job_is("PBS_JOBID", unit_repeat(text, 'a', 64), text);
	job_is("PBS_JOBID", unit_repeat(text, 'a', 65), "fnv1a-8087e9a889f8a14c");
	job_is("PBS_JOBID", unit_repeat(text, 'a', 255), "fnv1a-7b04934eeef462a6");
}

static void refuses_job(const char *job, int err, const char *sentence)
{
	struct beest_launch launch;

	surroundings_clear();
	setenv("HARTEBEEST_JOB", job, 1);
	assert_int_equal(read_with(&launch, NULL), -err);
	assert_error_is(sentence);
}

#define WRONG "blanks, control characters, '/' and bytes beyond ASCII are refused"

static void a_job_option_is_used_as_it_is(void **state)
{
	char text[128], sentence[256];

	(void)state;
	job_is("HARTEBEEST_JOB", "run{7}!~", "run{7}!~");
	job_is("HARTEBEEST_JOB", unit_repeat(text, 'x', 64), text);

	refuses_job("a b", EINVAL, "environment HARTEBEEST_JOB (job.id): "
		    "'a b' has a blank at byte 2: " WRONG);
	refuses_job("a/b", EINVAL, "environment HARTEBEEST_JOB (job.id): "
		    "'a/b' has 0x2f at byte 2: " WRONG);
	refuses_job("run\r\n", EINVAL, "environment HARTEBEEST_JOB (job.id): "
		    "'run\\x0d\\x0a' has 0x0d at byte 4: " WRONG);
	refuses_job("\x7f", EINVAL, "environment HARTEBEEST_JOB (job.id): "
		    "'\\x7f' has 0x7f at byte 1: " WRONG);
	refuses_job("\xc3\xa9", EINVAL, "environment HARTEBEEST_JOB (job.id): "
		    "'\xc3\xa9' has 0xc3 at byte 1: " WRONG);

	unit_repeat(text, 'x', 65);
	snprintf(sentence, sizeof(sentence), "environment HARTEBEEST_JOB (job.id): "
		 "'%s' has 65 bytes: 64 are the limit", text);
	refuses_job(text, ENAMETOOLONG, sentence);
}

#define TEST(function) cmocka_unit_test_setup(function, setup)

/* ---------------------------------------------------------- for sentences --- */

static bool hidden;			/* as in a program with capabilities */

/* Replace libc's. */
char *secure_getenv(const char *name)
{
	return hidden ? NULL : getenv(name);
}

unsigned long getauxval(unsigned long type)
{
	return type == AT_SECURE && hidden;
}

#define ORIGIN "rank 0 of 1 (from RANK, WORLD_SIZE), local rank 0 (from LOCAL_RANK), no job id"
#define LEFTOVER "torchrun says rank 0 of 1 (RANK, WORLD_SIZE), but Open MPI says rank 2 of 3 " \
	"(OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE); torchrun is used"
#define LEFT "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3"
#define EXPORTED "HARTEBEEST_NID=0 HARTEBEEST_JOB=j OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3"
#define EXPORTED_TOO "HARTEBEEST_NID=2 HARTEBEEST_JOB=j OMPI_COMM_WORLD_RANK=2 " \
	"OMPI_COMM_WORLD_SIZE=3"
#define HIDES " and all other variables are ignored, since the program's file has capabilities " \
	"or a set-user-ID or set-group-ID bit: use hartebeest.json or arguments of " \
	"hartebeest_open()"

static const struct hint_row {
	const char *variables;
	bool hidden;
	int ret;
	const char *sentence;
} hint_rows[] = {
	{ LEFT, false, -EADDRINUSE, "x; " ORIGIN "; " LEFTOVER "; " NONE },
	{ LEFT, false, -ETIMEDOUT, "x; " LEFTOVER "; " NONE },
	{ LEFT, false, -ECONNREFUSED, "x" },
	{ EXPORTED, false, -EADDRINUSE,
	  "x; rank 0 of 3 (from HARTEBEEST_NID, OMPI_COMM_WORLD_SIZE), job j "
	  "(from HARTEBEEST_JOB); rank 0 is from HARTEBEEST_NID, which all ranks may have; Open "
	  "MPI says rank 2 (OMPI_COMM_WORLD_RANK): unset HARTEBEEST_NID" },
	{ EXPORTED, false, -ENODATA, "x; rank 0 is from HARTEBEEST_NID, which all ranks may have; "
	  "Open MPI says rank 2 (OMPI_COMM_WORLD_RANK): unset HARTEBEEST_NID" },
	{ EXPORTED_TOO, false, -EADDRINUSE,
	  "x; rank 2 of 3 (from HARTEBEEST_NID, OMPI_COMM_WORLD_SIZE), job j "
	  "(from HARTEBEEST_JOB); rank 2 is from HARTEBEEST_NID, which all ranks may have; Open "
	  "MPI says rank 2 (OMPI_COMM_WORLD_RANK): unset HARTEBEEST_NID" },
	{ EXPORTED_TOO, false, -ENODATA, "x" },
	{ "HARTEBEEST_NID=1", true, -EDESTADDRREQ, "x; HARTEBEEST_NID" HIDES },
	{ "HARTEBEEST_NID=1", true, -ENODATA, "x; HARTEBEEST_NID" HIDES },
	{ "PMI_RANK=1 PMI_SIZE=2", true, -ENODATA, "x; PMI_RANK" HIDES },
	{ "HOME=/", true, -EDESTADDRREQ, "x" },
	{ SRUN, false, -ETIMEDOUT, "x" },
};

static void what_ends_a_sentence(void **state)
{
	const struct hint_row *row;
	struct beest_launch launch;

	(void)state;
	for (row = hint_rows; row < hint_rows + BEEST_COUNT(hint_rows); row++) {
		surroundings_clear();
		set_all(row->variables);
		hidden = row->hidden;
		assert_int_equal(read_with(&launch, NULL), 0);
		hidden = false;
		beest_fail(-row->ret, "x");
		assert_int_equal(beest_launch_hint(&launch, row->ret), row->ret);
		assert_int_equal(beest_launch_hint(&launch, row->ret), row->ret);	/* once */
		assert_error_is(row->sentence);
		beest_launch_free(&launch);
	}
}

/* Three ranks, each of which takes itself for the only one, would all pass alone. */
static void the_only_rank_of_several(void **state)
{
	struct beest_launch launch;

	(void)state;
	set_all(LEFT);
	assert_int_equal(read_with(&launch, NULL), 0);
	assert_int_equal(beest_launch_check(&launch), -ENODATA);
	assert_error_is(LEFTOVER "; " NONE ": this rank alone would wait for no other; unset what "
			"is left over, or set HARTEBEEST_NID and HARTEBEEST_PARTICIPANTS");
	beest_launch_free(&launch);
	set_all("HARTEBEEST_NID=0 HARTEBEEST_PARTICIPANTS=0");
	assert_int_equal(read_with(&launch, NULL), 0);
	assert_int_equal(beest_launch_check(&launch), 0);
	beest_launch_free(&launch);
	surroundings_clear();
	set_all("RANK=0 WORLD_SIZE=1 LOCAL_RANK=0");
	assert_int_equal(read_with(&launch, NULL), 0);
	assert_int_equal(beest_launch_check(&launch), 0);
	beest_launch_free(&launch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_given_is_no_error),
		TEST(slurm_is_read),
		TEST(a_process_without_a_rank),
		TEST(every_launcher_is_read),
		TEST(every_launchers_local_rank_is_read),
		TEST(the_local_rank_may_be_another_launchers),
		TEST(torchrun_and_pytorch_are_read),
		TEST(the_shell_of_salloc_is_no_rank),
		TEST(kubernetes_is_read),
		TEST(the_first_of_the_table_is_taken),
		TEST(a_batch_script_is_no_launcher),
		TEST(mpirun_within_slurm_has_one_job_for_all),
		TEST(an_empty_variable_is_none),
		TEST(a_rank_without_size_is_refused),
		TEST(malformed_variables_are_named),
		TEST(a_contradiction_is_a_warning),
		TEST(options_win),
		TEST(a_malformed_launcher_that_is_not_needed),
		TEST(arguments_and_files_are_named),
		TEST(options_and_launcher_combine),
		TEST(half_of_the_options_may_do),
		TEST(the_rank_must_be_among_the_participants),
		TEST(a_long_list_is_cut),
		TEST(the_two_counts_must_agree),
		TEST(a_malformed_list_is_named),
		TEST(batch_jobs_are_known),
		TEST(what_is_no_id_of_a_run),
		TEST(two_runs_beside_each_other),
		TEST(what_ends_a_sentence),
		TEST(the_only_rank_of_several),
		TEST(unsafe_jobs_are_hashed),
		TEST(a_job_option_is_used_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
