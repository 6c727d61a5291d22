/* SPDX-License-Identifier: MIT */
/*
 * meshroll.h - the ranks of a mesh come together by the servers
 *
 * Owns the roll call of a mesh, and waits when a record that does not fit may be a leftover.
 * Knows nothing of queue pairs.
 */
#ifndef BEEST_MESHROLL_H
#define BEEST_MESHROLL_H

#include "lib/core/meshstate.h"

/* Returns how many ranks were replaced since the last complete roll, or an errno. */
int beest_meshroll_bringup(struct hartebeest_mesh *mesh, const struct beest_limit *limit);
int beest_meshroll_barrier(struct hartebeest_mesh *mesh, const struct beest_limit *limit);

#endif
