/* SPDX-License-Identifier: MIT */
/* text.c - see text.h */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"

const char *beest_text_control(const char *text)
{
	while (*text && !beest_text_is_control(*text))
		text++;
	return *text ? text : NULL;
}

const char *beest_text_not_key(const char *text)
{
	while ((unsigned char)*text > ' ' && (unsigned char)*text < 0x7f)
		text++;
	return *text ? text : NULL;
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

/* A compiler would omit plain writes that nobody reads: these are volatile. */
void beest_text_wipe(char *secret)
{
	volatile char *byte = secret;

	while (byte && *byte)
		*byte++ = '\0';
	free(secret);
}
