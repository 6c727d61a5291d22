/* SPDX-License-Identifier: MIT */
/*
 * launch.c - options first, then the first launcher of the table that is present
 *
 * All ranks see their launcher's variables, so these give the job id before those of the batch
 * system: under mpirun within Slurm, for example, only some ranks have a SLURM_STEP_ID.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/ipaddr.h"
#include "lib/base/text.h"
#include "lib/settings/launch.h"

/* ------------------------------------------------------------- tables --- */

/*
 * Variables joined by dots.  "?" marks one that may be absent, and "@" a host: one that every host
 * has, such as 127.0.0.1, means the name of this one.
 */
struct job_id {
	const char *part[3];
	const char *shared;	/* which other runs have it; NULL: none */
	const char *single;	/* counts only where this number of nodes is 1; NULL: everywhere */
	bool batch;		/* the id of the allocation belongs to it, too */
};

#define ID(...) { .part = { __VA_ARGS__ } }
#define SHARED_ID(...) { .part = { __VA_ARGS__ }, \
	.shared = "all runs within an allocation, which meet each other" }

/*
 * Where all ranks of PyTorch connect to: no two runs listen there at once, but one may follow
 * another.
 */
#define MASTER_ID(nodes, count) { .part = { "@MASTER_ADDR", "MASTER_PORT", count }, \
	.shared = "all runs with that master, which find each other's messages", \
	.single = nodes, .batch = true }

struct launcher {
	const char *name;
	const char *rank;
	const char *size;	/* NULL: no variable has it */
	const char *local;	/* the rank within the node; may be NULL */
	const char *needs;	/* must be set, too; may be NULL */
	bool alone;		/* a rank without a size is no error: the job may have no size */
	struct job_id job[4];
};

/*
 * The launcher nearest to the program is the first, since the program also inherits the variables
 * of those around it: mpirun's daemons are Slurm tasks with a SLURM_PROCID.  Slurm's batch script
 * also has rank 0 of N in its environment, but only a step, which has an id, runs N times.
 */
static const struct launcher launchers[] = {
	{ "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", .needs = "LOCAL_RANK",
	  .job = { ID("TORCHELASTIC_RUN_ID"),
		   /* Each node counts for itself, and those where nothing failed count less. */
		   MASTER_ID("GROUP_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT"),
		   MASTER_ID(NULL, NULL) } },
	{ "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
	  "OMPI_COMM_WORLD_LOCAL_RANK",
	  .job = { ID("PMIX_NAMESPACE", "?OMPI_MCA_orte_precondition_transports") } },
	{ "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID",
	  .job = { ID("PMI_JOBID"), ID("PALS_APID"), ID("FLUX_JOB_ID"),
		   ID("I_MPI_HYDRA_UUID") } },
	{ "JSM", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK",
	  .job = { ID("PMIX_NAMESPACE"),
		   SHARED_ID("LSB_JOBID", "?LSB_JOBINDEX") } },
	{ "Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID",
	  .job = { ID("FLUX_JOB_ID") } },
	{ "PALS", "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID",
	  .job = { ID("PALS_APID") } },
	{ "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
	  .needs = "SLURM_STEP_ID",
	  .job = { ID("SLURM_JOB_ID", "SLURM_STEP_ID", "?SLURM_RESTART_COUNT") } },
	{ "MVAPICH2", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK",
	  /* host and process id of mpirun_rsh */
	  .job = { ID("@MPISPAWN_MPIRUN_HOST", "MPISPAWN_MPIRUN_ID") } },
	{ "PMIx", "PMIX_RANK", .job = { ID("PMIX_NAMESPACE") } },
	{ "PyTorch", "RANK", "WORLD_SIZE", .needs = "WORLD_SIZE",
	  .job = { MASTER_ID(NULL, NULL) } },
	{ "Kubernetes", "JOB_COMPLETION_INDEX", .alone = true },
};

