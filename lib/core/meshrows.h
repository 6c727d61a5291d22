/* SPDX-License-Identifier: MIT */
/*
 * meshrows.h - hands out non-consecutive queue pair numbers through the servers
 *
 * In a large mesh, each rank would have to read the lists of all: N lists of N numbers.  So only
 * the leader of the fence reads them, and stores a row for each rank.  Owns the keys of the rows.
 * Does not know what is in lists and rows, which is contribution's.
 */
#ifndef BEEST_MESHROWS_H
#define BEEST_MESHROWS_H

#include "lib/core/contribution.h"

/* Is the list of this rank for the leader only?  Then all ranks read rows. */
bool beest_meshrows_are_used(const struct hartebeest_mesh *mesh);

/* The leader, whose @all has the lists of all ranks, puts the rows of the others. */
int beest_meshrows_put(const struct hartebeest_mesh *mesh, uint64_t view,
		       const struct beest_newcomers *all);

/* All have their rows. */
void beest_meshrows_delete(const struct hartebeest_mesh *mesh);

/*
 * Reads the row of this rank for that @view.  0: @new has its numbers; -EAGAIN: it is not there.
 */
int beest_meshrows_fetch(const struct hartebeest_mesh *mesh, uint64_t view,
			 struct beest_newcomers *new, int64_t deadline);

#endif
