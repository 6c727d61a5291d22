/* SPDX-License-Identifier: MIT */
/*
 * file.h - reads an open file in as many calls as it takes, and a line of sysfs
 *
 * Owns the retries and nothing else: the caller has the limits and the sentences.
 */
#ifndef BEEST_FILE_H
#define BEEST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Up to @size bytes, fewer only at the end of the file; or the negative errno of read(2). */
ssize_t beest_file_read(int fd, void *buffer, size_t size);

/* The file's first line, without its newline, cut to fit; false: no file or an empty line. */
bool beest_file_line(const char *path, char *line, size_t size);

#endif
