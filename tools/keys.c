/* SPDX-License-Identifier: MIT */
/*
 * keys.c - hartebeest keys: lists the keys of a job on the servers, or removes them
 *
 * Owns the lists for people, and the judgement whether a job is dead.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "tools/command.h"
#include "tools/ranks.h"
#include "tools/records.h"
#include "tools/session.h"

#define LABEL 24
#define PREFIX "hb1/"
#define PATIENCE (30 * BEEST_SECOND)

static bool clean, force, all_jobs, only_waiting;

static const struct args_option options[] = {
	{ "all", 'a', ARGS_FLAG, &all_jobs, .help = "all jobs, one line each" },
	{ "waiting", 'w', ARGS_FLAG, &only_waiting,
	  .help = "only which ranks are there, and what they wait for" },
	{ "clean", 0, ARGS_FLAG, &clean, .help = "remove what a dead job has left" },
	{ "force", 0, ARGS_FLAG, &force,
	  .help = "remove it even if the job may be alive: its waits then fail" },
	{ .name = NULL },
};

/* ------------------------------------------------------------ all jobs --- */

/* The length of JOB in a key "hb1/JOB/...". */
static size_t job_length(const struct records_record *record)
{
	return strcspn(record->key + strlen(PREFIX), "/");
}

static bool is_same_job(const struct records_record *a, const struct records_record *b)
{
	return job_length(a) == job_length(b) &&
	       !memcmp(a->key, b->key, strlen(PREFIX) + job_length(a));
}

