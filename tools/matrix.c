/* SPDX-License-Identifier: MIT */
/* matrix.c - see matrix.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/macro.h"
#include "tools/matrix.h"
#include "tools/out.h"

/* Far pairs take at least this many times as long as near ones. */
#define GAP 1.5

const char *const matrix_phases[MATRIX_PHASES] = {
	"create", "publish", "wait", "fetch", "RTR", "RTS", "confirm",
};

bool matrix_make(struct matrix *matrix, int count)
{
	size_t i, cells = (size_t)count * (size_t)count;

	matrix->count = count;
	matrix->rows = calloc((size_t)count, sizeof(*matrix->rows));
	matrix->times = calloc(cells, sizeof(*matrix->times));
	matrix->rates = calloc(cells, sizeof(*matrix->rates));
	matrix->why = calloc(cells, sizeof(*matrix->why));
	if (!matrix->rows || !matrix->times || !matrix->rates || !matrix->why) {
		matrix_free(matrix);
		return false;
	}
	for (i = 0; i < cells; i++)
		matrix->times[i] = matrix->rates[i] = MATRIX_NONE;
	return true;
}

void matrix_free(struct matrix *matrix)
{
	size_t i, cells = (size_t)matrix->count * (size_t)matrix->count;

	for (i = 0; matrix->why && i < cells; i++)
		free(matrix->why[i]);
	for (i = 0; matrix->rows && i < (size_t)matrix->count; i++)
		free(matrix->rows[i].error);
	free(matrix->rows);
	free(matrix->times);
	free(matrix->rates);
	free(matrix->why);
	memset(matrix, 0, sizeof(*matrix));
}

void matrix_fail(struct matrix *matrix, int from, int to, const char *why)
{
	size_t cell = matrix_cell(matrix, from, to);

	free(matrix->why[cell]);
	matrix->why[cell] = strdup(why);
	matrix->times[cell] = matrix->rates[cell] = MATRIX_FAILED;
}

/* ---------------------------------------------------------- as JSON --- */

static void numbers_object(struct json_object *row, const char *key, const int64_t *values,
			   int count)
{
	struct json_object *array = out_json_array(row, key);
	int i;

	for (i = 0; i < count; i++)
		json_object_array_add(array, values[i] < 0 ? NULL
				      : json_object_new_int64(values[i]));
}

struct json_object *matrix_row_object(const struct matrix *matrix, int row)
{
	const struct matrix_row *from = &matrix->rows[row];
	struct json_object *object = json_object_new_object(), *item;
	struct json_object *phases = json_object_new_object();
	size_t first = matrix_cell(matrix, row, 0);
	int i;

	out_json_int(object, "rank", from->rank);
	out_json_text(object, "host", from->host);
	if (from->error)
		out_json_text(object, "error", from->error);
	for (i = 0; i < MATRIX_PHASES; i++)
		out_json_int(phases, matrix_phases[i], from->phases[i]);
	json_object_object_add(object, "phases_ns", phases);
	numbers_object(object, "times_ns", matrix->times + first, matrix->count);
	numbers_object(object, "bytes_per_s", matrix->rates + first, matrix->count);
	for (i = 0; i < matrix->count; i++) {
		if (!matrix->why[first + (size_t)i])
			continue;
		item = out_json_item(out_json_array(object, "failures"));
		out_json_int(item, "to", i);
		out_json_text(item, "why", matrix->why[first + (size_t)i]);
	}
	return object;
}

static struct json_object *member(struct json_object *object, const char *key, enum json_type type)
{
	struct json_object *value = NULL;

	if (!json_object_is_type(object, json_type_object) ||
	    !json_object_object_get_ex(object, key, &value) || !json_object_is_type(value, type))
		return NULL;
	return value;
}

static bool numbers_read(struct json_object *row, const char *key, int64_t *values, int count)
{
	struct json_object *array = member(row, key, json_type_array), *value;
	int i;

	if (!array || (int)json_object_array_length(array) != count)
		return false;
	for (i = 0; i < count; i++) {
		value = json_object_array_get_idx(array, (size_t)i);
		if (json_object_is_type(value, json_type_int) && json_object_get_int64(value) >= 0)
			values[i] = json_object_get_int64(value);
	}
	return true;
}

static void failures_read(struct matrix *matrix, int row, struct json_object *object)
{
	struct json_object *array = member(object, "failures", json_type_array), *item, *to, *why;
	int i, count = array ? (int)json_object_array_length(array) : 0;

	for (i = 0; i < count; i++) {
		item = json_object_array_get_idx(array, (size_t)i);
		to = member(item, "to", json_type_int);
		why = member(item, "why", json_type_string);
		if (to && why && json_object_get_int(to) >= 0 &&
		    json_object_get_int(to) < matrix->count)
			matrix_fail(matrix, row, json_object_get_int(to),
				    json_object_get_string(why));
	}
}

