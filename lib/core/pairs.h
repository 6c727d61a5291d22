/* SPDX-License-Identifier: MIT */
/*
 * pairs.h - many queue pairs to their peers in one call
 *
 * Owns hartebeest_pairs_connect(): all are published, all peers fetched, each connected as
 * its peer appears, and all confirmed, in as few trips as one pair takes.  Also shows what
 * is known of a peer in the public structs.
 */
#ifndef BEEST_PAIRS_H
#define BEEST_PAIRS_H

#include "include/hartebeest.h"
#include "lib/core/context.h"

/* Promises what hartebeest_pairs_connect() does in hartebeest.h. */
int beest_pairs_connect(struct hartebeest_context *hb, struct hartebeest_pair *pairs,
			size_t count, const struct beest_limit *limit);

void beest_pairs_show_peer(const struct beest_endpoint *remote, struct hartebeest_remote_qp *out);
void beest_pairs_show_address(const struct beest_ud_peer *peer, struct hartebeest_address *out);

#endif
