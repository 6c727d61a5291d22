/* SPDX-License-Identifier: MIT */
/* bringup.c - see bringup.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/core/bringup.h"
#include "lib/core/handshake.h"

/* ----------------------------------------------- what was fetched of peers --- */

/* A fetched queue pair; its name in the table of objects is the key. */
struct found {
	struct beest_node node;
	struct beest_peer peer;
};

static int destroy(struct beest_node *node)
{
	free(BEEST_CONTAINER(node, struct found, node));
	return 0;
}

static const struct beest_kind found_kind = { "fetched queue pair", destroy };

static int add_found(struct hartebeest *hb, const char *key, const struct beest_peer *peer)
{
	struct found *found;
	int ret;

	found = calloc(1, sizeof(*found));
	if (!found)
		return beest_fail(ENOMEM, "no memory for a fetched queue pair");

	found->peer = *peer;
	ret = beest_table_add(&hb->objects, &found_kind, key, &found->node);
	if (ret < 0)
		destroy(&found->node);
	return ret;
}

/*
 * What is known of a peer changes with every fetch.  Under the lock as a whole: two
 * threads may fetch one key for the first time.
 */
static int remember(struct hartebeest *hb, const char *key, const struct beest_peer *peer)
{
	struct beest_node *node;
	int ret = 0;

	pthread_mutex_lock(&hb->naming);
	node = beest_table_look(&hb->objects, &found_kind, key);
	if (node)
		BEEST_CONTAINER(node, struct found, node)->peer = *peer;
	else
		ret = add_found(hb, key, peer);
	pthread_mutex_unlock(&hb->naming);
	return ret;
}

static int recall(struct hartebeest *hb, const char *key, struct beest_peer *peer)
{
	struct beest_node *node;

	pthread_mutex_lock(&hb->naming);
	node = beest_table_find(&hb->objects, &found_kind, key);
	if (node)
		*peer = BEEST_CONTAINER(node, struct found, node)->peer;
	pthread_mutex_unlock(&hb->naming);
	return node ? 0 : beest_fail_prefix(-ENOENT, "hartebeest_qp_fetch() was not called");
}

int beest_bringup_fetch(struct hartebeest *hb, const char *key, struct beest_peer *peer)
{
	struct beest_board *board;
	int ret;

	ret = beest_context_board(hb, &board);
	if (ret == 0)
		ret = beest_peer_fetch(board, key, peer);
	return ret < 0 ? ret : remember(hb, key, peer);
}

/* ------------------------------------------------------- the queue pair --- */

int beest_bringup_init(struct hartebeest *hb, struct beest_qp *qp)
{
	return beest_qp_init(qp, &hb->port, &hb->log);
}

/*
 * Sent at once: a peer that only serves one-sided reads makes no other call, and the other
 * end would wait for its confirmation in vain.  Who confirms is told of a failure then.
 */
static void announce(struct hartebeest *hb, struct beest_qp *qp)
{
	struct beest_board *board;

	if (qp->key[0] && qp->local.transport != BEEST_UD &&
	    beest_context_board(hb, &board) == 0 && beest_peer_announce(board, qp) == 0)
		beest_board_try_send(board, BEEST_KIND_CONFIRM, qp->key);
}

/* The state before it was published: a key may come after the peer. */
static bool is_connected(const struct beest_qp *qp, enum ibv_qp_state state)
{
	return qp->peer_key[0] && (state == IBV_QPS_RTR || state == IBV_QPS_RTS);
}

int beest_bringup_publish(struct hartebeest *hb, struct beest_qp *qp, const char *key)
{
	struct beest_board *board;
	enum ibv_qp_state state;
	int ret;

	ret = beest_qp_state(qp, &state);
	if (ret == 0 && state == IBV_QPS_RESET)
		ret = beest_bringup_init(hb, qp);
	if (ret == 0)
		ret = beest_context_board(hb, &board);
	if (ret == 0)
		ret = beest_peer_publish(board, qp, key);
	if (ret == 0 && is_connected(qp, state))
		announce(hb, qp);
	return ret;
}

/* INIT draws a new sequence number: who found this end before must find it anew. */
static int enter(struct hartebeest *hb, struct beest_qp *qp)
{
	return qp->key[0] ? beest_bringup_publish(hb, qp, qp->key) : beest_bringup_init(hb, qp);
}

/* hartebeest_qp_init() after a reset: what stands on the server is of the life before. */
static bool is_outdated(const struct beest_qp *qp)
{
	return qp->key[0] && qp->published != qp->local.endpoint.generation;
}

