/* SPDX-License-Identifier: MIT */
/*
 * local.h - makes processes of this machine the ranks of one job
 *
 * Owns the variables of their environment, and a private Memcached server if no server is named,
 * whose socket no other user can reach.  Knows nothing of how ranks are started.
 */
#ifndef TOOLS_LOCAL_H
#define TOOLS_LOCAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "tools/server.h"

struct local {
	/* in */
	const char *name;		/* the beginning of the job's name */
	int count;			/* of ranks */
	bool is_new;			/* always a new job, even if one is named */
	/* kept by local.c */
	struct server server;		/* its pid is 0 if there is none */
};

/*
 * Sets what all ranks share in the environment of this process, which overrides settings
 * files.  Returns a status, after reporting why it is not STATUS_GOOD.  @local is for
 * local_end() after STATUS_GOOD.
 */
int local_begin(struct out *out, struct local *local);

/* Makes this process @rank: sets its variables, and has it killed when @parent ends. */
void local_rank(int rank, pid_t parent);

/* Also ends one that did not begin. */
void local_end(struct local *local);

#endif
