/* SPDX-License-Identifier: MIT */
/*
 * call.h - how an exported function begins and ends
 *
 * An exported function checks its arguments, finds objects by name, delegates, and logs a failure
 * once, as it returns.  Owns the sentences about arguments, and decides when a sentence mentions
 * a misspelt variable.  Knows nothing of what a function does.
 */
#ifndef BEEST_CALL_H
#define BEEST_CALL_H

#include <stddef.h>

#include "lib/base/limit.h"
#include "lib/base/macro.h"

struct hartebeest_context;

/* Last line of a function, where a failure's sentence is complete.  Logs it unless @hb is NULL. */
int beest_call_done(const struct hartebeest_context *hb, int ret);

/* The same for a function that waits: logs neither a failed single look nor a cancelled wait. */
int beest_call_waited(const struct hartebeest_context *hb, const struct beest_limit *limit,
		      int ret);

/* The same for one that waits for whatever may arrive: does not log a timeout either. */
int beest_call_idled(const struct hartebeest_context *hb, const struct beest_limit *limit,
		     int ret);

/* -EINVAL: "FUNCTION(): WHY" */
int beest_call_refuse(const struct hartebeest_context *hb, const char *function,
		      const char *why);

/* -EINVAL for the first argument that is NULL.  @names: of all, separated by commas. */
int beest_call_check(const struct hartebeest_context *hb, const char *function,
		     const char *names, const void *const *arguments, size_t count);

/*
 * Wraps a step that opens the device, in functions that a program may call first: the sentence
 * of a failure names @function, since hartebeest_open() has succeeded without a device.
 */
int beest_call_prefix(const char *function, int ret);

/* Sets how long the call may wait.  -EINVAL: the deadline is invalid. */
int beest_call_limit(const struct hartebeest_context *hb, const char *function,
		     int64_t deadline, struct beest_limit *limit);

/* These four use the variables hb and, in a function that waits, deadline and limit. */

/* First line of a function: the pointers that must not be NULL. */
#define REQUIRE(...)									\
	do {										\
		const void *const arguments_[] = { __VA_ARGS__ };			\
											\
		if (beest_call_check(hb, __func__, #__VA_ARGS__, arguments_,		\
				     BEEST_COUNT(arguments_)) < 0)			\
			return -EINVAL;							\
	} while (0)

/* The same for a function that waits until its deadline. */
#define REQUIRE_LIMIT(...)								\
	do {										\
		REQUIRE(__VA_ARGS__);							\
		if (beest_call_limit(hb, __func__, deadline, &limit) < 0)		\
			return -EINVAL;							\
	} while (0)

/* A step without which the function fails. */
#define TRY(step)									\
	do {										\
		int try_ = (step);							\
											\
		if (try_ < 0)								\
			return beest_call_done(hb, try_);				\
	} while (0)

/* The same for a function that waits. */
#define TRY_LIMIT(step)									\
	do {										\
		int try_ = (step);							\
											\
		if (try_ < 0)								\
			return beest_call_waited(hb, &limit, try_);			\
	} while (0)

#endif
