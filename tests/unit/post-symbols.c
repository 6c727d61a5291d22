/* SPDX-License-Identifier: MIT */
/*
 * post-symbols.c - the tests of post.c against the exported symbols
 *
 * The prototypes are written by hand, as by a caller that cannot include the header: they are the
 * binary interface.
 */
#include "config.h"

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

int hartebeest_post_wr(struct ibv_qp *qp, struct ibv_send_wr *wr, const void *local,
		       uint32_t length, uint32_t lkey);
int hartebeest_post_rdma(struct ibv_qp *qp, enum ibv_wr_opcode opcode, const void *local,
			 uint32_t length, uint32_t lkey, uint64_t remote, uint32_t rkey,
			 uint64_t wr_id, unsigned int flags);
int hartebeest_post_write(struct ibv_qp *qp, const void *local, uint32_t length,
			  uint32_t lkey, uint64_t remote, uint32_t rkey, uint64_t wr_id,
			  unsigned int flags);
int hartebeest_post_read(struct ibv_qp *qp, void *local, uint32_t length, uint32_t lkey,
			 uint64_t remote, uint32_t rkey, uint64_t wr_id, unsigned int flags);
int hartebeest_post_write_imm(struct ibv_qp *qp, const void *local, uint32_t length,
			      uint32_t lkey, uint64_t remote, uint32_t rkey, uint32_t imm,
			      uint64_t wr_id, unsigned int flags);
int hartebeest_post_send(struct ibv_qp *qp, const void *local, uint32_t length, uint32_t lkey,
			 uint64_t wr_id, unsigned int flags);
int hartebeest_post_send_imm(struct ibv_qp *qp, const void *local, uint32_t length,
			     uint32_t lkey, uint32_t imm, uint64_t wr_id, unsigned int flags);
int hartebeest_post_send_ud(struct ibv_qp *qp, const void *local, uint32_t length,
			    uint32_t lkey, struct ibv_ah *ah, uint32_t qp_num, uint32_t qkey,
			    uint64_t wr_id, unsigned int flags);
int hartebeest_post_fetch_add(struct ibv_qp *qp, uint64_t *local, uint32_t lkey,
			      uint64_t remote, uint32_t rkey, uint64_t add, uint64_t wr_id,
			      unsigned int flags);
int hartebeest_post_compare_swap(struct ibv_qp *qp, uint64_t *local, uint32_t lkey,
				 uint64_t remote, uint32_t rkey, uint64_t compare,
				 uint64_t swap, uint64_t wr_id, unsigned int flags);
int hartebeest_post_recv(struct ibv_qp *qp, void *local, uint32_t length, uint32_t lkey,
			 uint64_t wr_id);
int hartebeest_post_srq_recv(struct ibv_srq *srq, void *local, uint32_t length, uint32_t lkey,
			     uint64_t wr_id);
int hartebeest_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int64_t hartebeest_clock(void);
int hartebeest_poll_until(struct ibv_cq *cq, int count, struct ibv_wc *wc, int64_t deadline);
uint32_t hartebeest_wc_imm(const struct ibv_wc *wc);

#define HARTEBEEST_DEFAULT 0
#define HARTEBEEST_FOREVER INT64_MAX
#define HARTEBEEST_ONCE (-1)
#define HARTEBEEST_CLOCK_H		/* keeps the inline definitions out */
#define HARTEBEEST_POST_H
#include "tests/unit/post.c"
