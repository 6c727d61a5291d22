/* SPDX-License-Identifier: MIT */
/*
 * launch.h - who am I, how many are we, and which run is this?
 *
 * Owns the table of launchers (Slurm, Open MPI, torchrun, ...) and their variables.
 * Options win over launchers.  Knows nothing of the exchange: it fills a struct.
 */
#ifndef BEEST_LAUNCH_H
#define BEEST_LAUNCH_H

#include "lib/settings/options.h"
#include "lib/base/parse.h"

/* Room in a 250-byte Memcached key; longer or unprintable ids are hashed. */
#define BEEST_JOB_MAX 64
#define BEEST_JOB_NONE "-"		/* where nobody names one */

struct beest_launch {
	int rank;			/* -1: unknown */
	int local_rank;			/* among those of the node; -1: unknown */
	struct beest_ids participants;	/* count 0: unknown */
	char job[BEEST_JOB_MAX + 1];	/* safe in a key */
	char source[384];		/* "rank 3 of 8 (from SLURM_PROCID), job 4711.0 (...)" */
	char warning[256];		/* two launchers contradict each other; or "" */
};

/*
 * -EINVAL or -ERANGE for a malformed value, naming the variable, and for a job id with
 * bytes no key can hold; -ENAMETOOLONG for a long one; -ENODATA when a launcher of ranks
 * gives a rank but no size; -ENOENT when the rank is not among the participants.  A rank
 * alone, or nothing at all, is not an error: names may be enough.
 */
int beest_launch_read(struct beest_launch *launch, const struct beest_options *options);
void beest_launch_free(struct beest_launch *launch);

#endif
