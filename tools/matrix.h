/* SPDX-License-Identifier: MIT */
/*
 * matrix.h - the measurements of every rank to every other, and the outliers in them
 *
 * Owns the numbers, their form as JSON, and the judgement: groups, slow pairs, late ranks,
 * and changes since another run.  Knows nothing of how they are shown.
 */
#ifndef TOOLS_MATRIX_H
#define TOOLS_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

#define MATRIX_MAX 4096

/* Instead of a number. */
#define MATRIX_NONE INT64_C(-1)		/* the rank itself, or not measured */
#define MATRIX_FAILED INT64_C(-2)	/* why[] has the reason */

enum matrix_phase {
	MATRIX_CREATE,
	MATRIX_PUBLISH,
	MATRIX_WAIT,
	MATRIX_FETCH,
	MATRIX_RTR,
	MATRIX_RTS,
	MATRIX_CONFIRM,
	MATRIX_PHASES,
};

extern const char *const matrix_phases[MATRIX_PHASES];

struct matrix_row {
	int rank;			/* its id */
	bool here;			/* its report was read, or it is this rank's */
	char host[64];
	int64_t phases[MATRIX_PHASES];	/* ns */
	char *error;			/* why it failed or its report is missing; NULL: neither */
};

struct matrix {
	int count;
	struct matrix_row *rows;	/* by position among the ranks */
	int64_t *times;			/* ns, by matrix_cell() */
	int64_t *rates;			/* bytes per second */
	char **why;			/* NULL but for MATRIX_FAILED */
};

/* The index of a pair in times, rates and why. */
static inline size_t matrix_cell(const struct matrix *matrix, int from, int to)
{
	return (size_t)from * (size_t)matrix->count + (size_t)to;
}

/* Sets all numbers to MATRIX_NONE.  False: no memory. */
bool matrix_make(struct matrix *matrix, int count);
void matrix_free(struct matrix *matrix);	/* accepts a zeroed one */

void matrix_fail(struct matrix *matrix, int from, int to, const char *why);

/* One row as an object, for json_object_put(3), and back.  False: it is not a row. */
struct json_object *matrix_row_object(const struct matrix *matrix, int row);
bool matrix_row_read(struct matrix *matrix, int row, struct json_object *object);

/* Reads {"rows": [...]} into an empty matrix.  False: it is something else, or no memory. */
bool matrix_read(struct matrix *matrix, struct json_object *object);

/* ----------------------------------------------------------- judgement --- */

/* The number at @share ten-thousandths of all: 5000 is the median.  MATRIX_NONE: no numbers. */
int64_t matrix_share(const struct matrix *matrix, const int64_t *values, int share);

/* How much later than the first rank this one reached the bring-up, in ns. */
int64_t matrix_late(const struct matrix *matrix, int row);

/*
 * Groups of ranks that are near to each other and far from the others: @group receives for
 * each rank the number of its group, from 0 on.  Returns the number of groups; 1: all are alike.
 */
int matrix_groups(const struct matrix *matrix, int *group);

/* The median time between ranks of the @same group, or of different groups. */
int64_t matrix_between(const struct matrix *matrix, const int *group, bool same);

struct matrix_pair {
	int from, to;
	int64_t now, usual;		/* ns: of this pair; of similar pairs, or in the old run */
};

/*
 * Pairs that take more than twice the median of similar pairs, which are in one group or
 * between groups as well; the worst first.  Returns the number of all; @pairs receives at
 * most @most.
 */
int matrix_slow(const struct matrix *matrix, const int *group, struct matrix_pair *pairs,
		int most);

/* Is @time of a rank whose usual time is @usual worth another measurement? */
bool matrix_is_outlier(int64_t time, int64_t usual);

/* Does it fail now, or take longer than usual? */
bool matrix_is_worse(const struct matrix_pair *pair);

/*
 * Pairs that take more than 3/2 or less than 2/3 of their time in @old, or failed in one of the
 * two.  Ranks are compared by their id.  As matrix_slow(); pairs that became better are last.
 */
int matrix_changes(const struct matrix *matrix, const struct matrix *old,
		   struct matrix_pair *pairs, int most);

#endif
