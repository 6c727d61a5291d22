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

/*
 * Leaves room in a Memcached key of 250 bytes.  Ids of launchers that are longer, or have bytes
 * unsafe in a key, are hashed.
 */
#define BEEST_JOB_MAX 64
#define BEEST_JOB_NONE "-"		/* no job id is known */

struct beest_launch {
	int rank;			/* -1: unknown */
	int local_rank;			/* within the node; -1: unknown */
	struct beest_ids participants;	/* count 0: unknown */
	char job[BEEST_JOB_MAX + 1];	/* safe in a key */
	char source[384];		/* "rank 3 of 8 (from SLURM_PROCID), job 4711.0 (...)" */
	/* How two launchers contradict each other, and who may have the same job id; or "" */
	char warning[512];
	char ignored[256];		/* a source that was not believed, and why; or "" */
	char exported[256];		/* a variable of rank that all may have; or "" */
	bool alone;			/* it is the only rank, but another launcher started more */
};

/*
 * -ENODATA: this process would be the only rank, but another launcher has started more, which would
 * then all be alone.
 */
int beest_launch_check(const struct beest_launch *launch);

/*
 * Ends the thread's sentence with what may be the cause of failure @ret here: where rank and job
 * are from, and what was not believed.  Returns @ret.
 */
int beest_launch_hint(const struct beest_launch *launch, int ret);

/*
 * -EINVAL, -ERANGE: a malformed value, with the name of its variable; -EINVAL, -ENAMETOOLONG: an
 * option's job id that does not fit a key; -ENODATA: a launcher that should give rank and size
 * gives a rank only; -ENOENT: the rank is not among the participants; -ENOMEM.  An option that
 * gives a rank only is no error, nor is the lack of both: a program that only uses names needs
 * neither.
 */
int beest_launch_read(struct beest_launch *launch, const struct beest_options *options);
void beest_launch_free(struct beest_launch *launch);

#endif
