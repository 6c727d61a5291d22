/* SPDX-License-Identifier: MIT */
/* meshown.c - see meshown.h */
#include "config.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/codec.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/macro.h"
#include "lib/base/random.h"
#include "lib/base/text.h"
#include "lib/core/contribution.h"
#include "lib/core/context.h"
#include "lib/core/meshown.h"
#include "lib/core/meshphase.h"
#include "lib/verbs/retry.h"

/* The calls of gather() for a mesh; those of its barriers follow. */
enum { CALL_FORMS = 1, CALL_VIEWS, CALL_ENDPOINTS, CALL_RESULTS };

/*
 * Each contribution begins with this.  The program's exchange may have ranks in another order, or
 * bytes of an earlier call, so each contribution names its rank and its call.
 *
 * In CALL_FORMS, @listed and @same are those of the rank.  Later, @listed is the longest list, and
 * @same is the digest of all contributions to CALL_FORMS: ranks have received the same ones, and
 * each rank its own of this call, so none of these is of an earlier call.
 */
struct head {
	uint64_t digest;	/* of all that follows, to the end of the contribution */
	uint32_t rank;		/* its id */
	uint32_t ranks;		/* their number */
	uint32_t call;
	uint32_t error;		/* 0, or the errno with which the rank has failed */
	uint32_t culprit;	/* from 1: the position of the contribution that is why; or 0 */
	uint32_t listed;	/* bytes of a list of queue pair numbers */
	uint64_t same;		/* the form of the mesh */
	struct beest_incarnation incarnation;	/* drawn for this mesh */
};

static const struct beest_codec_field head_rows[] = {
	BEEST_CODEC_ROW(head, digest, UINT),
	BEEST_CODEC_ROW(head, rank, UINT),
	BEEST_CODEC_ROW(head, ranks, UINT),
	BEEST_CODEC_ROW(head, call, UINT),
	BEEST_CODEC_ROW(head, error, UINT),
	BEEST_CODEC_ROW(head, culprit, UINT),
	BEEST_CODEC_ROW(head, listed, UINT),
	BEEST_CODEC_ROW(head, same, UINT),
	BEEST_CODEC_ROW(head, incarnation, BYTES),
};
static const struct beest_codec_layout head_layout = BEEST_CODEC_LAYOUT(head_rows);

#define HEAD_SIZE 56			/* encoded */

/* A bring-up or a barrier, as this rank sees it. */
struct gathering {
	const struct hartebeest_mesh_attr *attr;
	struct hartebeest_mesh *mesh;	/* NULL: this rank could not make one */
	size_t count;			/* of ranks */
	struct head head;		/* of this rank's contributions */
	size_t size;			/* of a contribution */
	uint8_t *all;			/* those of all ranks, then that of this rank */
	struct beest_incarnation *known;	/* of each rank; zeros: not known yet */
	int failed;			/* 0, or why this rank has failed */
	char why[BEEST_ERROR_SIZE];	/* its sentence, since gather() may call this library */
};

/* ------------------------------------------------------------ what others contribute --- */

static uint64_t contribution_digest(const uint8_t *bytes, size_t size)
{
	return beest_hash_fnv(BEEST_HASH_FNV, bytes + sizeof(uint64_t), size - sizeof(uint64_t));
}

static struct head contribution_head(const struct gathering *g, size_t i)
{
	struct head head;

	beest_codec_decode(&head_layout, g->all + i * g->size, g->size, &head);

	return head;
}

/* -EPROTO: the contribution at position @i is not that of its rank to this call. */
static int contribution_check(const struct gathering *g, size_t i)
{
	static const struct beest_incarnation unknown;
	const struct head head = contribution_head(g, i);
	const int rank = g->mesh->ranks.id[i];

	if (head.digest != contribution_digest(g->all + i * g->size, g->size))
		return beest_fail(EPROTO, "the contribution at position %zu, that of rank %d, is "
				  "incomplete or damaged: gather must store all %zu bytes of each "
				  "rank", i, rank, g->size);
	if ((int)head.rank != rank)
		return beest_fail(EPROTO, "the contribution at position %zu is that of rank %d, "
				  "not of rank %d: own_rank, or the order in which gather stores "
				  "what ranks contribute, is not that of the ranks", i,
				  (int)head.rank, rank);
	if (head.ranks != g->count)
		return beest_fail(EPROTO, "the contribution at position %zu, that of rank %d, is "
				  "to a mesh of %u ranks, but this one has %zu", i, rank,
				  head.ranks, g->count);
	/* A rank may have failed because others know of it what is not of this call. */
	if (head.call != g->head.call ||
	    (!head.error && !beest_process_is_context(&g->known[i], &unknown) &&
	     !beest_process_is_context(&g->known[i], &head.incarnation)))
		return beest_fail(EPROTO, "the contribution at position %zu is that of rank %d to "
				  "call %u of gather for a mesh, not to call %u for this mesh: "
				  "gather must store what ranks contribute to this call", i, rank,
				  head.call, g->head.call);

	return 0;
}

