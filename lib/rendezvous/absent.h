/* SPDX-License-Identifier: MIT */
/*
 * absent.h - which ranks have not arrived at a fence, and what is known of them
 *
 * Owns the sentences about them.  Decides nothing.
 */
#ifndef BEEST_ABSENT_H
#define BEEST_ABSENT_H

#include "lib/rendezvous/fence.h"

/*
 * Names the ranks that have not arrived, as far as this rank or the leader knows: -ETIMEDOUT;
 * -EAGAIN if the limit is one look; or the error of a record that cannot be read.
 */
int beest_absent_fail(const struct beest_fence_look *look);

/*
 * Adds to the sentence of @ret, which is returned, for whom a leader that is gone has waited.
 */
int beest_absent_add(const struct beest_fence_look *look, int ret);

/* Logs which of them has ended, as far as this host shows.  False: none that is known. */
bool beest_absent_log(const struct beest_fence_look *look);

/*
 * Their ids, in ascending order, for free(3); NULL: none are known, or no memory.
 */
int *beest_absent_ids(const struct beest_fence_look *look, size_t *count);

#endif
