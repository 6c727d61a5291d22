/* SPDX-License-Identifier: MIT */
/*
 * mesh.h - every rank connected to every other
 *
 * Owns what ranks of a mesh tell each other, the order of steps, and what is kept of them.
 * The ranks come together by rendezvous/gather, or by the program's own exchange.  Knows
 * nothing of attributes of queue pairs: these are fabric's.
 */
#ifndef BEEST_MESH_H
#define BEEST_MESH_H

#include "lib/base/error.h"
#include "lib/core/fabric.h"
#include "lib/rendezvous/gather.h"

/* Why ranks that have come cannot be connected: one may be the leftover of a former run. */
struct beest_mesh_trouble {
	int ret;			/* 0: none */
	int64_t since;
	uint64_t marks;			/* digest of what all brought */
	size_t culprit;			/* position */
	char why[BEEST_ERROR_SIZE];
};

struct hartebeest_mesh {
	struct beest_node node;
	struct beest_ids ranks;
	int rank;
	struct beest_fabric fabric;
	char key_name[BEEST_KEY_MAX + 1];
	int (*gather)(void *data, const void *mine, void *all, size_t length);
	void *gather_data;
	void (*progress)(void *data, const char *text);
	void *progress_data;

	struct beest_mesh_body body;	/* what this rank brings, */
	struct hartebeest_remote_mr regions[BEEST_MESH_REGIONS];
	size_t region_count;
	uint8_t *blob;			/* and the same in bytes */
	size_t blob_size;
	uint8_t *list;			/* of numbers, in bytes; NULL: in a row */
	size_t list_size;

	uint8_t *marks;			/* of all, as they are connected; NULL: not yet */
	uint8_t *called;		/* as they were before the first change; NULL: as marks */
	size_t replaced;		/* position of one when marks changed; or none of them */
	struct beest_mesh_trouble trouble;
	struct beest_gather_state roll, state;
	struct beest_incarnation *incarnations;
	uint64_t digest;		/* of the last roll; 0: none, or a repair failed since */
	uint64_t passes;
	struct hartebeest_mesh_stats stats;
	struct hartebeest_mesh_phase *phase;	/* of stats, that runs now; NULL: none */
	struct hartebeest_mesh_phase begun;	/* the clock and counters when it began */
	const struct beest_registry *registry;	/* whose requests count; NULL: none yet */
};

extern const struct beest_kind beest_mesh_kind;

/* These have the contracts of their public functions. */
int beest_mesh_connect(struct hartebeest_context *hb, const char *name,
		       const struct hartebeest_mesh_attr *attr, struct hartebeest_mesh **mesh,
		       const struct beest_limit *limit);
int beest_mesh_barrier(struct hartebeest_mesh *mesh, const struct beest_limit *limit);
int beest_mesh_repair(struct hartebeest_mesh *mesh, const struct beest_limit *limit);

/*
 * The queue pair of a mesh with that number, as if it had the name of the mesh; false: no mesh
 * has it.  Under the lock of the context's objects.
 */
bool beest_mesh_find_qp(const struct hartebeest_context *hb, uint32_t qp_num,
			struct beest_qp *qp);

int beest_mesh_address(const struct hartebeest_mesh *mesh, int rank,
		       struct hartebeest_address *address);
int beest_mesh_region(const struct hartebeest_mesh *mesh, int rank, int index,
		      struct hartebeest_remote_mr *region);

#endif
