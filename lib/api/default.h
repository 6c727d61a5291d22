/* SPDX-License-Identifier: MIT */
/*
 * default.h - the one context of the original's functions
 *
 * Owns the context from the first call that needs it until the process ends, when only its records
 * go.  Also owns its defaults, and the failure to open it, which is logged once and is that of all
 * later calls until hartebeest_init().  hartebeest_default_context() returns it.  Knows nothing of
 * its use.
 */
#ifndef BEEST_DEFAULT_H
#define BEEST_DEFAULT_H

#include <stdbool.h>

struct beest_log;

/*
 * Logs a failure of the original's functions themselves, since native functions log their own.
 * True: @ret is a failure.
 */
bool beest_default_failed(int ret);

/* The log of the context, or the one used until there is a context. */
const struct beest_log *beest_default_log(void);

/* False in a forked child, which has its parent's context. */
bool beest_default_is_own(void);

#endif
