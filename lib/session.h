/* SPDX-License-Identifier: MIT */
/*
 * session.h - one connection to one Memcached server
 *
 * Owns a libmemcached handle and everything that must be done around it: all
 * signals blocked, the time left as its timeout, and what its codes mean.  One
 * caller at a time; never used in another process than the one that made it.
 * The only file that knows libmemcached: another client library fits here.
 */
#ifndef BEEST_SESSION_H
#define BEEST_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/exchange.h"
#include "lib/login.h"

struct beest_session;

/* No read or write of an attempt takes longer than this, whatever the deadline. */
#define BEEST_ATTEMPT_MS 1000

struct beest_address {
	char host[256];		/* numeric, or the path of a socket */
	uint16_t port;		/* 0: a socket */
	char label[600];	/* for sentences: as configured, and where a name led */
	const struct beest_login *login;	/* NULL: none */
};

/* -ENOSYS when libmemcached was built without SASL. */
int beest_session_login_check(const struct beest_login *login);

/*
 * @address outlives the session.  Connects with the first request.  NULL: no memory, or
 * libmemcached refuses address, setting or login.
 */
struct beest_session *beest_session_new(const struct beest_address *address);
void beest_session_free(struct beest_session *session);
const struct beest_address *beest_session_address(const struct beest_session *session);

/* False after any failure: its connection may hold an answer that came late. */
bool beest_session_sound(const struct beest_session *session);

/* False in a child of the process that made it. */
bool beest_session_own(const struct beest_session *session);

/*
 * For such a child: freeing would say "quit" on the parent's connection.  The memory
 * stays reachable for the sake of leak checkers.
 */
void beest_session_forget(struct beest_session *session);

/* Errors of exchange.h.  Keys have been checked. */
int beest_session_put(struct beest_session *session, const char *key,
		      const void *value, size_t size, int64_t ttl, int64_t deadline);
int beest_session_add(struct beest_session *session, const char *key,
		      const void *value, size_t size, int64_t ttl, int64_t deadline);
int beest_session_delete(struct beest_session *session, const char *key, int64_t deadline);

/* Sends the request for all @keys, whose answers are then to be collected. */
int beest_session_ask(struct beest_session *session, const char *const *keys,
		      const size_t *lengths, size_t count, int64_t deadline);

/* The answer for keys[i] goes to values[where[i]]. */
int beest_session_collect(struct beest_session *session, const char *const *keys,
			  const size_t *lengths, const size_t *where, size_t count,
			  struct beest_value *values, int64_t deadline);

#endif
