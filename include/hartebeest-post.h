/* SPDX-License-Identifier: MIT */
/*
 * hartebeest-post.h - post and poll, inline
 *
 * Thin helpers over ibv_post_send(3), ibv_post_recv(3), ibv_post_srq_recv(3) and
 * ibv_poll_cq(3).  They look nothing up, take no lock, log nothing and allocate nothing.
 * They need no hartebeest context, and work on any queue pair, however it was connected.
 *
 * All return 0 (polls: the number of completions) or a negative errno: that of
 * ibv_post_send(3), most often -ENOMEM (send queue full), -EINVAL (state, flags, too long
 * for inline) or -EIO.  They do not set hartebeest_error(3); hartebeest_post_text(3)
 * explains a refusal.
 *
 * Common arguments:
 *   local    address in this process, inside the memory region of lkey
 *   length   bytes, at most the port's max_msg_sz
 *   lkey     ibv_mr.lkey of the local region; ignored with IBV_SEND_INLINE
 *   remote   address in the peer's process, inside the region of rkey
 *   rkey     ibv_mr.rkey of the peer's region (hartebeest_mr_fetch(3))
 *   wr_id    is returned in ibv_wc.wr_id
 *   flags    enum ibv_send_flags: IBV_SEND_SIGNALED for a completion on success,
 *            IBV_SEND_INLINE, IBV_SEND_FENCE, IBV_SEND_SOLICITED
 *   imm      32 bits for the peer, in host byte order.  They travel big-endian, and
 *            hartebeest_wc_imm() converts them back
 *
 * Threads: all functions may be called concurrently, as the verbs themselves.
 *
 * The functions are static inline here.  libhartebeest also exports each of them, for
 * callers that cannot use a header (dlsym, Fortran) or whose generator of bindings cannot read
 * inline functions (-DHARTEBEEST_INLINE=).
 */
#ifndef HARTEBEEST_POST_H
#define HARTEBEEST_POST_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "hartebeest-clock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Converts between host and network byte order without <arpa/inet.h> and all it declares. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HARTEBEEST_BE32_(value) __builtin_bswap32(value)
#else
#define HARTEBEEST_BE32_(value) (value)
#endif

/* A cast that -Wold-style-cast accepts. */
#ifdef __cplusplus
#define HARTEBEEST_NUMBER_(pointer) reinterpret_cast<uintptr_t>(pointer)
#else
#define HARTEBEEST_NUMBER_(pointer) ((uintptr_t)(pointer))
#endif

/* A null pointer that -Wzero-as-null-pointer-constant accepts. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define HARTEBEEST_NULL_ nullptr
#else
#define HARTEBEEST_NULL_ NULL
#endif

/** hartebeest_post_wr() - post one work request of one element, the building block */
HARTEBEEST_INLINE int hartebeest_post_wr(struct ibv_qp *qp, struct ibv_send_wr *wr,
					 const void *local, uint32_t length, uint32_t lkey)
{
	struct ibv_send_wr *bad;
	struct ibv_sge sge;
	int ret;

	sge.addr = HARTEBEEST_NUMBER_(local);
	sge.length = length;
	sge.lkey = lkey;
	wr->next = HARTEBEEST_NULL_;
	wr->sg_list = &sge;
	wr->num_sge = length ? 1 : 0;	/* an empty message needs no region */
	ret = ibv_post_send(qp, wr, &bad);
	return ret > 0 ? -ret : ret;
}

/**
 * hartebeest_post_rdma() - post a one-sided operation, given its opcode
 *
 * Sets only the fields that the opcode uses: clearing a whole struct ibv_send_wr would
 * double the cost of a post.
 */
HARTEBEEST_INLINE int hartebeest_post_rdma(struct ibv_qp *qp, enum ibv_wr_opcode opcode,
					   const void *local, uint32_t length, uint32_t lkey,
					   uint64_t remote, uint32_t rkey,
					   uint64_t wr_id, unsigned int flags)
{
	struct ibv_send_wr wr;

	wr.wr_id = wr_id;
	wr.opcode = opcode;
	wr.send_flags = flags;
	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	return hartebeest_post_wr(qp, &wr, local, length, lkey);
}

/** hartebeest_post_write() - RDMA WRITE from local to remote (RC and UC) */
HARTEBEEST_INLINE int hartebeest_post_write(struct ibv_qp *qp, const void *local,
					    uint32_t length, uint32_t lkey,
					    uint64_t remote, uint32_t rkey,
					    uint64_t wr_id, unsigned int flags)
{
	return hartebeest_post_rdma(qp, IBV_WR_RDMA_WRITE, local, length, lkey,
				    remote, rkey, wr_id, flags);
}

