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
	char warning[256];		/* how two launchers contradict each other, or "" */
};

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
