/* SPDX-License-Identifier: MIT */
/*
 * chunks.h - reads the chunks of a proposed view
 *
 * Decides which of them this rank fetches from the server, and which another process of its host
 * does.  Knows nothing of what the view is for.
 */
#ifndef BEEST_CHUNKS_H
#define BEEST_CHUNKS_H

#include "lib/rendezvous/fence.h"

/* So many are fetched in one look at most. */
#define BEEST_CHUNKS_MOST 64

/* Prepares the gets from the one with the number @first on. */
void beest_chunks_start(struct beest_fence_look *look, size_t first);

/*
 * Reads the chunks of fence->next that this host has, and asks for others with the next look.
 * Waits for a moment if other processes fetch them.
 */
void beest_chunks_want(struct beest_fence_look *look, size_t first);

#endif
