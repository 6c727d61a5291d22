/* SPDX-License-Identifier: MIT */
/*
 * options.h - the settings of the library, for people
 *
 * Owns the meaning of their numbers in words.  Knows the library's table of options, but not
 * how options are used.
 */
#ifndef TOOLS_OPTIONS_H
#define TOOLS_OPTIONS_H

#include <hartebeest.h>

#include "tools/out.h"

/* A part: the settings that differ from their defaults, and a warning for unknown variables. */
void options_show_given(struct out *out, const struct hartebeest_context *hb);

/* All settings, with a part for each section. */
void options_show_all(struct out *out, const struct hartebeest_context *hb);

/* Warns of unknown HARTEBEEST_ variables, each with the nearest known one. */
void options_unknown_line(struct out *out);

#endif
