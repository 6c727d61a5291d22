/* SPDX-License-Identifier: MIT */
/*
 * log.h - one line of text to the user's callback, to a file or to stderr
 *
 * Owns level and sink of one context, and the form of a line:
 *
 *   2026-11-22T03:15:17.123456Z cn08 hartebeest[4711] rank 3 error: sentence
 *
 * Knows nothing of its callers.  Keeps errno.  Never called while posting or polling.
 */
#ifndef BEEST_LOG_H
#define BEEST_LOG_H

#include <stdint.h>

#include "lib/base/macro.h"
#include "lib/base/parse.h"

/* Values of syslog(3), so that a callback may forward them; 0 is silence. */
enum {
	BEEST_LOG_NONE = 0,
	BEEST_LOG_ERROR = 3,
	BEEST_LOG_WARN = 4,
	BEEST_LOG_INFO = 6,
	BEEST_LOG_DEBUG = 7,
};

/* How many choices beest_log_once() remembers. */
#define BEEST_LOG_SAID 16

struct beest_log {
	int level;
	void (*write)(void *data, int level, const char *text);	/* NULL: file or stderr */
	void *data;
	int rank;		/* -1: unknown */
	int file;		/* above 2; 0: stderr */
	uint64_t *said;		/* BEEST_LOG_SAID hashes, zero at first; NULL: remembers none */
};

/* Passes the bare sentence to the callback, or writes a whole line with one write(2). */
void beest_log(const struct beest_log *log, int level, const char *format, ...)
	BEEST_PRINTF(3, 4);

/*
 * The level for a line about @choice: @level the first time, BEEST_LOG_DEBUG from then on,
 * since one line is enough for a choice that many objects share.
 */
int beest_log_once(const struct beest_log *log, int level, const char *choice);

/*
 * Without a callback, lines are appended to this file.  In @path, %h is the host, %p the process
 * id, %r the rank ("-": unknown), %% a percent sign.  -EINVAL: another letter after %;
 * -ENAMETOOLONG; or the errno of open(2).
 */
int beest_log_open(struct beest_log *log, const char *path);
void beest_log_close(struct beest_log *log);

/* "none", "error", "warn", "info", "debug". */
extern const struct beest_word beest_log_words[];

#endif
