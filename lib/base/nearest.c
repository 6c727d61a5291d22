/* SPDX-License-Identifier: MIT */
/*
 * nearest.c - edit distance with a limit
 *
 * Counts bytes inserted, left out, replaced, or swapped with their neighbour: the four
 * common typing errors.  Knows no table: the caller offers the candidates.
 */
#include "config.h"

#include <stdint.h>
#include <string.h>

#include "lib/base/macro.h"
#include "lib/base/nearest.h"

/* No name is longer, and every cost of such words fits a byte. */
#define WORD_MAX 255

/*
 * @row[0] is filled: the costs to turn the first @i bytes of @a into every beginning
 * of @b.  @row[1] and @row[2] are the same for i - 1 and i - 2.
 */
static void fill_row(uint8_t *const row[3], const char *a, size_t i, const char *b)
{
	size_t cost, j;

	row[0][0] = i;
	for (j = 1; b[j - 1]; j++) {
		cost = row[1][j - 1] + (a[i - 1] != b[j - 1]);
		cost = BEEST_MIN(cost, row[1][j] + 1u);
		cost = BEEST_MIN(cost, row[0][j - 1] + 1u);
		if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
			cost = BEEST_MIN(cost, row[2][j - 2] + 1u);
		row[0][j] = cost;
	}
}

/* Both words have at most WORD_MAX bytes. */
static size_t edit_distance(const char *a, const char *b)
{
	uint8_t rows[3][WORD_MAX + 1];
	uint8_t *row[3] = { rows[0], rows[1], rows[2] };
	uint8_t *spare;
	size_t i;

	for (i = 0; i <= strlen(b); i++)
		row[0][i] = i;
	for (i = 1; i <= strlen(a); i++) {
		spare = row[2];
		row[2] = row[1];
		row[1] = row[0];
		row[0] = spare;
		fill_row(row, a, i, b);
	}
	return row[0][strlen(b)];
}

/* Beyond the limit, a candidate is unlikely to be what was meant. */
void beest_nearest_start(struct beest_nearest *nearest, const char *word)
{
	nearest->word = word;
	nearest->best = NULL;
	nearest->distance = strlen(word) / 3 + 1;
}

void beest_nearest_offer(struct beest_nearest *nearest, const char *candidate)
{
	size_t distance;

	if (strlen(nearest->word) > WORD_MAX || strlen(candidate) > WORD_MAX)
		return;

	distance = edit_distance(nearest->word, candidate);
	if (distance >= nearest->distance)
		return;
	nearest->best = candidate;
	nearest->distance = distance;
}
