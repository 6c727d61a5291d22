/* SPDX-License-Identifier: MIT */
/*
 * options.h - the settings of the library, for people
 *
 * Owns what their numbers mean.  Knows the library's table of options, and nothing of
 * their use.
 */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include <hartebeest.h>

#include "tools/out.h"

/* What somebody has set, and variables that nobody knows: a part. */
void options_show_given(struct out *out, const struct hartebeest_context *hb);

/* All of them: a part a section. */
void options_show_all(struct out *out, const struct hartebeest_context *hb);

/* A warning for unknown HARTEBEEST_ variables, each with the nearest known one. */
void options_unknown_line(struct out *out);

#endif
