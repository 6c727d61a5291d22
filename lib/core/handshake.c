/* SPDX-License-Identifier: MIT */
/* handshake.c - see handshake.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/core/handshake.h"

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
	struct beest_incarnation author;
	int32_t rank;
	bool found;
	bool needs_author;
	char gone[2 * BEEST_PRESENCE_TEXT + 64];	/* a sentence that says so; "": none */

	struct beest_endpoint *remote;
	struct hartebeest_remote_mr *region;
};

/* 1: another process has the author's rank.  0 also if that cannot be known. */
static int author_is_gone(struct fetch *fetch)
{
	struct hartebeest_context *hb = fetch->hb;
	struct beest_presence_query query = {
		.rank = fetch->rank, .incarnation = &fetch->author,
	};
	char text[BEEST_PRESENCE_TEXT];

	if (fetch->rank < 0 || beest_presence_is_known(hb->registry, &fetch->author))
		return 0;
	beest_presence_ask(hb->registry, &query, 1);
	if (query.ret != -ESTALE)
		return 0;

	snprintf(fetch->gone, sizeof(fetch->gone), "'%.200s' was published by a process "
		 "that is gone; its successor is %s", fetch->key,
		 beest_presence_text(fetch->rank, &query.body, text));
	return 1;
}

static int fetch_each(void *data)
{
	struct fetch *fetch = data;

	if (!fetch->found)
		return 0;
	if (!fetch->needs_author || !author_is_gone(fetch))
		return 1;
	fetch->found = false;

	return 0;
}

static void fetch_note(struct fetch *fetch, const struct beest_record *record)
{
	fetch->author = record->incarnation;
	fetch->rank = record->rank;
	fetch->found = true;
}

static int fetch_run(struct fetch *fetch, enum beest_record_kind kind,
		     int (*see)(void *data, const struct beest_record *record))
{
	char key[BEEST_KEY_MAX + 1];
	struct beest_wait_get get = {
		.kind = kind, .key = key, .name = fetch->key, .see = see, .data = fetch,
		.unmet = "its process is gone",
	};
	struct beest_wait wait = {
		.gets = &get, .count = 1, .each = fetch_each, .data = fetch,
		.limit = fetch->limit,
	};
	int ret;

	ret = beest_context_need_registry(fetch->hb, kind, fetch->key);
	if (ret == 0)
		ret = beest_registry_key(fetch->hb->registry, kind, fetch->key, key);
	if (ret == 0)
		ret = beest_wait_run(fetch->hb->registry, &wait);
	if ((ret == -ETIMEDOUT || ret == -EAGAIN) && fetch->gone[0])
		return beest_fail_prefix(ret, "%s", fetch->gone);

	return ret;
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
		.kind = BEEST_KIND_MR, .key = key, .body = body, .serial = &mr->serial,
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

	return beest_registry_publish(hb->registry, &record, limit);
}

static int see_region(void *data, const struct beest_record *record)
{
	struct fetch *fetch = data;
	int ret;

	ret = beest_record_mr_decode(record, fetch->region);
	if (ret == 0)
		fetch_note(fetch, record);

	return ret;
}

int beest_handshake_mr_fetch(struct hartebeest_context *hb, const char *key,
			     struct hartebeest_remote_mr *region,
			     const struct beest_limit *limit)
{
	struct fetch fetch = {
		.hb = hb, .key = key, .limit = limit, .region = region, .needs_author = true,
	};

	return fetch_run(&fetch, BEEST_KIND_MR, see_region);
}

/* ------------------------------------------------------------- the own record --- */

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

int beest_handshake_put(struct hartebeest_context *hb, struct beest_qp *qp, const char *name)
{
	struct beest_qp_body body = {
		.endpoint = qp->local.endpoint, .regions = qp->region_count,
	};
	char key[BEEST_KEY_MAX + 1];
	uint8_t bytes[BEEST_QP_BODY_MAX];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_QP, .key = key, .body = bytes, .serial = &qp->serial,
		.calm = true,
	};
	int ret;

	ret = beest_registry_key(hb->registry, BEEST_KIND_QP, name, key);
	if (ret < 0)
		return ret;

	if (qp->peer_key[0] && qp->local.transport != BEEST_UD)
		body.echo = echo_of(&qp->remote);
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
	beest_lease_insist(hb->registry->leases, key);

	return beest_wait_run(hb->registry, &wait);
}

void beest_handshake_offer(struct hartebeest_context *hb, const struct beest_qp *qp)
{
	char key[BEEST_KEY_MAX + 1];

	if (qp->key[0] && beest_registry_key(hb->registry, BEEST_KIND_QP, qp->key, key) == 0)
		beest_registry_offer(hb->registry, key);
}

/* -------------------------------------------------------------- the other end --- */

/* RC and UC find a leftover when they confirm.  UD and the original's interface never do. */
static int see_endpoint(void *data, const struct beest_record *record)
{
	struct fetch *fetch = data;
	struct beest_qp_body body;
	int ret;

	if (record->flags & BEEST_RECORD_CLOSED)
		return 0;
	ret = beest_record_qp_decode(record, &body);
	if (ret < 0)
		return ret;

	*fetch->remote = body.endpoint;
	fetch->needs_author = fetch->hb->unconfirmed || body.endpoint.qp_type == IBV_QPT_UD;
	fetch_note(fetch, record);

	return 0;
}

int beest_handshake_fetch(struct hartebeest_context *hb, const char *key,
			  struct beest_endpoint *remote, const struct beest_limit *limit)
{
	struct fetch fetch = { .hb = hb, .key = key, .limit = limit, .remote = remote };

	return fetch_run(&fetch, BEEST_KIND_QP, see_endpoint);
}

