/* SPDX-License-Identifier: MIT */
/* memory.c - see memory.h */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>

#include "lib/kv/memory.h"

/*
 * libmemcached's note of a failure takes a little more than 2 KiB.  It is freed with the failed
 * connection, so these blocks suffice for several threads that fail at once.
 */
#define BLOCKS 16

static struct {
	char bytes[BEEST_MEMORY_BLOCK];
} __attribute__((aligned(16))) blocks[BLOCKS];
static bool taken[BLOCKS];

static void *reserve_take(size_t size)
{
	size_t i;

	for (i = 0; i < BLOCKS && size <= BEEST_MEMORY_BLOCK; i++)
		if (!__atomic_exchange_n(&taken[i], true, __ATOMIC_ACQUIRE))
			return &blocks[i];

	return NULL;
}

static bool reserve_has(const void *block)
{
	return (uintptr_t)block - (uintptr_t)blocks < sizeof(blocks);
}

void *beest_memory_new(struct beest_memory *memory, size_t size)
{
	void *block = NULL;

	if (size > BEEST_MEMORY_MAX)
		memory->claimed = true;
	else
		block = malloc(size);
	if (!block && size <= BEEST_MEMORY_MAX)
		block = reserve_take(size);

	return block;
}

/* A reserve block never moves: each has room for the largest size that the reserve serves. */
void *beest_memory_resize(struct beest_memory *memory, void *block, size_t size)
{
	if (!block)
		return beest_memory_new(memory, size);
	if (size > BEEST_MEMORY_MAX) {
		memory->claimed = true;
		return NULL;
	}
	if (!reserve_has(block))
		return realloc(block, size);

	return size <= BEEST_MEMORY_BLOCK ? block : NULL;
}

void beest_memory_free(struct beest_memory *memory, void *block)
{
	size_t i = ((uintptr_t)block - (uintptr_t)blocks) / sizeof(blocks[0]);

	if (reserve_has(block))
		__atomic_store_n(&taken[i], false, __ATOMIC_RELEASE);
	else if (block != memory->kept)
		free(block);
}
