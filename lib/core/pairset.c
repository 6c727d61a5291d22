/* SPDX-License-Identifier: MIT */
/* pairset.c - see pairset.h */
#include "config.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/base/text.h"
#include "lib/core/bringup.h"
#include "lib/core/pairset.h"

/* --------------------------------------------------------------------- the request --- */

static struct hartebeest_pair *pair_at(const struct beest_pairset *set, size_t i)
{
	return (struct hartebeest_pair *)((char *)set->first + i * set->step);
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

bool beest_pairing_is_datagram(const struct beest_handshake *pairing)
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
	const struct beest_handshake *pairing;
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

	if (a->pairing->qp != b->pairing->qp || !beest_pairing_is_datagram(a->pairing))
		return beest_fail(EINVAL, "two pairs have the %s '%s'", what, a->name);
	if (strcmp(first->key, second->key) == 0 && !offers_are_equal(first, second))
		return beest_fail(EINVAL, "two pairs of queue pair '%s' offer different regions "
				  "under the key '%s'", first->qp, first->key);

	return 0;
}

/* @at: offset of the name in struct hartebeest_pair. */
static int names_check(const struct beest_pairset *set, size_t at, const char *what)
{
	struct named *names = calloc(set->count, sizeof(*names));
	size_t i;
	int ret = 0;

	if (!names)
		return beest_fail(ENOMEM, "no memory for %zu pairs", set->count);
	for (i = 0; i < set->count; i++)
		names[i] = (struct named){
			*(const char **)((char *)set->list[i].pair + at), &set->list[i],
		};
	qsort(names, set->count, sizeof(*names), named_compare);
	for (i = 1; i < set->count && ret == 0; i++)
		if (strcmp(names[i - 1].name, names[i].name) == 0)
			ret = namesakes_check(&names[i - 1], &names[i], what);
	free(names);

	return ret;
}

/* --------------------------------------------------------------- the local ends --- */

void beest_pairing_fail(struct hartebeest_pair *pair, int ret)
{
	pair->result = ret;
	beest_text_copy(pair->reason, sizeof(pair->reason), beest_error_text());
}

/* Takes the queue pair to INIT, unless it is connected to this very peer. */
static int pair_enter(struct beest_handshake *pairing, const struct beest_limit *limit)
{
	struct hartebeest_context *hb = pairing->hb;
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

static int pair_offer(struct beest_handshake *pairing)
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
		ret = beest_context_find_mr(pairing->hb, pair->offer[i], &mr);
		if (ret == 0)
			ret = offer_check(qp, mr);
		if (ret == 0)
			beest_handshake_region(mr, &regions[i]);
	}
	if (ret == 0)
		qp->region_count = (uint8_t)pair->offer_count;

	return ret;
}

int beest_pairing_start(struct beest_handshake *pairing, const struct beest_limit *limit)
{
	const struct hartebeest_pair *pair = pairing->pair;
	int ret = beest_bringup_check(pairing->hb, pairing->qp, pair->key, pair->peer_key);

	if (ret == 0)
		ret = pair_enter(pairing, limit);

	return ret < 0 ? ret : pair_offer(pairing);
}

void beest_pairing_end(struct beest_handshake *pairing)
{
	struct hartebeest_pair *pair = pairing->pair;
	int ret = beest_bringup_remember(pairing);

	if (ret == 0 && pair->region_room && !pair->region_count)
		ret = beest_fail(ENOMSG, "'%s' offers no regions, but this end has room for %"
				 PRIu32 ": the peer names them in the field offer of its pair",
				 pair->peer_key, pair->region_room);
	else if (ret == 0 && pair->region_count > pair->region_room)
		ret = beest_fail(EMSGSIZE, "'%s' offers %" PRIu32 " regions, but there is room for "
				 "%" PRIu32, pair->peer_key, pair->region_count,
				 pair->region_room);
	if (ret < 0)
		beest_pairing_fail(pair, ret);
}

