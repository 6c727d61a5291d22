/* SPDX-License-Identifier: MIT */
/*
 * text.h - judging the bytes of a text, and putting a sentence together
 *
 * Owns which bytes are refused where, how a text from outside is shown, and the bookkeeping of
 * a fixed buffer: what does not fit ends in "...".  Knows no grammar: that is parse.h.
 */
#ifndef BEEST_TEXT_H
#define BEEST_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/macro.h"

/*
 * The bytes of the character that @text begins with.  0: it may do harm on a terminal or forge
 * a line of a log (a control character, those from U+0080 to U+009F among them, or a mark that
 * turns the direction), or the bytes are no UTF-8.  Ends at a NUL.
 */
size_t beest_text_step(const char *text);

/* The first byte of @text that begins no harmless character, NULL: there is none. */
const char *beest_text_control(const char *text);

/*
 * Whatever is quoted passes here: @to gets the harmless characters of @from as they are, every
 * other byte as \x1b, and "..." where it is cut.  @length: bytes of @from, a NUL behind them or
 * further on.  @size: at least 4.
 */
void beest_text_clean(char *to, size_t size, const char *from, size_t length);

/*
 * The first byte that no key of Memcached can have: a blank, a control character or
 * one beyond ASCII.  NULL: there is none.
 */
const char *beest_text_not_key(const char *text);

/* As snprintf(3) with "%s", for what is done often: cut short where @size bytes are too few. */
void beest_text_copy(char *to, size_t size, const char *from);

struct beest_text {
	char *buffer;
	size_t size;
	size_t used;
	bool full;
};

/* One with a buffer of its own, which lives as long as the block. */
#define BEEST_TEXT(bytes) { .buffer = (char[bytes]){ 0 }, .size = (bytes) }

/* @size: at least 4.  The buffer is a string from here on. */
void beest_text_start(struct beest_text *text, char *buffer, size_t size);

void beest_text_add(struct beest_text *text, const char *format, ...) BEEST_PRINTF(2, 3);

/* As above, with "; " before it unless it is the first. */
void beest_text_item(struct beest_text *text, const char *format, ...) BEEST_PRINTF(2, 3);

/* Overwrites a secret; and one that is a text, which it frees and which may be NULL. */
void beest_text_clear(void *bytes, size_t size);
void beest_text_wipe(char *secret);

#endif
