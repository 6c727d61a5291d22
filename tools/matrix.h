/* SPDX-License-Identifier: MIT */
/*
 * matrix.h - what every rank measured to every other, and what stands out in it
 *
 * Owns the numbers, their form as JSON, and the judgement: groups, slow pairs, who came
 * late, what changed since another time.  Knows nothing of how they are shown.
 */
#ifndef TOOLS_MATRIX_H
#define TOOLS_MATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

#define MATRIX_MAX 4096

/* In place of a number. */
#define MATRIX_NONE INT64_C(-1)		/* the rank itself, or not measured */
#define MATRIX_FAILED INT64_C(-2)	/* there is a reason for it */

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
	bool here;			/* it reported */
	char host[64];
	int64_t phases[MATRIX_PHASES];	/* ns */
	char *error;			/* why it measured nothing; NULL */
};

struct matrix {
	int count;
	struct matrix_row *rows;	/* by position */
	int64_t *times;			/* ns, from * count + to */
	int64_t *rates;			/* bytes per second */
	char **why;			/* NULL but for MATRIX_FAILED */
};

/* All numbers are MATRIX_NONE.  False: no memory.  A zeroed matrix may be freed, too. */
bool matrix_make(struct matrix *matrix, int count);
void matrix_free(struct matrix *matrix);

void matrix_fail(struct matrix *matrix, int from, int to, const char *why);

/* One row as an object, for json_object_put(3), and back. */
struct json_object *matrix_row_object(const struct matrix *matrix, int row);
bool matrix_row_read(struct matrix *matrix, int row, struct json_object *object);

/* All of {"rows": [...]}, into an empty matrix.  False: it is none. */
bool matrix_read(struct matrix *matrix, struct json_object *object);

/* ----------------------------------------------------------- judgement --- */

/* Of all numbers, 0 to 10000: 5000 is the median.  MATRIX_NONE: there are none. */
int64_t matrix_share(const struct matrix *matrix, const int64_t *values, int share);

/* How much later than the first a rank came to the bring-up, in ns. */
int64_t matrix_late(const struct matrix *matrix, int row);

/*
 * Ranks that are near to each other and far from the others: @group receives a number from
 * 0 on for each.  Returns how many there are; 1: all are alike.
 */
int matrix_groups(const struct matrix *matrix, int *group);

/* The median between ranks of one group, or of different ones. */
int64_t matrix_between(const struct matrix *matrix, const int *group, bool same);

struct matrix_pair {
	int from, to;
	int64_t now, usual;		/* ns: of this pair; of its like, or at the other time */
};

/*
 * Pairs that take more than twice the median of their like, the worst first.  Returns how
 * many there are, of which @most are in @pairs.
 */
int matrix_slow(const struct matrix *matrix, const int *group, struct matrix_pair *pairs,
		int most);

/* It fails now, or takes longer than usual. */
bool matrix_is_worse(const struct matrix_pair *pair);

/*
 * Pairs that take half as long again as in @old, or less than two thirds, or failed now or
 * then; ranks are the same by their id.  As matrix_slow(); those that became better come last.
 */
int matrix_changes(const struct matrix *matrix, const struct matrix *old,
		   struct matrix_pair *pairs, int most);

#endif
