/* SPDX-License-Identifier: MIT */
/*
 * log.c - one line to the callback or to stderr
 *
 * Owns the form of a line and the names of the levels.  Knows nothing of contexts,
 * and takes no lock: a line is one write(2), which the kernel does not interleave.
 */
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/text.h"

#define LINE_SIZE 1024

static const struct level {
	const char *name;
	int value;
} levels[] = {
	{ "none", BEEST_LOG_NONE },
	{ "error", BEEST_LOG_ERROR },
	{ "warn", BEEST_LOG_WARN },
	{ "info", BEEST_LOG_INFO },
	{ "debug", BEEST_LOG_DEBUG },
};

void beest_log(const struct beest_log *log, int level, const char *format, ...)
{
	char line[LINE_SIZE], *text, *end;
	int saved = errno;
	va_list args;

	if (level > log->level)
		return;

	text = line + sprintf(line, "hartebeest: %s: ", beest_log_level_name(level));
	va_start(args, format);
	if (vsnprintf(text, line + sizeof(line) - text, format, args) < 0)
		text[0] = '\0';
	va_end(args);

	/* Names of peers come from the network: they must not bring escapes or lines. */
	for (end = text; *end; end++)
		if (beest_text_is_control(*end))
			*end = '?';

	if (log->write) {
		log->write(log->data, level, text);
	} else {
		*end++ = '\n';	/* replaces the NUL, so that it is never cut off */
		while (write(STDERR_FILENO, line, (size_t)(end - line)) < 0 && errno == EINTR)
			;
	}
	errno = saved;
}

int beest_log_level(const char *text, int64_t *level)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(levels); i++) {
		if (strcmp(text, levels[i].name))
			continue;
		*level = levels[i].value;
		return 0;
	}
	return beest_fail(EINVAL, "%s is not a log level: none, error, warn, info or debug "
			  "is expected", BEEST_QUOTE(text));
}

const char *beest_log_level_name(int level)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(levels); i++)
		if (levels[i].value == level)
			return levels[i].name;
	return "unknown";
}