/* The sentence of the transition has names and numbers; this adds who the peer is. */
int beest_handshake_connect(struct hartebeest_context *hb, struct beest_qp *qp, const char *key,
			    const struct beest_endpoint *remote, const struct beest_limit *limit)
{
	char who[BEEST_PRESENCE_TEXT], sentence[BEEST_ERROR_SIZE];
	int ret;

	ret = beest_qp_connect(qp, key, remote, limit, NULL);
	if (ret == -EISCONN && qp->untold && strcmp(qp->peer_key, key) == 0)
		ret = 0;		/* only the record failed the last time */
	if (ret < 0 && ret != -EISCONN) {
		beest_text_copy(sentence, sizeof(sentence), beest_error_text());
		beest_presence_author(hb->registry, remote->rank, &remote->incarnation, who);
		return beest_fail(-ret, "peer (%s): %s", who, sentence);
	}
	if (ret < 0)
		return ret;

	if (qp->key[0] && qp->local.transport != BEEST_UD)
		ret = beest_handshake_put(hb, qp, qp->key);
	qp->untold = ret < 0;

	return ret;
}

/*
 * Keeps the own sequence number: the new peer may already be connected to it, and what was
 * under way to the former peer is lost anyway.
 */
static int connect_replacement(struct beest_handshake *handshake)
{
	const struct beest_endpoint *remote = &handshake->peer.endpoint;
	struct beest_qp *qp = handshake->qp;
	int ret;

	beest_log(&handshake->hb->log, BEEST_LOG_INFO, "queue pair '%s': %s under '%s' was "
		  "replaced, and is QP %" PRIu32 " now: connecting again", qp->node.name,
		  BEEST_PEER_TEXT(remote), handshake->peer_key, remote->qp_num);
	if (!beest_process_is_context(&qp->remote.incarnation, &remote->incarnation))
		beest_presence_forget(handshake->hb->registry, &qp->remote.incarnation);
	ret = beest_qp_reset(qp);
	if (ret == 0)
		ret = beest_qp_init_again(qp);

	return ret < 0 ? ret : beest_handshake_connect(handshake->hb, qp, handshake->peer_key,
						       remote, handshake->limit);
}

/* ------------------------------------------------------------------ confirming --- */

static bool same_endpoint(const struct beest_endpoint *a, const struct beest_endpoint *b)
{
	return beest_process_is_context(&a->incarnation, &b->incarnation) &&
	       a->qp_num == b->qp_num && a->psn == b->psn && a->generation == b->generation;
}

/* Does the peer say that it is connected to this very queue pair of this very context? */
static bool echo_is_ours(const struct beest_handshake *handshake)
{
	const struct beest_endpoint *own = &handshake->qp->local.endpoint;
	const struct beest_echo *echo = &handshake->peer.echo;

	return beest_process_is_context(&echo->incarnation, beest_registry_incarnation(
					handshake->hb->registry)) &&
	       echo->qp_num == own->qp_num && echo->psn == own->psn &&
	       echo->generation == own->generation;
}

static int see_peer(struct beest_handshake *handshake, bool closed)
{
	const struct beest_endpoint *remote = &handshake->peer.endpoint;
	struct beest_qp *qp = handshake->qp;
	bool connected = qp->peer_key[0] != '\0';

	/* A closed record still confirms a connection, but nobody connects to it any more. */
	if (closed)
		return connected && same_endpoint(remote, &qp->remote);
	if (!connected)
		return beest_handshake_connect(handshake->hb, qp, handshake->peer_key, remote,
					       handshake->limit);
	if (!same_endpoint(remote, &qp->remote))
		return connect_replacement(handshake);

	return 0;
}

int beest_handshake_see(void *data, const struct beest_record *record)
{
	struct beest_handshake *handshake = data;
	bool closed = record->flags & BEEST_RECORD_CLOSED;
	int ret;

	ret = beest_record_qp_decode(record, &handshake->peer);
	if (ret < 0)
		return ret;
	handshake->get->has_author = !closed;
	handshake->get->unmet = closed ? "its queue pair was destroyed, or its process has left" :
			       "its process has not connected to this queue pair";
	handshake->get->author = record->incarnation;
	handshake->get->rank = record->rank;

	ret = see_peer(handshake, closed);
	if (ret < 0 || (closed && ret == 0))
		return ret;
	if (handshake->qp->local.transport == BEEST_UD)
		return 1;

	if (!echo_is_ours(handshake))
		return 0;
	beest_presence_note(handshake->hb->registry, &record->incarnation);

	return 1;
}

int beest_handshake_start(struct beest_handshake *handshake, struct hartebeest_context *hb,
			  struct beest_qp *qp, const char *peer_key,
			  struct beest_wait_get *get, const struct beest_limit *limit)
{
	int ret = 0;

	handshake->hb = hb;
	handshake->qp = qp;
	handshake->peer_key = peer_key;
	handshake->limit = limit;
	handshake->get = get;
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
		ret = beest_handshake_start(&handshake, hb, qp, peer_key, &get, limit);
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
	if (ret < 0 || same_endpoint(&handshake->peer.endpoint, &handshake->qp->remote))
		return ret;
	ret = connect_replacement(handshake);
	if (ret == 0)
		beest_handshake_offer(handshake->hb, handshake->qp);

	return ret < 0 ? ret : 1;
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
		ret = beest_handshake_start(&handshake, hb, qp, peer_key, &get, limit);
	if (ret == 0) {
		get.see = see_successor;
		ret = beest_wait_run(hb->registry, &wait);
	}

	return ret == 0 ? 1 : wait.expired ? 0 : ret;
}
