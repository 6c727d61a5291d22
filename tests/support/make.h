/* SPDX-License-Identifier: MIT */
/* make.h - makes objects in one line, as tests want to */
#ifndef TESTS_MAKE_H
#define TESTS_MAKE_H

#include "hartebeest.h"

static inline int qp_make(struct hartebeest_context *hb, const char *name, const char *pd,
			  enum ibv_qp_type type, const char *send_cq, const char *recv_cq,
			  struct ibv_qp **qp)
{
	struct hartebeest_qp_request request;

	hartebeest_qp_request_preset(&request);
	request.pd = pd;
	request.type = type;
	request.send_cq = send_cq;
	request.recv_cq = recv_cq;
	return hartebeest_qp_create(hb, name, &request, qp);
}

#endif
