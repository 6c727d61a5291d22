/* SPDX-License-Identifier: MIT */
/*
 * kv.h - one attempt at one request to each Memcached server
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

struct beest_login;

/*
 * Takes no connection yet.  @login: for all servers, and empty once it was taken over; NULL:
 * none.  -EADDRNOTAVAIL when a name cannot be resolved; -ENOSYS: no login is possible; -ENOMEM.
 */
int beest_kv_open(struct beest_kv **kv, const struct beest_hostport *servers, size_t count,
		  struct beest_login *login);
void beest_kv_close(struct beest_kv *kv);

/* Same for every rank with the same list, whatever its order, and for all lists of one server. */
uint64_t beest_kv_digest(const struct beest_kv *kv);

/* The index of the server of @key. */
size_t beest_kv_server_of(const struct beest_kv *kv, const char *key);

/* A server as configured, for sentences. */
const char *beest_kv_text(const struct beest_kv *kv, size_t server);

/*
 * The errors of a request, each with a sentence that names the server:
 *
 * -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH, -ECONNRESET: cannot connect
 * -EHOSTDOWN       connected or connecting, but no answer
 * -EUSERS          too many connections
 * -ENOBUFS         the server is out of memory
 * -EMSGSIZE        value too large
 * -EACCES          login missing or refused
 * -EINVAL          a key the protocol forbids (says which byte)
 * -EPROTO          an answer that is no Memcached answer
 * -EBADMSG         the value that INCR was to count is no number
 * -ENODATA         the witness of a request did not come: the connection was given up
 * -EAFNOSUPPORT    an IPv6 address, which the installed libmemcached cannot use
 * -EMFILE, -ENFILE no file descriptor left
 * -ENOMEM
 *
 * beest_kv_transient() tells which are worth another attempt.
 */
bool beest_kv_transient(int error);

/* One of the values asked for; bytes for free(3), NULL: absent. */
struct beest_kv_value {
	uint8_t *bytes;
	size_t size;
};

enum beest_kv_verb { BEEST_KV_SET, BEEST_KV_ADD, BEEST_KV_DELETE, BEEST_KV_INCR };

/* Of a refused value, in sentences. */
#define BEEST_KV_TOO_LARGE "the value is larger than it takes (memcached -I)"

/* Of one that has not spoken.  Memcached before 1.6 leaves what is beyond its -c to the kernel. */
#define BEEST_KV_SILENT "silent: it takes connections but does not answer (stopped, " \
	"overloaded, or all its connections are in use)"

struct beest_kv_write {
	enum beest_kv_verb verb;
	const char *key;
	const void *value;	/* set, add */
	size_t size;
	int64_t ttl;		/* set, add: seconds, cut to 30 days; 0: for ever */
	bool answered;		/* its answer is waited for before the next one goes */
	/*
	 * Results.  Of one that is answered: 0, -ENOENT (delete, incr: the key is absent),
	 * -EEXIST (add), -EMSGSIZE (too large for the server; the request goes on), or the
	 * error that ended the request.  Of the others nothing is known: 0.
	 */
	int ret;
	bool done;		/* its answer has come, whatever became of the request then */
	uint64_t number;	/* INCR that is answered: the value after it */
};

#define BEEST_KV_WHY 512

/*
 * One request to one server: the writes in order, then one read whose answer proves that they
 * were carried out.  All of it takes one round trip.  Each write that is answered takes one
 * more, and over a new connection one before it, in which the witness comes; an answer to the
 * last write proves as much as the witness, so that nothing is read where no other key is asked
 * for.  With a login every write takes a round trip.
 *
 * Requests to the same server, of one run or of several threads, may go over different
 * connections and be carried out in any order.
 */
struct beest_kv_request {
	size_t server;
	/*
	 * Nothing need be read: over a connection that brought an answer within the last
	 * 100 ms the writes are only handed to the kernel.  Over any other the keys are
	 * read as always.
	 */
	bool lazy;
	struct beest_kv_write *writes;
	size_t write_count;
	/*
	 * One more quiet write, only over a new connection: behind the others, or before the
	 * first one where one is answered; NULL: none.
	 */
	struct beest_kv_write *opening;
	/*
	 * keys[0] is the witness: without a value for it an answer proves nothing.  A
	 * foreign service, and a server with too many connections, say "not found" too.
	 */
	const char *const *keys;
	size_t key_count;	/* 0 only where the last write is answered: nothing is read */
	/* key_count of them are set: values[i] answers keys[i]; for beest_kv_values_free(). */
	struct beest_kv_value *values;
	/* Results. */
	int ret;		/* 0, or an error of the list above */
	char why[BEEST_KV_WHY];	/* its sentence */
	bool fresh;		/* it went over a new connection */
	bool unexplained;	/* there was no connection, and nothing said why: ask by a probe */
	bool answered;		/* the writes were carried out, and the keys, if any, read */
	struct beest_memcached *session;	/* only while it runs */
};

/*
 * Runs @count requests; all servers work at once: each is written to and asked before the
 * first answer is awaited, but for requests with answered writes, which go one after the
 * other.  The deadline holds for all of it, and no wait lasts longer than
 * a second.  Returns 0 or the ret of a request that failed, whose sentence is the thread's.
 * After a failure no values are kept; the writes that are not done may have been carried out,
 * in part or later: the caller repeats them.
 */
int beest_kv_run(struct beest_kv *kv, struct beest_kv_request *requests, size_t count,
		 int64_t deadline);

void beest_kv_values_free(struct beest_kv_value *values, size_t count);

struct beest_kv_stats {
	uint64_t limit_bytes, evictions;	/* 0: it tells them only after a login */
	bool out_of_memory_is_an_error;		/* memcached -M: it refuses instead of evicting */
};

/*
 * What is at the address of @server?  For the time after a new connection brought no
 * witness.  Asks over a plain socket for 250 ms at most, and never sends a record.
 * Returns 0 and *stats where a Memcached answers; else one of the errors above, whose sentence
 * quotes what a foreign service says.  -ENOBUFS is any error of the server's own.
 */
int beest_kv_probe(struct beest_kv *kv, size_t server, struct beest_kv_stats *stats);

#endif
