/* SPDX-License-Identifier: MIT */
/*
 * ours.h - the library's sides: a context for each rank
 *
 * A context connects to the server at its first use.  So each bench does something of its own
 * kind before the clock starts.
 */
#ifndef BENCH_OURS_H
#define BENCH_OURS_H

#include "bench/bench.h"
#include "hartebeest-mesh.h"

#define OURS_NAME 64	/* room for a key */

/* Stores the context in rank->own. */
int ours_open(struct bench_rank *rank);
void ours_close(struct bench_rank *rank);

/* The same, connected to the server by a message that nobody waits for. */
int ours_open_connected(struct bench_rank *rank);

/* Makes "pd", "cq" and the region "mr"; @mr may be NULL. */
#define OURS_REGION 4096
int ours_objects(struct bench_rank *rank, struct ibv_mr **mr);

/* Connects a mesh with these names, which offers the region.  @cap: zero: defaults */
int ours_mesh(struct bench_rank *rank, struct ibv_qp_cap cap, struct hartebeest_mesh **mesh);

/* Keeps the library's sentence if @ret is negative.  Returns @ret. */
int ours_result(struct bench_rank *rank, int ret);

/* The arguments of one call for many queue pairs.  Owns the names. */
struct ours_call {
	struct hartebeest_pair *pairs;
	struct hartebeest_remote_mr *regions;	/* one for each pair, used if the peer offers one */
	char (*names)[2][OURS_NAME];
	size_t count;
};

/* Makes room for @count pairs; aborts without memory.  ours_call_end() frees it. */
void ours_call_begin(struct ours_call *call, size_t count);
void ours_call_end(struct ours_call *call);

/*
 * Adds the queue pair @own, published under its name, to be connected to the peer's @theirs.
 * @offer: the local region that goes with it; NULL: none
 */
void ours_call_add(struct ours_call *call, const char *own, const char *theirs,
		   const char *const *offer);

#endif
