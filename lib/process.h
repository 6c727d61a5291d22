/* SPDX-License-Identifier: MIT */
/*
 * process.h - which process this is
 *
 * Owns the mark that all contexts of a process share.  Host name and process id are not
 * enough: within a container both often are those of the process before.  Knows nothing
 * of records.
 */
#ifndef BEEST_PROCESS_H
#define BEEST_PROCESS_H

#include <stdint.h>

/*
 * A place is where a process id means one process: a boot of a host and a name space of
 * process ids in it.  The second half differs between the processes of a place.
 */
#define BEEST_PLACE_SIZE 4
#define BEEST_PROCESS_SIZE 8

/* Errors of beest_random(). */
int beest_process_mark(uint8_t mark[BEEST_PROCESS_SIZE]);

#endif
