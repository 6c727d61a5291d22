/* SPDX-License-Identifier: MIT */
/*
 * launch.c - options first, then the first launcher of the table that is present
 *
 * All ranks of a launcher see its variables, so the job id comes from these first: under
 * mpirun within Slurm, for one, only some ranks have a SLURM_STEP_ID.
 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/text.h"
#include "lib/settings/launch.h"

/* ------------------------------------------------------------- tables --- */

/* Variables joined by dots; "?" marks one that may be absent. */
struct job_id {
	const char *part[3];
};

struct launcher {
	const char *name;
	const char *rank;
	const char *size;	/* NULL: in no variable at all */
	const char *needs;	/* not this launcher without it; may be NULL */
	struct job_id job[3];
};

/*
 * The launcher nearest to the program comes first, since the program inherits the
 * variables of the others, too: mpirun's daemons are Slurm tasks with a SLURM_PROCID.
 * Slurm's batch script also has rank 0 of N in its environment, but only a step runs N
 * times.
 */
static const struct launcher launchers[] = {
	{ "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL,
	  { { { "PMIX_NAMESPACE" } } } },
	{ "PMI", "PMI_RANK", "PMI_SIZE", NULL,
	  { { { "PMI_JOBID" } }, { { "PALS_APID" } }, { { "FLUX_JOB_ID" } } } },
	{ "JSM", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", NULL,
	  { { { "PMIX_NAMESPACE" } }, { { "LSB_JOBID" } } } },
	{ "Flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE", NULL,
	  { { { "FLUX_JOB_ID" } } } },
	{ "PALS", "PALS_RANKID", "PMI_SIZE", NULL,
	  { { { "PALS_APID" } } } },
	{ "Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID",
	  { { { "SLURM_JOB_ID", "SLURM_STEP_ID", "?SLURM_RESTART_COUNT" } } } },
	{ "MVAPICH2", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", NULL,
	  { { { NULL } } } },
	{ "PMIx", "PMIX_RANK", NULL, NULL,
	  { { { "PMIX_NAMESPACE" } } } },
};

/* The allocation's: shared by all runs in it, but better than none. */
static const struct job_id batch_jobs[] = {
	{ { "SLURM_JOB_ID", "?SLURM_RESTART_COUNT" } },
	{ { "LSB_JOBID" } },
	{ { "PBS_JOBID" } },
	{ { "COBALT_JOBID" } },
	{ { "FLUX_JOB_ID" } },
	{ { "JOB_ID" } },	/* Grid Engine */
};

/* An empty variable counts as unset. */
static const char *variable(const char *name)
{
	const char *text = name ? secure_getenv(name) : NULL;

	return text && *text ? text : NULL;
}

static bool is_present(const struct launcher *launcher)
{
	return variable(launcher->rank) && (!launcher->needs || variable(launcher->needs));
}

static const struct launcher *find_launcher(void)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(launchers); i++)
		if (is_present(&launchers[i]))
			return &launchers[i];
	return NULL;
}

/* ------------------------------------------------------------- origin --- */

/* Where a value came from: an option, or a launcher's variable. */
struct origin {
	const char *option;	/* NULL: a variable */
	const char *source;	/* of the option; or the variable's name; NULL: nowhere */
};

struct reading {
	struct beest_launch *launch;
	const struct beest_options *options;
	const struct launcher *launcher;	/* NULL: none is present */
	struct origin rank, size, job;
};

#define ORIGIN_SIZE 384
#define ENVIRONMENT "environment "

static struct origin from_option(const struct beest_options *options, const char *option)
{
	struct origin origin = { option, NULL };
	char value[1];

	beest_options_text(options, option, value, sizeof(value), &origin.source);
	return origin;
}

/* "job.rank from environment HARTEBEEST_NID", "SLURM_PROCID" */
static const char *origin_text(const struct origin *origin, char *text)
{
	snprintf(text, ORIGIN_SIZE, "%s%s%s", origin->option ? origin->option : "",
		 origin->option ? " from " : "", origin->source);
	return text;
}

