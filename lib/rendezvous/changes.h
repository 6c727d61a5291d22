/* SPDX-License-Identifier: MIT */
/*
 * changes.h - what has changed in a roll since a former one
 *
 * A rank that knows a former roll has most of the next one.  The gate tells it the rest, so that
 * it need not read the roll.  This is a shortcut for few changes: a rank that cannot use it
 * reads the roll.
 */
#ifndef BEEST_CHANGES_H
#define BEEST_CHANGES_H

#include "lib/rendezvous/gathering.h"

/* The former roll's digest, then the position and mark of each rank that does not know it. */
struct beest_changes {
	uint8_t bytes[1024];
	size_t size;			/* 0: nobody knows a former roll, or no room for all */
};

/* Fills @changes from the records that were read, and from the @marks made of them. */
void beest_changes_tell(const struct beest_gathering *g, const uint8_t *marks,
			struct beest_changes *changes);

/* Makes and keeps the roll of the gate just seen, if the @record of that has the changes. */
void beest_changes_take(struct beest_gathering *g, const struct beest_record *record);

#endif
