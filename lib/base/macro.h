/* SPDX-License-Identifier: MIT */
/*
 * macro.h - the few macros that every file may use
 *
 * Owns nothing at run time.  Knows nothing of verbs, Memcached or the context.
 */
#ifndef BEEST_MACRO_H
#define BEEST_MACRO_H

#include <stddef.h>

#define BEEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define BEEST_MIN(a, b) ((a) < (b) ? (a) : (b))
#define BEEST_MAX(a, b) ((a) > (b) ? (a) : (b))

#define BEEST_CONTAINER(pointer, type, member) \
	((type *)((char *)(pointer) - offsetof(type, member)))

#define BEEST_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Of a key, in bytes: the limit of Memcached. */
#define BEEST_KEY_MAX 250

/*
 * What must hold of the library's own state, whatever the program and the network do:
 * checked in builds of configure --enable-invariants, which abort, and absent elsewhere.
 */
#ifdef BEEST_INVARIANTS
#define BEEST_INVARIANT(condition) ((condition) ? (void)0 : __builtin_abort())
#else
#define BEEST_INVARIANT(condition) ((void)sizeof(!(condition)))
#endif

/* Everything else is hidden by -fvisibility=hidden and lib/libhartebeest.sym. */
#define HARTEBEEST_EXPORT __attribute__((visibility("default")))

#endif
