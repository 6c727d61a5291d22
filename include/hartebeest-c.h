/* SPDX-License-Identifier: MIT */
/*
 * hartebeest-c.h - the C functions of the original Hartebeest
 *
 * For programs written against it: they compile and run unchanged, linked with
 * -lhartebeest.  New code uses hartebeest.h, which tells more than true or false.
 *
 * One default context for the process, made by hartebeest_init() or by the first
 * call.  true is success; after false, hartebeest_error() in hartebeest.h has the
 * reason, and a line with it goes to stderr unless the option log.level (HARTEBEEST_LOG)
 * is none.
 *
 * Where the original waited for ever, these wait to a deadline: the fetches and
 * wait_general() for the option exchange.timeout (preset 30 s), the polls for
 * poll.timeout (preset 1 h).
 */
#ifndef HARTEBEEST_C_H
#define HARTEBEEST_C_H

#ifndef __cplusplus
#include <stdbool.h>
#endif
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hartebeest_context;	/* hartebeest.h */

/*
 * Reads the settings.  A failure is logged, and is that of all other functions until
 * this one is called again.
 */
void hartebeest_init(void);

/*
 * The default context, for functions of hartebeest.h.  Never to be closed.  NULL when it
 * cannot be opened.  Since: 0.1
 */
struct hartebeest_context *hartebeest_default_context(void);

/*
 * The value of HARTEBEEST_NID and the like; HARTEBEEST_NID and
 * HARTEBEEST_NPARTICIPANTS also when a launcher said them.  NULL when unset, which is
 * logged once for those that the original demanded.  Owned by the library.
 */
char *hartebeest_get_sysvar(const char *name);

/* A message without content: push, wait for it, delete it. */
bool hartebeest_memc_push_general(const char *key);
bool hartebeest_memc_wait_general(const char *key);
bool hartebeest_memc_del_general(const char *key);

bool hartebeest_create_local_pd(const char *pd);

/* The buffer belongs to the library; see ibv_mr.addr. */
bool hartebeest_create_local_mr(const char *pd, const char *mr, size_t length, int access);
bool hartebeest_memc_push_local_mr(const char *memc_key, const char *pd, const char *mr);

/* Waits for the peer; a second fetch brings what is there now. */
bool hartebeest_memc_fetch_remote_mr(const char *memc_key);

bool hartebeest_create_basiccq(const char *cq);

bool hartebeest_create_local_qp(const char *pd, const char *qp, enum ibv_qp_type type,
				const char *send_cq, const char *recv_cq);
bool hartebeest_init_local_qp(const char *pd, const char *qp);
bool hartebeest_connect_local_qp(const char *pd, const char *qp, const char *remote_key);
bool hartebeest_memc_push_local_qp(const char *memc_key, const char *pd, const char *qp);
bool hartebeest_memc_fetch_remote_qp(const char *memc_key);

/*
 * One signalled request; wr_id comes back in the completion.  opcode: a write, a read or
 * a send, with immediate data 0 where it has some.
 */
bool hartebeest_rdma_post_single_fast(struct ibv_qp *qp, void *local, void *remote,
				      size_t length, enum ibv_wr_opcode opcode,
				      uint32_t lkey, uint32_t rkey, uint64_t wr_id);
bool hartebeest_rdma_post_single_signaled_inline(struct ibv_qp *qp, void *local,
						 void *remote, size_t length,
						 enum ibv_wr_opcode opcode, uint32_t lkey,
						 uint32_t rkey, uint64_t wr_id);

/*
 * Waits for one completion; false when it is a failure, and when the peer of a queue pair
 * that uses the queue was replaced meanwhile, so that none may come.
 */
bool hartebeest_rdma_poll(const char *cq);
bool hartebeest_rdma_send_poll(struct ibv_qp *qp);
bool hartebeest_rdma_recv_poll(struct ibv_qp *qp);

/* NULL when there is none.  Owned by the library. */
struct ibv_pd *hartebeest_get_local_pd(const char *pd);
struct ibv_mr *hartebeest_get_local_mr(const char *pd, const char *mr);
struct ibv_qp *hartebeest_get_local_qp(const char *pd, const char *qp);

/*
 * What the last fetch brought: of an ibv_mr the fields addr, length and rkey, of an
 * ibv_qp qp_num and qp_type.  Not objects of this process: no verbs call takes them.
 * A later fetch of the same key refreshes them in place.
 */
struct ibv_mr *hartebeest_get_remote_mr(const char *memc_key);
struct ibv_qp *hartebeest_get_remote_qp(const char *memc_key);

#ifdef __cplusplus
}
#endif

#endif
