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

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * A place is where a process id means one process: a boot of a host and a name space of
 * process ids in it.  The second half differs between the processes of a place.
 */
#define BEEST_PLACE_SIZE 4
#define BEEST_PROCESS_SIZE 8

/* Of one context: drawn at its opening, and never the same twice. */
#define BEEST_INCARNATION_SIZE 16

struct beest_incarnation {
	uint8_t bytes[BEEST_INCARNATION_SIZE];
};

static inline bool beest_process_is_context(const struct beest_incarnation *a,
					    const struct beest_incarnation *b)
{
	return memcmp(a->bytes, b->bytes, BEEST_INCARNATION_SIZE) == 0;
}

/* It begins with the mark of the process, which may have several contexts. */
static inline bool beest_process_is_same(const struct beest_incarnation *a,
					 const struct beest_incarnation *b)
{
	return memcmp(a->bytes, b->bytes, BEEST_PROCESS_SIZE) == 0;
}

/* Where a process id of the one means something to the other. */
static inline bool beest_process_is_same_place(const struct beest_incarnation *a,
					       const struct beest_incarnation *b)
{
	return memcmp(a->bytes, b->bytes, BEEST_PLACE_SIZE) == 0;
}

/* Errors of beest_random(). */
int beest_process_mark(uint8_t mark[BEEST_PROCESS_SIZE]);

#endif
