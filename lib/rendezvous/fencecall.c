/* SPDX-License-Identifier: MIT */
/* fencecall.c - see fencecall.h */
#include "config.h"

#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/rendezvous/absent.h"
#include "lib/rendezvous/fencecall.h"

/* So few ranks delay their leader less than their pauses would. */
#define FEW_RANKS 16

/* ------------------------------------------------------------------------ the wait --- */

static void progress_report(struct beest_fence_look *look)
{
	size_t count;
	int *ids;

	if (!look->call->progress || beest_clock_now() < look->report_at)
		return;
	look->report_at = beest_clock_deadline(BEEST_SECOND);
	ids = beest_absent_ids(look, &count);
	if (count)
		look->call->progress(look->call->data, look->fence->next && look->fence->next->id,
				     ids, count);
	free(ids);
}

static int lead_see(void *data, const struct beest_record *record)
{
	struct beest_fence_look *look = data;
	const uint32_t before = look->lead.looked;

	if (beest_record_leader_decode(record, &look->lead) < 0)
		look->lead.call = 0;
	look->leader = record->incarnation;
	look->ours = beest_fence_is_own(look, record);
	if (!look->looked_at || look->lead.looked != before)
		look->looked_at = beest_clock_now();

	return 0;
}

static int fence_each(void *data)
{
	struct beest_fence_look *look = data;
	int ret;

	if (look->wait.failing)
		return 0;
	if (look->call->looked)
		look->call->looked(look->call->data);
	look->there = look->wait.gets[0].answered && look->wait.gets[0].seen > 0 &&
		      look->lead.call;
	ret = look->role->step(look);
	progress_report(look);
	if (ret != 0 || !look->changed)
		return ret;
	/* Also what changed when records were seen, before this. */
	look->changed = false;

	return look->role->put(look);
}

static bool fence_ended_log(void *data)
{
	return beest_absent_log(data);
}

/*
 * What members ask in vain delays the leader, whom all wait for: in a call of many ranks, which
 * takes several steps, more than in a pass.
 */
static int readers_count(const struct beest_fence_call *call)
{
	const int count = (int)call->ranks->count;

	return call->pass || count <= FEW_RANKS ? count : 2 * count;
}

static int look_start(struct beest_fence_look *look)
{
	const bool leads = beest_fence_is_leader(look);
	size_t most;
	int ret;

	look->role = leads ? &beest_leader_role : &beest_member_role;
	most = look->role->gets(look->call);
	look->wait.gets = calloc(most, sizeof(*look->wait.gets));
	look->keys = calloc(most, sizeof(*look->keys));
	if (!look->wait.gets || !look->keys)
		return beest_fail(ENOMEM, "no memory for %zu records", most);
	look->wait.most = most;
	look->wait.each = fence_each;
	look->wait.ended_log = fence_ended_log;
	look->wait.data = look;
	look->wait.meets = !look->call->pass;
	look->wait.limit = look->call->limit;
	look->report_at = beest_clock_deadline(BEEST_SECOND);
	look->wait.readers = leads ? 1 : readers_count(look->call);
	ret = beest_registry_key(look->call->registry, BEEST_KIND_LEADER, look->call->name,
				 look->placed_as);
	if (ret == 0)
		ret = beest_fence_get(look, 0, BEEST_KIND_LEADER, "lead", lead_see);
	if (ret == 0)
		ret = look->role->start(look);
	look->wait.hurry = false;	/* the first look sends what was put */

	return ret;
}

static void look_end(struct beest_fence_look *look)
{
	beest_nodefiles_end(&look->files);
	free(look->keys);
	free(look->wait.gets);
}

/* Ends what no other rank need know of; the next call continues this one. */
static bool is_own(int ret)
{
	return ret == -ETIMEDOUT || ret == -EAGAIN || ret == -ECANCELED || ret == -EADDRINUSE ||
	       ret == -ENOMEM || beest_kv_transient(ret);
}

/*
 * Whatever ends the fence on this rank has to be stored for all others, best effort: within the
 * limit, or in a last look.
 */
