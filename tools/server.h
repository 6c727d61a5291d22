/* SPDX-License-Identifier: MIT */
/*
 * server.h - a Memcached server of this process's own
 *
 * Owns the process, its socket and the folder of that, which no other user can enter.  The
 * server ends with this process, however that ends.  Knows nothing of ranks.
 */
#ifndef TOOLS_SERVER_H
#define TOOLS_SERVER_H

#include <sys/types.h>

#include "tools/out.h"

struct server {
	pid_t pid;		/* 0: there is none */
	char folder[64];
	char socket[80];	/* as HARTEBEEST_EXC_IP_PORT has it */
};

/*
 * For so many ranks.  Returns a status: STATUS_FAILED after it said why.  Accepts one that
 * was not started.
 */
int server_start(struct out *out, struct server *server, int ranks);
void server_end(struct server *server);

#endif
