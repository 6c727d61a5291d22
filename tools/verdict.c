/* SPDX-License-Identifier: MIT */
/* verdict.c - see verdict.h */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/text.h"
#include "tools/command.h"
#include "tools/heat.h"
#include "tools/steps.h"
#include "tools/verdict.h"

#define LABEL 10
#define LIST_MAX 10		/* pairs in a list */

/* ---------------------------------------------------------------- showing --- */

static void show_heat(const struct verdict *verdict, const struct heat *heat)
{
	int columns = verdict->out->columns, count = heat->matrix->count;

	if (verdict->out->json)
		return;
	if (columns ? heat_table_columns(heat) <= columns : count <= 32)
		heat_table(heat, verdict->out->to, verdict->out->color);
	else
		heat_map(heat, verdict->out->to, verdict->out->color, columns ? columns : 512);
}

struct drawing {
	const struct heat *times, *rates;
};

static void draw(const void *data, FILE *to)
{
	const struct drawing *drawing = data;

	heat_svg(drawing->times, drawing->rates, to);
}

static void show_late(const struct verdict *verdict)
{
	const struct matrix *matrix = verdict->matrix;
	int i, last = 0;
	char time[STEPS_TIME], total[STEPS_TIME];
	int64_t late;

	for (i = 0; i < matrix->count; i++)
		if (matrix->rows[i].here && matrix_late(matrix, i) > matrix_late(matrix, last))
			last = i;
	late = matrix_late(matrix, last);
	out_line(verdict->out, late > BEEST_SECOND ? OUT_WARNING : OUT_OK, "last", "rank %d on %s "
		 "arrived %s after the first", matrix->rows[last].rank, matrix->rows[last].host,
		 steps_time(late, time));
	if (late > BEEST_SECOND)
		out_cure(verdict->out, "see how the launcher starts processes there, and whether "
			 "opening files or resolving names is slow");
	out_line(verdict->out, OUT_OK, "bring-up", "%" PRIu64 " queue pair%s per rank in %s",
		 verdict->survey->stats.qps, verdict->survey->stats.qps == 1 ? "" : "s",
		 steps_time(verdict->survey->stats.total, total));
}

/* The longest that any rank spent in each phase. */
static void show_phases(const struct verdict *verdict)
{
	char text[200], time[STEPS_TIME];
	struct beest_text line;
	int64_t longest;
	int phase, i;

	beest_text_start(&line, text, sizeof(text));
	for (phase = 0; phase < MATRIX_PHASES; phase++) {
		for (i = 0, longest = 0; i < verdict->matrix->count; i++)
			longest = BEEST_MAX(longest, verdict->matrix->rows[i].phases[phase]);
		beest_text_add(&line, "%s%s %s", phase ? ", " : "", matrix_phases[phase],
			       steps_time(longest, time));
	}
	out_line(verdict->out, OUT_NOTE, "phases", "%s; the longest of all ranks", text);
}

/* "{0-3} {4-7}". */
static void group_text(const struct matrix *matrix, const int *group, int groups, char *text,
		       size_t size)
{
	struct beest_text line;
	int i, g, first;

	beest_text_start(&line, text, size);
	for (g = 0; g < groups; g++) {
		beest_text_add(&line, "%s{", g ? " " : "");
		for (i = 0, first = 1; i < matrix->count; i++) {
			if (group[i] != g)
				continue;
			beest_text_add(&line, "%s%d", first ? "" : ",", matrix->rows[i].rank);
			first = i;
			while (i + 1 < matrix->count && group[i + 1] == g)
				i++;
			if (i > first)
				beest_text_add(&line, "-%d", matrix->rows[i].rank);
			first = 0;
		}
		beest_text_add(&line, "}");
	}
}

static void show_groups(const struct verdict *verdict, const int *group, int groups)
{
	char text[400], inside[STEPS_TIME], between[STEPS_TIME];

	if (groups < 2)
		return;
	group_text(verdict->matrix, group, groups, text, sizeof(text));
	steps_time(matrix_between(verdict->matrix, group, true), inside);
	steps_time(matrix_between(verdict->matrix, group, false), between);
	out_line(verdict->out, OUT_NOTE, "groups", "%s: %s inside, %s between", text, inside,
		 between);
	out_json_text(verdict->out->json, "groups", text);
}

