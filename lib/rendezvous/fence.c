/* SPDX-License-Identifier: MIT */
/* fence.c - see fence.h */
#include "config.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/text.h"
#include "lib/rendezvous/fence.h"
#include "lib/rendezvous/presence.h"

/* Processes that one look asks for, at most. */
#define ASKED_MAX 64

/* ------------------------------------------------------------------- keys and records --- */

static int key_make(struct beest_registry *registry, enum beest_record_kind kind,
		    const char *name, const char *last, char key[BEEST_KEY_MAX + 1])
{
	char whole[BEEST_KEY_MAX + 1];

	if (snprintf(whole, sizeof(whole), "%s/%s", name, last) >= (int)sizeof(whole))
		return beest_fail(ENAMETOOLONG, "the name %s is too long for a key",
				  BEEST_QUOTE(name));

	return beest_registry_key(registry, kind, whole, key);
}

int beest_fence_get(struct beest_fence_look *look, size_t i, enum beest_record_kind kind,
		    const char *last, int (*see)(void *data, const struct beest_record *record))
{
	look->wait.gets[i] = (struct beest_wait_get){
		.kind = kind, .see = see, .data = look,
		.key = look->keys[i], .placed_as = look->placed_as,
		.name = look->call->title, .noun = beest_fence_noun(look),
	};

	return key_make(look->call->registry, kind, look->call->name, last, look->keys[i]);
}

int beest_fence_get_member(struct beest_fence_look *look, size_t i, int rank,
			   int (*see)(void *data, const struct beest_record *record))
{
	char last[24];

	snprintf(last, sizeof(last), "%d", rank);

	return beest_fence_get(look, i, BEEST_KIND_MEMBER, last, see);
}

int beest_fence_chunk_key(const struct beest_fence_look *look, const struct beest_view *view,
			  size_t k, char key[BEEST_KEY_MAX + 1])
{
	char last[24];

	snprintf(last, sizeof(last), "%016" PRIx64, beest_view_digest(view, k));

	return key_make(look->call->registry, BEEST_KIND_CHUNK, look->call->name, last, key);
}

/* The longest key is that of a chunk, which ends in the 16 digits of its digest. */
int beest_fence_check(struct beest_registry *registry, const char *name)
{
	char key[BEEST_KEY_MAX + 1];
	size_t most;
	int ret = beest_registry_key(registry, BEEST_KIND_CHUNK, name, key);

	if (ret == 0 || ret == -ENAMETOOLONG)
		ret = key_make(registry, BEEST_KIND_CHUNK, "x", "0123456789abcdef", key);
	if (ret < 0)
		return ret;
	most = BEEST_KEY_MAX + 1 - strlen(key);
	if (strlen(name) > most)
		return beest_fail(ENAMETOOLONG, "the name %s has %zu bytes, at most %zu are "
				  "possible in job %s", BEEST_QUOTE(name), strlen(name), most,
				  BEEST_QUOTE(registry->job));

	return 0;
}

int beest_fence_put(struct beest_fence_look *look, struct beest_registry_record *record,
		    uint8_t *body)
{
	int ret;

	if (!body)
		return beest_fail(ENOMEM, "no memory for what %zu ranks contribute",
				  look->call->ranks->count);
	record->placed_as = look->placed_as;
	record->body = body;
	ret = beest_registry_put(look->call->registry, record);
	free(body);

	return ret;
}

static uint64_t digest_of(const void *body, size_t size)
{
	return beest_hash_fnv(BEEST_HASH_FNV, body, size);
}

int beest_fence_put_own(struct beest_fence_look *look, struct beest_registry_record *record,
			uint8_t *body)
{
	uint64_t own;

	if (!body)
		return beest_fence_put(look, record, NULL);
	if (look->fence->trouble.error)
		record->ttl = BEEST_FENCE_TROUBLE_TTL;
	/* What a server has lost or refused is repeated at the pace of looks. */
	own = digest_of(body, record->size);
	look->wait.hurry |= own != look->fence->own;
	look->fence->own = own;

	return beest_fence_put(look, record, body);
}

bool beest_fence_is_own(const struct beest_fence_look *look, const struct beest_record *record)
{
	return beest_process_is_context(&record->incarnation,
					beest_registry_incarnation(look->call->registry)) &&
	       digest_of(record->body, record->size) == look->fence->own;
}

/* --------------------------------------------------------------------------- trouble --- */

