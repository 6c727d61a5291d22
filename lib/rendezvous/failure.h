/* SPDX-License-Identifier: MIT */
/*
 * failure.h - who has given up, and why
 *
 * A rank that gives up stores that in its presence, for those that know it, and under one key
 * of the job, which all waiting ranks read.  The record under that key may be a leftover
 * of an earlier run.  So it counts only for the processes that it names, which were there
 * when it was written, for those that certainly began before it, for those that find its
 * author alive, and for a process that has found another record, or none, at its first look.
 *
 * Owns that key and its record.  Knows nothing of what is waited for.
 */
#ifndef BEEST_FAILURE_H
#define BEEST_FAILURE_H

#include "lib/rendezvous/registry.h"

/*
 * Puts the presence of this rank, which has failed, and the record for all ranks, if it has a rank.
 * Asks a server for the time and who is there, for half a second at most.
 */
int beest_failure_put(struct beest_registry *registry, const char *text);

/* Judges what was read there.  -ECONNABORTED: a rank of this run has failed. */
int beest_failure_judge(struct beest_registry *registry, const struct beest_kv_value *value);

#endif
