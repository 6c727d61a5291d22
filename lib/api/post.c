/* SPDX-License-Identifier: MIT */
/*
 * post.c - real symbols for the inline functions of hartebeest-post.h
 *
 * Owns nothing: dlopen and foreign-function users find here what C and C++ users
 * get inline.
 */
#include "config.h"

#include "lib/base/macro.h"

/* The definitions in the header are their own prototypes. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* A stack canary costs as much as a third of a post, and there is no array to overrun. */
#define HARTEBEEST_INLINE HARTEBEEST_EXPORT BEEST_UNPROTECTED
#include "include/hartebeest-post.h"
