/* SPDX-License-Identifier: MIT */
/* handshake.c - see handshake.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/core/handshake.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/store.h"
#include "lib/verbs/retry.h"

/* -------------------------------------------------------------- a leftover? --- */

/*
 * A fetch whose result may never be confirmed.  A process puts its presence before any
 * other record.  So if another process has the rank of a record's author, that author is
 * gone, and the record it left must not be used.
 */
struct fetch {
	struct hartebeest_context *hb;
	const char *key;
	const struct beest_limit *limit;
	struct beest_wait_get *get;
	char unmet[BEEST_HANDSHAKE_UNMET];

	struct beest_found *peer;
	struct hartebeest_remote_mr *region;
};

static int fetch_run(struct fetch *fetch, enum beest_record_kind kind,
		     int (*see)(void *data, const struct beest_record *record))
{
	char key[BEEST_KEY_MAX + 1];
	struct beest_wait_get get = {
		.kind = kind, .key = key, .name = fetch->key, .see = see, .data = fetch,
	};
	struct beest_wait wait = { .gets = &get, .count = 1, .limit = fetch->limit };
	int ret;

	fetch->get = &get;
	ret = beest_context_need_registry(fetch->hb, kind, fetch->key);
	if (ret == 0)
		ret = beest_registry_key(fetch->hb->registry, kind, fetch->key, key);

	return ret < 0 ? ret : beest_wait_run(fetch->hb->registry, &wait);
}

/* ----------------------------------------------------------------- publishing --- */

/*
 * Programs of the original publish many objects in a row, one call after the other.  Where the
 * connection is good, their records are only sent: the next look reads them back.
 */
static bool record_is_sent(struct hartebeest_context *hb, const char *key)
{
	if (!hb->unconfirmed)
		return false;
	beest_look_send(hb->registry, key);

	return beest_lease_is(hb->registry->leases, key, BEEST_LEASE_SENT);
}

/* -------------------------------------------------------------------- regions --- */

void beest_handshake_region(const struct beest_mr *mr, struct hartebeest_remote_mr *region)
{
	region->address = (uintptr_t)mr->mr->addr;
	region->length = mr->mr->length;
	region->rkey = mr->mr->rkey;
	region->access = (uint32_t)mr->access;
}

int beest_handshake_mr_publish(struct hartebeest_context *hb, struct beest_mr *mr,
			       const char *name, const struct beest_limit *limit)
{
	char key[BEEST_KEY_MAX + 1];
	uint8_t body[BEEST_BODY_MAX];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_MR, .key = key, .body = body, .serial = &mr->node.serial,
	};
	struct hartebeest_remote_mr region;
	int ret;

	ret = beest_context_need_registry(hb, BEEST_KIND_MR, name);
	if (ret == 0)
		ret = beest_registry_key(hb->registry, BEEST_KIND_MR, name, key);
	if (ret < 0)
		return ret;
	beest_handshake_region(mr, &region);
	record.size = (size_t)beest_record_mr_encode(&region, body);
	if (hb->unconfirmed)
		ret = beest_registry_put(hb->registry, &record);
	if (ret < 0 || record_is_sent(hb, key))
		return ret;

	return beest_store_publish(hb->registry, &record, limit);
}

static int see_region(void *data, const struct beest_record *record)
{
	struct fetch *fetch = data;
	int ret;

	ret = beest_record_mr_decode(record, fetch->region);
	fetch->get->authors = BEEST_AUTHORS_PRESENT;

	return ret < 0 ? ret : 1;
}

int beest_handshake_mr_fetch(struct hartebeest_context *hb, const char *key,
			     struct hartebeest_remote_mr *region,
			     const struct beest_limit *limit)
{
	struct fetch fetch = {
		.hb = hb, .key = key, .limit = limit, .region = region,
	};

	return fetch_run(&fetch, BEEST_KIND_MR, see_region);
}

/* --------------------------------------------------------- this end's record --- */

