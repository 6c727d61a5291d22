/* SPDX-License-Identifier: MIT */
/*
 * meshlist.h - exchanges non-consecutive queue pair numbers through the servers
 *
 * Owns the list that a rank puts beside its mark, and the rows.  One rank, which names the last
 * part of the roll, reads the lists of all and puts one row for each, so that no other has to read
 * N lists of N numbers.  A row is a shortcut and may be missing; lists decide.  Does not know
 * what lists and rows say, which is meshmark's.
 */
#ifndef BEEST_MESHLIST_H
#define BEEST_MESHLIST_H

#include "lib/core/meshmark.h"

/* Puts the list of this rank, if it has one. */
int beest_meshlist_put(const struct hartebeest_mesh *mesh, const struct beest_meeting *meeting);

/* Puts the rows of all ranks, best effort.  @digest is that of the roll of @marks. */
void beest_meshlist_rows(struct hartebeest_mesh *mesh, const struct beest_meeting *meeting,
			 const uint8_t *marks, uint64_t digest);

/*
 * Is it worth another beest_meshlist_fetch()?  False: this rank still waits for its row of that
 * roll.  Costs less than to find out who the newcomers are.
 */
bool beest_meshlist_is_ready(struct hartebeest_mesh *mesh, const struct beest_meeting *meeting,
			     uint64_t digest);

/*
 * Reads the numbers of all newcomers.  1: done; 0: some are not there yet; -EPROTO as from
 * beest_meshmark_list().
 */
int beest_meshlist_fetch(struct hartebeest_mesh *mesh, const struct beest_meeting *meeting,
			 uint64_t digest, struct beest_newcomers *new);

#endif
