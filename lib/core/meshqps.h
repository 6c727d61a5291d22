/* SPDX-License-Identifier: MIT */
/*
 * meshqps.h - the queue pairs of a mesh
 *
 * Owns one or more queue pairs for each peer.  Makes them all alike, and connects them when it
 * gets what the peer brought.  Knows nothing of how ranks meet, nor of Memcached.
 */
#ifndef BEEST_MESHQPS_H
#define BEEST_MESHQPS_H

#include "hartebeest-mesh.h"
#include "lib/base/parse.h"
#include "lib/rendezvous/record.h"
#include "lib/verbs/qp.h"

struct hartebeest_context;

struct beest_meshqps {
	struct hartebeest_context *hb;
	const char *name;		/* of the mesh, for sentences */
	struct hartebeest_mesh_attr attr;	/* pointers to names and ranks: while it is made */
	const struct beest_ids *ranks;
	size_t own;			/* position of this rank */
	/* Positions, ascending; NULL: all other ranks, from own + 1 up and then from 0. */
	size_t *peers;
	size_t peer_count;
	uint32_t per_peer;

	struct ibv_pd *pd;
	struct ibv_cq *cq;
	bool own_pd, own_cq;
	bool loads;			/* its requests count for the program's queue */
	struct beest_qp *model;		/* the first queue pair, with what all have in common */
	struct ibv_qp **slots;		/* a slot each: per_peer for each peer, in their order */
	size_t count;			/* of slots */
	int64_t rtr_time, rts_time;	/* ns that a sample of connections took; atomic */
};

/* Makes the queue pairs and takes them to INIT.  Errors of hartebeest_mesh_connect(). */
int beest_meshqps_make(struct beest_meshqps *qps, const struct beest_limit *limit);
void beest_meshqps_end(struct beest_meshqps *qps);

/*
 * Do the numbers of the queue pairs rise by one, in an order that the other ranks know?  Then the
 * first number suffices for them.
 */
bool beest_meshqps_is_in_row(const struct beest_meshqps *qps);

bool beest_meshqps_has_peer(const struct beest_meshqps *qps, size_t position);

/* The slot of the first queue pair of rank @from for rank @to, where all ranks are peers. */
size_t beest_meshqps_slot(const struct beest_meshqps *qps, size_t from, size_t to);

/* A peer to connect to, and what it brought. */
struct beest_meshqps_peer {
	size_t position;
	struct beest_endpoint endpoint;	/* with the numbers of the peer's first queue pair */
	const uint32_t *numbers;	/* of its queue pairs for this rank; NULL: in a row */
	size_t slot;			/* at the peer, of its first one for this rank */
	uint64_t digest;		/* of the list that numbers are from; 0: in a row */
	uint32_t *list;			/* in host byte order; NULL: not known */
	bool connected;			/* by beest_meshqps_connect(), which passes over it */
};

/*
 * Connects to all of @peers.  Queue pairs that were connected before go through RESET.  The
 * sentence of a failure names both ends, and @culprit is then the position of the peer.
 */
int beest_meshqps_connect(struct beest_meshqps *qps, struct beest_meshqps_peer *peers,
			  size_t count, const struct beest_limit *limit, size_t *culprit);

/*
 * Fills @qp with the queue pair of that number, and @position with that of its peer.  The peer's
 * key is "rank N", or "" with UD.  False: there is no such queue pair.
 */
bool beest_meshqps_find(const struct beest_meshqps *qps, uint32_t qp_num, struct beest_qp *qp,
			size_t *position);

/* Queue pair number @index to the rank at @position; NULL: there is none. */
struct ibv_qp *beest_meshqps_qp(const struct beest_meshqps *qps, size_t position,
				uint32_t index);

#endif
