/* SPDX-License-Identifier: MIT */
/*
 * failure.h - who has given up, and why
 *
 * A rank that gives up says so in its presence, for those that know it, and under one key
 * of the job, which all waiting ranks read.  The record under that key may be a leftover
 * of an earlier run.  So it counts only for the processes that it names, which were there
 * when it was written, for those that certainly began before it, for those that find its
 * author alive, and for a process that has found another record, or none, at its first look.
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
	int64_t began;			/* when this run did, by beest_process_clock(), or later */
	/* under the registry's lock */
	bool looked;
	struct beest_incarnation found;		/* author of a leftover then; zeros: none */
};

void beest_failure_open(struct beest_registry *registry);

/*
 * Tells all ranks that wait, now or later; without a rank, only those that wait for what
 * this process has published.  Takes a second at most.  Of @text less than
 * BEEST_REASON_MAX bytes are kept.  Errors of beest_wait_run().
 */
int beest_failure_say(struct beest_registry *registry, const char *text);

/* Judges what was read there.  -ECONNABORTED: a rank of this run has failed. */
int beest_failure_judge(struct beest_registry *registry, const struct beest_kv_value *value);

#endif
