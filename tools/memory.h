/* SPDX-License-Identifier: MIT */
/*
 * memory.h - how much this process may lock, and whether it may fork
 *
 * Owns both judgements and their cures.  Knows nothing of devices.
 */
#ifndef TOOLS_MEMORY_H
#define TOOLS_MEMORY_H

#include "tools/out.h"

/* Two lines of the present part. */
void memory_lines(struct out *out);

#endif
