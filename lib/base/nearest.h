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
 * is near enough: more than a third of the word would have to change, and no candidate goes on
 * behind the word with '_'.
 */
struct beest_nearest {
	const char *word;
	const void *best;	/* what the nearest candidate means */
	size_t distance;
};

/* Begins at the limit: a candidate at this distance or beyond was probably not meant. */
#define BEEST_NEAREST(text) { .word = (text), .distance = strlen(text) / 3 + 1 }

/* Takes @candidate, which means @meaning, if it is nearer than all before it. */
void beest_nearest_offer(struct beest_nearest *nearest, const char *candidate,
			 const void *meaning);

/*
 * How a sentence goes on that has named an unknown word: ", the nearest is X", or "".  Only where
 * candidates mean texts.  The macro's text lives as long as the block.
 */
#define BEEST_NEAREST_IS ", the nearest is "
#define BEEST_NEAREST_TEXT(nearest) beest_nearest_text((nearest), (char[300]){ 0 })
const char *beest_nearest_text(const struct beest_nearest *nearest, char text[300]);

#endif
