/* SPDX-License-Identifier: MIT */
/*
 * crew.h - many users of the library in one thread, over a clock that jumps
 *
 * Each member is a coroutine with a stack of its own.  It runs until it sleeps (through
 * beest_clock_source, which the back-off uses); then the member that is due first goes on,
 * the one that slept earlier at a tie, and the time jumps to its instant.  So a minute of
 * waiting takes no time, and every run is the same.
 *
 * Knows nothing of what the members do.  They share all of the thread: what a library
 * keeps per thread, such as the sentence of a failure, is the last member's, so it is read
 * before the next sleep.
 *
 * Usual course of a test:
 *
 *	crew_need();
 *	for (i = 0; i < 1024; i++)
 *		crew_start(member, &data[i]);
 *	crew_run();
 */
#ifndef TESTS_CREW_H
#define TESTS_CREW_H

#include <stdint.h>

/* Exits with status 77 and a reason where coroutines cannot work (ThreadSanitizer). */
void crew_need(void);

/* A member that begins at crew_run(), or at once behind the others if that runs already. */
void crew_start(void (*function)(void *data), void *data);

/*
 * Runs until all members have ended; the clock is the crew's meanwhile, and begins where
 * the last run ended.  An assertion that fails in a member ends the test as usual and
 * leaves the others behind: crew_clear() belongs into the teardown then.
 */
void crew_run(void);
void crew_clear(void);

/* That of the member that runs; NULL: none does. */
void *crew_data(void);

/* The crew's time: nanoseconds since the first run, plus a second. */
int64_t crew_now(void);

/* Lets @duration pass for the member that calls, as work or another's doing would. */
void crew_pass(int64_t duration);

#endif
