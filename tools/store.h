/* SPDX-License-Identifier: MIT */
/*
 * store.h - a plain conversation with one Memcached server
 *
 * For what no client library offers: listing keys, and what the server says of itself.  Owns
 * the socket and the text protocol.  Knows nothing of records.
 */
#ifndef TOOLS_STORE_H
#define TOOLS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/parse.h"

struct store;

/*
 * Every call below returns 0, or a negative errno with a sentence as of beest_fail(): -ETIMEDOUT
 * where the call takes longer than @patience, -ECANCELED after session_signal(), -EACCES (the
 * server demands a login), -EPERM (it refuses), -EUSERS (all its connections are in use),
 * -EPROTO (no Memcached), or that of connect(2).
 */
int store_open(struct store **store, const struct beest_hostport *server, int64_t patience);
void store_close(struct store *store);	/* accepts NULL */

/* Of the last answer, in nanoseconds. */
int64_t store_time(const struct store *store);

/* The version of the server, "1.6.18". */
int store_version(struct store *store, char *version, size_t size);

/* Each line "STAT NAME VALUE" of "stats" or "stats WHAT". */
int store_stats(struct store *store, const char *what,
		void (*each)(void *data, const char *name, const char *value), void *data);

struct store_listing {
	const char *command;		/* which was understood */
	bool cut;			/* it does not show all keys */
	uint64_t keys, bytes;		/* walked over */
	uint64_t evictions;		/* of living keys, since the server began */
	int64_t time;			/* ns */
};

/*
 * Every key that begins with @prefix.  @left: seconds until it expires, -1: never.  The server
 * walks over all its keys: about 0.4 s and 20 MB where it has 200 000.  -EOPNOTSUPP: it knows
 * none of the commands that list.
 */
int store_list(struct store *store, const char *prefix, struct store_listing *listing,
	       void (*each)(void *data, const char *key, int64_t left), void *data);

/* *value is for free(3), NULL: it is not there. */
int store_get(struct store *store, const char *key, uint8_t **value, size_t *size);

/* -ENOENT: it is not there. */
int store_delete(struct store *store, const char *key);

#endif