static struct beest_echo echo_of(const struct beest_endpoint *remote)
{
	struct beest_echo echo = {
		.incarnation = remote->incarnation,
		.qp_num = remote->qp_num,
		.psn = remote->psn,
		.generation = remote->generation,
	};

	return echo;
}

struct beest_qp_body beest_handshake_body(const struct beest_qp *qp,
					  const struct beest_endpoint *refused, const char *reason)
{
	struct beest_qp_body body = {
		.endpoint = qp->local.endpoint, .regions = qp->region_count,
	};

	if (refused)
		body.echo = echo_of(refused);
	else if (qp->peer_key[0] && qp->local.transport != BEEST_UD)
		body.echo = echo_of(&qp->remote);
	beest_text_shorten(body.reason, sizeof(body.reason), reason);

	return body;
}

static int own_put(struct hartebeest_context *hb, struct beest_qp *qp, const char *name,
		   const struct beest_endpoint *refused, const char *reason)
{
	const struct beest_qp_body body = beest_handshake_body(qp, refused, reason);
	char key[BEEST_KEY_MAX + 1];
	uint8_t bytes[BEEST_QP_BODY_MAX];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_QP, .key = key, .body = bytes, .serial = &qp->node.serial,
		.if_changed = true,
	};
	int ret;

	if (name == qp->key && !name[0])
		return 0;
	ret = beest_registry_key(hb->registry, BEEST_KIND_QP, name, key);
	if (ret < 0)
		return ret;

	record.size = (size_t)beest_record_qp_encode(&body, qp->regions, &record.flags,
						     bytes);
	ret = beest_registry_put(hb->registry, &record);
	if (ret < 0)
		return ret;

	/* @name may be qp->key itself.  It fits, since it is only a part of key. */
	memmove(qp->key, name, strlen(name) + 1);
	qp->published = qp->local.endpoint.generation;

	return 0;
}

/*
 * Under the lock, so that no other thread brings back what beest_handshake_withdraw() withdraws.
 * @refused: a peer that @qp could not be connected to, for this @reason; NULL: there is none.
 */
static int endpoint_put(struct hartebeest_context *hb, struct beest_qp *qp, const char *name,
			const struct beest_endpoint *refused, const char *reason)
{
	int ret;

	pthread_mutex_lock(&hb->objects.lock);
	ret = own_put(hb, qp, name, refused, reason);
	pthread_mutex_unlock(&hb->objects.lock);

	return ret;
}

int beest_handshake_put(struct hartebeest_context *hb, struct beest_qp *qp, const char *name)
{
	return endpoint_put(hb, qp, name, NULL, "");
}

/* Under the lock.  No later step puts the record of a queue pair again. */
static void key_forget(struct hartebeest_context *hb, const char *name)
{
	struct beest_node *node;
	struct beest_qp *qp;

	for (node = hb->objects.newest; node; node = node->older) {
		qp = BEEST_CONTAINER(node, struct beest_qp, node);
		if (node->kind == &beest_qp_kind && strcmp(qp->key, name) == 0)
			qp->key[0] = '\0';
	}
}

/* Programs also delete many names of regions and messages, which must not walk all objects. */
static bool own_retract(struct hartebeest_context *hb, const char *name)
{
	bool any;

	pthread_mutex_lock(&hb->objects.lock);
	any = beest_registry_retract(hb->registry, BEEST_KIND_QP, name);
	if (any)
		key_forget(hb, name);
	any |= beest_registry_retract(hb->registry, BEEST_KIND_MR, name);
	pthread_mutex_unlock(&hb->objects.lock);

	return any;
}

int beest_handshake_withdraw(struct hartebeest_context *hb, const char *name)
{
	int ret = beest_context_need_registry(hb, BEEST_KIND_MESSAGE, name);

	if (ret < 0 || !own_retract(hb, name))
		return ret;
	beest_store_purge(hb->registry, name);

	return 1;
}

