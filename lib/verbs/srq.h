/* SPDX-License-Identifier: MIT */
/*
 * srq.h - a shared receive queue with a name
 *
 * Owns the struct ibv_srq, unless the program does.  Knows nothing of the queue pairs that
 * take their receives from it.
 */
#ifndef BEEST_SRQ_H
#define BEEST_SRQ_H

#include "include/hartebeest.h"
#include "lib/base/table.h"
#include "lib/verbs/device.h"

/* An object is a bare node, whose handle is the struct ibv_srq. */
extern const struct beest_kind beest_srq_kind;

/* @attr: both sizes are not 0, and are reduced to the device's limits. */
int beest_srq_create(const struct beest_device *device, struct ibv_pd *pd,
		     const struct hartebeest_srq_attr *attr, struct beest_node **srq);

#endif