/* Ids of the allocation: all runs in it share one, but that is better than none. */
static const struct job_id batch_jobs[] = {
	SHARED_ID("SLURM_JOB_ID", "?SLURM_RESTART_COUNT"),
	SHARED_ID("LSB_JOBID", "?LSB_JOBINDEX"),
	SHARED_ID("PBS_JOBID"),
	SHARED_ID("COBALT_JOBID"),
	SHARED_ID("FLUX_JOB_ID"),
	SHARED_ID("JOB_ID", "?SGE_TASK_ID"),	/* Grid Engine */
};

/* Texts by which a variable states that there is no such id, or that this is not a run. */
static const struct {
	const char *variable, *text;
} no_ids[] = {
	{ "TORCHELASTIC_RUN_ID", "none" },	/* of all runs that were given none */
	{ "LSB_JOBINDEX", "0" },
	{ "SGE_TASK_ID", "undefined" },
	{ "SLURM_STEP_ID", "4294967290" },	/* the interactive shell of salloc */
};

/* An empty variable counts as unset. */
static const char *variable(const char *name)
{
	const char *text = name ? secure_getenv(name) : NULL;

	return text && *text ? text : NULL;
}

static const char *id_variable(const char *name)
{
	const char *text = variable(name);
	size_t i;

	for (i = 0; i < BEEST_COUNT(no_ids) && text; i++)
		if (!strcmp(name, no_ids[i].variable) && !strcmp(text, no_ids[i].text))
			text = NULL;

	return text;
}

static bool is_present(const struct launcher *launcher)
{
	return variable(launcher->rank) && (!launcher->needs || id_variable(launcher->needs));
}

/* False also when the value is malformed. */
static bool rank_of(const struct launcher *launcher, int64_t *rank)
{
	return is_present(launcher) &&
	       !beest_parse_int(variable(launcher->rank), 0, INT32_MAX, rank);
}

static const struct launcher *find_launcher(void)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(launchers); i++)
		if (is_present(&launchers[i]))
			return &launchers[i];
	return NULL;
}

#define ORIGIN_SIZE 384
#define ENVIRONMENT "environment "

/* The texts name the source of each value, as after "from"; "": not given. */
struct reading {
	struct beest_launch *launch;
	const struct beest_options *options;
	const struct launcher *launcher;	/* NULL: none is present */
	char rank[ORIGIN_SIZE], size[ORIGIN_SIZE], local[ORIGIN_SIZE], job[ORIGIN_SIZE];
	char caution[320];		/* about the job id, or "" */
};

/* "HARTEBEEST_NID", "job.rank in FILE", "job.rank in argument" */
static void option_origin(const struct beest_options *options, const char *option, char *origin)
{
	const char *source;
	char value[1];

	beest_options_text(options, option, value, sizeof(value), &source);
	if (!strncmp(source, ENVIRONMENT, strlen(ENVIRONMENT)))
		beest_text_copy(origin, ORIGIN_SIZE, source + strlen(ENVIRONMENT));
	else
		snprintf(origin, ORIGIN_SIZE, "%s in %s", option, source);
}

/* ------------------------------------------------------ rank and size --- */

static int read_variable(const char *name, int64_t min, int64_t max, int64_t *number)
{
	int ret = beest_parse_int(variable(name), min, max, number);

	return ret < 0 ? beest_fail_prefix(ret, ENVIRONMENT "%s", name) : 0;
}

static int count_up(struct beest_ids *ids, int64_t count)
{
	char range[32];

	snprintf(range, sizeof(range), "0-%" PRId64, count - 1);
	return beest_parse_ids(range, ids);
}

static int read_participants(struct reading *reading)
{
	const struct beest_options *options = reading->options;
	struct beest_ids *ids = &reading->launch->participants;
	int64_t count = options->nparticipants;
	char origin[ORIGIN_SIZE];
	int ret;

	if (count != BEEST_AUTO)
		option_origin(options, "job.nparticipants", reading->size);
	if (!options->participants)
		return count != BEEST_AUTO ? count_up(ids, count) : 0;

	strcpy(origin, reading->size);
	option_origin(options, "job.participants", reading->size);
	ret = beest_parse_ids(options->participants, ids);
	if (ret < 0)
		return beest_options_fail_prefix(options, ret, "job.participants");
	if (count != BEEST_AUTO && (size_t)count != ids->count)
		return beest_fail(EINVAL, "%zu participant%s (%s), but their number is %" PRId64
				  " (%s): they must agree", ids->count,
				  ids->count == 1 ? "" : "s", reading->size, count, origin);
	return 0;
}

