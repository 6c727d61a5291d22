/* SPDX-License-Identifier: MIT */
/*
 * hartebeest-mesh.h - connect every rank to every other by one call
 *
 * A mesh makes its own queue pairs, publishes them to all ranks in one exchange, connects
 * them, and returns when every rank has done so.  See hartebeest_mesh(3).
 *
 * Threads.  Several threads may connect different meshes at once.  For one mesh, several
 * threads may call the functions that only ask (qp, cq, pd, region, address, stats) at
 * once, but none of these while hartebeest_mesh_repair() or hartebeest_mesh_close() runs.
 * The other functions are for one thread at a time.
 */
#ifndef HARTEBEEST_MESH_H
#define HARTEBEEST_MESH_H

#include <hartebeest.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hartebeest_mesh;

/* The attributes of a mesh; zero is the default of each field. */
struct hartebeest_mesh_attr {
	size_t size;			/* of this struct; the init function sets it */
	const char *pd;			/* name; NULL: the mesh makes its own protection domain */
	const char *cq;			/* name; NULL: the mesh makes one queue for all */
	const char *const *regions;	/* names of local regions, of pd, that all ranks get */
	uint32_t region_count;		/* the same on all ranks, at most 64 */
	uint32_t qps_per_peer;		/* the same on all ranks; 0: 1; UD: not used */
	const int32_t *ranks;		/* ids of the ranks that take part, ascending; NULL: all */
	uint32_t rank_count;
	const int32_t *peers;		/* ids to connect to, ascending; NULL: all other ranks */
	uint32_t peer_count;		/* each peer must name this rank, too */
	enum ibv_qp_type type;		/* 0: RC */
	struct ibv_qp_cap cap;		/* 0: 16 requests, 1 element, no inline data */
	uint32_t threads;		/* further threads that connect; 0: only the caller's */
	int32_t own_rank;		/* with gather: the id of this rank; no default */
	/*
	 * The program's own exchange, used instead of Memcached.  Like MPI_Allgather, it
	 * stores the @length bytes of each of the rank_count ranks to @all, in the order
	 * of ranks, and returns 0 or a negative errno.  Another order, or bytes of an
	 * earlier call, are found out: -EPROTO.  Called by the caller's thread, the same
	 * number of times on all ranks.  May not use the mesh, nor throw.
	 */
	int (*gather)(void *data, const void *mine, void *all, size_t length);
	void *gather_data;
	/*
	 * Called for each queue pair in INIT, to post its receives; returns 0 or a
	 * negative errno.  @rank: of the peer; UD: -1.  Called by the caller's thread
	 * alone, whatever threads connect.  May post, and find objects by name; must not
	 * change or destroy the mesh, its queues or regions, nor throw.
	 */
	int (*refill)(void *data, int rank, struct ibv_qp *qp);
	void *refill_data;
	/*
	 * Called each second while ranks are missing, with a text such as "512 of 1024
	 * have arrived; missing: 3, 77, 78 and 509 more", or "... are connected; ...".
	 * It costs no request: the first rank publishes who is missing.  Not called with gather.
	 * Called by the caller's thread.  May not use the mesh, nor throw.
	 */
	void (*progress)(void *data, const char *text);
	void *progress_data;
};

/** hartebeest_mesh_attr_init() - set every field to its default */
static inline void hartebeest_mesh_attr_init(struct hartebeest_mesh_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
}

/*
 * The cost of one phase.  Requests to servers are those of all threads of the context;
 * each usually takes one round trip, whatever it asks for.  Bytes are those of the
 * values, in both directions.  With gather both are 0.
 */
struct hartebeest_mesh_phase {
	int64_t time;				/* ns */
	uint64_t requests;
	uint64_t bytes;
};

/* The cost of the last bring-up or repair, in the order of its phases. */
struct hartebeest_mesh_stats {
	struct hartebeest_mesh_phase create;	/* queue pairs were made and brought to INIT */
	struct hartebeest_mesh_phase publish;	/* the request that stored what this rank brings */
	struct hartebeest_mesh_phase wait;	/* until all ranks have arrived */
	struct hartebeest_mesh_phase fetch;	/* numbers of queue pairs, not consecutive */
	struct hartebeest_mesh_phase rtr;	/* transition to RTR; UD: address handles, too */
	struct hartebeest_mesh_phase rts;
	struct hartebeest_mesh_phase confirm;	/* until all ranks had connected */
	int64_t total;				/* ns */
	uint64_t qps;				/* queue pairs of this rank */
	uint64_t reserved[6];
};

