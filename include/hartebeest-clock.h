/* SPDX-License-Identifier: MIT */
/*
 * hartebeest-clock.h - the clock of all deadlines
 *
 * hartebeest.h, which explains deadlines, and hartebeest-post.h include it.
 */
#ifndef HARTEBEEST_CLOCK_H
#define HARTEBEEST_CLOCK_H

#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What precedes inline functions.  The library exports them, too: a generator of bindings defines
 * it as empty, and reads plain prototypes.  Functions named *_init() stay inline, since they know
 * the size of the caller's struct; a binding sets the field size itself, and all others to zero.
 */
#ifndef HARTEBEEST_INLINE
#define HARTEBEEST_INLINE static inline
#endif

/*
 * Deadlines, besides times of hartebeest_clock(); hartebeest.h explains them.  Generators of
 * bindings read literals, but do not know INT64_MAX.
 */
#define HARTEBEEST_DEFAULT 0			/* the option exchange.timeout from now */
#define HARTEBEEST_FOREVER 0x7fffffffffffffffL	/* none */
#define HARTEBEEST_ONCE (-1L)			/* one look, which logs no failure */

/**
 * hartebeest_clock() - nanoseconds of CLOCK_MONOTONIC
 *
 * Calls the library's exported function if <time.h> does not have that clock (-std=c99,
 * -std=c11).
 */
#ifndef CLOCK_MONOTONIC
int64_t hartebeest_clock(void);
#else
HARTEBEEST_INLINE int64_t hartebeest_clock(void)
{
	struct timespec now;
	int64_t seconds;

	clock_gettime(CLOCK_MONOTONIC, &now);
	seconds = now.tv_sec;
	return seconds * 1000000000 + now.tv_nsec;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
