/* SPDX-License-Identifier: MIT */
/* meshroll.c - see meshroll.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/macro.h"
#include "lib/base/text.h"
#include "lib/core/context.h"
#include "lib/core/meshmark.h"
#include "lib/core/meshroll.h"

/* Up to so many ranks read the records of all faster than one of them could hand them out. */
#define DIRECT_MAX 16

/* Lists of numbers are asked for so long at a time. */
#define LISTS_TIME BEEST_SECOND

/* Ranks of one run start within so much: until then, who does not fit may be replaced. */
#define LEFTOVER_TIME (2 * BEEST_SECOND)

/* One bring-up by the servers. */
struct bringup {
	struct hartebeest_mesh *mesh;
	struct beest_gather gather;
};

static int list_key(const struct beest_gather *gather, int rank, char key[BEEST_KEY_MAX + 1])
{
	char last[24];

	snprintf(last, sizeof(last), "list.%d", rank);

	return beest_gather_key(gather, last, key);
}

static int list_put(const struct hartebeest_mesh *mesh, const struct beest_gather *gather)
{
	char key[BEEST_KEY_MAX + 1];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_BARRIER, .key = key, .body = mesh->list,
		.size = mesh->list_size,
	};
	int ret;

	if (!mesh->list)
		return 0;
	ret = list_key(gather, mesh->rank, key);

	return ret < 0 ? ret : beest_registry_put(gather->registry, &record);
}

static int lists_judge(const struct bringup *bringup, struct beest_newcomers *new,
		       const struct beest_look_want *wants, const size_t *of, size_t count)
{
	struct beest_record record;
	size_t i;
	int ret = 1;

	for (i = 0; i < count && ret > 0; i++) {
		ret = 0;
		if (wants[i].value.bytes &&
		    beest_record_decode(bringup->gather.registry->seal, wants[i].value.bytes,
					wants[i].value.size, BEEST_KIND_BARRIER, wants[i].key,
					&record) == 0)
			ret = beest_meshmark_list(bringup->mesh, new, of[i], record.body, record.size);
	}

	return ret;
}

static bool lists_matter(const struct beest_newcomers *new)
{
	size_t i;

	for (i = 0; i < new->count; i++)
		if (new->digests[i])
			return true;

	return false;
}

/* 1: all lists are there; 0: not yet. */
static int lists_fetch(const struct bringup *bringup, struct beest_newcomers *new)
{
	char (*keys)[BEEST_KEY_MAX + 1] = calloc(new->count + 1, sizeof(*keys));
	size_t *of = calloc(new->count + 1, sizeof(*of));
	struct beest_look look = { .deadline = beest_clock_deadline(LISTS_TIME) };
	size_t i;
	int ret = 1;

	look.wants = calloc(new->count + 1, sizeof(*look.wants));
	if (!keys || !of || !look.wants)
		ret = beest_fail(ENOMEM, "no memory for the lists of %zu ranks", new->count);
	for (i = 0; i < new->count && ret > 0; i++) {
		if (!new->digests[i])
			continue;
		ret = list_key(&bringup->gather, new->peers[i].endpoint.rank, keys[look.count]);
		look.wants[look.count].key = keys[look.count];
		look.wants[look.count].server = beest_kv_server_of(bringup->gather.registry->kv,
								   keys[look.count]);
		of[look.count++] = i;
		ret = ret < 0 ? ret : 1;
	}
	if (ret > 0 && look.count) {
		ret = beest_look_take(bringup->gather.registry, &look);
		ret = ret < 0 ? 0 : lists_judge(bringup, new, look.wants, of, look.count);
		beest_look_free(look.wants, look.count);
	}
	free(look.wants);
	free(of);
	free(keys);

	return ret;
}

/* Does the one who does not fit live, and not make way for another process? */
static bool culprit_lives(const struct bringup *bringup, const uint8_t *marks)
{
	const struct hartebeest_mesh *mesh = bringup->mesh;
	struct beest_incarnation incarnation;
	struct beest_presence_query query = {
		.rank = mesh->ranks.id[mesh->trouble.culprit], .incarnation = &incarnation,
	};

	memcpy(&incarnation, marks + mesh->trouble.culprit * beest_meshmark_size(mesh),
	       sizeof(incarnation));
	beest_presence_query(bringup->gather.registry, &query, 1,
			     beest_clock_deadline(LISTS_TIME));

	return query.ret > 0 && query.body.state == BEEST_RANK_ALIVE;
}

static uint64_t brought_digest(const struct hartebeest_mesh *mesh, const uint8_t *marks)
{
	return beest_hash_fnv(BEEST_HASH_FNV, marks, mesh->ranks.count * beest_meshmark_size(mesh));
}

