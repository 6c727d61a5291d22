/* SPDX-License-Identifier: MIT */
/*
 * default.h - the one context of the original's functions
 *
 * Owns it from the first call that needs it until the process ends, its presets, and what is
 * said when it cannot be opened: a failure is logged once, and is that of all later calls.
 * hartebeest_default_context() hands it out.  Knows nothing of what is done with it.
 */
#ifndef BEEST_DEFAULT_H
#define BEEST_DEFAULT_H

#include <stdbool.h>

struct beest_log;

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
