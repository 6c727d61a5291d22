/* SPDX-License-Identifier: MIT */
/*
 * store.h - a plain conversation with one Memcached server
 *
 * For what no client library offers: listing keys, and the server's statistics.  Owns the
 * socket and the text protocol.  Knows nothing of records.
 */
#ifndef TOOLS_STORE_H
#define TOOLS_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/parse.h"

struct store;

/*
 * Each of the calls below that return int returns 0, or a negative errno with a sentence by
 * beest_fail(): -ETIMEDOUT (it took longer than @patience, in ns), -EHOSTDOWN (nothing was
 * ever received), -ECANCELED (session_signal() is set), -EACCES (the server demands a login),
 * -EPERM or -EOPNOTSUPP (it refuses), -EUSERS (all its connections are in use), -EPROTO (not
 * Memcached), or that of connect(2).
 */
int store_open(struct store **store, const struct beest_hostport *server, int64_t patience);

/*
 * The addresses of a name, each as a server of its own whose text has name and address; otherwise
 * @server itself.  Returns their number; 0: the name cannot be resolved.  May take as long as the
 * name service does.
 */
size_t store_addresses(const struct beest_hostport *server, struct beest_hostport *list,
		       size_t room);
void store_close(struct store *store);	/* accepts NULL */

/* The version of the server, "1.6.18". */
int store_version(struct store *store, char *version, size_t size);

/* Calls @each for each line "STAT NAME VALUE" of "stats", or of "stats WHAT". */
int store_stats(struct store *store, const char *what,
		void (*each)(void *data, const char *name, const char *value), void *data);

struct store_listing {
	const char *command;		/* the one that the server understood */
	bool cut;			/* the command may not have shown all keys */
	bool by_name;			/* ... since known names were asked for, one by one */
	bool without_crawler;		/* ... since a better one is switched off */
	uint64_t keys, bytes;		/* all keys listed, and bytes received */
	uint64_t evictions;		/* of unexpired keys, since the server started */
	int64_t time;			/* ns */
};

/*
 * Calls @each for every key that begins with @prefix.  @left: seconds until it expires, -1:
 * never.  The server walks over all its keys: about 0.4 s and 20 MB where it has 200 000.
 * -EOPNOTSUPP: it knows none of the commands that list keys.
 */
int store_list(struct store *store, const char *prefix, struct store_listing *listing,
	       void (*each)(void *data, const char *key, int64_t left), void *data);

/* *value is for free(3); NULL: the key is missing. */
int store_get(struct store *store, const char *key, uint8_t **value, size_t *size);

/* Adds a text for @seconds.  -EEXIST: the key is there. */
int store_add(struct store *store, const char *key, const char *text, int seconds);

/* -ENOENT: the key is missing. */
int store_delete(struct store *store, const char *key);

#endif
