/* SPDX-License-Identifier: MIT */
/*
 * server.h - a private memcached
 *
 * Owns its process, its folder, and the guard, a process that ends both once their owner has
 * ended, however that ends.  Knows nothing of who uses the server.
 */
#ifndef TOOLS_SERVER_H
#define TOOLS_SERVER_H

#include <sys/types.h>

#include "tools/out.h"

struct server {
	/* in */
	const char *address;	/* of this host; NULL: a socket that only this user can reach */
	int port;		/* at the address; 0: a free one.  Out: the one it has */
	int connections, megabytes, threads;
	int backlog;		/* connections that may wait to be accepted */
	const char *leftover;	/* a file that ends with the owner, too; NULL: none */
	/* out */
	pid_t pid;		/* of the guard, which ends with the server; 0: there is none */
	char name[108];		/* for HARTEBEEST_EXC_IP_PORT; as long as a socket's path may be */
	/* kept by server.c */
	int guard;		/* a socket with its errors; the server ends once it is closed */
	char folder[96];	/* "": none */
	int place, inside;	/* where the folder is, and the folder itself, by descriptor */
};

/*
 * What ranks need: connections, one and a second while a rank waits; memory for the records of a
 * rank in a mesh, and for those of a pair of ranks that are connected by themselves.
 */
#define SERVER_RANK_CONNECTIONS 2
#define SERVER_RANK_BYTES 2048
#define SERVER_PAIR_BYTES 512

/* Descriptors of memcached besides its connections. */
#define SERVER_SPARE_FILES 32

/*
 * The numbers of a server that suffices for this many ranks with room to spare, but not for a
 * record of each pair of more than 1448 ranks.
 */
int server_connections(int64_t ranks);
int server_megabytes(int64_t ranks);
int server_threads(int64_t ranks);

/* All ranks may connect at the same moment. */
int server_backlog(int64_t ranks);

/* Returns a status, after reporting why it is not STATUS_GOOD. */
int server_start(struct out *out, struct server *server);

/* To be called when waitpid(2) returned server.pid and @status. */
void server_ended(struct server *server, int status);

/* Also ends one that did not start, or that has ended.  Afterwards nothing listens there. */
void server_end(struct server *server);

#endif
