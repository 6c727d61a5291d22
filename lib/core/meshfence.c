/* SPDX-License-Identifier: MIT */
/* meshfence.c - see meshfence.h */
#include "config.h"

#include <string.h>

#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/core/context.h"
#include "lib/core/contribution.h"
#include "lib/core/meshfence.h"
#include "lib/core/meshphase.h"
#include "lib/core/meshrows.h"
#include "lib/rendezvous/fencecall.h"
#include "lib/verbs/retry.h"

/* A bring-up or repair. */
struct bringup {
	struct hartebeest_mesh *mesh;
	const struct beest_limit *limit;
	bool rows;			/* this rank, which leads, has put rows */
	uint64_t view;			/* whose newcomers these are; 0: none yet */
	struct beest_newcomers new;
	int64_t again_at;		/* not to be connected before */
};

/* ---------------------------------------------------------------------- to connect --- */

static bool any_has_list(const struct beest_newcomers *new)
{
	size_t i = 0;

	while (i < new->count && !new->peers[i].digest)
		i++;

	return i < new->count;
}

/* The leader has read the lists of all. */
static int rows_offer(void *data, const struct beest_view *view)
{
	struct bringup *bringup = data;
	struct beest_newcomers all;
	int ret = beest_contribution_find(bringup->mesh, view, true, &all);

	if (ret == 0 && any_has_list(&all)) {
		bringup->rows = true;
		ret = beest_contribution_lists(bringup->mesh, view, &all, true);
		if (ret == 0)
			ret = beest_meshrows_put(bringup->mesh, view->id, &all);
	}
	beest_contribution_forget(&all);

	return ret;
}

static int numbers_find(struct bringup *bringup, const struct beest_view *view,
			struct beest_newcomers *new)
{
	struct hartebeest_mesh *mesh = bringup->mesh;
	const bool rows = beest_meshrows_are_used(mesh);

	if (!any_has_list(new))
		return 0;
	if (rows && mesh->qps.own != 0)
		return beest_meshrows_fetch(mesh, view->id, new, beest_limit_look(bringup->limit));

	return beest_contribution_lists(mesh, view, new, rows);
}

static void newcomers_forget(struct bringup *bringup)
{
	beest_contribution_forget(&bringup->new);
	memset(&bringup->new, 0, sizeof(bringup->new));
	bringup->view = 0;
}

/* Finds whom to connect to, and the numbers of their queue pairs. */
static int newcomers_find(struct bringup *bringup, const struct beest_view *view)
{
	int ret;

	if (bringup->view == view->id)
		return 0;
	newcomers_forget(bringup);
	ret = beest_contribution_find(bringup->mesh, view, false, &bringup->new);
	if (ret == 0)
		ret = numbers_find(bringup, view, &bringup->new);
	if (ret == 0)
		bringup->view = view->id;

	return ret;
}

/* -EAGAIN: some are connected by now, others may be later. */
static int newcomers_connect(struct bringup *bringup, struct beest_view *view)
{
	struct hartebeest_mesh *mesh = bringup->mesh;
	int ret;

	if (beest_clock_now() < bringup->again_at)
		return -EAGAIN;
	ret = beest_retry_judge(beest_contribution_connect(mesh, view, &bringup->new,
							   bringup->limit),
				bringup->limit, &mesh->qps.hb->log);
	if (ret != -EAGAIN)
		return ret;
	bringup->again_at = beest_clock_deadline(BEEST_RETRY_PAUSE);

	return -EAGAIN;
}

static int view_take(void *data, struct beest_view *view)
{
	struct bringup *bringup = data;
	struct hartebeest_mesh *mesh = bringup->mesh;
	int ret;

	beest_meshphase_enter(mesh, &mesh->stats.fetch);
	ret = newcomers_find(bringup, view);
	if (ret == 0)
		ret = newcomers_connect(bringup, view);
	if (ret == -EAGAIN)
		beest_meshphase_enter(mesh, &mesh->stats.wait);
	if (ret == 0 || ret == -EAGAIN)
		return ret;

	/* All ranks fail with this sentence. */
	return beest_fail_prefix(ret, "rank %d cannot connect", mesh->rank);
}

/* ---------------------------------------------------------------------- to meet --- */

#define NAMED_MAX 8

/* The first look has stored what this rank contributes. */
static void looked(void *data)
{
	struct hartebeest_mesh *mesh = ((struct bringup *)data)->mesh;

	if (mesh->phase == &mesh->stats.publish)
		beest_meshphase_enter(mesh, &mesh->stats.wait);
}

