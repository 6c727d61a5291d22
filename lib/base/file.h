/* SPDX-License-Identifier: MIT */
/*
 * file.h - bytes of an open file, however many calls that takes, and a line of sysfs
 *
 * Owns the retries and nothing else: limits and sentences are the caller's.
 */
#ifndef BEEST_FILE_H
#define BEEST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Up to @size bytes, fewer only at the end of the file; or the negative errno of read(2). */
ssize_t beest_file_read(int fd, void *buffer, size_t size);

/* The first line of the file at @path, without its end, cut to fit.  False: nothing to be had. */
bool beest_file_line(const char *path, char *line, size_t size);

#endif
