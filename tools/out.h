/* SPDX-License-Identifier: MIT */
/*
 * out.h - what a command says: lines for people, or one JSON object
 *
 * Owns standard output, colour, the width of the terminal, and the line of progress on
 * standard error.  Knows nothing of what is said.
 *
 * A command says everything through here, once for both forms: lines with a level are also
 * entries of "checks" in the object.  What a program would want as a number goes to the
 * object by json-c in addition, where out->json is not NULL.
 *
 *	out_title(out, "memory", 10);
 *	out_line(out, OUT_WARNING, "memlock", "at most %s can be locked", text);
 *	out_cure(out, "put '* - memlock unlimited' into /etc/security/limits.d/rdma.conf");
 *
 * Bytes that may do harm on a terminal become "?": much of what is shown was written by
 * others.
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
	OUT_NOTE,		/* neither good nor bad: "--" */
	OUT_WARNING,
	OUT_FAILURE,
	OUT_LEVELS,
};

struct out {
	const char *command;		/* "msg push", for what goes to standard error */
	struct json_object *json;	/* NULL: lines for people */
	bool color;			/* of standard output */
	int columns;			/* of the terminal; 0: none, lines are not broken */
	char part[400];			/* title of this part; "": none yet */
	int label;			/* columns of labels in it */
	int counts[OUT_LEVELS];		/* lines until now */
	bool began;			/* a line was written */
	/* kept by out.c */
	struct json_object *check;	/* of the last line */
	bool progress;			/* a line of progress is shown */
	int64_t since;			/* when this began, for out_progress() */
};

void out_start(struct out *out, const char *command, bool json);

/* A new part, its labels @label columns wide; 0: as wide as each is. */
void out_title(struct out *out, int label, const char *title);

/* A line of a part. */
void out_line(struct out *out, enum out_level level, const char *label, const char *format, ...)
	BEEST_PRINTF(4, 5);

/* What to do about the line before.  Every warning and failure has one. */
void out_cure(struct out *out, const char *format, ...) BEEST_PRINTF(2, 3);

/* A line as it is, for people only. */
void out_text(struct out *out, const char *format, ...) BEEST_PRINTF(2, 3);

/* The same on standard error, behind the command's name; the first is "error" of the object. */
void out_error(struct out *out, const char *format, ...) BEEST_PRINTF(2, 3);

/*
 * What the library just returned, @ret < 0, with its sentence, as out_error().  Returns the
 * status for it: STATUS_TIMEOUT or STATUS_FAILED.
 */
int out_failed(struct out *out, int ret);

/*
 * A line that shows what is done now, where standard error is a terminal and a second has
 * passed since the command began.  The next line of any kind replaces it.
 */
void out_progress(struct out *out, const char *format, ...) BEEST_PRINTF(2, 3);

/* The same with the seconds that have passed, once a second until out_waiting_end(). */
void out_waiting(struct out *out, const char *format, ...) BEEST_PRINTF(2, 3);
void out_waiting_end(struct out *out);

/*
 * Nothing but what beest_text_step() takes, tabs and ends of lines?  @bytes: a NUL behind them.
 */
bool out_is_text(const char *bytes, size_t length);

/*
 * Writes the object.  Returns @status, or STATUS_FAILED where standard output did not take
 * everything.
 */
int out_end(struct out *out, int status);

/* ------------------------------------------------------------ the object --- */

/* Each adds to @object, and does nothing where that is NULL, as without --json. */
void out_json_text(struct json_object *object, const char *key, const char *text);
void out_json_int(struct json_object *object, const char *key, int64_t value);
void out_json_bool(struct json_object *object, const char *key, bool value);

/* A new object or array under @key of @object, or at the end of the array @array. */
struct json_object *out_json_object(struct json_object *object, const char *key);
struct json_object *out_json_array(struct json_object *object, const char *key);
struct json_object *out_json_item(struct json_object *array);

#endif
