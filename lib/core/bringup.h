/* SPDX-License-Identifier: MIT */
/*
 * bringup.h - the steps of a queue pair, and the peers that were fetched
 *
 * Owns what each step requires, and takes a missing earlier step itself where it can: INIT
 * before a record, a record before a confirmation.  Remembers in the context which peers were
 * fetched.  Knows nothing of records (core/handshake) and attributes (verbs/qp).
 */
#ifndef BEEST_BRINGUP_H
#define BEEST_BRINGUP_H

#include "lib/core/context.h"
#include "lib/core/handshake.h"
#include "lib/verbs/qp.h"

/*
 * -EINVAL: @own and @key, of the two ends, are the same.  A queue pair that finds its own record
 * under its peer's key would be connected to itself, which programs of the original may want.
 */
int beest_bringup_check(const struct hartebeest_context *hb, const struct beest_qp *qp,
			const char *own, const char *key);

/*
 * Each does what hartebeest.h promises of hartebeest_qp_<the same>().  @limit of the first may be
 * NULL: that of a call without deadline.  @remote may be NULL.
 */
int beest_bringup_init(struct hartebeest_context *hb, struct beest_qp *qp,
		       const struct beest_limit *limit);
/* As beest_qp_serve(). */
int beest_bringup_serve(struct hartebeest_context *hb, struct beest_qp *qp,
			const struct beest_limit *limit);
int beest_bringup_publish(struct hartebeest_context *hb, struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit);
int beest_bringup_fetch(struct hartebeest_context *hb, const char *key,
			struct hartebeest_remote_qp *remote, const struct beest_limit *limit);
int beest_bringup_connect(struct hartebeest_context *hb, struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit);
int beest_bringup_confirm(struct hartebeest_context *hb, struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit);
int beest_bringup_reconnect(struct hartebeest_context *hb, struct beest_qp *qp,
			    const char *key, const struct beest_limit *limit);

/* 1: the peer was replaced, and @qp is connected to its successor now. */
int beest_bringup_follow(struct hartebeest_context *hb, struct beest_qp *qp, const char *key,
			 struct hartebeest_remote_qp *remote, const struct beest_limit *limit);

/* The peer under @key, as it was last fetched or connected to. */
int beest_bringup_peer(struct hartebeest_context *hb, const char *key,
		       struct beest_endpoint *remote);

/*
 * Remembers the peer as it was seen last, and the regions that the pair has received from it.
 * Shows the peer in the struct of the pair.
 */
int beest_bringup_remember(const struct beest_handshake *one);

/* Returns how many regions that peer offered, and copies @count of them at most. */
int beest_bringup_regions(struct hartebeest_context *hb, const char *key,
			  struct hartebeest_remote_mr *regions, size_t count);

/* The newest queue pair that is connected to the peer under @key.  -ENOTCONN: there is none. */
int beest_bringup_qp_of(struct hartebeest_context *hb, const char *key, struct beest_qp **found);

#endif
