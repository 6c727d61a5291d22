/* SPDX-License-Identifier: MIT */
/* meshmark.c - see meshmark.h */
#include "config.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/core/meshmark.h"

/* A record of Memcached has 1 MB at most, and the gate carries what all ranks bring. */
#define GATE_MAX (1000 * 1000)

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

size_t beest_meshmark_list_size(const struct hartebeest_mesh *mesh)
{
	return mesh->fabric.count * sizeof(uint32_t);
}

static int list_make(struct hartebeest_mesh *mesh)
{
	size_t i;
	uint32_t number;

	if (beest_fabric_is_in_row(&mesh->fabric))
		return 0;
	mesh->list = malloc(beest_meshmark_list_size(mesh));
	if (!mesh->list)
		return beest_fail(ENOMEM, "no memory for a list of %zu queue pairs",
				  mesh->fabric.count);
	for (i = 0; i < mesh->fabric.count; i++) {
		number = htonl(mesh->fabric.qps[i]->qp_num);
		memcpy(mesh->list + i * sizeof(number), &number, sizeof(number));
	}
	mesh->body.list = beest_hash_fnv(BEEST_HASH_FNV, mesh->list, beest_meshmark_list_size(mesh)) | 1;

	return 0;
}

/* What this rank brings. */
int beest_meshmark_make(struct hartebeest_mesh *mesh)
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

/* ----------------------------------------------------------- what others brought --- */

size_t beest_meshmark_size(const struct hartebeest_mesh *mesh)
{
	return BEEST_INCARNATION_SIZE + mesh->blob_size;
}

static int mark_decode(const struct hartebeest_mesh *mesh, const uint8_t *marks, size_t i,
		       struct beest_mesh_body *body)
{
	const uint8_t *mark = marks + i * beest_meshmark_size(mesh);
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
	const uint8_t *mark = mesh->marks + i * beest_meshmark_size(mesh);
	struct beest_mesh_body then;

	return memcmp(mark, &now->endpoint.incarnation, BEEST_INCARNATION_SIZE) == 0 &&
	       beest_record_mesh_decode(mark + BEEST_INCARNATION_SIZE, mesh->blob_size,
					&then) == 0 &&
	       then.endpoint.qp_num == now->endpoint.qp_num &&
	       then.endpoint.psn == now->endpoint.psn && then.list == now->list;
}

void beest_meshmark_forget(struct beest_newcomers *new)
{
	size_t i;

	for (i = 0; i < new->count && new->lists; i++)
		free(new->lists[i]);
	free(new->lists);
	free(new->digests);
	free(new->peers);
}

int beest_meshmark_find(struct hartebeest_mesh *mesh, const uint8_t *marks,
			struct beest_newcomers *new)
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
int beest_meshmark_list(const struct hartebeest_mesh *mesh, struct beest_newcomers *new,
			size_t k, const uint8_t *bytes, size_t size)
{
	uint32_t *list;
	size_t i;

	if (size != beest_meshmark_list_size(mesh) ||
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

int beest_meshmark_connect(struct hartebeest_mesh *mesh, const uint8_t *marks,
			   struct beest_newcomers *new, const struct beest_limit *limit)
{
	int64_t begin = beest_clock_now();
	int ret;

	ret = beest_fabric_connect(&mesh->fabric, new->peers, new->count, limit,
				   &mesh->trouble.culprit);
	if (ret < 0)
		return ret;
	memcpy(mesh->marks, marks, mesh->ranks.count * beest_meshmark_size(mesh));
	mesh->replaced += new->count;
	mesh->since = beest_clock_now();
	mesh->stats.connect += mesh->since - begin;

	return 0;
}
