/* SPDX-License-Identifier: MIT */
/*
 * posting.h - a post that was refused, in words
 *
 * Owns what usually is behind it: the state, a full queue, a request that the queue pair
 * cannot carry.  Asks the device, and changes nothing.
 */
#ifndef BEEST_POSTING_H
#define BEEST_POSTING_H

#include "lib/verbs/qp.h"

/*
 * @named: @qp with its name, NULL when not known here.  @wr: what was posted, NULL: not known,
 * or a receive.  @err: what the post returned, positive.
 */
void beest_posting_text(const struct beest_qp *named, struct ibv_qp *qp,
			const struct ibv_send_wr *wr, int err, char *text, size_t size);

#endif
