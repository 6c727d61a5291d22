/* SPDX-License-Identifier: MIT */
/* bringup.c - see bringup.h */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/core/bringup.h"
#include "lib/core/handshake.h"

/* -------------------------------------------------------- the fetched peers --- */

/* A fetched queue pair; its name in the table of objects is the key. */
struct found {
	struct beest_node node;
	struct beest_endpoint remote;
};

static const struct beest_kind found_kind = {
	.noun = "fetched queue pair", .size = sizeof(struct found),
};

/*
 * Each fetch of a peer replaces the one before.  All under the lock, since two threads may
 * fetch a key for the first time.
 */
int beest_bringup_remember(struct hartebeest_context *hb, const char *key,
			   const struct beest_endpoint *remote)
{
	struct beest_node *node;
	int ret;

	pthread_mutex_lock(&hb->objects.lock);
	ret = beest_table_obtain(&hb->objects, &found_kind, key, &node);
	if (ret == 0)
		BEEST_CONTAINER(node, struct found, node)->remote = *remote;
	pthread_mutex_unlock(&hb->objects.lock);
	return ret;
}

int beest_bringup_peer(struct hartebeest_context *hb, const char *key,
		       struct beest_endpoint *remote)
{
	struct beest_node *node;

	pthread_mutex_lock(&hb->objects.lock);
	node = beest_table_find(&hb->objects, &found_kind, key);
	if (node)
		*remote = BEEST_CONTAINER(node, struct found, node)->remote;
	pthread_mutex_unlock(&hb->objects.lock);
	return node ? 0 : beest_fail_prefix(-ENOENT, "hartebeest_qp_fetch() was not called");
}

int beest_bringup_fetch(struct hartebeest_context *hb, const char *key,
			const struct beest_limit *limit, struct beest_endpoint *remote)
{
	int ret = beest_handshake_fetch(hb, key, remote, limit);

	return ret < 0 ? ret : beest_bringup_remember(hb, key, remote);
}

/* ------------------------------------------------------- the queue pair --- */

int beest_bringup_init(struct hartebeest_context *hb, struct beest_qp *qp)
{
	int ret = beest_qp_init(qp, &hb->port);

	if (ret == 0)
		beest_log(&hb->log, BEEST_LOG_DEBUG,
			  "queue pair '%s' is QP %" PRIu32 " of %s, in INIT",
			  qp->node.name, qp->qp->qp_num, hb->device.label);
	return ret;
}

static int qp_leave_reset(struct hartebeest_context *hb, struct beest_qp *qp)
{
	enum ibv_qp_state state;
	int ret;

	ret = beest_qp_state(qp, &state);
	if (ret == 0 && (state == IBV_QPS_RESET || !qp->port))
		ret = beest_bringup_init(hb, qp);
	return ret;
}

int beest_bringup_publish(struct hartebeest_context *hb, struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit)
{
	int ret = qp_leave_reset(hb, qp);

	return ret < 0 ? ret : beest_handshake_publish(hb, qp, key, limit);
}

/*
 * INIT draws a new sequence number and makes the record that was stored before it stale.
 * Such a record is published again first.
 */
int beest_bringup_connect(struct hartebeest_context *hb, struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit)
{
	struct beest_endpoint remote;
	int ret;

	ret = beest_bringup_peer(hb, key, &remote);
	if (ret == 0)
		ret = beest_context_need_registry(hb, BEEST_KIND_QP, key);
	if (ret == 0)
		ret = qp_leave_reset(hb, qp);
	if (ret == 0 && qp->key[0] && qp->published != qp->local.endpoint.generation)
		ret = beest_handshake_publish(hb, qp, qp->key, limit);
	if (ret == 0)
		ret = beest_handshake_connect(hb, qp, key, &remote, limit);
	if (ret == 0 && qp->local.transport != BEEST_UD)
		beest_handshake_offer(hb, qp);
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

int beest_bringup_confirm(struct hartebeest_context *hb, struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit)
{
	int ret;

	ret = has_one_peer(qp, "confirm: use hartebeest_barrier()");
	if (ret == 0 && !qp->key[0])
		return beest_fail(ENOTCONN, "queue pair '%s' was never published, so no peer can "
				  "confirm it", qp->node.name);
	if (ret == 0)
		ret = is_connected_to(qp, key);
	return ret < 0 ? ret : beest_handshake_confirm(hb, qp, key, limit);
}

int beest_bringup_follow(struct hartebeest_context *hb, struct beest_qp *qp,
			 const char *key, const struct beest_limit *limit)
{
	int ret;

	ret = has_one_peer(qp, "follow");
	if (ret == 0)
		ret = is_connected_to(qp, key);
	if (ret == 0)
		ret = beest_handshake_follow(hb, qp, key, limit);
	if (ret == 1 && beest_bringup_remember(hb, key, &qp->remote) < 0)
		return -ENOMEM;
	return ret;
}

int beest_bringup_reconnect(struct hartebeest_context *hb, struct beest_qp *qp,
			    const char *key, const struct beest_limit *limit)
{
	int ret;

	ret = has_one_peer(qp, "reconnect to");
	if (ret < 0)
		return ret;
	if (!qp->key[0])
		return beest_fail(ENOTCONN, "queue pair '%s' was never published: call "
				  "hartebeest_qp_publish() and hartebeest_qp_connect() first",
				  qp->node.name);

	/* the old path may be why it failed */
	beest_pathcache_forget(&hb->pathcache, &qp->remote.ip);
	ret = beest_qp_reset(qp);
	if (ret == 0)
		ret = beest_bringup_init(hb, qp);
	/* Another address is not published: it would end the peer's own attempts. */
	if (ret == 0 && beest_port_check_former(qp->port, &qp->local.endpoint, &qp->remote) < 0)
		return beest_fail_prefix(-ENODATA, "queue pair '%s' and '%s'", qp->node.name, key);
	if (ret == 0)
		ret = beest_context_need_registry(hb, BEEST_KIND_QP, key);
	if (ret == 0)
		ret = beest_handshake_put(hb, qp, qp->key);
	if (ret == 0)
		ret = beest_handshake_confirm(hb, qp, key, limit);
	if (ret == -ETIMEDOUT || ret == -EAGAIN)
		return beest_fail_prefix(ret, "this end began again, so the peer of '%s' must "
					 "reconnect (hartebeest_qp_reconnect()) or follow "
					 "(hartebeest_qp_follow(), hartebeest_pairs_connect())",
					 qp->node.name);
	return ret < 0 ? ret : beest_bringup_remember(hb, key, &qp->remote);
}
