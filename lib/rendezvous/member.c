/* SPDX-License-Identifier: MIT */
/*
 * member.c - what each rank but the first does at a fence
 *
 * Decides by the leader's record what it stores, what it acknowledges, and when it goes on.  Reads
 * the chunks of a proposed view, or leaves that to another process of its host.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/text.h"
#include "lib/rendezvous/fence.h"

/* A rank sees so often whether its record is still there. */
#define REREAD BEEST_SECOND

/* So many chunks are fetched in one look at most. */
#define CHUNKS_MOST 64

/*
 * The first and the last pause, each twice the one before, in which a rank waits for what other
 * processes of its host fetch.  Then it looks at the leader's record again.
 */
#define FILE_PAUSE BEEST_MS
#define FILE_PAUSE_MAX (8 * BEEST_MS)

enum { GET_LEADER, GET_OWN, GET_CHUNKS };

/* ------------------------------------------------------------------- its own record --- */

static struct beest_member_body member_body(const struct beest_fence_look *look)
{
	const struct beest_fence *fence = look->fence;
	const bool acknowledges = !fence->pass && fence->next && fence->next->taken;
	struct beest_member_body body = {
		.setup = look->setup, .follows = fence->follows,
		.call = fence->pass ? beest_view_entry(fence->view, look->own).call : fence->call,
		.view = fence->pass ? fence->view->id : acknowledges ? fence->next->id : 0,
		.pass = fence->pass, .refusal = fence->trouble,
	};

	if (look->over) {
		body.setup.what = BEEST_FENCE_NOTHING;
		body.refusal.error = 0;
	} else if (!fence->pass && !fence->trouble.error) {
		body.value = look->call->value;
		body.size = look->call->size;
		body.shown = (uint32_t)(look->call->size - look->call->hidden);
	}

	return body;
}

/* The first record of a process replaces no other, so that what its predecessor left is read. */
static int member_put(struct beest_fence_look *look, bool if_changed)
{
	const struct beest_member_body body = member_body(look);
	uint8_t *bytes = malloc(BEEST_MEMBER_MAX(body.size));
	struct beest_registry_record record = {
		.kind = BEEST_KIND_MEMBER, .key = look->keys[GET_OWN],
		.size = bytes ? (size_t)beest_record_member_encode(&body, bytes) : 0,
		.add_only = !look->fence->looked, .if_changed = if_changed,
	};

	return beest_fence_put_own(look, &record, bytes);
}

static int state_put(struct beest_fence_look *look)
{
	return member_put(look, false);
}

/* The process that had this rank before has left this: it has read the failure of that leader. */
static void predecessor_note(struct beest_fence *fence, const struct beest_record *record)
{
	struct beest_member_body body;

	if (beest_record_member_decode(record, &body) < 0)
		return;
	fence->past_leader = body.follows;
	fence->culprit = record->incarnation;
	fence->culprit_call = body.call;
}

static int own_see(void *data, const struct beest_record *record)
{
	struct beest_fence_look *look = data;

	if (!look->fence->looked &&
	    !beest_process_is_context(&record->incarnation,
				      beest_registry_incarnation(look->call->registry)))
		predecessor_note(look->fence, record);
	if (!beest_fence_is_own(look, record))
		return 0;
	look->fence->looked = beest_clock_now();

	return 1;
}

/* ------------------------------------------------------------- the chunks of a view --- */

static bool chunk_is_there(struct beest_fence_look *look, const char *key, uint8_t *bytes,
			   size_t size)
{
	struct beest_record record;

	return beest_record_decode(look->call->registry->seal, bytes, size, BEEST_KIND_CHUNK, key,
				   &record) == 0 &&
	       beest_view_read(look->fence->next, look->call->ranks, record.body,
			       record.size) >= 0;
}

/* What is there and wrong is fetched. */
static enum beest_nodefile chunk_look(struct beest_fence_look *look, const char *key)
{
	uint8_t *bytes = NULL;
	size_t size;
	enum beest_nodefile found = beest_nodefiles_look(&look->files, key, &bytes, &size);

