/* SPDX-License-Identifier: MIT */
/*
 * look.h - one conversation with the servers
 *
 * Owns the step that brings the servers to what the leases want: each look sends what is
 * not stored, announces this process, asks each server for its epoch, and fetches what
 * a caller waits for, all in one round trip.  Judges epochs and finds out what is wrong with a
 * server.  Knows nothing of waiting or of what records contain.
 */
#ifndef BEEST_LOOK_H
#define BEEST_LOOK_H

#include "lib/rendezvous/registry.h"

/* A process that has met no other for so long announces itself again. */
#define BEEST_STARTS_RECENT (10 * BEEST_SECOND)

/* A value to fetch or, without a key, a server that must answer. */
struct beest_look_want {
	const char *key;
	size_t server;
	bool idle;			/* can do without: fails if the server is away */
	/* out */
	struct beest_kv_value value;	/* for beest_look_free() */
	bool failed;			/* its server did not answer, or was not asked */
};

enum {
	BEEST_LOOK_CHECK = 1,		/* also reads some leases in turn */
	BEEST_LOOK_OFFER = 2,		/* need not wait for answers; wants have no keys */
	BEEST_LOOK_IDLE = 4,		/* asks no server that was silent a moment ago */
	BEEST_LOOK_UNIQUES = 8,		/* also reads the unique of each value */
};

/* A write that goes along with the look and belongs to no lease. */
struct beest_look_extra {
	size_t server;
	struct beest_kv_write write;
	bool done;			/* out: write has its result, and is not sent again */
	bool repeated;			/* out: sent twice, since the first connection broke */
};

struct beest_look {
	struct beest_look_want *wants;
	size_t count;
	struct beest_look_extra *extras;
	size_t extra_count;
	unsigned int flags;
	int64_t deadline;
	struct beest_kv_signals *signals;	/* of a series of looks; may be NULL */
};

/*
 * 0, or the failure of one server, with its sentence; the answers of other servers are there
 * all the same.  -ENOSPC: the server is too small for this job and evicts its records again
 * and again.
 */
int beest_look_take(struct beest_registry *registry, struct beest_look *look);

/*
 * Sends one write and the leases of its server, best effort: briefly, and without waiting for an
 * answer if the connection is known to be good.  @flags: of the look.
 */
void beest_look_offer(struct beest_registry *registry, struct beest_look_extra *extra,
		      unsigned int flags);

/* Tries to send what the server of @key does not have yet, in the same way. */
void beest_look_send(struct beest_registry *registry, const char *key);

/* Lets the next look announce a process of this rank again. */
void beest_look_begin_again(struct beest_registry *registry);

/*
 * The error of a server at the last look, and its sentence.  0: the server answers, or was silent
 * no longer than its answers may take; 1: the same, but a request after number @since failed.
 */
int beest_look_trouble(struct beest_registry *registry, size_t server, uint64_t since,
		       char why[BEEST_KV_WHY]);

/* Was the server silent a moment ago?  What no call waits for had better not be asked of it now. */
bool beest_look_is_silent(struct beest_registry *registry, size_t server);

/*
 * Adds that the server answers and, if it does so slowly, how slowly: what was read and written
 * since @began, when it was @bytes.  True: it does.
 */
bool beest_look_speed_say(struct beest_registry *registry, size_t server, int64_t began,
			  uint64_t bytes, struct beest_text *text);

/* Adds that the server has lost its contents, as a request after number @since has shown. */
void beest_look_loss_say(struct beest_registry *registry, size_t server, uint64_t since,
			 struct beest_text *text);

/* What happened to requests to a server, of late. */
struct beest_pace beest_look_pace(struct beest_registry *registry, size_t server);

/* When a look must end that a call with @limit takes: a single one may have to be patient. */
int64_t beest_look_until(struct beest_registry *registry, size_t server,
			 const struct beest_limit *limit);

/*
 * When a look must end whose caller does not need its result: after a quarter of a second, or twice
 * as long as answers take.  It would cost a connection to give it up before.
 */
int64_t beest_look_brief(struct beest_registry *registry, size_t server);

/*
 * When the looks of a context must end that closes or fails, since none of them is repeated: after
 * three seconds, or four times as long as the slowest server's answers take.
 */
int64_t beest_look_closing(struct beest_registry *registry);

/* The epoch of a server; false: not known. */
bool beest_look_epoch(struct beest_registry *registry, size_t server,
		      uint8_t bytes[BEEST_EPOCH_SIZE]);

/*
 * Do all addresses of a server, and new connections to it, lead to one server?  -EPROTO: no, see
 * beest_kv_compare().
 */
int beest_look_compare(struct beest_registry *registry, size_t server, int64_t deadline);

/* Logs once that a server failed, with the thread's sentence, and that others are not affected. */
void beest_look_degraded(struct beest_registry *registry);

void beest_look_free(struct beest_look_want *wants, size_t count);

#endif
