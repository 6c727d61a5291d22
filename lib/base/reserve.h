/* SPDX-License-Identifier: MIT */
/*
 * reserve.h - keeps descriptors 0 to 2 for the program
 *
 * A program may have closed its standard streams.  Whatever is opened next then gets the lowest
 * free number: printf(3) would send commands to a Memcached server, and the log's lines, too.  So
 * each call that opens a descriptor, of this library or another, runs while placeholders have
 * those of the three that the program left closed.
 *
 * Owns the placeholders, which behave as a closed descriptor does: nothing can be written, and
 * reading gives the end of a file.  They are gone when the call returns.  Knows nothing of what
 * is opened.
 */
#ifndef BEEST_RESERVE_H
#define BEEST_RESERVE_H

/* Around calls that open descriptors.  May be nested; keep errno. */
void beest_reserve_begin(void);
void beest_reserve_end(void);

/* The same around an expression, which becomes the value. */
#define BEEST_RESERVED(expression)							\
	__extension__ ({								\
		__typeof__(expression) result_;						\
											\
		beest_reserve_begin();							\
		result_ = (expression);							\
		beest_reserve_end();							\
		result_;								\
	})

#endif