/* Takes the option's rank, else the launcher's. */
static int read_rank(struct reading *reading)
{
	int64_t rank = reading->options->rank;
	int ret = 0;

	if (rank == BEEST_RANK_NONE)
		return 0;
	if (rank != BEEST_AUTO) {
		option_origin(reading->options, "job.rank", reading->rank);
	} else if (reading->launcher) {
		ret = read_variable(reading->launcher->rank, 0, INT32_MAX, &rank);
		strcpy(reading->rank, reading->launcher->rank);
	}
	if (ret == 0)
		reading->launch->rank = (int)rank;
	return ret;
}

static int read_size(struct reading *reading)
{
	const struct launcher *launcher = reading->launcher;
	const char *needed = launcher ? launcher->size : NULL;
	int64_t size;
	int ret;

	if (reading->size[0] || !reading->rank[0])
		return 0;
	if (variable(needed)) {
		strcpy(reading->size, needed);
		ret = read_variable(needed, 1, BEEST_IDS_MAX, &size);
		return ret < 0 ? ret : count_up(&reading->launch->participants, size);
	}

	/* A rank given by an option needs no size, but most launchers must give one. */
	if (reading->options->rank != BEEST_AUTO || launcher->alone)
		return 0;
	return beest_fail(ENODATA, "rank %d (%s), but the number of ranks is unknown: %s%sset "
			  "HARTEBEEST_PARTICIPANTS or HARTEBEEST_NPARTICIPANTS",
			  reading->launch->rank, reading->rank, needed ? needed : "",
			  needed ? " is missing; " : "");
}

static int check_rank(struct reading *reading)
{
	const struct beest_launch *launch = reading->launch;
	const char *given = reading->options->participants;
	char count[32], ids[128];

	if (launch->rank < 0 || !reading->size[0] ||
	    beest_parse_ids_position(&launch->participants, launch->rank) >= 0)
		return 0;
	snprintf(count, sizeof(count), "0-%zu", launch->participants.count - 1);
	given = given ? given : count;
	beest_text_clean(ids, sizeof(ids), given, strlen(given));
	if (launch->participants.count == 1 && reading->options->participants &&
	    launch->rank < launch->participants.id[0])
		return beest_fail(ENOENT, "rank %d is not among the participants %s (%s), a list "
				  "of one id: %s ranks are HARTEBEEST_NPARTICIPANTS=%s",
				  launch->rank, ids, reading->size, ids, ids);
	return beest_fail(ENOENT, "rank %d is not among the participants %s (%s)", launch->rank,
			  ids, reading->size);
}

/*
 * The local rank is that of the nearest launcher that gives one for the same rank: several
 * launchers may have started this process.  One with another rank started only a daemon.
 * Ignores malformed values, since the program may not need a local rank.
 */
static void read_local(struct reading *reading)
{
	const struct launcher *each = reading->launcher;
	int64_t our, its, local;

	if (!each || !rank_of(each, &our))
		return;
	for (; each < launchers + BEEST_COUNT(launchers) && !reading->local[0]; each++) {
		if (!rank_of(each, &its) || its != our || !variable(each->local) ||
		    beest_parse_int(variable(each->local), 0, INT32_MAX, &local) < 0)
			continue;
		reading->launch->local_rank = (int)local;
		strcpy(reading->local, each->local);
	}
}

/* --------------------------------------------- contradicting launchers --- */

struct claim {
	int64_t rank, size;
};

