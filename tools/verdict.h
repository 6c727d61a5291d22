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
#include "tools/picture.h"
#include "tools/survey.h"

struct verdict {
	/* in */
	struct out *out;
	const struct survey *survey;
	const struct matrix *matrix;	/* of the survey */
	struct picture picture;		/* its path, and open once the survey begins */
	const char *old_path;		/* NULL: nothing to compare with */
	/* kept by verdict.c */
	struct matrix old;
	char sum[200];			/* "12 of 12 pairs work: least ..." */
};

/* Before the mesh is brought up.  Returns a status, after reporting why it is not STATUS_GOOD. */
int verdict_read_old(struct verdict *verdict);

void verdict_free(struct verdict *verdict);

/* Shows all results.  Returns the status for them. */
int verdict_show(struct verdict *verdict);

/* Shows why the mesh could not be brought up. */
void verdict_show_errors(const struct verdict *verdict);

#endif
