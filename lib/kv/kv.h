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
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/parse.h"

struct beest_kv;

/* Longer values are refused before sending: a set that a server refuses deletes the old value. */
#define BEEST_VALUE_MAX (1024 * 1024 - 1024)

struct beest_login;

/*
 * Does not connect yet, and begins to resolve names without waiting.  @login is for all servers
 * and is left empty once it is taken over; NULL: none.  -ENOSYS: no login is possible; -ENOMEM.
 */
int beest_kv_open(struct beest_kv **kv, const struct beest_hostport *servers, size_t count,
		  struct beest_login *login);
void beest_kv_close(struct beest_kv *kv);

/* See beest_choice_digest(). */
uint64_t beest_kv_digest(const struct beest_kv *kv);

/* The index of the server that holds @key. */
size_t beest_kv_server_of(const struct beest_kv *kv, const char *key);

/* The configured text of a server, for sentences. */
const char *beest_kv_text(const struct beest_kv *kv, size_t server);

/* The same, and the address in use if it is a name that has been resolved. */
const char *beest_kv_label(const struct beest_kv *kv, size_t server);

/*
 * The errors of a request, each with a sentence that names the server or the key:
 *
 * -EADDRNOTAVAIL   the server's name is not resolved (yet)
 * -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH, -ECONNRESET: no connection, or it was lost
 * -EHOSTDOWN       connected or connecting, but no answer
 * -EUSERS          too many connections
 * -ENOBUFS         the server is out of memory
 * -EMSGSIZE        value too large
 * -EACCES          login missing or refused, or no permission to connect
 * -EINVAL          a key that the protocol forbids (says which byte)
 * -EPROTO          an answer that is not Memcached's
 * -EBADMSG         the value to be incremented is not a number
 * -ENODATA         the witness is missing from the answer: the connection was discarded
 * -EAFNOSUPPORT    an IPv6 address, which the installed libmemcached cannot use
 * -EMFILE, -ENFILE no file descriptor left
 * -ENOMEM
 *
 * beest_kv_transient() tells which are worth another attempt.
 */
bool beest_kv_transient(int error);

/* The answer for one key; bytes for free(3), NULL: the key is absent. */
struct beest_kv_value {
	uint8_t *bytes;
	size_t size;
	uint64_t unique;	/* changes with each write of the key; 0: not asked for */
};

/*
 * APPEND puts the value behind the one that is there, whose time to live stays.  CAS sets the
 * value if nobody has written the key since it was read with that unique; it must be answered.
 */
enum beest_kv_verb {
	BEEST_KV_SET, BEEST_KV_ADD, BEEST_KV_DELETE, BEEST_KV_INCR, BEEST_KV_APPEND, BEEST_KV_CAS,
};

/* For sentences about a refused value. */
#define BEEST_KV_TOO_LARGE "the value is larger than it takes (memcached -I)"

/*
 * For sentences about a server that has not answered.  Memcached before 1.6 leaves connections
 * beyond its -c waiting in the kernel.
 */
#define BEEST_KV_SILENT "silent: it takes connections but does not answer (stopped, " \
	"overloaded, or all its connections are in use)"

/* For sentences about a server that is several. */
#define BEEST_KV_SEVERAL "several servers answer under this name, each with records of its " \
	"own (a name with the addresses of several, or a proxy or service in front of them): " \
	"give the address of one"

struct beest_kv_write {
	enum beest_kv_verb verb;
	const char *key;
	const void *value;	/* set, add, append, cas */
	size_t size;
	int64_t ttl;		/* set, add, cas: seconds, cut to 30 days; 0: for ever */
	uint32_t delta;		/* incr: what is added; 0: 1 */
	uint64_t unique;	/* cas: of the value that was read */
	bool answered;		/* wait for its answer before sending the next one */
	/*
	 * Results.  If answered: 0, -ENOENT (delete, incr, append, cas: the key is absent), -EEXIST
	 * (add, cas), -EMSGSIZE (too large for the server; the request goes on), or the error that
	 * ended the request.  Otherwise 0, since nothing is known.
	 */
	int ret;
	bool done;		/* its answer came, even if the request failed later */
	uint64_t number;	/* answered INCR: the new value */
};

#define BEEST_KV_WHY 512

/*
 * One request to one server: the writes in order, then one read whose answer proves that they
 * were carried out.  All of it takes one round trip.  Each answered write takes one more; over
 * a new connection, the witness is fetched before the first of them, which takes another.  The
 * answer to the last write proves as much as the witness: nothing is read then unless other
 * keys are asked for.  With a login every write takes a round trip.
 *
 * Requests to the same server, from one run or from several threads, may go over different
 * connections and be carried out in any order.
 */
struct beest_kv_request {
	size_t server;
	/*
	 * Nothing need be read: if the connection brought an answer within the last 100 ms,
	 * the writes are only handed to the kernel.  Otherwise the keys are read as always.
	 */
	bool lazy;
	bool uniques;			/* also reads the unique of each value */
	struct beest_kv_write *writes;
	size_t write_count;
	/*
	 * One more quiet write, over a new connection only: after the others, or before them
	 * if one is answered.  NULL: none.
	 */
	struct beest_kv_write *opening;
	/*
	 * keys[0] is the witness: an answer without a value for it proves nothing, since a
	 * foreign service or a server with too many connections may also say "not found".
	 */
	const char *const *keys;
	size_t key_count;	/* 0 only if the last write is answered: nothing is read */
	/* The caller's array: values[i] answers keys[i]; for beest_kv_values_free(). */
	struct beest_kv_value *values;
	/* Results. */
	int ret;		/* 0, or an error of the list above */
	char why[BEEST_KV_WHY];	/* its sentence */
	bool fresh;		/* it went over a new connection */
	bool unexplained;	/* no connection, for an unknown reason: use beest_kv_probe() */
	bool answered;		/* the writes were carried out, and the keys, if any, read */
	struct beest_memcached *session;	/* only while it runs */
};

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
 * the whole run, and no single wait lasts longer than a second.  Returns 0 or the ret of a
 * request that failed, with its sentence.  A failed request keeps no values.  Its writes that
 * are not done may have been carried out, or may be later: the caller repeats them.  @signals:
 * of the series, if it is one; may be NULL.
 */
int beest_kv_run(struct beest_kv *kv, struct beest_kv_request *requests, size_t count,
		 int64_t deadline, struct beest_kv_signals *signals);

void beest_kv_values_free(struct beest_kv_value *values, size_t count);

struct beest_kv_stats {
	/* 0: the server shows them only after a login. */
	uint64_t limit_bytes, evictions, item_bytes;
	uint64_t time;			/* by its own clock, in seconds */
	uint64_t connections_max, turned_away;	/* how often no more were possible */
	bool out_of_memory_is_an_error;		/* memcached -M: refuses instead of evicting */
};

/*
 * Finds out what is at the address of @server, after a new connection brought no witness.
 * Asks over a plain socket for at most 250 ms and never sends a record.  Returns 0 and *stats
 * if a Memcached answers, else one of the errors above; the sentence quotes the answer of a
 * foreign service.  -ENOBUFS covers any internal error of the server.
 */
int beest_kv_probe(struct beest_kv *kv, size_t server, struct beest_kv_stats *stats);

/*
 * Is it one server?  Asks each of its addresses for @key, and the first ones once more, over new
 * connections.  -EPROTO: one brings another value than @known, which the connections in use still
 * bring.  0: all that answer and have the key bring @known, or nothing is certain.
 */
int beest_kv_compare(struct beest_kv *kv, size_t server, const char *key,
		     const struct beest_kv_value *known);

#endif
