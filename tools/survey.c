/* SPDX-License-Identifier: MIT */
/* survey.c - see survey.h */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "tools/pinger.h"
#include "tools/session.h"
#include "tools/survey.h"

#define NAME "mesh"
#define THREADS 4		/* to connect, as the kernel sleeps in each transition on RoCE */

/* How long the bandwidth of a pair is measured. */
#define RATE_TIME (50 * BEEST_MS)

/* How long to wait for the reports of the others once the bring-up failed. */
#define REPORT_TIME (3 * BEEST_SECOND)

/* How often a slow pair is measured again before it is reported. */
#define REPEATS 2

/* -------------------------------------------------------------- reporting --- */

static void name_report(char name[40], int rank)
{
	snprintf(name, 40, NAME "-report-%d", rank);
}

/* Deletes what an earlier run left, which would be taken for a report of this run. */
static int clear_report(struct survey *survey)
{
	char name[40];
	int ret;

	name_report(name, hartebeest_rank(survey->hb));
	ret = hartebeest_msg_delete(survey->hb, name, hartebeest_clock() + survey->timeout);
	return ret == -ENOENT ? 0 : ret;
}

static void fill_own(struct survey *survey, const char *error)
{
	const struct hartebeest_mesh_stats *stats = &survey->stats;
	struct matrix_row *row = &survey->matrix.rows[survey->own];

	row->here = true;
	row->rank = hartebeest_rank(survey->hb);
	gethostname(row->host, sizeof(row->host) - 1);
	row->phases[MATRIX_CREATE] = stats->create.time;
	row->phases[MATRIX_PUBLISH] = stats->publish.time;
	row->phases[MATRIX_WAIT] = stats->wait.time;
	row->phases[MATRIX_FETCH] = stats->fetch.time;
	row->phases[MATRIX_RTR] = stats->rtr.time;
	row->phases[MATRIX_RTS] = stats->rts.time;
	row->phases[MATRIX_CONFIRM] = stats->confirm.time;
	if (error && *error)
		row->error = strdup(error);
}

static void report(struct survey *survey)
{
	struct json_object *object = matrix_row_object(&survey->matrix, survey->own);
	const char *text = json_object_to_json_string(object);
	char name[40];

	name_report(name, hartebeest_rank(survey->hb));
	hartebeest_msg_push(survey->hb, name, text, strlen(text),
			    hartebeest_clock() + survey->timeout);
	json_object_put(object);
}

static void read_report(struct survey *survey, int row, const char *text)
{
	struct json_object *object = json_tokener_parse(text);

	survey->matrix.rows[row].rank = hartebeest_participant(survey->hb, row);
	if (!object || !matrix_row_read(&survey->matrix, row, object))
		survey->matrix.rows[row].error = strdup("its report cannot be read");
	json_object_put(object);
}

/* Reads one report at a time, since they may be long and many. */
static void collect(struct survey *survey, int64_t deadline)
{
	size_t room = 8192 + 400 * (size_t)survey->matrix.count, length;
	char *text = calloc(room + 1, 1), name[40];
	int i, ret;

	for (i = 0; text && !session_signal() && i < survey->matrix.count; i++) {
		if (i == survey->own)
			continue;
		survey->matrix.rows[i].rank = hartebeest_participant(survey->hb, i);
		name_report(name, survey->matrix.rows[i].rank);
		out_waiting(survey->out, "waiting for rank %d's results",
			    survey->matrix.rows[i].rank);
		ret = hartebeest_msg_wait(survey->hb, name, text, room, &length, deadline);
		if (ret == 0) {
			text[length] = '\0';
			read_report(survey, i, text);
		} else {
			survey->matrix.rows[i].error = strdup("it did not report");
		}
	}
	out_waiting_end(survey->out);
	free(text);
}

/* ------------------------------------------------------------ bringing up --- */

static int create(struct survey *survey)
{
	struct hartebeest_mr_attr mr_attr;
	int ret, access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			  IBV_ACCESS_REMOTE_READ;

	ret = hartebeest_pd_create(survey->hb, NAME, NULL);
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = NAME;
	mr_attr.length = pinger_bytes(&survey->plan);
	mr_attr.access = access;
	if (ret == 0)
		ret = hartebeest_mr_create(survey->hb, NAME, &mr_attr, &survey->mr);
	return ret;
}

static int connect_all(struct survey *survey)
{
	static const char *const regions[] = { NAME };
	struct hartebeest_mesh_attr attr;
	int ret;

	hartebeest_mesh_attr_init(&attr);
	attr.pd = NAME;
	attr.regions = regions;
	attr.region_count = 1;
	attr.threads = THREADS;
	attr.cap.max_send_wr = (uint32_t)pinger_window(&survey->plan) + 1;
	attr.cap.max_recv_wr = 1;
	ret = hartebeest_mesh_connect(survey->hb, NAME, &attr, &survey->mesh,
				      hartebeest_clock() + survey->timeout);
	return ret < 0 ? ret : hartebeest_mesh_stats_get(survey->mesh, &survey->stats);
}

static int bring_up(struct survey *survey)
{
	int ret;

	if (survey->is_first)
		out_waiting(survey->out, "connecting %d ranks", survey->matrix.count);
	ret = clear_report(survey);
	if (ret == 0)
		ret = create(survey);
	if (ret == 0)
		ret = connect_all(survey);
	if (survey->is_first)
		out_waiting_end(survey->out);
	return ret;
}

/* -------------------------------------------------------------- measuring --- */

