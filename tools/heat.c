/* SPDX-License-Identifier: MIT */
/* heat.c - see heat.h */
#include "config.h"

#include <math.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "tools/heat.h"

/* From best to worst: shapes that get denser, and terminal colours that get lighter. */
static const char shapes[] = ".:-=+*#%@";
static const int shades[] = { 54, 60, 61, 31, 37, 36, 71, 149, 226 };

#define LEVELS ((int)sizeof(shapes) - 1)
#define DARK 5				/* levels below this need white letters */

/* The same colours in 16 steps (viridis), from dark to light, evenly to the eye. */
static const char *const svg_colors[] = {
	"#440154", "#481a6c", "#472f7d", "#414487", "#39568c", "#31688e", "#2a788e", "#23888e",
	"#1f988b", "#22a884", "#35b779", "#54c568", "#7ad151", "#a5db36", "#d2e21b", "#fde725",
};

/* ----------------------------------------------------------------- scale --- */

void heat_start(struct heat *heat, const struct matrix *matrix, bool rates)
{
	const int64_t *values = rates ? matrix->rates : matrix->times;
	double best = (double)matrix_share(matrix, values, rates ? 10000 : 0);
	double worst = (double)matrix_share(matrix, values, rates ? 0 : 10000);

	heat->matrix = matrix;
	heat->values = values;
	heat->rates = rates;
	heat->unit = rates ? "MB/s" : "us";
	heat->factor = rates ? 1e-6 : 1e-3;
	heat->empty = best < 0;
	best = BEEST_MAX(best, 1);
	worst = BEEST_MAX(worst, 1);
	heat->low = best;
	heat->high = rates ? BEEST_MIN(worst, best / 2) : BEEST_MAX(worst, best * 2);
}

int heat_level(const struct heat *heat, int64_t value, int levels)
{
	double part = log((double)BEEST_MAX(value, 1) / heat->low) / log(heat->high / heat->low);

	return BEEST_MAX(0, BEEST_MIN(levels - 1, (int)(part * levels)));
}

static int64_t value_at(const struct heat *heat, int from, int to)
{
	return heat->values[matrix_cell(heat->matrix, from, to)];
}

/* With three digits or more. */
static const char *number(const struct heat *heat, double value, char text[24])
{
	double shown = value * heat->factor;

	snprintf(text, 24, "%.*f", shown < 10 ? 2 : shown < 100 ? 1 : 0, shown);
	return text;
}

/* ------------------------------------------------------------- terminal --- */

/* Writes @shape in the colours of a level. */
static void write_shade(FILE *to, bool color, int level, const char *shape)
{
	if (color)
		fprintf(to, "\033[48;5;%dm\033[38;5;%dm%s\033[0m", shades[level],
			level < DARK ? 15 : 16, shape);
	else
		fputs(shape, to);
}

static void write_legend(const struct heat *heat, FILE *to, bool color)
{
	char best[24], worst[24];
	int i;

	fputs("  ", to);
	if (!heat->empty) {
		fprintf(to, "best %s %s ", number(heat, heat->low, best), heat->unit);
		for (i = 0; i < LEVELS; i++)
			write_shade(to, color, i, (const char[]){ shapes[i], '\0' });
		fprintf(to, " %s %s worst, ", number(heat, heat->high, worst),
			heat->unit);
	}
	fputs("X failed, ? unknown\n", to);
}

static void write_cell(const struct heat *heat, FILE *to, bool color, int64_t value,
		       const char *shape)
{
	if (value >= 0)
		write_shade(to, color, heat_level(heat, value, LEVELS), shape);
	else
		fprintf(to, color && value == MATRIX_FAILED ? "\033[1;31m%s\033[0m" : "%s", shape);
}

#define TABLE_CELL 8
#define TABLE_LABEL 6

int heat_table_columns(const struct heat *heat)
{
	return TABLE_LABEL + TABLE_CELL * heat->matrix->count + 16;
}

void heat_table(const struct heat *heat, FILE *to, bool color)
{
	int from, at, count = heat->matrix->count;
	char text[24], cell[32];
	int64_t value;

	fprintf(to, "%*s", TABLE_LABEL, "");
	for (at = 0; at < count; at++)
		fprintf(to, "%*d", TABLE_CELL, heat->matrix->rows[at].rank);
	fputc('\n', to);
	for (from = 0; from < count; from++) {
		fprintf(to, "%*d", TABLE_LABEL, heat->matrix->rows[from].rank);
		for (at = 0; at < count; at++) {
			value = value_at(heat, from, at);
			snprintf(cell, sizeof(cell), "%*s", TABLE_CELL, from == at ? "."
				 : value == MATRIX_FAILED ? "X" : value < 0 ? "?"
				 : number(heat, (double)value, text));
			write_cell(heat, to, color, value, cell);
		}
		fprintf(to, "  %s\n", heat->matrix->rows[from].host);
	}
	write_legend(heat, to, color);
}

#define MAP_LABEL 7

