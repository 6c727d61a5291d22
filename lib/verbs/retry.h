/* SPDX-License-Identifier: MIT */
/*
 * retry.h - steps of a device that fail for a moment only
 *
 * Owns which errors may pass by themselves: a neighbour that has not answered yet, a route that is
 * not there yet, a port that is down.  Knows nothing of the steps.
 */
#ifndef BEEST_RETRY_H
#define BEEST_RETRY_H

#include <stdbool.h>

#include "lib/base/clock.h"
#include "lib/base/limit.h"
#include "lib/base/log.h"

/* Between two tries. */
#define BEEST_RETRY_PAUSE (100 * BEEST_MS)

/*
 * Returns -EAGAIN if the error @ret may pass, and @limit allows to try again or is a single look;
 * else @ret, with how long it was tried in the sentence of an error that did not pass.  Logs the
 * sentence of each such error once.
 */
int beest_retry_judge(int ret, const struct beest_limit *limit, const struct beest_log *log);

/*
 * For "do ret = STEP; while (beest_retry(&ret, ...))": judges, and returns true after a pause if
 * the step is to be taken again.  Otherwise *ret is as judged, or -ECANCELED.
 */
bool beest_retry(int *ret, const struct beest_limit *limit, const struct beest_log *log);

/* The same of a step whose error was judged already. */
bool beest_retry_pause(int *ret, const struct beest_limit *limit);

#endif