/* --------------------------------------------------------------------- all of them --- */

/*
 * Checks the structs, and counts those that may be written to.  The caller's may be longer than
 * ours, so the size of the first one is the step between them.
 */
static int structs_check(struct beest_pairset *set, struct hartebeest_pair *first, size_t count,
			 bool keeps)
{
	struct hartebeest_pair *pair;
	size_t i;
	int ret = 0;

	set->first = first;
	set->step = first->size;
	for (i = 0; i < count && ret == 0; i++) {
		pair = pair_at(set, i);
		ret = beest_sized_check("pair", i, pair, set->step, sizeof(*pair),
					BEEST_SIZED_FIRST(struct hartebeest_pair, reason));
		if (ret == -EINVAL)
			break;
		pair->result = 0;
		if (!keeps)
			pair->region_count = 0;
		pair->reason[0] = '\0';
		set->count++;
	}

	return ret;
}

static int pairs_take(struct beest_pairset *set)
{
	const size_t count = set->count;
	struct hartebeest_pair *pair;
	size_t i;
	int ret = 0;

	set->list = calloc(count, sizeof(*set->list));
	if (!set->list)
		return beest_fail(ENOMEM, "no memory for %zu pairs", count);

	for (i = 0; i < count && ret == 0; i++)
		ret = pair_check(pair_at(set, i), i);
	for (i = 0; i < count && ret == 0; i++) {
		pair = pair_at(set, i);
		set->list[i].hb = set->hb;
		set->list[i].pair = pair;
		if (beest_context_find_qp(set->hb, pair->qp, &set->list[i].qp) < 0)
			beest_pairing_fail(pair, -ENOENT);
	}

	if (ret == 0)
		ret = names_check(set, offsetof(struct hartebeest_pair, qp), "queue pair");
	if (ret == 0)
		ret = names_check(set, offsetof(struct hartebeest_pair, key), "key");

	return ret;
}

int beest_pairset_open(struct beest_pairset *set, struct hartebeest_context *hb,
		       struct hartebeest_pair *first, size_t count, bool keeps)
{
	int ret;

	memset(set, 0, sizeof(*set));
	set->hb = hb;
	ret = structs_check(set, first, count, keeps);
	if (ret == 0)
		ret = pairs_take(set);

	return ret;
}

void beest_pairset_close(struct beest_pairset *set)
{
	free(set->list);
}

/* The call fails as a whole: no pair may look as if it were connected.  Returns @ret. */
int beest_pairset_refuse(const struct beest_pairset *set, int ret)
{
	size_t i;

	for (i = 0; i < set->count; i++)
		beest_pairing_fail(pair_at(set, i), ret);

	return ret;
}

static const struct hartebeest_pair *pair_failed(const struct beest_pairset *set)
{
	const struct hartebeest_pair *each, *found = NULL;
	size_t i;

	for (i = 0; i < set->count; i++) {
		each = set->list[i].pair;
		if (each->result < 0 &&
		    (!found || (found->result == -EAGAIN && each->result != -EAGAIN)))
			found = each;
	}

	return found;
}

int beest_pairset_result(const struct beest_pairset *set, const struct beest_wait *wait)
{
	const struct hartebeest_pair *pair = pair_failed(set);
	const char *after;
	bool in_vain;

	if (!pair)
		return 0;
	after = !wait || !wait->expired ? "" :
		BEEST_LIMIT_TEXT(wait->limit,
				 beest_kv_transient(pair->result) ? "tried for" : "after");
	in_vain = wait && wait->hints->used && pair->result == -beest_limit_errno(wait->limit);

	return beest_fail(-pair->result, "queue pair '%s' and '%s': %s%s%s%s", pair->qp,
			  pair->peer_key, after, pair->reason, in_vain ? "; " : "",
			  in_vain ? wait->hints->buffer : "");
}