const char *beest_fence_noun(const struct beest_fence_look *look)
{
	static const char *const nouns[] = {
		[BEEST_FENCE_BARRIER] = "barrier",
		[BEEST_FENCE_GATHER] = "gather",
		[BEEST_FENCE_MESH] = "mesh",
	};

	return nouns[look->setup.what];
}

void beest_fence_refuse(struct beest_fence_look *look, int ret)
{
	struct beest_fence *fence = look->fence;

	if (fence->trouble.error)
		return;
	fence->trouble.error = (uint16_t)-ret;
	beest_text_shorten(fence->trouble.text, sizeof(fence->trouble.text), beest_error_text());
	fence->since = beest_clock_now();
	look->ours = false;
	look->changed = true;
}

int beest_fence_fail(const struct beest_fence_look *look)
{
	const struct beest_fence_trouble *trouble = &look->fence->trouble;

	return beest_fail(trouble->error, "%s", trouble->text);
}

int beest_fence_compare(const struct beest_fence_look *look, int rank,
			const struct beest_fence_setup *other)
{
	static const char *const functions[] = {
		[BEEST_FENCE_BARRIER] = "hartebeest_barrier()",
		[BEEST_FENCE_GATHER] = "hartebeest_gather()",
		[BEEST_FENCE_MESH] = "hartebeest_mesh_connect()",
	};
	const struct beest_fence_setup *own = &look->setup;
	const char *what = other->what < BEEST_COUNT(functions) && other->what ?
			   functions[other->what] : "another function";

	if (other->what != own->what)
		return beest_fail(EPROTO, "rank %d calls %s with the name '%s', and rank %d calls "
				  "%s: give them different names", rank, what, look->call->title,
				  look->call->rank, functions[own->what]);
	if (other->size != own->size)
		return beest_fail(EPROTO, "rank %d is one of %" PRIu32 " ranks, and rank %d one of "
				  "%" PRIu32, rank, other->size, look->call->rank, own->size);
	if (other->ranks != own->ranks)
		return beest_fail(EPROTO, "rank %d and rank %d name different ranks", rank,
				  look->call->rank);
	if (other->form == own->form)
		return 0;
	if (own->what == BEEST_FENCE_GATHER)
		return beest_fail(EPROTO, "rank %d gives %" PRIu64 " bytes, and rank %d gives %"
				  PRIu64, rank, other->form, look->call->rank, own->form);

	return beest_fail(EPROTO, "rank %d and rank %d ask for different meshes: name, ranks, "
			  "type, qps_per_peer and region_count must be the same, and all or none "
			  "name peers", rank, look->call->rank);
}

int beest_fence_stale(const struct beest_fence_look *look, int rank,
		      const struct beest_incarnation *incarnation)
{
	char who[BEEST_PRESENCE_TEXT];

	beest_presence_author(look->call->registry, rank, incarnation, who);

	return beest_fail(ESTALE, "%s was started again after the run began", who);
}

/* The process that has the rank at @position, if it is known; else false. */
static bool expected(const struct beest_fence_look *look, size_t position,
		     struct beest_incarnation *who)
{
	if (look->fence->pass)
		*who = position == 0 ? look->fence->view->leader :
		       beest_view_entry(look->fence->view, position).incarnation;
	else if (look->call->members)
		*who = look->call->members[position];

	return look->fence->pass || look->call->members;
}

/* Many queries are too large for a small stack; without memory, a later look asks. */
void beest_fence_ask(struct beest_fence_look *look)
{
	struct beest_presence_query *queries = calloc(ASKED_MAX, sizeof(*queries));
	struct beest_incarnation who[ASKED_MAX];
	size_t i, count = 0;
	int ret = 0;

	for (i = 0; i < look->call->ranks->count && count < ASKED_MAX && queries; i++)
		if (i != look->own && look->role->awaits(look, i) &&
		    expected(look, i, &who[count])) {
			queries[count].rank = look->call->ranks->id[i];
			queries[count].incarnation = &who[count];
			count++;
		}
	if (count)
		beest_presence_query(look->call->registry, queries, count,
				     beest_limit_look(look->call->limit), 0);
	for (i = 0; i < count && ret == 0; i++) {
		if (queries[i].ret > 0)
			ret = beest_presence_ended(queries[i].rank, &queries[i].body);
		else if (queries[i].ret == -ESTALE)
			ret = beest_fence_stale(look, queries[i].rank, &queries[i].now);
	}
	if (ret < 0)
		beest_fence_refuse(look, ret);
	free(queries);
}