/* After "from": "HARTEBEEST_NID", "job.rank in FILE", "job.rank in argument" */
static const char *origin_short(const struct origin *origin, char *text)
{
	const size_t skipped = strlen(ENVIRONMENT);

	if (!origin->option)
		snprintf(text, ORIGIN_SIZE, "%s", origin->source);
	else if (!strncmp(origin->source, ENVIRONMENT, skipped))
		snprintf(text, ORIGIN_SIZE, "%s", origin->source + skipped);
	else
		snprintf(text, ORIGIN_SIZE, "%s in %s", origin->option, origin->source);
	return text;
}

/* --------------------------------------------------- rank and others --- */

static int read_variable(const char *name, int64_t min, int64_t max, int64_t *number)
{
	int ret = beest_parse_int(variable(name), min, max, number);

	return ret < 0 ? beest_fail_prefix(ret, ENVIRONMENT "%s", name) : 0;
}

static int count_up(struct beest_ids *ids, int64_t count)
{
	int64_t i;

	ids->id = malloc(count * sizeof(*ids->id));
	if (!ids->id)
		return beest_fail(ENOMEM, "no memory for %" PRId64 " ids", count);

	for (i = 0; i < count; i++)
		ids->id[i] = i;
	ids->count = count;
	return 0;
}

static int check_count(const struct reading *reading)
{
	struct origin origin = from_option(reading->options, "job.nparticipants");
	int64_t count = reading->options->nparticipants;
	char list[ORIGIN_SIZE], number[ORIGIN_SIZE];

	if (count == BEEST_AUTO || (size_t)count == reading->launch->participants.count)
		return 0;
	return beest_fail(EINVAL, "%zu participants (%s), but their number is %" PRId64 " (%s)",
			  reading->launch->participants.count,
			  origin_text(&reading->size, list), count,
			  origin_text(&origin, number));
}

static int read_participants(struct reading *reading)
{
	const struct beest_options *options = reading->options;
	struct beest_launch *launch = reading->launch;
	char text[ORIGIN_SIZE];
	int ret;

	if (options->participants) {
		reading->size = from_option(options, "job.participants");
		ret = beest_parse_ids(options->participants, &launch->participants);
		if (ret < 0)
			return beest_fail_prefix(ret, "%s", origin_text(&reading->size, text));
		return check_count(reading);
	}
	if (options->nparticipants != BEEST_AUTO) {
		reading->size = from_option(options, "job.nparticipants");
		return count_up(&launch->participants, options->nparticipants);
	}
	return 0;
}

/* The launcher's where no option gives it. */
static int read_rank(struct reading *reading)
{
	const struct launcher *launcher = reading->launcher;
	int64_t rank;
	int ret;

	if (reading->options->rank != BEEST_AUTO) {
		reading->launch->rank = reading->options->rank;
		reading->rank = from_option(reading->options, "job.rank");
		return 0;
	}
	if (!launcher)
		return 0;

	ret = read_variable(launcher->rank, 0, INT32_MAX, &rank);
	if (ret < 0)
		return ret;
	reading->launch->rank = rank;
	reading->rank.source = launcher->rank;
	return 0;
}

static int read_size(struct reading *reading)
{
	const char *needed = reading->launcher ? reading->launcher->size : NULL;
	char text[ORIGIN_SIZE];
	int64_t size;
	int ret;

	if (reading->size.source || !reading->rank.source)
		return 0;
	if (variable(needed)) {
		ret = read_variable(needed, 1, BEEST_IDS_MAX, &size);
		if (ret < 0)
			return ret;
		reading->size.source = needed;
		return count_up(&reading->launch->participants, size);
	}

	/* A rank given by an option needs no number of ranks; a launcher always has one. */
	if (reading->rank.option)
		return 0;
	return beest_fail(ENODATA, "rank %d (%s), but the number of ranks is unknown: %s%sset "
			  "HARTEBEEST_PARTICIPANTS or HARTEBEEST_NPARTICIPANTS", reading->launch->rank,
			  origin_text(&reading->rank, text), needed ? needed : "",
			  needed ? " is missing; " : "");
}

/* "0-3,8", cut with dots where it does not fit */
static const char *ids_text(const struct beest_ids *ids, char *buffer, size_t size)
{
	struct beest_text text;
	size_t first, last;

	beest_text_start(&text, buffer, size);
	for (first = 0; first < ids->count && !text.full; first = last + 1) {
		for (last = first; last + 1 < ids->count; last++)
			if (ids->id[last + 1] != ids->id[last] + 1)
				break;
		beest_text_add(&text, "%s%d", text.used ? "," : "", ids->id[first]);
		if (last > first)
			beest_text_add(&text, "-%d", ids->id[last]);
	}
	return buffer;
}