/*
 * The sentence of a failure names the key only: who it belongs to is known here.  That
 * @qp has a peer already is not about this one.
 */
static int connect_qp(struct hartebeest *hb, struct beest_qp *qp, const char *key,
		      const struct beest_peer *peer)
{
	char who[BEEST_AUTHOR_TEXT];
	int ret;

	ret = beest_qp_connect(qp, key, &peer->remote, &hb->log);
	if (ret < 0 && ret != -EISCONN)
		return beest_fail_prefix(ret, "peer (%s)",
					 beest_author_text(&peer->author, who, sizeof(who)));
	return ret;
}

int beest_bringup_connect(struct hartebeest *hb, struct beest_qp *qp, const char *key)
{
	struct beest_peer peer;
	enum ibv_qp_state state;
	int ret;

	ret = recall(hb, key, &peer);
	if (ret == 0)
		ret = beest_qp_state(qp, &state);
	if (ret == 0 && state == IBV_QPS_RESET)
		ret = enter(hb, qp);
	else if (ret == 0 && state == IBV_QPS_INIT && is_outdated(qp))
		ret = beest_bringup_publish(hb, qp, qp->key);
	if (ret == 0)
		ret = connect_qp(hb, qp, key, &peer);
	if (ret == 0)
		announce(hb, qp);
	return ret;
}

static int has_one_peer(const struct beest_qp *qp, const char *purpose)
{
	if (qp->local.transport == BEEST_UD)
		return beest_fail(EOPNOTSUPP, "UD queue pair '%s' has no single peer to %s",
				  qp->node.name, purpose);
	return 0;
}

static int is_connected_to(const struct beest_qp *qp, const char *key)
{
	if (strcmp(qp->peer_key, key) != 0)
		return beest_fail(ENOTCONN, "queue pair '%s' is not connected to '%s'",
				  qp->node.name, key);
	return 0;
}

int beest_bringup_confirm(struct hartebeest *hb, struct beest_qp *qp, const char *key)
{
	struct beest_board *board;
	int ret;

	ret = has_one_peer(qp, "confirm: use hartebeest_barrier()");
	if (ret == 0 && !qp->key[0])
		return beest_fail(ENOTCONN, "queue pair '%s' was never published, so no peer can "
				  "confirm it", qp->node.name);
	if (ret == 0)
		ret = is_connected_to(qp, key);
	if (ret == 0)
		ret = beest_context_board(hb, &board);
	return ret < 0 ? ret : beest_peer_confirm(board, qp, &hb->log);
}

int beest_bringup_follow(struct hartebeest *hb, struct beest_qp *qp, const char *key,
			 struct beest_peer *peer)
{
	struct beest_board *board;
	int ret;

	ret = has_one_peer(qp, "follow");
	if (ret == 0)
		ret = is_connected_to(qp, key);
	if (ret == 0)
		ret = beest_context_board(hb, &board);
	if (ret == 0 && qp->key[0])
		beest_board_try_send(board, BEEST_KIND_CONFIRM, qp->key);
	if (ret == 0)
		ret = beest_peer_follow(board, qp, peer, &hb->log);
	if (ret == 1 && remember(hb, key, peer) < 0)
		return -ENOMEM;
	return ret;
}

int beest_bringup_reset(struct hartebeest *hb, struct beest_qp *qp)
{
	beest_peer_unannounce(hb->board, qp);
	return beest_qp_reset(qp);
}

int beest_bringup_reconnect(struct hartebeest *hb, struct beest_qp *qp, const char *key)
{
	struct beest_peer peer;
	int ret;

	ret = has_one_peer(qp, "reconnect to");
	if (ret < 0)
		return ret;
	if (!qp->key[0])
		return beest_fail(ENOTCONN, "queue pair '%s' was never published: "
				  "hartebeest_qp_publish() and _connect() first", qp->node.name);

	/* the old way may be the failure */
	beest_pathcache_forget(&hb->router, &qp->remote.ip);
	ret = beest_bringup_reset(hb, qp);
	if (ret == 0)
		ret = beest_bringup_publish(hb, qp, qp->key);
	if (ret == 0)
		ret = beest_bringup_fetch(hb, key, &peer);
	if (ret == 0)
		ret = connect_qp(hb, qp, key, &peer);
	return ret < 0 ? ret : beest_bringup_confirm(hb, qp, key);
}