/* Ignores malformed values: nothing depends on them. */
static bool claim_of(const struct launcher *launcher, struct claim *claim)
{
	return rank_of(launcher, &claim->rank) && variable(launcher->size) &&
	       !beest_parse_int(variable(launcher->size), 1, BEEST_IDS_MAX, &claim->size);
}

static void compare_launchers(struct reading *reading)
{
	const struct launcher *ours = reading->launcher, *theirs;
	struct beest_launch *launch = reading->launch;
	struct claim our, their;

	if (!ours || !claim_of(ours, &our))
		return;
	if (reading->options->rank != BEEST_AUTO && (reading->options->participants ||
	    reading->options->nparticipants != BEEST_AUTO))
		return;		/* no launcher was needed */

	for (theirs = ours + 1; theirs < launchers + BEEST_COUNT(launchers); theirs++) {
		if (!claim_of(theirs, &their) ||
		    (our.rank == their.rank && our.size == their.size))
			continue;
		launch->alone = launch->participants.count == 1 && their.size > 1;
		snprintf(launch->warning, sizeof(launch->warning), "%s says rank %" PRId64 " of %"
			 PRId64 " (%s, %s), but %s says rank %" PRId64 " of %" PRId64
			 " (%s, %s); %s is used", ours->name, our.rank, our.size, ours->rank,
			 ours->size, theirs->name, their.rank, their.size, theirs->rank,
			 theirs->size, ours->name);
		return;
	}
}

/*
 * Notes that the environment's rank was taken instead of a launcher's, which may be a leftover: if
 * the launcher passes it on to all ranks, it is right for one of them.
 */
static void compare_environment(struct reading *reading)
{
	const struct launcher *launcher = reading->launcher;
	struct beest_launch *launch = reading->launch;
	int64_t rank;

	if (strncmp(reading->rank, "HARTEBEEST_", strlen("HARTEBEEST_")) != 0 || !launcher ||
	    !rank_of(launcher, &rank))
		return;
	snprintf(rank == launch->rank ? launch->exported : launch->ignored,
		 sizeof(launch->ignored), "rank %d is from %s, which all ranks may have; %s says "
		 "rank %" PRId64 " (%s): unset %s", launch->rank, reading->rank, launcher->name,
		 rank, launcher->rank, reading->rank);
}

/* ------------------------------------------------- what the kernel hides --- */

static bool is_hidden(const char *variable)
{
	size_t i, length = strcspn(variable, "=");

	for (i = 0; i < BEEST_COUNT(launchers); i++)
		if (strlen(launchers[i].rank) == length &&
		    !strncmp(variable, launchers[i].rank, length))
			return true;

	return !strncmp(variable, "HARTEBEEST_", strlen("HARTEBEEST_"));
}

/* In a program with capabilities or a set-user-ID bit, its user must not choose what it does. */
static void say_hidden(struct beest_launch *launch)
{
	char **each = environ;

	if (!getauxval(AT_SECURE))
		return;
	while (each && *each && !is_hidden(*each))
		each++;
	if (each && *each)
		snprintf(launch->ignored, sizeof(launch->ignored), "%.*s and all other variables "
			 "are ignored, since the program's file has capabilities or a set-user-ID "
			 "or set-group-ID bit: use hartebeest.json or arguments of "
			 "hartebeest_open()", (int)strcspn(*each, "="), *each);
}

/* ---------------------------------------------------------------- job --- */

#define SAFE "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._:@+-"

static bool is_every_host(const char *name)
{
	static const char local[] = "localhost";
	size_t length = sizeof(local) - 1;
	struct beest_ipaddr ip;

	if (!strncasecmp(name, local, length) && (!name[length] || name[length] == '.'))
		return true;

	return beest_ipaddr_parse(name, &ip) == 0 && beest_ipaddr_nobody(&ip);
}

static const char *part_name(const char *part)
{
	return part + (*part == '?' || *part == '@');
}

/* NULL: it is absent. */
static const char *part_value(const char *part, char host[HOST_NAME_MAX + 1])
{
	const char *value = id_variable(part_name(part));

	if (!value || *part != '@' || !is_every_host(value) ||
	    gethostname(host, HOST_NAME_MAX + 1) < 0)
		return value;

	return host;
}

