/* SPDX-License-Identifier: MIT */
/*
 * heat.h - a matrix as a picture: characters of a terminal, or SVG
 *
 * Owns the scale, its shapes and colours, and both forms.  A failure is a shape, never a
 * colour alone.  Knows nothing of how the numbers were measured.
 */
#ifndef TOOLS_HEAT_H
#define TOOLS_HEAT_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/matrix.h"

struct heat {
	const struct matrix *matrix;
	const int64_t *values;		/* its times or rates */
	const char *unit;		/* "us" */
	double factor;			/* from a value to that unit */
	bool rates;			/* values are rates, so more is better */
	bool empty;			/* no pair has a value, so there is no scale */
	double low, high;		/* the scale: best and worst */
};

/*
 * Prepares the times of @matrix, or its @rates.  The ends of the scale differ by a factor of
 * two or more, so that noise does not look like heat.
 */
void heat_start(struct heat *heat, const struct matrix *matrix, bool rates);

/* Returns 0 for the best to @levels - 1 for the worst. */
int heat_level(const struct heat *heat, int64_t value, int levels);

/* Columns of the table with numbers. */
int heat_table_columns(const struct heat *heat);

/*
 * Lines for a terminal.  The map is at most @columns wide.  So a cell may stand for many pairs,
 * and shows the worst of them.
 */
void heat_table(const struct heat *heat, FILE *to, bool color);
void heat_map(const struct heat *heat, FILE *to, bool color, int columns);

/* The whole file; @rates may be NULL. */
void heat_svg(const struct heat *times, const struct heat *rates, FILE *to);

#endif
