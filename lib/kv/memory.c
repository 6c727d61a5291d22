/* SPDX-License-Identifier: MIT */
/* memory.c - see memory.h */
#include "config.h"

#include <libmemcached/memcached.h>
#include <stdlib.h>
#include <string.h>

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

static void *memory_malloc(const memcached_st *handle, const size_t size, void *of)
{
	struct beest_memory *memory = of;
	void *block;

	(void)handle;
	if (size > BEEST_MEMORY_MAX) {
		memory->claimed = true;
		return NULL;
	}
	block = malloc(size);

	return block ? block : reserve_take(size);
}

static void *memory_calloc(const memcached_st *handle, size_t count, const size_t size, void *of)
{
	void *block = NULL;

	if (!size || count <= SIZE_MAX / size)
		block = memory_malloc(handle, count * size, of);

	return block ? memset(block, 0, count * size) : NULL;
}

/* A reserve block never moves: each has room for the largest size that the reserve serves. */
static void *memory_realloc(const memcached_st *handle, void *block, const size_t size, void *of)
{
	struct beest_memory *memory = of;

	if (!block)
		return memory_malloc(handle, size, of);
	if (size > BEEST_MEMORY_MAX) {
		memory->claimed = true;
		return NULL;
	}
	if (!reserve_has(block))
		return realloc(block, size);

	return size <= BEEST_MEMORY_BLOCK ? block : NULL;
}

static void memory_free(const memcached_st *handle, void *block, void *of)
{
	size_t i = ((uintptr_t)block - (uintptr_t)blocks) / sizeof(blocks[0]);
	const struct beest_memory *memory = of;

	(void)handle;
	if (reserve_has(block))
		__atomic_store_n(&taken[i], false, __ATOMIC_RELEASE);
	else if (block != memory->kept)
		free(block);
}

bool beest_memory_set(memcached_st *handle, struct beest_memory *memory)
{
	return memcached_success(memcached_set_memory_allocators(handle, memory_malloc,
				 memory_free, memory_realloc, memory_calloc, memory));
}
