/* SPDX-License-Identifier: MIT */
/*
 * leader.c - what the first rank does at a fence
 *
 * Decides by the records of all others which view it proposes, when it commits it, and why the
 * fence fails.  Owns the leader's record and the chunks.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/rendezvous/fence.h"

/*
 * So often, the leader reads the records of all, stores which ranks are missing, and asks for the
 * presence of some of these.
 */
#define REREAD BEEST_SECOND
#define FIRST_LOOK (250 * BEEST_MS)

/*
 * Those of a leader that dies live so long, in seconds.  Others are renewed, and deleted when all
 * ranks have read them or, if ranks may ask for more, when a later view is committed.
 */
#define CHUNK_TTL 600

#define GET_LEADER 0		/* the get of a member has the number of its position */

static size_t count_of(const struct beest_fence_look *look)
{
	return look->call->ranks->count;
}

static const struct beest_incarnation *self(const struct beest_fence_look *look)
{
	return beest_registry_incarnation(look->call->registry);
}

/* Others may have passed: nothing that this rank reads from here on changes that. */
static bool is_decided(const struct beest_fence *fence)
{
	return fence->pass ? fence->passes == fence->pass : beest_fence_is_committed(fence);
}

static bool is_proposed(const struct beest_fence *fence)
{
	return fence->next && fence->next->id && !beest_fence_is_committed(fence);
}

/* Has the rank at @position arrived, and answered? */
static bool leader_has(const struct beest_fence_look *look, size_t position)
{
	const struct beest_fence *fence = look->fence;

	return position == 0 || (fence->pass || is_proposed(fence) ?
				 fence->ranks[position].arrived :
				 fence->next->entries[position].bytes != NULL);
}

/* ----------------------------------------------------------------------------- chunks --- */

/* No rank needs them any longer: all have read them, or none should. */
static void chunks_delete(const struct beest_fence_look *look, const struct beest_view *view)
{
	char key[BEEST_KEY_MAX + 1];
	size_t k;

	for (k = 0; k < beest_view_chunk_count(view); k++)
		if (beest_fence_chunk_key(look, view, k, key) == 0)
			beest_lease_doom_key(look->call->registry->leases, key);
}

/* ------------------------------------------------------------------- its own record --- */

static bool leader_awaits(const struct beest_fence_look *look, size_t position)
{
	return !leader_has(look, position);
}

/* Once a second at most: else the record names no missing ranks. */
static void missing_fill(const struct beest_fence_look *look, struct beest_leader_body *body)
{
	const struct beest_ids *ranks = look->call->ranks;
	struct beest_fence_range *range = body->missing;
	size_t count;

	beest_fence_missing(look, leader_awaits, range, BEEST_FENCE_RANGES, &count);
	body->range_count = (uint8_t)count;
	for (; range < body->missing + count; range++) {
		range->first = (uint32_t)ranks->id[range->first];
		range->last = (uint32_t)ranks->id[range->last];
	}
	body->looked = count ? (uint32_t)(look->fence->looked / REREAD) : 0;
}

static struct beest_leader_body leader_body(const struct beest_fence_look *look)
{
	const struct beest_fence *fence = look->fence;
	struct beest_leader_body body = {
		.setup = look->setup, .added = fence->added,
		/* Not that of a call which has failed since. */
		.call = fence->pass ? fence->view->call : fence->call,
		.committed = fence->committed, .passes = fence->passes,
		.failure = fence->trouble, .culprit = fence->culprit,
		.culprit_call = fence->culprit_call,
		.in_pass = fence->trouble.error && fence->pass,
	};

	return body;
}

static int leader_put(struct beest_fence_look *look, bool with_missing)
{
	struct beest_leader_body body = leader_body(look);
	struct beest_registry_record record = {
		.kind = BEEST_KIND_LEADER, .key = look->keys[GET_LEADER], .add_only = true,
		.unique = look->wait.gets[GET_LEADER].seen ?
			  look->wait.gets[GET_LEADER].unique : 0,
	};
	uint8_t *chunks = NULL, *bytes = NULL;

	if (body.failure.error && look->fence->next)
		chunks_delete(look, look->fence->next);
	else if (is_proposed(look->fence))
		chunks = beest_view_describe(look->fence->next, &body);
	if (with_missing)
		missing_fill(look, &body);
	if (chunks || !body.proposed)
		bytes = malloc(BEEST_LEADER_MAX(body.chunks_size));
	if (bytes)
		record.size = (size_t)beest_record_leader_encode(&body, bytes);
	free(chunks);

	return beest_fence_put_own(look, &record, bytes);
}