/**
 * hartebeest_post_read() - RDMA READ from remote to local (RC)
 *
 * The local region needs IBV_ACCESS_LOCAL_WRITE.
 */
HARTEBEEST_INLINE int hartebeest_post_read(struct ibv_qp *qp, void *local,
					   uint32_t length, uint32_t lkey,
					   uint64_t remote, uint32_t rkey,
					   uint64_t wr_id, unsigned int flags)
{
	return hartebeest_post_rdma(qp, IBV_WR_RDMA_READ, local, length, lkey,
				    remote, rkey, wr_id, flags);
}

/** hartebeest_post_write_imm() - RDMA WRITE that consumes a peer's receive to deliver imm */
HARTEBEEST_INLINE int hartebeest_post_write_imm(struct ibv_qp *qp, const void *local,
						uint32_t length, uint32_t lkey,
						uint64_t remote, uint32_t rkey,
						uint32_t imm, uint64_t wr_id,
						unsigned int flags)
{
	struct ibv_send_wr wr;

	wr.wr_id = wr_id;
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.send_flags = flags;
	wr.imm_data = HARTEBEEST_BE32_(imm);
	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = rkey;
	return hartebeest_post_wr(qp, &wr, local, length, lkey);
}

/** hartebeest_post_send() - SEND into a receive that the peer has posted (RC and UC) */
HARTEBEEST_INLINE int hartebeest_post_send(struct ibv_qp *qp, const void *local,
					   uint32_t length, uint32_t lkey,
					   uint64_t wr_id, unsigned int flags)
{
	struct ibv_send_wr wr;

	wr.wr_id = wr_id;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = flags;
	return hartebeest_post_wr(qp, &wr, local, length, lkey);
}

/** hartebeest_post_send_imm() - SEND with 32 bits for the peer (RC and UC) */
HARTEBEEST_INLINE int hartebeest_post_send_imm(struct ibv_qp *qp, const void *local,
					       uint32_t length, uint32_t lkey, uint32_t imm,
					       uint64_t wr_id, unsigned int flags)
{
	struct ibv_send_wr wr;

	wr.wr_id = wr_id;
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.send_flags = flags;
	wr.imm_data = HARTEBEEST_BE32_(imm);
	return hartebeest_post_wr(qp, &wr, local, length, lkey);
}

/**
 * hartebeest_post_send_ud() - SEND to one of many peers of a UD queue pair
 *
 * ah, qp_num and qkey are those of hartebeest_qp_ud_address(3).  length is at most the path MTU
 * in bytes.  In the receiver's buffer the data follow 40 bytes that hold a GRH or are
 * undefined.
 */
HARTEBEEST_INLINE int hartebeest_post_send_ud(struct ibv_qp *qp, const void *local,
					      uint32_t length, uint32_t lkey,
					      struct ibv_ah *ah, uint32_t qp_num,
					      uint32_t qkey, uint64_t wr_id,
					      unsigned int flags)
{
	struct ibv_send_wr wr;

	wr.wr_id = wr_id;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = flags;
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = qp_num;
	wr.wr.ud.remote_qkey = qkey;
	return hartebeest_post_wr(qp, &wr, local, length, lkey);
}

/**
 * hartebeest_post_fetch_add() - add to the 8 bytes at remote, atomically (RC)
 *
 * remote must be a multiple of 8.  The value before the operation is stored at local.
 * The remote region needs IBV_ACCESS_REMOTE_ATOMIC, the local one IBV_ACCESS_LOCAL_WRITE.
 * Operands are in host byte order, which must be the same at both ends.
 */
HARTEBEEST_INLINE int hartebeest_post_fetch_add(struct ibv_qp *qp, uint64_t *local,
						uint32_t lkey, uint64_t remote,
						uint32_t rkey, uint64_t add,
						uint64_t wr_id, unsigned int flags)
{
	struct ibv_send_wr wr;

	wr.wr_id = wr_id;
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.send_flags = flags;
	wr.wr.atomic.remote_addr = remote;
	wr.wr.atomic.rkey = rkey;
	wr.wr.atomic.compare_add = add;
	wr.wr.atomic.swap = 0;
	return hartebeest_post_wr(qp, &wr, local, 8, lkey);
}

/**
 * hartebeest_post_compare_swap() - store swap at remote if it equals compare (RC)
 *
 * Otherwise as hartebeest_post_fetch_add().  If the swap took place, the value stored at
 * local equals compare.
 */
