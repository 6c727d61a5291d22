/* SPDX-License-Identifier: MIT */
/*
 * hartebeest-c.h - the C functions of the original Hartebeest
 *
 * For programs written for the original: they compile and run unchanged, linked with
 * -lhartebeest.  New code should use hartebeest.h, whose functions return an errno instead of
 * true or false.
 *
 * The process has one default context, made by hartebeest_init() or by the first call of
 * any other function.  true means success.  After false, hartebeest_error() of
 * hartebeest.h gives the reason, and a line with it goes to stderr unless the option
 * log.level (HARTEBEEST_LOG) is none.
 *
 * The original waited for ever; these functions wait up to a deadline: the fetches for the
 * option fetch.timeout (default 1 h), the polls for poll.timeout (default 1 h).
 * hartebeest_memc_wait_general(), which gave up in the original, too, waits for
 * exchange.timeout (default 30 s).
 *
 * Threads: as in hartebeest.h, also while the process exits.  At exit, records are withdrawn,
 * and nothing is destroyed: detached threads may use regions and queue pairs to the last.
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

/**
 * hartebeest_init() - read the settings
 *
 * If that fails, the failure is logged, and all other functions fail for the same reason
 * until this one is called again.
 */
void hartebeest_init(void);

/**
 * hartebeest_default_context() - the default context, for functions of hartebeest.h
 *
 * Must not be closed: the library withdraws its records when the process exits.  NULL when it
 * cannot be opened.  Since: 0.1
 */
struct hartebeest_context *hartebeest_default_context(void);

/**
 * hartebeest_get_sysvar() - the value of HARTEBEEST_NID and the like
 *
 * The environment variable @name, which begins with HARTEBEEST_.  If HARTEBEEST_NID or
 * HARTEBEEST_NPARTICIPANTS is not set, the value may be taken from a launcher or a settings
 * file; that of HARTEBEEST_PARTICIPANTS and HARTEBEEST_EXC_IP_PORT from a settings file.
 * If one of these four has no value, which the original demanded, that is logged once for
 * each.
 *
 * Returns NULL if there is no value.  The text is owned by the library or the
 * environment.
 */
char *hartebeest_get_sysvar(const char *name);

/** hartebeest_memc_push_general() - leave a message without content */
bool hartebeest_memc_push_general(const char *key);

/** hartebeest_memc_wait_general() - wait for a message without content */
bool hartebeest_memc_wait_general(const char *key);

/**
 * hartebeest_memc_del_general() - delete a message, and withdraw what was published there
 *
 * Withdraws only queue pairs and regions that this process has published under @key.  They
 * stay connected and registered, and are not published again unless they are pushed again.
 *
 * Also returns false if nothing was there.
 */
bool hartebeest_memc_del_general(const char *key);

/** hartebeest_create_local_pd() - make a protection domain */
bool hartebeest_create_local_pd(const char *pd);

/**
 * hartebeest_create_local_mr() - make a zeroed buffer and its region
 *
 * The library owns the buffer, of @length bytes, which begins at ibv_mr.addr.
 */
bool hartebeest_create_local_mr(const char *pd, const char *mr, size_t length, int access);

/** hartebeest_memc_push_local_mr() - let others find a region */
bool hartebeest_memc_push_local_mr(const char *memc_key, const char *pd, const char *mr);

/**
 * hartebeest_memc_fetch_remote_mr() - wait for a region of the peer
 *
 * Another fetch of the same key asks the server again.
 */
bool hartebeest_memc_fetch_remote_mr(const char *memc_key);

/**
 * hartebeest_create_basiccq() - make a completion queue
 *
 * It has room for the requests of a queue pair, even if cq_attr.cq_depth is less.
 */
bool hartebeest_create_basiccq(const char *cq);

/** hartebeest_create_local_qp() - make a queue pair */
bool hartebeest_create_local_qp(const char *pd, const char *qp, enum ibv_qp_type type,
				const char *send_cq, const char *recv_cq);

/** hartebeest_init_local_qp() - take a queue pair from RESET to INIT */
bool hartebeest_init_local_qp(const char *pd, const char *qp);

/** hartebeest_connect_local_qp() - take a queue pair to RTS, connected to a fetched one */
bool hartebeest_connect_local_qp(const char *pd, const char *qp, const char *remote_key);

/** hartebeest_memc_push_local_qp() - let others find a queue pair */
bool hartebeest_memc_push_local_qp(const char *memc_key, const char *pd, const char *qp);

/** hartebeest_memc_fetch_remote_qp() - wait for a queue pair of the peer */
bool hartebeest_memc_fetch_remote_qp(const char *memc_key);

/**
 * hartebeest_rdma_post_single_fast() - post one signalled request
 *
 * @opcode: a write, a read or a send; immediate data, if the opcode has some, are 0
 * @wr_id:  is returned in the completion
 */
bool hartebeest_rdma_post_single_fast(struct ibv_qp *qp, void *local, void *remote,
				      size_t length, enum ibv_wr_opcode opcode,
				      uint32_t lkey, uint32_t rkey, uint64_t wr_id);

/** hartebeest_rdma_post_single_signaled_inline() - the same, with the data in the request */
bool hartebeest_rdma_post_single_signaled_inline(struct ibv_qp *qp, void *local,
						 void *remote, size_t length,
						 enum ibv_wr_opcode opcode, uint32_t lkey,
						 uint32_t rkey, uint64_t wr_id);

/**
 * hartebeest_rdma_poll() - wait for one completion on a completion queue
 *
 * Returns false if the completion is a failure, or if the peer of a queue pair that uses
 * the queue was replaced meanwhile, so that no completion may arrive.
 */
bool hartebeest_rdma_poll(const char *cq);

/** hartebeest_rdma_send_poll() - wait for one completion of a queue pair's sends */
bool hartebeest_rdma_send_poll(struct ibv_qp *qp);

/** hartebeest_rdma_recv_poll() - wait for one completion of a queue pair's receives */
bool hartebeest_rdma_recv_poll(struct ibv_qp *qp);

/*
 * The functions below return NULL if there is no such object.  The library owns what they
 * return.
 */

/** hartebeest_get_local_pd() - find a protection domain by its name */
struct ibv_pd *hartebeest_get_local_pd(const char *pd);

/** hartebeest_get_local_mr() - find a region by its name */
struct ibv_mr *hartebeest_get_local_mr(const char *pd, const char *mr);

/** hartebeest_get_local_qp() - find a queue pair by its name */
struct ibv_qp *hartebeest_get_local_qp(const char *pd, const char *qp);

/*
 * The next two return what the last fetch brought, in host byte order.  It is no object
 * of this process, so it must not be passed to a verbs call.  A later fetch of the same
 * key updates it in place.
 */

/** hartebeest_get_remote_mr() - a fetched region, with addr, length and rkey set */
struct ibv_mr *hartebeest_get_remote_mr(const char *memc_key);

/** hartebeest_get_remote_qp() - a fetched queue pair, with qp_num and qp_type set */
struct ibv_qp *hartebeest_get_remote_qp(const char *memc_key);

#ifdef __cplusplus
}
#endif

#endif