/* Fails if rank number @i has failed, or wants or knows something else than this rank. */
static int contribution_agree(const struct gathering *g, size_t i, const struct head *head)
{
	const int *id = g->mesh->ranks.id;

	if (head->error && head->culprit && head->culprit <= g->count)
		return beest_fail(EPROTO, "rank %d did not receive at position %u what rank %d "
				  "contributed: own_rank or gather is wrong there", id[i],
				  head->culprit - 1, id[head->culprit - 1]);
	if (head->error)
		return beest_fail(ECONNABORTED, "rank %d has failed: %s", id[i],
				  strerror((int)head->error));
	if (head->same == g->head.same)
		return 0;
	if (head->call != CALL_VIEWS)
		return beest_contribution_same(g->mesh, i, head->same);

	return beest_fail(EPROTO, "rank %d and rank %d received different contributions to one "
			  "call of gather", g->mesh->rank, id[i]);
}

/* ---------------------------------------------------------------- what this rank does --- */

/* The first failure counts. */
static void gathering_fail(struct gathering *g, int ret)
{
	if (g->failed || ret >= 0)
		return;
	g->failed = ret;
	beest_text_copy(g->why, sizeof(g->why), beest_error_text());
}

/*
 * A failure that a rank reports is preferred, since all ranks know of it.  A contribution that is
 * wrong in its place may be so on this rank alone, which then reports it by the next call.
 */
static void contributions_judge(struct gathering *g)
{
	size_t i, culprit = g->count;
	struct head head;
	int ret = 0;

	for (i = 0; i < g->count && ret == 0; i++) {
		if (contribution_check(g, i) < 0) {
			culprit = BEEST_MIN(culprit, i);
			continue;
		}
		head = contribution_head(g, i);
		ret = contribution_agree(g, i, &head);
		/* Perhaps it is this contribution that is wrong, and on this rank alone. */
		if (ret < 0 && head.call == CALL_VIEWS && !head.error &&
		    head.listed == g->head.listed)
			g->head.culprit = (uint32_t)i + 1;
	}
	gathering_fail(g, ret);
	/* Checked last: if ranks have another order, this place has that of another rank. */
	g->known[g->mesh->qps.own] = g->head.incarnation;
	if (culprit == g->count && contribution_check(g, g->mesh->qps.own) < 0)
		culprit = g->mesh->qps.own;
	if (g->failed || culprit == g->count)
		return;
	gathering_fail(g, contribution_check(g, culprit));
	g->head.culprit = (uint32_t)culprit + 1;
}

/* false: gather() has failed and must not be called again. */
static bool contributions_exchange(struct gathering *g)
{
	uint8_t *own = g->all + g->count * g->size;
	uint64_t digest;
	int ret;

	g->head.call++;
	g->head.error = (uint32_t)-g->failed;
	beest_codec_encode(&head_layout, &g->head, own, HEAD_SIZE);
	digest = htobe64(contribution_digest(own, g->size));
	memcpy(own, &digest, sizeof(digest));
	ret = g->attr->gather(g->attr->gather_data, own, g->all, g->size);
	if (ret < 0)
		gathering_fail(g, beest_fail_errno(ret, "the program's gather function failed"));
	else if (!g->failed)
		contributions_judge(g);

	return ret >= 0;
}

/* false: this rank cannot even take part. */
static bool gathering_begin(struct gathering *g, int failed)
{
	gathering_fail(g, failed);
	g->size = HEAD_SIZE;
	g->all = calloc(g->count + 1, g->size);
	g->known = calloc(g->count, sizeof(*g->known));
	if (!g->all || !g->known)
		gathering_fail(g, beest_fail(ENOMEM, "no memory to ask %zu ranks", g->count));

	return g->all && g->known;
}

static int gathering_end(struct gathering *g)
{
	free(g->all);
	free(g->known);

	return g->failed ? beest_fail(-g->failed, "%s", g->why) : 0;
}

static struct gathering gathering_of(struct hartebeest_mesh *mesh)
{
	return (struct gathering){
		.attr = &mesh->qps.attr, .mesh = mesh, .count = mesh->ranks.count,
		.head = {
			.rank = (uint32_t)mesh->rank, .ranks = (uint32_t)mesh->ranks.count,
			.listed = (uint32_t)mesh->list_size, .same = mesh->body.form,
		},
	};
}

int beest_meshown_refuse(const struct hartebeest_mesh_attr *attr, int failed)
{
	struct gathering g = {
		.attr = attr, .count = attr->rank_count,
		.head = { .rank = (uint32_t)attr->own_rank, .ranks = attr->rank_count },
	};

	if (gathering_begin(&g, failed) && contributions_exchange(&g))
		contributions_exchange(&g);

	return gathering_end(&g);
}

/* ------------------------------------------------------------------------- a bring-up --- */

