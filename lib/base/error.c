/* SPDX-License-Identifier: MIT */
/* error.c - see error.h */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/text.h"

/* Thread-local storage of fixed size, so that setting it cannot fail. */
static __thread char sentence[BEEST_ERROR_SIZE];

/*
 * Sets the sentence, with @cause behind it unless that is NULL.  Formats into a buffer of its
 * own, since the old sentence may be among the arguments.  Cleans the result, so that callers
 * may pass names, paths and a server's words as they are.  Keeps errno.
 */
static void BEEST_PRINTF(2, 0) sentence_set(const char *cause, const char *format, va_list args)
{
	char text[BEEST_ERROR_SIZE];
	int saved = errno;

	if (vsnprintf(text, sizeof(text), format, args) < 0)
		text[0] = '\0';
	if (cause) {
		strncat(text, ": ", sizeof(text) - 1 - strlen(text));
		strncat(text, cause, sizeof(text) - 1 - strlen(text));
	}
	beest_text_clean(sentence, sizeof(sentence), text, strlen(text));
	errno = saved;
}

int beest_fail(int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	sentence_set(NULL, format, args);
	va_end(args);
	return -err;
}

int beest_fail_prefix(int ret, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	sentence_set(sentence, format, args);
	va_end(args);
	return ret;
}

int beest_fail_errno(int ret, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	sentence_set(strerror(-ret), format, args);
	va_end(args);
	return ret;
}

const char *beest_error_text(void)
{
	return sentence;
}

const char *beest_error_quote(char *quoted, const char *text)
{
	quoted[0] = '\'';
	beest_text_clean(quoted + 1, BEEST_QUOTE_SIZE - 2, text, strlen(text));
	strcat(quoted, "'");
	return quoted;
}