/**
 * hartebeest_mesh_connect() - connect all ranks of a job to each other
 * @name:     of the mesh, the same on all ranks; restricted as a key is
 * @attr:     NULL: defaults
 * @mesh:     receives the mesh, which is valid until hartebeest_mesh_close() or
 *            hartebeest_close()
 * @deadline: as in hartebeest.h, but not HARTEBEEST_ONCE: ranks cannot meet in one look
 *
 * Collective.  Returns when every rank is connected to every other.  A rank that is
 * killed and started again meanwhile takes its place.  A rank that fails notifies all:
 * their calls fail within two seconds, with its errno and its sentence.  On failure nothing of
 * the mesh is left on this rank.  Other ranks may have succeeded by then, and learn of the
 * failure by their next hartebeest_mesh_barrier().
 *
 * Returns 0, -EINVAL (a field of @attr, which the sentence names; HARTEBEEST_ONCE),
 * -E2BIG (a field that this version does not know), -EOPNOTSUPP (the type), -EEXIST (the
 * name), -ENOENT (pd, cq or a region), -ENODATA (rank or number of ranks unknown),
 * -ERANGE (more queue pairs than the device allows, or no completion queue can hold the
 * completions of all), -EPROTO
 * (ranks differ in @attr, a peer does not name this rank, ports differ in RoCE version,
 * partition and so on, or gather() stored something else than what ranks contributed),
 * -ETIMEDOUT (the sentence names the missing ranks), -EMSGSIZE (the server takes only
 * short values), -ECONNABORTED (a rank reported that it failed), -ESHUTDOWN (a rank left before
 * it was connected), -ESTALE (the first rank died while the server lost what all had agreed on),
 * or the errno of a verbs call, of the server, of gather() or of refill().
 *
 * Since: 0.1
 */
int hartebeest_mesh_connect(struct hartebeest_context *hb, const char *name,
			    const struct hartebeest_mesh_attr *attr,
			    struct hartebeest_mesh **mesh, int64_t deadline);

/**
 * hartebeest_mesh_qp() - the queue pair to a rank
 * @rank:  its id
 * @index: 0 to qps_per_peer - 1; UD has one queue pair for all
 *
 * Takes no lock and does not wait, so it may be called for each message.  Returns NULL, and
 * sets hartebeest_error(3), for the local rank, for a rank that is not in the mesh, and for
 * one that is not among attr->peers.
 *
 * Since: 0.1
 */
struct ibv_qp *hartebeest_mesh_qp(const struct hartebeest_mesh *mesh, int rank, int index);

/**
 * hartebeest_mesh_cq() - the completion queue of all queue pairs of a mesh
 *
 * Since: 0.1
 */
struct ibv_cq *hartebeest_mesh_cq(const struct hartebeest_mesh *mesh);

/**
 * hartebeest_mesh_pd() - the protection domain of all queue pairs of a mesh
 *
 * Since: 0.1
 */
struct ibv_pd *hartebeest_mesh_pd(const struct hartebeest_mesh *mesh);

/**
 * hartebeest_mesh_region() - a region that a rank offers
 * @rank:   its id; may be the local rank
 * @index:  in the order of that rank's attr->regions
 * @region: filled on success
 *
 * In a mesh with attr->peers, the region of a rank that is not among them may have to be read
 * from the servers: as with a deadline of 0, and while the first rank of the mesh keeps it.
 *
 * Returns 0, -EINVAL (NULL), -ENOENT (no such rank or region); for such a rank, also
 * -ETIMEDOUT, -ECANCELED, -ESHUTDOWN or -ECONNABORTED (the first rank has left or failed), or
 * the errno of the server.
 *
 * Since: 0.1
 */
int hartebeest_mesh_region(const struct hartebeest_mesh *mesh, int rank, int index,
			   struct hartebeest_remote_mr *region);

/**
 * hartebeest_mesh_ud_address() - the address to which a UD mesh sends to reach a rank
 * @rank:    its id
 * @address: filled on success
 *
 * Returns 0, -EINVAL (NULL), -ENOENT (no such rank), -EOPNOTSUPP (not a UD mesh).
 *
 * Since: 0.1
 */
int hartebeest_mesh_ud_address(const struct hartebeest_mesh *mesh, int rank,
			       struct hartebeest_ud_address *address);

/**
 * hartebeest_mesh_barrier() - wait until all ranks of the mesh have called it
 *
 * Collective.  Uses the servers, or gather() if the mesh has one.  Returns 0 or the
 * errors of hartebeest_barrier(3).
 *
 * Since: 0.1
 */
int hartebeest_mesh_barrier(struct hartebeest_mesh *mesh, int64_t deadline);

/**
 * hartebeest_mesh_repair() - take ranks that were started again into a mesh
 *
 * Collective among the surviving ranks, while those that were started again call
 * hartebeest_mesh_connect() with the same name and attr.  Only queue pairs to the latter
 * are connected again, and to those whose port has another LID or MTU by now, which count as
 * replaced.  HARTEBEEST_ONCE is refused, as there.
 *
 * Returns the number of ranks that were replaced (with attr->peers, of these), or the errors
 * of hartebeest_mesh_connect(); -EOPNOTSUPP with gather().
 *
 * Since: 0.1
 */
int hartebeest_mesh_repair(struct hartebeest_mesh *mesh, int64_t deadline);

/**
 * hartebeest_mesh_stats_get() - what the last bring-up or repair took
 *
 * Returns 0 or -EINVAL (NULL).
 *
 * Since: 0.1
 */
int hartebeest_mesh_stats_get(const struct hartebeest_mesh *mesh,
			      struct hartebeest_mesh_stats *stats);

/**
 * hartebeest_mesh_close() - destroy a mesh: its queue pairs and what it made for them
 *
 * Not collective.  NULL is ignored.  Returns 0, or as hartebeest_qp_destroy(3).
 *
 * Since: 0.1
 */
int hartebeest_mesh_close(struct hartebeest_mesh *mesh);

#ifdef __cplusplus
}
#endif

#endif
