/* SPDX-License-Identifier: MIT */
/*
 * completion.h - a work completion in words
 *
 * Owns what each status usually means to a user.  Reads no more of the device than the GID
 * table entry of this end, where the loss of that address may be the cause.
 */
#ifndef BEEST_COMPLETION_H
#define BEEST_COMPLETION_H

#include "lib/verbs/qp.h"

/* @qp: the queue pair that the completion is of; NULL: unknown to this context. */
void beest_completion_text(const struct beest_qp *qp, const struct ibv_wc *wc, char *text,
			   size_t size);

/* True if @qp has a single peer, and that peer did not answer.  @qp may be NULL. */
bool beest_completion_is_unanswered(const struct beest_qp *qp, const struct ibv_wc *wc);

#endif
