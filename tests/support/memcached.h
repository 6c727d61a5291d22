/* SPDX-License-Identifier: MIT */
/*
 * memcached.h - real Memcached servers for tests, and fakes that only listen
 *
 * Owns the processes: each ends with the test, however the test ends.  Knows nothing of
 * libmemcached: it talks to servers by raw sockets.
 */
#ifndef TESTS_MEMCACHED_H
#define TESTS_MEMCACHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/parse.h"
#include "tests/support/pause.h"
#include "tests/support/timer.h"

struct cache;

/* Exits with status 77 and a reason if no memcached is installed, or none can be reached. */
void cache_need(void);

/*
 * True for 1.@minor or later.  Before 1.6, it may list keys incompletely and explain
 * failures less.
 */
bool cache_since(int minor);

/*
 * Starts one on a free port of 127.0.0.1 with further arguments, which NULL ends; NULL: none.
 * Returns when it answers; ends the program if it does not within 2 min.
 */
struct cache *cache_start(const char *const *arguments);

/* The same on @port of another address of loopback, "127.0.0.2". */
struct cache *cache_start_at(const char *address, uint16_t port);

/* The same on a socket in the directory of temporary files. */
struct cache *cache_start_unix(void);

/* Any process of the test may stop or kill one; only the one that started it may restart it. */
void cache_stop(struct cache *cache);		/* SIGSTOP: becomes silent */
void cache_resume(struct cache *cache);
void cache_kill(struct cache *cache);		/* closes its port */
void cache_restart(struct cache *cache);	/* same port, empty */
void cache_end(struct cache *cache);		/* accepts NULL */

const struct beest_hostport *cache_hostport(const struct cache *cache);

/* Sends @request on a separate connection and returns what comes within a minute. */
const char *cache_talk(const struct cache *cache, const char *request,
		       char *answer, size_t size);

/* Has a call failed since no answer came in time?  @ret and @sentence: its own. */
bool cache_was_late(int ret, const char *sentence);

/*
 * Repeats a @call of a single look, which has a quarter of a second: that may be too short for a
 * busy server.  Some calls do not even ask one that was silent a moment ago: hence the pause.  It
 * uses hartebeest_error().
 */
#define UNTIL_ANSWERED(call)							\
	({									\
		int ret_, tries_ = 0;						\
										\
		do								\
			ret_ = (call);						\
		while (cache_was_late(ret_, hartebeest_error()) && tries_++ < 100 &&	\
		       (pause_ms(50), true));						\
		ret_;								\
	})

/* The value of a line of "stats". */
long cache_stat(const struct cache *cache, const char *name);

/* Opens a connection; -1: refused. */
int cache_connect(const struct cache *cache);

/* A socket bound to a free port of 127.0.0.1, which does not listen yet. */
int bind_free(struct beest_hostport *endpoint);

/* A port on which nobody listens as long as this process runs. */
void closed_hostport(struct beest_hostport *endpoint);

/* One that answers no connection as long as this process runs, as behind a firewall that drops. */
void mute_hostport(struct beest_hostport *endpoint);

/*
 * A server with one thread that sends @answer to every request; NULL: listens and never accepts,
 * "": closes the connection.  The first @good requests get the answers of an empty Memcached.
 */
struct fake;

struct fake *fake_start(const char *answer, int good);
/* Any service that may listen on a port; must outlive the fake. */
struct fake_service {
	const char *banner;		/* sent at once; NULL: nothing */
	size_t banner_size;
	const char *answer;		/* to any request; NULL: nothing */
	size_t answer_size;
	int echoes, closes;
	int drip_ms;			/* a get is answered by one value each time this passes */
};

struct fake *fake_start_service(const struct fake_service *service);
int fake_dripped(const struct fake *fake);	/* values until now */
int fake_incremented(const struct fake *fake);	/* requests with an incr until now */

const struct beest_hostport *fake_hostport(const struct fake *fake);
void fake_end(struct fake *fake);

#endif
