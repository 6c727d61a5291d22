/* SPDX-License-Identifier: MIT */
/*
 * fake-clock.h - a wait that must fail by its limit takes no time
 *
 * Owns the time that the library under test sees: the machine's, plus what a thread has
 * skipped.  A test gives each wait a generous limit, so that a slow machine changes
 * nothing, and skips the pauses of those waits that nobody will end.  Knows nothing of
 * what is waited for.  A program that uses it is linked with FAKE_CLOCK (Makefile.am).
 */
#ifndef TESTS_FAKE_CLOCK_H
#define TESTS_FAKE_CLOCK_H

#include <errno.h>
#include <stdint.h>

/* Each thread's pauses end at once from here on, and each skips seconds of its own time. */
void fake_clock_hurry(void);

/*
 * Back to the machine's pace.  All threads see from here on what the calling one has
 * skipped, so no other thread may be in the library at that moment.  Returns @ret.
 */
int fake_clock_settle(int ret);

/* This thread's time jumps: what a hook does to a loop that never pauses. */
void fake_clock_skip(int64_t ns);

/*
 * How many threads have paused so far: one that has paused has sent what it had to send,
 * and waits.
 */
int fake_clock_waiting(void);

/* What @call returns when all its waits end by their limit, at a server that does not answer. */
#define IN_SILENCE(call) (fake_clock_hurry(), fake_clock_settle(call))

/*
 * The same at a server that answers.  The look behind the limit has a quarter of a second, in
 * which a busy one may not come to it: then it is called again.
 */
#define IN_VAIN(call)								\
	({									\
		int ret_, tries_ = 0;						\
										\
		do								\
			ret_ = IN_SILENCE(call);				\
		while (ret_ == -EHOSTDOWN && tries_++ < 100);			\
		ret_;								\
	})

#endif
