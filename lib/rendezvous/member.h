/* SPDX-License-Identifier: MIT */
/*
 * member.h - what a rank that does not lead does at a fence
 *
 * Decides by the leader's record whom it follows, which view it acknowledges, and when it has
 * passed.  Owns its own record.  Knows nothing of other ranks.
 */
#ifndef BEEST_MEMBER_H
#define BEEST_MEMBER_H

#include "lib/rendezvous/chunks.h"

/* How many gets it needs at most: leader, itself, and chunks. */
size_t beest_member_gets(const struct beest_fence_call *call);

int beest_member_start(struct beest_fence_look *look);

/* After each look: 1: passed; 0: not yet; or why the fence fails. */
int beest_member_step(struct beest_fence_look *look);

/* Puts this rank's record. */
int beest_member_put(struct beest_fence_look *look);

#endif
