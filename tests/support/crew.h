/* SPDX-License-Identifier: MIT */
/*
 * crew.h - many users of the library in one thread, over a clock that jumps
 *
 * Each member is a coroutine with its own stack.  It runs until it sleeps (by
 * beest_clock_source, which the back-off uses).  Then the member that is due first continues,
 * at a tie the one that went to sleep first, and time jumps to its instant.  So a minute of
 * waiting takes no time, and every run is the same.
 *
 * Knows nothing of what the members do.  They share the thread: data that the library keeps per
 * thread, such as the sentence of a failure, is that of the last member that ran.  So read it
 * before the next sleep.
 *
 * Usual course of a test:
 *
 * 	crew_need();
 * 	for (i = 0; i < 1024; i++)
 * 		crew_start(member, &data[i]);
 * 	crew_run();
 */
#ifndef TESTS_CREW_H
#define TESTS_CREW_H

#include <stdint.h>

/* Exits with status 77 and a reason if coroutines cannot work (ThreadSanitizer). */
void crew_need(void);

/* The member begins at crew_run(); if that already runs, at once, behind the others. */
void crew_start(void (*function)(void *data), void *data);

/*
 * Runs until all members have ended.  Meanwhile the clock is the crew's, which starts where the
 * last run ended.  A failed assertion in a member ends the test as usual and leaves the other
 * members behind, so call crew_clear() in the teardown.
 */
void crew_run(void);
void crew_clear(void);

/* The data of the running member; NULL if none runs. */
void *crew_data(void);

/* The crew's time in ns; the first run starts at 100 years. */
int64_t crew_now(void);

/* Lets @duration pass for the calling member, as if it worked. */
void crew_pass(int64_t duration);

#endif
