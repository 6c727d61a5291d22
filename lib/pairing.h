/* SPDX-License-Identifier: MIT */
/*
 * pairing.h - a queue pair of a context, and the peer under a key
 *
 * Owns what must have happened before each step and what is made up for on the way: INIT
 * before a record, a record before a confirmation.  Remembers in the context which peers
 * were fetched.  Knows nothing of records (lib/peer) and attributes (lib/qp).
 */
#ifndef BEEST_PAIRING_H
#define BEEST_PAIRING_H

#include "lib/context.h"
#include "lib/qp.h"

/* Each promises what hartebeest_qp_<the same>() does in hartebeest.h. */
int beest_pairing_init(struct hartebeest *hb, struct beest_qp *qp);
int beest_pairing_publish(struct hartebeest *hb, struct beest_qp *qp, const char *key);
int beest_pairing_fetch(struct hartebeest *hb, const char *key, struct beest_peer *peer);
int beest_pairing_connect(struct hartebeest *hb, struct beest_qp *qp, const char *key);
int beest_pairing_confirm(struct hartebeest *hb, struct beest_qp *qp, const char *key);
int beest_pairing_reset(struct hartebeest *hb, struct beest_qp *qp);
int beest_pairing_reconnect(struct hartebeest *hb, struct beest_qp *qp, const char *key);

/* 1: @qp is connected to another peer now, which stands in qp->peer. */
int beest_pairing_follow(struct hartebeest *hb, struct beest_qp *qp, const char *key);

#endif
