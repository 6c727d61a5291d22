/* SPDX-License-Identifier: MIT */
/*
 * post.c - real symbols for the inline functions of hartebeest-post.h
 *
 * Owns nothing.  For dlopen(3) and foreign-function interfaces, which cannot use inline
 * functions.
 */
#include "config.h"

#include "lib/base/macro.h"

/* The definitions in the header are their own prototypes. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* A stack canary takes up to a third of the time of a post, and there is no array to overrun. */
#define HARTEBEEST_INLINE HARTEBEEST_EXPORT BEEST_UNPROTECTED
#include "include/hartebeest-post.h"
