/* SPDX-License-Identifier: MIT */
/*
 * kv.h - one attempt at one Memcached operation
 *
 * Owns the connections to the servers and the care that libmemcached needs:
 * signals blocked around every call, the time left as its timeout, a connection
 * thrown away after any failure, one connection per concurrent caller, none used
 * across fork(2).  Names are resolved once, at open.  Knows nothing of records,
 * jobs or waiting: keys and values are bytes here.
 *
 * Each server has connections of its own, and the server of a key is chosen here,
 * by highest random weight over the server's configured text: ranks that resolve
 * a name to different addresses still agree, and no dead server is ever ejected.
 */
#ifndef BEEST_KV_H
#define BEEST_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/parse.h"

struct beest_kv;

/* A longer value is refused before it is sent: a refused set deletes the old one. */
#define BEEST_VALUE_MAX (1024 * 1024 - 1024)

/*
 * Takes no connection yet.  -EADDRNOTAVAIL when a name cannot be resolved,
 * -ENOMEM.
 */
int beest_kv_open(struct beest_kv **exchange,
		  const struct beest_hostport *servers, size_t count);
void beest_kv_close(struct beest_kv *exchange);

/* A login for all servers, before the first request; copied.  -ENOSYS, -ENOMEM. */
struct beest_login;
int beest_kv_login(struct beest_kv *exchange, const struct beest_login *login);

/* Same for every rank with the same list, whatever its order. */
uint64_t beest_kv_digest(const struct beest_kv *exchange);

/* The server of @key, as configured, for sentences. */
const char *beest_kv_server(const struct beest_kv *exchange, const char *key);

/*
 * All below: one attempt, each read and write of which ends after the time that was left
 * until @deadline, or after a second, whichever is sooner.  Errors, each with a sentence
 * that names the server:
 *
 * -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH, -ECONNRESET: cannot connect
 * -EHOSTDOWN       connected or connecting, but no answer
 * -EUSERS          too many connections
 * -ENOBUFS         the server is out of memory
 * -EMSGSIZE        value too large
 * -EACCES          login missing or refused
 * -EINVAL          a key the protocol forbids (says which byte)
 * -EPROTO          an answer that is no Memcached answer
 * -EMFILE, -ENFILE no file descriptor left
 * -ENOMEM
 *
 * beest_kv_transient() tells which are worth another attempt.
 */
bool beest_kv_transient(int error);

/* Lives @ttl seconds, 0: for ever; over 30 days is cut to 30 days. */
int beest_kv_put(struct beest_kv *exchange, const char *key,
		 const void *value, size_t size, int64_t ttl, int64_t deadline);

/* -EEXIST when the key is there already. */
int beest_kv_add(struct beest_kv *exchange, const char *key,
		 const void *value, size_t size, int64_t ttl, int64_t deadline);

/* -ENOENT when it was not there. */
int beest_kv_delete(struct beest_kv *exchange, const char *key,
		    int64_t deadline);

/* One of the values asked for; bytes for free(3), NULL: absent. */
struct beest_kv_value {
	uint8_t *bytes;
	size_t size;
};

/*
 * Fetches all @count keys, in one request a server.  values[i] answers keys[i].
 * Absent keys are no error.  On failure nothing is kept: every bytes is NULL.
 * With several servers, all are asked and the last failure is returned.
 */
int beest_kv_get(struct beest_kv *exchange, const char *const *keys,
		 size_t count, struct beest_kv_value *values, int64_t deadline);

/*
 * The same, where one server's failure does not spoil what others answer: failed[i] says
 * that keys[i] was not answered.  Returns 0 or one of the failures.
 */
int beest_kv_get_some(struct beest_kv *exchange, const char *const *keys,
		      size_t count, struct beest_kv_value *values, bool *failed,
		      int64_t deadline);
void beest_kv_values_free(struct beest_kv_value *values, size_t count);

/* For a key that every server has: of the server with that number, from 0. */
size_t beest_kv_count(const struct beest_kv *exchange);
const char *beest_kv_text(const struct beest_kv *exchange, size_t server);
int beest_kv_put_at(struct beest_kv *exchange, size_t server, const char *key,
		    const void *value, size_t size, int64_t ttl, int64_t deadline);
int beest_kv_get_at(struct beest_kv *exchange, size_t server, const char *key,
		    struct beest_kv_value *value, int64_t deadline);
int beest_kv_delete_at(struct beest_kv *exchange, size_t server, const char *key,
		       int64_t deadline);

#endif
