/* SPDX-License-Identifier: MIT */
/* pairs.c - see pairs.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/core/pairs.h"
#include "lib/core/pairset.h"

struct pairs {
	struct beest_pairset set;
	struct beest_wait wait;		/* for the pairs that could be started */
	const char **own_keys;		/* of that wait */
};

/* ------------------------------------------------------------------------- waiting --- */

/* A pair that cannot be connected gets its result and counts as seen: the others go on. */
static int pair_see(void *data, const struct beest_record *record)
{
	struct beest_handshake *pairing = data;
	int ret = beest_handshake_see_confirmed(pairing, record);

	if (ret >= 0)
		return ret;
	beest_pairing_fail(pairing->pair, ret);

	return 1;
}

static void pair_left(void *data, int ret)
{
	struct beest_handshake *pairing = data;

	beest_pairing_fail(pairing->pair, ret);
}

/*
 * Its peer confirms, and so does its own record, which is stored: what a last look has only put may
 * never be sent.
 */
static bool pair_is_done(const struct pairs *pairs, size_t i)
{
	const struct beest_wait *wait = &pairs->wait;

	return wait->gets[i].got && beest_lease_is(pairs->set.hb->registry->leases,
						   wait->own_keys[i], BEEST_LEASE_SETTLED);
}

/*
 * Gives @ret to the pairs that are not done.  If the limit ended the wait, each of them gets what
 * is known of its own peer's record instead: the sentence may be about another one.  If all are
 * done, the wait failed by something else, which all get.
 */
static void pairs_blame(const struct pairs *pairs, int ret)
{
	const struct beest_wait *wait = &pairs->wait;
	struct hartebeest_pair *pair;
	char sentence[BEEST_ERROR_SIZE];
	bool missing = false, undone = false;
	size_t i;

	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	for (i = 0; i < wait->count; i++) {
		missing |= !wait->gets[i].got;
		undone |= !pair_is_done(pairs, i);
	}
	for (i = 0; i < wait->count; i++) {
		pair = ((struct beest_handshake *)wait->gets[i].data)->pair;
		if (pair->result < 0 || (undone && pair_is_done(pairs, i)))
			continue;
		pair->result = ret;
		beest_text_copy(pair->reason, sizeof(pair->reason), sentence);
		if (wait->expired && missing && wait->gets[i].got)
			snprintf(pair->reason, sizeof(pair->reason), "that this end is connected "
				 "was not stored in time");
		else if (wait->expired && !wait->gets[i].got)
			pair->result = beest_wait_say(pairs->set.hb->registry, wait,
						      &wait->gets[i], pair->reason,
						      sizeof(pair->reason));
	}
}

/* --------------------------------------------------------------------- all of them --- */

static int pair_start(struct pairs *pairs, struct beest_handshake *pairing)
{
	struct beest_wait_get *get = &pairs->wait.gets[pairs->wait.count];
	int ret;

	ret = beest_pairing_start(pairing, pairs->wait.limit);
	if (ret == 0)
		ret = beest_handshake_put(pairing->hb, pairing->qp, pairing->pair->key);
	if (ret < 0)
		return ret;
	get->kind = BEEST_KIND_QP;
	get->see = pair_see;
	get->left = pair_left;
	/* UD does not confirm, so that only its author's presence shows a leftover. */
	get->recheck = !beest_pairing_is_datagram(pairing);
	get->authors = get->recheck ? BEEST_AUTHORS_ALL : BEEST_AUTHORS_PRESENT;
	ret = beest_handshake_start(pairing, get, &pairs->wait);
	if (ret == 0)
		pairs->own_keys[pairs->wait.count++] = pairing->own_key;

	return ret;
}

static void pairs_start(struct pairs *pairs)
{
	struct beest_handshake *pairing;
	size_t i;
	int ret;

	for (i = 0; i < pairs->set.count; i++) {
		pairing = &pairs->set.list[i];
		ret = pairing->pair->result < 0 ? 0 : pair_start(pairs, pairing);
		if (ret < 0)
			beest_pairing_fail(pairing->pair, ret);
	}
}

static int pairs_run(struct pairs *pairs)
{
	size_t i;
	int ret = 0;

	pairs_start(pairs);
	pairs->wait.own_keys = pairs->own_keys;
	pairs->wait.own_count = pairs->wait.count;
	if (pairs->wait.count)
		ret = beest_wait_run(pairs->set.hb->registry, &pairs->wait);
	if (ret < 0)
		pairs_blame(pairs, ret);
	if (ret == -ENOMEM)
		return beest_pairset_refuse(&pairs->set, ret);
	for (i = 0; i < pairs->set.count; i++)
		if (pairs->set.list[i].pair->result == 0)
			beest_pairing_end(&pairs->set.list[i]);

	return beest_pairset_result(&pairs->set, &pairs->wait);
}

static int pairs_open(struct pairs *pairs)
{
	const size_t count = pairs->set.count;

	pairs->wait.gets = calloc(count, sizeof(*pairs->wait.gets));
	pairs->own_keys = calloc(count, sizeof(*pairs->own_keys));

	return pairs->wait.gets && pairs->own_keys ? 0 :
	       beest_fail(ENOMEM, "no memory for %zu pairs", count);
}

int beest_pairs_connect(struct hartebeest_context *hb, struct hartebeest_pair *first,
			size_t count, const struct beest_limit *limit)
{
	struct beest_text hints = BEEST_TEXT(600);
	struct pairs pairs = { .wait = { .limit = limit, .hints = &hints } };
	int ret;

	if (count == 0)
		return 0;

	ret = beest_pairset_open(&pairs.set, hb, first, count, false);
	if (ret == 0)
		ret = pairs_open(&pairs);
	if (ret == 0)
		ret = beest_context_need_registry(hb, BEEST_KIND_QP, first->peer_key);
	ret = ret < 0 ? beest_pairset_refuse(&pairs.set, ret) : pairs_run(&pairs);
	beest_pairset_close(&pairs.set);
	free(pairs.wait.gets);
	free(pairs.own_keys);

	return ret;
}
