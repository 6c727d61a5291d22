/* SPDX-License-Identifier: MIT */
/*
 * changes.h - a roll as what has changed since a former one
 *
 * Who was called before has most of the next roll: the gate tells it the rest, so that it
 * need not read the roll.  That is a short cut, and only for few changes: a rank to which it
 * says nothing reads the roll.
 */
#ifndef BEEST_CHANGES_H
#define BEEST_CHANGES_H

#include "lib/rendezvous/gathering.h"

/* The digest of the former roll; then position and mark of each rank that did not know it. */
struct beest_changes {
	uint8_t bytes[1024];
	size_t size;			/* 0: nobody knew one, or there are too many changes */
};

/* From all records, as they were read, and the @marks made of them. */
void beest_changes_tell(const struct beest_gathering *g, const uint8_t *marks,
			struct beest_changes *changes);

/* Keeps the roll of the gate that was just seen, if its @record has what is missing here. */
void beest_changes_take(struct beest_gathering *g, const struct beest_record *record);

#endif
