/* SPDX-License-Identifier: MIT */
/*
 * pathquery.h - a path to an IP address, asked for by the program
 *
 * Owns the question: where the path starts, given what the context is set to.  Knows
 * nothing of who answers it (lib/resolve) nor of paths to peers (lib/router).
 */
#ifndef BEEST_PATHQUERY_H
#define BEEST_PATHQUERY_H

#include "lib/core/context.h"
#include "lib/path/pathrec.h"

/* Promises what hartebeest_resolve() does in hartebeest.h. */
int beest_pathquery_ask(struct hartebeest *hb, const char *text, struct beest_pathrec *route);

#endif
