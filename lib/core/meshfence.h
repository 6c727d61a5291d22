/* SPDX-License-Identifier: MIT */
/*
 * meshfence.h - brings the ranks of a mesh together by way of the servers
 *
 * A bring-up or a repair is a call of a fence, whose view has what each rank contributes; a barrier
 * is a pass.  Connects this rank to all others between the proposal and its acknowledgement.
 */
#ifndef BEEST_MESHFENCE_H
#define BEEST_MESHFENCE_H

#include "lib/core/meshstate.h"

/* Returns how many ranks were replaced since the last bring-up. */
int beest_meshfence_bringup(struct hartebeest_mesh *mesh, const struct beest_limit *limit);

/* This rank cannot even make its queue pairs: fails with @ret on all ranks. */
int beest_meshfence_refuse(struct hartebeest_mesh *mesh, int ret,
			   const struct beest_limit *limit);

/* What the rank at @position contributes, if this rank did not need it; for beest_view_free(). */
int beest_meshfence_fetch(const struct hartebeest_mesh *mesh, size_t position,
			  struct beest_view **view);
int beest_meshfence_barrier(struct hartebeest_mesh *mesh, const struct beest_limit *limit);

#endif