static int fence_fail_all(struct beest_fence_look *look, int ret)
{
	const int64_t left = BEEST_MAX(beest_limit_left(look->call->limit), BEEST_LIMIT_LOOK);
	struct beest_limit limit;
	char sentence[BEEST_ERROR_SIZE];

	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	beest_fence_refuse(look, ret);
	beest_limit_start(&limit, NULL, BEEST_MIN(beest_look_closing(look->call->registry),
						  beest_clock_deadline(left)), 0);
	look->wait.limit = &limit;
	look->role->put(look);
	if (beest_wait_run(look->call->registry, &look->wait) == 0)
		return 0;		/* it had been decided */

	return beest_fail(-ret, "%s", sentence);
}

/*
 * Has the limit ended the wait, also for a record that cannot be read, but not for a server in
 * trouble or for ranks with other servers (EPROTO)?
 */
static bool is_expired(const struct beest_fence_look *look, int ret)
{
	return ret < 0 && look->wait.expired && !look->wait.failing && ret != -EPROTO;
}

static int fence_finish(struct beest_fence_look *look, int ret)
{
	struct beest_fence *fence = look->fence;

	if (ret == -ESHUTDOWN || ret == -ECONNABORTED)
		ret = beest_absent_add(look, ret);
	if (is_expired(look, ret) && fence->trouble.error)
		ret = fence_fail_all(look, beest_fence_fail(look));
	else if (is_expired(look, ret))
		ret = beest_absent_fail(look);
	else if (ret < 0 && !is_own(ret) && (!fence->trouble.error || look->changed) &&
		 !(ret == -ESTALE && beest_fence_is_mesh(look)))
		/* Also a trouble that was found by the look which has ended the wait. */
		ret = fence_fail_all(look, ret);
	if (ret == 0 && fence->pass)
		fence->passed = fence->pass;
	if (ret == 0 || !is_own(ret))
		beest_fence_abandon(fence);

	return ret;
}

int beest_fencecall_refuse(struct beest_fence *fence, const struct beest_fence_call *call, int ret)
{
	struct beest_fence_look look = { .fence = fence, .call = call };
	char sentence[BEEST_ERROR_SIZE];

	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	beest_fence_abandon(fence);
	if (beest_fence_prepare(&look) == 0) {
		beest_fail(-ret, "%s", sentence);
		beest_fence_refuse(&look, ret);
		if (look_start(&look) == 0)
			beest_wait_run(call->registry, &look.wait);
	}
	beest_fence_abandon(fence);
	look_end(&look);

	return beest_fail(-ret, "%s", sentence);
}

/* ------------------------------------------------------------------- what was not read --- */

struct fetch {
	const struct beest_fence_call *call;
	struct beest_view *view;
};

static int fetch_see(void *data, const struct beest_record *record)
{
	const struct fetch *fetch = data;
	const int ret = beest_view_read(fetch->view, fetch->call->ranks, record->body,
					record->size);

	return ret < 0 ? ret : 1;
}

int beest_fencecall_fetch(const struct beest_fence_call *call, const struct beest_view *known,
			  size_t position, struct beest_view **view)
{
	struct fetch fetch = { .call = call };
	struct beest_fence_look look = { .call = call };
	char key[BEEST_KEY_MAX + 1], placed_as[BEEST_KEY_MAX + 1];
	struct beest_wait_get get = {
		.kind = BEEST_KIND_CHUNK, .see = fetch_see, .data = &fetch, .key = key,
		.placed_as = placed_as, .name = call->title, .noun = "view",
		/* Who keeps it. */
		.has_author = true, .author = known->leader, .rank = call->ranks->id[0],
	};
	struct beest_wait wait = { .gets = &get, .count = 1, .limit = call->limit };
	int ret = beest_view_begin_again(known, position, &fetch.view);

	if (ret < 0)
		return ret;
	ret = beest_fence_chunk_key(&look, fetch.view, position / known->chunk_ranks, key);
	if (ret == 0)
		ret = beest_registry_key(call->registry, BEEST_KIND_LEADER, call->name, placed_as);
	if (ret == 0)
		ret = beest_wait_run(call->registry, &wait);
	if (ret < 0)
		beest_view_free(fetch.view);
	else
		*view = fetch.view;

	return ret;
}

int beest_fencecall_run(struct beest_fence *fence, const struct beest_fence_call *call)
{
	struct beest_fence_look look = { .fence = fence, .call = call };
	int ret;

	ret = beest_fence_prepare(&look);
	if (ret == 0)
		ret = look_start(&look);
	if (ret == 0)
		ret = fence_finish(&look, beest_wait_run(call->registry, &look.wait));
	look_end(&look);

	return ret;
}
