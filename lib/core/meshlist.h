/* SPDX-License-Identifier: MIT */
/*
 * meshlist.h - numbers of queue pairs that are not in a row, by the servers
 *
 * Owns the list that a rank puts beside its record, and the rows: whoever hands out the roll
 * reads the lists of all and puts one row for each rank, so that nobody else has to read N
 * lists of N numbers.  A row is a short cut that may be missing; lists decide.  Knows
 * nothing of what lists and rows say: that is meshmark's.
 */
#ifndef BEEST_MESHLIST_H
#define BEEST_MESHLIST_H

#include "lib/core/meshmark.h"

int beest_meshlist_put(const struct hartebeest_mesh *mesh, const struct beest_gather *gather);

/* Best effort.  The digest is that of the roll. */
void beest_meshlist_rows(struct hartebeest_mesh *mesh, const struct beest_gather *gather,
			 const uint8_t *marks, uint64_t digest);

/* 1: the numbers of all newcomers are there; 0: not yet.  -EPROTO as of beest_meshmark_list(). */
int beest_meshlist_fetch(struct hartebeest_mesh *mesh, const struct beest_gather *gather,
			 uint64_t digest, struct beest_newcomers *new);

#endif
