/* SPDX-License-Identifier: MIT */
/*
 * fake-kv.h - key-value servers made of lists, for tests without a memcached
 *
 * tests/support/libfakekv.a, linked ahead of lib/libbeest.la, defines the functions of
 * lib/kv/kv.h that belong to requests: beest_kv_open(), _close(), _text(), _server_of(),
 * _digest(), _run() and _probe().  (_transient() and _values_free() are the library's own:
 * they need no server.)
 *
 * A server is known by its configured text, and all handles of the process see the same
 * one, as they would in reality.  Each handle has one connection to each server, which is
 * new at first, and again after any failure.  Times to live follow beest_clock_now().  For
 * one thread: coroutines (tests/support/crew.h) and the hook interleave users.
 *
 * Usual course of a test:
 *
 *	fake_kv_reset();
 *	fake_kv_fail(FAKE_KV_COMMAND, 3, EHOSTDOWN, FAKE_KV_LOST);
 *	... call the library ...
 *	assert_int_equal(fake_kv.fired, 1);
 *	assert_int_equal(fake_kv.round_trips, 2);
 *	assert_int_equal(fake_kv_server("a:1")->items, 3);
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

	/* What is there now; what has expired counts until it is looked for or counted. */
	size_t items;
	size_t bytes;			/* keys and values */
	uint64_t evictions;

	/* To be set by the test. */
	size_t bytes_max;		/* 0: no limit; above it the least recently used go */
	bool refuses;			/* as memcached -M: above it nothing is stored */
	int error;			/* every request fails with this errno, nothing is done */
	bool silent;			/* every request takes until its deadline: EHOSTDOWN */
	int probe_error;		/* beest_kv_probe() fails with it; 0: it is a Memcached */

	/* Since the reset. */
	uint64_t commands;

	/* kept by the functions below */
	struct fake_kv_item *oldest, *newest, **buckets;
	uint64_t boot;			/* grows with each restart */
};

/* What the n-th of is to fail. */
enum fake_kv_unit {
	FAKE_KV_REQUEST,	/* all of it: the writes and the read */
	FAKE_KV_COMMAND,	/* a line to the server: a write, or the read of all keys */
	FAKE_KV_WRITE,		/* a command that is no read */
};

enum fake_kv_manner {
	FAKE_KV_REFUSED,	/* not carried out, nor what follows it in its request */
	FAKE_KV_LOST,		/* carried out, but not what follows it; the answer is lost */
	FAKE_KV_LATE,		/* writes from it on are kept for fake_kv_apply_late() */
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
	uint64_t round_trips;	/* waited for one after the other; servers answer at once */
	uint64_t commands;	/* an mget counts once */
	uint64_t keys;		/* named in commands, written or read */
	uint64_t probes;
	uint64_t fresh;		/* new connections */
	int fired;		/* failures that happened */
	size_t open;		/* handles */

	/* Called before each request is carried out; not while it runs itself. */
	void (*hook)(struct beest_kv *kv, const struct beest_kv_request *request);
	void *data;		/* for the hook */

	/* Before the hook: how long a request is held up, while all others go on. */
	int64_t (*hold)(const struct beest_kv *kv);

	/*
	 * What each round trip takes, slept by beest_clock_source if there is one.  After a
	 * reset FAKE_KV_LATENCY; with 0, who waits without a pause would wait for ever.
	 */
	int64_t latency;

	struct fake_kv_server servers[FAKE_KV_SERVERS];

	/* kept by the functions below */
	struct fake_kv_failure failures[FAKE_KV_FAILURES];
	struct fake_kv_late *late;
	bool in_hook;
	uint64_t renewal;	/* grows with each fake_kv_reconnect() */
};

extern struct fake_kv fake_kv;

/* Forgets all content, counters and settings; handles stay usable, with new connections. */
void fake_kv_reset(void);

/* Only the counters. */
void fake_kv_count_again(void);

/* The server of this configured text; made where there is none yet. */
struct fake_kv_server *fake_kv_server(const char *text);

/* ---------------------------------------------------------- steering it --- */

/*
 * The @nth one from now (1: the next, 0: every one) ends its request with @error.  To walk
 * over all commands:
 *
 *	for (n = 1; ; n++) {
 *		fake_kv_reset();
 *		fake_kv_fail(FAKE_KV_COMMAND, n, ECONNRESET, FAKE_KV_REFUSED);
 *		...
 *		if (!fake_kv.fired)
 *			break;
 *	}
 */
void fake_kv_fail(enum fake_kv_unit unit, int nth, int error, enum fake_kv_manner manner);

/* Writes that were kept by FAKE_KV_LATE are carried out, in order; returns how many. */
size_t fake_kv_apply_late(void);

/*
 * The content is lost and every connection is broken: the next request over each one that
 * was used fails with ECONNRESET, but a LAZY one is swallowed without an error.
 */
void fake_kv_restart(struct fake_kv_server *server);

/* All connections of all handles are new, without a failure and a loss. */
void fake_kv_reconnect(void);

/* Removes a key as an eviction would; false: it was not there. */
bool fake_kv_evict(struct fake_kv_server *server, const char *key);

/* ----------------------------------------------------- behind the library --- */

/* Stores without a request, as another program would. */
void fake_kv_put(struct fake_kv_server *server, const char *key, const void *value,
		 size_t size, int64_t ttl);

/* The value of a key, valid until the next call of anything; NULL: absent. */
const void *fake_kv_get(struct fake_kv_server *server, const char *key, size_t *size);

/* Calls @visit for every key that has not expired, oldest first; it must not change any. */
void fake_kv_visit(struct fake_kv_server *server,
		   void (*visit)(const char *key, const void *value, size_t size, void *data),
		   void *data);

#endif
