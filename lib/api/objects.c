/* SPDX-License-Identifier: MIT */
/* objects.c - exported functions of protection domains, completion and receive queues */
#include "config.h"

#include <inttypes.h>

#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/base/text.h"
#include "lib/core/context.h"
#include "lib/verbs/objects.h"

/* -------------------------------------------------------- protection domains --- */

HARTEBEEST_EXPORT int hartebeest_pd_create(struct hartebeest_context *hb, const char *name,
					   struct ibv_pd **pd)
{
	struct ibv_pd *made;

	REQUIRE(hb, name);
	TRY(beest_table_name_available(&hb->objects, &beest_pd_kind, name));
	TRY(beest_call_prefix(__func__, beest_context_need_device(hb, NULL)));
	TRY(beest_pd_alloc(&hb->device, &made));
	TRY(beest_context_add(hb, &beest_pd_kind, name, made, NULL));
	if (pd)
		*pd = made;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_pd_adopt(struct hartebeest_context *hb, const char *name,
					  struct ibv_pd *verbs)
{
	REQUIRE(hb, name, verbs);
	return beest_call_done(hb, beest_context_adopt(hb, &beest_pd_kind, name, verbs->context,
						       verbs, NULL));
}

HARTEBEEST_EXPORT int hartebeest_pd_get(struct hartebeest_context *hb, const char *name,
					struct ibv_pd **pd)
{
	REQUIRE(hb, name, pd);
	return beest_call_done(hb, beest_context_find_pd(hb, name, pd));
}

HARTEBEEST_EXPORT int hartebeest_pd_destroy(struct hartebeest_context *hb, const char *name)
{
	REQUIRE(hb, name);
	return beest_call_done(hb, beest_context_destroy(hb, &beest_pd_kind, name));
}

/* ------------------------------------------------------ shared receive queues --- */

HARTEBEEST_EXPORT int hartebeest_srq_create(struct hartebeest_context *hb, const char *name,
					    const struct hartebeest_srq_attr *attr,
					    struct ibv_srq **srq)
{
	const struct beest_qp_options *options;
	struct hartebeest_srq_attr own;
	struct ibv_srq *made;
	struct ibv_pd *pd;

	REQUIRE(hb, name, attr);
	TRY(BEEST_SIZED_COPY(srq_attr, attr, &own, max_sge));
	REQUIRE(hb, attr->pd);
	options = &hb->options.qp[BEEST_RC];
	own.max_wr = own.max_wr ? own.max_wr : (uint32_t)options->max_recv_wr;
	own.max_sge = own.max_sge ? own.max_sge : (uint32_t)options->max_recv_sge;
	TRY(beest_table_name_available(&hb->objects, &beest_srq_kind, name));
	TRY(beest_context_find_pd(hb, own.pd, &pd));
	TRY(beest_srq_alloc(&hb->device, pd, &own, &made));
	TRY(beest_context_add(hb, &beest_srq_kind, name, made, pd));
	if (srq)
		*srq = made;
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

/* ---------------------------------------------------------- completion queues --- */

HARTEBEEST_EXPORT int hartebeest_cq_create(struct hartebeest_context *hb, const char *name,
					   const struct hartebeest_cq_attr *attr,
					   struct ibv_cq **cq)
{
	struct hartebeest_cq_attr own;
	struct beest_cq *made = NULL;
	void *handle;

	REQUIRE(hb, name);
	hartebeest_cq_attr_init(&own);
	if (attr)
		TRY(BEEST_SIZED_COPY(cq_attr, attr, &own, cq_context));
	if (own.flags & ~HARTEBEEST_CQ_CHANNEL)
		TRY(beest_fail(E2BIG, "%s(): unknown flags 0x%" PRIx32, __func__, own.flags));
	if (own.flags & HARTEBEEST_CQ_CHANNEL && own.channel)
		return beest_call_refuse(hb, __func__, "attr->channel is set, and flags ask for "
					 "another channel");
	own.depth = own.depth ? own.depth : (uint32_t)hb->options.cq_depth;
	TRY(beest_table_name_available(&hb->objects, &beest_cq_kind, name));
	TRY(beest_call_prefix(__func__, beest_context_need_device(hb, NULL)));
	TRY(beest_cq_create(&hb->device, &own, &made));
	handle = made->node.handle;
	TRY(beest_table_add(&hb->objects, name, &made->node));
	if (cq)
		*cq = handle;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_cq_adopt(struct hartebeest_context *hb, const char *name,
					  struct ibv_cq *verbs)
{
	REQUIRE(hb, name, verbs);
	return beest_call_done(hb, beest_context_adopt(hb, &beest_cq_kind, name, verbs->context,
						       verbs, NULL));
}

HARTEBEEST_EXPORT int hartebeest_cq_get(struct hartebeest_context *hb, const char *name,
					struct ibv_cq **cq)
{
	struct beest_cq *found;

	REQUIRE(hb, name, cq);
	TRY(beest_context_find_cq(hb, name, &found));
	*cq = found->node.handle;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_cq_destroy(struct hartebeest_context *hb, const char *name)
{
	REQUIRE(hb, name);
	return beest_call_done(hb, beest_context_destroy(hb, &beest_cq_kind, name));
}

static int cq_require_channel(const struct beest_cq *cq)
{
	return cq->channel ? 0 : beest_fail(ENODATA, "completion queue '%s' has no channel: "
					    "hartebeest_cq_create() makes one if flags have "
					    "HARTEBEEST_CQ_CHANNEL", cq->node.name);
}

HARTEBEEST_EXPORT int hartebeest_cq_fd(struct hartebeest_context *hb, const char *name)
{
	struct beest_cq *cq;

	REQUIRE(hb, name);
	TRY(beest_context_find_cq(hb, name, &cq));
	TRY(cq_require_channel(cq));
	return cq->channel->fd;
}

/* A port that is down may be why nothing completed. */
static int wait_ended(struct hartebeest_context *hb, int ret)
{
	char sentence[BEEST_ERROR_SIZE];

	if (ret != -ETIMEDOUT)
		return ret;
	beest_text_copy(sentence, sizeof(sentence), beest_error_text());

	return beest_port_check(&hb->port) == 0 ? beest_fail(ETIMEDOUT, "%s", sentence) :
	       beest_fail(ETIMEDOUT, "%s; %s", sentence, beest_error_text());
}

HARTEBEEST_EXPORT int hartebeest_cq_wait(struct hartebeest_context *hb, struct ibv_cq *cq,
					 int count, struct ibv_wc *wc, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_cq *own = NULL;

	REQUIRE_LIMIT(hb, cq, wc);
	if (count < 1)
		return beest_call_refuse(hb, __func__, "count is below 1");
	TRY_LIMIT(beest_context_cq(hb, cq, &own));
	TRY_LIMIT(cq_require_channel(own));
	return beest_call_idled(hb, &limit,
				wait_ended(hb, beest_cq_wait(own, count, wc, &limit,
							     beest_context_interrupt, hb)));
}
