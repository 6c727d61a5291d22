/* SPDX-License-Identifier: MIT */
/*
 * clock-step.h - a time of day that a test sets, as NTP or an administrator does
 *
 * Defines time(2) of the program, and so that of the library.  Nothing there may depend on it but
 * what is shown to people (scripts/check-clocks).
 */
#ifndef TESTS_CLOCK_STEP_H
#define TESTS_CLOCK_STEP_H

#include <time.h>

/* How many seconds this process's clock is ahead; children inherit it. */
static time_t clock_step;

time_t time(time_t *result)
{
	struct timespec now;
	time_t seconds;

	clock_gettime(CLOCK_REALTIME, &now);
	seconds = now.tv_sec + clock_step;
	if (result)
		*result = seconds;
	return seconds;
}

#endif
