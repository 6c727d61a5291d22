/* SPDX-License-Identifier: MIT */
/*
 * pause.h - a test lets time pass
 *
 * The sleep has its full length, however often tests/support/timer.h interrupts it.
 */
#ifndef TESTS_PAUSE_H
#define TESTS_PAUSE_H

#include <errno.h>
#include <time.h>

static inline void pause_us(long us)
{
	struct timespec left = { us / 1000000, us % 1000000 * 1000 };

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static inline void pause_ms(long ms)
{
	pause_us(ms * 1000);
}

#endif
