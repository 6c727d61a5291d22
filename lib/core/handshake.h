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

/* Does @echo name the queue pair @own of the context @incarnation? */
bool beest_handshake_names(const struct beest_echo *echo,
			   const struct beest_incarnation *incarnation,
			   const struct beest_endpoint *own);

/* Are both the same life of the same queue pair? */
bool beest_handshake_same(const struct beest_endpoint *a, const struct beest_endpoint *b);

/*
 * Puts the record of @qp, which is in INIT or later: its endpoint and to whom it is
 * connected.  The next look sends it.  Remembers the key in @qp.  @key: qp->key itself puts the
 * record again, if there is one.
 */
int beest_handshake_put(struct hartebeest_context *hb, struct beest_qp *qp, const char *key);

/* The same, and waits until a server has it. */
int beest_handshake_publish(struct hartebeest_context *hb, struct beest_qp *qp, const char *key,
			    const struct beest_limit *limit);

/* Sends what was put, best effort. */
void beest_handshake_offer(struct hartebeest_context *hb, const struct beest_qp *qp);

/*
 * Withdraws the queue pairs and regions that this context has published under @key, and then
 * deletes a message there, too.  Nothing publishes a withdrawn queue pair again but the program: it
 * stays connected.  Returns 1, or 0: there are none, and nothing was done.
 */
int beest_handshake_withdraw(struct hartebeest_context *hb, const char *key);

/* What the record of a queue pair shows of its peer. */
struct beest_found {
	struct beest_endpoint remote;
	uint8_t region_count;
	struct hartebeest_remote_mr regions[UINT8_MAX];	/* that it offers */
};

/*
 * Waits for the record under @key.  -EBADMSG: it has values that no queue pair can have; as
 * beest_handshake_see(): the peer has refused a queue pair of this context.
 */
int beest_handshake_fetch(struct hartebeest_context *hb, const char *key,
			  struct beest_found *found, const struct beest_limit *limit);

/*
 * -> RTS, and puts the record that shows it.  If that fails, the sentence names the peer, and the
 * record gives the peer the reason.  -EAGAIN: that may pass, see beest_retry_judge().
 */
int beest_handshake_connect(struct hartebeest_context *hb, struct beest_qp *qp, const char *key,
			    const struct beest_endpoint *remote, const struct beest_limit *limit);

/* Room for a refusal and its reason, or why a device cannot reach the peer. */
#define BEEST_HANDSHAKE_UNMET BEEST_KV_WHY

/*
 * One queue pair on its way to a confirmed peer.  Each sight of the peer's record takes it
 * as far as that record allows.
 */
struct beest_handshake {
	struct hartebeest_context *hb;
	struct beest_qp *qp;
	const char *peer_key;
	struct beest_wait *wait;
	struct beest_wait_get *get;	/* of it, filled by beest_handshake_start() */
	struct beest_qp_body peer;	/* as seen last */
	char unmet[BEEST_HANDSHAKE_UNMET];	/* why that is not accepted */
	int64_t again_at;		/* not to be connected before; 0: at once */
	char key[BEEST_KEY_MAX + 1];
};

/* @qp was put, and is connected to @peer_key or, in INIT, to no peer.  Fills @get, for @wait. */
int beest_handshake_start(struct beest_handshake *handshake, struct hartebeest_context *hb,
			  struct beest_qp *qp, const char *peer_key,
			  struct beest_wait_get *get, struct beest_wait *wait);

/*
 * Takes one sight.  1: confirmed; 0: not yet; negative: cannot be connected.  -ECONNABORTED: the
 * peer could not connect to @qp, and has closed.
 */
int beest_handshake_see(void *handshake, const struct beest_record *record);

/*
 * Waits until the peer under @peer_key publishes that it is connected to this very queue pair.
 * Connects to that peer first if @qp is in INIT, and to its successor if it is replaced.
 */
int beest_handshake_confirm(struct hartebeest_context *hb, struct beest_qp *qp,
			    const char *peer_key, const struct beest_limit *limit);

/*
 * Takes one look at @peer_key, which @qp is connected to.  1: another queue pair is there, and
 * @qp is connected to it now; 0: the same one, none, or the server does not answer.
 */
int beest_handshake_follow(struct hartebeest_context *hb, struct beest_qp *qp,
			   const char *peer_key, const struct beest_limit *limit);

#endif
