/* SPDX-License-Identifier: MIT */
/*
 * logged.h - what a context of this test has logged
 *
 * Owns the text: a line "LEVEL SENTENCE" for each message, oldest first.  What does not fit is
 * lost.  The test empties it.
 */
#ifndef TESTS_LOGGED_H
#define TESTS_LOGGED_H

#include <stdio.h>
#include <string.h>

static char logged[16384];

/* For hartebeest_log_set() and struct beest_log. */
static inline void logged_keep(void *data, int level, const char *text)
{
	size_t used = strlen(logged);

	(void)data;
	snprintf(logged + used, sizeof(logged) - used, "%d %s\n", level, text);
}

#endif
