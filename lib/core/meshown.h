/* SPDX-License-Identifier: MIT */
/*
 * meshown.h - the ranks of a mesh meet by way of the program's own exchange
 *
 * Owns the calls of that exchange, and does not trust it: each contribution must be that of the
 * rank at its position, to this call.  A rank that has failed still takes part, so that no rank
 * hangs in it; only a rank without memory for 72 bytes of each rank cannot.  Knows nothing of
 * Memcached.
 */
#ifndef BEEST_MESHOWN_H
#define BEEST_MESHOWN_H

#include "lib/core/meshstate.h"

/* This rank could not even make a mesh: reports so.  Returns @failed, with its sentence. */
int beest_meshown_refuse(const struct hartebeest_mesh_attr *attr, int failed);

/* @failed: 0, or why this rank could not make its queue pairs, which it only reports to others. */
int beest_meshown_bringup(struct hartebeest_mesh *mesh, int failed,
			  const struct beest_limit *limit);
int beest_meshown_barrier(struct hartebeest_mesh *mesh);

#endif
