/* SPDX-License-Identifier: MIT */
/*
 * meshstate.h - struct hartebeest_mesh: all that this rank keeps of a mesh
 *
 * Owns the fields that the files of the mesh share.  Does not know what they do with them.
 */
#ifndef BEEST_MESHSTATE_H
#define BEEST_MESHSTATE_H

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

#endif
