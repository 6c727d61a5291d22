/* SPDX-License-Identifier: MIT */
/*
 * pathquery.h - a path to an IP address, asked for by the program
 *
 * Owns the question: where the path starts, given the settings of the context.  Knows
 * nothing of rdma_cm, which answers it, nor of paths to peers (path/pathcache).
 */
#ifndef BEEST_PATHQUERY_H
#define BEEST_PATHQUERY_H

#include "lib/core/context.h"
#include "lib/path/pathrec.h"

/* Promises what hartebeest_resolve() does in hartebeest.h. */
int beest_pathquery_ask(struct hartebeest_context *hb, const char *text,
			const struct beest_limit *limit, struct hartebeest_path *path);

#endif
