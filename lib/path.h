/* SPDX-License-Identifier: MIT */
/*
 * path.h - a path to an IP address, asked for by the program
 *
 * Owns the question: where the path starts, given what the context is set to.  Knows
 * nothing of who answers it (lib/resolve) nor of paths to peers (lib/router).
 */
#ifndef BEEST_PATH_H
#define BEEST_PATH_H

#include "lib/context.h"
#include "lib/route.h"

/* Promises what hartebeest_resolve() does in hartebeest.h. */
int beest_path_ask(struct hartebeest *hb, const char *text, struct beest_route *route);

#endif
