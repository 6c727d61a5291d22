/* SPDX-License-Identifier: MIT */
/*
 * look.h - one conversation with the servers
 *
 * Owns the loop that brings the servers to what the leases want: each look sends what is
 * not stored, asks each server for its epoch, and fetches what somebody waits for, in one
 * round trip for all of it.  Judges epochs and tells what is wrong with a server.  Knows
 * nothing of waiting and of what records say.
 */
#ifndef BEEST_LOOK_H
#define BEEST_LOOK_H

#include "lib/rendezvous/registry.h"

/* One value that is fetched; or, without a key, a server that must answer. */
struct beest_look_want {
	const char *key;
	size_t server;
	/* out */
	struct beest_kv_value value;	/* for beest_look_free() */
	bool failed;			/* its server did not answer */
};

enum {
	BEEST_LOOK_CHECK = 1,		/* looks at some leases in turn, too */
	BEEST_LOOK_OFFER = 2,		/* need not wait for answers; wants have no keys */
};

/* A write that goes along, of something that is no lease. */
struct beest_look_extra {
	size_t server;
	struct beest_kv_write write;
	bool done;			/* out: its result is in it, and it is not sent again */
};

struct beest_look {
	struct beest_look_want *wants;
	size_t count;
	struct beest_look_extra *extras;
	size_t extra_count;
	unsigned int flags;
	int64_t deadline;
};

/*
 * 0, or the failure of one server, whose sentence is the thread's; what others answered
 * is there all the same.  -ENOSPC: the server cannot hold this job, and evicts it again and
 * again.
 */
int beest_look_take(struct beest_registry *registry, struct beest_look *look);

/*
 * One write and what is wanted on its server, best effort: a quarter of a second at most,
 * and without waiting for an answer where the connection is known to be good.
 */
void beest_look_offer(struct beest_registry *registry, struct beest_look_extra *extra);

/*
 * What a server failed with at the last look, with the sentence; 0: it answers, or was
 * silent for a moment only; 1: the same, but it has failed after request number @since.
 */
int beest_look_trouble(struct beest_registry *registry, size_t server, uint64_t since,
		       char why[BEEST_KV_WHY]);

/* What is known of a server's epoch; false: nothing. */
bool beest_look_epoch(struct beest_registry *registry, size_t server,
		      uint8_t bytes[BEEST_EPOCH_SIZE]);

/* One of several servers is away, as the sentence says: reported once. */
void beest_look_degraded(struct beest_registry *registry);

void beest_look_free(struct beest_look_want *wants, size_t count);

#endif
