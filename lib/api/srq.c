/* SPDX-License-Identifier: MIT */
/* srq.c - exported functions of shared receive queues */
#include "config.h"

#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/base/sized.h"
#include "lib/core/context.h"
#include "lib/verbs/srq.h"

HARTEBEEST_EXPORT int hartebeest_srq_create(struct hartebeest_context *hb, const char *name,
					    const struct hartebeest_srq_attr *attr,
					    struct ibv_srq **srq)
{
	const struct beest_qp_options *options;
	struct hartebeest_srq_attr own;
	struct beest_node *made;
	struct ibv_pd *pd;
	void *handle;

	REQUIRE(hb, name, attr);
	TRY(BEEST_SIZED_COPY(srq_attr, attr, &own, max_sge));
	REQUIRE(hb, attr->pd);
	options = &hb->options.qp[BEEST_RC];
	own.max_wr = own.max_wr ? own.max_wr : (uint32_t)options->max_recv_wr;
	own.max_sge = own.max_sge ? own.max_sge : (uint32_t)options->max_recv_sge;
	TRY(beest_table_name_available(&hb->objects, &beest_srq_kind, name));
	TRY(beest_context_find_pd(hb, own.pd, &pd));
	TRY(beest_srq_create(&hb->device, pd, &own, &made));
	handle = made->handle;
	TRY(beest_table_add(&hb->objects, name, made));
	if (srq)
		*srq = handle;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_srq_adopt(struct hartebeest_context *hb, const char *name,
					   struct ibv_srq *verbs)
{
	REQUIRE(hb, name, verbs);
	return beest_call_done(hb, beest_context_adopt(hb, &beest_srq_kind, name, verbs->context,
						       verbs, verbs->pd));
}

HARTEBEEST_EXPORT int hartebeest_srq_get(struct hartebeest_context *hb, const char *name,
					 struct ibv_srq **srq)
{
	REQUIRE(hb, name, srq);
	return beest_call_done(hb, beest_context_find_srq(hb, name, srq));
}

HARTEBEEST_EXPORT int hartebeest_srq_destroy(struct hartebeest_context *hb, const char *name)
{
	REQUIRE(hb, name);
	return beest_call_done(hb, beest_context_destroy(hb, &beest_srq_kind, name));
}
