/* SPDX-License-Identifier: MIT */
/*
 * leader.h - what the first rank does at a fence
 *
 * Decides by the records of all others which view it proposes, when it commits it, and why the
 * fence fails.  Owns the leader's record and the chunks.
 */
#ifndef BEEST_LEADER_H
#define BEEST_LEADER_H

#include "lib/rendezvous/fence.h"

int beest_leader_start(struct beest_fence_look *look);

/* After each look: 1: passed; 0: not yet; or why the fence fails. */
int beest_leader_step(struct beest_fence_look *look);

/* Puts the leader's record. */
int beest_leader_put(struct beest_fence_look *look);

/* Has the rank at @position arrived, and answered? */
bool beest_leader_has(const struct beest_fence_look *look, size_t position);

#endif
