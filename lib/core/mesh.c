/* SPDX-License-Identifier: MIT */
/* mesh.c - see mesh.h */
#include "config.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/random.h"
#include "lib/base/sized.h"
#include "lib/core/context.h"
#include "lib/core/mesh.h"

/* A record of Memcached has 1 MB at most, and the gate carries what all ranks bring. */
#define GATE_MAX (1000 * 1000)

/* Up to so many ranks read the records of all faster than one of them could hand them out. */
#define DIRECT_MAX 64

/* Lists of numbers are asked for so long at a time. */
#define LISTS_TIME BEEST_SECOND

/* Ranks of one run start within so much: until then, who does not fit may be replaced. */
#define LEFTOVER_TIME (2 * BEEST_SECOND)

/* ---------------------------------------------------------------------- beginning --- */

static int attr_check(const struct hartebeest_mesh_attr *attr)
{
	const char *what = NULL;
	uint32_t i;
	int ret;

	ret = beest_sized_check("hartebeest_mesh_attr", 0, attr, attr->size, sizeof(*attr),
				sizeof(*attr));
	if (ret < 0)
		return ret;
	if (attr->region_count > BEEST_MESH_REGIONS)
		what = "region_count is above 64";
	else if (attr->region_count && !attr->regions)
		what = "regions is NULL";
	else if (attr->rank_count && !attr->ranks && !attr->gather)
		what = "ranks is NULL";
	else if (attr->gather && !attr->rank_count)
		what = "gather needs rank_count";
	else if (attr->gather &&
		 (attr->own_rank < 0 || (uint32_t)attr->own_rank >= attr->rank_count))
		what = "own_rank is not within rank_count";
	for (i = 1; attr->ranks && i < attr->rank_count && !what; i++)
		if (attr->ranks[i] <= attr->ranks[i - 1])
			what = "ranks are not in ascending order";

	return what ? beest_fail(EINVAL, "struct hartebeest_mesh_attr: %s", what) : 0;
}

/* The ids of those who take part, and the own one. */
static int ranks_take(struct hartebeest_mesh *mesh, const struct hartebeest_mesh_attr *attr)
{
	const struct beest_launch *launch = &mesh->hb->launch;
	size_t i, count = attr->rank_count ? attr->rank_count : launch->participants.count;

	if (!count || (!attr->gather && launch->rank < 0))
		return beest_fail(ENODATA, "a mesh needs to know its rank and the number of ranks: no "
				  "launcher said so, nor the options job.rank and "
				  "job.nparticipants");
	mesh->ranks.id = calloc(count, sizeof(*mesh->ranks.id));
	if (!mesh->ranks.id)
		return beest_fail(ENOMEM, "no memory for a mesh of %zu ranks", count);
	mesh->ranks.count = count;
	for (i = 0; i < count; i++)
		mesh->ranks.id[i] = attr->ranks ? attr->ranks[i] : attr->gather ? (int)i :
				    launch->participants.id[i];
	mesh->rank = attr->gather ? mesh->ranks.id[attr->own_rank] : launch->rank;
	if (beest_mesh_position(mesh, mesh->rank) < 0)
		return beest_fail(EINVAL, "struct hartebeest_mesh_attr: ranks do not have the own rank "
				  "%d", mesh->rank);
	mesh->fabric.ranks = &mesh->ranks;
	mesh->fabric.own = (size_t)beest_mesh_position(mesh, mesh->rank);

	return 0;
}

static int regions_find(struct hartebeest_mesh *mesh, const struct hartebeest_mesh_attr *attr)
{
	struct beest_node *node;
	uint32_t i;
	int ret = 0;

	for (i = 0; i < attr->region_count && ret == 0; i++) {
		if (!attr->regions[i])
			return beest_fail(EINVAL, "the name of region %" PRIu32 " is NULL", i);
		ret = beest_context_find(mesh->hb, &beest_mr_kind, attr->regions[i], &node);
		if (ret == 0)
			beest_handshake_region(BEEST_CONTAINER(node, struct beest_mr, node),
					       &mesh->regions[i]);
	}
	mesh->region_count = attr->region_count;

	return ret;
}

