/* SPDX-License-Identifier: MIT */
/*
 * pathquery.h - the path to an IP address, for a program that asks
 *
 * Owns the question: where the path starts, given the settings of the context.  Knows
 * nothing of rdma_cm, which answers it, nor of paths to peers (path/pathcache).
 */
#ifndef BEEST_PATHQUERY_H
#define BEEST_PATHQUERY_H

#include "lib/core/context.h"
#include "lib/path/pathrec.h"

/* Does what hartebeest.h promises of hartebeest_resolve(). */
int beest_pathquery_ask(struct hartebeest_context *hb, const char *text,
			const struct beest_limit *limit, struct hartebeest_path *path);

#endif
