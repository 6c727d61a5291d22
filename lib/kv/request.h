/* SPDX-License-Identifier: MIT */
/*
 * request.h - a request to one Memcached server, and its results
 *
 * Owns what every key-value client does with a request: the limits of keys and values, the
 * errors, and the results before and after.  Pure.  Knows nothing of servers or connections.
 */
#ifndef BEEST_REQUEST_H
#define BEEST_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longer values are refused before sending: a set that a server refuses deletes the old value. */
#define BEEST_VALUE_MAX (1024 * 1024 - 1024)

/*
 * The errors of a request, each with a sentence that names the server or the key:
 *
 * -EADDRNOTAVAIL   the server's name is not resolved (yet)
 * -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH, -ECONNRESET: no connection, or it was lost
 * -EHOSTDOWN       connected or connecting, but no answer
 * -EUSERS          too many connections
 * -ENOBUFS         the server is out of memory
 * -EMSGSIZE        value too large
 * -EACCES          the server demands a login, or no permission to connect
 * -EINVAL          a key that the protocol forbids (the sentence names the byte)
 * -EPROTO          an answer that is not Memcached's
 * -EBADMSG         the value to be incremented is not a number
 * -ENODATA         the canary is missing from the answer: the connection was discarded
 * -EAFNOSUPPORT    an IPv6 address, which the installed libmemcached cannot use
 * -EMFILE, -ENFILE no file descriptor left
 * -ENOMEM
 *
 * beest_kv_transient() is true for those that are worth another attempt.
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
 * value if the key was not written since it was read with that unique.
 */
enum beest_kv_verb {
	BEEST_KV_SET, BEEST_KV_ADD, BEEST_KV_DELETE, BEEST_KV_INCR, BEEST_KV_APPEND, BEEST_KV_CAS,
};

/* For sentences about a refused value. */
#define BEEST_KV_TOO_LARGE "the value is larger than it takes (memcached -I)"

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
	bool done;		/* its answer arrived, even if the request failed later */
	uint64_t number;	/* answered INCR: the new value */
};

#define BEEST_KV_WHY 512

/*
 * One request to one server: the writes in order, then one read whose answer proves that they
 * were carried out.  All of it takes one round trip.  Each answered write takes one more; over
 * a new connection, the canary is fetched before the first of them, which takes another.  The
 * answer to the last write proves as much as the canary: nothing is read then unless other
 * keys are asked for.
 *
 * Requests to the same server, from one run or from several threads, may go over different
 * connections and be carried out in any order.
 */
struct beest_kv_request {
	size_t server;
	/*
	 * How long the server may send nothing before the request fails: while bytes arrive, it
	 * goes on until its deadline.  libmemcached closes the connection then, so a later answer
	 * would be lost.  0: as long as the deadline allows.
	 */
	int64_t patience;
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
	 * keys[0] is the canary: an answer without a value for it proves nothing, since a
	 * foreign service or a server with too many connections may also answer "not found".
	 */
	const char *const *keys;
	size_t key_count;	/* 0 only if the last write is answered: nothing is read */
	/*
	 * The caller's array: values[i] answers keys[i]; for beest_kv_values_free().  A request
	 * that failed with -EHOSTDOWN or -ECONNRESET behind its canary keeps those that had
	 * arrived: a key without a value may be absent or not.
	 */
	struct beest_kv_value *values;
	/* Results. */
	int ret;		/* 0, or an error of the list above */
	char why[BEEST_KV_WHY];	/* its sentence */
	bool fresh;		/* it went over a new connection */
	bool unexplained;	/* no connection, for an unknown reason: use beest_kv_probe() */
	bool answered;		/* the writes were carried out, and the keys, if any, read */
	int64_t heard;		/* when the server last answered a part of it; 0: never */
	int64_t took;		/* how long it held up its caller */
	struct beest_memcached *session;	/* only while it runs */
};

void beest_kv_values_free(struct beest_kv_value *values, size_t count);

/* Clears the results and checks keys and sizes.  -EINVAL, -EMSGSIZE. */
int beest_request_prepare(struct beest_kv_request *request);

/*
 * Drops the results of a request that failed with @ret.  Its answered writes that are not done
 * get @ret as well.
 */
void beest_request_spoil(struct beest_kv_request *request, int ret);

/* Is any of its writes answered? */
bool beest_request_has_answers(const struct beest_kv_request *request);

/* Does the answer to its last write prove all that reading its keys could? */
bool beest_request_ends_answered(const struct beest_kv_request *request);

#endif