static int check_rank(struct reading *reading)
{
	const struct beest_launch *launch = reading->launch;
	char ids[128], origin[ORIGIN_SIZE];

	if (launch->rank < 0 || !reading->size.source ||
	    beest_parse_ids_contain(&launch->participants, launch->rank))
		return 0;
	return beest_fail(ENOENT, "rank %d is not among the participants %s (%s)", launch->rank,
			  ids_text(&launch->participants, ids, sizeof(ids)),
			  origin_text(&reading->size, origin));
}

/* ------------------------------------------------------ contradiction --- */

struct claim {
	int64_t rank, size;
};

/* Ignores malformed values: the launcher is not needed. */
static bool claim_of(const struct launcher *launcher, struct claim *claim)
{
	return is_present(launcher) && variable(launcher->size) &&
	       !beest_parse_int(variable(launcher->rank), 0, INT32_MAX, &claim->rank) &&
	       !beest_parse_int(variable(launcher->size), 1, BEEST_IDS_MAX, &claim->size);
}

static void compare_launchers(struct reading *reading)
{
	const struct launcher *ours = reading->launcher, *theirs = ours;
	struct beest_launch *launch = reading->launch;
	struct claim our, their;

	if (!ours || !claim_of(ours, &our))
		return;
	if (reading->rank.option && reading->size.option)
		return;		/* no launcher was needed */

	for (theirs++; theirs < launchers + BEEST_COUNT(launchers); theirs++) {
		if (!claim_of(theirs, &their) ||
		    (our.rank == their.rank && our.size == their.size))
			continue;
		snprintf(launch->warning, sizeof(launch->warning), "%s says rank %" PRId64 " of %"
			 PRId64 " (%s, %s), but %s says rank %" PRId64 " of %" PRId64
			 " (%s, %s); %s is believed", ours->name, our.rank, our.size, ours->rank,
			 ours->size, theirs->name, their.rank, their.size, theirs->rank,
			 theirs->size, ours->name);
		return;
	}
}

/* ---------------------------------------------------------------- job --- */

/* Kept short in a key; hashed in full, whatever its length. */
struct job_text {
	char text[BEEST_JOB_MAX + 1];
	size_t length;
	uint64_t hash;
	bool safe;
};

static bool is_safe(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       (c && strchr("._:@+-", c));
}

/* The hash is the same on every node. */
static void add_text(struct job_text *job, const char *text)
{
	job->hash = beest_hash_fnv(job->hash, text, strlen(text));
	for (; *text; text++) {
		job->safe = job->safe && is_safe(*text);
		if (job->length < BEEST_JOB_MAX)
			job->text[job->length] = *text;
		job->length++;
	}
}

static const char *part_value(const char *part)
{
	return part ? variable(part + (*part == '?')) : NULL;
}

static bool has_job(const struct job_id *id)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(id->part) && id->part[i]; i++)
		if (*id->part[i] != '?' && !variable(id->part[i]))
			return false;
	return i > 0;
}

static void compose_job(const struct job_id *id, char *job)
{
	struct job_text composed = { "", 0, BEEST_HASH_FNV, true };
	size_t i;

	for (i = 0; i < BEEST_COUNT(id->part); i++) {
		if (!part_value(id->part[i]))
			continue;
		if (i)
			add_text(&composed, ".");
		add_text(&composed, part_value(id->part[i]));
	}

	if (composed.safe && composed.length <= BEEST_JOB_MAX)
		memcpy(job, composed.text, sizeof(composed.text));
	else
		snprintf(job, sizeof(composed.text), "fnv1a-%016" PRIx64, composed.hash);
}

static const struct job_id *find_job_among(const struct job_id *ids, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (has_job(&ids[i]))
			return &ids[i];
	return NULL;
}

static const struct job_id *find_job(const struct launcher *launcher)
{
	const struct job_id *id = NULL;

	if (launcher)
		id = find_job_among(launcher->job, BEEST_COUNT(launcher->job));
	if (!id)
		id = find_job_among(batch_jobs, BEEST_COUNT(batch_jobs));
	return id;
}

