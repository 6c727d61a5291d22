/* SPDX-License-Identifier: MIT */
/*
 * survey.h - every rank connected to every other, and each pair measured
 *
 * Owns the bring-up, the rounds of measuring and the collecting of what each rank found.
 * Knows nothing of how that is judged or shown.
 *
 * In round k each rank writes to the k-th after it, so that each is the source and the
 * target of one other at a time.
 */
#ifndef TOOLS_SURVEY_H
#define TOOLS_SURVEY_H

#include <hartebeest-mesh.h>

#include "tools/matrix.h"
#include "tools/out.h"
#include "tools/plan.h"

struct survey {
	/* in */
	struct out *out;		/* for progress */
	struct hartebeest_context *hb;
	int64_t count, size;		/* pings of each pair, bytes of one */
	bool wants_rates;
	/* out */
	struct matrix matrix;		/* of all at the first rank, else of this one */
	struct hartebeest_mesh_stats stats;
	bool is_first;			/* this rank is, which collects and shows */
	/* kept by survey.c */
	struct hartebeest_mesh *mesh;
	struct ibv_mr *mr;
	struct plan plan;
	int own;			/* position of this rank */
	int64_t timeout;
};

/* False: so many ranks are too many, or there is no memory.  For survey_free() then. */
bool survey_start(struct survey *survey);
void survey_free(struct survey *survey);

/*
 * 0: the matrix has all that was found; pairs that failed are found, too.  Else a negative
 * errno: the mesh could not be brought up, and rows of the matrix have the reasons.
 */
int survey_run(struct survey *survey);

#endif