static uint64_t form_of(const struct hartebeest_mesh *mesh)
{
	uint32_t numbers[] = {
		htonl((uint32_t)mesh->ranks.count), htonl(mesh->fabric.per_peer),
		htonl((uint32_t)mesh->region_count),
		htonl((uint32_t)mesh->fabric.model->local.transport),
	};
	uint64_t form = beest_hash_fnv(BEEST_HASH_FNV, numbers, sizeof(numbers));
	uint32_t id;
	size_t i;

	for (i = 0; i < mesh->ranks.count; i++) {
		id = htonl((uint32_t)mesh->ranks.id[i]);
		form = beest_hash_fnv(form, &id, sizeof(id));
	}

	return form;
}

static size_t list_size(const struct hartebeest_mesh *mesh)
{
	return mesh->fabric.count * sizeof(uint32_t);
}

static int list_make(struct hartebeest_mesh *mesh)
{
	size_t i;
	uint32_t number;

	if (beest_fabric_is_in_row(&mesh->fabric))
		return 0;
	mesh->list = malloc(list_size(mesh));
	if (!mesh->list)
		return beest_fail(ENOMEM, "no memory for a list of %zu queue pairs",
				  mesh->fabric.count);
	for (i = 0; i < mesh->fabric.count; i++) {
		number = htonl(mesh->fabric.qps[i]->qp_num);
		memcpy(mesh->list + i * sizeof(number), &number, sizeof(number));
	}
	mesh->body.list = beest_hash_fnv(BEEST_HASH_FNV, mesh->list, list_size(mesh)) | 1;

	return 0;
}

/* What this rank brings. */
static int blob_make(struct hartebeest_mesh *mesh)
{
	size_t count = mesh->ranks.count;
	int ret;

	mesh->blob_size = beest_record_mesh_size(mesh->region_count);
	if (count * (mesh->blob_size + BEEST_INCARNATION_SIZE) > GATE_MAX && !mesh->gather)
		return beest_fail(EMSGSIZE, "%zu ranks with %zu regions each bring %zu bytes, and a "
				  "record of Memcached has 1 MB", count, mesh->region_count,
				  count * (mesh->blob_size + BEEST_INCARNATION_SIZE));
	mesh->blob = malloc(mesh->blob_size);
	mesh->marks = calloc(count, BEEST_INCARNATION_SIZE + mesh->blob_size);
	mesh->incarnations = calloc(count, sizeof(*mesh->incarnations));
	if (!mesh->blob || !mesh->marks || !mesh->incarnations)
		return beest_fail(ENOMEM, "no memory for a mesh of %zu ranks", count);
	mesh->body.endpoint = mesh->fabric.model->local.endpoint;
	mesh->body.form = form_of(mesh);
	ret = list_make(mesh);
	if (ret == 0)
		beest_record_mesh_encode(&mesh->body, mesh->regions, mesh->region_count,
					 mesh->blob);

	return ret;
}

/* ----------------------------------------------------------------- what others brought --- */

static size_t mark_size(const struct hartebeest_mesh *mesh)
{
	return BEEST_INCARNATION_SIZE + mesh->blob_size;
}

static int mark_decode(const struct hartebeest_mesh *mesh, const uint8_t *marks, size_t i,
		       struct beest_mesh_body *body)
{
	const uint8_t *mark = marks + i * mark_size(mesh);
	int ret;

	ret = beest_record_mesh_decode(mark + BEEST_INCARNATION_SIZE, mesh->blob_size, body);
	if (ret < 0)
		return beest_fail_prefix(ret, "rank %d", mesh->ranks.id[i]);
	memcpy(&body->endpoint.incarnation, mark, BEEST_INCARNATION_SIZE);
	body->endpoint.rank = mesh->ranks.id[i];
	if (body->form != mesh->body.form)
		return beest_fail(EPROTO, "rank %d and rank %d ask for different meshes: ranks, type, "
				  "qps_per_peer and region_count must be the same", mesh->rank,
				  mesh->ranks.id[i]);

