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

/* The longest key that Memcached takes, in bytes. */
#define BEEST_KEY_MAX 250

/*
 * A condition on the library's own state that holds whatever the program and the network do.
 * Builds of configure --enable-invariants check it and abort; other builds omit the check.
 */
#ifdef BEEST_INVARIANTS
#define BEEST_INVARIANT(condition) ((condition) ? (void)0 : __builtin_abort())
#else
#define BEEST_INVARIANT(condition) ((void)sizeof(!(condition)))
#endif

/* -fvisibility=hidden and lib/libhartebeest.sym hide everything else. */
#define HARTEBEEST_EXPORT __attribute__((visibility("default")))

#endif