	if (found == BEEST_NODEFILE_THERE && !chunk_is_there(look, key, bytes, size))
		found = BEEST_NODEFILE_OWN;
	free(bytes);

	return found;
}

/* Another author seals it again; its contents are known by their digest. */
static void chunk_store(struct beest_fence_look *look, const char *key,
			const struct beest_record *seen)
{
	struct beest_registry *registry = look->call->registry;
	const struct beest_record record = {
		.kind = BEEST_KIND_CHUNK, .incarnation = *beest_registry_incarnation(registry),
		.rank = look->call->rank, .body = seen->body, .size = seen->size,
	};
	const size_t room = beest_record_overhead(registry->seal) + seen->size;
	uint8_t *bytes = beest_nodefiles_made(&look->files, key) ? malloc(room) : NULL;
	int size = bytes ? beest_record_encode(registry->seal, &record, key, bytes, room) : -1;

	if (size > 0)
		beest_nodefiles_store(&look->files, key, bytes, (size_t)size);
	beest_nodefiles_rest(&look->files);
	free(bytes);
}

static int chunk_see(void *data, const struct beest_record *record)
{
	struct beest_fence_look *look = data;
	char key[BEEST_KEY_MAX + 1];
	int k = look->fence->next ? beest_view_read(look->fence->next, look->call->ranks,
						    record->body, record->size) : -ENOENT;

	if (k < 0)
		return 0;
	look->wait.hurry = true;	/* for those that remain */
	if (beest_fence_chunk_key(look, look->fence->next, (size_t)k, key) == 0)
		chunk_store(look, key, record);

	return 1;
}

/* SIZE_MAX, or the first chunk of those lacking, if other processes of this host fetch them all. */
static size_t chunks_look(struct beest_fence_look *look)
{
	const struct beest_view *view = look->fence->next;
	const size_t count = view && !view->taken ? beest_view_chunk_count(view) : 0;
	struct beest_wait *wait = &look->wait;
	size_t i, k, awaited = SIZE_MAX;
	enum beest_nodefile found;
	char *key;

	wait->count = GET_CHUNKS;
	for (i = 0; i < count && wait->count < wait->most; i++) {
		k = (i + look->own) % count;	/* each process begins with another one */
		if (!beest_view_lacks(view, k))
			continue;
		key = look->keys[wait->count];
		if (beest_fence_chunk_key(look, view, k, key) < 0)
			return SIZE_MAX;
		found = chunk_look(look, key);
		if (found == BEEST_NODEFILE_AWAITED && awaited == SIZE_MAX)
			awaited = k;
		if (found != BEEST_NODEFILE_OWN)
			continue;
		wait->gets[wait->count].server = wait->gets[0].server;
		wait->gets[wait->count++].got = false;
	}

	return wait->count == GET_CHUNKS ? awaited : SIZE_MAX;
}

static bool is_awaited(struct beest_fence_look *look, size_t k)
{
	char key[BEEST_KEY_MAX + 1];

	return beest_fence_chunk_key(look, look->fence->next, k, key) == 0 &&
	       chunk_look(look, key) == BEEST_NODEFILE_AWAITED;
}

/*
 * Looks for one file after each pause: many processes that look for all would delay its maker.  A
 * call of one look does not wait; the next one finds the file.
 */
static void chunks_want(struct beest_fence_look *look)
{
	int64_t pause = FILE_PAUSE;
	size_t k = chunks_look(look);

	while (k != SIZE_MAX && pause <= FILE_PAUSE_MAX && !look->call->limit->once &&
	       beest_limit_check(look->call->limit) == 0) {
		beest_clock_sleep(beest_clock_deadline(pause));
		pause *= 2;
		if (!is_awaited(look, k))
			k = chunks_look(look);
	}
	beest_nodefiles_rest(&look->files);
}

/* -------------------------------------------------------------------- a view is read --- */

