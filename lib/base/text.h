/* SPDX-License-Identifier: MIT */
/*
 * text.h - checks the bytes of a text, and builds sentences
 *
 * Owns the rules for which bytes are refused, the display of texts from outside, and the
 * bookkeeping of a fixed buffer: a text that does not fit ends in "...".  Knows no grammar: that
 * is parse.h.
 */
#ifndef BEEST_TEXT_H
#define BEEST_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/macro.h"

/*
 * The number of bytes in the first character of @text; 0 if it could harm a terminal or forge a
 * log line (a control character, which includes U+0080 to U+009F, or a mark that changes the
 * direction of writing), or if it is not UTF-8.  Never reads beyond a NUL, which gives 0.
 */
size_t beest_text_step(const char *text);

/* The first byte of @text that does not begin a harmless character; NULL: there is none. */
const char *beest_text_control(const char *text);

/*
 * Every quoted text passes through here.  Copies the harmless characters of @from as they are,
 * any other byte as \x1b or the like, and ends a cut text with "...".  @length: the bytes of
 * @from to copy; a NUL must follow, at once or later.  @size: at least 4.
 */
void beest_text_clean(char *to, size_t size, const char *from, size_t length);

/*
 * The first byte that a key of Memcached cannot have: a blank, a control character or a byte
 * beyond ASCII.  NULL: there is none.
 */
const char *beest_text_not_key(const char *text);

/* "a blank", or "0x0a" of another byte.  The macro's text lives as long as the block. */
#define BEEST_BYTE_TEXT(byte) beest_text_byte((byte), (char[8]){ 0 })
const char *beest_text_byte(char byte, char text[8]);

/* Like snprintf(3) with "%s", but fast; cuts a text that does not fit into @size bytes. */
void beest_text_copy(char *to, size_t size, const char *from);

/* The same, but a text that is cut ends after a whole word, and in "...".  @size: at least 4. */
void beest_text_shorten(char *to, size_t size, const char *from);

struct beest_text {
	char *buffer;
	size_t size;
	size_t used;
	bool full;
};

/* Initializes one with its own buffer, which lives as long as the block. */
#define BEEST_TEXT(bytes) { .buffer = (char[bytes]){ 0 }, .size = (bytes) }

/* @size: at least 4.  From now on the buffer holds a string. */
void beest_text_start(struct beest_text *text, char *buffer, size_t size);

void beest_text_add(struct beest_text *text, const char *format, ...) BEEST_PRINTF(2, 3);

/* As above, with "; " before it unless it is the first. */
void beest_text_item(struct beest_text *text, const char *format, ...) BEEST_PRINTF(2, 3);

/* Overwrites a secret with zeros. */
void beest_text_clear(void *bytes, size_t size);

#endif
