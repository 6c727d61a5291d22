/* SPDX-License-Identifier: MIT */
/*
 * fold.h - what all ranks report, with equal ones together
 *
 * Owns the messages by which ranks report to rank 0, and the order of what it shows.  Knows nothing
 * of their contents.
 */
#ifndef TOOLS_FOLD_H
#define TOOLS_FOLD_H

#include <hartebeest.h>

#include "tools/out.h"

/*
 * The first rank waits for what the others @said, within the timeout, and shows it.  The others
 * return at once.  Returns a status.
 */
int fold_run(struct out *out, struct hartebeest_context *hb, const char *said);

#endif
