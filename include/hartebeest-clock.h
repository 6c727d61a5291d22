/* SPDX-License-Identifier: MIT */
/*
 * hartebeest-clock.h - the clock of all deadlines
 *
 * Included by hartebeest.h, which says what a deadline may be, and hartebeest-post.h.
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
 * A deadline: one look, and no line in the log.  -EAGAIN: not there yet; an error of the server
 * comes as it is.
 */
#define HARTEBEEST_ONCE (-1L)

/**
 * hartebeest_clock() - nanoseconds of CLOCK_MONOTONIC
 *
 * Where <time.h> has no such clock (-std=c99, -std=c11),
 * the library's own function is called.
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