/* M3: this rank acknowledges a view that names it when it has done what it demands. */
static int view_acknowledge(struct beest_fence_look *look)
{
	struct beest_fence *fence = look->fence;
	int ret = 0;

	if (!beest_view_names(fence->next, look->own,
			      beest_registry_incarnation(look->call->registry), fence->call))
		return 0;
	if (look->call->take)
		ret = look->call->take(look->call->data, fence->next);
	if (ret < 0 && ret != -EAGAIN)
		beest_fence_refuse(look, ret);
	if (ret < 0)
		return 0;
	fence->next->taken = true;
	fence->added = look->lead.added;
	fence->committed = look->lead.committed;
	look->changed = true;

	return 0;
}

static void view_forget(struct beest_fence *fence)
{
	beest_view_free(fence->next);
	fence->next = NULL;
}

static int view_consider(struct beest_fence_look *look)
{
	struct beest_fence *fence = look->fence;
	int ret = 0;

	if (!fence->next || fence->next->id != look->lead.proposed) {
		view_forget(fence);
		ret = beest_view_begin(look->call->ranks, &look->leader, &look->lead,
				       &fence->next);
		if (ret == 0)
			ret = beest_view_need(fence->next, &look->call->needs, look->own);
		look->wait.hurry = ret == 0;
		chunks_want(look);
	}
	if (ret == 0 && beest_view_is_whole(fence->next))
		ret = view_acknowledge(look);

	return ret == -EBADMSG ? 0 : ret;	/* a living leader never proposes such a view */
}

/* ------------------------------------------------------------- the leader's record --- */

/* M6: another process leads, with whose view this rank has nothing to do. */
static bool is_over(const struct beest_fence_look *look)
{
	const struct beest_fence *fence = look->fence;

	return fence->view && (fence->pass || !beest_fence_is_mesh(look)) &&
	       !beest_process_is_context(&look->leader, &fence->view->leader);
}

/*
 * This context has met the leader at another fence, and this is the first call under this name:
 * what another process has written is a leftover, unless it has replaced the leader.
 */
static bool is_leftover(const struct beest_fence_look *look)
{
	return look->there && look->call->members && !look->fence->view &&
	       !beest_process_is_context(&look->leader, &look->call->members[0]);
}

/* It waits for the leader, which reads the records of all others. */
static bool member_awaits(const struct beest_fence_look *look, size_t position)
{
	(void)look;

	return position == 0;
}

/* M2: another view was committed since, or the server has lost what the leader before decided. */
static bool is_decision_lost(const struct beest_fence_look *look)
{
	const struct beest_fence *fence = look->fence;

	if (!fence->next || !fence->next->taken)
		return false;

	return look->lead.committed != fence->committed ||
	       (!beest_process_is_context(&look->leader, &fence->follows) &&
		!beest_process_is_context(&look->lead.added, &fence->added));
}

static int view_end(struct beest_fence_look *look)
{
	struct beest_fence *fence = look->fence;
	const int rank = look->call->ranks->id[0];
	int ret;

	if (!fence->pass || !beest_process_is_context(&look->leader, &fence->view->leader))
		ret = beest_fence_stale(look, rank, &look->leader);
	else if (look->lead.setup.what != look->setup.what)
		ret = beest_fence_compare(look, rank, &look->lead.setup);
	else
		ret = beest_fail(ESTALE, "rank %d is in a later call for all ranks", rank);
	if (beest_fence_is_mesh(look))
		return ret;
	fence->follows = look->leader;
	beest_fence_refuse(look, ret);

	return 0;
}

/* A pass that fails is no failure of a newcomer to a mesh, which waits for the repair. */
static bool has_failed(const struct beest_fence_look *look)
{
	return look->lead.failure.error &&
	       !(beest_fence_is_mesh(look) && !look->fence->pass && look->lead.in_pass);
}

