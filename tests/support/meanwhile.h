/* SPDX-License-Identifier: MIT */
/*
 * meanwhile.h - what another thread does between two steps of the library
 *
 * Between two steps of one thread, another may come in.  This header makes that happen at a chosen
 * point: when the library has released any lock for the n-th time, another thread calls the test's
 * function, unless the lock that this function needs is held.  Trying all n shows all orders of
 * the two threads' steps, in every run.  Only for one file of a program that is linked with
 * -Wl,--wrap=pthread_mutex_unlock.
 *
 * 	for (n = 1; ; n++) {
 * 		...
 * 		meanwhile_begin(n, destroy_it, &hb->objects.lock);
 * 		ret = hartebeest_...();
 * 		if (!meanwhile_end())
 * 			break;
 * 		... the outcome of both
 * 	}
 */
#ifndef TESTS_MEANWHILE_H
#define TESTS_MEANWHILE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

static struct {
	int nth;			/* releases still to go; 0: none is chosen */
	void (*act)(void);
	pthread_mutex_t *lock;		/* that act() needs */
	bool reached;			/* the n-th release came */
} meanwhile;

static void *meanwhile_other(void *data)
{
	if (pthread_mutex_trylock(meanwhile.lock) != 0)
		return data;
	__real_pthread_mutex_unlock(meanwhile.lock);
	meanwhile.act();
	return data;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
	int ret = __real_pthread_mutex_unlock(lock);
	pthread_t other;

	if (meanwhile.nth && --meanwhile.nth == 0) {
		meanwhile.reached = true;
		if (pthread_create(&other, NULL, meanwhile_other, NULL) == 0)
			pthread_join(other, NULL);
	}
	return ret;
}

static inline void meanwhile_begin(int nth, void (*act)(void), pthread_mutex_t *lock)
{
	meanwhile.reached = false;
	meanwhile.act = act;
	meanwhile.lock = lock;
	meanwhile.nth = nth;
}

/* False: there were fewer releases. */
static inline bool meanwhile_end(void)
{
	meanwhile.nth = 0;
	return meanwhile.reached;
}

#endif
