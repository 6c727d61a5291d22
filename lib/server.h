/* SPDX-License-Identifier: MIT */
/*
 * server.h - one Memcached server of the list
 *
 * Owns its addresses and the sessions that nobody uses at the moment.  Knows
 * nothing of keys.
 */
#ifndef BEEST_SERVER_H
#define BEEST_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/parse.h"
#include "lib/session.h"

#define BEEST_SERVER_IDLE 32
#define BEEST_SERVER_ADDRESSES 8

struct beest_server {
	char *text;		/* as configured */
	uint64_t hash;		/* of the text; for the caller's choice among servers */
	uint16_t port;		/* 0: a socket path */
	struct beest_address addresses[BEEST_SERVER_ADDRESSES];
	size_t address_count;
	size_t current;		/* the address in use */
	bool proven;		/* it has answered once: the address stays */
	struct beest_session *idle[BEEST_SERVER_IDLE];
};

/* Resolves a name, without bound in time.  -EADDRNOTAVAIL, -ENOMEM. */
int beest_server_open(struct beest_server *server, const struct beest_endpoint *endpoint);

/* Accepts a server that was never opened (all zero). */
void beest_server_close(struct beest_server *server);

/* A session of one's own, for one thread, to be given back.  -ENOMEM. */
int beest_server_take(struct beest_server *server, struct beest_session **session);

/* Keeps a sound one for the next caller; returns what @ret, its last result, means. */
int beest_server_give(struct beest_server *server, struct beest_session *session, int ret);

#endif
