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

#ifndef HARTEBEEST_INLINE
#define HARTEBEEST_INLINE static inline
#endif

/*
 * A deadline that allows one look and logs no failure.  -EAGAIN: not there yet; a
 * server's error is returned as it is.
 */
#define HARTEBEEST_ONCE (-1L)

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