static int decision_put(struct beest_fence_look *look)
{
	return leader_put(look, false);
}

/* ------------------------------------------------------------------- a view is made --- */

static int chunks_put(struct beest_fence_look *look, const struct beest_view *view)
{
	char key[BEEST_KEY_MAX + 1];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_CHUNK, .key = key, .if_changed = true,
		.ttl = BEEST_MIN(CHUNK_TTL, beest_lease_ttl(look->call->registry->leases)),
	};
	uint8_t *bytes;
	size_t k;
	int ret = 0;

	for (k = 0; k < beest_view_chunk_count(view) && ret == 0; k++) {
		ret = beest_fence_chunk_key(look, view, k, key);
		if (ret < 0)
			break;
		bytes = beest_view_encode(view, k, &record.size);
		ret = beest_fence_put(look, &record, bytes);
	}

	return ret;
}

/* L4: a rank contributes something else, so the view is made again. */
static int view_open(struct beest_fence_look *look)
{
	struct beest_view *view = look->fence->next;
	size_t i;

	if (!view->id)
		return 0;
	look->fence->next = beest_view_copy(view);
	if (!look->fence->next) {
		look->fence->next = view;
		return -ENOMEM;
	}
	chunks_delete(look, view);
	beest_view_free(view);
	for (i = 1; i < count_of(look); i++)
		look->fence->ranks[i].arrived = false;
	look->changed = true;

	return 0;
}

/* The entry of a call of a process, and behind it what is hidden.  No bytes: no memory. */
static struct beest_view_encoded entry_encode(int rank, const struct beest_incarnation *incarnation,
					      const struct beest_member_body *body)
{
	const struct beest_fence_entry entry = {
		.rank = (uint32_t)rank, .incarnation = *incarnation, .call = body->call,
		.size = body->shown, .value = body->value,
	};
	struct beest_view_encoded encoded = {
		.bytes = malloc(BEEST_FENCE_ENTRY + body->size),
		.size = BEEST_FENCE_ENTRY + body->size,
	};

	if (!encoded.bytes)
		return encoded;
	beest_record_entry_encode(&entry, encoded.bytes);
	if (body->size > body->shown)
		memcpy(encoded.bytes + BEEST_FENCE_ENTRY + body->shown, body->value + body->shown,
		       body->size - body->shown);

	return encoded;
}

static int entry_count(struct beest_fence_look *look, size_t i, int rank,
		       const struct beest_incarnation *incarnation,
		       const struct beest_member_body *body)
{
	const struct beest_view_encoded encoded = entry_encode(rank, incarnation, body);
	const bool same = encoded.bytes && beest_view_has(look->fence->next, i, &encoded);
	int ret = 0;

	if (!encoded.bytes)
		return beest_fail(ENOMEM, "no memory for %zu bytes", body->size);
	if (!same)
		ret = view_open(look);
	if (same || ret < 0)
		free(encoded.bytes);
	else
		beest_view_set(look->fence->next, i, encoded);

	return ret;
}

static int own_count(struct beest_fence_look *look)
{
	const struct beest_member_body body = {
		.call = look->fence->call, .value = look->call->value, .size = look->call->size,
		.shown = (uint32_t)(look->call->size - look->call->hidden),
	};

	return entry_count(look, 0, look->call->rank, self(look), &body);
}

/* L3 */
static int view_propose(struct beest_fence_look *look)
{
	struct beest_view *view = look->fence->next;
	int ret = own_count(look);

	if (ret == 0)
		ret = beest_view_close(view, self(look), look->fence->call);
	if (ret == 0 && look->call->offer)
		ret = look->call->offer(look->call->data, view);
	if (ret == 0)
		ret = chunks_put(look, view);
	if (ret < 0)
		return ret;
	view->taken = !look->call->take;
	look->changed = true;

	return 0;
}

/* While the others do so, too. */
static int view_take_own(struct beest_fence_look *look)
{
	struct beest_view *view = look->fence->next;
	int ret = view->taken ? 0 : look->call->take(look->call->data, view);

	if (ret == 0)
		view->taken = true;

	return ret == -EAGAIN ? 0 : ret;
}

/* ------------------------------------------------------------- the records of members --- */

static void member_refuse(struct beest_fence_look *look, int ret, const struct beest_record *record,
			  uint32_t call)
{
	look->fence->culprit = record->incarnation;
	look->fence->culprit_call = call;
	beest_fence_refuse(look, ret);
}

