/* SPDX-License-Identifier: MIT */
/*
 * meshstate.h - struct hartebeest_mesh: all that this rank keeps of a mesh
 *
 * Owns the fields that the files of the mesh share.  Does not know what they do with them.
 */
#ifndef BEEST_MESHSTATE_H
#define BEEST_MESHSTATE_H

#include "lib/core/meshqps.h"
#include "lib/rendezvous/fence.h"

struct hartebeest_mesh {
	struct beest_node node;
	struct beest_ids ranks;
	int rank;
	struct beest_meshqps qps;
	char key_name[BEEST_KEY_MAX + 1];

	/* What this rank brings, as fields and encoded. */
	struct beest_mesh_body body;
	struct hartebeest_remote_mr regions[BEEST_MESH_REGIONS];
	uint8_t *value;			/* body and regions, encoded, and then the list */
	size_t blob_size;		/* of body and regions */
	size_t list_size;		/* of the list of numbers; 0: they are in a row */

	struct beest_view *view;	/* what all ranks contribute, as connected; NULL: not yet */
	struct beest_view *complete;	/* as of the last complete bring-up; NULL: the same */
	struct beest_fence *fence;	/* that of its name */
	bool is_whole;			/* the last bring-up or repair has succeeded */
	uint64_t passes;		/* of barriers since the last bring-up */
	struct hartebeest_mesh_stats stats;
	struct hartebeest_mesh_phase *phase;	/* the one of stats that runs now; NULL: none */
	struct hartebeest_mesh_phase begun;	/* clock and counters when it began */
};

#endif
