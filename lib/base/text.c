/* SPDX-License-Identifier: MIT */
/* text.c - see text.h */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/text.h"

void beest_text_start(struct beest_text *text, char *buffer, size_t size)
{
	text->buffer = buffer;
	text->size = size;
	text->used = 0;
	text->full = false;
	buffer[0] = '\0';
}

static void BEEST_PRINTF(2, 0) add(struct beest_text *text, const char *format,
				   va_list args)
{
	size_t room = text->size - text->used;
	int length;

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
	add(text, format, args);
	va_end(args);
}

void beest_text_item(struct beest_text *text, const char *format, ...)
{
	va_list args;

	if (text->used)
		beest_text_add(text, "; ");
	va_start(args, format);
	add(text, format, args);
	va_end(args);
}

/* By volatile writes: a compiler leaves out what nobody reads. */
void beest_text_wipe(char *secret)
{
	volatile char *byte = secret;

	while (byte && *byte)
		*byte++ = '\0';
	free(secret);
}
