/* SPDX-License-Identifier: MIT */
/*
 * file.h - bytes of an open file, however many calls that takes
 *
 * Owns the retries and nothing else: opening, limits and sentences are the caller's.
 */
#ifndef BEEST_FILE_H
#define BEEST_FILE_H

#include <stddef.h>
#include <sys/types.h>

/* Up to @size bytes, fewer only at the end of the file; or the negative errno of read(2). */
ssize_t beest_file_read(int fd, void *buffer, size_t size);

#endif
