/* SPDX-License-Identifier: MIT */
/*
 * memcached.h - one connection to one Memcached server
 *
 * Owns a libmemcached handle, its timeouts and the meaning of its codes.  A session serves
 * one caller at a time, who has blocked signals, and only in the process that made it.
 * memcached.c and memory.c alone know libmemcached: another client library would fit in here.
 */
#ifndef BEEST_MEMCACHED_H
#define BEEST_MEMCACHED_H

#include <sys/socket.h>
#include <sys/types.h>

#include "lib/kv/memory.h"
#include "lib/kv/request.h"

struct beest_memcached_address {
	char host[256];		/* numeric, or the path of a socket */
	uint16_t port;		/* 0: a Unix socket */
	struct sockaddr_storage where;	/* the same, for connect(2) */
	socklen_t where_size;
	char label[600];	/* for sentences: the configured text, and a name's address */
};

struct beest_memcached {
	const struct beest_memcached_address *address;
	pid_t pid;		/* of the process that made it */
	bool sound;		/* no failure yet: after one, a late answer may arrive */

	/* Private to memcached.c. */
	struct memcached_st *handle;
	struct beest_memory memory;	/* of the handle */
	struct beest_memcached_answer *answer;
	int64_t heard;		/* when a canary, or a last write's answer, arrived; 0: never */
	struct beest_memcached *next;	/* in the list of sessions that cannot be freed */

	/* The request under way. */
	struct beest_kv_request *request;
	int64_t deadline;
	size_t *lengths;	/* of its keys */
	size_t asked;		/* number of keys whose answers are due */
	size_t expected;	/* index of the first key that the next answer may be for */
};

/*
 * @address must outlive the session.  The first request connects.  NULL: no memory, or
 * libmemcached refuses the address or a setting.
 */
struct beest_memcached *beest_memcached_new(const struct beest_memcached_address *address);

/* In a child of the process that made it, frees nothing: "quit" would end the parent's session. */
void beest_memcached_free(struct beest_memcached *session);

/*
 * The two halves of a request, so that several servers work at once: the first sends writes
 * and keys, the second awaits the answers.  If any write is answered, the first asks at most
 * for the canary, and the second does the rest.  The request must be prepared.  Errors of
 * request.h.
 */
int beest_memcached_send(struct beest_memcached *session, struct beest_kv_request *request,
			 int64_t deadline);
int beest_memcached_receive(struct beest_memcached *session);

/* Fails with the error and the sentence for an errno of socket(2) or connect(2). */
int beest_memcached_refused(const struct beest_memcached_address *address, int error);

#endif
