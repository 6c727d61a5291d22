/* SPDX-License-Identifier: MIT */
/*
 * memory.h - the memory that libmemcached works with
 *
 * Owns a limit and a reserve.  No block is larger than a value needs, whatever length a
 * server claims.  A few small blocks are set aside for when the process is out of memory,
 * since libmemcached aborts if it has no memory to note a failure.
 */
#ifndef BEEST_KV_MEMORY_H
#define BEEST_KV_MEMORY_H

#include "lib/kv/request.h"

/* libmemcached grows a value by whole KiB, and reads the line end into it, too. */
#define BEEST_MEMORY_MAX (BEEST_VALUE_MAX + 64 * 1024)

/* Larger blocks are never from the reserve: a caller that takes one over may free(3) it. */
#define BEEST_MEMORY_BLOCK 4096

/* One for each connection, zero at first. */
struct beest_memory {
	bool claimed;		/* a block larger than any value was asked for, and refused */
	void *kept;		/* libmemcached cannot free this block */
};

struct memcached_st;

/* From now on, @handle takes its blocks from malloc(3) within these limits.  False: refused. */
bool beest_memory_set(struct memcached_st *handle, struct beest_memory *memory);

#endif
