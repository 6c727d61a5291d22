/* SPDX-License-Identifier: MIT */
/*
 * pairs.h - many queue pairs to their peers in one call
 *
 * Owns hartebeest_pairs_connect(): publishes all queue pairs, fetches all peers, connects
 * each queue pair as its peer appears, and waits until all are confirmed, in as few round
 * trips as one pair takes.
 */
#ifndef BEEST_PAIRS_H
#define BEEST_PAIRS_H

#include "include/hartebeest.h"
#include "lib/core/context.h"

/* Does what hartebeest.h promises of hartebeest_pairs_connect(). */
int beest_pairs_connect(struct hartebeest_context *hb, struct hartebeest_pair *pairs,
			size_t count, const struct beest_limit *limit);

#endif
