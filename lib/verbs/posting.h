/* SPDX-License-Identifier: MIT */
/*
 * posting.h - a post that was refused or did not complete, in words
 *
 * Owns the usual causes: the state, a full queue, a request that the queue pair cannot
 * carry, one that makes no completion.  Queries the queue pair, and changes nothing.
 */
#ifndef BEEST_POSTING_H
#define BEEST_POSTING_H

#include "lib/verbs/qp.h"

/*
 * @named: the object of @qp, NULL: unknown to this context.  @wr: what was posted, NULL:
 * unknown, or a receive.  @err: what the post returned, a positive errno; ETIMEDOUT: nothing has
 * completed.  Returns the length, as snprintf(3) does.
 */
int beest_posting_text(const struct beest_qp *named, struct ibv_qp *qp,
		       const struct ibv_send_wr *wr, int err, char *text, size_t size);

#endif
