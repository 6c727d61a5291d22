/* SPDX-License-Identifier: MIT */
/*
 * pairs.h - many queue pairs to their peers in one call
 *
 * Owns hartebeest_pairs_connect(): publishes all queue pairs, fetches all peers, connects
 * each queue pair as its peer appears, and waits until all are confirmed, in as few round
 * trips as one pair takes.  Also shows what is known of a peer in the public structs.
 */
#ifndef BEEST_PAIRS_H
#define BEEST_PAIRS_H

#include "include/hartebeest.h"
#include "lib/core/context.h"

/* Does what hartebeest.h promises of hartebeest_pairs_connect(). */
int beest_pairs_connect(struct hartebeest_context *hb, struct hartebeest_pair *pairs,
			size_t count, const struct beest_limit *limit);

void beest_pairs_show_peer(const struct beest_endpoint *remote, struct hartebeest_remote_qp *out);
void beest_pairs_show_address(const struct beest_ud_peer *peer, struct hartebeest_ud_address *out);

#endif
