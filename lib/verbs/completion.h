/* SPDX-License-Identifier: MIT */
/*
 * completion.h - a work completion in words
 *
 * Owns what each status usually means to a user.  Pure but for ibv_wc_status_str(3).
 */
#ifndef BEEST_COMPLETION_H
#define BEEST_COMPLETION_H

#include "lib/verbs/qp.h"

/* @qp: whose completion it is, NULL when not known here. */
void beest_completion_text(const struct beest_qp *qp, const struct ibv_wc *wc, char *text,
			   size_t size);

/* Did the one peer of @qp, which may be NULL, not answer? */
bool beest_completion_is_unanswered(const struct beest_qp *qp, const struct ibv_wc *wc);

#endif
