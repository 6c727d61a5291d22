/* SPDX-License-Identifier: MIT */
/*
 * newer.h - functions of libibverbs that are newer than CentOS 7's, found at run time
 *
 * Owns their names and types.  Thus a build needs only the symbols of rdma-core 22.4,
 * whatever it was built against, and uses these functions where the libibverbs at run time
 * has them: a newer one, or MLNX_OFED's.  Knows nothing of what they are used for.
 *
 * ECE, enhanced connection establishment, is what adapters of one vendor can do for each other:
 * options of a queue pair, whose meaning only the vendor knows.
 */
#ifndef BEEST_NEWER_H
#define BEEST_NEWER_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/endpoint.h"

/* struct ibv_gid_entry of rdma-core 32. */
struct beest_newer_gid {
	union ibv_gid gid;
	uint32_t index;
	uint32_t port;
	uint32_t type;		/* 0: InfiniBand, 1: RoCE v1, 2: RoCE v2 */
	uint32_t netdev;	/* interface index; 0: none */
};

/* The function behind ibv_query_gid_ex(3).  @size: of the struct.  Returns an errno. */
typedef int beest_newer_query_gid(struct ibv_context *verbs, uint32_t port, uint32_t index,
				  struct beest_newer_gid *gid, uint32_t flags, size_t size);

/*
 * The function behind ibv_query_gid_table(3): GIDs of all ports.  Returns their number, or
 * minus an errno.
 */
typedef ssize_t beest_newer_query_gids(struct ibv_context *verbs, struct beest_newer_gid *gids,
				       size_t count, uint32_t flags, size_t size);

/* ibv_reg_dmabuf_mr(3), since rdma-core 34. */
typedef struct ibv_mr *beest_newer_reg_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t length,
					      uint64_t iova, int fd, int access);

/* ibv_query_ece(3) and ibv_set_ece(3), since rdma-core 31.  They return an errno. */
struct beest_newer_ece;
typedef int beest_newer_ece_call(struct ibv_qp *qp, struct beest_newer_ece *ece);

/* Each is NULL where the libibverbs of this process lacks it. */
struct beest_newer {
	beest_newer_query_gid *query_gid;
	beest_newer_query_gids *query_gids;
	beest_newer_reg_dmabuf *reg_dmabuf;
	beest_newer_ece_call *query_ece, *set_ece;
};

/* Looks the functions up once in a process. */
const struct beest_newer *beest_newer(void);

/* The ECE that @qp has; zeros: its device or libibverbs knows of no options. */
struct beest_ece beest_newer_ece_of(struct ibv_qp *qp);

/*
 * To be called in INIT, for a device that has ECE: RTR uses these.  -EOPNOTSUPP, -ECONNREFUSED and
 * other errno of ibv_set_ece(3).
 */
int beest_newer_ece_set(struct ibv_qp *qp, const struct beest_ece *ece);

#endif
