/* SPDX-License-Identifier: MIT */
/*
 * fake-kv.h - key-value servers in memory, for tests without a memcached
 *
 * tests/support/libfakekv.a, linked before lib/libbeest.la, defines the functions of
 * lib/kv/kv.h that belong to requests: beest_kv_open(), _close(), _text(), _label(),
 * _server_of(), _digest(), _run(), _probe() and _compare().  (_transient() and _values_free() are
 * the library's own: they need no server.)
 *
 * A server is identified by its configured text, and all handles of the process see the same
 * servers, as in reality.  Each handle has one connection to each server, which is new at first
 * and after any failure.  Times to live follow beest_clock_now().  Only for one thread: users are
 * interleaved by coroutines (tests/support/crew.h) and by the hook.
 *
 * Usual course of a test:
 *
 * 	fake_kv_reset();
 * 	fake_kv_fail(FAKE_KV_COMMAND, 3, EHOSTDOWN, FAKE_KV_LOST);
 * 	... call the library ...
 * 	assert_int_equal(fake_kv.fired, 1);
 * 	assert_int_equal(fake_kv.round_trips, 2);
 * 	assert_int_equal(fake_kv_server("a:1")->items, 3);
 */
#ifndef FAKE_KV_H
#define FAKE_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/kv/kv.h"

#define FAKE_KV_SERVERS 8
#define FAKE_KV_FAILURES 8
#define FAKE_KV_LATENCY 20000		/* ns */

struct fake_kv_item;

struct fake_kv_server {
	char text[300];			/* "": slot unused */

	/* The present contents.  An expired item counts until it is looked up or counted. */
	size_t items;
	size_t bytes;			/* keys and values */
	uint64_t evictions;

	/* Set by the test. */
	size_t bytes_max;		/* 0: no limit; else the least recently used are evicted */
	size_t item_max;		/* larger values are not stored; 0: no limit */
	bool refuses;			/* as memcached -M: stores nothing above bytes_max */
	int error;			/* every request fails with it and does nothing */
	bool silent;			/* every request lasts until its deadline: EHOSTDOWN */
	int probe_error;		/* beest_kv_probe() fails with it; 0: a Memcached, ... */
	uint64_t turned_away;		/* ... which had this often no connection left */

	/* Since the reset. */
	uint64_t commands;

	/* internal */
	struct fake_kv_item *oldest, *newest, **buckets;
	uint64_t boot;			/* incremented by each restart */
};

/* The unit whose n-th fails. */
enum fake_kv_unit {
	FAKE_KV_REQUEST,	/* a whole request: the writes and the read */
	FAKE_KV_COMMAND,	/* a command: a write, or the read of all keys */
	FAKE_KV_WRITE,		/* a command that writes */
};

enum fake_kv_manner {
	FAKE_KV_REFUSED,	/* neither it nor the rest of its request is carried out */
	FAKE_KV_LOST,		/* it is carried out, the rest is not, the answer is lost */
	FAKE_KV_TORN,		/* a whole request: answers to the first half of its keys come */
	FAKE_KV_LATE,		/* from it on, writes are kept for fake_kv_apply_late() */
};

struct fake_kv_failure {
	int nth;			/* still to go; 0: slot unused, -1: every one */
	enum fake_kv_unit unit;
	enum fake_kv_manner manner;
	int error;
};

struct fake_kv {
	/* Counted since the reset. */
	uint64_t runs;		/* calls of beest_kv_run() */
	uint64_t requests;
	uint64_t round_trips;	/* those in sequence; servers answer at once */
	uint64_t commands;	/* a get of several keys is one command */
	uint64_t keys;		/* named in commands, written or read */
	uint64_t probes;
	int64_t probed_until;	/* the deadline of the last probe */
	uint64_t compares;
	uint64_t fresh;		/* new connections */
	int fired;		/* failures that have happened */
	size_t open;		/* handles */

	/* Called before each request is carried out, but not from within itself. */
	void (*hook)(struct beest_kv *kv, const struct beest_kv_request *request);
	void *data;		/* for the hook */

	/* Called before the hook: how long the request is held up, while all others go on. */
	int64_t (*hold)(const struct beest_kv *kv);

	/*
	 * Duration of each round trip, slept by beest_clock_source if there is one.  Set to
	 * FAKE_KV_LATENCY by a reset.  With 0, a caller that waits without pauses would never end.
	 */
	int64_t latency;

	struct fake_kv_server servers[FAKE_KV_SERVERS];

	/* internal */
	struct fake_kv_failure failures[FAKE_KV_FAILURES];
	struct fake_kv_late *late;
	bool in_hook;
	uint64_t renewal;	/* incremented by each fake_kv_reconnect() */
	uint64_t uniques;	/* drawn so far */
};

extern struct fake_kv fake_kv;

/* Resets contents, counters and settings.  Handles stay usable, with new connections. */
void fake_kv_reset(void);

/* Resets only the counters. */
void fake_kv_count_again(void);

/* The server with this configured text; made if it does not exist. */
struct fake_kv_server *fake_kv_server(const char *text);

/* ---------------------------------------------------------- steering it --- */

/*
 * The @nth @unit from now (1: the next, 0: every one) ends its request with @error.  To try all
 * commands:
 *
 * 	for (n = 1; ; n++) {
 * 		fake_kv_reset();
 * 		fake_kv_fail(FAKE_KV_COMMAND, n, ECONNRESET, FAKE_KV_REFUSED);
 * 		...
 * 		if (!fake_kv.fired)
 * 			break;
 * 	}
 */
void fake_kv_fail(enum fake_kv_unit unit, int nth, int error, enum fake_kv_manner manner);

/* Applies the writes that FAKE_KV_LATE kept, in order; returns their number. */
size_t fake_kv_apply_late(void);

/*
 * Clears the server and breaks every connection: the next request over each used connection fails
 * with ECONNRESET, except that a lazy one is lost without an error.
 */
void fake_kv_restart(struct fake_kv_server *server);

/* Clears the server as flush_all does: its connections stay. */
void fake_kv_flush(struct fake_kv_server *server);

/* Makes all connections of all handles new, without failures or lost contents. */
void fake_kv_reconnect(void);

/* Removes a key as an eviction would.  False: it did not exist. */
bool fake_kv_evict(struct fake_kv_server *server, const char *key);

/* --------------------------------------------- access without the library --- */

/* Stores without a request, as another program would. */
void fake_kv_put(struct fake_kv_server *server, const char *key, const void *value,
		 size_t size, int64_t ttl);

/* The value of a key, valid until the next call of any function; NULL: absent. */
const void *fake_kv_get(struct fake_kv_server *server, const char *key, size_t *size);

/* Calls @visit for each key that has not expired, oldest first.  @visit must change none. */
void fake_kv_visit(struct fake_kv_server *server,
		   void (*visit)(const char *key, const void *value, size_t size, void *data),
		   void *data);

#endif