int beest_handshake_publish(struct hartebeest_context *hb, struct beest_qp *qp, const char *name,
			    const struct beest_limit *limit)
{
	char key[BEEST_KEY_MAX + 1];
	const char *keys[] = { key };
	struct beest_wait wait = {
		.own_keys = keys, .own_count = 1, .limit = limit,
	};
	int ret;

	ret = beest_context_need_registry(hb, BEEST_KIND_QP, name);
	if (ret == 0)
		ret = beest_registry_key(hb->registry, BEEST_KIND_QP, name, key);
	if (ret == 0)
		ret = beest_handshake_put(hb, qp, name);
	if (ret < 0)
		return ret;
	beest_lease_republish(hb->registry->leases, key);

	return record_is_sent(hb, key) ? 0 : beest_wait_run(hb->registry, &wait);
}

void beest_handshake_offer(struct hartebeest_context *hb, const struct beest_qp *qp)
{
	char key[BEEST_KEY_MAX + 1];
	bool kept;

	pthread_mutex_lock(&hb->objects.lock);
	kept = qp->key[0] && beest_registry_key(hb->registry, BEEST_KIND_QP, qp->key, key) == 0;
	pthread_mutex_unlock(&hb->objects.lock);
	if (kept)
		beest_look_send(hb->registry, key);
}

/* ----------------------------------------------------------------- a refusal --- */

bool beest_handshake_names(const struct beest_echo *echo,
			   const struct beest_incarnation *incarnation,
			   const struct beest_endpoint *own)
{
	return beest_process_is_context(&echo->incarnation, incarnation) &&
	       echo->qp_num == own->qp_num && echo->psn == own->psn &&
	       echo->generation == own->generation;
}

bool beest_handshake_same(const struct beest_endpoint *a, const struct beest_endpoint *b)
{
	return beest_process_is_context(&a->incarnation, &b->incarnation) &&
	       a->qp_num == b->qp_num && a->psn == b->psn && a->generation == b->generation;
}

static bool is_refusal_of(struct hartebeest_context *hb, const struct beest_qp *qp,
			  const struct beest_qp_body *peer)
{
	return peer->reason[0] && beest_handshake_names(&peer->echo, &hb->incarnation,
						       &qp->local.endpoint);
}

/* Puts the name of the peer before the sentence. */
static int peer_fail(struct hartebeest_context *hb, const struct beest_endpoint *remote, int ret)
{
	char who[BEEST_PRESENCE_TEXT], sentence[BEEST_ERROR_SIZE];

	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	beest_presence_author(hb->registry, remote->rank, &remote->incarnation, who);

	return beest_fail(-ret, "peer (%s): %s", who, sentence);
}

/* The peer refused @qp and has closed.  If both ends disagree, this end knows how by itself. */
static int refused_fail(struct hartebeest_context *hb, struct beest_qp *qp,
			const struct beest_qp_body *peer)
{
	struct beest_connection path;
	int ret = beest_qp_agree(qp, &peer->endpoint, &path);

	if (ret == 0)
		ret = beest_fail(ECONNABORTED, "it could not connect to this queue pair, and gave "
				 "up: %s", peer->reason);

	return peer_fail(hb, &peer->endpoint, ret);
}

/* Notifies the peer, which may wait for this end. */
static int refuse(struct hartebeest_context *hb, struct beest_qp *qp,
		  const struct beest_endpoint *remote, int ret)
{
	char reason[BEEST_ERROR_SIZE];

	beest_text_copy(reason, sizeof(reason), beest_error_text());
	if (qp->key[0] && endpoint_put(hb, qp, qp->key, remote, reason) == 0)
		beest_handshake_offer(hb, qp);
	beest_fail(-ret, "%s", reason);

	return peer_fail(hb, remote, ret);
}

