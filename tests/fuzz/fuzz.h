/* SPDX-License-Identifier: MIT */
/*
 * fuzz.h - shared by the fuzz targets
 *
 * Owns the name of the entry point, and the check that prints what did not hold.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* libFuzzer prints and keeps an input that aborts. */
#define HOLDS(condition) \
	((condition) ? (void)0 : (fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, \
					  __LINE__, #condition), abort()))

/* Cuts @size bytes into texts at newlines; the last text gets the rest.  Free the result. */
static inline char *fuzz_cut(const uint8_t *data, size_t size, char **texts, size_t count)
{
	char *copy = malloc(size + 1), *at = copy;
	size_t i;

	memcpy(copy, data, size);
	copy[size] = '\0';
	for (i = 0; i < count; i++) {
		texts[i] = at;
		at += strcspn(at, "\n");
		if (*at && i + 1 < count)
			*at++ = '\0';
	}
	return copy;
}

#endif
