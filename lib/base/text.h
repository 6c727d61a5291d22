/* SPDX-License-Identifier: MIT */
/*
 * text.h - judging the bytes of a text, and putting a sentence together
 *
 * Owns which bytes are refused where, and the bookkeeping of a fixed buffer: what does
 * not fit ends in "...".  Knows no grammar: that is parse.h.
 */
#ifndef BEEST_TEXT_H
#define BEEST_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/macro.h"

/* Bytes that may do harm on a terminal, or forge a line of a log. */
static inline bool beest_text_is_control(char byte)
{
	return (unsigned char)byte < 0x20 || byte == 0x7f;
}

/* The first such byte of @text, NULL: there is none. */
const char *beest_text_control(const char *text);

/*
 * The first byte that no key of Memcached can have: a blank, a control character or
 * one beyond ASCII.  NULL: there is none.
 */
const char *beest_text_not_key(const char *text);

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
