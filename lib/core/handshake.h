/* SPDX-License-Identifier: MIT */
/*
 * handshake.h - the other end: publish to it, find it, be sure of it
 *
 * Owns the meaning of the records of queue pairs and memory regions.  Puts the registry
 * and the queue pair together.  Knows nothing of names: it is handed the objects.
 */
#ifndef BEEST_HANDSHAKE_H
#define BEEST_HANDSHAKE_H

#include "lib/core/context.h"
#include "lib/rendezvous/wait.h"
#include "lib/verbs/mr.h"
#include "lib/verbs/qp.h"

/* What a peer needs to know of it. */
void beest_handshake_region(const struct beest_mr *mr, struct hartebeest_remote_mr *region);

/* Of those below, each that waits opens the registry where it is not open yet. */
int beest_handshake_mr_publish(struct hartebeest_context *hb, struct beest_mr *mr,
			       const char *key, const struct beest_limit *limit);
int beest_handshake_mr_fetch(struct hartebeest_context *hb, const char *key,
			     struct hartebeest_remote_mr *region,
			     const struct beest_limit *limit);

/*
 * What this end says of itself from now on, and whom it is connected to; sent by the next
 * look.  Remembers the key in the queue pair, which is in INIT or later.
 */
int beest_handshake_put(struct hartebeest_context *hb, struct beest_qp *qp, const char *key);

/* The same, and waits until a server has it. */
int beest_handshake_publish(struct hartebeest_context *hb, struct beest_qp *qp, const char *key,
			    const struct beest_limit *limit);

/* Sends what was put, best effort. */
void beest_handshake_offer(struct hartebeest_context *hb, const struct beest_qp *qp);

/* Waits for the record under @key.  -EBADMSG for values no queue pair has. */
int beest_handshake_fetch(struct hartebeest_context *hb, const char *key,
			  struct beest_endpoint *remote, const struct beest_limit *limit);

/* -> RTS, and says so, which the next look sends.  A failure names who the peer is. */
int beest_handshake_connect(struct hartebeest_context *hb, struct beest_qp *qp, const char *key,
			    const struct beest_endpoint *remote, const struct beest_limit *limit);

/*
 * One queue pair on its way to a confirmed peer: each sight of the peer's record takes it
 * as far as that allows.
 */
struct beest_handshake {
	struct hartebeest_context *hb;
	struct beest_qp *qp;
	const char *peer_key;
	const struct beest_limit *limit;
	struct beest_wait_get *get;	/* filled by beest_handshake_start() */
	struct beest_qp_body peer;	/* as it was seen last */
	char key[BEEST_KEY_MAX + 1];
};

/* @qp is published, and connected to @peer_key or, in INIT, to nobody. */
int beest_handshake_start(struct beest_handshake *handshake, struct hartebeest_context *hb,
			  struct beest_qp *qp, const char *peer_key,
			  struct beest_wait_get *get, const struct beest_limit *limit);

/* One sight: 1: confirmed; 0: not yet; negative: cannot be connected. */
int beest_handshake_see(void *handshake, const struct beest_record *record);

/*
 * Waits until the peer under @peer_key says that it is connected to this very queue pair.
 * Connects to that peer where @qp is in INIT, and to one that takes its place.
 */
int beest_handshake_confirm(struct hartebeest_context *hb, struct beest_qp *qp,
			    const char *peer_key, const struct beest_limit *limit);

/*
 * One look at @peer_key, which @qp is connected to.  1: another queue pair is there, and @qp is
 * connected to that now; 0: the same, none, or the server does not answer.
 */
int beest_handshake_follow(struct hartebeest_context *hb, struct beest_qp *qp,
			   const char *peer_key, const struct beest_limit *limit);

#endif
