/* SPDX-License-Identifier: MIT */
/*
 * memory.h - the memory that libmemcached works with
 *
 * Owns two limits: nothing larger than a value may be asked for, whatever length a server
 * claims, and where the process is out of memory a few small blocks are left, since
 * libmemcached aborts where it finds no memory to note a failure.  Knows nothing of
 * libmemcached.
 */
#ifndef BEEST_KV_MEMORY_H
#define BEEST_KV_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/kv/kv.h"

/* libmemcached grows a value by whole KiB, and reads the line end into it. */
#define BEEST_MEMORY_MAX (BEEST_VALUE_MAX + 64 * 1024)

/* What is larger never is of the reserve, and whoever takes it over may call free(3). */
#define BEEST_MEMORY_BLOCK 4096

/* Of one connection, zero at first. */
struct beest_memory {
	bool claimed;		/* more than a value was asked for, and refused */
	void *kept;		/* is never freed by the functions below */
};

/* As malloc(3), realloc(3) and free(3), which may free what came from those. */
void *beest_memory_new(struct beest_memory *memory, size_t size);
void *beest_memory_resize(struct beest_memory *memory, void *block, size_t size);
void beest_memory_free(struct beest_memory *memory, void *block);

#endif