/* Another process wrote the name, so bytes that may do harm on a terminal are replaced. */
static void host_read(char host[64], const char *text)
{
	size_t i;

	for (i = 0; i < 63 && text[i]; i++)
		host[i] = text[i] > ' ' && text[i] < 0x7f ? text[i] : '?';
	host[i] = '\0';
}

bool matrix_row_read(struct matrix *matrix, int row, struct json_object *object)
{
	struct json_object *rank = member(object, "rank", json_type_int),
			   *host = member(object, "host", json_type_string),
			   *error = member(object, "error", json_type_string),
			   *phases = member(object, "phases_ns", json_type_object), *phase;
	struct matrix_row *to = &matrix->rows[row];
	size_t first = matrix_cell(matrix, row, 0);
	int i;

	if (!rank || !host || !phases ||
	    !numbers_read(object, "times_ns", matrix->times + first, matrix->count) ||
	    !numbers_read(object, "bytes_per_s", matrix->rates + first, matrix->count))
		return false;
	to->here = true;
	to->rank = json_object_get_int(rank);
	host_read(to->host, json_object_get_string(host));
	if (error)
		to->error = strdup(json_object_get_string(error));
	for (i = 0; i < MATRIX_PHASES; i++) {
		phase = member(phases, matrix_phases[i], json_type_int);
		to->phases[i] = phase ? json_object_get_int64(phase) : 0;
	}
	failures_read(matrix, row, object);
	return true;
}

bool matrix_read(struct matrix *matrix, struct json_object *object)
{
	struct json_object *rows = member(object, "rows", json_type_array);
	int i, count = rows ? (int)json_object_array_length(rows) : 0;

	if (count < 1 || count > MATRIX_MAX || !matrix_make(matrix, count))
		return false;
	for (i = 0; i < count; i++) {
		if (!matrix_row_read(matrix, i, json_object_array_get_idx(rows, (size_t)i))) {
			matrix_free(matrix);
			return false;
		}
	}
	return true;
}

/* ---------------------------------------------------------- judgement --- */

