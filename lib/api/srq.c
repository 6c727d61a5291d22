/* SPDX-License-Identifier: MIT */
/* srq.c - exported functions of shared receive queues */
#include "config.h"

#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/core/context.h"
#include "lib/verbs/srq.h"

HARTEBEEST_EXPORT int hartebeest_srq_create(struct hartebeest_context *hb, const char *name,
					    const char *pd, uint32_t max_wr, uint32_t max_sge,
					    struct ibv_srq **srq)
{
	const struct beest_qp_options *preset;
	struct beest_node *made;
	struct ibv_pd *domain;

	REQUIRE(hb, name, pd);
	preset = &hb->options.qp[BEEST_RC];
	TRY(beest_table_name_available(&hb->objects, &beest_srq_kind, name));
	TRY(beest_context_find_pd(hb, pd, &domain));
	TRY(beest_srq_create(&hb->device, domain, max_wr ? max_wr : (uint32_t)preset->max_recv_wr,
			     max_sge ? max_sge : (uint32_t)preset->max_recv_sge, &made));
	TRY(beest_table_add(&hb->objects, name, made));
	if (srq)
		*srq = made->handle;
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
	return beest_call_done(hb, beest_table_destroy(&hb->objects, &beest_srq_kind, name));
}
