/* SPDX-License-Identifier: MIT */
/*
 * relay.h - a proxy in front of Memcached servers, which passes get, add and the like on
 *
 * Owns the process, which ends with the test.  Closes a connection that asks for anything else
 * ("version", "stats"), as twemproxy does.  Each connection leads to the next server in turn, and
 * serves one client at a time.  Loses the answer to one request, if told to.
 */
#ifndef TESTS_RELAY_H
#define TESTS_RELAY_H

#include "tests/support/memcached.h"

struct relay_loss;

struct relay {
	struct beest_hostport endpoint;
	pid_t pid;
	struct relay_loss *loss;	/* shared with the process */
};

/* @caches: up to four servers, which NULL ends. */
void relay_start(struct relay *relay, struct cache *const *caches);
void relay_end(struct relay *relay);

/*
 * Has the answer to the next request with @words lost: relay_await_loss() returns when the server
 * has given it, and relay_lose() closes the client's connection.
 */
void relay_expect(struct relay *relay, const char *words);
void relay_await_loss(struct relay *relay);
void relay_lose(struct relay *relay);

#endif
