/* SPDX-License-Identifier: MIT */
/*
 * meshphase.h - what each phase of a bring-up takes
 *
 * Owns the statistics of a mesh: reads the clock and the counters of the registry where one
 * phase ends and the next begins.  Knows nothing of what happens in a phase.
 */
#ifndef BEEST_MESHPHASE_H
#define BEEST_MESHPHASE_H

#include "lib/core/mesh.h"

/* The phase before ends here.  @phase is one of mesh->stats; NULL: none. */
void beest_meshphase_enter(struct hartebeest_mesh *mesh, struct hartebeest_mesh_phase *phase);

/* Requests of its registry count from here on. */
void beest_meshphase_count(struct hartebeest_mesh *mesh);

#endif
