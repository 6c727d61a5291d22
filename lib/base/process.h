/* SPDX-License-Identifier: MIT */
/*
 * process.h - identifies this process, and finds out when one began and whether it is alive
 *
 * Owns the mark of a process, with which the incarnations of all its contexts begin.  Host name
 * and process id do not suffice: in a container, the next process often has the same.  Compares no
 * times of day, since any clock may be set.  Knows nothing of records.
 */
#ifndef BEEST_PROCESS_H
#define BEEST_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

/*
 * The first half of the mark is the place, in which process ids and starts mean the same to all: a
 * boot of a host, a PID namespace in it, and a time namespace.  It stays the same as long as a
 * process lives, whatever the host is called.  The second half distinguishes the processes of a
 * place.
 */
#define BEEST_PLACE_SIZE 4
#define BEEST_PROCESS_SIZE 8

/* Identifies one context: drawn once, when its registry opens, and never the same twice. */
#define BEEST_INCARNATION_SIZE 16

struct beest_incarnation {
	uint8_t bytes[BEEST_INCARNATION_SIZE];
};

static inline bool beest_process_is_context(const struct beest_incarnation *a,
					    const struct beest_incarnation *b)
{
	return memcmp(a->bytes, b->bytes, BEEST_INCARNATION_SIZE) == 0;
}

/* True for contexts of one process: both begin with its mark. */
static inline bool beest_process_is_same(const struct beest_incarnation *a,
					 const struct beest_incarnation *b)
{
	return memcmp(a->bytes, b->bytes, BEEST_PROCESS_SIZE) == 0;
}

/* True when process ids and starts mean the same to both. */
static inline bool beest_process_is_same_place(const struct beest_incarnation *a,
					       const struct beest_incarnation *b)
{
	return memcmp(a->bytes, b->bytes, BEEST_PLACE_SIZE) == 0;
}

/* Is it the mark of a process of this place? */
bool beest_process_is_here(const struct beest_incarnation *incarnation);

/* Errors of beest_random(). */
int beest_process_mark(uint8_t mark[BEEST_PROCESS_SIZE]);

/* Draws another one each time. */
int beest_process_incarnation(struct beest_incarnation *incarnation);

/* Has a process of this place ended?  Also if its parent has not noticed yet. */
bool beest_process_has_ended(pid_t pid);

/* The time in ns by a clock that all processes of a place share, and that cannot be set. */
int64_t beest_process_clock(void);

/*
 * When the process with this id began, in clock ticks since its host did, as the kernel noted it.
 * It distinguishes the processes that had this id.  0: it has ended, or /proc does not show it.
 */
uint64_t beest_process_ticks(pid_t pid);

/* The same by beest_process_clock(): up to BEEST_PROCESS_TICK too early; -1 for 0. */
#define BEEST_PROCESS_TICK INT64_C(10000000)
int64_t beest_process_began(pid_t pid);

enum beest_process_life {
	BEEST_PROCESS_UNKNOWN,		/* of another place, or /proc does not show enough */
	BEEST_PROCESS_ALIVE,
	BEEST_PROCESS_DEAD,
};

/*
 * What this process, with the mark of @own, knows of the process of @incarnation, which had the id
 * @pid and began at @ticks; 0: unknown.
 */
enum beest_process_life beest_process_life(const struct beest_incarnation *incarnation, pid_t pid,
					   uint64_t ticks, const struct beest_incarnation *own);

#endif