/* Returns why the record of a peer is not accepted. */
static const char *unmet_text(const struct beest_qp_body *peer, bool closed, bool ours,
			      char text[BEEST_HANDSHAKE_UNMET])
{
	const char *what = ours ? "its process could not connect to this queue pair" :
			   closed ? "its queue pair was destroyed, or its process has left" :
			   "its process has not connected to this queue pair";

	if (!peer->reason[0])
		return what;
	snprintf(text, BEEST_HANDSHAKE_UNMET, "%s%s%s", what,
		 ours ? ": " : "; it had refused another queue pair: ", peer->reason);

	return text;
}

/* -------------------------------------------------------------- the other end --- */

/* 0, or the error if the closed record of a peer shows that it refused a queue pair of ours. */
static int fetch_judge_closed(struct fetch *fetch, const struct beest_qp_body *peer)
{
	struct hartebeest_context *hb = fetch->hb;
	const struct beest_qp *found;
	struct beest_qp own;
	bool refused;

	pthread_mutex_lock(&hb->objects.lock);
	found = beest_context_qp_by_number(hb, peer->echo.qp_num);
	refused = found && is_refusal_of(hb, found, peer);
	if (refused)
		own = *found;
	pthread_mutex_unlock(&hb->objects.lock);
	fetch->get->unmet = unmet_text(peer, true, refused, fetch->unmet);

	return refused ? refused_fail(hb, &own, peer) : 0;
}

/* RC and UC find a leftover when they confirm.  UD and the original's interface never do. */
static int see_endpoint(void *data, const struct beest_record *record)
{
	struct fetch *fetch = data;
	struct beest_qp_body body;
	size_t i;
	int ret;

	ret = beest_record_qp_decode(record, &body);
	if (ret == 0 && record->flags & BEEST_RECORD_CLOSED)
		return fetch_judge_closed(fetch, &body);
	if (ret < 0)
		return ret;

	fetch->peer->remote = body.endpoint;
	fetch->peer->region_count = body.regions;
	for (i = 0; i < body.regions; i++)
		beest_record_qp_region(record, i, &fetch->peer->regions[i]);
	if (fetch->hb->unconfirmed || body.endpoint.qp_type == IBV_QPT_UD)
		fetch->get->authors = BEEST_AUTHORS_PRESENT;

	return 1;
}

int beest_handshake_fetch(struct hartebeest_context *hb, const char *key,
			  struct beest_found *found, const struct beest_limit *limit)
{
	struct fetch fetch = { .hb = hb, .key = key, .limit = limit, .peer = found };

	return fetch_run(&fetch, BEEST_KIND_QP, see_endpoint);
}

/* The sentence of the transition has names and numbers; this adds who the peer is. */
int beest_handshake_connect(struct hartebeest_context *hb, struct beest_qp *qp, const char *key,
			    const struct beest_endpoint *remote, const struct beest_limit *limit)
{
	int ret;

	ret = beest_qp_connect(qp, key, remote, limit, NULL);
	if (ret == -EISCONN && qp->untold && strcmp(qp->peer_key, key) == 0)
		ret = 0;		/* only the record failed the last time */
	if (qp->qp->state != IBV_QPS_RTR)	/* which leads back by a reset only */
		ret = beest_retry_judge(ret, limit, &hb->log);
	if (ret == -EISCONN || ret == -EAGAIN)
		return ret;
	if (ret < 0)
		return refuse(hb, qp, remote, ret);

	if (qp->local.transport != BEEST_UD || qp->published != qp->local.endpoint.generation)
		ret = beest_handshake_put(hb, qp, qp->key);
	qp->untold = ret < 0;

	return ret;
}

/* The peer that the queue pair is connected to under this key; NULL: none yet. */
static const struct beest_endpoint *connected_peer(const struct beest_handshake *handshake)
{
	return beest_qp_remote(handshake->qp, handshake->peer_key);
}

/*
 * Keeps its own sequence number: the new peer may already be connected to it, and what was
 * under way to the earlier peer is lost anyway.  A UD queue pair has other peers, too, whose
 * addresses stay.
 */
