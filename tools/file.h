/* SPDX-License-Identifier: MIT */
/*
 * file.h - files and folders of the kernel: /proc, /sys, /dev
 *
 * Owns their place: tests put files of their own below another root.  Knows nothing of what
 * the files mean.
 */
#ifndef TOOLS_FILE_H
#define TOOLS_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "lib/base/macro.h"

/* Precedes all paths; "" except in tests. */
extern const char *file_root;

/* Reads the first line, without newline.  False: there is none, and @line is "". */
bool file_line(char *line, size_t size, const char *path, ...) BEEST_PRINTF(3, 4);

/* As fopen(3) for reading, opendir(3) and access(2), with their errno. */
FILE *file_open(const char *path);
DIR *file_folder(const char *path);
bool file_may(const char *path, int mode);

/* Can it be opened for reading and writing, permissions aside?  The errno of open(2). */
bool file_opens(const char *path);

#endif