/* All ranks ask for the same mesh.  Notes who they are, and makes room for their endpoints. */
static void forms_accept(struct gathering *g)
{
	struct head head;
	uint8_t *all;
	size_t i;

	g->head.same = beest_hash_fnv(BEEST_HASH_FNV, g->all, g->count * g->size);
	for (i = 0; i < g->count; i++) {
		head = contribution_head(g, i);
		g->known[i] = head.incarnation;
		g->head.listed = BEEST_MAX(g->head.listed, head.listed);
	}
	all = calloc(g->count + 1, HEAD_SIZE + g->mesh->blob_size + g->head.listed);
	if (!all) {
		gathering_fail(g, beest_fail(ENOMEM, "no memory for what %zu ranks bring",
					     g->count));
		return;
	}
	free(g->all);
	g->all = all;
}

/*
 * Finds out whether all ranks ask for the same mesh and received the same contributions.  Returns
 * whether this rank goes on.  No rank does if one failed before the second call, which informs all.
 * A contribution to the second call that is wrong may be so on this rank alone; the others
 * then go on, and so does this rank, to report it.
 */
static bool forms_exchange(struct gathering *g)
{
	bool known;

	if (!contributions_exchange(g))
		return false;
	if (!g->failed)
		forms_accept(g);
	known = g->failed != 0;

	return contributions_exchange(g) && !known && (!g->failed || g->head.culprit);
}

/* What the ranks contribute to the mesh follows the heads.  NULL: no memory. */
static struct beest_view *view_make(const struct gathering *g)
{
	struct beest_view *view = beest_view_new(g->count);
	size_t i;

	for (i = 0; i < g->count && view; i++) {
		const struct beest_fence_entry entry = {
			.rank = (uint32_t)g->mesh->ranks.id[i], .incarnation = g->known[i],
			.size = (uint32_t)(g->size - HEAD_SIZE),
			.value = g->all + i * g->size + HEAD_SIZE,
		};
		struct beest_view_encoded encoded = {
			.bytes = malloc(BEEST_FENCE_ENTRY + entry.size),
			.size = BEEST_FENCE_ENTRY + entry.size,
		};

		if (encoded.bytes) {
			beest_record_entry_encode(&entry, encoded.bytes);
			beest_view_set(view, i, encoded);
			continue;
		}
		beest_fail(ENOMEM, "no memory for %zu bytes", encoded.size);
		beest_view_free(view);
		view = NULL;
	}

	return view;
}

static int gathered_connect(struct gathering *g, const struct beest_limit *limit)
{
	struct beest_view *view = view_make(g);
	struct beest_newcomers new;
	int ret;

	if (!view)
		return -ENOMEM;
	ret = beest_contribution_find(g->mesh, view, false, &new);
	if (ret == 0)
		ret = beest_contribution_lists(g->mesh, view, &new, false);
	if (ret == 0)
		do
			ret = beest_contribution_connect(g->mesh, view, &new, limit);
		while (beest_retry(&ret, limit, &g->mesh->qps.hb->log));
	beest_contribution_forget(&new);
	beest_view_free(view);

	return ret;
}

static void endpoints_exchange(struct gathering *g, const struct beest_limit *limit)
{
	struct hartebeest_mesh *mesh = g->mesh;
	uint8_t *own;

	g->size = HEAD_SIZE + mesh->blob_size + g->head.listed;
	own = g->all + g->count * g->size + HEAD_SIZE;
	memset(own, 0, g->size - HEAD_SIZE);
	memcpy(own, mesh->value, mesh->blob_size + mesh->list_size);
	if (!contributions_exchange(g))
		return;
	if (!g->failed)
		gathering_fail(g, gathered_connect(g, limit));
	g->size = HEAD_SIZE;
	contributions_exchange(g);
}

int beest_meshown_bringup(struct hartebeest_mesh *mesh, int failed,
			  const struct beest_limit *limit)
{
	struct gathering g = gathering_of(mesh);

	if (failed == 0)
		failed = beest_random(&g.head.incarnation, sizeof(g.head.incarnation));
	beest_meshphase_enter(mesh, &mesh->stats.wait);
	if (gathering_begin(&g, failed) && forms_exchange(&g)) {
		beest_meshphase_enter(mesh, &mesh->stats.fetch);
		endpoints_exchange(&g, limit);
	}

	return gathering_end(&g);
}

int beest_meshown_barrier(struct hartebeest_mesh *mesh)
{
	struct gathering g = gathering_of(mesh);
	size_t i;
	int ret;

	g.head.call = CALL_RESULTS + (uint32_t)mesh->passes;
	if (gathering_begin(&g, 0)) {
		for (i = 0; i < g.count; i++)
			g.known[i] = beest_view_entry(mesh->view, i).incarnation;
		g.head.incarnation = g.known[mesh->qps.own];
		contributions_exchange(&g);
	}
	ret = gathering_end(&g);
	mesh->passes += ret == 0;

	return ret;
}
