/* SPDX-License-Identifier: MIT */
/*
 * kv.h - one attempt at one request to each Memcached server
 *
 * Owns the connections to the servers and the care that libmemcached needs: signals
 * are blocked around every call, the timeout is the time left, a connection is
 * discarded after any failure, serves one caller at a time and is never used across
 * fork(2).  Resolving a name is part of a request.  Knows nothing of records, jobs or
 * waiting: keys and values are bytes here.
 *
 * Each server has its own connections.  The server of a key is chosen here (choice.h),
 * and a dead server is never ejected from the choice.
 */
#ifndef BEEST_KV_H
#define BEEST_KV_H

#include <signal.h>

#include "lib/base/clock.h"
#include "lib/base/parse.h"
#include "lib/kv/probe.h"
#include "lib/kv/request.h"

struct beest_kv;

/* Does not connect yet, and begins to resolve names without waiting.  -ENOMEM. */
int beest_kv_open(struct beest_kv **kv, const struct beest_hostport *servers, size_t count);
void beest_kv_close(struct beest_kv *kv);

/* See beest_choice_digest(). */
uint64_t beest_kv_digest(const struct beest_kv *kv);

/* The index of the server that holds @key. */
size_t beest_kv_server_of(const struct beest_kv *kv, const char *key);

/* The configured text of a server, for sentences. */
const char *beest_kv_text(const struct beest_kv *kv, size_t server);

/* The same, and the address in use if it is a name that has been resolved. */
const char *beest_kv_label(const struct beest_kv *kv, size_t server);

/* For sentences about a server that is several. */
#define BEEST_KV_SEVERAL "several servers answer under this name, each with records of its " \
	"own (a name with the addresses of several, or a proxy or service in front of them): " \
	"give the address of one"

/*
 * The signals that a series of requests blocks, zero before the first one.  They depend on the
 * program's handlers: what is older than a millisecond is read again.
 */
struct beest_kv_signals {
	int64_t read_at;		/* 0: never */
	sigset_t blocked;
};

/*
 * Runs @count requests on all servers at once: each request is sent before the first answer is
 * awaited, except that requests with answered writes run one after the other.  @deadline covers
 * the whole run, each request's patience a single wait.  Returns 0 or the ret of a request that
 * failed, with its sentence.  Its writes that are not done may have been carried out, or may be
 * later: the caller repeats them.  @signals: of the series, if it is one; may be NULL.
 */
int beest_kv_run(struct beest_kv *kv, struct beest_kv_request *requests, size_t count,
		 int64_t deadline, struct beest_kv_signals *signals);

/*
 * Finds out what is at the address of @server, after a new connection brought no canary.
 * Asks over a plain socket until @deadline and never sends a record.  @stats NULL: asks only for
 * what a small packet holds, and small packets may pass where others do not.  Returns 0 and *stats
 * if a Memcached answers, else an error of request.h; the sentence quotes the answer of a
 * foreign service.  -ENOBUFS covers any internal error of the server.
 */
int beest_kv_probe(struct beest_kv *kv, size_t server, int64_t deadline,
		   struct beest_kv_stats *stats);

/*
 * Is it one server?  Asks each of its addresses for @key, and the first ones once more, over new
 * connections, until @deadline, and for BEEST_KV_COMPARE each: who finds nothing asks again later.
 * -EPROTO: one brings another value than @known, which the connections in use still bring.  0: all
 * that answer and have the key bring @known, or nothing is certain.
 */
#define BEEST_KV_COMPARE (100 * BEEST_MS)
int beest_kv_compare(struct beest_kv *kv, size_t server, const char *key,
		     const struct beest_kv_value *known, int64_t deadline);

#endif