static int list_jobs(struct out *out, const struct records *records)
{
	struct json_object *array = out_json_array(out->json, "jobs"), *item;
	size_t i, end, ranks;
	char job[100];

	out_title(out, LABEL, "jobs");
	for (i = 0; i < records->count; i = end) {
		ranks = 0;
		for (end = i; end < records->count && is_same_job(&records->list[i],
								  &records->list[end]); end++)
			ranks += !strncmp(records->list[end].name, "rank/", 5) &&
				 strcmp(records->list[end].name, "rank/servers");
		snprintf(job, sizeof(job), "%.*s",
			 (int)BEEST_MIN(job_length(&records->list[i]), 99),
			 records->list[i].key + strlen(PREFIX));
		item = out_json_item(array);
		out_json_text(item, "job", job);
		out_json_int(item, "keys", (int64_t)(end - i));
		out_json_int(item, "ranks", (int64_t)ranks);
		if (!out->json)
			out_line(out, OUT_NOTE, job, "%zu key%s, %zu rank%s", end - i,
				 end - i == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s");
	}
	if (!records->count && !out->json)
		out_line(out, OUT_NOTE, "none", "no job has keys on %s",
			 records->server_count > 1 ? "these servers" : "this server");
	return STATUS_GOOD;
}

/* ------------------------------------------------------------- one job --- */

static void show_record(struct out *out, const struct records *records,
			const struct records_record *record, struct json_object *array)
{
	struct json_object *item = out_json_item(array);
	char text[1024], left[32] = "";

	records_text(records, record, text, sizeof(text));
	out_json_text(item, "key", record->name);
	out_json_text(item, "server", records->servers[record->server].text);
	out_json_int(item, "bytes", (int64_t)record->size);
	out_json_int(item, "seconds_left", record->left);
	out_json_text(item, "text", text);
	if (record->ret == 0)
		out_json_int(item, "rank", record->record.rank);
	if (record->is_presence) {
		out_json_text(item, "state", record->life);
		out_json_text(item, "host", record->rank.host);
		out_json_int(item, "pid", record->rank.pid);
	}
	if (out->json)
		return;
	/* The record under a plain name has another time to live, so its age is unknown. */
	if (record->left >= 0 && record->left <= records->ttl &&
	    strcmp(record->name, "rank/servers"))
		snprintf(left, sizeof(left), ", %" PRId64 " s old", records->ttl - record->left);
	out_line(out, record->is_alive ? OUT_OK : OUT_NOTE, record->name, "%s%s", text,
		 record->is_alive ? left : "");
}

static void show_costs(struct out *out, const struct records *records)
{
	const struct store_listing *listing;
	int i;

	for (i = 0; i < records->server_count; i++) {
		listing = &records->listings[i];
		out_text(out, "  %s: '%s' walked over %" PRIu64 " keys, %.1f ms, %" PRIu64 " kB",
			 records->servers[i].text, listing->command, listing->keys,
			 (double)listing->time / BEEST_MS, listing->bytes / 1000);
		if (listing->by_name)
			out_line(out, OUT_NOTE, "cut", "%s works, but lists no keys, as a proxy: "
				 "only the epoch, the news and the ranks of these settings were "
				 "asked for", records->servers[i].text);
		if (!listing->cut || listing->by_name)
			continue;
		out_line(out, OUT_WARNING, "cut", "%s lists at most 2 MB of keys of each size "
			 "class", records->servers[i].text);
		out_cure(out, listing->without_crawler ? "start memcached without -o "
			 "no_lru_crawler and no_modern: then it lists all keys" :
			 "memcached 1.4.31 or later lists all keys");
	}
}

/* Is the job over, as far as the servers know?  If it may not be, *why is the reason. */
static bool is_dead(const struct records *records, const char **why)
{
	const struct records_record *each;
	size_t i, presences = 0;

	*why = NULL;
	for (i = 0; i < records->count; i++) {
		each = &records->list[i];
		presences += each->is_presence;
		if (each->is_alive)
			*why = "one of its ranks is present";
		else if (each->is_unopened && !*why)
			*why = "some of its records are sealed, and HARTEBEEST_SECRET_FILE does "
			       "not open them";
		else if ((each->ret == -EKEYREJECTED || each->ret == -EPROTONOSUPPORT) && !*why)
			*why = "some of its records are of a job without this secret, or of "
			       "another version";
	}
	for (i = 0; i < (size_t)records->server_count; i++) {
		if (records->listings[i].cut && !*why)
			*why = "not all of its keys can be listed";
		if (records->listings[i].evictions && !presences && !*why)
			*why = "the server has evicted keys, perhaps that of a rank";
	}
	return !*why;
}

/* Returns the number of keys removed, or a negative errno. */
static int remove_from(const struct records *records, int server)
{
	struct store *store = NULL;
	int ret = store_open(&store, &records->servers[server], PATIENCE), removed = 0;
	size_t i;

	for (i = 0; ret == 0 && i < records->count; i++) {
		if (records->list[i].server != server)
			continue;
		ret = store_delete(store, records->list[i].key);
		removed += ret == 0;
		ret = ret == -ENOENT ? 0 : ret;
	}
	store_close(store);
	return ret < 0 ? ret : removed;
}

static int remove_all(struct out *out, const struct records *records)
{
	int server, ret = 0, removed = 0;

	for (server = 0; ret >= 0 && server < records->server_count; server++) {
		out_waiting(out, "removing keys from %s", records->servers[server].text);
		ret = remove_from(records, server);
		out_waiting_end(out);
		removed += BEEST_MAX(ret, 0);
	}
	out_json_int(out->json, "removed", removed);
	if (ret < 0)
		out_error(out, "%s", beest_error_text());
	else
		out_text(out, "removed %d key%s", removed, removed == 1 ? "" : "s");
	return ret < 0 ? STATUS_FAILED : STATUS_GOOD;
}

static int clean_job(struct out *out, const struct records *records, const char *job)
{
	const char *why;

	if (!records->count && !force) {
		out_error(out, "job %s has no keys here; 'hartebeest keys --all' lists the jobs "
			  "that have some", job);
		return STATUS_FAILED;
	}
	if (is_dead(records, &why) || force)
		return remove_all(out, records);

	out_error(out, "job %s may be alive: %s; 'hartebeest keys --clean --force' removes it "
		  "anyway, and its waits then fail", job, why);
	return STATUS_FAILED;
}

static int list_job(struct out *out, const struct records *records, const char *job)
{
	struct json_object *array = out_json_array(out->json, "keys");
	char title[100];
	size_t i;

	out_json_text(out->json, "job", job);
	snprintf(title, sizeof(title), "job %s", job);
	out_title(out, LABEL, title);
	ranks_show(out, records);
	for (i = 0; i < records->count; i++)
		if (!only_waiting || ranks_waits(&records->list[i]))
			show_record(out, records, &records->list[i], array);
	if (!records->count && !out->json)
		out_line(out, OUT_NOTE, "none", "this job has no keys here; "
			 "'hartebeest keys --all' lists the jobs that have some");
	records_check(out, records);
	show_costs(out, records);
	return out->counts[OUT_WARNING] ? STATUS_FAILED : STATUS_GOOD;
}

static int keys(struct out *out, int count, char **operands)
{
	struct hartebeest_context *hb;
	struct records records;
	const char *job;
	int status = session_open(out, &hb);

	if (status != STATUS_GOOD)
		return status;

	job = count ? operands[0] : hartebeest_job(hb);
	if (only_waiting && (clean || all_jobs)) {
		out_error(out, "--waiting lists the ranks of one job: it goes without --clean and "
			  "--all");
		status = STATUS_MISUSED;
	} else if (all_jobs && (clean || count)) {
		out_error(out, "--all only lists: name one job to clean");
		status = STATUS_MISUSED;
	} else if (force && !clean) {
		out_error(out, "--force goes with --clean only");
		status = STATUS_MISUSED;
	} else if (!*job || beest_text_not_key(job) || strchr(job, '/') || strlen(job) > 64) {
		out_error(out, "a job cannot be called %s: use up to 64 printable characters "
			  "without '/' and blanks", BEEST_QUOTE(job));
		status = STATUS_MISUSED;
	} else {
		status = records_read(out, hb, all_jobs ? NULL : job, &records);
		if (status == STATUS_GOOD)
			status = all_jobs ? list_jobs(out, &records)
				 : clean ? clean_job(out, &records, job)
					 : list_job(out, &records, job);
		records_free(&records);
	}
	session_close(hb);
	return status;
}

const struct command keys_command = {
	.name = "keys",
	.operands = "[JOB]",
	.help = "Lists what is stored on the Memcached servers for a job, or removes it.",
	.options = options,
	.most = 1,
	.run = keys,
	.more = "JOB: by default that of HARTEBEEST_JOB or the launcher.  The server walks over\n"
		"all its keys: about 0.4 s and 20 MB where it has 200 000.  Exit status 1: ranks\n"
		"disagree, there is nothing to clean, or the job may be alive.\n\n"
		"  rank/N, qp/..., mr/...  what a rank has published: itself, queue pairs, "
		"regions\n"
		"  msg/..., gather/...     messages, and values of a gather, until they expire\n"
		"  fence/...               who has arrived at a barrier, a gather or a mesh\n"
		"  epoch                   random bytes, which change when the server loses all\n"
		"  news                    random bytes, which change when a rank leaves or fails\n"
		"  starts/N                the processes of a rank that began a moment ago\n"
		"  .../count               how many have arrived, as the servers count\n",
};
