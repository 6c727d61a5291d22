/* SPDX-License-Identifier: MIT */
/* curve.c - see curve.h */
#include "config.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/macro.h"
#include "tools/curve.h"

#define LEFT 90
#define TOP 50
#define WIDTH 640
#define HEIGHT 320
#define LINES 4				/* of the grid, above 0 */

/* A line of the picture: dashes distinguish it, too, so that no one depends on colours. */
static const struct line {
	size_t offset;
	const char *name, *style;
} lines[] = {
	{ offsetof(struct curve_point, rate), "one way", "stroke:#39568c" },
	{ offsetof(struct curve_point, both), "both ways together",
	  "stroke:#b35806;stroke-dasharray:6 3" },
};

static int64_t value_of(const struct curve_point *point, const struct line *line)
{
	return *(const int64_t *)((const char *)point + line->offset);
}

static double largest(const struct curve *curve)
{
	double most = 1;
	size_t j;
	int i;

	for (i = 0; i < curve->count; i++)
		for (j = 0; j < BEEST_COUNT(lines); j++)
			most = BEEST_MAX(most, (double)value_of(&curve->points[i], &lines[j]));
	return most;
}

/* Sizes double from one point to the next, so equal steps make a logarithmic scale. */
static double x_of(const struct curve *curve, int i)
{
	return LEFT + (double)WIDTH * i / BEEST_MAX(curve->count - 1, 1);
}

static double y_of(double value, double most)
{
	return TOP + HEIGHT * (1 - value / most);
}

static void write_bytes(FILE *to, int64_t bytes)
{
	static const char *const units[] = { "", "Ki", "Mi", "Gi" };
	size_t unit = 0;

	while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < BEEST_COUNT(units)) {
		bytes /= 1024;
		unit++;
	}
	fprintf(to, "%" PRId64 "%s", bytes, units[unit]);
}

static void write_grid(const struct curve *curve, double most, FILE *to)
{
	double factor = most >= 1e9 ? 1e-9 : 1e-6;
	int i, step = (curve->count + 11) / 12;

	for (i = 0; i <= LINES; i++)
		fprintf(to, "<path class=\"grid\" d=\"M%d %gh%d\"/><text class=\"end\" x=\"%d\" "
			"y=\"%g\">%.3g %s</text>\n", LEFT, y_of(i, LINES), WIDTH, LEFT - 8,
			y_of(i, LINES) + 4, most * factor * i / LINES,
			factor < 1e-6 ? "GB/s" : "MB/s");
	for (i = 0; i < curve->count; i += step) {
		fprintf(to, "<text class=\"middle\" x=\"%g\" y=\"%d\">", x_of(curve, i),
			TOP + HEIGHT + 20);
		write_bytes(to, curve->points[i].bytes);
		fputs("</text>\n", to);
	}
	fprintf(to, "<text class=\"middle\" x=\"%d\" y=\"%d\">bytes of a message</text>\n",
		LEFT + WIDTH / 2, TOP + HEIGHT + 40);
}

/* False: nothing of it was measured. */
static bool write_line(const struct curve *curve, const struct line *line, double most, FILE *to)
{
	bool any = false;
	int64_t value;
	int i;

	for (i = 0; i < curve->count; i++) {
		value = value_of(&curve->points[i], line);
		if (!value)
			continue;
		fprintf(to, "%s%g %.1f", any ? "L" : "<path class=\"line\" d=\"M", x_of(curve, i),
			y_of((double)value, most));
		any = true;
	}
	if (any)
		fprintf(to, "\" style=\"%s\"><title>%s</title></path>\n", line->style, line->name);
	return any;
}

void curve_svg(const void *data, FILE *to)
{
	const struct curve *curve = data;
	double most = largest(curve);
	size_t j;

	fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\">\n"
		"<style>text{font:12px sans-serif;fill:#222}.title{font-size:16px}"
		".end{text-anchor:end}.middle{text-anchor:middle}.grid{stroke:#ddd}"
		".line{fill:none;stroke-width:2}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
		"<text class=\"title\" x=\"%d\" y=\"24\">%s</text>\n", LEFT + WIDTH + 40,
		TOP + HEIGHT + 80, LEFT, curve->title);
	write_grid(curve, most, to);
	for (j = 0; j < BEEST_COUNT(lines); j++) {
		if (!write_line(curve, &lines[j], most, to))
			continue;
		fprintf(to, "<path class=\"line\" d=\"M%d %dh30\" style=\"%s\"/>"
			"<text x=\"%d\" y=\"%d\">%s</text>\n", LEFT + 200 * (int)j,
			TOP + HEIGHT + 60, lines[j].style, LEFT + 200 * (int)j + 38,
			TOP + HEIGHT + 64, lines[j].name);
	}
	fputs("</svg>\n", to);
}
