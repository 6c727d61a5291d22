/* SPDX-License-Identifier: MIT */
/*
 * failure.h - who has given up, and why
 *
 * Whoever gives up says so in its presence, which is read by those who know it, and under
 * one key of the job, which all read that wait.  What is stored there may be of a former
 * run: it counts for whom it names, which are those who were there when it was written, and
 * for whoever has looked there before.
 *
 * Owns that key and its record.  Knows nothing of what is waited for.
 */
#ifndef BEEST_FAILURE_H
#define BEEST_FAILURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/kv/kv.h"
#include "lib/rendezvous/record.h"

struct beest_registry;
struct beest_wait;

struct beest_failure {
	char key[BEEST_KEY_MAX + 1];
	size_t server;
	/* under the registry's lock */
	bool looked;
	struct beest_incarnation found;		/* at the first look; zeros: nobody */
};

void beest_failure_open(struct beest_registry *registry);

/*
 * Tells all who wait, now and later, or without a rank those who wait for what this process has
 * published: a second at most.  A text that is longer than BEEST_REASON_MAX - 1 is cut.  Errors of
 * beest_wait_run().
 */
int beest_failure_say(struct beest_registry *registry, const char *text);

/* What was read there.  -ECONNABORTED: a rank of this run has failed. */
int beest_failure_judge(struct beest_registry *registry, const struct beest_kv_value *value);

#endif