static int compare_numbers(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Of pairs in the @same group, or in different ones; @group NULL: of all.  For free(3). */
static int64_t *sorted_values(const struct matrix *matrix, const int64_t *values,
			      const int *group, bool same, size_t *count)
{
	size_t size = (size_t)matrix->count, i;
	int64_t *sorted = calloc(size * size + 1, sizeof(*sorted));

	*count = 0;
	for (i = 0; sorted && i < size * size; i++)
		if (values[i] >= 0 && (!group || (group[i / size] == group[i % size]) == same))
			sorted[(*count)++] = values[i];
	if (*count)
		qsort(sorted, *count, sizeof(*sorted), compare_numbers);
	return sorted;
}

static int64_t share_of(const struct matrix *matrix, const int64_t *values, const int *group,
			bool same, int share)
{
	size_t count;
	int64_t *sorted = sorted_values(matrix, values, group, same, &count);
	int64_t found = count ? sorted[(count - 1) * (size_t)share / 10000] : MATRIX_NONE;

	free(sorted);
	return found;
}

int64_t matrix_share(const struct matrix *matrix, const int64_t *values, int share)
{
	return share_of(matrix, values, NULL, false, share);
}

int64_t matrix_between(const struct matrix *matrix, const int *group, bool same)
{
	return share_of(matrix, matrix->times, group, same, 5000);
}

/* All ranks pass at about the same time, so the rank that waited least arrived last. */
static int64_t waited(const struct matrix_row *row)
{
	return row->phases[MATRIX_CREATE] + row->phases[MATRIX_PUBLISH] +
	       row->phases[MATRIX_WAIT];
}

int64_t matrix_late(const struct matrix *matrix, int row)
{
	int64_t longest = 0;
	int i;

	for (i = 0; i < matrix->count; i++)
		if (matrix->rows[i].here)
			longest = BEEST_MAX(longest, waited(&matrix->rows[i]));
	return longest - waited(&matrix->rows[row]);
}

/* Joins ranks that a chain of times up to @limit connects.  Returns the number of sets. */
static int join(const struct matrix *matrix, int64_t limit, int *group)
{
	int *stack = calloc((size_t)matrix->count + 1, sizeof(*stack));
	int i, from, to, top, count = 0;
	int64_t there, back;

	for (i = 0; i < matrix->count; i++)
		group[i] = -1;
	for (i = 0; stack && i < matrix->count; i++) {
		if (group[i] >= 0)
			continue;
		group[i] = count++;
		for (stack[0] = i, top = 1; top > 0;) {
			from = stack[--top];
			for (to = 0; to < matrix->count; to++) {
				there = matrix->times[matrix_cell(matrix, from, to)];
				back = matrix->times[matrix_cell(matrix, to, from)];
				if (group[to] >= 0 || ((there < 0 || there > limit) &&
						       (back < 0 || back > limit)))
					continue;
				group[to] = group[from];
				stack[top++] = to;
			}
		}
	}
	free(stack);
	return count;
}

/*
 * The last time before the widest gap of the sorted times, with a twentieth of them or more on
 * each side, since a few slow pairs do not make a group.  MATRIX_NONE: there is no gap.
 */
static int64_t widest_gap(const struct matrix *matrix)
{
	size_t count, i;
	int64_t *sorted = sorted_values(matrix, matrix->times, NULL, false, &count);
	int64_t limit = MATRIX_NONE;
	double widest = GAP, gap;

	for (i = count / 20; i + 1 < count - count / 20; i++) {
		gap = (double)sorted[i + 1] / (double)BEEST_MAX(sorted[i], 1);
		if (gap >= widest) {
			widest = gap;
			limit = sorted[i];
		}
	}
	free(sorted);
	return limit;
}

/* Each needs two members: one rank alone is a rank with slow pairs. */
static bool are_groups(const struct matrix *matrix, const int *group, int count)
{
	int i, g, members;

	for (g = 0; g < count; g++) {
		for (i = 0, members = 0; i < matrix->count; i++)
			members += group[i] == g;
		if (members < 2)
			return false;
	}
	return count > 1;
}

int matrix_groups(const struct matrix *matrix, int *group)
{
	int64_t limit = widest_gap(matrix);
	int count = limit == MATRIX_NONE ? 1 : join(matrix, limit, group);

	if (limit != MATRIX_NONE && are_groups(matrix, group, count))
		return count;
	memset(group, 0, (size_t)matrix->count * sizeof(*group));
	return 1;
}

static double pair_factor(const struct matrix_pair *pair)
{
	if (pair->now < 0 || pair->usual <= 0)
		return 1e9;
	return pair->now > pair->usual ? (double)pair->now / (double)pair->usual
				       : (double)pair->usual / (double)BEEST_MAX(pair->now, 1);
}

bool matrix_is_worse(const struct matrix_pair *pair)
{
	return pair->now == MATRIX_FAILED || (pair->usual >= 0 && pair->now > pair->usual);
}

static bool comes_before(const struct matrix_pair *a, const struct matrix_pair *b)
{
	if (matrix_is_worse(a) != matrix_is_worse(b))
		return matrix_is_worse(a);
	return pair_factor(a) > pair_factor(b);
}

/* Keeps the @most worst pairs, in order.  Returns the number offered so far. */
static int offer(struct matrix_pair *pairs, int most, int count, const struct matrix_pair *pair)
{
	int at = BEEST_MIN(count, most);

	while (at > 0 && comes_before(pair, &pairs[at - 1])) {
		if (at < most)
			pairs[at] = pairs[at - 1];
		at--;
	}
	if (at < most)
		pairs[at] = *pair;
	return count + 1;
}

bool matrix_is_outlier(int64_t time, int64_t usual)
{
	return usual > 0 && time > 2 * usual;
}

int matrix_slow(const struct matrix *matrix, const int *group, struct matrix_pair *pairs, int most)
{
	int64_t usual[2] = { matrix_between(matrix, group, false),
			     matrix_between(matrix, group, true) };
	struct matrix_pair pair;
	int count = 0;

	for (pair.from = 0; pair.from < matrix->count; pair.from++) {
		for (pair.to = 0; pair.to < matrix->count; pair.to++) {
			pair.now = matrix->times[matrix_cell(matrix, pair.from, pair.to)];
			pair.usual = usual[group[pair.from] == group[pair.to]];
			if (matrix_is_outlier(pair.now, pair.usual))
				count = offer(pairs, most, count, &pair);
		}
	}
	return count;
}

static int position(const struct matrix *matrix, int rank)
{
	int i;

	for (i = 0; i < matrix->count; i++)
		if (matrix->rows[i].rank == rank)
			return i;
	return -1;
}

static bool changed(const struct matrix_pair *pair)
{
	if (pair->now == MATRIX_NONE || pair->usual == MATRIX_NONE)
		return false;
	if (pair->now == MATRIX_FAILED || pair->usual == MATRIX_FAILED)
		return pair->now != pair->usual;
	return 2 * pair->now > 3 * pair->usual || 3 * pair->now < 2 * pair->usual;
}

int matrix_changes(const struct matrix *matrix, const struct matrix *old,
		   struct matrix_pair *pairs, int most)
{
	struct matrix_pair pair;
	int count = 0, from, to;

	for (pair.from = 0; pair.from < matrix->count; pair.from++) {
		from = position(old, matrix->rows[pair.from].rank);
		for (pair.to = 0; from >= 0 && pair.to < matrix->count; pair.to++) {
			to = position(old, matrix->rows[pair.to].rank);
			if (to < 0)
				continue;
			pair.now = matrix->times[matrix_cell(matrix, pair.from, pair.to)];
			pair.usual = old->times[matrix_cell(old, from, to)];
			if (changed(&pair))
				count = offer(pairs, most, count, &pair);
		}
	}
	return count;
}
