/* SPDX-License-Identifier: MIT */
/* text.c - see text.h */
#include "config.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/text.h"

static bool code_is_harmless(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} harmful[] = {
		{ 0x00, 0x1f }, { 0x7f, 0x9f },		/* control characters */
		{ 0x2028, 0x202e }, { 0x2066, 0x2069 },	/* line separators, directions */
		{ 0xd800, 0xdfff }, { 0x110000, UINT32_MAX },	/* not characters */
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(harmful); i++)
		if (code >= harmful[i].first && code <= harmful[i].last)
			return false;

	return true;
}

/* Each length has a least code: a longer form of a smaller code is not valid UTF-8. */
size_t beest_text_step(const char *text)
{
	static const struct {
		uint8_t mask, lead;
		uint32_t least;
	} rows[] = {
		{ 0x80, 0x00, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 },
		{ 0xf8, 0xf0, 0x10000 },
	};
	const uint8_t *at = (const uint8_t *)text;
	size_t length = 0, i;
	uint32_t code;

	while (length < BEEST_COUNT(rows) && (at[0] & rows[length].mask) != rows[length].lead)
		length++;
	if (length == BEEST_COUNT(rows))
		return 0;

	code = at[0] & (uint8_t)~rows[length].mask;
	for (i = 1; i <= length; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (at[i] & 0x3f);
	}

	return code >= rows[length].least && code_is_harmless(code) ? length + 1 : 0;
}

const char *beest_text_control(const char *text)
{
	size_t step = 1;

	while (*text && step) {
		step = beest_text_step(text);
		text += step;
	}

	return *text ? text : NULL;
}

/* cut: where the dots go if the text turns out not to fit. */
void beest_text_clean(char *to, size_t size, const char *from, size_t length)
{
	const char *end = from + length, *last = to + size - 1;
	char unit[sizeof("\\xff")], *cut = to;
	size_t step, width;

	for (; from < end; from += step ? step : 1, to += width) {
		step = beest_text_step(from);
		width = step ? step : (size_t)sprintf(unit, "\\x%02x", (uint8_t)*from);
		if (to + width > last) {
			strcpy(cut, "...");
			return;
		}
		memcpy(to, step ? from : unit, width);
		if (to + width + 3 <= last)
			cut = to + width;
	}
	*to = '\0';
}

const char *beest_text_not_key(const char *text)
{
	while ((unsigned char)*text > ' ' && (unsigned char)*text < 0x7f)
		text++;
	return *text ? text : NULL;
}

const char *beest_text_byte(char byte, char text[8])
{
	snprintf(text, 8, byte == ' ' ? "a blank" : "0x%02x", (unsigned char)byte);
	return text;
}

void beest_text_copy(char *to, size_t size, const char *from)
{
	if (!memccpy(to, from, '\0', size - 1))
		to[size - 1] = '\0';
}

void beest_text_shorten(char *to, size_t size, const char *from)
{
	char *end;

	beest_text_copy(to, size, from);
	if (strlen(from) < size)
		return;
	to[size - sizeof("...")] = '\0';
	end = strrchr(to, ' ');
	strcpy(end ? end + 1 : to + strlen(to), "...");
}

void beest_text_start(struct beest_text *text, char *buffer, size_t size)
{
	text->buffer = buffer;
	text->size = size;
	text->used = 0;
	text->full = false;
	buffer[0] = '\0';
}

static void BEEST_PRINTF(2, 0) text_add(struct beest_text *text, const char *format,
					va_list args)
{
	size_t room = text->size - text->used;
	int length;

	BEEST_INVARIANT(text->used < text->size);
	if (text->full)
		return;

	length = vsnprintf(text->buffer + text->used, room, format, args);
	if (length < 0)
		return;
	text->full = (size_t)length >= room;
	if (text->full)
		strcpy(text->buffer + text->size - sizeof("..."), "...");
	else
		text->used += (size_t)length;
}

void beest_text_add(struct beest_text *text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	text_add(text, format, args);
	va_end(args);
}

void beest_text_item(struct beest_text *text, const char *format, ...)
{
	va_list args;

	if (text->used)
		beest_text_add(text, "; ");
	va_start(args, format);
	text_add(text, format, args);
	va_end(args);
}

/* Volatile, since a compiler omits plain writes that are never read. */
void beest_text_clear(void *bytes, size_t size)
{
	volatile unsigned char *byte = bytes;

	while (size--)
		*byte++ = 0;
}
