/* SPDX-License-Identifier: MIT */
/* srq.c - exported functions of shared receive queues */
#include "config.h"

#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/core/context.h"
#include "lib/core/find.h"
#include "lib/verbs/pd.h"
#include "lib/verbs/srq.h"

HARTEBEEST_EXPORT int hartebeest_srq_create(struct hartebeest_context *hb, const char *name,
					    const char *pd, uint32_t max_wr, uint32_t max_sge,
					    struct ibv_srq **srq)
{
	const struct beest_qp_options *preset;
	const struct beest_device *device;
	struct beest_srq *made;
	struct beest_pd *domain;

	REQUIRE(hb, name, pd);
	preset = &hb->options.qp[BEEST_RC];
	TRY(beest_context_name_available(hb, &beest_srq_kind, name));
	TRY(beest_find_pd(hb, pd, &domain));
	TRY(beest_context_device(hb, &device));
	TRY(beest_srq_create(device, domain->pd, max_wr ? max_wr : (uint32_t)preset->max_recv_wr,
			     max_sge ? max_sge : (uint32_t)preset->max_recv_sge, &made));
	TRY(beest_context_add(hb, name, &made->node));
	if (srq)
		*srq = made->srq;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_srq_adopt(struct hartebeest_context *hb, const char *name,
					   struct ibv_srq *verbs)
{
	struct beest_srq *srq;

	REQUIRE(hb, name, verbs);
	TRY(beest_context_adoptable(hb, &beest_srq_kind, name, verbs->context, verbs));
	TRY(beest_srq_adopt(verbs, &srq));
	return beest_call_done(hb, beest_context_add(hb, name, &srq->node));
}

HARTEBEEST_EXPORT int hartebeest_srq_get(struct hartebeest_context *hb, const char *name,
					 struct ibv_srq **srq)
{
	struct beest_srq *found;

	REQUIRE(hb, name, srq);
	TRY(beest_find_srq(hb, name, &found));
	*srq = found->srq;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_srq_destroy(struct hartebeest_context *hb, const char *name)
{
	REQUIRE(hb, name);
	return beest_call_done(hb, beest_context_destroy(hb, &beest_srq_kind, name));
}
