/* SPDX-License-Identifier: MIT */
/*
 * heat.h - a matrix as a picture: characters of a terminal, or SVG
 *
 * Owns the scale, its shapes and colours, and both forms.  A failure is a shape, never a
 * colour alone.  Knows nothing of how the numbers came about, and writes where it is told.
 */
#ifndef TOOLS_HEAT_H
#define TOOLS_HEAT_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/matrix.h"

struct heat {
	const struct matrix *matrix;
	const int64_t *values;		/* times or rates of it */
	const char *unit;		/* "us" */
	double factor;			/* of a value, for that unit */
	bool rates;			/* more is better */
	bool empty;			/* no pair has a value: there is no scale */
	double low, high;		/* the scale */
};

/*
 * Times of @matrix, or its @rates.  The scale is at least from one to twice the least, so that
 * noise does not look like heat.
 */
void heat_start(struct heat *heat, const struct matrix *matrix, bool rates);

/* 0: best, to @levels - 1. */
int heat_level(const struct heat *heat, int64_t value, int levels);

/* Columns of the table with numbers. */
int heat_table_columns(const struct heat *heat);

/*
 * Lines for a terminal.  The map is at most @columns wide: a cell may stand for many pairs,
 * of which it shows the worst.
 */
void heat_table(const struct heat *heat, FILE *to, bool color);
void heat_map(const struct heat *heat, FILE *to, bool color, int columns);

/* The whole file; @rates may be NULL. */
void heat_svg(const struct heat *times, const struct heat *rates, FILE *to);

#endif
