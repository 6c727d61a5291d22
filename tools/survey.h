/* SPDX-License-Identifier: MIT */
/*
 * survey.h - every rank connected to every other, and each pair measured
 *
 * Owns the bring-up, the rounds of measuring, and the collection of each rank's results.
 * Knows nothing of how they are judged or shown.
 *
 * In round k each rank writes to the k-th rank after it, so that each is the source for one
 * other rank, and the target of one, at a time.
 */
#ifndef TOOLS_SURVEY_H
#define TOOLS_SURVEY_H

#include <hartebeest-mesh.h>

#include "tools/matrix.h"
#include "tools/out.h"
#include "tools/plan.h"

#define SURVEY_RATE_SIZE 65536

struct survey {
	/* in */
	struct out *out;		/* for progress */
	struct hartebeest_context *hb;
	int64_t count, size;		/* pings of each pair, bytes of one */
	int64_t rate_size;		/* of a message, to measure bandwidth; 0: is not */
	/* out */
	struct matrix matrix;		/* all rows at the first rank, else only this rank's */
	struct hartebeest_mesh_stats stats;
	bool is_first;			/* this is the first rank, which collects and shows */
	/* kept by survey.c */
	struct hartebeest_mesh *mesh;
	struct ibv_mr *mr;
	struct plan plan;
	int own;			/* position of this rank */
	int64_t timeout;
};

/* False: too many ranks, or no memory.  Its matrix is for matrix_free() in any case. */
bool survey_start(struct survey *survey);

/*
 * Returns 0: the matrix has all results, which may include pairs and ranks that failed.  Or a
 * negative errno: the mesh could not be brought up, and rows of the matrix have the reasons; or
 * -ECANCELED: a signal asked this process to end.
 */
int survey_run(struct survey *survey);

#endif
