/* SPDX-License-Identifier: MIT */
/*
 * remote.h - remote objects as the original returns them: struct ibv_mr, struct ibv_qp
 *
 * Owns one such struct for each fetched key.  It looks like an object of verbs but is not: only a
 * few fields are set.  Knows nothing of how it was fetched.
 */
#ifndef BEEST_REMOTE_H
#define BEEST_REMOTE_H

#include <stdbool.h>

#include "include/hartebeest.h"

/* Updates the struct of a key in place, so that pointers returned earlier see the new values. */
bool beest_remote_keep_mr(const char *key, const struct hartebeest_remote_mr *mr);
bool beest_remote_keep_qp(const char *key, const struct hartebeest_remote_qp *qp);

#endif
