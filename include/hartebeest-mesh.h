/* SPDX-License-Identifier: MIT */
/*
 * hartebeest-mesh.h - every rank connected to every other by one call
 *
 * A mesh makes its own queue pairs, tells all ranks of them in one exchange, connects
 * them, and returns when every rank has done so.  See hartebeest_mesh(3).
 */
#ifndef HARTEBEEST_MESH_H
#define HARTEBEEST_MESH_H

#include <hartebeest.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hartebeest_mesh;

/* What a mesh shall be; zero is the preset of each field. */
struct hartebeest_mesh_attr {
	size_t size;			/* of this struct, set by the preset */
	const char *pd;			/* name; NULL: a protection domain of the mesh's own */
	const char *cq;			/* name; NULL: one queue of the mesh's own for all */
	const char *const *regions;	/* names of own regions, of pd, that all ranks get */
	uint32_t region_count;		/* the same on all ranks, at most 64 */
	uint32_t qps_per_peer;		/* the same on all ranks; 0: 1; UD: not used */
	const int32_t *ranks;		/* ids of those who take part, ascending; NULL: all */
	uint32_t rank_count;
	const int32_t *peers;		/* ids of whom to connect to, ascending; NULL: all others */
	uint32_t peer_count;		/* each must name this rank, too */
	enum ibv_qp_type type;		/* 0: RC */
	struct ibv_qp_cap cap;		/* 0: 16 requests, 1 element, no inline data */
	uint32_t threads;		/* that connect beside the caller's; 0: none */
	int32_t own_rank;		/* with gather: this rank's place in its order */
	/*
	 * The program's own exchange instead of Memcached: stores @length bytes of each of
	 * rank_count ranks to @all, in the order of ranks, as MPI_Allgather does.  Returns 0
	 * or a negative errno.  Called by the caller's thread, the same number of times on
	 * all ranks.
	 */
	int (*gather)(void *data, const void *mine, void *all, size_t length);
	void *gather_data;
	/*
	 * Called for each queue pair in INIT, to post its receives; 0 or a negative errno.
	 * The rank that it is for; UD: -1.
	 */
	int (*refill)(void *data, int rank, struct ibv_qp *qp);
	void *refill_data;
	/*
	 * Called each second while ranks are missing: "512 of 1024 are here; missing: 3, 77, 78
	 * and 509 more", or "... are connected; ...".  Costs a request for the records of all, so
	 * one rank of many should ask for it.  Not with gather.
	 */
	void (*progress)(void *data, const char *text);
	void *progress_data;
};

/** hartebeest_mesh_attr_preset() - set every field to its preset */
static inline void hartebeest_mesh_attr_preset(struct hartebeest_mesh_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
}

/*
 * What a phase took.  Requests to servers are those of whichever thread of the context, each
 * usually one round trip, whatever it asks for; bytes those of the values that went either
 * way.  With gather both are 0.
 */
struct hartebeest_mesh_phase {
	int64_t time;				/* ns */
	uint64_t requests;
	uint64_t bytes;
};

/* What the last bring-up or repair took, in the order of its phases. */
struct hartebeest_mesh_stats {
	struct hartebeest_mesh_phase create;	/* queue pairs made and brought to INIT */
	struct hartebeest_mesh_phase publish;	/* the request that brought this rank's record */
	struct hartebeest_mesh_phase wait;	/* until all had come */
	struct hartebeest_mesh_phase fetch;	/* what had not come along with the answers */
	struct hartebeest_mesh_phase rtr;	/* with UD, address handles, too */
	struct hartebeest_mesh_phase rts;
	struct hartebeest_mesh_phase confirm;	/* until all ranks had connected */
	int64_t total;				/* ns */
	uint64_t qps;				/* queue pairs of this rank */
	uint64_t reserved[6];
};

