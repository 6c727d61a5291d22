/* SPDX-License-Identifier: MIT */
/*
 * bringup.h - a queue pair of a context, and the peer under a key
 *
 * Owns what must have happened before each step and what is made up for on the way: INIT
 * before a record, a record before a confirmation.  Remembers in the context which peers
 * were fetched.  Knows nothing of records (core/handshake) and attributes (verbs/qp).
 */
#ifndef BEEST_BRINGUP_H
#define BEEST_BRINGUP_H

#include "lib/core/context.h"
#include "lib/core/handshake.h"
#include "lib/verbs/qp.h"

/* Each promises what hartebeest_qp_<the same>() does in hartebeest.h. */
int beest_bringup_init(struct hartebeest_context *hb, struct beest_qp *qp);
int beest_bringup_publish(struct hartebeest_context *hb, struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit);
int beest_bringup_fetch(struct hartebeest_context *hb, const char *key,
			const struct beest_limit *limit, struct beest_endpoint *remote);
int beest_bringup_connect(struct hartebeest_context *hb, struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit);
int beest_bringup_confirm(struct hartebeest_context *hb, struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit);
int beest_bringup_reconnect(struct hartebeest_context *hb, struct beest_qp *qp,
			    const char *key, const struct beest_limit *limit);

/* 1: @qp is connected to another peer now. */
int beest_bringup_follow(struct hartebeest_context *hb, struct beest_qp *qp,
			 const char *key, const struct beest_limit *limit);

/* What is known of the peer under @key: fetched, or connected to. */
int beest_bringup_peer(struct hartebeest_context *hb, const char *key,
		       struct beest_endpoint *remote);
int beest_bringup_remember(struct hartebeest_context *hb, const char *key,
			   const struct beest_endpoint *remote);

#endif
