/* SPDX-License-Identifier: MIT */
/*
 * nearest.c - edit distance: counts bytes inserted, left out, replaced, or swapped with their
 * neighbour, the four common typing errors
 */
#include "config.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"
#include "lib/base/nearest.h"

/* No name is longer, and each cost for words of this length fits in a byte. */
#define WORD_MAX 255

static char lower(char byte)
{
	return byte >= 'A' && byte <= 'Z' ? byte + 'a' - 'A' : byte;
}

/* Ignores case.  Both words have at most WORD_MAX bytes. */
static size_t edit_distance(const char *a, const char *b)
{
	/* rows[i % 3] has the cost of turning the first i bytes of @a into each prefix of @b. */
	uint8_t rows[3][WORD_MAX + 1], *row = rows[0], *last, *before;
	size_t i, j, best, length = strlen(b);

	for (i = 0; i == 0 || a[i - 1]; i++) {
		row = rows[i % 3];
		last = rows[(i + 2) % 3];
		before = rows[(i + 1) % 3];
		row[0] = i;
		for (j = 1; j <= length; j++) {
			best = row[j - 1] + 1u;
			if (i > 0) {
				best = BEEST_MIN(best, last[j] + 1u);
				best = BEEST_MIN(best, last[j - 1] + (size_t)(lower(a[i - 1]) !=
									      lower(b[j - 1])));
			}
			if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
			    lower(a[i - 2]) == lower(b[j - 1]))
				best = BEEST_MIN(best, before[j - 2] + 1u);
			row[j] = best;
		}
	}
	return row[length];
}

void beest_nearest_offer(struct beest_nearest *nearest, const char *candidate,
			 const void *meaning)
{
	size_t distance, length = strlen(nearest->word), other = strlen(candidate);
	/* "m" for "mr": a candidate that begins with the word may need one more change. */
	bool begun = length && !nearest->best && !strncmp(candidate, nearest->word, length);
	size_t limit = nearest->distance + begun;

	if (length > WORD_MAX || other > WORD_MAX)
		return;
	/* "CONF" for "CONF_PATH", unless a later candidate is nearer. */
	if (begun && candidate[length] == '_')
		nearest->best = meaning;
	/* As many bytes have to be inserted or left out.  Most candidates end here. */
	if ((length > other ? length - other : other - length) >= limit)
		return;
	distance = edit_distance(nearest->word, candidate);
	if (distance >= limit)
		return;

	nearest->best = meaning;
	nearest->distance = distance;
}

const char *beest_nearest_text(const struct beest_nearest *nearest, char text[300])
{
	if (nearest->best)
		snprintf(text, 300, BEEST_NEAREST_IS "%s", (const char *)nearest->best);
	return text;
}