/* Refuses what a key of Memcached cannot hold, and "/", which separates its parts. */
static int check_job(const char *job)
{
	const char *at = beest_text_not_key(job);

	if (strlen(job) > BEEST_JOB_MAX)
		return beest_fail(ENAMETOOLONG, "%s has %zu bytes: %d are the limit",
				  BEEST_QUOTE(job), strlen(job), BEEST_JOB_MAX);
	if (!at)
		at = strchr(job, '/');
	if (at)
		return beest_fail(EINVAL, "%s has 0x%02x at byte %td: blanks, control "
				  "characters, '/' and bytes beyond ASCII are refused",
				  BEEST_QUOTE(job), (unsigned char)*at, at - job + 1);
	return 0;
}

static int read_job(struct reading *reading)
{
	const struct job_id *id;
	char text[ORIGIN_SIZE];
	int ret;

	if (!reading->options->job) {
		id = find_job(reading->launcher);
		if (id)
			compose_job(id, reading->launch->job);
		else
			strcpy(reading->launch->job, "-");
		return 0;
	}

	reading->job = from_option(reading->options, "job.id");
	ret = check_job(reading->options->job);
	if (ret < 0)
		return beest_fail_prefix(ret, "%s", origin_text(&reading->job, text));
	strcpy(reading->launch->job, reading->options->job);
	return 0;
}

/* ---------------------------------------------------------- interface --- */

static void add_ranks(const struct reading *reading, struct beest_text *source)
{
	const struct beest_launch *launch = reading->launch;
	char rank[ORIGIN_SIZE], size[ORIGIN_SIZE];

	if (!reading->size.source && !reading->rank.source)
		beest_text_add(source, "no rank");
	else if (!reading->size.source)
		beest_text_add(source, "rank %d (from %s), number of ranks unknown",
			       launch->rank, origin_short(&reading->rank, rank));
	else if (!reading->rank.source)
		beest_text_add(source, "no rank of %zu (from %s)", launch->participants.count,
			       origin_short(&reading->size, size));
	else
		beest_text_add(source, "rank %d of %zu (from %s, %s)", launch->rank,
			       launch->participants.count,
			       origin_short(&reading->rank, rank),
			       origin_short(&reading->size, size));
}

static void add_job(const struct reading *reading, struct beest_text *source)
{
	const struct job_id *id = find_job(reading->launcher);
	char text[ORIGIN_SIZE];
	size_t i;

	if (!reading->job.source && !id) {
		beest_text_add(source, ", no job id");
		return;
	}

	beest_text_add(source, ", job %s (from ", reading->launch->job);
	if (reading->job.source)
		beest_text_add(source, "%s", origin_short(&reading->job, text));
	for (i = 0; !reading->job.source && i < BEEST_COUNT(id->part); i++)
		if (part_value(id->part[i]))
			beest_text_add(source, "%s%s", i ? "." : "",
				       id->part[i] + (*id->part[i] == '?'));
	beest_text_add(source, ")");
}

/* Options win; a launcher fills what they leave open. */
static int (*const steps[])(struct reading *reading) = {
	read_participants,
	read_rank,
	read_size,
	check_rank,
	read_job,
};

int beest_launch_read(struct beest_launch *launch, const struct beest_options *options)
{
	struct reading reading = { launch, options, find_launcher(), { NULL, NULL },
				   { NULL, NULL }, { NULL, NULL } };
	struct beest_text source;
	size_t i;
	int ret;

	memset(launch, 0, sizeof(*launch));
	launch->rank = -1;
	for (i = 0; i < BEEST_COUNT(steps); i++) {
		ret = steps[i](&reading);
		if (ret < 0) {
			beest_launch_free(launch);
			return ret;
		}
	}

	compare_launchers(&reading);
	beest_text_start(&source, launch->source, sizeof(launch->source));
	add_ranks(&reading, &source);
	add_job(&reading, &source);
	return 0;
}

void beest_launch_free(struct beest_launch *launch)
{
	beest_parse_ids_free(&launch->participants);
	memset(launch, 0, sizeof(*launch));
	launch->rank = -1;
}