/* A failure is the worst of all. */
static int64_t worse(const struct heat *heat, int64_t a, int64_t b)
{
	if (a == MATRIX_FAILED || b == MATRIX_FAILED)
		return MATRIX_FAILED;
	if (a < 0 || b < 0)
		return BEEST_MAX(a, b);
	return heat->rates ? BEEST_MIN(a, b) : BEEST_MAX(a, b);
}

/* The worst of @bin rows and @bin columns. */
static int64_t bin_value(const struct heat *heat, int from, int to, int bin)
{
	int count = heat->matrix->count, i, j;
	int64_t worst = MATRIX_NONE;

	for (i = from; i < BEEST_MIN(from + bin, count); i++)
		for (j = to; j < BEEST_MIN(to + bin, count); j++)
			worst = worse(heat, worst, value_at(heat, i, j));
	return worst;
}

void heat_map(const struct heat *heat, FILE *to, bool color, int columns)
{
	int count = heat->matrix->count, room = BEEST_MAX(1, columns - MAP_LABEL);
	int bin = (count + room - 1) / room, from, at;
	char shape[2] = "";
	int64_t value;

	for (from = 0; from < count; from += bin) {
		fprintf(to, "%*d ", MAP_LABEL - 1, heat->matrix->rows[from].rank);
		for (at = 0; at < count; at += bin) {
			value = bin_value(heat, from, at, bin);
			shape[0] = value == MATRIX_FAILED ? 'X' : value >= 0
				   ? shapes[heat_level(heat, value, LEVELS)]
				   : from == at ? ' ' : '?';
			write_cell(heat, to, color, value, shape);
		}
		fputc('\n', to);
	}
	if (bin > 1)
		fprintf(to, "  each cell is the worst of %d x %d pairs\n", bin, bin);
	write_legend(heat, to, color);
}

/* ------------------------------------------------------------------- SVG --- */

#define SVG_LEVELS ((int)BEEST_COUNT(svg_colors))
#define SVG_SIDE 480.0			/* of a matrix */
#define SVG_TOP 70
#define SVG_LEFT 110
#define SVG_BARS 120			/* how late each rank arrived */
#define SVG_GAP 60

/* Escapes text of other processes, which must not become markup. */
static void write_text(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", to);
		else if (*text == '>')
			fputs("&gt;", to);
		else if (*text == '&')
			fputs("&amp;", to);
		else if ((unsigned char)*text >= 0x20 && (unsigned char)*text < 0x7f)
			fputc(*text, to);
		else
			fputc('?', to);
	}
}

/* Draws all cells of a colour as one path, and neighbours in a row as one stroke. */
static void svg_level(const struct heat *heat, FILE *to, int level)
{
	int count = heat->matrix->count, from, at, run;
	bool any = false;

	for (from = 0; from < count; from++) {
		for (at = 0; at < count; at += run + !run) {
			for (run = 0; at + run < count; run++)
				if (value_at(heat, from, at + run) < 0 ||
				    heat_level(heat, value_at(heat, from, at + run),
					       SVG_LEVELS) != level)
					break;
			if (!run)
				continue;
			if (!any)
				fprintf(to, "<path stroke=\"%s\" d=\"", svg_colors[level]);
			any = true;
			fprintf(to, "M%d %dh%d", at, from, run);
		}
	}
	if (any)
		fputs("\"/>\n", to);
}

/* Draws a cross with its reason for a failed pair, and a ring around a slow one. */
static void svg_marks(const struct heat *heat, FILE *to)
{
	const struct matrix *matrix = heat->matrix;
	struct matrix_pair slow[200];
	int *group = calloc((size_t)matrix->count, sizeof(*group));
	int from, at, i, count;

	for (from = 0; from < matrix->count; from++) {
		for (at = 0; at < matrix->count; at++) {
			if (value_at(heat, from, at) != MATRIX_FAILED)
				continue;
			fprintf(to, "<path class=\"x\" d=\"M%d.2 %d.2l.6 .6m0-.6l-.6 .6\"><title>"
				"%d to %d: ", at, from, matrix->rows[from].rank,
				matrix->rows[at].rank);
			write_text(to, matrix->why[matrix_cell(matrix, from, at)]);
			fputs("</title></path>\n", to);
		}
	}
	if (group && !heat->rates) {
		matrix_groups(matrix, group);
		count = matrix_slow(matrix, group, slow, (int)BEEST_COUNT(slow));
		for (i = 0; i < BEEST_MIN(count, (int)BEEST_COUNT(slow)); i++)
			fprintf(to, "<circle cx=\"%d.5\" cy=\"%d.5\" r=\".35\"><title>%d to %d: "
				"%.2f us, usual %.2f us</title></circle>\n", slow[i].to,
				slow[i].from, matrix->rows[slow[i].from].rank,
				matrix->rows[slow[i].to].rank, (double)slow[i].now / 1000,
				(double)slow[i].usual / 1000);
	}
	free(group);
}

