/* SPDX-License-Identifier: MIT */
/*
 * local.h - what makes processes of this machine the ranks of one job
 *
 * Owns the variables of their environment, and a private server where none is named.  Knows
 * nothing of how they are started.
 */
#ifndef TOOLS_LOCAL_H
#define TOOLS_LOCAL_H

#include <stdbool.h>

#include "tools/out.h"
#include "tools/server.h"

struct local {
	/* in */
	const char *name;		/* the job is called after it */
	int count;			/* of ranks */
	bool is_new;			/* a job of its own, even where one is named */
	/* out */
	struct server server;		/* pid 0: it is another's */
};

/*
 * Puts what all ranks share into the environment of this process, over what settings files
 * say.  Returns a status, after saying why it is not STATUS_GOOD.  For local_end() then.
 */
int local_begin(struct out *out, struct local *local);

/* And what @rank has for itself: for its process. */
void local_rank(int rank);

void local_end(struct local *local);

#endif