static int measure_rate(struct pinger *pinger, const struct survey *survey, int64_t *rate)
{
	static struct pinger_result result;
	struct plan rates = survey->plan;
	int ret;

	rates.count = 0;
	rates.duration = RATE_TIME;
	rates.bandwidth = 1;
	pinger->plan = &rates;
	ret = pinger_measure(pinger, (uint32_t)survey->rate_size, &result, NULL, NULL);
	*rate = result.rate;
	return ret;
}

/*
 * Measures one pair.  A failure is noted for this pair and stops nothing.  Returns how often other
 * data returned than were sent.
 */
static int64_t measure_pair(struct survey *survey, int to)
{
	static struct pinger_result result;
	size_t cell = matrix_cell(&survey->matrix, survey->own, to);
	int rank = hartebeest_participant(survey->hb, to), ret;
	struct pinger pinger = {
		.hb = survey->hb, .plan = &survey->plan, .mr = survey->mr,
		.qp = hartebeest_mesh_qp(survey->mesh, rank, 0), .patience = 5 * BEEST_SECOND,
		.send_cq = hartebeest_mesh_cq(survey->mesh),
	};

	hartebeest_mesh_region(survey->mesh, rank, 0, &pinger.there);
	ret = pinger_measure(&pinger, (uint32_t)survey->size, &result, NULL, NULL);
	survey->matrix.times[cell] = histogram_percentile(&result.times, 5000);
	if (ret == 0 && survey->rate_size)
		ret = measure_rate(&pinger, survey, &survey->matrix.rates[cell]);
	if (ret < 0 && ret != -ECANCELED)
		matrix_fail(&survey->matrix, survey->own, to, pinger.why);
	return ret < 0 ? 0 : result.wrong;
}

/*
 * What took less once can take that little: the rest was other load.  Does not judge the data,
 * since another rank may be measuring the same peer, in the same memory.
 */
static void measure_again(struct survey *survey, int to)
{
	size_t cell = matrix_cell(&survey->matrix, survey->own, to);
	int64_t time = survey->matrix.times[cell], rate = survey->matrix.rates[cell];

	measure_pair(survey, to);
	if (survey->matrix.times[cell] > time)
		survey->matrix.times[cell] = time;
	if (survey->matrix.rates[cell] >= 0)
		survey->matrix.rates[cell] = BEEST_MAX(survey->matrix.rates[cell], rate);
}

/* Measures this rank's slow pairs again, one after the other, when most ranks have none left. */
static int measure_outliers(struct survey *survey)
{
	int64_t usual = matrix_share(&survey->matrix, survey->matrix.times, 5000);
	int to, tries;

	for (to = 0; to < survey->matrix.count && !session_signal(); to++)
		for (tries = 0; tries < REPEATS && to != survey->own; tries++) {
			if (!matrix_is_outlier(survey->matrix.times[matrix_cell(
						&survey->matrix, survey->own, to)], usual))
				break;
			measure_again(survey, to);
		}

	return hartebeest_mesh_barrier(survey->mesh, hartebeest_clock() + survey->timeout);
}

static int measure_all(struct survey *survey)
{
	int count = survey->matrix.count, round, to, ret = 0;

	for (round = 1; round < count && ret == 0; round++) {
		if (survey->is_first) {
			out_waiting(survey->out, "round %d of %d", round, count - 1);
			out_progress(survey->out, "round %d of %d", round, count - 1);
		}
		to = (survey->own + round) % count;
		if (measure_pair(survey, to))
			matrix_fail(&survey->matrix, survey->own, to,
				    "what returned is not what was sent");
		ret = hartebeest_mesh_barrier(survey->mesh, hartebeest_clock() + survey->timeout);
	}
	if (ret == 0)
		ret = measure_outliers(survey);
	out_waiting_end(survey->out);
	return ret;
}

/* ------------------------------------------------------------ together --- */

static void make_plan(struct survey *survey)
{
	int64_t size = survey->size;
	char why[PLAN_TEXT];

	plan_start(&survey->plan);
	survey->plan.first = size;
	survey->plan.last = BEEST_MAX(survey->rate_size, size);
	survey->plan.count = survey->count;
	survey->plan.duration = 0;
	plan_finish(&survey->plan, why, sizeof(why));
}

bool survey_start(struct survey *survey)
{
	int i, size = hartebeest_size(survey->hb), rank = hartebeest_rank(survey->hb);

	if (size > MATRIX_MAX || !matrix_make(&survey->matrix, size))
		return false;
	for (i = 0; i < size; i++)
		if (hartebeest_participant(survey->hb, i) == rank)
			survey->own = i;
	survey->is_first = survey->own == 0;
	survey->timeout = session_duration(survey->hb, "exchange.timeout");
	make_plan(survey);
	return true;
}

/* The reports of the others often have a better reason than this rank's error. */
static void tell_failure(struct survey *survey)
{
	char why[600];

	snprintf(why, sizeof(why), "%s", hartebeest_error());
	fill_own(survey, why);
	if (survey->is_first)
		collect(survey, hartebeest_clock() + REPORT_TIME);
	else
		report(survey);
}

int survey_run(struct survey *survey)
{
	int ret = bring_up(survey);

	if (ret < 0) {
		if (ret != -ECANCELED)
			tell_failure(survey);
		return session_signal() ? -ECANCELED : ret;
	}
	ret = measure_all(survey);
	fill_own(survey, ret < 0 ? hartebeest_error() : NULL);
	if (session_signal())
		return -ECANCELED;
	if (survey->is_first)
		collect(survey, hartebeest_clock() + survey->timeout);
	else
		report(survey);
	return session_signal() ? -ECANCELED : 0;
}
