/* SPDX-License-Identifier: MIT */
/*
 * quorum.c - three nodes that start as programs of the original do, at once and minutes apart
 *
 * promise: hartebeest_compat(3)
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hartebeest-c.h"
#include "lib/base/clock.h"
#include "tests/support/fake-clock.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/quorum.h"
#include "tests/support/rank.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

/* The node that is started last. */
#define LATE 2

static char folder[SCRATCH_SIZE];

static int setup(void **state)
{
	(void)state;
	surroundings_clear();
	cache_need();
	scratch_folder(folder, "exchange-quorum");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	quorum_forget(folder);
	return rmdir(folder);
}

static void use_fake(int node, const char *files)
{
	(void)node;
	(void)files;
	unsetenv("HARTEBEEST_DEVICE");	/* of this machine */
	fake_verbs_reset();
	fake_verbs.complete_sends = true;
}

static void at_once(void **state)
{
	const struct quorum quorum = { .folder = folder, .begin = use_fake };

	(void)state;
	quorum_run(&quorum);
}

/* ---------------------------------------------------------------- apart --- */

static bool still_waits(const char *files, int node)
{
	char *text = quorum_printed(files, node);
	bool waits = strstr(text, "warn: still waiting, ") != NULL;

	free(text);
	return waits;
}

/* The last node begins when both others have waited for longer than exchange.timeout. */
static void come_late(int node, const char *files)
{
	int other;

	use_fake(node, files);
	for (other = 0; node == LATE && other < LATE; other++)
		while (!still_waits(files, other))
			pause_ms(5);
}

/* What the other early node has made is there, so the first pause is for the late node. */
static void let_time_pass(int node, const char *files)
{
	(void)files;
	if (node == LATE)
		return;
	EXPECT(hartebeest_memc_push_general(node ? "made-1" : "made-0"));
	EXPECT(hartebeest_memc_wait_general(node ? "made-0" : "made-1"));
	fake_clock_lapse((RANK_PATIENCE_S + 4) * BEEST_SECOND);
}

static void apart(void **state)
{
	const struct quorum quorum = {
		.folder = folder, .begin = come_late, .connect = let_time_pass,
	};

	(void)state;
	quorum_run(&quorum);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_once),
		cmocka_unit_test(apart),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