size_t beest_fence_missing(const struct beest_fence_look *look,
			   bool (*missing)(const struct beest_fence_look *look, size_t position),
			   struct beest_fence_range *ranges, size_t most, size_t *count)
{
	size_t i, all = 0;
	bool joins = false;		/* the rank before is missing, and in the last range */

	*count = 0;
	for (i = 0; i < look->call->ranks->count; i++) {
		if (!missing(look, i)) {
			joins = false;
			continue;
		}
		all++;
		if (!joins && *count < most) {
			ranges[(*count)++].first = (uint32_t)i;
			joins = true;
		}
		if (joins)
			ranges[*count - 1].last = (uint32_t)i;
	}

	return all;
}

/* ----------------------------------------------------------------- begin and end --- */

void beest_fence_end(struct beest_fence *fence)
{
	free(fence->ranks);
	beest_view_free(fence->view);
	beest_view_free(fence->next);
}

/* A later call of this name may be for other ranks. */
static int ranks_make(struct beest_fence *fence, size_t count)
{
	struct beest_fence_rank *ranks;

	if (fence->rank_count == count)
		return 0;
	ranks = calloc(count, sizeof(*ranks));
	if (!ranks)
		return beest_fail(ENOMEM, "no memory for %zu ranks", count);
	free(fence->ranks);
	fence->ranks = ranks;
	fence->rank_count = count;

	return 0;
}

void beest_fence_abandon(struct beest_fence *fence)
{
	fence->contribution = 0;
}

static struct beest_fence_setup setup_of(const struct beest_fence_call *call)
{
	struct beest_fence_setup setup = call->setup;
	uint32_t id;
	size_t i;

	setup.size = (uint32_t)call->ranks->count;
	setup.ranks = BEEST_HASH_FNV;
	for (i = 0; i < call->ranks->count; i++) {
		id = htonl((uint32_t)call->ranks->id[i]);
		setup.ranks = beest_hash_fnv(setup.ranks, &id, sizeof(id));
	}

	return setup;
}

static uint64_t contribution_of(const struct beest_fence_call *call)
{
	const uint64_t which[] = { call->setup.what, call->setup.form, call->pass };
	uint64_t digest = beest_hash_fnv(BEEST_HASH_FNV, which, sizeof(which));

	return (call->size ? beest_hash_fnv(digest, call->value, call->size) : digest) | 1;
}

void beest_fence_take_next(struct beest_fence *fence)
{
	beest_view_free(fence->view);
	fence->view = fence->next;
	fence->next = NULL;
	fence->passed = 0;
}

static int fence_begin(struct beest_fence_look *look)
{
	struct beest_fence *fence = look->fence;
	const bool leads = beest_fence_is_leader(look);
	size_t i;

	if (fence->trouble.error)
		fence->own = 0;
	fence->trouble.error = 0;
	fence->culprit_call = 0;
	fence->suspected = 0;
	if (leads)
		fence->looked = 0;
	/* L5: a view that was committed stays so, whatever this rank calls next. */
	if (leads && beest_fence_is_committed(fence))
		beest_fence_take_next(fence);
	beest_view_free(fence->next);
	fence->next = NULL;
	for (i = 0; i < fence->rank_count; i++)
		fence->ranks[i].arrived = false;
	fence->pass = look->call->pass ? fence->passed + 1 : 0;
	if (look->call->pass)
		return 0;
	fence->call++;
	if (leads)
		fence->next = beest_view_new(look->call->ranks->count);

	return leads && !fence->next ? -ENOMEM : 0;
}

int beest_fence_prepare(struct beest_fence_look *look)
{
	struct beest_fence *fence = look->fence;
	const uint64_t contribution = contribution_of(look->call);
	int ret;

	look->setup = setup_of(look->call);
	look->own = (size_t)beest_parse_ids_position(look->call->ranks, look->call->rank);
	ret = beest_fence_is_leader(look) ? ranks_make(fence, look->call->ranks->count) : 0;
	if (ret == 0 && !beest_fence_goes_on(fence))
		ret = fence_begin(look);
	else if (ret == 0 && fence->contribution != contribution)
		ret = beest_fail(EINVAL, "the last call for '%s' has not ended: this one has to "
				 "continue it, with the same value", look->call->title);
	if (ret == 0)
		fence->contribution = contribution;

	return ret;
}
