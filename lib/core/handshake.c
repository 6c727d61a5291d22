/* SPDX-License-Identifier: MIT */
/* handshake.c - see handshake.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/core/handshake.h"

/* ------------------------------------------------- what goes either way --- */

/* @owner: of a record that goes with an object; NULL: of one that outlives it. */
static int publish(struct beest_board *board, uint64_t *owner, enum beest_record_kind kind,
		   const char *key, const struct beest_codec_layout *layout, const void *payload)
{
	uint8_t bytes[BEEST_PAYLOAD_MAX];
	int size;

	size = beest_codec_encode(layout, payload, bytes, sizeof(bytes));
	if (size < 0)
		return size;
	if (owner)
		return beest_board_publish_of(board, owner, kind, key, bytes, (size_t)size);
	return beest_board_publish(board, kind, key, bytes, (size_t)size);
}

static bool same_incarnation(const struct beest_incarnation *a,
			     const struct beest_incarnation *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

/*
 * A process puts its rank record before any other.  So when another's stands under the
 * rank of a record's author, that author is gone, and what he left is not to be used.
 */
struct fetching {
	struct beest_board *board;
	const char *key;
	const struct beest_codec_layout *layout;
	void *payload;
	struct beest_author author;
	bool found;
	int ret;			/* of the decoder */
	char gone[BEEST_HOST_MAX + 160];	/* who it was; "": nobody */
};

static int see_record(void *data, const struct beest_record *record)
{
	struct fetching *state = data;

	state->ret = beest_codec_decode(state->layout, record->payload, record->payload_size,
					state->payload);
	if (state->ret < 0)
		beest_fail_prefix(state->ret, "key '%s'", state->key);
	state->author = record->author;
	state->found = true;
	return 0;			/* after_fetch() decides, having asked for the author */
}

/* 1: another process has the rank of @author now.  What cannot be known is no reason. */
static int is_gone(struct beest_board *board, const struct beest_author *author,
		   struct beest_author *heir)
{
	struct beest_record record;
	uint8_t *bytes;
	char name[16];

	snprintf(name, sizeof(name), "%" PRId32, author->rank);
	if (author->rank < 0 ||
	    beest_board_peek(board, BEEST_KIND_RANK, name, &record, &bytes) <= 0)
		return 0;

	*heir = record.author;
	free(bytes);
	/* one process may have two contexts */
	return !beest_process_is_same(&heir->incarnation, &author->incarnation);
}

static int after_fetch(void *data)
{
	struct fetching *state = data;
	struct beest_author heir;

	if (!state->found)
		return 0;
	if (state->ret < 0)
		return state->ret;
	if (!is_gone(state->board, &state->author, &heir))
		return 1;

	state->found = false;
	snprintf(state->gone, sizeof(state->gone), "what stands under '%s' is of pid %" PRIu32
		 " on host %s, which is gone: rank %" PRId32 " is pid %" PRIu32 " now",
		 state->key, state->author.pid, state->author.host, heir.rank, heir.pid);
	return 0;
}

static int fetch(struct beest_board *board, enum beest_record_kind kind, const char *key,
		 const struct beest_codec_layout *layout, void *payload, struct beest_author *author)
{
	struct fetching state = {
		.board = board, .key = key, .layout = layout, .payload = payload,
	};
	struct beest_wish wish = {
		.kind = kind, .name = key, .accept = see_record, .data = &state,
	};
	int ret;

	ret = beest_board_wait(board, &wish, 1, after_fetch, &state);
	beest_wishes_free(&wish, 1);
	if (ret == -ETIMEDOUT && state.gone[0])
		return beest_fail_prefix(ret, "%s", state.gone);
	if (ret == 0 && author)
		*author = state.author;
	return ret;
}

int beest_mr_publish(struct beest_board *board, struct beest_mr *mr, const char *key)
{
	struct beest_mr_payload payload = {
		.address = (uintptr_t)mr->mr->addr,
		.length = mr->mr->length,
		.rkey = mr->mr->rkey,
		.access = (uint32_t)mr->access,
	};

	return publish(board, &mr->serial, BEEST_KIND_MR, key, &beest_mr_layout, &payload);
}

int beest_mr_fetch(struct beest_board *board, const char *key,
		   struct beest_mr_payload *payload)
{
	return fetch(board, BEEST_KIND_MR, key, &beest_mr_layout, payload, NULL);
}

int beest_peer_publish(struct beest_board *board, struct beest_qp *qp, const char *key)
{
	int ret;

	ret = publish(board, &qp->serial, BEEST_KIND_QP, key, &beest_qp_layout, &qp->local.endpoint);
	if (ret < 0)
		return ret;

	memmove(qp->key, key, strlen(key) + 1);	/* may be the same; fits, or no key */
	qp->published = qp->local.endpoint.generation;
	qp->announced = 0;
	return 0;
}

/* A record may be well formed and still say what no queue pair can be. */
static int check_card(const char *key, const struct beest_endpoint *card)
{
	const struct {
		const char *what;
		uint32_t value, min, max;
	} rows[] = {
		{ "queue pair number", card->qp_num, 1, 0xffffff },
		{ "sequence number", card->psn, 0, 0xffffff },
		{ "path MTU", card->mtu, IBV_MTU_256, IBV_MTU_4096 },
		{ "link layer", card->link_layer, IBV_LINK_LAYER_INFINIBAND,
		  IBV_LINK_LAYER_ETHERNET },
		{ "RoCE version", card->roce, BEEST_ROCE_NONE, BEEST_ROCE_V2 },
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++)
		if (rows[i].value < rows[i].min || rows[i].value > rows[i].max)
			return beest_fail(EBADMSG, "the record under '%s' has the %s %" PRIu32
					  ", which is not within %" PRIu32 "..%" PRIu32, key,
					  rows[i].what, rows[i].value, rows[i].min, rows[i].max);
	return 0;
}

/* The record's payload does not say whose it is, the record does. */
static void sign(struct beest_peer *peer)
{
	peer->remote.incarnation = peer->author.incarnation;
	peer->remote.rank = peer->author.rank;
}

int beest_peer_fetch(struct beest_board *board, const char *key, struct beest_peer *peer)
{
	struct beest_peer found;
	int ret;

	ret = fetch(board, BEEST_KIND_QP, key, &beest_qp_layout, &found.remote, &found.author);
	if (ret == 0)
		ret = check_card(key, &found.remote);
	if (ret < 0)
		return ret;

	sign(&found);
	*peer = found;
	return 0;
}

/* --------------------------------------------------------- confirmation --- */

/*
 * Two records of the peer are watched: its confirmation, which must echo this
 * context's incarnation and this queue pair's numbers, and its queue pair, which
 * changes when it restarted or reset.
 */
struct confirmation {
	struct beest_board *board;
	struct beest_qp *qp;
	const struct beest_log *log;
	struct beest_peer replacement;
	bool replaced;
	bool confirmed;
};

static bool same_peer(const struct beest_endpoint *a, const struct beest_endpoint *b)
{
	return same_incarnation(&a->incarnation, &b->incarnation) &&
	       a->qp_num == b->qp_num && a->psn == b->psn && a->generation == b->generation;
}

static bool echoes(const struct confirmation *state, const struct beest_author *author,
		   const struct beest_confirm_payload *echo)
{
	const struct beest_qp *qp = state->qp;

	return same_incarnation(&author->incarnation, &qp->remote.incarnation) &&
	       echo->qp_num == qp->remote.qp_num &&
	       echo->sq_psn == qp->remote.psn &&
	       same_incarnation(&echo->peer, beest_board_incarnation(state->board)) &&
	       echo->peer_qp_num == qp->local.endpoint.qp_num &&
	       echo->peer_sq_psn == qp->local.endpoint.psn &&
	       echo->generation == qp->remote.generation &&
	       echo->peer_generation == qp->local.endpoint.generation;
}

static int see_confirmation(void *data, const struct beest_record *record)
{
	struct confirmation *state = data;
	struct beest_confirm_payload echo;
	int ret;

	ret = beest_codec_decode(&beest_confirm_layout, record->payload,
				 record->payload_size, &echo);
	if (ret < 0)
		return ret;

	state->confirmed = echoes(state, &record->author, &echo);
	return 0;			/* after_look() decides, over both records */
}

static int see_queue_pair(void *data, const struct beest_record *record)
{
	struct confirmation *state = data;
	struct beest_peer *seen = &state->replacement;
	int ret;

	ret = beest_codec_decode(&beest_qp_layout, record->payload, record->payload_size,
				 &seen->remote);
	if (ret == 0)
		ret = check_card(state->qp->peer_key, &seen->remote);
	if (ret < 0)
		return ret;

	seen->author = record->author;
	sign(seen);
	state->replaced = !same_peer(&seen->remote, &state->qp->remote);
	return 0;
}

/*
 * Noted as soon as it is true, not in the confirmation only: ranks that confirm their peers
 * in orders that make a ring would all wait for each other.
 */
int beest_peer_announce(struct beest_board *board, struct beest_qp *qp)
{
	struct beest_confirm_payload echo = {
		.qp_num = qp->local.endpoint.qp_num,
		.sq_psn = qp->local.endpoint.psn,
		.peer = qp->remote.incarnation,
		.peer_qp_num = qp->remote.qp_num,
		.peer_sq_psn = qp->remote.psn,
		.generation = qp->local.endpoint.generation,
		.peer_generation = qp->remote.generation,
	};
	uint8_t bytes[BEEST_PAYLOAD_MAX];
	uint64_t note;
	int ret;

	ret = beest_codec_encode(&beest_confirm_layout, &echo, bytes, sizeof(bytes));
	if (ret >= 0)
		ret = beest_board_note(board, BEEST_KIND_CONFIRM, qp->key, bytes, (size_t)ret,
				       &note);
	qp->announced = ret == 0 ? note : 0;
	return ret;
}

/* What a server has already may have been read already. */
void beest_peer_unannounce(struct beest_board *board, struct beest_qp *qp)
{
	if (qp->announced)
		beest_board_unnote(board, BEEST_KIND_CONFIRM, qp->key, qp->announced);
	qp->announced = 0;
}

/*
 * The sequence number stays: a peer may be connected to it already, and what was under
 * way to the former one is lost anyhow.
 */
static int connect_replacement(struct beest_board *board, struct beest_qp *qp,
			       const struct beest_peer *replacement, const struct beest_log *log)
{
	char key[BEEST_KEY_MAX + 1], who[BEEST_AUTHOR_TEXT];
	int ret;

	memcpy(key, qp->peer_key, sizeof(key));
	beest_log(log, BEEST_LOG_INFO, "queue pair '%s': '%s' is now QP %" PRIu32 " of %s: "
		  "connecting again", qp->node.name, key, replacement->remote.qp_num,
		  beest_author_text(&replacement->author, who, sizeof(who)));

	beest_peer_unannounce(board, qp);
	ret = beest_qp_reset(qp);
	if (ret == 0)
		ret = beest_qp_init_again(qp);
	if (ret == 0)
		ret = beest_qp_connect(qp, key, &replacement->remote, log);
	if (ret == 0 && qp->key[0])
		ret = beest_peer_announce(board, qp);
	return ret;
}

static int after_look(void *data)
{
	struct confirmation *state = data;

	if (!state->replaced)
		return state->confirmed;

	state->replaced = false;
	state->confirmed = false;	/* said by the one before, if it was */
	return connect_replacement(state->board, state->qp, &state->replacement, state->log);
}

int beest_peer_confirm(struct beest_board *board, struct beest_qp *qp,
		       const struct beest_log *log)
{
	struct confirmation state = { .board = board, .qp = qp, .log = log };
	char key[BEEST_KEY_MAX + 1];
	struct beest_wish wishes[] = {
		{ .kind = BEEST_KIND_CONFIRM, .name = key, .accept = see_confirmation,
		  .data = &state, .unmet = "is for another queue pair" },
		{ .kind = BEEST_KIND_QP, .name = key, .accept = see_queue_pair,
		  .data = &state, .unmet = "its process has not connected to this queue pair" },
	};
	int ret;

	memcpy(key, qp->peer_key, sizeof(key));
	ret = qp->announced ? 0 : beest_peer_announce(board, qp);
	if (ret == 0)
		ret = beest_board_wait(board, wishes, BEEST_COUNT(wishes), after_look, &state);
	beest_wishes_free(wishes, BEEST_COUNT(wishes));
	if (ret < 0)
		return beest_fail_prefix(ret, qp->peer_key[0] ?
					 "queue pair '%s' is connected, but '%s' did not confirm it" :
					 "queue pair '%s' cannot be connected to the new '%s'",
					 qp->node.name, key);

	ret = beest_board_send(board, BEEST_KIND_CONFIRM, qp->key);
	if (ret < 0)
		return beest_fail_prefix(ret, "'%s' confirmed queue pair '%s', but cannot be told the "
					 "same", key, qp->node.name);
	return 0;
}

/* -------------------------------------------------------------- following --- */

/* 1: another queue pair stands under the key now, 0: not, or nobody knows. */
static int peek_replacement(struct beest_board *board, const struct beest_qp *qp,
			    struct beest_peer *replacement)
{
	struct beest_record record;
	uint8_t *bytes;
	int ret;

	ret = beest_board_peek(board, BEEST_KIND_QP, qp->peer_key, &record, &bytes);
	if (ret <= 0)
		return beest_kv_transient(ret) ? 0 : ret;

	ret = beest_codec_decode(&beest_qp_layout, record.payload, record.payload_size,
				 &replacement->remote);
	if (ret == 0)
		ret = check_card(qp->peer_key, &replacement->remote);
	replacement->author = record.author;
	sign(replacement);
	free(bytes);
	return ret < 0 ? ret : !same_peer(&replacement->remote, &qp->remote);
}

int beest_peer_follow(struct beest_board *board, struct beest_qp *qp,
		      struct beest_peer *replacement, const struct beest_log *log)
{
	int ret;

	ret = peek_replacement(board, qp, replacement);
	if (ret <= 0)
		return ret;

	ret = connect_replacement(board, qp, replacement, log);
	return ret < 0 ? ret : 1;
}
