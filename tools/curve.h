/* SPDX-License-Identifier: MIT */
/*
 * curve.h - bandwidth over the size of a message, as a picture
 *
 * Owns the scales and the form of the SVG.  Knows nothing of how the numbers were measured.
 */
#ifndef TOOLS_CURVE_H
#define TOOLS_CURVE_H

#include <stdint.h>
#include <stdio.h>

#define CURVE_MAX 64

struct curve {
	char title[64];
	int count;			/* of points, in ascending order of bytes */
	struct curve_point {
		int64_t bytes;
		int64_t rate, both;	/* bytes per second; 0: not measured */
	} points[CURVE_MAX];
};

/* @data: a struct curve. */
void curve_svg(const void *data, FILE *to);

#endif
