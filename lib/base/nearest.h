/* SPDX-License-Identifier: MIT */
/*
 * nearest.h - which known word did the user probably mean?
 *
 * Owns the edit distance and nothing else.
 */
#ifndef BEEST_NEAREST_H
#define BEEST_NEAREST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Feed candidates one at a time, so that any table can be walked; best is NULL
 * when nothing is near enough (more than a third of the word would change).
 */
struct beest_nearest {
	const char *word;
	const char *best;
	size_t distance;
};

void beest_nearest_start(struct beest_nearest *nearest, const char *word);

/* True: it is nearer than all before it. */
bool beest_nearest_offer(struct beest_nearest *nearest, const char *candidate);

#endif