static void mesh_report(void *data, bool proposed, const int *missing, size_t count)
{
	const struct hartebeest_mesh *mesh = ((struct bringup *)data)->mesh;
	struct beest_text text = BEEST_TEXT(200);
	size_t i;

	beest_text_add(&text, "%zu of %zu %s; missing: ", mesh->ranks.count - count,
		       mesh->ranks.count, proposed ? "are connected" : "have arrived");
	for (i = 0; i < BEEST_MIN(count, NAMED_MAX); i++)
		beest_text_add(&text, "%s%d", i ? ", " : "", missing[i]);
	if (count > NAMED_MAX)
		beest_text_add(&text, " and %zu more", count - NAMED_MAX);
	mesh->qps.attr.progress(mesh->qps.attr.progress_data, text.buffer);
}

static int call_make(const struct hartebeest_mesh *mesh, const struct beest_limit *limit,
		     struct beest_fence_call *call)
{
	char key[BEEST_KEY_MAX + 1];
	int ret = beest_context_need_registry(mesh->qps.hb, BEEST_KIND_ANY, NULL);

	*call = (struct beest_fence_call){
		.registry = mesh->qps.hb->registry, .ranks = &mesh->ranks, .rank = mesh->rank,
		.name = mesh->key_name, .title = mesh->qps.name,
		.setup = { .what = BEEST_FENCE_MESH, .form = mesh->body.form }, .limit = limit,
		.needs = { mesh->qps.peers, mesh->qps.peer_count },
	};
	if (ret == 0)		/* here, since later sentences would name the key, not the mesh */
		ret = beest_registry_key(mesh->qps.hb->registry, BEEST_KIND_MEMBER,
					 mesh->qps.name, key);

	return ret < 0 ? ret : beest_fence_check(mesh->qps.hb->registry, mesh->key_name);
}

int beest_meshfence_bringup(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
{
	struct bringup bringup = { .mesh = mesh, .limit = limit };
	struct beest_fence_call call;
	int ret;

	beest_meshphase_enter(mesh, &mesh->stats.publish);
	ret = call_make(mesh, limit, &call);
	if (ret < 0)
		return ret;
	call.looked = looked;
	call.offer = beest_meshrows_are_used(mesh) ? rows_offer : NULL;
	call.take = view_take;
	call.progress = mesh->qps.attr.progress ? mesh_report : NULL;
	call.data = &bringup;
	call.value = mesh->value;
	call.size = mesh->blob_size + mesh->list_size;
	call.hidden = call.offer ? mesh->list_size : 0;
	ret = beest_fencecall_run(mesh->fence, &call);
	newcomers_forget(&bringup);
	if (bringup.rows)
		beest_meshrows_delete(mesh);
	mesh->is_whole = ret == 0;
	if (ret == 0)
		ret = (int)beest_contribution_complete(mesh);

	return ret;
}

int beest_meshfence_refuse(struct hartebeest_mesh *mesh, int ret, const struct beest_limit *limit)
{
	struct beest_fence_call call;
	char sentence[BEEST_ERROR_SIZE];
	int made;

	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	made = call_make(mesh, limit, &call);
	beest_fail(-ret, "rank %d has failed: %s", mesh->rank, sentence);
	if (made == 0)
		beest_fencecall_refuse(mesh->fence, &call, ret);

	return beest_fail(-ret, "%s", sentence);
}

int beest_meshfence_fetch(const struct hartebeest_mesh *mesh, size_t position,
			  struct beest_view **view)
{
	struct hartebeest_context *hb = mesh->qps.hb;
	struct beest_fence_call call;
	struct beest_limit limit;
	int ret;

	limit = beest_context_limit(hb);
	ret = call_make(mesh, &limit, &call);

	return ret < 0 ? ret : beest_fencecall_fetch(&call, mesh->view, position, view);
}

int beest_meshfence_barrier(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
{
	struct beest_fence_call call;
	int ret;

	if (!mesh->is_whole)
		return beest_fail(ESTALE, "it was not repaired: call hartebeest_mesh_repair() "
				  "again");
	ret = call_make(mesh, limit, &call);
	call.pass = true;
	if (ret == 0)
		ret = beest_fencecall_run(mesh->fence, &call);
	if (ret == 0)
		mesh->passes++;
	if (ret == -ESTALE)
		beest_fail(ESTALE, "%s: call hartebeest_mesh_repair()", beest_error_text());

	return ret;
}
