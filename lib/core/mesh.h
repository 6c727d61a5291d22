/* SPDX-License-Identifier: MIT */
/*
 * mesh.h - a mesh, which connects every rank to every other
 *
 * Owns the state of a mesh, checks what the program asks for, and knows the order of steps.  The
 * ranks come together by the servers (meshroll) or by the program's own exchange (meshown).
 * Knows nothing of the attributes of queue pairs, which are fabric's.
 */
#ifndef BEEST_MESH_H
#define BEEST_MESH_H

#include "lib/base/error.h"
#include "lib/core/fabric.h"
#include "lib/rendezvous/meeting.h"

/*
 * Why a rank that has come could not be connected.  Its record may be a leftover that a new
 * process is about to replace, so the failure is not final at once.
 */
struct beest_mesh_trouble {
	int ret;			/* 0: none */
	int64_t since;			/* when it began, or when that rank was last checked */
	uint64_t marks;			/* digest of the roll that failed; 0: it is incomplete */
	size_t culprit;			/* position of the rank */
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

	/* What this rank brings, as fields and encoded. */
	struct beest_mesh_body body;
	struct hartebeest_remote_mr regions[BEEST_MESH_REGIONS];
	size_t region_count;
	uint8_t *blob;			/* body and regions, encoded */
	size_t blob_size;
	uint8_t *list;			/* of queue pair numbers, encoded; NULL: in a row */
	size_t list_size;
	uint64_t row_roll;		/* the roll for which this rank waits for its row, ... */
	int64_t row_until;		/* ... until then */
	uint8_t *row;			/* NULL: it has not come */

	uint8_t *marks;			/* of all ranks, as connected; NULL: not yet */
	uint8_t *complete_marks;	/* as of the last complete roll; NULL: the same as marks */
	struct beest_mesh_trouble trouble;
	struct beest_meeting_state roll_state, barrier_state;	/* kept from call to call */
	uint64_t digest;		/* of the last roll; 0: none, or a repair has failed */
	uint64_t passes;		/* of barriers since the last bring-up */
	struct hartebeest_mesh_stats stats;
	struct hartebeest_mesh_phase *phase;	/* the one of stats that runs now; NULL: none */
	struct hartebeest_mesh_phase begun;	/* clock and counters when it began */
	const struct beest_registry *registry;	/* whose requests count; NULL: none yet */
};

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
