/* SPDX-License-Identifier: MIT */
/*
 * relay.h - a proxy in front of Memcached servers, which passes get, add and the like on
 *
 * Owns the process, which ends with the test.  Closes a connection that asks for anything else
 * ("version", "stats"), as twemproxy does.  Each connection leads to the next server in turn, and
 * serves one client at a time.
 */
#ifndef TESTS_RELAY_H
#define TESTS_RELAY_H

#include "tests/support/memcached.h"

struct relay {
	struct beest_hostport endpoint;
	pid_t pid;
};

/* @caches: up to four servers, which NULL ends. */
void relay_start(struct relay *relay, struct cache *const *caches);
void relay_end(struct relay *relay);

#endif