static void svg_matrix(const struct heat *heat, FILE *to, double left)
{
	double scale = SVG_SIDE / heat->matrix->count;
	int level;

	fprintf(to, "<g transform=\"translate(%g %d) scale(%g)\">\n"
		"<rect class=\"none\" width=\"%d\" height=\"%d\"/>\n"
		"<g class=\"cells\" transform=\"translate(0 .5)\">\n", left, SVG_TOP, scale,
		heat->matrix->count, heat->matrix->count);
	for (level = 0; level < SVG_LEVELS; level++)
		svg_level(heat, to, level);
	fputs("</g>\n", to);
	svg_marks(heat, to);
	fputs("</g>\n", to);
}

static void svg_legend(const struct heat *heat, FILE *to, double left, const char *title)
{
	char best[24], worst[24];
	int i;

	fprintf(to, "<text class=\"title\" x=\"%g\" y=\"28\">%s</text>\n", left, title);
	if (heat->empty) {
		fprintf(to, "<text x=\"%g\" y=\"%g\">cross: failed; no pair works</text>\n", left,
			SVG_TOP + SVG_SIDE + 28);
		return;
	}
	for (i = 0; i < SVG_LEVELS; i++)
		fprintf(to, "<rect x=\"%g\" y=\"%g\" width=\"12\" height=\"12\" fill=\"%s\"/>\n",
			left + 70 + 12 * i, SVG_TOP + SVG_SIDE + 18, svg_colors[i]);
	fprintf(to, "<text class=\"end\" x=\"%g\" y=\"%g\">best %s %s</text>"
		"<text x=\"%g\" y=\"%g\">%s %s worst, cross: failed%s</text>\n", left + 64,
		SVG_TOP + SVG_SIDE + 28, number(heat, heat->low, best), heat->unit,
		left + 76 + 12 * SVG_LEVELS, SVG_TOP + SVG_SIDE + 28,
		number(heat, heat->high, worst), heat->unit,
		heat->rates ? "" : ", ring: unusually slow");
}

/* Leaves labels out where they would overlap. */
static void svg_labels(const struct matrix *matrix, FILE *to, double left, bool hosts)
{
	int i, step = (int)(13 * matrix->count / SVG_SIDE) + 1;
	double scale = SVG_SIDE / matrix->count, middle;

	for (i = 0; i < matrix->count; i += step) {
		middle = (i + 0.5) * scale;
		fprintf(to, "<text class=\"end\" x=\"%g\" y=\"%g\">", left - 6,
			SVG_TOP + middle + 4);
		if (hosts)
			write_text(to, matrix->rows[i].host);
		fprintf(to,
			" %d</text>\n<text transform=\"translate(%g %d) rotate(-90)\">%d</text>\n",
			matrix->rows[i].rank, left + middle + 4, SVG_TOP - 6, matrix->rows[i].rank);
	}
}

/* A bar beside each row: how much later than the first rank its rank arrived. */
static void svg_late(const struct matrix *matrix, FILE *to, double left)
{
	double scale = SVG_SIDE / matrix->count, longest = 1e6;
	int i;

	for (i = 0; i < matrix->count; i++)
		if (matrix->rows[i].here)
			longest = BEEST_MAX(longest, (double)matrix_late(matrix, i));
	fprintf(to, "<text class=\"title\" x=\"%g\" y=\"28\">arrived late</text>\n"
		"<text x=\"%g\" y=\"%d\">up to %s</text>\n", left, left, SVG_TOP - 10,
		BEEST_SPAN((int64_t)longest));
	for (i = 0; i < matrix->count; i++)
		if (matrix->rows[i].here)
			fprintf(to, "<rect class=\"late\" x=\"%g\" y=\"%.1f\" width=\"%.1f\" "
				"height=\"%.1f\"/>\n", left, SVG_TOP + (i + 0.1) * scale,
				BEEST_MAX(1, SVG_BARS * (double)matrix_late(matrix, i) / longest),
				0.8 * scale);
}

void heat_svg(const struct heat *times, const struct heat *rates, FILE *to)
{
	double bars = SVG_LEFT + SVG_SIDE + 20, second = bars + SVG_BARS + SVG_GAP;
	double width = rates ? second + SVG_SIDE + 30 : bars + SVG_BARS + 30;

	fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" "
		"height=\"%g\">\n<style>text{font:12px sans-serif;fill:#222}.title{font-size:16px}"
		".end{text-anchor:end}.cells{stroke-width:1;fill:none;"
		"shape-rendering:crispEdges}.none{fill:#ddd}"
		".x{stroke:#c00;stroke-width:.18;fill:none}"
		"circle{stroke:#c00;stroke-width:.1;fill:none}.late{fill:#39568c}</style>\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", width,
		SVG_TOP + SVG_SIDE + 50, width, SVG_TOP + SVG_SIDE + 50);
	svg_legend(times, to, SVG_LEFT, "median round trip, from row to column");
	svg_labels(times->matrix, to, SVG_LEFT, true);
	svg_matrix(times, to, SVG_LEFT);
	svg_late(times->matrix, to, bars);
	if (rates) {
		svg_legend(rates, to, second, "bandwidth, from row to column");
		svg_labels(rates->matrix, to, second, false);
		svg_matrix(rates, to, second);
	}
	fputs("</svg>\n", to);
}
