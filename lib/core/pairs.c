/* SPDX-License-Identifier: MIT */
/* pairs.c - see pairs.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/base/text.h"
#include "lib/core/bringup.h"
#include "lib/core/pairs.h"

/* One pair on its way. */
struct pairing {
	struct hartebeest_pair *pair;
	struct beest_qp *qp;
	struct beest_handshake handshake;
	char own_key[BEEST_KEY_MAX + 1];
};

struct pairs {
	struct hartebeest_context *hb;
	struct hartebeest_pair *first;
	size_t step;			/* from one to the next, in bytes */
	size_t count;			/* those whose struct is good */
	struct pairing *list;
	struct beest_wait wait;		/* for the pairs that could be started */
	const char **own_keys;		/* of that wait */
};

void beest_pairs_show_peer(const struct beest_endpoint *remote, struct hartebeest_remote_qp *out)
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

void beest_pairs_show_address(const struct beest_ud_peer *peer, struct hartebeest_ud_address *out)
{
	memset(out, 0, sizeof(*out));
	out->ah = peer->ah;
	out->qp_num = peer->remote.qp_num;
	out->qkey = peer->remote.qkey;
}

/* --------------------------------------------------------------------- the request --- */

static struct hartebeest_pair *pair_at(const struct pairs *pairs, size_t i)
{
	return (struct hartebeest_pair *)((char *)pairs->first + i * pairs->step);
}

static int pair_check(const struct hartebeest_pair *pair, size_t i)
{
	const char *missing = !pair->qp ? "qp" : !pair->key ? "key" :
			      !pair->peer_key ? "peer_key" :
			      pair->offer_count && !pair->offer ? "offer" :
			      pair->region_room && !pair->regions ? "regions" : NULL;

	if (missing)
		return beest_fail(EINVAL, "pair %zu: the field %s is NULL", i, missing);
	if (pair->offer_count > HARTEBEEST_PAIR_REGIONS)
		return beest_fail(EINVAL, "pair %zu offers %" PRIu32 " regions, at most %d are "
				  "possible", i, pair->offer_count, HARTEBEEST_PAIR_REGIONS);

	return 0;
}

static bool pairing_is_datagram(const struct pairing *pairing)
{
	return pairing->qp && pairing->qp->local.transport == BEEST_UD;
}

static bool offers_are_equal(const struct hartebeest_pair *a, const struct hartebeest_pair *b)
{
	uint32_t i;

	for (i = 0; i < a->offer_count && i < b->offer_count; i++)
		if (!a->offer[i] || !b->offer[i] || strcmp(a->offer[i], b->offer[i]) != 0)
			return false;

	return a->offer_count == b->offer_count;
}

/* One of the two names of a pair, by which pairs are sorted. */
struct named {
	const char *name;
	const struct pairing *pairing;
};

