/* SPDX-License-Identifier: MIT */
/*
 * file.h - small files of /proc and /sys
 *
 * Owns reading their one line.  Knows nothing of what it means.
 */
#ifndef TOOLS_FILE_H
#define TOOLS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/macro.h"

/* The first line, without newline.  False: there is none, and *line is "". */
bool file_line(char *line, size_t size, const char *path, ...) BEEST_PRINTF(3, 4);

#endif
