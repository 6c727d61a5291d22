/* SPDX-License-Identifier: MIT */
/*
 * memcached.h - real Memcached servers for tests, and things that only listen
 *
 * Owns the processes: each ends with the test, however the test ends.  Knows nothing
 * of libmemcached: it talks to a server by raw sockets.
 */
#ifndef TESTS_MEMCACHED_H
#define TESTS_MEMCACHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/parse.h"
#include "tests/support/timer.h"

struct cache;

/* Exits with status 77 and a reason when no memcached is installed. */
void cache_need(void);

/* 1.@minor, or later?  Before 1.6 it may list keys in part, and say less of why it fails. */
bool cache_since(int minor);

/*
 * Starts one on a free port of 127.0.0.1 with more arguments, NULL-terminated; NULL:
 * none.  Returns when it answers; ends the program when it does not within 2 min.
 */
struct cache *cache_start(const char *const *arguments);

/* The same, on a socket in the directory of temporary files. */
struct cache *cache_start_unix(void);

/* Any process of the test may stop or kill one; only the one that started it restarts it. */
void cache_stop(struct cache *cache);		/* SIGSTOP: it is silent now */
void cache_resume(struct cache *cache);
void cache_kill(struct cache *cache);		/* its port is closed now */
void cache_restart(struct cache *cache);	/* same port, empty */
void cache_end(struct cache *cache);		/* accepts NULL */

const struct beest_hostport *cache_hostport(const struct cache *cache);

/* Sends @request on a connection of its own and returns what comes within a minute. */
const char *cache_talk(const struct cache *cache, const char *request,
		       char *answer, size_t size);

/* A line of "stats", as number. */
long cache_stat(const struct cache *cache, const char *name);

/* A connection that stays; -1 when refused. */
int cache_connect(const struct cache *cache);

/* A socket of a free port of 127.0.0.1, which does not listen yet. */
int bind_free(struct beest_hostport *endpoint);

/* A port where nobody listens, nor will as long as this process runs. */
void closed_hostport(struct beest_hostport *endpoint);

/*
 * A server of one thread that sends @answer to every request; NULL: listens and never
 * accepts, "": closes the connection.  The first @good requests get the answer of an
 * empty Memcached.
 */
struct fake;

struct fake *fake_start(const char *answer, int good);
/* Anything that may listen at a port; must outlive the fake. */
struct fake_service {
	const char *banner;		/* said at once; NULL: nothing */
	size_t banner_size;
	const char *answer;		/* to whatever is sent; NULL: nothing */
	size_t answer_size;
	int echoes, closes;
	int drip_ms;			/* a get is answered by one value each time these pass */
};

struct fake *fake_start_service(const struct fake_service *service);
int fake_dripped(const struct fake *fake);	/* values until now */
int fake_incremented(const struct fake *fake);	/* requests with an incr until now */

const struct beest_hostport *fake_hostport(const struct fake *fake);
void fake_end(struct fake *fake);

#endif