static int named_compare(const void *a, const void *b)
{
	return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

/*
 * A UD queue pair may be in many pairs, under one key or several.  What it offers under one key
 * is a single record.  Any other queue pair, and its own key, is in one pair.
 */
static int namesakes_check(const struct named *a, const struct named *b, const char *what)
{
	const struct hartebeest_pair *first = a->pairing->pair, *second = b->pairing->pair;

	if (a->pairing->qp != b->pairing->qp || !pairing_is_datagram(a->pairing))
		return beest_fail(EINVAL, "two pairs have the %s '%s'", what, a->name);
	if (strcmp(first->key, second->key) == 0 && !offers_are_equal(first, second))
		return beest_fail(EINVAL, "two pairs of queue pair '%s' offer different regions "
				  "under the key '%s'", first->qp, first->key);

	return 0;
}

/* @at: offset of the name in struct hartebeest_pair. */
static int names_check(const struct pairs *pairs, size_t at, const char *what)
{
	struct named *names = calloc(pairs->count, sizeof(*names));
	size_t i;
	int ret = 0;

	if (!names)
		return beest_fail(ENOMEM, "no memory for %zu pairs", pairs->count);
	for (i = 0; i < pairs->count; i++)
		names[i] = (struct named){
			*(const char **)((char *)pairs->list[i].pair + at), &pairs->list[i],
		};
	qsort(names, pairs->count, sizeof(*names), named_compare);
	for (i = 1; i < pairs->count && ret == 0; i++)
		if (strcmp(names[i - 1].name, names[i].name) == 0)
			ret = namesakes_check(&names[i - 1], &names[i], what);
	free(names);

	return ret;
}

/* --------------------------------------------------------------- the local ends --- */

static void pair_fail(struct hartebeest_pair *pair, int ret)
{
	pair->result = ret;
	beest_text_copy(pair->reason, sizeof(pair->reason), beest_error_text());
}

/* Takes the queue pair to INIT, unless it is connected to this very peer. */
static int pair_enter(struct hartebeest_context *hb, struct pairing *pairing,
		      const struct beest_limit *limit)
{
	struct beest_qp *qp = pairing->qp;
	enum ibv_qp_state state;
	int ret;

	ret = beest_qp_state(qp, &state);
	if (ret < 0)
		return ret;
	if (!qp->port)
		return beest_bringup_init(hb, qp, limit);
	if (qp->local.transport == BEEST_UD && state == IBV_QPS_RTS)
		return beest_bringup_serve(hb, qp, limit);
	if ((state == IBV_QPS_RTR || state == IBV_QPS_RTS) &&
	    strcmp(qp->peer_key, pairing->pair->peer_key) == 0)
		return 0;
	if (state != IBV_QPS_INIT && state != IBV_QPS_RESET)
		ret = beest_qp_reset(qp);
	if (ret == 0 && state != IBV_QPS_INIT)
		ret = beest_bringup_init(hb, qp, limit);

	return ret;
}

/* A queue pair only reaches regions of its own protection domain. */
static int offer_check(const struct beest_qp *qp, const struct beest_mr *mr)
{
	if (mr->mr->pd != qp->qp->pd)
		return beest_fail(EINVAL, "region '%s' is of another protection domain than queue "
				  "pair '%s'", mr->node.name, qp->node.name);

	return 0;
}

static int pair_offer(struct hartebeest_context *hb, struct pairing *pairing)
{
	const struct hartebeest_pair *pair = pairing->pair;
	struct beest_qp *qp = pairing->qp;
	struct hartebeest_remote_mr *regions;
	struct beest_mr *mr;
	uint32_t i;
	int ret = 0;

	qp->region_count = 0;
	if (!pair->offer_count)
		return 0;
	regions = realloc(qp->regions, pair->offer_count * sizeof(*regions));
	if (!regions)
		return beest_fail(ENOMEM, "no memory for %" PRIu32 " regions", pair->offer_count);

	qp->regions = regions;
	for (i = 0; i < pair->offer_count && ret == 0; i++) {
		if (!pair->offer[i])
			return beest_fail(EINVAL, "the name of region %" PRIu32 " is NULL", i);
		ret = beest_context_find_mr(hb, pair->offer[i], &mr);
		if (ret == 0)
			ret = offer_check(qp, mr);
		if (ret == 0)
			beest_handshake_region(mr, &regions[i]);
	}
	if (ret == 0)
		qp->region_count = (uint8_t)pair->offer_count;

	return ret;
}

/* ------------------------------------------------------------------------- waiting --- */

/* Takes as many regions as there is room for. */
static void pair_take_regions(struct pairing *pairing, const struct beest_record *record)
{
	struct hartebeest_pair *pair = pairing->pair;
	uint32_t i;

	pair->region_count = pairing->handshake.peer.regions;
	for (i = 0; i < pair->region_count && i < pair->region_room; i++)
		beest_record_qp_region(record, i, &pair->regions[i]);
}

/* A pair that cannot be connected gets its result and counts as seen: the others go on. */
static int pair_see(void *data, const struct beest_record *record)
{
	struct pairing *pairing = data;
	int ret = beest_handshake_see(&pairing->handshake, record);

	if (ret > 0)
		pair_take_regions(pairing, record);
	if (ret >= 0)
		return ret;
	pair_fail(pairing->pair, ret);

	return 1;
}

static void pair_left(void *data, int ret)
{
	struct pairing *pairing = data;

	pair_fail(pairing->pair, ret);
}

/*
 * Gives @ret to the pairs whose peer is missing.  If the limit ended the wait, each of them
 * gets what is known of its own peer's record instead.  If no peer is missing, an own
 * record did not reach its server; any peer may wait for it, so all pairs get @ret.
 */
static void pairs_blame(const struct pairs *pairs, int ret)
{
	const struct beest_wait *wait = &pairs->wait;
	struct hartebeest_pair *pair;
	char sentence[BEEST_ERROR_SIZE];
	bool missing = false;
	size_t i;

	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	for (i = 0; i < wait->count; i++)
		missing |= !wait->gets[i].got;
	for (i = 0; i < wait->count; i++) {
		pair = ((struct pairing *)wait->gets[i].data)->pair;
		if (wait->gets[i].got == missing || pair->result < 0)
			continue;
		pair->result = ret;
		beest_text_copy(pair->reason, sizeof(pair->reason), sentence);
		if (wait->expired && !wait->gets[i].got)
			pair->result = beest_wait_say(pairs->hb->registry, wait,
						      &wait->gets[i], pair->reason,
						      sizeof(pair->reason));
	}
}

static void pair_end(struct pairing *pairing)
{
	struct hartebeest_pair *pair = pairing->pair;
	const struct beest_qp_body *peer = &pairing->handshake.peer;

	beest_pairs_show_peer(&peer->endpoint, &pair->peer);
	if (beest_bringup_remember(pairing->handshake.hb, pair->peer_key, &peer->endpoint,
				   pair->regions,
				   BEEST_MIN(pair->region_count, pair->region_room)) < 0)
		pair_fail(pair, -ENOMEM);
	else if (pair->region_room && !pair->region_count)
		pair_fail(pair, beest_fail(ENOMSG, "'%s' offers no regions, but this end has room "
					   "for %" PRIu32 ": the peer names them in the field "
					   "offer of its pair", pair->peer_key,
					   pair->region_room));
	else if (pair->region_count > pair->region_room)
		pair_fail(pair, beest_fail(EMSGSIZE, "'%s' offers %" PRIu32 " regions, but there "
					   "is room for %" PRIu32, pair->peer_key,
					   pair->region_count, pair->region_room));
}

/* --------------------------------------------------------------------- all of them --- */

/*
 * Checks the structs, and counts those that may be written to.  The caller's may be longer than
 * ours, so the size of the first one is the step between them.
 */
static int structs_check(struct pairs *pairs, struct hartebeest_pair *first, size_t count)
{
	struct hartebeest_pair *pair;
	size_t i;
	int ret = 0;

	pairs->first = first;
	pairs->step = first->size;
	for (i = 0; i < count && ret == 0; i++) {
		pair = pair_at(pairs, i);
		ret = beest_sized_check("pair", i, pair, pairs->step, sizeof(*pair),
					BEEST_SIZED_FIRST(struct hartebeest_pair, reason));
		if (ret == -EINVAL)
			break;
		pair->result = 0;
		pair->region_count = 0;
		pair->reason[0] = '\0';
		pairs->count++;
	}

	return ret;
}

static int pairs_open(struct pairs *pairs)
{
	const size_t count = pairs->count;
	struct hartebeest_pair *pair;
	size_t i;
	int ret = 0;

	pairs->list = calloc(count, sizeof(*pairs->list));
	pairs->wait.gets = calloc(count, sizeof(*pairs->wait.gets));
	pairs->own_keys = calloc(count, sizeof(*pairs->own_keys));
	if (!pairs->list || !pairs->wait.gets || !pairs->own_keys)
		return beest_fail(ENOMEM, "no memory for %zu pairs", count);

	for (i = 0; i < count && ret == 0; i++)
		ret = pair_check(pair_at(pairs, i), i);
	for (i = 0; i < count && ret == 0; i++) {
		pair = pairs->list[i].pair = pair_at(pairs, i);
		if (beest_context_find_qp(pairs->hb, pair->qp, &pairs->list[i].qp) < 0)
			pair_fail(pair, -ENOENT);
	}

	if (ret == 0)
		ret = names_check(pairs, offsetof(struct hartebeest_pair, qp), "queue pair");
	if (ret == 0)
		ret = names_check(pairs, offsetof(struct hartebeest_pair, key), "key");

	return ret;
}

/* The call fails as a whole: no pair may look as if it were connected.  Returns @ret. */
static int pairs_refuse(const struct pairs *pairs, int ret)
{
	size_t i;

	for (i = 0; i < pairs->count; i++)
		pair_fail(pair_at(pairs, i), ret);

	return ret;
}

static int pair_start(struct pairs *pairs, struct pairing *pairing)
{
	struct beest_registry *registry = pairs->hb->registry;
	struct beest_wait_get *get = &pairs->wait.gets[pairs->wait.count];
	int ret;

	ret = beest_bringup_check(pairs->hb, pairing->qp, pairing->pair->key,
				  pairing->pair->peer_key);
	if (ret == 0)
		ret = pair_enter(pairs->hb, pairing, pairs->wait.limit);
	if (ret == 0)
		ret = pair_offer(pairs->hb, pairing);
	if (ret == 0)
		ret = beest_handshake_put(pairs->hb, pairing->qp, pairing->pair->key);
	if (ret == 0)
		ret = beest_registry_key(registry, BEEST_KIND_QP, pairing->pair->key,
					 pairing->own_key);
	if (ret == 0)
		ret = beest_handshake_start(&pairing->handshake, pairs->hb, pairing->qp,
					    pairing->pair->peer_key, get, &pairs->wait);
	if (ret < 0)
		return ret;
	get->see = pair_see;
	get->left = pair_left;
	get->data = pairing;
	/* UD does not confirm, so that only its author's presence shows a leftover. */
	get->recheck = !pairing_is_datagram(pairing);
	get->authors = get->recheck ? BEEST_AUTHORS_ALL : BEEST_AUTHORS_PRESENT;
	pairs->own_keys[pairs->wait.count++] = pairing->own_key;

	return 0;
}

static void pairs_start(struct pairs *pairs)
{
	struct pairing *pairing;
	size_t i;
	int ret;

	for (i = 0; i < pairs->count; i++) {
		pairing = &pairs->list[i];
		if (pairing->pair->result < 0)
			continue;
		ret = pair_start(pairs, pairing);
		if (ret < 0)
			pair_fail(pairing->pair, ret);
	}
}

/* The first pair that failed; -EAGAIN is last, since another call may succeed. */
static const struct hartebeest_pair *pairs_find_failed(const struct pairs *pairs)
{
	const struct hartebeest_pair *each, *found = NULL;
	size_t i;

	for (i = 0; i < pairs->count; i++) {
		each = pairs->list[i].pair;
		if (each->result < 0 &&
		    (!found || (found->result == -EAGAIN && each->result != -EAGAIN)))
			found = each;
	}

	return found;
}

/* The result of the call: that of one pair, with how long the call waited. */
static int pairs_result(const struct pairs *pairs)
{
	const struct beest_limit *limit = pairs->wait.limit;
	const struct beest_text *hints = pairs->wait.hints;
	const struct hartebeest_pair *pair = pairs_find_failed(pairs);
	const char *after;
	bool in_vain;

	if (!pair)
		return 0;
	after = !pairs->wait.expired ? "" :
		BEEST_LIMIT_TEXT(limit, beest_kv_transient(pair->result) ? "tried for" : "after");

	in_vain = hints->used && pair->result == -beest_limit_errno(limit);

	return beest_fail(-pair->result, "queue pair '%s' and '%s': %s%s%s%s", pair->qp,
			  pair->peer_key, after, pair->reason, in_vain ? "; " : "",
			  in_vain ? hints->buffer : "");
}

static int pairs_run(struct pairs *pairs)
{
	size_t i;
	int ret = 0;

	pairs_start(pairs);
	pairs->wait.own_keys = pairs->own_keys;
	pairs->wait.own_count = pairs->wait.count;
	if (pairs->wait.count)
		ret = beest_wait_run(pairs->hb->registry, &pairs->wait);
	if (ret < 0)
		pairs_blame(pairs, ret);
	if (ret == -ENOMEM)
		return pairs_refuse(pairs, ret);
	for (i = 0; i < pairs->count; i++)
		if (pairs->list[i].pair->result == 0)
			pair_end(&pairs->list[i]);

	return pairs_result(pairs);
}

int beest_pairs_connect(struct hartebeest_context *hb, struct hartebeest_pair *first,
			size_t count, const struct beest_limit *limit)
{
	struct beest_text hints = BEEST_TEXT(600);
	struct pairs pairs = {
		.hb = hb,
		.wait = { .limit = limit, .hints = &hints },
	};
	int ret;

	if (count == 0)
		return 0;

	ret = structs_check(&pairs, first, count);
	if (ret == 0)
		ret = pairs_open(&pairs);
	if (ret == 0)
		ret = beest_context_need_registry(hb, BEEST_KIND_QP, first->peer_key);
	ret = ret < 0 ? pairs_refuse(&pairs, ret) : pairs_run(&pairs);
	free(pairs.list);
	free(pairs.wait.gets);
	free(pairs.own_keys);

	return ret;
}
