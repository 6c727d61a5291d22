/* SPDX-License-Identifier: MIT */
/*
 * error.h - the error convention: 0 or a positive count, else a negative errno
 *
 * Owns the calling thread's last sentence, which accompanies the return value and never
 * replaces it.  Knows nothing of logging: api/call.c (core/context.c for hartebeest_open())
 * logs a failure once, as the call returns to the user.
 */
#ifndef BEEST_ERROR_H
#define BEEST_ERROR_H

#include <errno.h>

#include "lib/base/macro.h"

/* Long enough for a file name, a value, its range and both ends of a pair. */
#define BEEST_ERROR_SIZE 1024

/* Sets the sentence and returns -@err; @err is a positive errno. */
int beest_fail(int err, const char *format, ...) BEEST_PRINTF(2, 3);

/*
 * Puts "PREFIX: " before the sentence of a lower layer's failure and returns @ret unchanged:
 * the lower layer names the value, the upper one its source.
 */
int beest_fail_prefix(int ret, const char *format, ...) BEEST_PRINTF(2, 3);

/*
 * For a failed call of another library: sets the sentence, with the text of errno -@ret behind
 * it, and returns @ret.
 */
int beest_fail_errno(int ret, const char *format, ...) BEEST_PRINTF(2, 3);

/* The calling thread's last sentence, "" before the first failure. */
const char *beest_error_text(void);

/*
 * Quotes a text from outside for a sentence: control characters become \x0a and the like, and
 * a long text ends in "...".  @quoted has BEEST_QUOTE_SIZE bytes and is returned; BEEST_QUOTE()
 * brings its own buffer, which lives as long as the block.
 */
#define BEEST_QUOTE_SIZE 128
#define BEEST_QUOTE(text) beest_error_quote((char[BEEST_QUOTE_SIZE]){ 0 }, text)

const char *beest_error_quote(char *quoted, const char *text);

/* For calls that return errno itself: ibv_modify_qp(3), ibv_query_port(3). */
static inline int beest_error_verbs(int err)
{
	return err > 0 ? -err : err;
}

/*
 * For calls that fail with NULL or -1 and set errno: ibv_create_qp(3).
 * Old providers do not set errno, so clear it before such a call.
 */
static inline int beest_error_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

#endif
