/* SPDX-License-Identifier: MIT */
/*
 * objects.h - what queue pairs are made of: protection domains, completion and receive queues
 *
 * Owns each struct ibv_pd, ibv_cq and ibv_srq, unless the program does, and a completion channel
 * that serves one queue alone.  Knows nothing of what is made with them: the table's order of
 * creation and the kernel's EBUSY take care of that.
 */
#ifndef BEEST_OBJECTS_H
#define BEEST_OBJECTS_H

#include "include/hartebeest.h"
#include "lib/base/limit.h"
#include "lib/base/table.h"
#include "lib/verbs/device.h"

/* An object of the first two kinds is a bare node, whose handle is that of libibverbs. */
extern const struct beest_kind beest_pd_kind, beest_srq_kind, beest_cq_kind;

/* These three make objects without a name, with the errno of ibv_alloc_pd(3) and the like. */
int beest_pd_alloc(const struct beest_device *device, struct ibv_pd **verbs);
int beest_pd_free(struct ibv_pd *verbs);

/* @attr: both sizes are not 0, and are reduced to the device's limits. */
int beest_srq_alloc(const struct beest_device *device, struct ibv_pd *pd,
		    const struct hartebeest_srq_attr *attr, struct ibv_srq **verbs);

/*
 * @attr: its depth is not 0, and is reduced to the device's limit; its size is not looked at
 * @channel: in place of attr->channel
 */
int beest_cq_alloc(const struct beest_device *device, const struct hartebeest_cq_attr *attr,
		   struct ibv_comp_channel *channel, struct ibv_cq **verbs);
int beest_cq_free(struct ibv_cq *verbs);

struct beest_cq {
	struct beest_node node;			/* its handle is the struct ibv_cq */
	struct ibv_comp_channel *channel;	/* non-blocking; NULL: none */
	bool armed;				/* the next completion makes an event */
	int64_t requests;			/* whose completions it may get; under the
						   lock of its context's objects */
};

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