static void show_slow(const struct verdict *verdict, const int *group)
{
	const struct matrix *matrix = verdict->matrix;
	struct matrix_pair pairs[LIST_MAX];
	int i, count = matrix_slow(matrix, group, pairs, LIST_MAX);
	char now[STEPS_TIME], usual[STEPS_TIME], label[40];

	for (i = 0; i < BEEST_MIN(count, LIST_MAX); i++) {
		snprintf(label, sizeof(label), "%d -> %d", matrix->rows[pairs[i].from].rank,
			 matrix->rows[pairs[i].to].rank);
		out_line(verdict->out, OUT_WARNING, label, "%s, %.1f times the median %s; %s to %s",
			 steps_time(pairs[i].now, now),
			 (double)pairs[i].now / (double)pairs[i].usual,
			 steps_time(pairs[i].usual, usual), matrix->rows[pairs[i].from].host,
			 matrix->rows[pairs[i].to].host);
	}
	if (count > 0)
		out_cure(verdict->out, "%d slow: look for a host, cable or switch that they share, "
			 "and for other load", count);
}

/* Returns the number of failed pairs. */
static int show_failures(const struct verdict *verdict)
{
	const struct matrix *matrix = verdict->matrix;
	int failed = 0, from, to;
	size_t cell;
	const char *back;
	char label[40];

	for (from = 0; from < matrix->count; from++) {
		for (to = 0; to < matrix->count; to++) {
			cell = matrix_cell(matrix, from, to);
			if (matrix->times[cell] != MATRIX_FAILED || failed++ >= LIST_MAX)
				continue;
			back = matrix->times[matrix_cell(matrix, to, from)] >= 0
			       ? "the other direction works" : "";
			snprintf(label, sizeof(label), "%d -> %d", matrix->rows[from].rank,
				 matrix->rows[to].rank);
			out_line(verdict->out, OUT_FAILURE, label, "%s to %s: %s",
				 matrix->rows[from].host, matrix->rows[to].host, matrix->why[cell]);
			out_cure(verdict->out, "%s%s'hartebeest ping' between these two shows more",
				 back, *back ? "; " : "");
		}
	}
	if (failed > LIST_MAX)
		out_line(verdict->out, OUT_FAILURE, "more", "%d pairs failed in all", failed);
	return failed;
}

/* Returns the number of ranks that failed or did not report. */
static int show_errors(const struct verdict *verdict)
{
	const struct matrix_row *row = verdict->matrix->rows;
	int i, count = 0;
	char label[24];

	for (i = 0; i < verdict->matrix->count; i++, row++) {
		if (!row->error)
			continue;
		count++;
		snprintf(label, sizeof(label), "rank %d", row->rank);
		out_line(verdict->out, OUT_FAILURE, label, "%s%s%s", row->host,
			 row->host[0] ? ": " : "", row->error);
		out_cure(verdict->out, "'hartebeest doctor' on that host");
	}
	return count;
}

/* Pairs of a rank that did not report are neither working nor failed, but unknown. */
static void show_summary(struct verdict *verdict, int failed)
{
	const struct matrix *matrix = verdict->matrix;
	int cell, works = 0, count = matrix->count, pairs = count * (count - 1);
	char text[3 * STEPS_TIME + 40] = "", least[STEPS_TIME], median[STEPS_TIME];
	char most[STEPS_TIME];

	for (cell = 0; cell < count * count; cell++)
		works += matrix->times[cell] >= 0;
	if (works)
		snprintf(text, sizeof(text), ": least %s, median %s, most %s",
			 steps_time(matrix_share(matrix, matrix->times, 0), least),
			 steps_time(matrix_share(matrix, matrix->times, 5000), median),
			 steps_time(matrix_share(matrix, matrix->times, 10000), most));
	out_json_int(verdict->out->json, "pairs", pairs);
	out_json_int(verdict->out->json, "failed", failed);
	out_json_int(verdict->out->json, "unknown", pairs - works - failed);
	out_line(verdict->out, works < pairs ? OUT_FAILURE : OUT_OK, "pairs", "%d of %d work%s",
		 works, pairs, text);
	if (works < pairs)
		out_cure(verdict->out, "see the pairs and ranks above");
	snprintf(verdict->sum, sizeof(verdict->sum), "%d of %d pairs work%s", works, pairs, text);
}

/* ------------------------------------------------------------- comparing --- */

static const char *change_text(int64_t ns, char text[STEPS_TIME])
{
	return ns == MATRIX_FAILED ? "failed" : steps_time(ns, text);
}

