/* SPDX-License-Identifier: MIT */
/*
 * file.h - reads an open file in as many calls as it takes, a line of sysfs, and fills the
 * descriptors of closed streams
 *
 * Owns the retries and nothing else: the caller has the limits and the sentences.
 */
#ifndef BEEST_FILE_H
#define BEEST_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "lib/base/macro.h"

/* Up to @size bytes, fewer only at the end of the file; or the negative errno of read(2). */
ssize_t beest_file_read(int fd, void *buffer, size_t size);

/* The file's first line, without its newline, cut to fit; false: no file or an empty line. */
bool BEEST_PRINTF(3, 4) beest_file_line(char *line, size_t size, const char *path, ...);

/*
 * Opens /dev/null as each of the descriptors 0 to 2 that the program has closed.  Otherwise
 * whatever is opened next would have the lowest free number: printf(3) would write to a Memcached
 * server, and so would the log.  They stay open, also in programs that this one executes.  Returns
 * the negative errno of open(2).
 */
int beest_file_fill_streams(void);

#endif
