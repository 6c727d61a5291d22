/* SPDX-License-Identifier: MIT */
/* objects.c - see objects.h */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/verbs/objects.h"
#include "lib/verbs/quota.h"

/* -------------------------------------------------------- protection domains --- */

int beest_pd_free(struct ibv_pd *verbs)
{
	return beest_quota_count(BEEST_QUOTA_PD, -1, beest_error_verbs(ibv_dealloc_pd(verbs)));
}

static int pd_release(struct beest_node *node)
{
	return beest_pd_free(node->handle);
}

const struct beest_kind beest_pd_kind = {
	.noun = "protection domain", .size = sizeof(struct beest_node), .release = pd_release,
	.users = "regions, queue pairs or shared receive queues still use it",
};

int beest_pd_alloc(const struct beest_device *device, struct ibv_pd **verbs)
{
	errno = 0;
	*verbs = ibv_alloc_pd(device->verbs);
	if (*verbs)
		return beest_quota_count(BEEST_QUOTA_PD, 1, 0);

	return beest_quota_fail(BEEST_QUOTA_PD, device->verbs, beest_error_errno(),
				"%s: cannot allocate a protection domain", device->label);
}

/* ------------------------------------------------------ shared receive queues --- */

static int srq_release(struct beest_node *node)
{
	return beest_quota_count(BEEST_QUOTA_SRQ, -1,
				 beest_error_verbs(ibv_destroy_srq(node->handle)));
}

const struct beest_kind beest_srq_kind = {
	.noun = "shared receive queue", .size = sizeof(struct beest_node), .release = srq_release,
	.users = "a queue pair still uses it",
};

int beest_srq_alloc(const struct beest_device *device, struct ibv_pd *pd,
		    const struct hartebeest_srq_attr *attr, struct ibv_srq **verbs)
{
	struct ibv_srq_init_attr init;

	memset(&init, 0, sizeof(init));
	init.srq_context = attr->srq_context;
	init.attr.max_wr = BEEST_MIN(attr->max_wr, (uint32_t)device->attr.max_srq_wr);
	init.attr.max_sge = BEEST_MIN(attr->max_sge, (uint32_t)device->attr.max_srq_sge);
	errno = 0;
	*verbs = ibv_create_srq(pd, &init);
	if (*verbs)
		return beest_quota_count(BEEST_QUOTA_SRQ, 1, 0);

	return beest_quota_fail(BEEST_QUOTA_SRQ, device->verbs, beest_error_errno(), "%s: cannot "
				"create a shared receive queue of %u requests with %u elements",
				device->label, init.attr.max_wr, init.attr.max_sge);
}

/* ---------------------------------------------------------- completion queues --- */

int beest_cq_free(struct ibv_cq *verbs)
{
	return beest_quota_count(BEEST_QUOTA_CQ, -1, beest_error_verbs(ibv_destroy_cq(verbs)));
}

static int cq_release(struct beest_node *node)
{
	return beest_cq_free(node->handle);
}

static void cq_dispose(struct beest_node *node)
{
	struct beest_cq *cq = BEEST_CONTAINER(node, struct beest_cq, node);

	if (cq->channel)
		ibv_destroy_comp_channel(cq->channel);
}

const struct beest_kind beest_cq_kind = {
	.noun = "completion queue", .size = sizeof(struct beest_cq), .release = cq_release,
	.users = "a queue pair still uses it", .dispose = cq_dispose,
};