static bool id_is_set(const struct job_id *id)
{
	const char *nodes = variable(id->single);
	size_t i;

	if (id->single && (!nodes || strcmp(nodes, "1") != 0))
		return false;
	for (i = 0; i < BEEST_COUNT(id->part) && id->part[i]; i++)
		if (*id->part[i] != '?' && !id_variable(part_name(id->part[i])))
			return false;

	return i > 0;
}

/* The first one that is set; NULL: none is. */
static const struct job_id *id_find(const struct job_id *ids, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (id_is_set(&ids[i]))
			return &ids[i];

	return NULL;
}

/* A job id as it is put together, and where its parts are from. */
struct composed {
	struct beest_text text, origin;
	uint64_t hash;
};

static void id_add(const struct job_id *id, struct composed *composed)
{
	char host[HOST_NAME_MAX + 1];
	const char *value, *dot;
	size_t i;

	for (i = 0; i < BEEST_COUNT(id->part) && id->part[i]; i++) {
		value = part_value(id->part[i], host);
		if (!value)
			continue;
		dot = composed->origin.used ? "." : "";
		composed->hash = beest_hash_fnv(composed->hash, dot, strlen(dot));
		composed->hash = beest_hash_fnv(composed->hash, value, strlen(value));
		beest_text_add(&composed->text, "%s%s", dot, value);
		beest_text_add(&composed->origin, "%s%s", dot, part_name(id->part[i]));
	}
}

/* Hashes an id that does not fit a key; the hash is the same on every node.  @batch may be NULL. */
static void take_job_id(struct reading *reading, const struct job_id *id,
			const struct job_id *batch)
{
	char *job = reading->launch->job;
	struct composed composed = { .hash = BEEST_HASH_FNV };

	beest_text_start(&composed.text, job, sizeof(reading->launch->job));
	beest_text_start(&composed.origin, reading->job, sizeof(reading->job));
	id_add(id, &composed);
	if (batch)
		id_add(batch, &composed);

	if (composed.text.full || strspn(job, SAFE) != composed.text.used)
		snprintf(job, sizeof(reading->launch->job), "fnv1a-%016" PRIx64, composed.hash);
	if (id->shared)
		snprintf(reading->caution, sizeof(reading->caution), "job id %s (%.60s) is that of "
			 "%s: give each run a HARTEBEEST_JOB", job, reading->job, id->shared);
}

/* Refuses bytes that no Memcached key can have, and "/", which separates the parts of a key. */
static int check_job(const char *job)
{
	const char *at = beest_text_not_key(job);

	if (strlen(job) > BEEST_JOB_MAX)
		return beest_fail(ENAMETOOLONG, "%s has %zu bytes: %d are the limit",
				  BEEST_QUOTE(job), strlen(job), BEEST_JOB_MAX);
	if (!at)
		at = strchr(job, '/');
	if (at)
		return beest_fail(EINVAL, "%s has %s at byte %td: blanks, control "
				  "characters, '/' and bytes beyond ASCII are refused",
				  BEEST_QUOTE(job), BEEST_BYTE_TEXT(*at), at - job + 1);
	return 0;
}

static int read_job(struct reading *reading)
{
	const struct launcher *launcher = reading->launcher;
	const struct job_id *id = NULL, *batch = id_find(batch_jobs, BEEST_COUNT(batch_jobs));
	const char *job = reading->options->job;
	int ret;

	if (job) {
		ret = check_job(job);
		if (ret < 0)
			return beest_options_fail_prefix(reading->options, ret, "job.id");
		strcpy(reading->launch->job, job);
		option_origin(reading->options, "job.id", reading->job);
		return 0;
	}

	if (launcher)
		id = id_find(launcher->job, BEEST_COUNT(launcher->job));
	if (id || batch) {
		take_job_id(reading, id ? id : batch, id && id->batch ? batch : NULL);
		return 0;
	}
	strcpy(reading->launch->job, BEEST_JOB_NONE);
	reading->job[0] = '\0';
	strcpy(reading->caution, "no job id is known, and runs without one meet each "
	       "other: give each run a HARTEBEEST_JOB");
	return 0;
}

