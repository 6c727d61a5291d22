/* SPDX-License-Identifier: MIT */
/* make.h - makes objects in one line, as tests want to */
#ifndef TESTS_MAKE_H
#define TESTS_MAKE_H

#include "hartebeest.h"

static inline int cq_make(struct hartebeest_context *hb, const char *name, uint32_t depth,
			  uint32_t flags, struct ibv_cq **cq)
{
	struct hartebeest_cq_attr attr;

	hartebeest_cq_attr_init(&attr);
	attr.depth = depth;
	attr.flags = flags;
	return hartebeest_cq_create(hb, name, &attr, cq);
}

static inline int srq_make(struct hartebeest_context *hb, const char *name, const char *pd,
			   uint32_t max_wr, uint32_t max_sge, struct ibv_srq **srq)
{
	struct hartebeest_srq_attr attr;

	hartebeest_srq_attr_init(&attr);
	attr.pd = pd;
	attr.max_wr = max_wr;
	attr.max_sge = max_sge;
	return hartebeest_srq_create(hb, name, &attr, srq);
}

static inline int mr_make(struct hartebeest_context *hb, const char *name, const char *pd,
			  size_t length, int access, struct ibv_mr **mr)
{
	struct hartebeest_mr_attr attr;

	hartebeest_mr_attr_init(&attr);
	attr.pd = pd;
	attr.length = length;
	attr.access = access;
	return hartebeest_mr_create(hb, name, &attr, mr);
}

static inline int mr_make_of(struct hartebeest_context *hb, const char *name, const char *pd,
			     void *memory, size_t length, int access, struct ibv_mr **mr)
{
	struct hartebeest_mr_attr attr;

	hartebeest_mr_attr_init(&attr);
	attr.pd = pd;
	attr.address = memory;
	attr.length = length;
	attr.access = access;
	return hartebeest_mr_register(hb, name, &attr, mr);
}

static inline int mr_make_of_dmabuf(struct hartebeest_context *hb, const char *name,
				    const char *pd, int fd, uint64_t offset, size_t length,
				    uint64_t iova, int access, struct ibv_mr **mr)
{
	struct hartebeest_mr_attr attr;

	hartebeest_mr_attr_init(&attr);
	attr.pd = pd;
	attr.length = length;
	attr.access = access;
	attr.dmabuf_fd = fd;
	attr.dmabuf_offset = offset;
	attr.dmabuf_iova = iova;
	return hartebeest_mr_register_dmabuf(hb, name, &attr, mr);
}

static inline int qp_make(struct hartebeest_context *hb, const char *name, const char *pd,
			  enum ibv_qp_type type, const char *send_cq, const char *recv_cq,
			  struct ibv_qp **qp)
{
	struct hartebeest_qp_attr attr;

	hartebeest_qp_attr_init(&attr);
	attr.pd = pd;
	attr.type = type;
	attr.send_cq = send_cq;
	attr.recv_cq = recv_cq;
	return hartebeest_qp_create(hb, name, &attr, qp);
}

#endif