/* L7: does this refusal count?  One that follows another leader may be a leftover. */
static bool refusal_counts(struct beest_fence_look *look, struct beest_fence_rank *rank,
			   const struct beest_record *record, const struct beest_member_body *body)
{
	static const struct beest_incarnation none;
	const struct beest_fence *fence = look->fence;
	const bool follows = beest_process_is_context(&body->follows, self(look));
	const bool same = rank->call == body->call &&
			  beest_process_is_context(&rank->author, &record->incarnation);

	if (same && rank->refused == INT64_MAX)
		return false;
	if (!follows && !beest_process_is_context(&fence->past_leader, &none) &&
	    beest_process_is_context(&body->follows, &fence->past_leader))
		return false;
	if (!same || follows) {
		rank->author = record->incarnation;
		rank->call = body->call;
		rank->refused = follows ? INT64_MAX : beest_clock_now();
	}

	return follows || beest_clock_now() - rank->refused >= beest_fence_patience(look);
}

static uint64_t member_digest(const struct beest_record *record)
{
	const uint64_t digest = beest_hash_fnv(BEEST_HASH_FNV, &record->incarnation,
					       sizeof(record->incarnation));

	return beest_hash_fnv(digest, record->body, record->size) | 1;
}

/*
 * L2: a record that does not follow this leader yet counts if it was written since this leader
 * began, and can be part of its view.  If its author is dead after all, it never acknowledges.
 */
static bool is_recent(const struct beest_fence_look *look, size_t i,
		      const struct beest_record *record, const struct beest_member_body *body)
{
	const struct beest_fence_call *call = look->call;
	return member_digest(record) != look->fence->ranks[i].found &&
	       beest_fence_compare(look, record->rank, &body->setup) == 0 &&
	       (!call->members ||
		beest_process_is_context(&call->members[i], &record->incarnation));
}

static int call_see(struct beest_fence_look *look, size_t i, const struct beest_record *record,
		    const struct beest_member_body *body)
{
	struct beest_fence *fence = look->fence;
	int ret;

	if (body->refusal.error) {
		if (refusal_counts(look, &fence->ranks[i], record, body))
			member_refuse(look, beest_fail(body->refusal.error, "%s",
						       body->refusal.text), record, body->call);
		return 0;
	}
	/* L2: a member that acknowledges what is committed has not left that call yet. */
	if (body->pass || (body->view && body->view == fence->committed) ||
	    (!beest_process_is_context(&body->follows, self(look)) &&
	     !is_recent(look, i, record, body)))
		return 0;
	if (look->call->members &&
	    !beest_process_is_context(&look->call->members[i], &record->incarnation))
		ret = beest_fence_stale(look, record->rank, &record->incarnation);
	else
		ret = beest_fence_compare(look, record->rank, &body->setup);
	if (ret < 0) {
		member_refuse(look, ret, record, body->call);
		return 0;
	}
	ret = entry_count(look, i, record->rank, &record->incarnation, body);
	if (ret == 0 && is_proposed(fence) && body->view == fence->next->id)
		fence->ranks[i].arrived = true;

	return ret;
}

/* L8 */
static int pass_see(struct beest_fence_look *look, size_t i, const struct beest_record *record,
		    const struct beest_member_body *body)
{
	struct beest_fence *fence = look->fence;
	const struct beest_fence_entry entry = beest_view_entry(fence->view, i);
	const bool same = beest_process_is_context(&entry.incarnation, &record->incarnation);
	const bool follows = beest_process_is_context(&body->follows, self(look));
	int ret = 0;

	if (body->refusal.error && follows) {
		ret = beest_fail(body->refusal.error, "%s", body->refusal.text);
	} else if (same && body->pass) {
		fence->ranks[i].arrived |= body->view == fence->view->id &&
					   body->pass >= fence->pass;
	} else if (same && body->call > entry.call) {
		ret = beest_fence_compare(look, record->rank, &body->setup);
		if (ret == 0)
			ret = beest_fail(ESTALE, "rank %d is in a later call for all ranks",
					 (int)record->rank);
	} else if (!same && !body->pass && follows) {
		member_refuse(look, beest_fence_stale(look, record->rank, &record->incarnation),
			      record, body->call);
	}
	if (ret < 0)
		beest_fence_refuse(look, ret);

	return 0;
}

static int member_see(void *data, const struct beest_record *record)
{
	struct beest_fence_look *look = data;
	const int position = beest_parse_ids_position(look->call->ranks, record->rank);
	struct beest_member_body body;
	struct beest_wait_get *get;

	if (position <= 0 || !look->ours || look->fence->trouble.error ||
	    is_decided(look->fence) || beest_record_member_decode(record, &body) < 0 ||
	    body.setup.what == BEEST_FENCE_NOTHING)
		return 0;
	if (!look->fence->owned)
		look->fence->ranks[position].found = member_digest(record);
	get = &look->wait.gets[position];
	get->rank = record->rank;
	get->author = record->incarnation;
	get->has_author = look->fence->pass ||
			  beest_process_is_context(&body.follows, self(look));

	return look->fence->pass ? pass_see(look, (size_t)position, record, &body) :
	       call_see(look, (size_t)position, record, &body);
}

