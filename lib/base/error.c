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
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/text.h"

/* Room for what may end a quotation: one escape, the dots, the quote, the NUL. */
#define QUOTE_TAIL sizeof("\\xff...'")

static __thread char sentence[BEEST_ERROR_SIZE];

/*
 * The new sentence, with the old one behind it or without.  Made in a buffer of its own, since
 * the old one may be among the arguments.  Keeps errno.
 */
static void BEEST_PRINTF(2, 0) sentence_set(bool keep, const char *format, va_list args)
{
	char text[BEEST_ERROR_SIZE];
	int saved = errno;

	if (vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = '\0';
	if (keep) {
		strncat(text, ": ", sizeof(text) - 1 - strlen(text));
		strncat(text, sentence, sizeof(text) - 1 - strlen(text));
	}
	strcpy(sentence, text);
	errno = saved;
}

int beest_fail(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	sentence_set(false, format, args);
	va_end(args);
	return -err;
}

int beest_fail_prefix(int ret, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	sentence_set(true, format, args);
	va_end(args);
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