static int connect_replacement(struct beest_handshake *handshake)
{
	const struct beest_endpoint *remote = &handshake->peer.endpoint;
	const struct beest_incarnation earlier = connected_peer(handshake)->incarnation;
	struct beest_qp *qp = handshake->qp;
	int ret = 0;

	beest_log(&handshake->hb->log, BEEST_LOG_INFO, "queue pair '%s': %s under '%s' was "
		  "replaced, and is QP %" PRIu32 " now: connecting again", qp->node.name,
		  BEEST_PEER_TEXT(remote), handshake->peer_key, remote->qp_num);
	if (!beest_process_is_context(&earlier, &remote->incarnation))
		beest_presence_forget(handshake->hb->registry, &earlier);
	if (qp->local.transport != BEEST_UD) {
		ret = beest_qp_reset(qp);
		if (ret == 0)
			ret = beest_qp_init_again(qp);
	}

	return ret < 0 ? ret : beest_handshake_connect(handshake->hb, qp, handshake->peer_key,
						       remote, handshake->wait->limit);
}

/* ------------------------------------------------------------------ confirming --- */

/* Connects to the peer as it was seen.  1: done; 0: that has to be tried again a moment later. */
static int see_connect(struct beest_handshake *handshake)
{
	int ret;

	handshake->get->unmet = handshake->unmet;
	if (beest_clock_now() < handshake->again_at)
		return 0;
	ret = connected_peer(handshake) ? connect_replacement(handshake) :
	      beest_handshake_connect(handshake->hb, handshake->qp, handshake->peer_key,
				      &handshake->peer.endpoint, handshake->wait->limit);
	if (ret != -EAGAIN)
		return ret < 0 ? ret : 1;
	handshake->again_at = beest_clock_deadline(BEEST_RETRY_PAUSE);
	snprintf(handshake->unmet, sizeof(handshake->unmet), "this end cannot connect to it yet: "
		 "%s", beest_error_text());

	return 0;
}

/* 1: it is connected to the peer as it was seen. */
static int see_peer(struct beest_handshake *handshake, bool closed)
{
	const struct beest_endpoint *connected = connected_peer(handshake);
	const char *unmet = handshake->get->unmet;
	int ret;

	/* A closed record still confirms a connection, but none is made to it any more. */
	if (closed || (connected && beest_handshake_same(&handshake->peer.endpoint, connected)))
		return connected && beest_handshake_same(&handshake->peer.endpoint, connected);
	ret = see_connect(handshake);
	if (ret > 0) {
		handshake->get->unmet = unmet;
		/* The peer waits for the record that shows it. */
		handshake->wait->hurry |= handshake->qp->local.transport != BEEST_UD;
	}

	return ret;
}

int beest_handshake_see(void *data, const struct beest_record *record)
{
	struct beest_handshake *handshake = data;
	struct beest_wait_get *get = handshake->get;
	bool closed = record->flags & BEEST_RECORD_CLOSED, refused;
	int ret;

	ret = beest_record_qp_decode(record, &handshake->peer);
	if (ret < 0)
		return ret;
	refused = is_refusal_of(handshake->hb, handshake->qp, &handshake->peer);
	if (closed && refused)
		return refused_fail(handshake->hb, handshake->qp, &handshake->peer);

	/* A closed record that was never seen open may be a leftover. */
	get->has_author = !closed || (get->has_author && beest_process_is_context(
				      &get->author, &record->incarnation));
	get->unmet = unmet_text(&handshake->peer, closed, refused, handshake->unmet);
	get->author = record->incarnation;
	get->rank = record->rank;

	ret = see_peer(handshake, closed);
	if (ret <= 0)
		return ret;
	if (handshake->qp->local.transport == BEEST_UD)
		return 1;

	if (handshake->peer.reason[0] ||
	    !beest_handshake_names(&handshake->peer.echo, &handshake->hb->incarnation,
				   &handshake->qp->local.endpoint))
		return 0;
	beest_presence_note(handshake->hb->registry, &record->incarnation);

	return 1;
}