/**
 * hartebeest_mesh_connect() - connect all ranks of a job to each other
 * @name:     of the mesh, the same on all ranks; safe in a key
 * @attr:     NULL: presets
 * @mesh:     the mesh, until hartebeest_mesh_close() or hartebeest_close()
 * @deadline: as in hartebeest.h, but for HARTEBEEST_ONCE: ranks cannot meet in one look
 *
 * Collective.  Returns when every rank is connected to every other.  A rank that is killed
 * and started again meanwhile takes its place.  On failure nothing of the mesh is left on
 * this rank; others may have succeeded by then, and learn of it by their next
 * hartebeest_mesh_barrier().
 *
 * Thread-safe for different meshes.
 *
 * Returns 0, -EINVAL (a field of attr, which the sentence names; HARTEBEEST_ONCE), -E2BIG (a
 * field that this version does not know), -EOPNOTSUPP (the type), -EEXIST (the name),
 * -ENOENT (pd, cq or a region), -ENODATA (rank or number of ranks unknown), -ERANGE (a
 * completion queue cannot hold what all queue pairs may have under way), -EPROTO (ranks
 * differ in attr, a peer does not name this rank, or RoCE version, partition and so on
 * differ), -ETIMEDOUT (names the ranks that did not come), -EMSGSIZE (too many ranks or
 * regions for a record of 1 MB), -ECONNABORTED (a rank said that it failed), -ESTALE (a rank
 * was started again, and others are through without its new process), or the errno of a verbs
 * call, of the server, of gather() or of refill().
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
 * No lock, no wait.  Returns NULL for the own rank, for one that is not in the mesh, and for
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
 * hartebeest_mesh_region() - a region that a rank offered
 * @index: in the order of its attr->regions
 *
 * The own rank's are found as well.  Returns 0, -EINVAL (NULL), -ENOENT (no such rank or
 * region).
 *
 * Since: 0.1
 */
int hartebeest_mesh_region(const struct hartebeest_mesh *mesh, int rank, int index,
			   struct hartebeest_remote_mr *region);

/**
 * hartebeest_mesh_address() - where a UD mesh sends to reach a rank
 *
 * Returns 0, -EINVAL (NULL), -ENOENT (no such rank), -EOPNOTSUPP (no UD mesh).
 *
 * Since: 0.1
 */
int hartebeest_mesh_address(const struct hartebeest_mesh *mesh, int rank,
			    struct hartebeest_address *address);

/**
 * hartebeest_mesh_barrier() - wait until all ranks of the mesh have come
 *
 * Collective; by the servers, or by gather().  Returns 0 or the errors of
 * hartebeest_barrier(3).
 *
 * Since: 0.1
 */
int hartebeest_mesh_barrier(struct hartebeest_mesh *mesh, int64_t deadline);

/**
 * hartebeest_mesh_repair() - take ranks that were started again into a mesh
 *
 * Collective among the ranks that live, while those that were started again call
 * hartebeest_mesh_connect() with the same name and attr.  Only queue pairs to these are
 * connected again.  HARTEBEEST_ONCE is refused, as there.
 *
 * Returns how many ranks were replaced, or the errors of hartebeest_mesh_connect();
 * -EOPNOTSUPP with gather().
 *
 * Since: 0.1
 */
int hartebeest_mesh_repair(struct hartebeest_mesh *mesh, int64_t deadline);

/* C++ takes the function's name for the constructor of the struct, as with stat(2). */
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/**
 * hartebeest_mesh_stats() - what the last bring-up or repair took
 *
 * Returns 0 or -EINVAL (NULL).
 *
 * Since: 0.1
 */
int hartebeest_mesh_stats(const struct hartebeest_mesh *mesh,
			  struct hartebeest_mesh_stats *stats);

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/**
 * hartebeest_mesh_close() - destroy the queue pairs of a mesh, and what it made for them
 *
 * Not collective.  NULL is ignored.
 *
 * Since: 0.1
 */
void hartebeest_mesh_close(struct hartebeest_mesh *mesh);

#ifdef __cplusplus
}
#endif

#endif