/* -EAGAIN: what came to grief may change yet. */
static int meshroll_failed(struct bringup *bringup, const uint8_t *marks, int ret)
{
	struct beest_mesh_trouble *trouble = &bringup->mesh->trouble;
	int64_t now = beest_clock_now();

	if (!trouble->ret)
		trouble->since = now;
	trouble->ret = ret;
	trouble->marks = brought_digest(bringup->mesh, marks);
	snprintf(trouble->why, sizeof(trouble->why), "%s", beest_error_text());
	if (now - trouble->since < LEFTOVER_TIME)
		return -EAGAIN;
	trouble->since = now;

	return culprit_lives(bringup, marks) ? beest_fail(-ret, "%s", trouble->why) : -EAGAIN;
}

static int meshroll_take(struct bringup *bringup, const uint8_t *marks)
{
	struct beest_newcomers new;
	int ret;

	ret = beest_meshmark_find(bringup->mesh, marks, &new);
	if (ret == 0)
		ret = lists_matter(&new) ? lists_fetch(bringup, &new) : 1;
	if (ret > 0)
		ret = beest_meshmark_connect(bringup->mesh, marks, &new, bringup->gather.limit);
	else if (ret == 0)
		ret = -EAGAIN;
	beest_meshmark_forget(&new);

	return ret;
}

static int meshroll_called(void *data, const uint8_t *marks)
{
	struct bringup *bringup = data;
	struct hartebeest_mesh *mesh = bringup->mesh;
	int ret;

	if (mesh->trouble.ret && beest_clock_now() - mesh->trouble.since < LEFTOVER_TIME &&
	    mesh->trouble.marks == brought_digest(mesh, marks))
		return -EAGAIN;
	mesh->stats.exchange = beest_clock_now() - mesh->began - mesh->stats.connect;
	ret = meshroll_take(bringup, marks);
	if (ret < 0 && ret != -EAGAIN)
		return meshroll_failed(bringup, marks, ret);
	if (ret == 0)
		mesh->trouble.ret = 0;

	return ret;
}

#define NAMED_MAX 8

static void meshroll_progress(void *data, bool known, const int *missing, size_t count)
{
	const struct hartebeest_mesh *mesh = ((struct bringup *)data)->mesh;
	struct beest_text text;
	char said[200];
	size_t i;

	beest_text_start(&text, said, sizeof(said));
	beest_text_add(&text, "%zu of %zu are %s; missing: ", mesh->ranks.count - count,
		       mesh->ranks.count, known ? "connected" : "here");
	for (i = 0; i < BEEST_MIN(count, NAMED_MAX); i++)
		beest_text_add(&text, "%s%d", i ? ", " : "", missing[i]);
	if (count > NAMED_MAX)
		beest_text_add(&text, " and %zu more", count - NAMED_MAX);
	mesh->progress(mesh->progress_data, said);
}

static void gather_fill(const struct hartebeest_mesh *mesh, struct beest_registry *registry,
			const struct beest_limit *limit, struct beest_gather *gather)
{
	memset(gather, 0, sizeof(*gather));
	gather->registry = registry;
	gather->ranks = &mesh->ranks;
	gather->rank = mesh->rank;
	gather->name = mesh->key_name;
	gather->limit = limit;
}

int beest_meshroll_bringup(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
{
	struct bringup bringup = { .mesh = mesh };
	struct beest_gather *gather = &bringup.gather;
	struct beest_registry *registry;
	size_t i;
	int ret;

	ret = beest_context_registry(mesh->hb, &registry);
	if (ret < 0)
		return ret;
	gather_fill(mesh, registry, limit, gather);
	mesh->incarnation = *beest_registry_incarnation(registry);
	gather->state = &mesh->roll;
	gather->blob = mesh->blob;
	gather->blob_size = mesh->blob_size;
	gather->direct = mesh->ranks.count <= DIRECT_MAX;
	gather->called = meshroll_called;
	gather->progress = mesh->progress ? meshroll_progress : NULL;
	gather->data = &bringup;
	ret = list_put(mesh, gather);
	if (ret == 0)
		ret = beest_gather_run(gather);
	if (ret == -ETIMEDOUT && mesh->trouble.ret)
		ret = beest_fail(-mesh->trouble.ret, "%s", mesh->trouble.why);
	for (i = 0; i < mesh->ranks.count && ret == 0; i++)
		memcpy(&mesh->incarnations[i], gather->marks + i * beest_meshmark_size(mesh),
		       BEEST_INCARNATION_SIZE);
	free(gather->marks);
	mesh->digest = gather->digest;

	return ret;
}

int beest_meshroll_barrier(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
{
	struct beest_registry *registry;
	struct beest_gather gather;
	int ret;

	ret = beest_context_registry(mesh->hb, &registry);
	if (ret < 0)
		return ret;
	gather_fill(mesh, registry, limit, &gather);
	gather.run = mesh->digest;
	gather.roll = mesh->key_name;
	gather.expected = mesh->incarnations;
	gather.pass = mesh->passes + 1;
	gather.state = &mesh->state;
	ret = beest_gather_run(&gather);
	if (ret == 0)
		mesh->passes++;

	return ret;
}
