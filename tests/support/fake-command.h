/* SPDX-License-Identifier: MIT */
/*
 * fake-command.h - hartebeest(1) over the fake verbs, in a separate process
 *
 * Owns how such a test begins, and the form of a refusal.  Knows nothing of what the command
 * does.
 */
#ifndef TESTS_FAKE_COMMAND_H
#define TESTS_FAKE_COMMAND_H

#include <stdlib.h>
#include <string.h>

#include "tests/support/fake-verbs.h"
#include "tests/support/talk.h"
#include "tests/support/unit.h"
#include "tools/command.h"

/* Clears the environment, resets the device, and puts @talk on pipes. */
static inline void fake_command_reset(struct talk *talk)
{
	surroundings_clear();
	fake_verbs_reset();
	memset(talk, 0, sizeof(*talk));
	talk->program = command_main;
}

/* Fails the test unless the command said @text on stderr and printed nothing else. */
static inline void fake_command_refuses(const struct talk *talk, const char *text)
{
	talk_complains(talk, text);
	assert_string_equal(talk->out, "");
}

#endif
