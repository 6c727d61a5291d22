/* SPDX-License-Identifier: MIT */
/*
 * mesh.h - a mesh, which connects every rank to every other
 *
 * Makes and frees a mesh, checks what the program asks for, and knows the order of steps.  The
 * ranks meet by way of the servers (meshfence) or of the program's own exchange (meshown).
 * Knows nothing of the attributes of queue pairs, which are meshqps'.
 */
#ifndef BEEST_MESH_H
#define BEEST_MESH_H

#include "lib/core/meshstate.h"

extern const struct beest_kind beest_mesh_kind;

/* These have the contracts of the public functions of the same name. */
int beest_mesh_connect(struct hartebeest_context *hb, const char *name,
		       const struct hartebeest_mesh_attr *attr, struct hartebeest_mesh **mesh,
		       const struct beest_limit *limit);
int beest_mesh_barrier(struct hartebeest_mesh *mesh, const struct beest_limit *limit);
int beest_mesh_repair(struct hartebeest_mesh *mesh, const struct beest_limit *limit);

/*
 * Fills @qp with the queue pair of that number, under the name of its mesh; false: no mesh has
 * it.  The caller holds the lock of the context's objects.
 */
bool beest_mesh_find_qp(const struct hartebeest_context *hb, uint32_t qp_num,
			struct beest_qp *qp);

int beest_mesh_address(const struct hartebeest_mesh *mesh, int rank,
		       struct hartebeest_ud_address *address);
int beest_mesh_region(const struct hartebeest_mesh *mesh, int rank, int index,
		      struct hartebeest_remote_mr *region);

#endif
