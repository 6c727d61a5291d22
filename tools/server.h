/* SPDX-License-Identifier: MIT */
/*
 * server.h - a Memcached server of this process's own
 *
 * Owns the server, its socket and the folder of that, which no other user can enter.  All
 * three end with this process, however that ends.  Knows nothing of ranks.
 */
#ifndef TOOLS_SERVER_H
#define TOOLS_SERVER_H

#include <sys/types.h>

#include "tools/out.h"

struct server {
	pid_t pid;		/* ends when the server does; 0: there is none */
	char socket[108];	/* as HARTEBEEST_EXC_IP_PORT has it; no path may be longer */
	/* kept by server.c */
	int pipe;		/* the server runs while it is open */
	char folder[96];	/* "": there is none */
};

/*
 * For so many ranks, in a folder of TMPDIR, or of /tmp where that is too long for the path of
 * a socket.  Returns a status: STATUS_FAILED after it said why.
 */
int server_start(struct out *out, struct server *server, int ranks);

/* Accepts one that was not started. */
void server_end(struct server *server);

#endif
