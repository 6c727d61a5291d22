/* SPDX-License-Identifier: MIT */
/*
 * cq.h - a completion queue with a name, and waiting for it
 *
 * Owns the struct ibv_cq, unless the program does, and a completion channel that serves
 * this queue alone.  Knows nothing of who completes on it.
 */
#ifndef BEEST_CQ_H
#define BEEST_CQ_H

#include "lib/base/limit.h"
#include "lib/base/table.h"
#include "lib/verbs/device.h"

struct beest_cq {
	struct beest_node node;			/* its handle is the struct ibv_cq */
	struct ibv_comp_channel *channel;	/* does not block; NULL: there is none */
	bool armed;				/* the next completion makes it readable */
};

extern const struct beest_kind beest_cq_kind;

/* One without a name, for ibv_destroy_cq(3). */
int beest_cq_alloc(const struct beest_device *device, int depth,
		   struct ibv_comp_channel *channel, struct ibv_cq **verbs);

/* @depth is cut to the device's limit; cq->cqe tells what was granted. */
int beest_cq_create(const struct beest_device *device, int64_t depth, bool has_channel,
		    struct beest_cq **cq);

/*
 * Takes up to @count completions and waits for the first until @limit; needs the channel.
 * Reads and acknowledges the channel's events.  @interrupt is asked at least once a second:
 * what it returns ends the wait unless it is 0.
 *
 * The number that was taken; -ETIMEDOUT, -EAGAIN: the queue is empty, and armed; -EIO.
 */
int beest_cq_wait(struct beest_cq *cq, int count, struct ibv_wc *wc,
		  const struct beest_limit *limit, int (*interrupt)(void *data), void *data);

#endif
