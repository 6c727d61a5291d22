/* SPDX-License-Identifier: MIT */
/*
 * shelf.h - copies of records, found by key
 *
 * Owns the bytes and where they stand.  Knows nothing of servers, and nothing of locks:
 * lib/published has one.  An index holds until the next addition or removal.
 */
#ifndef BEEST_SHELF_H
#define BEEST_SHELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/rendezvous/record.h"

struct beest_own {
	char key[BEEST_KEY_MAX + 1];
	uint32_t hash;
	size_t next;		/* of the same chain */
	enum beest_record_kind kind;
	int flags;
	uint64_t owner;		/* 0: nobody in particular */
	uint8_t *bytes;
	size_t size;
	uint64_t version;	/* never the same twice */
	int64_t put;		/* when a server took this version, 0: not yet */
};

/* All zero: empty. */
struct beest_shelf {
	struct beest_own *list;
	size_t count, room;	/* room is a power of two */
	size_t *chains;		/* as many: where each begins */
};

void beest_shelf_clear(struct beest_shelf *shelf);

/* NULL: not there. */
struct beest_own *beest_shelf_find(const struct beest_shelf *shelf, const char *key);

/* A new one, with nothing but its key; NULL: no memory, and nothing has changed. */
struct beest_own *beest_shelf_add(struct beest_shelf *shelf, const char *key);

/* The last one takes its place.  Its bytes are the caller's, for free(3). */
uint8_t *beest_shelf_take(struct beest_shelf *shelf, struct beest_own *own);

#endif
