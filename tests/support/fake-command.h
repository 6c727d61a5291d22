/* SPDX-License-Identifier: MIT */
/*
 * fake-command.h - hartebeest(1) over the fake verbs, in a process of its own
 *
 * Owns how a test of it begins, and what a refusal looks like.  Knows nothing of what the
 * command does.
 */
#ifndef TESTS_FAKE_COMMAND_H
#define TESTS_FAKE_COMMAND_H

#include <stdlib.h>
#include <string.h>

#include "tests/support/fake-verbs.h"
#include "tests/support/talk.h"
#include "tests/support/unit.h"
#include "tools/command.h"

/* No environment, the preset device, and @talk on pipes. */
static inline void fake_command_reset(struct talk *talk)
{
	clearenv();
	fake_verbs_reset();
	memset(talk, 0, sizeof(*talk));
	talk->program = command_main;
}

/* Fails the test where it did not say @text, or printed anything beside it. */
static inline void fake_command_refuses(const struct talk *talk, const char *text)
{
	talk_complains(talk, text);
	assert_string_equal(talk->out, "");
}

#endif
