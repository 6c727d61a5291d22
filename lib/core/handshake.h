/* SPDX-License-Identifier: MIT */
/*
 * handshake.h - the other end: publish to it, find it, be sure of it
 *
 * Owns the meaning of the records of memory regions, queue pairs and confirmations.
 * Puts the notice board and the queue pair together.  Knows nothing of names: it is
 * handed the objects.
 */
#ifndef BEEST_HANDSHAKE_H
#define BEEST_HANDSHAKE_H

#include "lib/rendezvous/board.h"
#include "lib/verbs/mr.h"
#include "lib/verbs/qp.h"

int beest_mr_publish(struct beest_board *board, struct beest_mr *mr, const char *key);
int beest_mr_fetch(struct beest_board *board, const char *key,
		   struct beest_mr_payload *payload);

/* The endpoint of a fetched record, and who wrote it. */
struct beest_peer {
	struct beest_endpoint remote;
	struct beest_author author;
};

/* Remembers the key in the queue pair, which is in INIT or later. */
int beest_peer_publish(struct beest_board *board, struct beest_qp *qp, const char *key);

/* Waits for the record under @key.  -EBADMSG for values no queue pair has. */
int beest_peer_fetch(struct beest_board *board, const char *key, struct beest_peer *peer);

/* Notes for the peer that this end, which has a key, is connected to it; or no longer is. */
int beest_peer_announce(struct beest_board *board, struct beest_qp *qp);
void beest_peer_unannounce(struct beest_board *board, struct beest_qp *qp);

/*
 * Waits until the peer that @qp is connected to says that it is connected to this
 * very queue pair.  A peer that was replaced meanwhile is connected anew.
 */
int beest_peer_confirm(struct beest_board *board, struct beest_qp *qp,
		       const struct beest_log *log);

/*
 * One look at the key that @qp is connected to.  1: another queue pair stands there, and
 * @qp is connected to that @replacement now; 0: the same, none, or the server does not answer.
 */
int beest_peer_follow(struct beest_board *board, struct beest_qp *qp,
		      struct beest_peer *replacement, const struct beest_log *log);

#endif
