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

#define HARTEBEEST_INLINE HARTEBEEST_EXPORT
#include "include/hartebeest-post.h"