HARTEBEEST_INLINE int hartebeest_post_compare_swap(struct ibv_qp *qp, uint64_t *local,
						   uint32_t lkey, uint64_t remote,
						   uint32_t rkey, uint64_t compare,
						   uint64_t swap, uint64_t wr_id,
						   unsigned int flags)
{
	struct ibv_send_wr wr;

	wr.wr_id = wr_id;
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.send_flags = flags;
	wr.wr.atomic.remote_addr = remote;
	wr.wr.atomic.rkey = rkey;
	wr.wr.atomic.compare_add = compare;
	wr.wr.atomic.swap = swap;
	return hartebeest_post_wr(qp, &wr, local, 8, lkey);
}

/**
 * hartebeest_post_recv() - make room for one message
 *
 * Allowed in the state INIT and later ones.  With length 0 the receive takes imm only.
 */
HARTEBEEST_INLINE int hartebeest_post_recv(struct ibv_qp *qp, void *local,
					   uint32_t length, uint32_t lkey, uint64_t wr_id)
{
	struct ibv_recv_wr wr, *bad;
	struct ibv_sge sge;
	int ret;

	sge.addr = HARTEBEEST_NUMBER_(local);
	sge.length = length;
	sge.lkey = lkey;
	wr.wr_id = wr_id;
	wr.next = HARTEBEEST_NULL_;
	wr.sg_list = &sge;
	wr.num_sge = length ? 1 : 0;
	ret = ibv_post_recv(qp, &wr, &bad);
	return ret > 0 ? -ret : ret;
}

/**
 * hartebeest_post_srq_recv() - make room for one message in a shared receive queue
 *
 * srq is from hartebeest_srq_create(3).  The state of its queue pairs does not matter.
 */
HARTEBEEST_INLINE int hartebeest_post_srq_recv(struct ibv_srq *srq, void *local,
					       uint32_t length, uint32_t lkey,
					       uint64_t wr_id)
{
	struct ibv_recv_wr wr, *bad;
	struct ibv_sge sge;
	int ret;

	sge.addr = HARTEBEEST_NUMBER_(local);
	sge.length = length;
	sge.lkey = lkey;
	wr.wr_id = wr_id;
	wr.next = HARTEBEEST_NULL_;
	wr.sg_list = &sge;
	wr.num_sge = length ? 1 : 0;
	ret = ibv_post_srq_recv(srq, &wr, &bad);
	return ret > 0 ? -ret : ret;
}

/**
 * hartebeest_poll() - take completions
 *
 * Takes up to count of them.  Returns their number, 0 when there is none, or -EIO when
 * the queue itself is broken.  Check wc[i].status: a completion may be a failure, which
 * hartebeest_completion_text(3) puts into words.
 */
HARTEBEEST_INLINE int hartebeest_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	int ret = ibv_poll_cq(cq, count, wc);

	return ret < 0 ? -EIO : ret;
}

/**
 * hartebeest_poll_until() - spin until something completes
 *
 * Spins until there is at least one completion, and takes up to count.  The deadline is
 * as in hartebeest.h: for a millisecond, hartebeest_clock() + 1000000.  HARTEBEEST_DEFAULT
 * is always 30 seconds, since there is no context whose options could differ.  The clock
 * is read only once in 64 empty polls, so a completion is noticed as soon as in a bare loop.
 *
 * Returns as hartebeest_poll(), -ETIMEDOUT (hartebeest_post_text(3) gives usual reasons),
 * -EAGAIN (HARTEBEEST_ONCE), or -EINVAL (any other negative deadline).
 */
HARTEBEEST_INLINE int hartebeest_poll_until(struct ibv_cq *cq, int count, struct ibv_wc *wc,
					    int64_t deadline)
{
	int64_t end = deadline;
	int ret, spins;

	if (deadline < HARTEBEEST_ONCE)
		return -EINVAL;
	if (deadline == HARTEBEEST_DEFAULT) {
		end = 30;
		end = hartebeest_clock() + end * 1000000000;
	}
	do {
		for (spins = 0; spins < 64; spins++) {
			ret = hartebeest_poll(cq, count, wc);
			if (ret)
				return ret;
		}
	} while (hartebeest_clock() < end);

	return deadline == HARTEBEEST_ONCE ? -EAGAIN : -ETIMEDOUT;
}

/**
 * hartebeest_wc_imm() - the immediate value of a completion, in host byte order
 *
 * It must be the completion of a receive (IBV_WC_RECV or IBV_WC_RECV_RDMA_WITH_IMM) that has
 * IBV_WC_WITH_IMM in its wc_flags: some devices, such as Soft-RoCE, also set this flag in the
 * completions of sends, whose value means nothing.
 */
HARTEBEEST_INLINE uint32_t hartebeest_wc_imm(const struct ibv_wc *wc)
{
	return HARTEBEEST_BE32_(wc->imm_data);
}

#ifdef __cplusplus
}
#endif

#endif
