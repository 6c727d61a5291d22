/* SPDX-License-Identifier: MIT */
/*
 * handshake.h - the other end: publish to it, find it, be sure of it
 *
 * Owns the meaning of the records of queue pairs and memory regions.  Puts the registry
 * and the queue pair together.  Knows nothing of names: it is handed the objects.
 */
#ifndef BEEST_HANDSHAKE_H
#define BEEST_HANDSHAKE_H

#include "lib/core/authors.h"
#include "lib/rendezvous/wait.h"
#include "lib/verbs/mr.h"
#include "lib/verbs/qp.h"

/* What every handshake needs of its context. */
struct beest_handshake_context {
	struct beest_registry *registry;
	struct beest_authors *authors;
	const struct beest_log *log;
	bool unconfirmed;		/* nobody confirms: ask for each author's presence */
	const struct beest_limit *limit;	/* of the call */
};

/* What a peer needs to know of it. */
void beest_handshake_region(const struct beest_mr *mr, struct hartebeest_remote_mr *region);

int beest_handshake_mr_publish(const struct beest_handshake_context *context,
			       struct beest_mr *mr, const char *key);
int beest_handshake_mr_fetch(const struct beest_handshake_context *context, const char *key,
			     struct hartebeest_remote_mr *region);

/*
 * What this end says of itself from now on, and whom it is connected to; sent by the next
 * look.  Remembers the key in the queue pair, which is in INIT or later.
 */
int beest_handshake_put(struct beest_registry *registry, struct beest_qp *qp, const char *key);

/* The same, and waits until a server has it. */
int beest_handshake_publish(const struct beest_handshake_context *context, struct beest_qp *qp,
			    const char *key);

/* Sends what was put, best effort. */
void beest_handshake_offer(struct beest_registry *registry, const struct beest_qp *qp);

/* Waits for the record under @key.  -EBADMSG for values no queue pair has. */
int beest_handshake_fetch(const struct beest_handshake_context *context, const char *key,
			  struct beest_endpoint *remote);

/* -> RTS, and says so, which the next look sends.  A failure names who the peer is. */
int beest_handshake_connect(const struct beest_handshake_context *context, struct beest_qp *qp,
			    const char *key, const struct beest_endpoint *remote);

/*
 * One queue pair on its way to a confirmed peer: each sight of the peer's record takes it
 * as far as that allows.
 */
struct beest_handshake {
	const struct beest_handshake_context *context;
	struct beest_qp *qp;
	const char *peer_key;
	struct beest_wait_get get;	/* filled by beest_handshake_start() */
	struct beest_qp_body peer;	/* as it was seen last */
	char key[BEEST_KEY_MAX + 1];
};

/* @qp is published, and connected to @peer_key or, in INIT, to nobody. */
int beest_handshake_start(struct beest_handshake *handshake,
			  const struct beest_handshake_context *context, struct beest_qp *qp,
			  const char *peer_key);

/* One sight: 1: confirmed; 0: not yet; negative: cannot be connected. */
int beest_handshake_see(void *handshake, const struct beest_record *record);

/*
 * Waits until the peer under @peer_key says that it is connected to this very queue pair.
 * Connects to that peer where @qp is in INIT, and to one that takes its place.
 */
int beest_handshake_confirm(const struct beest_handshake_context *context, struct beest_qp *qp,
			    const char *peer_key);

/*
 * One look at the key that @qp is connected to.  1: another queue pair is there, and @qp is
 * connected to that now; 0: the same, none, or the server does not answer.
 */
int beest_handshake_follow(const struct beest_handshake_context *context, struct beest_qp *qp);

#endif
