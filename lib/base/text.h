/* SPDX-License-Identifier: MIT */
/*
 * text.h - a sentence put together piece by piece
 *
 * Owns the bookkeeping of a fixed buffer: what does not fit ends in "...".
 */
#ifndef BEEST_TEXT_H
#define BEEST_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/macro.h"

struct beest_text {
	char *buffer;
	size_t size;
	size_t used;
	bool full;
};

/* @size: at least 4.  The buffer is a string from here on. */
void beest_text_start(struct beest_text *text, char *buffer, size_t size);

void beest_text_add(struct beest_text *text, const char *format, ...) BEEST_PRINTF(2, 3);

/* As above, with "; " before it unless it is the first. */
void beest_text_item(struct beest_text *text, const char *format, ...) BEEST_PRINTF(2, 3);

/* Overwrites a secret and frees it; accepts NULL. */
void beest_text_wipe(char *secret);

#endif
