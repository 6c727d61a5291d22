/* SPDX-License-Identifier: MIT */
/*
 * default.h - the one context of the original's functions
 *
 * Owns it from the first call that needs it until the process ends, its presets, and what is
 * said when it cannot be opened.  Knows nothing of what those functions do with it.
 */
#ifndef BEEST_DEFAULT_H
#define BEEST_DEFAULT_H

#include <stdbool.h>

struct hartebeest_context;
struct beest_log;

/*
 * Opened if it was not yet; NULL, with its sentence, where that failed.  A failure is logged
 * once, and is that of all later calls.
 */
struct hartebeest_context *beest_default_context(void);

/* The same, but tries again after a failure. */
struct hartebeest_context *beest_default_open(void);

/*
 * For failures of the original's interface alone: native functions log theirs.  True: @ret is
 * one.
 */
bool beest_default_failed(int ret);

/* Where lines go, whether there is a context or not. */
const struct beest_log *beest_default_log(void);

/* True in the process that opened it: a forked child has its parent's. */
bool beest_default_is_own(void);

/* At normal exit, so that no peer finds the records of a process that is gone. */
void beest_default_close(void);

#endif