	return 0;
}

/* Is it connected to that very life of it already?  A repair changes the generation alone. */
static bool is_connected(const struct hartebeest_mesh *mesh, size_t i,
			 const struct beest_mesh_body *now)
{
	const uint8_t *mark = mesh->marks + i * mark_size(mesh);
	struct beest_mesh_body then;

	return memcmp(mark, &now->endpoint.incarnation, BEEST_INCARNATION_SIZE) == 0 &&
	       beest_record_mesh_decode(mark + BEEST_INCARNATION_SIZE, mesh->blob_size,
					&then) == 0 &&
	       then.endpoint.qp_num == now->endpoint.qp_num &&
	       then.endpoint.psn == now->endpoint.psn && then.list == now->list;
}

/* Those who have to be connected, and the digests of their lists. */
struct newcomers {
	struct beest_fabric_peer *peers;
	uint64_t *digests;
	uint32_t **lists;		/* NULL: not known yet */
	size_t count;
};

static void newcomers_free(struct newcomers *new)
{
	size_t i;

	for (i = 0; i < new->count && new->lists; i++)
		free(new->lists[i]);
	free(new->lists);
	free(new->digests);
	free(new->peers);
}

static int newcomers_find(struct hartebeest_mesh *mesh, const uint8_t *marks,
			  struct newcomers *new)
{
	size_t i, count = mesh->ranks.count;
	struct beest_mesh_body body;
	int ret = 0;

	memset(new, 0, sizeof(*new));
	new->peers = calloc(count, sizeof(*new->peers));
	new->digests = calloc(count, sizeof(*new->digests));
	new->lists = calloc(count, sizeof(*new->lists));
	if (!new->peers || !new->digests || !new->lists)
		return beest_fail(ENOMEM, "no memory for the ends of %zu ranks", count);
	for (i = 0; i < count && ret == 0; i++) {
		if (i == mesh->fabric.own)
			continue;
		mesh->trouble.culprit = i;
		ret = mark_decode(mesh, marks, i, &body);
		if (ret < 0 || is_connected(mesh, i, &body))
			continue;
		new->peers[new->count].position = i;
		new->peers[new->count].endpoint = body.endpoint;
		new->digests[new->count++] = body.list;
	}

	return ret;
}

/* 1: these bytes are the list that the rank has told the digest of. */
static int list_take(const struct hartebeest_mesh *mesh, struct newcomers *new, size_t k,
		     const uint8_t *bytes, size_t size)
{
	uint32_t *list;
	size_t i;

	if (size != list_size(mesh) ||
	    (beest_hash_fnv(BEEST_HASH_FNV, bytes, size) | 1) != new->digests[k])
		return 0;
	list = malloc(size);
	if (!list)
		return beest_fail(ENOMEM, "no memory for a list of queue pairs");
	memcpy(list, bytes, size);
	for (i = 0; i < mesh->fabric.count; i++)
		list[i] = ntohl(list[i]);
	new->peers[k].list = new->lists[k] = list;

	return 1;
}

static int newcomers_connect(struct hartebeest_mesh *mesh, const uint8_t *marks,
			     struct newcomers *new, const struct beest_limit *limit)
{
	int64_t begin = beest_clock_now();
	int ret;

	ret = beest_fabric_connect(&mesh->fabric, new->peers, new->count, limit,
				   &mesh->trouble.culprit);
	if (ret < 0)
		return ret;
	memcpy(mesh->marks, marks, mesh->ranks.count * mark_size(mesh));
	mesh->replaced += new->count;
	mesh->since = beest_clock_now();
	mesh->stats.connect += mesh->since - begin;

	return 0;
}

/* ------------------------------------------------------------------- by the servers --- */

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
		.size = list_size(mesh),
	};
	int ret;

	if (!mesh->list)
		return 0;
	ret = list_key(gather, mesh->rank, key);

	return ret < 0 ? ret : beest_registry_put(gather->registry, &record);
}