/* Non-blocking, so that only poll(2) waits, which keeps the deadline. */
static int channel_open(const struct beest_device *device, struct ibv_comp_channel **channel)
{
	int flags;

	errno = 0;
	*channel = ibv_create_comp_channel(device->verbs);
	flags = *channel ? fcntl((*channel)->fd, F_GETFL) : -1;
	if (flags < 0 || fcntl((*channel)->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return beest_quota_fail(BEEST_QUOTA_NONE, device->verbs, beest_error_errno(),
					"%s: cannot create a completion channel", device->label);

	return 0;
}

int beest_cq_alloc(const struct beest_device *device, const struct hartebeest_cq_attr *attr,
		   struct ibv_comp_channel *channel, struct ibv_cq **verbs)
{
	int depth = (int)BEEST_MIN(attr->depth, (uint32_t)device->attr.max_cqe);
	int vectors = device->verbs->num_comp_vectors;

	if (attr->comp_vector && attr->comp_vector >= (uint32_t)BEEST_MAX(vectors, 0))
		return beest_fail(EINVAL, "%s has %d completion vector%s, and no comp_vector %"
				  PRIu32, device->label, vectors, vectors == 1 ? "" : "s",
				  attr->comp_vector);
	errno = 0;
	*verbs = ibv_create_cq(device->verbs, depth, attr->cq_context, channel,
			       (int)attr->comp_vector);
	if (*verbs)
		return beest_quota_count(BEEST_QUOTA_CQ, 1, 0);

	return beest_quota_fail(BEEST_QUOTA_CQ, device->verbs, beest_error_errno(), "%s: cannot "
				"create a completion queue of %d entries", device->label, depth);
}

int beest_cq_create(const struct beest_device *device, const struct hartebeest_cq_attr *attr,
		    struct beest_cq **cq)
{
	struct ibv_comp_channel *channel = NULL;
	struct ibv_cq *verbs;
	int ret;

	ret = attr->flags & HARTEBEEST_CQ_CHANNEL ? channel_open(device, &channel) : 0;
	if (ret == 0)
		ret = beest_cq_alloc(device, attr, channel ? channel : attr->channel, &verbs);
	if (ret == 0) {
		*cq = beest_table_wrap(&beest_cq_kind, verbs);
		ret = *cq ? 0 : -ENOMEM;
	}
	if (ret == 0)
		(*cq)->channel = channel;
	else if (channel)
		ibv_destroy_comp_channel(channel);
	return ret;
}

/* ------------------------------------------------------------------ waiting --- */

static int cq_poll(const struct beest_cq *cq, int count, struct ibv_wc *wc)
{
	int ret = ibv_poll_cq(cq->node.handle, count, wc);

	return ret < 0 ? beest_fail(EIO, "completion queue '%s' cannot be polled", cq->node.name) :
	       ret;
}

/*
 * Each event uses up one arming.  A completion that arrives before the arming makes no
 * event, so the caller must poll the queue again afterwards.
 */
static int cq_arm(struct beest_cq *cq)
{
	struct ibv_cq *verbs;
	void *context;
	int ret;

	while (ibv_get_cq_event(cq->channel, &verbs, &context) == 0) {
		ibv_ack_cq_events(verbs, 1);
		cq->armed = false;
	}
	if (cq->armed)
		return 0;

	ret = beest_error_verbs(ibv_req_notify_cq(cq->node.handle, 0));
	if (ret < 0)
		return beest_fail_errno(ret, "completion queue '%s' cannot be armed",
					cq->node.name);
	cq->armed = true;
	return 0;
}

int beest_cq_wait(struct beest_cq *cq, int count, struct ibv_wc *wc,
		  const struct beest_limit *limit, int (*interrupt)(void *data), void *data)
{
	int ret;

	for (;;) {
		ret = cq_poll(cq, count, wc);
		if (ret == 0)
			ret = cq_arm(cq);
		if (ret == 0)
			ret = cq_poll(cq, count, wc);
		if (ret == 0)
			ret = interrupt(data);
		if (ret != 0)
			return ret;

		if (beest_limit_check(limit) < 0)
			return -ECANCELED;
		if (limit->once)
			return beest_fail(EAGAIN, "completion queue '%s' is empty", cq->node.name);
		if (!beest_limit_left(limit))
			return beest_fail(ETIMEDOUT, "%snothing completed on completion queue "
					  "'%s'", BEEST_LIMIT_TEXT(limit, "after"),
					  cq->node.name);
		beest_limit_poll(limit, cq->channel->fd);
	}
}
