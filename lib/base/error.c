/* SPDX-License-Identifier: MIT */
/*
 * error.c - the calling thread's last sentence
 *
 * Owns one buffer a thread, so that setting a sentence cannot fail.  Knows nothing
 * of what the sentences say.
 */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/text.h"

/* Room for what may end a quotation: one escape, the dots, the quote, the NUL. */
#define QUOTE_TAIL sizeof("\\xff...'")

static __thread char sentence[BEEST_ERROR_SIZE];

/* Formats into another buffer: the old sentence may be among the arguments. */
static void BEEST_PRINTF(2, 0) format_text(char *text, const char *format, va_list args)
{
	if (vsnprintf(text, BEEST_ERROR_SIZE, format, args) < 0)
		text[0] = '\0';
}

static void text_append(char *text, const char *more)
{
	size_t used = strlen(text);

	snprintf(text + used, BEEST_ERROR_SIZE - used, "%s", more);
}

int beest_fail(int err, const char *format, ...)
{
	char text[BEEST_ERROR_SIZE];
	int saved = errno;
	va_list args;

	va_start(args, format);
	format_text(text, format, args);
	va_end(args);

	strcpy(sentence, text);
	errno = saved;
	return -err;
}

int beest_fail_prefix(int ret, const char *format, ...)
{
	char text[BEEST_ERROR_SIZE];
	int saved = errno;
	va_list args;

	va_start(args, format);
	format_text(text, format, args);
	va_end(args);

	text_append(text, ": ");
	text_append(text, sentence);
	strcpy(sentence, text);
	errno = saved;
	return ret;
}

const char *beest_error_text(void)
{
	return sentence;
}

const char *beest_error_quote(char *quoted, const char *text)
{
	char *at = quoted;
	char *end = quoted + BEEST_QUOTE_SIZE - QUOTE_TAIL;

	for (*at++ = '\''; *text && at < end; text++)
		if (beest_text_is_control(*text))
			at += sprintf(at, "\\x%02x", (unsigned char)*text);
		else
			*at++ = *text;
	BEEST_INVARIANT(at <= end + strlen("\\xff") - 1);
	strcpy(at, *text ? "...'" : "'");
	return quoted;
}
