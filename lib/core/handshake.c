/* SPDX-License-Identifier: MIT */
/* handshake.c - see handshake.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/lock.h"
#include "lib/base/text.h"
#include "lib/core/handshake.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/store.h"
#include "lib/verbs/retry.h"

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

/*
 * A fetch whose result may never be confirmed.  A process puts its presence before any other
 * record.  So if another process has the rank of a record's author, that author is gone, and the
 * record it left must not be used.
 */
static int see_region(void *data, const struct beest_record *record)
{
	struct beest_handshake *one = data;
	int ret = beest_record_mr_decode(record, one->pair->regions);

	one->get->authors = BEEST_AUTHORS_PRESENT;

	return ret < 0 ? ret : 1;
}

int beest_handshake_mr_fetch(struct hartebeest_context *hb, const char *key,
			     struct hartebeest_remote_mr *region,
			     const struct beest_limit *limit)
{
	struct hartebeest_pair pair = { .peer_key = key, .regions = region, .region_room = 1 };
	struct beest_handshake one = { .hb = hb, .pair = &pair };
	struct beest_wait wait = { .limit = limit };

	return beest_handshake_run(&one, BEEST_KIND_MR, see_region, &wait);
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

/*
 * Under the lock.  Forgets a name that was withdrawn, or under which another queue pair was
 * published: no later step puts the record again.
 */
static bool key_is_kept(const struct hartebeest_context *hb, struct beest_qp *qp,
			char key[BEEST_KEY_MAX + 1])
{
	bool kept = qp->key[0] &&
		    beest_registry_key(hb->registry, BEEST_KIND_QP, qp->key, key) == 0 &&
		    beest_lease_serial(hb->registry->leases, key) == qp->node.serial;

	if (!kept)
		qp->key[0] = '\0';

	return kept;
}

static bool own_key(struct hartebeest_context *hb, struct beest_qp *qp,
		    char key[BEEST_KEY_MAX + 1])
{
	BEEST_HOLD(&hb->objects.lock);

	return key_is_kept(hb, qp, key);
}

/* A forked child must not ask its parent's registry: the next step of its call refuses it. */
bool beest_handshake_is_published(struct hartebeest_context *hb, struct beest_qp *qp)
{
	char key[BEEST_KEY_MAX + 1];

	if (!qp->key[0] || beest_context_need_registry(hb, BEEST_KIND_QP, qp->key) < 0)
		return qp->key[0];

	return own_key(hb, qp, key);
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

	if (name == qp->key && !key_is_kept(hb, qp, key))
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
	BEEST_HOLD(&hb->objects.lock);

	return own_put(hb, qp, name, refused, reason);
}

int beest_handshake_put(struct hartebeest_context *hb, struct beest_qp *qp, const char *name)
{
	return endpoint_put(hb, qp, name, NULL, "");
}

static bool own_retract(struct hartebeest_context *hb, const char *name)
{
	bool any;
	BEEST_HOLD(&hb->objects.lock);

	any = beest_registry_retract(hb->registry, BEEST_KIND_QP, name);
	any |= beest_registry_retract(hb->registry, BEEST_KIND_MR, name);

	return any;
}

int beest_handshake_withdraw(struct hartebeest_context *hb, const char *name)
{
	int ret = beest_context_need_registry(hb, BEEST_KIND_MESSAGE, name);

	if (ret < 0 || !own_retract(hb, name))
		return ret;
	ret = beest_store_purge(hb->registry, name);

	return ret < 0 ? ret : 1;
}

int beest_handshake_publish(struct hartebeest_context *hb, struct beest_qp *qp, const char *name,
			    const struct beest_limit *limit)
{
	char key[BEEST_KEY_MAX + 1];
	const char *keys[] = { key };
	struct beest_wait wait = { .own_keys = keys, .own_count = 1, .limit = limit };
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

void beest_handshake_offer(struct hartebeest_context *hb, struct beest_qp *qp)
{
	char key[BEEST_KEY_MAX + 1];

	if (own_key(hb, qp, key))
		beest_look_send(hb->registry, key);
}

/* ----------------------------------------------------------------- a refusal --- */

static bool echo_names(const struct beest_handshake *one, const struct beest_qp *own)
{
	const struct beest_echo *echo = &one->peer.echo;
	const struct beest_endpoint *endpoint = &own->local.endpoint;

	return beest_process_is_context(&echo->incarnation, &one->hb->incarnation) &&
	       echo->qp_num == endpoint->qp_num && echo->psn == endpoint->psn &&
	       echo->generation == endpoint->generation;
}

bool beest_handshake_is_refused(const struct beest_handshake *one)
{
	return one->peer.reason[0] && echo_names(one, one->qp);
}

bool beest_handshake_is_confirmed(const struct beest_handshake *one)
{
	return one->qp->local.transport == BEEST_UD ||
	       (!one->peer.reason[0] && echo_names(one, one->qp));
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
static int refused_fail(const struct beest_handshake *one, const struct beest_qp *qp)
{
	struct beest_connection path;
	int ret = beest_qp_agree(qp, &one->peer.endpoint, &path);

	if (ret == 0)
		ret = beest_fail(ECONNABORTED, "it could not connect to this queue pair, and gave "
				 "up: %s", one->peer.reason);

	return peer_fail(one->hb, &one->peer.endpoint, ret);
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

/* Notes why the peer's record is not accepted: at each sight, so a plain reason is not copied. */
static void unmet_note(struct beest_handshake *one, bool closed, bool ours)
{
	const char *what = ours ? "its process could not connect to this queue pair" :
			   closed ? "its queue pair was destroyed, or its process has left" :
			   "its process has not connected to this queue pair";

	one->get->unmet = one->peer.reason[0] ? one->unmet : what;
	if (one->peer.reason[0])
		snprintf(one->unmet, sizeof(one->unmet), "%s%s%s", what,
			 ours ? ": " : "; it had refused another queue pair: ", one->peer.reason);
}

/* -------------------------------------------------------------- the other end --- */

/* 0, or the error if the closed record of a peer shows that it refused a queue pair of ours. */
static int closed_judge(struct beest_handshake *one)
{
	struct hartebeest_context *hb = one->hb;
	const struct beest_qp *found;
	struct beest_qp own;
	bool refused;

	pthread_mutex_lock(&hb->objects.lock);
	found = beest_context_qp_by_number(hb, one->peer.echo.qp_num);
	refused = one->peer.reason[0] && found && echo_names(one, found);
	if (refused)
		own = *found;
	pthread_mutex_unlock(&hb->objects.lock);
	unmet_note(one, true, refused);

	return refused ? refused_fail(one, &own) : 0;
}

void beest_handshake_take_regions(struct beest_handshake *one,
				  const struct beest_record *record)
{
	struct hartebeest_pair *pair = one->pair;
	uint32_t i;

	pair->region_count = one->peer.regions;
	for (i = 0; i < pair->region_count && i < pair->region_room; i++)
		beest_record_qp_region(record, i, &pair->regions[i]);
}

/* RC and UC find a leftover when they confirm.  UD and the original's interface never do. */
int beest_handshake_see_open(void *data, const struct beest_record *record)
{
	struct beest_handshake *one = data;
	int ret = beest_record_qp_decode(record, &one->peer);

	if (ret == 0 && record->flags & BEEST_RECORD_CLOSED)
		return closed_judge(one);
	if (ret < 0)
		return ret;
	beest_handshake_take_regions(one, record);
	if (one->hb->unconfirmed || one->peer.endpoint.qp_type == IBV_QPT_UD)
		one->get->authors = BEEST_AUTHORS_PRESENT;

	return 1;
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
static const struct beest_endpoint *connected_peer(const struct beest_handshake *one)
{
	return beest_qp_remote(one->qp, one->pair->peer_key);
}

/* Is the peer, as it was seen, the same life of the queue pair that this end is connected to? */
bool beest_handshake_is_connected(const struct beest_handshake *one)
{
	const struct beest_endpoint *a = connected_peer(one), *b = &one->peer.endpoint;

	return a && beest_process_is_context(&a->incarnation, &b->incarnation) &&
	       a->qp_num == b->qp_num && a->psn == b->psn && a->generation == b->generation;
}

/*
 * Keeps its own sequence number: the new peer may already be connected to it, and what was
 * under way to the earlier peer is lost anyway.  A UD queue pair has other peers, too, whose
 * addresses stay.
 */
int beest_handshake_begin_again(struct beest_handshake *one)
{
	const struct beest_endpoint *remote = &one->peer.endpoint;
	struct beest_qp *qp = one->qp;
	int ret;

	beest_log(&one->hb->log, BEEST_LOG_INFO, "queue pair '%s': %s under '%s' was "
		  "replaced, and is QP %" PRIu32 " now: connecting again", qp->node.name,
		  BEEST_PEER_TEXT(remote), one->pair->peer_key, remote->qp_num);
	if (qp->local.transport == BEEST_UD)
		return 0;
	ret = beest_qp_reset(qp);

	return ret < 0 ? ret : beest_qp_init_again(qp);
}

/*
 * Connects to the peer as it was seen, for the first time or in the place of an earlier one.
 * 1: done; 0: that has to be tried again a moment later.
 */
static int see_connect(struct beest_handshake *one)
{
	const struct beest_endpoint *earlier = connected_peer(one), *remote = &one->peer.endpoint;
	int ret = 0;

	one->get->unmet = one->unmet;
	if (beest_clock_now() < one->again_at)
		return 0;
	if (earlier && !beest_process_is_context(&earlier->incarnation, &remote->incarnation))
		beest_presence_forget(one->hb->registry, &earlier->incarnation);
	if (earlier)
		ret = beest_handshake_begin_again(one);
	if (ret == 0)
		ret = beest_handshake_connect(one->hb, one->qp, one->pair->peer_key, remote,
					      one->wait->limit);
	if (ret != -EAGAIN)
		return ret < 0 ? ret : 1;
	one->again_at = beest_clock_deadline(BEEST_RETRY_PAUSE);
	snprintf(one->unmet, sizeof(one->unmet), "this end cannot connect to it yet: %s",
		 beest_error_text());

	return 0;
}

/* A closed record still confirms a connection, but none is made to it any more. */
int beest_handshake_see_confirmed(void *data, const struct beest_record *record)
{
	struct beest_handshake *one = data;
	struct beest_wait_get *get = one->get;
	bool closed = record->flags & BEEST_RECORD_CLOSED, refused;
	int ret;

	ret = beest_record_qp_decode(record, &one->peer);
	if (ret < 0)
		return ret;
	refused = beest_handshake_is_refused(one);
	if (closed && refused)
		return refused_fail(one, one->qp);

	/* A closed record that was never seen open may be a leftover. */
	get->has_author = !closed || (get->has_author && beest_process_is_context(
				      &get->author, &record->incarnation));
	get->author = record->incarnation;
	get->rank = record->rank;
	if (!closed && !beest_handshake_is_connected(one)) {
		ret = see_connect(one);
		if (ret <= 0)
			return ret;
		/* The peer waits for the record that shows it. */
		one->wait->hurry |= one->qp->local.transport != BEEST_UD;
	}
	unmet_note(one, closed, refused);
	if (!beest_handshake_is_connected(one) || !beest_handshake_is_confirmed(one))
		return 0;
	if (one->qp->local.transport != BEEST_UD)
		beest_presence_note(one->hb->registry, &record->incarnation);
	beest_handshake_take_regions(one, record);

	return 1;
}

int beest_handshake_see_successor(void *data, const struct beest_record *record)
{
	struct beest_handshake *one = data;
	const char *name = one->qp->node.name, *peer_key = one->pair->peer_key;
	int ret = beest_record_qp_decode(record, &one->peer);

	if (ret == 0 && record->flags & BEEST_RECORD_CLOSED)
		return beest_fail(ESHUTDOWN, "queue pair '%s': its peer '%s' has left", name,
				  peer_key);
	if (ret == 0 && beest_handshake_is_connected(one))
		return 0;
	if (ret == 0)
		ret = see_connect(one);
	if (ret < 0)
		return beest_fail_prefix(ret, "queue pair '%s' and '%s'", name, peer_key);
	if (ret > 0)
		beest_handshake_offer(one->hb, one->qp);

	return ret;
}

/* --------------------------------------------------------------------- to wait --- */

int beest_handshake_start(struct beest_handshake *one, struct beest_wait_get *get,
			  struct beest_wait *wait)
{
	struct beest_qp *qp = one->qp;
	int ret = 0;

	one->wait = wait;
	one->get = get;
	get->key = one->key;
	get->name = one->pair->peer_key;
	get->data = one;
	if (qp && qp->untold)		/* there was no memory for the record */
		ret = beest_handshake_put(one->hb, qp, qp->key);
	if (ret < 0)
		return ret;
	if (qp)
		qp->untold = false;
	if (qp && !own_key(one->hb, qp, one->own_key))
		one->own_key[0] = '\0';

	return beest_registry_key(one->hb->registry, get->kind, get->name, one->key);
}

int beest_handshake_run(struct beest_handshake *one, enum beest_record_kind kind,
			int (*see)(void *one, const struct beest_record *record),
			struct beest_wait *wait)
{
	const char *own[] = { one->own_key };
	struct beest_wait_get get = { .kind = kind, .see = see };
	int ret;

	ret = beest_context_need_registry(one->hb, kind, one->pair->peer_key);
	if (ret == 0)
		ret = beest_handshake_start(one, &get, wait);
	if (ret < 0)
		return ret;
	wait->gets = &get;
	wait->count = 1;
	wait->own_keys = own;

	return beest_wait_run(one->hb->registry, wait);
}
