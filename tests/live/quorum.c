/* SPDX-License-Identifier: MIT */
/*
 * quorum.c - three nodes that start, work and end as programs of the original do
 *
 * promise: hartebeest_compat(3)
 */
#include "config.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/support/memcached.h"
#include "tests/support/quorum.h"
#include "tests/support/ranks.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

static char folder[SCRATCH_SIZE];

static int setup(void **state)
{
	(void)state;
	scratch_folder(folder, "live-quorum");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	quorum_forget(folder);
	return rmdir(folder);
}

/* Each node writes to both others until the kernel ends it. */
static void three_nodes(void **state)
{
	const struct quorum quorum = { .folder = folder, .device_moves_bytes = true };

	(void)state;
	quorum_run(&quorum);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(three_nodes),
	};

	ranks_need_device();
	cache_need();
	return cmocka_run_group_tests(tests, setup, teardown);
}
