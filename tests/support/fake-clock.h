/* SPDX-License-Identifier: MIT */
/*
 * fake-clock.h - a wait that must fail by its limit takes no time
 *
 * Owns the time that the tested library sees: the machine's, plus what a thread has skipped.
 * A test gives each wait a generous limit, so that a slow machine does not matter, and skips the
 * pauses of waits that nobody will end.  Knows nothing of what is waited for.  A program that
 * uses it is linked with FAKE_CLOCK (Makefile.am).
 */
#ifndef TESTS_FAKE_CLOCK_H
#define TESTS_FAKE_CLOCK_H

#include <stdint.h>

#include "tests/support/memcached.h"

/* From here on, each thread's pauses end at once, and each skips seconds of its own time. */
void fake_clock_hurry(void);

/*
 * Returns to the machine's pace.  From here on, all threads see what the calling thread has
 * skipped, so no other thread may be in the library at that moment.  Returns @ret.
 */
int fake_clock_settle(int ret);

/*
 * Until each of @threads threads has parted, time goes on for all of them alike, by half a second
 * whenever all pause.  So what one rank says each second, the others read each second, however fast
 * the machine is.
 */
void fake_clock_together(int threads);
void fake_clock_part(void);

/* Skips time for this thread, for example in a hook, in a loop that never pauses. */
void fake_clock_skip(int64_t ns);

/* The next pause of this thread takes so much of its time, and none of the machine's. */
void fake_clock_lapse(int64_t ns);

/*
 * How many threads have paused so far.  A thread that has paused has sent all that it had to
 * send, and waits.
 */
int fake_clock_waiting(void);

/* Calls @call, whose waits all end by their limit, with a server that does not answer. */
#define IN_SILENCE(call) (fake_clock_hurry(), fake_clock_settle(call))

/* The same with a server that answers, at the latest in the look after the limit. */
#define IN_VAIN(call) UNTIL_ANSWERED(IN_SILENCE(call))

#endif
