/* SPDX-License-Identifier: MIT */
/*
 * lock.h - a lock that is left however its block ends
 *
 * For functions that return from where they decide, and for code that logs while it holds a lock:
 * the program's callback may throw a C++ exception, which leaves the library's functions without
 * returning from them.  They are compiled with -fexceptions, so that it runs their cleanups.  Owns
 * no lock.
 */
#ifndef BEEST_LOCK_H
#define BEEST_LOCK_H

#include <pthread.h>

/* The last declaration of a block: holds @lock until its end. */
#define BEEST_HOLD(lock)								\
	pthread_mutex_t *held_ __attribute__((cleanup(beest_lock_leave), unused)) =	\
		beest_lock_take(lock)

static inline pthread_mutex_t *beest_lock_take(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);

	return lock;
}

static inline void beest_lock_leave(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}

#endif
