/* SPDX-License-Identifier: MIT */
/*
 * out.h - the output of a command: lines for people, or one JSON object
 *
 * Owns standard output, colour, the width of the terminal, and the line of progress on
 * standard error.  Knows nothing of what the output means.
 *
 * A command makes each line once, for both forms: lines with a level are also entries of
 * "checks" in the object.  Numbers that programs may want are added to the object by the
 * functions out_json_*().
 *
 *	out_title(out, "memory", 10);
 *	out_line(out, OUT_WARNING, "memlock", "at most %s can be locked", text);
 *	out_cure(out, "put '* - memlock unlimited' into /etc/security/limits.d/rdma.conf");
 *
 * Bytes that may do harm on a terminal become "?", since other processes wrote much of what
 * is shown.
 */
#ifndef TOOLS_OUT_H
#define TOOLS_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <json-c/json.h>

#include "lib/base/macro.h"

enum out_level {
	OUT_OK,
	OUT_NOTE,		/* neither good nor bad */
	OUT_WARNING,
	OUT_FAILURE,
	OUT_LEVELS,
};

struct out {
	const char *command;		/* "msg push", for lines on standard error */
	struct json_object *json;	/* NULL: lines for people */
	bool color;			/* of standard output */
	int columns;			/* of the terminal; 0: no terminal, lines are not broken */
	char part[400];			/* title of the current part; "": none yet */
	int label;			/* columns of the labels in this part */
	int counts[OUT_LEVELS];		/* lines so far */
	bool began;			/* a line was written */
	bool quiet;			/* shows only warnings and failures, without titles */
	char worst[120];		/* labels of these: "memlock, server"; "": there are none */
	/* kept by out.c */
	struct json_object *check;	/* the object of the last line */
	FILE *to;			/* standard output, or what is held back */
	char *held;
	size_t held_size;
	bool hides;			/* the last line was not shown */
	bool progress;			/* a line of progress is shown */
	int64_t since;			/* when the command began, for out_progress() */
};

void out_start(struct out *out, const char *command, bool json);

/* Holds back all lines for people from now on.  Without memory, nothing is held back. */
void out_hold(struct out *out);

/* Writes a verdict, and then what was held back. */
void out_verdict(struct out *out, enum out_level level, const char *format, ...)
	BEEST_PRINTF(3, 4);

/* The same as text for free(3) instead; NULL: no memory. */
char *out_take_verdict(struct out *out, enum out_level level, const char *text);

/* Begins a part, with labels @label columns wide; 0: each has its own width. */
void out_title(struct out *out, int label, const char *title);

/* A line of a part. */
void out_line(struct out *out, enum out_level level, const char *label, const char *format, ...)
	BEEST_PRINTF(4, 5);

/* What to do about the last line.  Every warning and failure has a cure. */
void out_cure(struct out *out, const char *format, ...) BEEST_PRINTF(2, 3);

/* A line without level or label, for people only. */
void out_text(struct out *out, const char *format, ...) BEEST_PRINTF(2, 3);

/* A line on standard error, after the command's name.  The first is "error" of the object. */
void out_error(struct out *out, const char *format, ...) BEEST_PRINTF(2, 3);

/*
 * Reports the library's last sentence as out_error() does, unless @ret is -ECANCELED.  @ret:
 * what the library returned, below 0.  Returns STATUS_TIMEOUT or STATUS_FAILED.
 */
int out_failed(struct out *out, int ret);

/*
 * Shows what is being done, if standard error is a terminal and a second has passed since
 * the command began.  The next line of any kind replaces this one.
 */
void out_progress(struct out *out, const char *format, ...) BEEST_PRINTF(2, 3);

/* The same with the seconds waited so far, once a second until out_waiting_end(). */
void out_waiting(struct out *out, const char *format, ...) BEEST_PRINTF(2, 3);
void out_waiting_end(struct out *out);

/* Is @bytes nothing but text, tabs and ends of lines?  A NUL must follow. */
bool out_is_text(const char *bytes, size_t length);

/*
 * Writes the object.  Returns @status, or STATUS_FAILED if not all of the output could be
 * written.
 */
int out_end(struct out *out, int status);

/* ------------------------------------------------------------ the object --- */

/* Each adds to @object, and does nothing if that is NULL, as without --json. */
void out_json_text(struct json_object *object, const char *key, const char *text);
void out_json_int(struct json_object *object, const char *key, int64_t value);
void out_json_bool(struct json_object *object, const char *key, bool value);

/* The array under @key, created if missing, and a new object at the end of an array. */
struct json_object *out_json_array(struct json_object *object, const char *key);
struct json_object *out_json_item(struct json_object *array);

#endif
