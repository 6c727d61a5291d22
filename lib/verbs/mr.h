/* SPDX-License-Identifier: MIT */
/*
 * mr.h - a memory region with a name
 *
 * Owns the struct ibv_mr, unless the program does, and the buffer if the library allocated
 * it.  Knows nothing of how a region is published.
 */
#ifndef BEEST_MR_H
#define BEEST_MR_H

#include <stdbool.h>

#include "lib/base/log.h"
#include "lib/base/table.h"

#include <infiniband/verbs.h>

struct beest_mr {
	struct beest_node node;
	struct ibv_mr *mr;
	int access;		/* enum ibv_access_flags, which struct ibv_mr does not keep */
	void *buffer;		/* mmap(2)ed by the library, else NULL */
	size_t mapped;		/* bytes of buffer, whole pages */
};

extern const struct beest_kind beest_mr_kind;

/* For mmap(2) of huge pages of 2 MB.  Tests change it, since few machines have some. */
extern int beest_mr_huge_flags;

/*
 * @address: memory that stays the caller's.  NULL: the library maps a zeroed buffer of whole
 * pages, so that no neighbour in the heap is shown to a peer or lost to a forked child.  On huge
 * pages, the region covers whole ones where libibverbs keeps memory from children
 * (RDMAV_FORK_SAFE), so it may be longer than @length.
 */
int beest_mr_create(struct ibv_pd *pd, void *address, size_t length, int access, bool huge_pages,
		    const struct beest_log *log, struct beest_mr **mr);

int beest_mr_register_dmabuf(struct ibv_pd *pd, int fd, uint64_t offset, size_t length,
			     uint64_t iova, int access, struct beest_mr **mr);

/* A region of the program, which also deregisters it. */
int beest_mr_adopt(struct ibv_mr *verbs, int access, struct beest_mr **mr);

#endif
