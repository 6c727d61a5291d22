/* SPDX-License-Identifier: MIT */
/*
 * srq.h - a shared receive queue with a name
 *
 * Owns the struct ibv_srq, unless the program does.  Knows nothing of the queue pairs that
 * take their receives from it.
 */
#ifndef BEEST_SRQ_H
#define BEEST_SRQ_H

#include "lib/base/table.h"
#include "lib/verbs/device.h"

/* An object is a bare node, whose handle is the struct ibv_srq. */
extern const struct beest_kind beest_srq_kind;

/* Both sizes are capped at the device's limits. */
int beest_srq_create(const struct beest_device *device, struct ibv_pd *pd, uint32_t max_wr,
		     uint32_t max_sge, struct beest_node **srq);

#endif
