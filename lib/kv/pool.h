/* SPDX-License-Identifier: MIT */
/*
 * pool.h - one Memcached server of the list
 *
 * Owns its addresses and the sessions that nobody uses at the moment.  Knows
 * nothing of keys.
 */
#ifndef BEEST_POOL_H
#define BEEST_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/parse.h"
#include "lib/kv/memcached.h"

#define BEEST_POOL_IDLE 32
#define BEEST_POOL_ADDRESSES 8

struct beest_pool {
	char *text;		/* as configured */
	uint16_t port;		/* 0: a socket path */
	struct beest_memcached_address addresses[BEEST_POOL_ADDRESSES];
	size_t address_count;
	size_t current;		/* the address in use */
	bool proven;		/* it has answered once: the address stays */
	struct beest_memcached *idle[2][BEEST_POOL_IDLE];	/* plain ones, buffering ones */
};

/* Resolves a name, without bound in time.  -EADDRNOTAVAIL, -ENOMEM. */
int beest_pool_open(struct beest_pool *server, const struct beest_hostport *endpoint);

/* Accepts a server that was never opened (all zero). */
void beest_pool_close(struct beest_pool *server);

/*
 * A session for one caller alone, to be given back.  One that buffers never becomes one
 * that does not.  -ENOMEM.
 */
int beest_pool_take(struct beest_pool *server, bool buffering,
		    struct beest_memcached **session);

/* Keeps a sound one for the next caller; returns what @ret, its last result, means. */
int beest_pool_give(struct beest_pool *server, struct beest_memcached *session, int ret);

/* The address in use now. */
const struct beest_memcached_address *beest_pool_address(const struct beest_pool *server);

#endif