/* All others read it, too.  This call of this rank must not be counted in the next one. */
static int failure_take(struct beest_fence_look *look)
{
	look->over = true;

	return beest_fail(look->lead.failure.error, "%s", look->lead.failure.text);
}

static uint64_t failure_digest(const struct beest_fence_look *look)
{
	uint64_t digest = beest_hash_fnv(BEEST_HASH_FNV, &look->leader, sizeof(look->leader));

	digest = beest_hash_fnv(digest, &look->lead.culprit, sizeof(look->lead.culprit));

	return beest_hash_fnv(digest, look->lead.failure.text, strlen(look->lead.failure.text));
}

static bool is_culprit(const struct beest_fence_look *look,
		       const struct beest_incarnation *incarnation, uint32_t call)
{
	return look->lead.culprit_call && look->lead.culprit_call == call &&
	       beest_process_is_context(&look->lead.culprit, incarnation);
}

/* Has that failure stayed there for some time?  It may be of an earlier run. */
static bool is_believed(const struct beest_fence_look *look, uint64_t digest)
{
	struct beest_fence *fence = look->fence;

	if (fence->suspected != digest) {
		fence->suspected = digest;
		fence->since = beest_clock_now();
	}

	return beest_clock_now() - fence->since >= beest_fence_patience(look);
}

/*
 * M5: the failure may be of an earlier run.  It counts if this process has caused it; or if no
 * predecessor of this process has read it, and no other leader has arrived for some time.
 */
static int failure_judge(struct beest_fence_look *look)
{
	const struct beest_fence *fence = look->fence;

	if (is_culprit(look, beest_registry_incarnation(look->call->registry), fence->call))
		return failure_take(look);
	if (beest_process_is_context(&look->leader, &fence->past_leader) ||
	    is_culprit(look, &fence->culprit, fence->culprit_call))
		return 0;

	return is_believed(look, failure_digest(look)) ? failure_take(look) : 0;
}

/* ------------------------------------------------------------------------ one look --- */

/*
 * An evicted or replaced record is stored again.  The first one, once what was there is known.
 */
static void own_check(struct beest_fence_look *look)
{
	struct beest_wait_get *get = &look->wait.gets[GET_OWN];
	const bool is_first = !look->fence->looked;

	if (!get->got) {
		look->fence->looked = beest_clock_now();
		get->got = true;
		if (is_first)
			look->changed = true;
		else
			beest_lease_republish(look->call->registry->leases, get->key);
	} else if (beest_clock_now() - look->fence->looked >= REREAD) {
		get->got = false;
		if (!look->there || is_leftover(look))
			beest_fence_ask(look);
	}
}

/* Has this look, which is the only one of its call, watched over others? */
static bool watches(const struct beest_fence_look *look)
{
	return look->call->limit->once &&
	       __atomic_load_n(&look->call->registry->watched, __ATOMIC_RELAXED) >=
	       look->call->limit->began;
}

/* Most leaders count this rank already, so the record is sent with the next look, after a pause. */
static int follows_put(struct beest_fence_look *look)
{
	const bool hurry = look->wait.hurry;
	int ret = state_put(look);

	look->wait.hurry = hurry;

	return ret;
}

static int call_read(struct beest_fence_look *look)
{
	struct beest_fence *fence = look->fence;
	int ret = 0;

	if (is_over(look) || is_decision_lost(look))
		return view_end(look);
	if (!beest_process_is_context(&look->leader, &fence->follows)) {
		fence->follows = look->leader;
		view_forget(fence);
		ret = follows_put(look);
	}
	if (ret < 0)
		return ret;
	if (has_failed(look))
		return failure_judge(look);
	/* A living leader reads of a disagreement in this rank's record; else it is a leftover. */
	if (beest_fence_compare(look, look->call->ranks->id[0], &look->lead.setup) < 0)
		return 0;
	if (!look->lead.proposed || (fence->next && fence->next->taken &&
				     fence->next->id == look->lead.proposed))
		return 0;

	return view_consider(look);
}

