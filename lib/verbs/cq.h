/* SPDX-License-Identifier: MIT */
/*
 * cq.h - a completion queue with a name
 *
 * Owns the struct ibv_cq.  Knows nothing of who completes on it.
 */
#ifndef BEEST_CQ_H
#define BEEST_CQ_H

#include "lib/verbs/device.h"
#include "lib/base/table.h"

struct beest_cq {
	struct beest_node node;
	struct ibv_cq *cq;
};

extern const struct beest_kind beest_cq_kind;

/* @depth is cut to the device's limit; cq->cqe tells what was granted. */
int beest_cq_create(const struct beest_device *device, int64_t depth, struct beest_cq **cq);

#endif
