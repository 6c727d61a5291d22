/* SPDX-License-Identifier: MIT */
/* bringup.c - see bringup.h */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/core/bringup.h"
#include "lib/core/handshake.h"
#include "lib/rendezvous/inquiry.h"
#include "lib/rendezvous/presence.h"
#include "lib/verbs/retry.h"

/* -------------------------------------------------------- the fetched peers --- */

/* A fetched queue pair; its name in the table of objects is the key. */
struct known {
	struct beest_node node;
	struct beest_endpoint remote;
	struct hartebeest_remote_mr *regions;	/* that it offered; NULL: none */
	size_t region_count;
};

static void known_dispose(struct beest_node *node)
{
	free(BEEST_CONTAINER(node, struct known, node)->regions);
}

static const struct beest_kind known_kind = {
	.noun = "fetched queue pair", .size = sizeof(struct known), .dispose = known_dispose,
};

static void peer_show(const struct beest_endpoint *remote, struct hartebeest_remote_qp *out)
{
	memset(out, 0, sizeof(*out));
	memcpy(out->gid.raw, remote->gid.raw, sizeof(out->gid.raw));
	memcpy(out->ip.raw, remote->ip.raw, sizeof(out->ip.raw));
	out->qp_type = remote->qp_type;
	out->qp_num = remote->qp_num;
	out->psn = remote->psn;
	out->qkey = remote->qkey;
	out->lid = remote->lid;
	out->pkey = remote->pkey;
	out->rank = remote->rank;
	out->ece_vendor = remote->ece.vendor;
	out->ece_options = remote->ece.options;
}

/* Takes @regions over. */
static int known_set(const struct beest_handshake *one, struct hartebeest_remote_mr *regions,
		     size_t count)
{
	struct beest_node *node;
	struct known *known;
	int ret = beest_table_obtain(&one->hb->objects, &known_kind, one->pair->peer_key, &node);

	if (ret < 0) {
		free(regions);
		return ret;
	}
	known = BEEST_CONTAINER(node, struct known, node);
	free(known->regions);
	known->remote = one->peer.endpoint;
	known->regions = regions;
	known->region_count = count;
	return 0;
}

/*
 * Each fetch of a peer replaces the one before.  All under the lock, since two threads may
 * fetch a key for the first time.
 */
int beest_bringup_remember(const struct beest_handshake *one)
{
	struct hartebeest_pair *pair = one->pair;
	const size_t count = BEEST_MIN(pair->region_count, pair->region_room);
	struct hartebeest_remote_mr *copy = NULL;
	int ret;

	peer_show(&one->peer.endpoint, &pair->peer);
	if (count) {
		copy = malloc(count * sizeof(*copy));
		if (!copy)
			return beest_fail(ENOMEM, "no memory for %zu regions", count);
		memcpy(copy, pair->regions, count * sizeof(*copy));
	}
	pthread_mutex_lock(&one->hb->objects.lock);
	ret = known_set(one, copy, count);
	pthread_mutex_unlock(&one->hb->objects.lock);
	return ret;
}

/* Under the lock. */
static const struct known *known_find(struct hartebeest_context *hb, const char *key)
{
	struct beest_node *node = beest_table_find(&hb->objects, &known_kind, key);

	if (!node)
		beest_fail_prefix(-ENOENT, "hartebeest_qp_fetch() was not called");
	return node ? BEEST_CONTAINER(node, struct known, node) : NULL;
}

int beest_bringup_peer(struct hartebeest_context *hb, const char *key,
		       struct beest_endpoint *remote)
{
	const struct known *known;

	pthread_mutex_lock(&hb->objects.lock);
	known = known_find(hb, key);
	if (known)
		*remote = known->remote;
	pthread_mutex_unlock(&hb->objects.lock);
	return known ? 0 : -ENOENT;
}

