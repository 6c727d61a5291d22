/* SPDX-License-Identifier: MIT */
/*
 * ece.h - enhanced connection establishment: what adapters of one vendor can do for each other
 *
 * Owns reading and setting the options of a queue pair, by functions of libibverbs that not every
 * one has (ibv_query_ece(3), ibv_set_ece(3)), and which options two ends have in common.  What
 * they mean, only the vendor knows.  Knows nothing of transitions.
 */
#ifndef BEEST_ECE_H
#define BEEST_ECE_H

#include <infiniband/verbs.h>

#include "lib/base/endpoint.h"

/* What @qp has; zeros: its device or libibverbs knows of no options. */
struct beest_ece beest_ece_of(struct ibv_qp *qp);

/* The options of both; none if the vendors differ.  Both ends find the same. */
struct beest_ece beest_ece_common(const struct beest_ece *a, const struct beest_ece *b);

/*
 * To be called in INIT: RTR uses these.  -EOPNOTSUPP, -ECONNREFUSED and other errno of
 * ibv_set_ece(3).
 */
int beest_ece_set(struct ibv_qp *qp, const struct beest_ece *ece);

#endif
