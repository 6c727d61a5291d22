/* SPDX-License-Identifier: MIT */
/*
 * verdict.h - what hartebeest mesh says of what it found
 *
 * Owns the lines, and the order of the parts.  The judgement is matrix.h's, the pictures are
 * heat.h's.
 */
#ifndef TOOLS_VERDICT_H
#define TOOLS_VERDICT_H

#include "tools/matrix.h"
#include "tools/out.h"
#include "tools/survey.h"

struct verdict {
	/* in */
	struct out *out;
	const struct survey *survey;
	const struct matrix *matrix;	/* of the survey */
	const char *svg_path;		/* NULL: no picture */
	const char *old_path;		/* NULL: nothing to compare with */
	/* kept by verdict.c */
	struct matrix old;
	FILE *svg;			/* open until the picture is written */
	bool svg_is_new;		/* it was not there before */
};

/* Before the mesh is brought up.  Each returns a status, after saying why it is not STATUS_GOOD. */
int verdict_read_old(struct verdict *verdict);
int verdict_open_svg(struct verdict *verdict);

/* Where no picture was written, its file is as it was before. */
void verdict_free(struct verdict *verdict);

/* All that was found.  Returns the status for it. */
int verdict_show(struct verdict *verdict);

/* Why the mesh could not be brought up. */
void verdict_show_errors(const struct verdict *verdict);

#endif