/* -------------------------------------------------------------------- those missing --- */

static bool all_are_here(const struct beest_fence_look *look)
{
	size_t i = 1;

	while (i < count_of(look) && leader_has(look, i))
		i++;

	return i == count_of(look);
}

/* L6.  Reads the records of all with the next look. */
static int missing_look(struct beest_fence_look *look)
{
	const int64_t now = beest_clock_now();
	size_t i;

	if (now - look->fence->looked < REREAD)
		return 0;
	look->fence->looked = now;
	beest_fence_ask(look);
	for (i = 1; i < count_of(look); i++)
		look->wait.gets[i].got = false;

	return look->fence->trouble.error || all_are_here(look) ? 0 : leader_put(look, true);
}

/* ------------------------------------------------------------------------ one look --- */

/*
 * L1: what the leader before it has committed stays so; what it has proposed is over.  So is what
 * this one had proposed before that one displaced it, as members have followed that one since.
 */
static int lead_take(struct beest_fence_look *look)
{
	struct beest_fence *fence = look->fence;
	const int ret = is_proposed(fence) ? view_open(look) : 0;

	fence->added = look->lead.added;
	fence->committed = look->lead.committed;
	fence->passes = look->lead.passes;
	if (look->lead.failure.error)
		fence->past_leader = look->leader;
	look->changed = true;

	return ret;
}

static int leader_decide(struct beest_fence_look *look)
{
	struct beest_fence *fence = look->fence;
	int ret = !fence->trouble.error && is_proposed(fence) ? view_take_own(look) : 0;

	if (ret < 0)
		beest_fence_refuse(look, ret);
	if (fence->trouble.error)
		return 0;
	if (!all_are_here(look))
		return missing_look(look);
	if (fence->pass) {
		fence->passes = fence->pass;
		look->changed = true;
	} else if (!is_proposed(fence)) {
		ret = view_propose(look);
		if (ret < 0)
			beest_fence_refuse(look, ret);
	} else if (fence->next->taken) {
		fence->committed = fence->next->id;
		fence->passes = 0;
		if (fence->view)
			chunks_delete(look, fence->view);
		if (!look->call->needs.position)
			chunks_delete(look, fence->next);
		look->changed = true;
	}

	return 0;
}

static int leader_look(struct beest_fence_look *look)
{
	struct beest_fence *fence = look->fence;

	if (!look->there) {		/* or it cannot be read, and is replaced */
		if (!fence->owned)
			fence->added = *self(look);
		look->changed = true;
		return 0;
	}
	if (!beest_process_is_context(&look->leader, self(look)))
		return lead_take(look);
	fence->owned = true;
	if (!look->ours) {
		look->changed = true;
		return 0;
	}
	if (fence->trouble.error)
		return beest_fence_fail(look);
	if (!is_decided(fence))
		return leader_decide(look);
	if (!fence->pass)
		beest_fence_take_next(fence);

	return 1;
}

/* Members that are here are read again once a second only. */
static int leader_step(struct beest_fence_look *look)
{
	const int64_t looked = look->fence->looked;
	size_t i;
	int ret = leader_look(look);

	for (i = 1; i < count_of(look) && ret == 0 && look->fence->looked == looked; i++)
		look->wait.gets[i].got = leader_has(look, i);

	return ret;
}

static size_t leader_gets(const struct beest_fence_call *call)
{
	return call->ranks->count;
}

static int leader_start(struct beest_fence_look *look)
{
	size_t i;
	int ret = 0;

	for (i = 1; i < count_of(look) && ret == 0; i++)
		ret = beest_fence_get_member(look, i, look->call->ranks->id[i], member_see);
	look->wait.count = count_of(look);
	look->wait.uniques = true;
	if (!look->fence->looked)
		look->fence->looked = beest_clock_now() - REREAD + FIRST_LOOK;
	/* The first record replaces no other.  Later, the one that is there is read first. */
	if (!look->fence->owned)
		look->fence->added = *self(look);
	if (ret == 0 && !look->fence->own)
		ret = leader_put(look, false);

	return ret;
}

const struct beest_fence_role beest_leader_role = {
	.gets = leader_gets, .start = leader_start, .step = leader_step, .put = decision_put,
	.awaits = leader_awaits,
};
