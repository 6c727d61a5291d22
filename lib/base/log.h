/* SPDX-License-Identifier: MIT */
/*
 * log.h - one line of text to the user's callback, or to stderr when asked for
 *
 * Owns level and sink of one context.  Knows nothing of who writes.  Keeps errno.
 * Never called while posting or polling.
 */
#ifndef BEEST_LOG_H
#define BEEST_LOG_H

#include <stdint.h>

#include "lib/base/macro.h"

/* Values of syslog(3), so that callers may forward them; 0 is silence. */
enum {
	BEEST_LOG_NONE = 0,
	BEEST_LOG_ERROR = 3,
	BEEST_LOG_WARN = 4,
	BEEST_LOG_INFO = 6,
	BEEST_LOG_DEBUG = 7,
};

struct beest_log {
	int level;
	void (*write)(void *data, int level, const char *text);	/* NULL: stderr */
	void *data;
};

/* One write(2) a line on stderr: "hartebeest: error: text", 1024 bytes at most. */
void beest_log(const struct beest_log *log, int level, const char *format, ...)
	BEEST_PRINTF(3, 4);

/* "none", "error", "warn", "info", "debug" -> level; -EINVAL names the five. */
int beest_log_level(const char *text, int64_t *level);
const char *beest_log_level_name(int level);

#endif