/* Returns the status: slower pairs and new failures fail the command. */
static int show_changes(const struct verdict *verdict)
{
	const struct matrix *matrix = verdict->matrix;
	struct matrix_pair pairs[LIST_MAX];
	int i, count = matrix_changes(matrix, &verdict->old, pairs, LIST_MAX), worse = 0;
	char now[STEPS_TIME], then[STEPS_TIME], label[40];
	bool is_worse;

	out_title(verdict->out, LABEL, "changes");
	for (i = 0; i < BEEST_MIN(count, LIST_MAX); i++) {
		is_worse = matrix_is_worse(&pairs[i]);
		worse += is_worse;
		snprintf(label, sizeof(label), "%d -> %d", matrix->rows[pairs[i].from].rank,
			 matrix->rows[pairs[i].to].rank);
		out_line(verdict->out, is_worse ? OUT_FAILURE : OUT_OK, label, "%s before, %s now",
			 change_text(pairs[i].usual, then), change_text(pairs[i].now, now));
		if (is_worse)
			out_cure(verdict->out, "see what was changed on %s and %s",
				 matrix->rows[pairs[i].from].host, matrix->rows[pairs[i].to].host);
	}
	if (count > LIST_MAX)
		out_line(verdict->out, OUT_NOTE, "more", "%d pairs changed in all", count);
	if (!count)
		out_line(verdict->out, OUT_OK, "none", "each pair takes about as long as in %s",
			 verdict->old_path);
	return worse ? STATUS_FAILED : STATUS_GOOD;
}

/* ------------------------------------------------------------ together --- */

static void add_rows(const struct verdict *verdict)
{
	struct json_object *rows = out_json_array(verdict->out->json, "rows");
	int i;

	for (i = 0; rows && i < verdict->matrix->count; i++)
		json_object_array_add(rows, matrix_row_object(verdict->matrix, i));
}

static int show_judgement(struct verdict *verdict)
{
	int *group = calloc((size_t)verdict->matrix->count, sizeof(*group)), failed;

	if (!group)
		return STATUS_FAILED;
	out_title(verdict->out, LABEL, "judgement");
	failed = show_failures(verdict);
	show_summary(verdict, failed);
	show_groups(verdict, group, matrix_groups(verdict->matrix, group));
	show_slow(verdict, group);
	show_late(verdict);
	show_phases(verdict);
	free(group);
	return failed ? STATUS_FAILED : STATUS_GOOD;
}

int verdict_show(struct verdict *verdict)
{
	char title[120];
	struct drawing drawing;
	struct heat times, rates;
	bool failed;

	snprintf(title, sizeof(title), "mesh of %d ranks, RC write of %" PRId64 " bytes, median "
		 "round trip in us, from row to column", verdict->matrix->count,
		 verdict->survey->size);
	out_hold(verdict->out);
	out_title(verdict->out, LABEL, title);
	heat_start(&times, verdict->matrix, false);
	heat_start(&rates, verdict->matrix, true);
	show_heat(verdict, &times);
	if (verdict->survey->rate_size) {
		out_title(verdict->out, LABEL, "bandwidth in MB/s, from row to column");
		show_heat(verdict, &rates);
	}
	add_rows(verdict);
	failed = show_errors(verdict) > 0;
	failed |= show_judgement(verdict) != STATUS_GOOD;
	drawing = (struct drawing){ &times, verdict->survey->rate_size ? &rates : NULL };
	failed |= picture_draw(&verdict->picture, verdict->out, draw, &drawing) != STATUS_GOOD;
	if (verdict->old_path)
		failed |= show_changes(verdict) != STATUS_GOOD;
	out_verdict(verdict->out, failed || verdict->out->counts[OUT_FAILURE] ? OUT_FAILURE :
		    verdict->out->counts[OUT_WARNING] ? OUT_WARNING : OUT_OK, "%s%s%s",
		    verdict->sum, verdict->out->worst[0] ? "; see " : "", verdict->out->worst);
	return failed ? STATUS_FAILED : STATUS_GOOD;
}

void verdict_show_errors(const struct verdict *verdict)
{
	out_title(verdict->out, LABEL, "bring-up");
	show_errors(verdict);
}

int verdict_read_old(struct verdict *verdict)
{
	FILE *file = fopen(verdict->old_path, "r");
	struct json_object *object = NULL;
	char *text = NULL;
	size_t size = 0;
	bool good;

	if (!file) {
		out_error(verdict->out, "%s: %s", verdict->old_path, strerror(errno));
		return STATUS_FAILED;
	}

	if (getdelim(&text, &size, '\0', file) > 0)
		object = json_tokener_parse(text);
	good = object && matrix_read(&verdict->old, object);
	json_object_put(object);
	free(text);
	fclose(file);
	if (good)
		return STATUS_GOOD;
	out_error(verdict->out, "%s is not what 'hartebeest mesh --json' writes",
		  verdict->old_path);
	return STATUS_FAILED;
}

void verdict_free(struct verdict *verdict)
{
	picture_free(&verdict->picture);
	matrix_free(&verdict->old);
}
