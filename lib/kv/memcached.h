/* SPDX-License-Identifier: MIT */
/*
 * memcached.h - one connection to one Memcached server
 *
 * Owns a libmemcached handle and the care it needs: the time left as its timeout, and
 * what its codes mean.  One caller at a time, who has blocked all signals; never used in
 * another process than the one that made it.  The only file that knows libmemcached:
 * another client library fits here.
 */
#ifndef BEEST_MEMCACHED_H
#define BEEST_MEMCACHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/kv/kv.h"
#include "lib/kv/login.h"
#include "lib/kv/memory.h"

struct beest_memcached_address {
	char host[256];		/* numeric, or the path of a socket */
	uint16_t port;		/* 0: a socket */
	char label[600];	/* for sentences: as configured, and where a name led */
	const struct beest_login *login;	/* NULL: none */
};

struct beest_memcached {
	const struct beest_memcached_address *address;
	const struct beest_login *login;	/* of the address */
	pid_t pid;		/* of the process that made it */
	bool sound;		/* no failure yet: after one, an answer may come late */

	/* The rest is memcached.c's. */
	struct memcached_st *handle;
	struct beest_memory memory;	/* of the handle */
	struct beest_memcached_answer *answer;
	bool answered;		/* the server has spoken as Memcached does */
	int64_t heard;		/* when the witness, or an answer, last came; 0: never */
	struct beest_memcached *next;	/* among the forgotten */

	/* The request under way. */
	struct beest_kv_request *request;
	int64_t deadline;
	size_t *lengths;	/* of its keys */
	size_t asked;		/* keys whose answer is due */
	size_t expected;	/* the first of them that may be answered next */
};

/*
 * @address outlives the session.  Connects with the first request.  NULL: no memory, or
 * libmemcached refuses address, setting or login.
 */
struct beest_memcached *beest_memcached_new(const struct beest_memcached_address *address);

/* In a child of the process that made it only forgets it: "quit" would end the parent's. */
void beest_memcached_free(struct beest_memcached *session);

/*
 * A request in two halves, so that several servers work at once: the first writes and
 * asks, the second awaits the answers, and does all where writes are answered.  The request
 * was prepared (request.h).  Errors of kv.h.
 */
int beest_memcached_send(struct beest_memcached *session, struct beest_kv_request *request,
			 int64_t deadline);
int beest_memcached_receive(struct beest_memcached *session);

/* The error and the sentence of an errno of connect(2), send(2) and recv(2). */
int beest_memcached_refused(const struct beest_memcached_address *address, int error);

#endif
