/* SPDX-License-Identifier: MIT */
/*
 * meshphase.h - how much time and how many requests each phase of a bring-up takes
 *
 * Owns the statistics of a mesh.  Reads the clock and the registry's counters where one phase
 * ends and the next begins.  Knows nothing of what happens in a phase.
 */
#ifndef BEEST_MESHPHASE_H
#define BEEST_MESHPHASE_H

#include "lib/core/meshstate.h"

/* Ends the running phase and begins @phase, one of mesh->stats; NULL: none. */
void beest_meshphase_enter(struct hartebeest_mesh *mesh, struct hartebeest_mesh_phase *phase);

#endif
