/* SPDX-License-Identifier: MIT */
/* cq.c - see cq.h */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/verbs/cq.h"

/* ----------------------------------------------------------- life, death --- */

static void cq_free(struct beest_cq *cq)
{
	if (cq->channel)
		ibv_destroy_comp_channel(cq->channel);
	free(cq);
}

static int cq_destroy(struct beest_node *node)
{
	struct beest_cq *cq = BEEST_CONTAINER(node, struct beest_cq, node);
	int ret = node->adopted ? 0 : beest_error_verbs(ibv_destroy_cq(cq->cq));

	if (ret < 0)
		return beest_fail(-ret, "cannot destroy completion queue '%s': %s%s", node->name,
				  strerror(-ret),
				  ret == -EBUSY ? "; a queue pair still uses it" : "");
	cq_free(cq);
	return 0;
}

const struct beest_kind beest_cq_kind = { "completion queue", cq_destroy };

int beest_cq_adopt(struct ibv_cq *verbs, struct beest_cq **cqp)
{
	struct beest_cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return beest_fail(ENOMEM, "no memory for a completion queue");

	cq->cq = verbs;
	cq->node.handle = verbs;
	cq->node.adopted = true;
	*cqp = cq;
	return 0;
}

/* Its reader never blocks, so that poll(2) keeps the deadline. */
static int channel_open(struct ibv_context *verbs, struct ibv_comp_channel **channel)
{
	int flags;

	errno = 0;
	*channel = ibv_create_comp_channel(verbs);
	if (!*channel)
		return beest_error_errno();

	flags = fcntl((*channel)->fd, F_GETFL);
	return flags < 0 || fcntl((*channel)->fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static int cq_make(const struct beest_device *device, int depth, bool has_channel,
		   struct beest_cq *cq)
{
	int ret = has_channel ? channel_open(device->verbs, &cq->channel) : 0;

	if (ret < 0)
		return beest_fail(-ret, "%s: cannot create a completion channel: %s", device->label,
				  strerror(-ret));

	errno = 0;
	cq->cq = ibv_create_cq(device->verbs, depth, NULL, cq->channel, 0);
	if (cq->cq)
		return 0;

	ret = beest_error_errno();
	return beest_fail(-ret, "%s: cannot create a completion queue of %d entries: %s",
			  device->label, depth, strerror(-ret));
}

int beest_cq_create(const struct beest_device *device, int64_t depth, bool has_channel,
		    struct beest_cq **cqp)
{
	struct beest_cq *cq = NULL;
	int ret = beest_cq_adopt(NULL, &cq);

	if (ret < 0)
		return ret;
	ret = cq_make(device, (int)BEEST_MIN(depth, device->attr.max_cqe), has_channel, cq);
	if (ret < 0) {
		cq_free(cq);
		return ret;
	}
	cq->node.handle = cq->cq;
	cq->node.adopted = false;
	*cqp = cq;
	return 0;
}

/* ------------------------------------------------------------------ waiting --- */

static int cq_poll(const struct beest_cq *cq, int count, struct ibv_wc *wc)
{
	int ret = ibv_poll_cq(cq->cq, count, wc);

	return ret < 0 ? beest_fail(EIO, "completion queue '%s' cannot be polled", cq->node.name) :
	       ret;
}

/*
 * Each event takes one arming with it, and the queue must be looked at again after it was
 * armed: what came in between makes no event.
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

	ret = beest_error_verbs(ibv_req_notify_cq(cq->cq, 0));
	if (ret < 0)
		return beest_fail(-ret, "completion queue '%s' cannot be armed: %s", cq->node.name,
				  strerror(-ret));
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
		if (ret == 0 && interrupt)
			ret = interrupt(data);
		if (ret != 0)
			return ret;

		if (beest_limit_check(limit) < 0)
			return -ECANCELED;
		if (limit->once)
			return beest_fail(EAGAIN, "completion queue '%s' is empty", cq->node.name);
		if (!beest_limit_left(limit))
			return beest_fail(ETIMEDOUT, "nothing completed on completion queue '%s' "
					  "within %s", cq->node.name,
					  BEEST_SPAN(beest_limit_span(limit)));
		beest_limit_poll(limit, cq->channel->fd);
	}
}
