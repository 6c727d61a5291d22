/* SPDX-License-Identifier: MIT */
/*
 * verdict.h - the output of hartebeest mesh
 *
 * Owns the lines, and the order of the parts.  matrix.h judges, and heat.h draws.
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
	bool svg_is_new;		/* the file was not there before */
	char sum[200];			/* "12 of 12 pairs work: least ..." */
};

/*
 * For errors that should show before the mesh is brought up.  Each returns a status, after
 * reporting why it is not STATUS_GOOD.
 */
int verdict_read_old(struct verdict *verdict);
int verdict_open_svg(struct verdict *verdict);

/* If no picture was written, its file is left as it was before. */
void verdict_free(struct verdict *verdict);

/* Shows all results.  Returns the status for them. */
int verdict_show(struct verdict *verdict);

/* Shows why the mesh could not be brought up. */
void verdict_show_errors(const struct verdict *verdict);

#endif