int beest_bringup_regions(struct hartebeest_context *hb, const char *key,
			  struct hartebeest_remote_mr *regions, size_t count)
{
	const struct known *known;
	int ret = -ENOENT;

	pthread_mutex_lock(&hb->objects.lock);
	known = known_find(hb, key);
	if (known) {
		ret = (int)known->region_count;
		count = BEEST_MIN(count, known->region_count);
		if (count)
			memcpy(regions, known->regions, count * sizeof(*regions));
	}
	pthread_mutex_unlock(&hb->objects.lock);
	return ret;
}

int beest_bringup_fetch(struct hartebeest_context *hb, const char *key,
			struct hartebeest_remote_qp *remote, const struct beest_limit *limit)
{
	struct hartebeest_remote_mr regions[UINT8_MAX];
	struct hartebeest_pair pair = {
		.peer_key = key, .regions = regions, .region_room = BEEST_COUNT(regions),
	};
	struct beest_handshake one = { .hb = hb, .pair = &pair };
	struct beest_wait wait = { .limit = limit };
	int ret;

	ret = beest_handshake_run(&one, BEEST_KIND_QP, beest_handshake_see_open, &wait);
	if (ret == 0)
		ret = beest_bringup_remember(&one);
	if (ret == 0 && remote)
		*remote = pair.peer;
	return ret;
}

/* ------------------------------------------------------- the queue pair --- */

int beest_bringup_init(struct hartebeest_context *hb, struct beest_qp *qp,
		       const struct beest_limit *limit)
{
	const struct beest_limit usual = beest_context_limit(hb);
	int ret;

	do
		ret = beest_qp_init(qp, &hb->port);
	while (beest_retry(&ret, limit ? limit : &usual, &hb->log));
	if (ret == 0)
		beest_log(&hb->log, BEEST_LOG_DEBUG,
			  "queue pair '%s' is QP %" PRIu32 " of %s, in INIT",
			  qp->node.name, qp->qp->qp_num, hb->device.label);
	return ret;
}

int beest_bringup_serve(struct hartebeest_context *hb, struct beest_qp *qp,
			const struct beest_limit *limit)
{
	int ret;

	do
		ret = beest_qp_serve(qp);
	while (beest_retry(&ret, limit, &hb->log));
	return ret;
}

static int qp_leave_reset(struct hartebeest_context *hb, struct beest_qp *qp,
			  const struct beest_limit *limit)
{
	enum ibv_qp_state state;
	int ret;

	ret = beest_qp_state(qp, &state);
	if (ret == 0 && (state == IBV_QPS_RESET || !qp->port))
		ret = beest_bringup_init(hb, qp, limit);
	return ret;
}

int beest_bringup_publish(struct hartebeest_context *hb, struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit)
{
	int ret = qp_leave_reset(hb, qp, limit);

	/* Those who find its record send to it at once. */
	if (ret == 0)
		ret = beest_bringup_serve(hb, qp, limit);
	return ret < 0 ? ret : beest_handshake_publish(hb, qp, key, limit);
}

int beest_bringup_check(const struct hartebeest_context *hb, const struct beest_qp *qp,
			const char *own, const char *key)
{
	if (strcmp(own, key) != 0 || qp->local.transport == BEEST_UD || hb->unconfirmed)
		return 0;

	return beest_fail(EINVAL, "queue pair '%s' and its peer have the same key '%s': the peer's "
			  "is the one under which the peer publishes", qp->node.name, key);
}

/*
 * INIT draws a new sequence number and makes the record that was stored before it stale.
 * Such a record is published again first.
 */
