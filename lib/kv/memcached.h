/* SPDX-License-Identifier: MIT */
/*
 * memcached.h - one connection to one Memcached server
 *
 * Owns a libmemcached handle and everything that must be done around it: all
 * signals blocked, the time left as its timeout, and what its codes mean.  One
 * caller at a time; never used in another process than the one that made it.
 * The only file that knows libmemcached: another client library fits here.
 */
#ifndef BEEST_MEMCACHED_H
#define BEEST_MEMCACHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/kv/kv.h"
#include "lib/kv/login.h"

struct beest_memcached;

struct beest_memcached_address {
	char host[256];		/* numeric, or the path of a socket */
	uint16_t port;		/* 0: a socket */
	char label[600];	/* for sentences: as configured, and where a name led */
	const struct beest_login *login;	/* NULL: none */
};

/* -ENOSYS when libmemcached was built without SASL. */
int beest_memcached_login_check(const struct beest_login *login);

/*
 * @address outlives the session.  Connects with the first request.  A buffering one is for
 * requests that are not ANSWERED, the others are for the rest.  NULL: no memory, or
 * libmemcached refuses address, setting or login.
 */
struct beest_memcached *beest_memcached_new(const struct beest_memcached_address *address,
					    bool buffering);

/* In a child of the process that made it only forgets it: "quit" would end the parent's. */
void beest_memcached_free(struct beest_memcached *session);

const struct beest_memcached_address *beest_memcached_address(const struct beest_memcached *session);
bool beest_memcached_buffers(const struct beest_memcached *session);

/* False after any failure: its connection may hold an answer that came late. */
bool beest_memcached_sound(const struct beest_memcached *session);

/* False in a child of the process that made it. */
bool beest_memcached_own(const struct beest_memcached *session);

/*
 * A request in two halves, so that several servers work at once: the first writes and
 * asks, the second awaits the answers.  The request was prepared (request.h).  Errors of
 * kv.h.
 */
int beest_memcached_send(struct beest_memcached *session, struct beest_kv_request *request,
			 int64_t deadline);
int beest_memcached_receive(struct beest_memcached *session);

/* The error and the sentence of an errno of connect(2), send(2) and recv(2). */
int beest_memcached_refused(const struct beest_memcached_address *address, int error);

#endif