int beest_handshake_start(struct beest_handshake *handshake, struct hartebeest_context *hb,
			  struct beest_qp *qp, const char *peer_key,
			  struct beest_wait_get *get, struct beest_wait *wait)
{
	int ret = 0;

	handshake->hb = hb;
	handshake->qp = qp;
	handshake->peer_key = peer_key;
	handshake->wait = wait;
	handshake->get = get;
	handshake->again_at = 0;
	*get = (struct beest_wait_get){
		.kind = BEEST_KIND_QP, .key = handshake->key, .name = peer_key,
		.see = beest_handshake_see, .data = handshake,
	};

	if (qp->untold)			/* there was no memory for the record */
		ret = beest_handshake_put(hb, qp, qp->key);
	if (ret < 0)
		return ret;
	qp->untold = false;

	return beest_registry_key(hb->registry, BEEST_KIND_QP, peer_key, handshake->key);
}

int beest_handshake_confirm(struct hartebeest_context *hb, struct beest_qp *qp,
			    const char *peer_key, const struct beest_limit *limit)
{
	char key[BEEST_KEY_MAX + 1];
	const char *keys[] = { key };
	struct beest_handshake handshake;
	struct beest_wait_get get;
	struct beest_wait wait = {
		.gets = &get, .count = 1, .own_keys = keys, .own_count = 1, .limit = limit,
	};
	int ret;

	ret = beest_context_need_registry(hb, BEEST_KIND_QP, peer_key);
	if (ret < 0)
		return ret;
	ret = beest_registry_key(hb->registry, BEEST_KIND_QP, qp->key, key);
	if (ret == 0)
		ret = beest_handshake_start(&handshake, hb, qp, peer_key, &get, &wait);
	if (ret == 0)
		ret = beest_wait_run(hb->registry, &wait);
	if (ret < 0)
		return beest_fail_prefix(ret, qp->peer_key[0] ?
					 "queue pair '%s' is connected, but '%s' did not confirm "
					 "it (it stays connected: confirm again, or reconnect)" :
					 "queue pair '%s' is not connected to '%s'",
					 qp->node.name, peer_key);

	return 0;
}

/* ------------------------------------------------------------------- following --- */

/* 1: another queue pair is there, and ours is connected to it now. */
static int see_successor(void *data, const struct beest_record *record)
{
	struct beest_handshake *handshake = data;
	int ret;

	ret = beest_record_qp_decode(record, &handshake->peer);
	if (ret == 0 && record->flags & BEEST_RECORD_CLOSED)
		return beest_fail(ESHUTDOWN, "queue pair '%s': its peer '%s' has left",
				  handshake->qp->node.name, handshake->peer_key);
	if (ret == 0 && connected_peer(handshake) &&
	    beest_handshake_same(&handshake->peer.endpoint, connected_peer(handshake)))
		return 0;
	if (ret == 0)
		ret = see_connect(handshake);
	if (ret == 0)
		return 0;
	if (ret < 0)
		return beest_fail_prefix(ret, "queue pair '%s' and '%s'", handshake->qp->node.name,
					 handshake->peer_key);
	beest_handshake_offer(handshake->hb, handshake->qp);

	return 1;
}

int beest_handshake_follow(struct hartebeest_context *hb, struct beest_qp *qp,
			   const char *peer_key, const struct beest_limit *limit)
{
	struct beest_handshake handshake;
	struct beest_wait_get get;
	struct beest_wait wait = { .gets = &get, .count = 1, .limit = limit };
	int ret;

	ret = beest_context_need_registry(hb, BEEST_KIND_QP, peer_key);
	if (ret == 0)
		ret = beest_handshake_start(&handshake, hb, qp, peer_key, &get, &wait);
	if (ret == 0) {
		get.see = see_successor;
		ret = beest_wait_run(hb->registry, &wait);
	}

	/* It is not connected if a replacement was seen, but could not be connected to. */
	return ret == 0 ? 1 : wait.expired && connected_peer(&handshake) ? 0 : ret;
}
