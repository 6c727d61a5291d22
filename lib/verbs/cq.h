/* SPDX-License-Identifier: MIT */
/*
 * cq.h - a completion queue with a name, and waiting for it
 *
 * Owns the struct ibv_cq, unless the program does, and a completion channel that serves
 * this queue alone.  Knows nothing of the queue pairs that use the queue.
 */
#ifndef BEEST_CQ_H
#define BEEST_CQ_H

#include "include/hartebeest.h"
#include "lib/base/limit.h"
#include "lib/base/table.h"
#include "lib/verbs/device.h"

struct beest_cq {
	struct beest_node node;			/* its handle is the struct ibv_cq */
	struct ibv_comp_channel *channel;	/* non-blocking; NULL: none */
	bool armed;				/* the next completion makes an event */
	int64_t requests;			/* whose completions it may get; under the
						   lock of its context's objects */
};

extern const struct beest_kind beest_cq_kind;

/*
 * A queue without a name, which the caller destroys with beest_cq_free().
 *
 * @attr: its depth is not 0, and is reduced to the device's limit; its size is not looked at
 * @channel: in place of attr->channel
 */
int beest_cq_alloc(const struct beest_device *device, const struct hartebeest_cq_attr *attr,
		   struct ibv_comp_channel *channel, struct ibv_cq **verbs);

int beest_cq_free(struct ibv_cq *verbs);

/* cqe of the struct ibv_cq is the depth granted. */
int beest_cq_create(const struct beest_device *device, const struct hartebeest_cq_attr *attr,
		    struct beest_cq **cq);

/*
 * Takes up to @count completions, waiting until @limit for the first one; needs the
 * channel, whose events it reads and acknowledges.  @interrupt is called at least once a
 * second, and ends the wait by returning anything but 0.
 *
 * Returns the number taken; -ETIMEDOUT or -EAGAIN: the queue is empty, and armed; -EIO;
 * -ECANCELED; or the result of @interrupt.
 */
int beest_cq_wait(struct beest_cq *cq, int count, struct ibv_wc *wc,
		  const struct beest_limit *limit, int (*interrupt)(void *data), void *data);

#endif