/* ---------------------------------------------------------- interface --- */

static void describe_launch(const struct reading *reading)
{
	struct beest_launch *launch = reading->launch;
	struct beest_text text;

	beest_text_start(&text, launch->source, sizeof(launch->source));
	if (reading->rank[0] && reading->size[0])
		beest_text_add(&text, "rank %d of %zu (from %s, %s)", launch->rank,
			       launch->participants.count, reading->rank, reading->size);
	else if (reading->rank[0])
		beest_text_add(&text, "rank %d (from %s), number of ranks unknown", launch->rank,
			       reading->rank);
	else if (reading->size[0])
		beest_text_add(&text, "no rank, number of ranks %zu (from %s)",
			       launch->participants.count, reading->size);
	else
		beest_text_add(&text, "no rank");
	if (reading->local[0])
		beest_text_add(&text, ", local rank %d (from %s)", launch->local_rank,
			       reading->local);
	if (reading->job[0])
		beest_text_add(&text, ", job %s (from %s)", launch->job, reading->job);
	else
		beest_text_add(&text, ", no job id");
}

static void caution_add(struct beest_launch *launch, const char *caution)
{
	size_t used = strlen(launch->warning);

	snprintf(launch->warning + used, sizeof(launch->warning) - used, "%s%s", used ? "; " : "",
		 caution);
}

int beest_launch_check(const struct beest_launch *launch)
{
	if (!launch->alone)
		return 0;

	return beest_fail(ENODATA, "%s: this rank alone would wait for no other; unset what is "
			  "left over, or set HARTEBEEST_NID and HARTEBEEST_PARTICIPANTS",
			  launch->warning);
}

/* Options win; a launcher gives the rest. */
static int (*const reading_steps[])(struct reading *reading) = {
	read_participants,
	read_rank,
	read_size,
	check_rank,
	read_job,
};

int beest_launch_read(struct beest_launch *launch, const struct beest_options *options)
{
	struct reading reading = { launch, options, find_launcher(), "", "", "", "", "" };
	size_t i;
	int ret = 0;

	*launch = (struct beest_launch){ .rank = -1, .local_rank = -1 };
	for (i = 0; ret == 0 && i < BEEST_COUNT(reading_steps); i++)
		ret = reading_steps[i](&reading);
	if (ret < 0) {
		beest_launch_free(launch);
		return ret;
	}

	read_local(&reading);
	compare_launchers(&reading);
	compare_environment(&reading);
	say_hidden(launch);
	/* A rank given by hand belongs to a user who reads how that is done. */
	if (options->rank == BEEST_AUTO && launch->rank >= 0 && reading.caution[0])
		caution_add(launch, reading.caution);
	describe_launch(&reading);
	return 0;
}

/* What may explain each failure. */
static const struct {
	int err;
	bool source, warning;
} hints[] = {
	{ EADDRINUSE, true, true },
	{ ETIMEDOUT, false, true },
	{ ENODATA, false, true },
	{ EDESTADDRREQ, false, false },
};

static void hint_add(int ret, const char *text, bool wanted)
{
	if (wanted && text[0] && !strstr(beest_error_text(), text))
		beest_fail(-ret, "%s; %s", beest_error_text(), text);
}

int beest_launch_hint(const struct beest_launch *launch, int ret)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(hints); i++) {
		if (ret != -hints[i].err)
			continue;
		hint_add(ret, launch->source, hints[i].source);
		hint_add(ret, launch->warning, hints[i].warning);
		hint_add(ret, launch->exported, hints[i].source);
		hint_add(ret, launch->ignored, true);
	}
	return ret;
}

void beest_launch_free(struct beest_launch *launch)
{
	beest_parse_ids_free(&launch->participants);
	*launch = (struct beest_launch){ .rank = -1, .local_rank = -1 };
}