static int lists_judge(const struct bringup *bringup, struct newcomers *new,
		       const struct beest_look_want *wants, const size_t *of, size_t count)
{
	struct beest_record record;
	size_t i;
	int ret = 1;

	for (i = 0; i < count && ret > 0; i++) {
		ret = 0;
		if (wants[i].value.bytes &&
		    beest_record_decode(wants[i].value.bytes, wants[i].value.size,
					BEEST_KIND_BARRIER, wants[i].key, &record) == 0)
			ret = list_take(bringup->mesh, new, of[i], record.body, record.size);
	}

	return ret;
}

/* 1: all lists are there; 0: not yet. */
static int lists_fetch(const struct bringup *bringup, struct newcomers *new)
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

	memcpy(&incarnation, marks + mesh->trouble.culprit * mark_size(mesh),
	       sizeof(incarnation));
	beest_presence_query(bringup->gather.registry, &query, 1,
			     beest_clock_deadline(LISTS_TIME));

	return query.ret > 0 && query.body.state == BEEST_RANK_ALIVE;
}

/* -EAGAIN: what came to grief may change yet. */
static int roll_failed(struct bringup *bringup, const uint8_t *marks, uint64_t digest, int ret)
{
	struct beest_mesh_trouble *trouble = &bringup->mesh->trouble;
	int64_t now = beest_clock_now();

	if (!trouble->ret)
		trouble->since = now;
	trouble->ret = ret;
	trouble->marks = digest;
	snprintf(trouble->why, sizeof(trouble->why), "%s", beest_error_text());
	if (now - trouble->since < LEFTOVER_TIME)
		return -EAGAIN;
	trouble->since = now;

	return culprit_lives(bringup, marks) ? beest_fail(-ret, "%s", trouble->why) : -EAGAIN;
}

static int roll_take(struct bringup *bringup, const uint8_t *marks)
{
	struct newcomers new;
	int ret;

	ret = newcomers_find(bringup->mesh, marks, &new);
	if (ret == 0)
		ret = lists_fetch(bringup, &new);
	if (ret > 0)
		ret = newcomers_connect(bringup->mesh, marks, &new, bringup->gather.limit);
	else if (ret == 0)
		ret = -EAGAIN;
	newcomers_free(&new);

	return ret;
}

