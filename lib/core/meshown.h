/* SPDX-License-Identifier: MIT */
/*
 * meshown.h - the ranks of a mesh come together by the program's own exchange
 *
 * Owns the rounds of it, in which each rank takes part whatever has become of it, since
 * nobody may hang there; only one that has no memory for what the others bring cannot.
 * Knows nothing of Memcached.
 */
#ifndef BEEST_MESHOWN_H
#define BEEST_MESHOWN_H

#include "lib/core/mesh.h"

/* This rank has no mesh at all, as the sentence says, which it keeps.  Returns @failed. */
int beest_meshown_refuse(const struct hartebeest_mesh_attr *attr, int failed);

/* @failed: this rank could not make its queue pairs, and only says so. */
int beest_meshown_bringup(struct hartebeest_mesh *mesh, int failed,
			  const struct beest_limit *limit);
int beest_meshown_barrier(struct hartebeest_mesh *mesh);

#endif