int beest_bringup_connect(struct hartebeest_context *hb, struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit)
{
	struct beest_endpoint remote;
	uint32_t published;
	int ret;

	ret = beest_handshake_is_published(hb, qp) ?
	      beest_bringup_check(hb, qp, qp->key, key) : 0;
	if (ret < 0)
		return ret;
	ret = beest_bringup_peer(hb, key, &remote);
	if (ret == -ENOENT && !hb->unconfirmed) {
		ret = beest_bringup_fetch(hb, key, NULL, limit);
		if (ret == 0)
			ret = beest_bringup_peer(hb, key, &remote);
	}
	if (ret == 0)
		ret = beest_context_need_registry(hb, BEEST_KIND_QP, key);
	if (ret == 0)
		ret = qp_leave_reset(hb, qp, limit);
	if (ret == 0 && beest_handshake_is_published(hb, qp) &&
	    qp->published != qp->local.endpoint.generation)
		ret = beest_handshake_publish(hb, qp, qp->key, limit);
	if (ret < 0)
		return ret;
	published = qp->published;
	do
		ret = beest_handshake_connect(hb, qp, key, &remote, limit);
	while (beest_retry_pause(&ret, limit));
	if (ret < 0)
		return ret == -EISCONN ? ret :
		       beest_fail_prefix(ret, "queue pair '%s' and '%s'", qp->node.name, key);
	/*
	 * Peers of the original's interface never ask who is connected to them, nor do those of
	 * UD; but all must find the LID that the port has now.
	 */
	if (qp->published != published || (qp->local.transport != BEEST_UD && !hb->unconfirmed))
		beest_handshake_offer(hb, qp);
	return 0;
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
	if (!beest_qp_remote(qp, key))
		return beest_fail(ENOTCONN, "queue pair '%s' is not connected to '%s': "
				  "hartebeest_qp_connect() first", qp->node.name, key);
	return 0;
}

int beest_bringup_qp_of(struct hartebeest_context *hb, const char *key, struct beest_qp **found)
{
	struct beest_node *node;
	struct beest_qp *qp = NULL;

	pthread_mutex_lock(&hb->objects.lock);
	for (node = hb->objects.newest; node && !qp; node = node->older)
		if (node->kind == &beest_qp_kind) {
			qp = BEEST_CONTAINER(node, struct beest_qp, node);
			if (!beest_qp_remote(qp, key))
				qp = NULL;
		}
	pthread_mutex_unlock(&hb->objects.lock);
	*found = qp;
	return qp ? 0 : beest_fail(ENOTCONN, "no queue pair of this context is connected to '%s'",
				   key);
}

/* Waits for the peer to confirm a queue pair that was published. */
static int wait_confirmed(struct beest_handshake *one, const struct beest_limit *limit)
{
	struct beest_wait wait = { .limit = limit, .own_count = 1 };
	int ret = beest_handshake_run(one, BEEST_KIND_QP, beest_handshake_see_confirmed, &wait);

	return ret == 0 ? 0 : beest_fail_prefix(ret, one->qp->peer_key[0] ?
						"queue pair '%s' is connected, but '%s' did not "
						"confirm it (it stays connected: confirm again, or "
						"reconnect)" :
						"queue pair '%s' is not connected to '%s'",
						one->qp->node.name, one->pair->peer_key);
}

int beest_bringup_confirm(struct hartebeest_context *hb, struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit)
{
	struct hartebeest_pair pair = { .peer_key = key };
	struct beest_handshake one = { .hb = hb, .pair = &pair, .qp = qp };
	int ret;

	ret = has_one_peer(qp, "confirm: use hartebeest_barrier()");
	if (ret == 0 && !beest_handshake_is_published(hb, qp))
		return beest_fail(ENOTCONN, qp->by_bytes ?
				  "queue pair '%s' is confirmed by bytes: import what its peer "
				  "exports after it has imported those of this end" :
				  "queue pair '%s' is not published, so no peer can confirm it",
				  qp->node.name);
	if (ret == 0)
		ret = is_connected_to(qp, key);
	if (ret == 0)
		ret = beest_context_need_registry(hb, BEEST_KIND_QP, key);
	return ret < 0 ? ret : wait_confirmed(&one, limit);
}

