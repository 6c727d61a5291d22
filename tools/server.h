/* SPDX-License-Identifier: MIT */
/*
 * server.h - a private Memcached server
 *
 * Owns the server, its socket and the socket's folder, which no other user can enter.  All
 * three end with this process, however that ends.  Knows nothing of ranks but their number.
 */
#ifndef TOOLS_SERVER_H
#define TOOLS_SERVER_H

#include <sys/types.h>

#include "tools/out.h"

struct server {
	pid_t pid;		/* of a process that ends with the server; 0: none */
	char socket[108];	/* for HARTEBEEST_EXC_IP_PORT; as long as a socket's path may be */
	/* kept by server.c */
	int pipe;		/* the server runs while it is open */
	char folder[96];	/* "": none */
};

/*
 * Starts a server for @ranks ranks, in a folder of TMPDIR, or of /tmp if TMPDIR is too long for
 * the path of a socket.  Returns a status, after reporting why it is not STATUS_GOOD.
 */
int server_start(struct out *out, struct server *server, int ranks);

/* Accepts a server that was not started, if its struct is zeroed. */
void server_end(struct server *server);

#endif
