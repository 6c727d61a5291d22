/* SPDX-License-Identifier: MIT */
/*
 * counter.h - numbers that many processes add to
 *
 * Owns their keys and how they begin.  Knows nothing of what they count.
 */
#ifndef BEEST_COUNTER_H
#define BEEST_COUNTER_H

#include <stdint.h>

#include "lib/rendezvous/registry.h"

/* Has the contract of hartebeest_counter_add() in hartebeest.h. */
int beest_counter_add(struct beest_registry *registry, const char *name, uint32_t add,
		      uint64_t *value, const struct beest_limit *limit);

#endif