int beest_bringup_follow(struct hartebeest_context *hb, struct beest_qp *qp, const char *key,
			 struct hartebeest_remote_qp *remote, const struct beest_limit *limit)
{
	struct hartebeest_pair pair = { .peer_key = key };
	struct beest_handshake one = { .hb = hb, .pair = &pair, .qp = qp };
	struct beest_wait wait = { .limit = limit };
	int ret = is_connected_to(qp, key);

	if (ret < 0)
		return ret;
	ret = beest_handshake_run(&one, BEEST_KIND_QP, beest_handshake_see_successor, &wait);
	/* It is not connected if a replacement was seen, but could not be connected to. */
	if (ret < 0)
		return wait.expired && beest_qp_remote(qp, key) ? 0 : ret;
	if (beest_bringup_remember(&one) < 0)
		return -ENOMEM;
	if (remote)
		*remote = pair.peer;
	return 1;
}

/* Reports why nothing answered: either the peer is gone, or it has not noticed. */
static int reconnect_fail(struct hartebeest_context *hb, const struct beest_qp *qp,
			  const char *key, const struct beest_limit *limit, int ret)
{
	char who[BEEST_PRESENCE_TEXT], sentence[BEEST_ERROR_SIZE];
	struct beest_endpoint peer;

	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	if (beest_inquiry_fits(limit) && beest_bringup_peer(hb, key, &peer) == 0 &&
	    beest_presence_is_over(hb->registry, peer.rank, &peer.incarnation, who))
		return beest_fail(-ret, "the peer of '%s' was %s; only its successor can connect "
				  "to this end: %s", qp->node.name, who, sentence);
	return beest_fail(-ret, "this end began again, so the peer of '%s' must reconnect "
			  "(hartebeest_qp_reconnect()) or follow (hartebeest_qp_follow(), "
			  "hartebeest_pairs_connect()): %s", qp->node.name, sentence);
}

int beest_bringup_reconnect(struct hartebeest_context *hb, struct beest_qp *qp,
			    const char *key, const struct beest_limit *limit)
{
	struct hartebeest_pair pair = { .peer_key = key };
	struct beest_handshake one = { .hb = hb, .pair = &pair, .qp = qp };
	const bool published = beest_handshake_is_published(hb, qp);
	int ret;

	ret = published ? beest_bringup_check(hb, qp, qp->key, key) : 0;
	if (ret == 0)
		ret = has_one_peer(qp, "reconnect to");
	if (ret < 0)
		return ret;
	if (!published)
		return beest_fail(ENOTCONN, qp->by_bytes ?
				  "queue pair '%s' is connected by bytes: call "
				  "hartebeest_qp_reset(), then hartebeest_qp_export() and "
				  "hartebeest_qp_import() again" :
				  "queue pair '%s' is not published: call "
				  "hartebeest_qp_publish() and hartebeest_qp_connect() first",
				  qp->node.name);

	/* the old path may be why it failed */
	beest_pathcache_forget(&hb->pathcache, &qp->remote.ip);
	ret = beest_qp_reset(qp);
	if (ret == 0)
		ret = beest_bringup_init(hb, qp, limit);
	/* Another address is not published: it would end the peer's own attempts. */
	if (ret == 0 && beest_port_check_former(qp->port, &qp->local.endpoint, &qp->remote) < 0)
		return beest_fail_prefix(-ENODATA, "queue pair '%s' and '%s'", qp->node.name, key);
	if (ret == 0)
		ret = beest_context_need_registry(hb, BEEST_KIND_QP, key);
	if (ret == 0)
		ret = beest_handshake_put(hb, qp, qp->key);
	if (ret == 0)
		ret = wait_confirmed(&one, limit);
	if (ret == -ETIMEDOUT || ret == -EAGAIN)
		return reconnect_fail(hb, qp, key, limit, ret);
	return ret < 0 ? ret : beest_bringup_remember(&one);
}
