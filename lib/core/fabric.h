/* SPDX-License-Identifier: MIT */
/*
 * fabric.h - the queue pairs of a mesh
 *
 * Owns a queue pair, or several, to each rank: made alike, and connected when handed what
 * the other rank brought.  Knows nothing of how ranks come together, nor of Memcached.
 */
#ifndef BEEST_FABRIC_H
#define BEEST_FABRIC_H

#include "hartebeest-mesh.h"
#include "lib/base/parse.h"
#include "lib/rendezvous/record.h"
#include "lib/verbs/qp.h"

struct hartebeest_context;

struct beest_fabric {
	struct hartebeest_context *hb;
	const char *name;		/* of the mesh, for sentences */
	const struct beest_ids *ranks;
	size_t own;			/* position of this rank */
	size_t *peers;			/* positions, ascending; NULL: all, from own + 1 on */
	size_t peer_count;
	uint32_t per_peer;
	uint32_t threads;
	int (*refill)(void *data, int rank, struct ibv_qp *qp);
	void *refill_data;

	struct ibv_pd *pd;
	struct ibv_cq *cq;
	bool own_pd, own_cq;
	struct beest_qp *model;		/* the first one; the others are like it */
	struct ibv_qp **qps;		/* per_peer for each peer, in turn */
	size_t count;
	int64_t rtr_time, rts_time;	/* of a sample of connections; atomic */
};

/* Makes all of it and takes the queue pairs to INIT.  Errors of hartebeest_mesh_connect(). */
int beest_fabric_make(struct beest_fabric *fabric, const struct hartebeest_mesh_attr *attr);
void beest_fabric_end(struct beest_fabric *fabric);

/* Whether the numbers that others need are in a row in the order of ranks. */
bool beest_fabric_is_in_row(const struct beest_fabric *fabric);

bool beest_fabric_has_peer(const struct beest_fabric *fabric, size_t position);

/* The place of the first queue pair of rank @from for rank @to, where all are peers. */
size_t beest_fabric_turn(const struct beest_fabric *fabric, size_t from, size_t to);

/* What a rank brought. */
struct beest_fabric_peer {
	size_t position;
	struct beest_endpoint endpoint;	/* the number and sequence number of its first one */
	const uint32_t *numbers;	/* of those for this rank; NULL: in a row */
	size_t turn;			/* the place of its first one for this rank */
};

/*
 * Connects to all of @peers; those that are connected already go through RESET.  The
 * sentence of a failure names both ends, and @culprit is the position of the peer.
 */
int beest_fabric_connect(struct beest_fabric *fabric, const struct beest_fabric_peer *peers,
			 size_t count, const struct beest_limit *limit, size_t *culprit);

/*
 * The queue pair with that number, as if it had a name; its peer is "rank N", of UD: nobody.
 * False: there is none.
 */
bool beest_fabric_find(const struct beest_fabric *fabric, uint32_t qp_num, struct beest_qp *qp,
		       size_t *position);

/* The queue pair to the rank at @position; NULL: there is none. */
struct ibv_qp *beest_fabric_qp(const struct beest_fabric *fabric, size_t position,
			       uint32_t index);

#endif
