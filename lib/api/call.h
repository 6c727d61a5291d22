/* SPDX-License-Identifier: MIT */
/*
 * call.h - how an exported function begins and ends
 *
 * Each checks its arguments, finds objects by name, delegates, and logs a failure once, as it
 * returns.  Owns the sentences about arguments, and when a misspelt variable is mentioned.
 * Knows nothing of what a function does.
 */
#ifndef BEEST_CALL_H
#define BEEST_CALL_H

#include <stddef.h>

#include "lib/base/limit.h"
#include "lib/base/macro.h"

struct hartebeest_context;

/* Last line: the failure is complete here and nowhere below.  @hb: NULL logs nothing. */
int beest_call_done(const struct hartebeest_context *hb, int ret);

/* The same of a function that waits: a look that was asked for is no failure to report. */
int beest_call_waited(const struct hartebeest_context *hb, const struct beest_limit *limit,
		      int ret);

/* And of one that waits for whatever may come: that nothing came is none either. */
int beest_call_idled(const struct hartebeest_context *hb, const struct beest_limit *limit,
		     int ret);

/* -EINVAL: "FUNCTION(): WHY" */
int beest_call_refuse(const struct hartebeest_context *hb, const char *function,
		      const char *why);

/* Refuses the first argument that is NULL; @names has their names, with commas between. */
int beest_call_check(const struct hartebeest_context *hb, const char *function,
		     const char *names, const void *const *arguments, size_t count);

/*
 * Around a step that opens the device, in what a program may call first: the sentence names
 * @function, since hartebeest_open() has succeeded without a device.
 */
int beest_call_prefix(const char *function, int ret);

/* How long the call may wait.  -EINVAL: a deadline that is none. */
int beest_call_limit(const struct hartebeest_context *hb, const char *function,
		     int64_t deadline, struct beest_limit *limit);

/* These four know hb and, of a function that waits, deadline and limit. */

/* First line of a function that takes pointers: all that are needed. */
#define REQUIRE(...)									\
	do {										\
		const void *const arguments_[] = { __VA_ARGS__ };			\
											\
		if (beest_call_check(hb, __func__, #__VA_ARGS__, arguments_,		\
				     BEEST_COUNT(arguments_)) < 0)			\
			return -EINVAL;							\
	} while (0)

/* The same of a function that waits until its deadline. */
#define REQUIRE_LIMIT(...)								\
	do {										\
		REQUIRE(__VA_ARGS__);							\
		if (beest_call_limit(hb, __func__, deadline, &limit) < 0)		\
			return -EINVAL;							\
	} while (0)

/* A step that the rest of the function needs. */
#define TRY(step)									\
	do {										\
		int try_ = (step);							\
											\
		if (try_ < 0)								\
			return beest_call_done(hb, try_);				\
	} while (0)

/* The same of a function that waits. */
#define TRY_LIMIT(step)									\
	do {										\
		int try_ = (step);							\
											\
		if (try_ < 0)								\
			return beest_call_waited(hb, &limit, try_);			\
	} while (0)

#endif
