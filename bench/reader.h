/* SPDX-License-Identifier: MIT */
/*
 * reader.h - reads all chunks of a view, as a rank does, and forgets them
 *
 * For more ranks than one machine has memory for.  Owns which chunks are still to be read.  A test
 * compares its requests with those of ranks that keep what they read.
 */
#ifndef BENCH_READER_H
#define BENCH_READER_H

#include "lib/rendezvous/fence.h"

/* Zero at first, but for the call and the node. */
struct reader {
	const struct beest_fence_call *call;
	const char *node;		/* the folder of the nodes' files; NULL: none */
	struct beest_nodefiles files;
	uint64_t view;			/* its id; 0: none yet */
	bool *read;			/* by chunk */
	size_t left;
};

/* For struct beest_fence_call's take(): 0 when all are read, else -EAGAIN. */
int reader_take(struct reader *reader, const struct beest_view *view);

/* Removes its files. */
void reader_end(struct reader *reader);

#endif
