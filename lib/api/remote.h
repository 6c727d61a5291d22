/* SPDX-License-Identifier: MIT */
/*
 * remote.h - what the original hands out of remote objects: struct ibv_mr, struct ibv_qp
 *
 * Owns a plain struct for each fetched key, with a few fields set: they look like objects of
 * verbs but are not.  Knows nothing of how they were fetched.
 */
#ifndef BEEST_REMOTE_H
#define BEEST_REMOTE_H

#include <stdbool.h>

#include "include/hartebeest.h"

/* The struct of a key stays where it is, so that pointers handed out earlier see new values. */
bool beest_remote_keep_mr(const char *key, const struct hartebeest_remote_mr *mr);
bool beest_remote_keep_qp(const char *key, const struct hartebeest_remote_qp *qp);

void beest_remote_free(void);

#endif
