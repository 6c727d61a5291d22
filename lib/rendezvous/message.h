/* SPDX-License-Identifier: MIT */
/*
 * message.h - keyed messages, and a barrier made of records
 *
 * Owns the meaning of message and barrier records.  Knows nothing of verbs: works
 * on a machine without an adapter.
 */
#ifndef BEEST_MESSAGE_H
#define BEEST_MESSAGE_H

#include "lib/rendezvous/board.h"
#include "lib/base/parse.h"
#include "lib/base/table.h"

/* The longest message. */
#define BEEST_MESSAGE_MAX (BEEST_VALUE_MAX - 1024)

int beest_message_push(struct beest_board *board, const char *key, const void *data,
		       size_t size);

/* *length is set on success and for -EMSGSIZE; size 0 asks for no data. */
int beest_message_wait(struct beest_board *board, const char *key, void *buffer,
		       size_t size, size_t *length);
int beest_message_delete(struct beest_board *board, const char *key);

/* How often a barrier of this name was passed: each pass has keys of its own. */
struct beest_barrier {
	struct beest_node node;
	uint64_t generation;
};

extern const struct beest_kind beest_barrier_kind;

int beest_barrier_create(struct beest_barrier **barrier);

/* Waits until all @ranks, of whom @rank is one, are in this generation. */
int beest_barrier_wait(struct beest_board *board, struct beest_barrier *barrier,
		       const struct beest_ids *ranks, int rank);

#endif
