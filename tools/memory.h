/* SPDX-License-Identifier: MIT */
/*
 * memory.h - how much memory this process may lock, and whether it may fork
 *
 * Owns both judgements and their cures.  Knows nothing of devices.
 */
#ifndef TOOLS_MEMORY_H
#define TOOLS_MEMORY_H

#include "tools/out.h"

/* Two lines of the current part. */
void memory_lines(struct out *out);

#endif