static int roll_called(void *data, const uint8_t *marks)
{
	struct bringup *bringup = data;
	struct hartebeest_mesh *mesh = bringup->mesh;
	uint64_t digest = beest_hash_fnv(BEEST_HASH_FNV, marks,
					 mesh->ranks.count * mark_size(mesh));
	int ret;

	if (mesh->trouble.ret && mesh->trouble.marks == digest &&
	    beest_clock_now() - mesh->trouble.since < LEFTOVER_TIME)
		return -EAGAIN;
	mesh->stats.exchange = beest_clock_now() - mesh->began - mesh->stats.connect;
	ret = roll_take(bringup, marks);
	if (ret < 0 && ret != -EAGAIN)
		return roll_failed(bringup, marks, digest, ret);
	if (ret == 0)
		mesh->trouble.ret = 0;

	return ret;
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

static int bringup_by_servers(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
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
	gather->called = roll_called;
	gather->data = &bringup;
	ret = list_put(mesh, gather);
	if (ret == 0)
		ret = beest_gather_run(gather);
	if (ret == -ETIMEDOUT && mesh->trouble.ret)
		ret = beest_fail(-mesh->trouble.ret, "%s", mesh->trouble.why);
	for (i = 0; i < mesh->ranks.count && ret == 0; i++)
		memcpy(&mesh->incarnations[i], gather->marks + i * mark_size(mesh),
		       BEEST_INCARNATION_SIZE);
	free(gather->marks);
	mesh->digest = gather->digest;

	return ret;
}

/* ------------------------------------------------------ by the program's own exchange --- */

/*
 * What each rank says of itself: it always takes part, and says so when it has failed, since
 * nobody may hang in the program's exchange.
 */
struct status {
	uint32_t error;
	uint32_t listed;		/* this rank has a list */
	uint64_t form;
};

/* All ranks' words; 1: somebody has a list. */
static int status_gather(struct hartebeest_mesh *mesh, int failed)
{
	struct status own = {
		.error = (uint32_t)-failed, .listed = mesh->list != NULL, .form = mesh->body.form,
	};
	struct status *all = calloc(mesh->ranks.count, sizeof(*all));
	bool listed = false;
	size_t i;
	int ret;

	if (!all)
		return beest_fail(ENOMEM, "no memory to ask %zu ranks", mesh->ranks.count);
	ret = mesh->gather(mesh->gather_data, &own, all, sizeof(own));
	if (ret < 0)
		ret = beest_fail(-ret, "the program's gather function failed: %s", strerror(-ret));
	for (i = 0; i < mesh->ranks.count && ret == 0; i++) {
		listed |= all[i].listed;
		if (all[i].error && i != mesh->fabric.own)
			ret = beest_fail(ECONNABORTED, "rank %d has failed: %s", mesh->ranks.id[i],
					 strerror((int)all[i].error));
		else if (!failed && all[i].form != own.form)
			ret = beest_fail(EPROTO, "rank %d and rank %d ask for different meshes: ranks, "
					 "type, qps_per_peer and region_count must be the same",
					 mesh->rank, mesh->ranks.id[i]);
	}
	free(all);

	return ret < 0 ? ret : listed;
}

/* The bytes of each rank: its mark, and where @listed its list or nothing in its place. */
static int marks_gather(struct hartebeest_mesh *mesh, bool listed, uint8_t **all, size_t *step)
{
	uint8_t *own;
	int ret;

	*step = mark_size(mesh) + (listed ? list_size(mesh) : 0);
	*all = calloc(mesh->ranks.count + 1, *step);
	if (!*all)
		return beest_fail(ENOMEM, "no memory for what %zu ranks bring", mesh->ranks.count);
	own = *all + mesh->ranks.count * *step;
	memcpy(own, &mesh->incarnation, BEEST_INCARNATION_SIZE);
	memcpy(own + BEEST_INCARNATION_SIZE, mesh->blob, mesh->blob_size);
	if (mesh->list)
		memcpy(own + mark_size(mesh), mesh->list, list_size(mesh));
	ret = mesh->gather(mesh->gather_data, own, *all, *step);

	return ret < 0 ? beest_fail(-ret, "the program's gather function failed: %s",
				    strerror(-ret)) : 0;
}

static int gathered_connect(struct hartebeest_mesh *mesh, const uint8_t *all, size_t step,
			    const struct beest_limit *limit)
{
	uint8_t *marks = malloc(mesh->ranks.count * mark_size(mesh));
	struct newcomers new;
	size_t i;
	int ret;

	if (!marks)
		return beest_fail(ENOMEM, "no memory for a mesh of %zu ranks", mesh->ranks.count);
	for (i = 0; i < mesh->ranks.count; i++)
		memcpy(marks + i * mark_size(mesh), all + i * step, mark_size(mesh));
	ret = newcomers_find(mesh, marks, &new);
	for (i = 0; i < new.count && ret >= 0; i++)
		if (new.digests[i]) {
			ret = list_take(mesh, &new, i, all + new.peers[i].position * step +
					mark_size(mesh), step - mark_size(mesh));
			if (ret == 0)
				ret = beest_fail(EBADMSG, "the list of rank %d is damaged",
						 new.peers[i].endpoint.rank);
		}
	if (ret >= 0)
		ret = newcomers_connect(mesh, marks, &new, limit);
	newcomers_free(&new);
	free(marks);

	return ret;
}

/* @failed: this rank's queue pairs could not be made. */
static int bringup_by_gather(struct hartebeest_mesh *mesh, int failed, const struct beest_limit *limit)
{
	char sentence[BEEST_ERROR_SIZE];
	uint8_t *all = NULL;
	size_t step = 0;
	int ret, listed;

	snprintf(sentence, sizeof(sentence), "%s", beest_error_text());
	listed = status_gather(mesh, failed);
	if (failed < 0)
		return beest_fail(-failed, "%s", sentence);
	if (listed < 0)
		return listed;
	ret = marks_gather(mesh, listed, &all, &step);
	mesh->stats.exchange = beest_clock_now() - mesh->began;
	if (ret == 0)
		ret = gathered_connect(mesh, all, step, limit);
	free(all);
	snprintf(sentence, sizeof(sentence), "%s", beest_error_text());
	listed = status_gather(mesh, ret);
	if (ret < 0)
		return beest_fail(-ret, "%s", sentence);

	return listed < 0 ? listed : 0;
}

/* --------------------------------------------------------------------- the whole --- */

static int mesh_destroy(struct beest_node *node)
{
	struct hartebeest_mesh *mesh = BEEST_CONTAINER(node, struct hartebeest_mesh, node);

	beest_fabric_end(&mesh->fabric);
	free(mesh->ranks.id);
	free(mesh->blob);
	free(mesh->list);
	free(mesh->marks);
	free(mesh->incarnations);
	free(mesh);

	return 0;
}

const struct beest_kind beest_mesh_kind = { "mesh", mesh_destroy };

static int mesh_make(struct hartebeest_mesh *mesh, const struct hartebeest_mesh_attr *attr)
{
	int ret;

	ret = regions_find(mesh, attr);
	if (ret == 0)
		ret = beest_fabric_make(&mesh->fabric, attr);
	if (ret == 0)
		ret = blob_make(mesh);
	mesh->began = mesh->since = beest_clock_now();

	return ret;
}

static int mesh_bringup(struct hartebeest_mesh *mesh, const struct hartebeest_mesh_attr *attr,
			const struct beest_limit *limit)
{
	int64_t begin = beest_clock_now();
	int ret;

	ret = mesh_make(mesh, attr);
	mesh->stats.create = mesh->began - begin;
	if (mesh->gather) {
		if (ret == 0)
			ret = beest_random(&mesh->incarnation, sizeof(mesh->incarnation));
		ret = bringup_by_gather(mesh, ret, limit);
	} else if (ret == 0) {
		ret = bringup_by_servers(mesh, limit);
	}
	mesh->stats.confirm = beest_clock_now() - mesh->since;
	mesh->stats.total = beest_clock_now() - begin;
	mesh->stats.qps = mesh->fabric.count;
	mesh->stats.bytes = mesh->blob_size + (mesh->list ? list_size(mesh) : 0);

	return ret;
}

static int mesh_open(struct hartebeest_context *hb, const char *name,
		     const struct hartebeest_mesh_attr *attr, struct hartebeest_mesh **meshp)
{
	struct hartebeest_mesh *mesh;
	int ret;

	ret = attr_check(attr);
	if (ret == 0)
		ret = beest_context_name_available(hb, &beest_mesh_kind, name);
	if (ret < 0)
		return ret;
	mesh = calloc(1, sizeof(*mesh));
	if (!mesh)
		return beest_fail(ENOMEM, "no memory for a mesh");
	mesh->hb = mesh->fabric.hb = hb;
	mesh->fabric.name = name;
	mesh->gather = attr->gather;
	mesh->gather_data = attr->gather_data;
	*meshp = mesh;
	ret = ranks_take(mesh, attr);
	if (ret == 0 && snprintf(mesh->key_name, sizeof(mesh->key_name), "mesh/%s", name) >=
			(int)sizeof(mesh->key_name))
		ret = beest_fail(ENAMETOOLONG, "the name '%s' is too long for a key", name);
	if (ret < 0)
		mesh_destroy(&mesh->node);

	return ret;
}

int beest_mesh_connect(struct hartebeest_context *hb, const char *name,
		       const struct hartebeest_mesh_attr *attr, struct hartebeest_mesh **meshp,
		       const struct beest_limit *limit)
{
	struct hartebeest_mesh_attr preset;
	struct hartebeest_mesh *mesh = NULL;
	int ret;

	hartebeest_mesh_attr_preset(&preset);
	ret = mesh_open(hb, name, attr ? attr : &preset, &mesh);
	if (ret == 0) {
		ret = mesh_bringup(mesh, attr ? attr : &preset, limit);
		if (ret < 0)
			mesh_destroy(&mesh->node);
	}
	if (ret < 0)
		return beest_fail_prefix(ret, "mesh '%s'", name);

	ret = beest_context_add(hb, &beest_mesh_kind, name, &mesh->node);
	if (ret < 0)
		return ret;
	mesh->fabric.name = mesh->node.name;
	mesh->fabric.model->node.name = mesh->node.name;
	*meshp = mesh;

	return 0;
}

int beest_mesh_barrier(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
{
	struct beest_registry *registry;
	struct beest_gather gather;
	int ret;

	if (mesh->gather) {
		ret = status_gather(mesh, 0);
		return ret < 0 ? beest_fail_prefix(ret, "mesh '%s'", mesh->node.name) : 0;
	}
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
	if (ret < 0)
		return beest_fail_prefix(ret, "mesh '%s', barrier %" PRIu64, mesh->node.name,
					 gather.pass);
	mesh->passes++;

	return 0;
}

int beest_mesh_repair(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
{
	int ret;

	if (mesh->gather)
		return beest_fail(EOPNOTSUPP, "mesh '%s' was made by the program's own exchange and "
				  "cannot be repaired", mesh->node.name);
	/* No gate of before has this generation, so nobody passes by one. */
	mesh->body.endpoint.generation++;
	beest_record_mesh_encode(&mesh->body, mesh->regions, mesh->region_count, mesh->blob);
	memset(&mesh->roll, 0, sizeof(mesh->roll));
	mesh->roll.added = true;
	mesh->replaced = 0;
	mesh->began = mesh->since = beest_clock_now();
	ret = bringup_by_servers(mesh, limit);
	if (ret < 0)
		return beest_fail_prefix(ret, "mesh '%s'", mesh->node.name);
	mesh->passes = 0;
	memset(&mesh->state, 0, sizeof(mesh->state));

	return (int)mesh->replaced;
}

int beest_mesh_position(const struct hartebeest_mesh *mesh, int rank)
{
	size_t low = 0, high = mesh->ranks.count, middle;

	while (low < high) {
		middle = low + (high - low) / 2;
		if (mesh->ranks.id[middle] == rank)
			return (int)middle;
		if (mesh->ranks.id[middle] < rank)
			low = middle + 1;
		else
			high = middle;
	}

	return -ENOENT;
}

int beest_mesh_region(const struct hartebeest_mesh *mesh, int rank, int index,
		      struct beest_region *region)
{
	int position = beest_mesh_position(mesh, rank);

	if (position < 0 || index < 0 || (size_t)index >= mesh->region_count)
		return beest_fail(ENOENT, "mesh '%s' has no region %d of rank %d", mesh->node.name,
				  index, rank);
	beest_record_mesh_region(mesh->marks + (size_t)position * mark_size(mesh) +
				 BEEST_INCARNATION_SIZE, (size_t)index, region);

	return 0;
}

int beest_mesh_address(const struct hartebeest_mesh *mesh, int rank,
		       struct hartebeest_address *address)
{
	const struct beest_ud_peer *found;
	char key[24];
	int ret;

	if (mesh->fabric.model->local.transport != BEEST_UD)
		return beest_fail(EOPNOTSUPP, "mesh '%s' is not of UD: hartebeest_mesh_qp() has a queue "
				  "pair for each rank", mesh->node.name);
	snprintf(key, sizeof(key), "rank %d", rank);
	ret = beest_qp_address(mesh->fabric.model, key, &found);
	if (ret < 0)
		return beest_fail(ENOENT, "mesh '%s' has no rank %d", mesh->node.name, rank);
	memset(address, 0, sizeof(*address));
	address->ah = found->ah;
	address->qp_num = found->remote.qp_num;
	address->qkey = found->remote.qkey;

	return 0;
}
