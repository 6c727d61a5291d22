/* SPDX-License-Identifier: MIT */
/*
 * handshake.h - publishing to the peer, finding it, confirming it
 *
 * Owns the meaning of the records of queue pairs and memory regions, and joins the registry
 * and the queue pair.  Knows nothing of the names of objects: it is handed the objects.
 */
#ifndef BEEST_HANDSHAKE_H
#define BEEST_HANDSHAKE_H

#include "lib/core/context.h"
#include "lib/rendezvous/wait.h"
#include "lib/verbs/mr.h"
#include "lib/verbs/qp.h"

/* Fills @region with what a peer must know of @mr. */
void beest_handshake_region(const struct beest_mr *mr, struct hartebeest_remote_mr *region);

/*
 * Each function below that waits opens the registry first if it is not open yet.  An unconfirmed
 * context publishes without waiting, if its connection to the server is good.
 */
int beest_handshake_mr_publish(struct hartebeest_context *hb, struct beest_mr *mr,
			       const char *key, const struct beest_limit *limit);
int beest_handshake_mr_fetch(struct hartebeest_context *hb, const char *key,
			     struct hartebeest_remote_mr *region,
			     const struct beest_limit *limit);

/*
 * What a peer must know of @qp and of its peer.  @refused: a peer that it could not be connected
 * to, for this @reason; NULL: there is none.
 */
struct beest_qp_body beest_handshake_body(const struct beest_qp *qp,
					  const struct beest_endpoint *refused,
					  const char *reason);

/*
 * Puts the record of @qp, which is in INIT or later: its endpoint and to whom it is
 * connected.  The next look sends it.  Remembers the key in @qp.  @key: qp->key itself puts the
 * record again, if there is one.
 */
int beest_handshake_put(struct hartebeest_context *hb, struct beest_qp *qp, const char *key);

/* The same, and waits until a server has it. */
int beest_handshake_publish(struct hartebeest_context *hb, struct beest_qp *qp, const char *key,
			    const struct beest_limit *limit);

/* Is the record of @qp kept?  Not once its name was withdrawn, or given to another queue pair. */
bool beest_handshake_is_published(struct hartebeest_context *hb, struct beest_qp *qp);

/* Sends what was put, best effort. */
void beest_handshake_offer(struct hartebeest_context *hb, struct beest_qp *qp);

/*
 * Withdraws the queue pairs and regions that this context has published under @key, and then
 * deletes a message there, too.  Nothing publishes a withdrawn queue pair again but the program: it
 * stays connected.  Returns 1; 0: there are none, and nothing was done; or the error of a server,
 * if that has not answered whether it deleted the message.
 */
int beest_handshake_withdraw(struct hartebeest_context *hb, const char *key);

/*
 * -> RTS, and puts the record that shows it.  If that fails, the sentence names the peer, and the
 * record gives the peer the reason.  -EAGAIN: that may pass, see beest_retry_judge().
 */
int beest_handshake_connect(struct hartebeest_context *hb, struct beest_qp *qp, const char *key,
			    const struct beest_endpoint *remote, const struct beest_limit *limit);

/* Room for a refusal and its reason, or why a device cannot reach the peer. */
#define BEEST_HANDSHAKE_UNMET BEEST_KV_WHY

/*
 * One pair on its way: alone in a call, or one of several.  Each sight of the peer's record takes
 * its queue pair as far as that record and the aim of the call allow.
 */
struct beest_handshake {
	struct hartebeest_context *hb;
	struct hartebeest_pair *pair;	/* has the peer's key, and room for its regions */
	struct beest_qp *qp;		/* NULL: the call only fetches */
	struct beest_wait *wait;
	struct beest_wait_get *get;	/* of it */
	struct beest_qp_body peer;	/* as seen last */
	char unmet[BEEST_HANDSHAKE_UNMET];	/* why that is not accepted */
	int64_t again_at;		/* not to be connected before; 0: at once */
	char own_key[BEEST_KEY_MAX + 1], key[BEEST_KEY_MAX + 1];	/* of the two records */
};

/*
 * The aims of a call: each is the see() of its get.  All fail with -EBADMSG if the record has
 * values that no queue pair can have.
 *
 * Open: the peer has a record.  -ECONNABORTED: it has refused a queue pair of this context, and has
 * closed.
 */
int beest_handshake_see_open(void *one, const struct beest_record *record);

/*
 * Confirmed: the peer shows that it is connected to this very queue pair.  Connects to it first if
 * the queue pair is in INIT, and to its successor if it is replaced.  -ECONNABORTED: as above.
 */
int beest_handshake_see_confirmed(void *one, const struct beest_record *record);

/* Successor: the queue pair is connected to another one than before.  -ESHUTDOWN: the peer left. */
int beest_handshake_see_successor(void *one, const struct beest_record *record);

/* Completes @get, which has its kind and see(), for @wait.  The queue pair was put, if any. */
int beest_handshake_start(struct beest_handshake *one, struct beest_wait_get *get,
			  struct beest_wait *wait);

/*
 * Waits for this pair alone.  @wait has the limit; own_count 1: this end's record must be stored,
 * too.
 */
int beest_handshake_run(struct beest_handshake *one, enum beest_record_kind kind,
			int (*see)(void *one, const struct beest_record *record),
			struct beest_wait *wait);

/* What the record that was seen last shows: */

/* The peer could not connect to this very queue pair. */
bool beest_handshake_is_refused(const struct beest_handshake *one);

/* The peer is connected to this very queue pair.  UD: true, since no peer shows that. */
bool beest_handshake_is_confirmed(const struct beest_handshake *one);

/* This end is connected to that very queue pair of the peer. */
bool beest_handshake_is_connected(const struct beest_handshake *one);

/* The peer was replaced: logs that, and takes the queue pair, unless it is UD, back to INIT. */
int beest_handshake_begin_again(struct beest_handshake *one);

/* Takes as many regions of the peer as there is room for. */
void beest_handshake_take_regions(struct beest_handshake *one,
				  const struct beest_record *record);

#endif
