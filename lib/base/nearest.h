/* SPDX-License-Identifier: MIT */
/*
 * nearest.h - finds the known word that the user probably meant
 *
 * Owns the edit distance and nothing else.
 */
#ifndef BEEST_NEAREST_H
#define BEEST_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Takes candidates one at a time, so that the caller can walk any table.  best is NULL when none
 * is near enough: more than a third of the word would have to change.
 */
struct beest_nearest {
	const char *word;
	const char *best;
	size_t distance;
};

void beest_nearest_start(struct beest_nearest *nearest, const char *word);

/* True when @candidate is nearer than all before it. */
bool beest_nearest_offer(struct beest_nearest *nearest, const char *candidate);

#endif