static int pass_read(struct beest_fence_look *look)
{
	const struct beest_fence *fence = look->fence;
	const bool same = look->lead.committed == fence->view->id;

	if (look->lead.failure.error && same &&
	    beest_process_is_context(&look->leader, &fence->view->leader))
		return failure_take(look);
	if (is_over(look) || (same && look->lead.call != fence->view->call))
		return view_end(look);

	return 0;
}

/* M5: its refusal stays until the leader has read it, or for some time. */
static int refusal_read(struct beest_fence_look *look)
{
	struct beest_fence *fence = look->fence;

	if (look->there && !beest_process_is_context(&look->leader, &fence->follows) &&
	    !has_failed(look)) {
		fence->follows = look->leader;
		look->changed = true;
		return 0;
	}
	if ((look->there && look->lead.failure.error &&
	     beest_process_is_context(&look->leader, &fence->follows)) ||
	    beest_clock_now() - fence->since >= beest_fence_patience(look))
		return beest_fence_fail(look);

	return 0;
}

/* M4: looked at first, in any case. */
static bool has_passed(const struct beest_fence_look *look)
{
	const struct beest_fence *fence = look->fence;

	if (!look->there)
		return false;
	if (fence->pass)
		return look->lead.committed == fence->view->id && look->lead.passes >= fence->pass;

	return fence->next && fence->next->taken && look->lead.committed == fence->next->id;
}

/*
 * The failure or the end of the leader ends the wait once it is known to be of this run; but for
 * what it has stored before it left, which is judged by itself.
 */
static void author_note(struct beest_fence_look *look)
{
	const struct beest_fence *fence = look->fence;
	const struct beest_view *view = fence->pass ? fence->view : fence->next;
	struct beest_wait_get *get = &look->wait.gets[GET_LEADER];
	const struct beest_incarnation *leader = look->call->members;

	if (view && (fence->pass || view->taken))
		leader = &view->leader;
	get->has_author = leader && !(look->there && has_failed(look));
	if (!get->has_author)
		return;
	if (!beest_process_is_context(&get->author, leader))
		get->leaving_at = 0;
	get->author = *leader;
	get->rank = look->call->ranks->id[0];
}

static int member_step(struct beest_fence_look *look)
{
	int ret = 0;

	if (has_passed(look)) {
		if (!look->fence->pass)
			beest_fence_take_next(look->fence);
		return 1;
	}
	own_check(look);
	if (watches(look))
		beest_fence_ask(look);
	if (is_leftover(look))
		look->there = false;
	if (look->fence->trouble.error)
		ret = refusal_read(look);
	else if (look->there)
		ret = look->fence->pass ? pass_read(look) : call_read(look);
	chunks_want(look);
	author_note(look);

	return ret;
}

/* A pass reads no view, and no view has many more chunks than ranks. */
static size_t member_gets(const struct beest_fence_call *call)
{
	return GET_CHUNKS + (call->pass ? 0 : BEEST_MIN(CHUNKS_MOST, call->ranks->count));
}

static int member_start(struct beest_fence_look *look)
{
	struct beest_wait *wait = &look->wait;
	size_t i;
	int ret = beest_fence_get_member(look, GET_OWN, look->call->rank, own_see);

	if (ret < 0)
		return ret;
	for (i = GET_CHUNKS; i < wait->most; i++) {
		wait->gets[i] = wait->gets[GET_LEADER];
		wait->gets[i].kind = BEEST_KIND_CHUNK;
		wait->gets[i].see = chunk_see;
		wait->gets[i].key = look->keys[i];
	}
	look->files.author = beest_registry_incarnation(look->call->registry);
	look->files.swept = &look->call->registry->swept;
	chunks_want(look);		/* of a call that goes on */

	return member_put(look, true);	/* a call that goes on has put it before */
}

const struct beest_fence_role beest_member_role = {
	.gets = member_gets, .start = member_start, .step = member_step, .put = state_put,
	.awaits = member_awaits,
};
