/* SPDX-License-Identifier: MIT */
/* mesh.c - see mesh.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/core/context.h"
#include "lib/core/contribution.h"
#include "lib/core/handshake.h"
#include "lib/core/mesh.h"
#include "lib/core/meshfence.h"
#include "lib/core/meshown.h"
#include "lib/core/meshphase.h"
#include "lib/verbs/retry.h"

/* ---------------------------------------------------------------------- beginning --- */

static int attr_check(const struct hartebeest_mesh_attr *attr)
{
	const char *what = NULL;
	uint32_t i;

	if (attr->region_count > BEEST_MESH_REGIONS)
		what = "region_count is above 64";
	else if (attr->region_count && !attr->regions)
		what = "regions is NULL";
	else if (attr->rank_count && !attr->ranks && !attr->gather)
		what = "ranks is NULL";
	else if (attr->peer_count && !attr->peers)
		what = "peers is NULL";
	else if (attr->gather && !attr->rank_count)
		what = "gather needs rank_count";
	else if (attr->ranks && !attr->rank_count)
		what = "rank_count is 0";
	for (i = 1; attr->ranks && i < attr->rank_count && !what; i++)
		if (attr->ranks[i] <= attr->ranks[i - 1])
			what = "ranks are not in ascending order";

	return what ? beest_fail(EINVAL, "struct hartebeest_mesh_attr: %s", what) : 0;
}

/* Takes the ids of all ranks, and finds the id and the position of this one. */
static int ranks_take(struct hartebeest_mesh *mesh)
{
	const struct hartebeest_mesh_attr *attr = &mesh->qps.attr;
	const struct beest_launch *launch = &mesh->qps.hb->launch;
	size_t i, count = attr->rank_count ? attr->rank_count : launch->participants.count;

	if (!count || (!attr->gather && launch->rank < 0))
		return beest_fail(ENODATA, "the %s not known: set HARTEBEEST_%s, or start the "
				  "program with hartebeest run, srun or mpirun", count ?
				  "rank of this process is" : "number of ranks is", count ? "NID" :
				  "PARTICIPANTS");
	if (!attr->gather && beest_launch_check(launch) < 0)
		return -ENODATA;
	mesh->ranks.id = calloc(count, sizeof(*mesh->ranks.id));
	if (!mesh->ranks.id)
		return beest_fail(ENOMEM, "no memory for a mesh of %zu ranks", count);
	mesh->ranks.count = count;
	for (i = 0; i < count; i++)
		mesh->ranks.id[i] = attr->ranks ? attr->ranks[i] : attr->gather ? (int)i :
				    launch->participants.id[i];
	mesh->rank = attr->gather ? attr->own_rank : launch->rank;
	if (beest_parse_ids_position(&mesh->ranks, mesh->rank) < 0)
		return beest_fail(EINVAL, "struct hartebeest_mesh_attr: ranks do not include rank "
				  "%d, this process", mesh->rank);
	mesh->qps.ranks = &mesh->ranks;
	mesh->qps.own = (size_t)beest_parse_ids_position(&mesh->ranks, mesh->rank);

	return 0;
}

/* Takes the positions of the peers, where this rank does not connect to all. */
static int peers_take(struct hartebeest_mesh *mesh)
{
	const struct hartebeest_mesh_attr *attr = &mesh->qps.attr;
	size_t *peers = attr->peers ? calloc(attr->peer_count + 1, sizeof(*peers)) : NULL;
	uint32_t i;
	int position;

	mesh->qps.peers = peers;
	mesh->qps.peer_count = attr->peer_count;
	if (attr->peers && !peers)
		return beest_fail(ENOMEM, "no memory for %" PRIu32 " peers", attr->peer_count);
	for (i = 0; i < attr->peer_count; i++) {
		position = beest_parse_ids_position(&mesh->ranks, attr->peers[i]);
		if (position < 0 || position == (int)mesh->qps.own)
			return beest_fail(EINVAL, "struct hartebeest_mesh_attr: peers name rank %"
					  PRId32 ", which is %s", attr->peers[i], position < 0 ?
					  "not in the mesh" : "this process");
		peers[i] = (size_t)position;
		if (i && peers[i] <= peers[i - 1])
			return beest_fail(EINVAL, "struct hartebeest_mesh_attr: peers are not in "
					  "ascending order");
	}

	return 0;
}

/* Queue pairs only reach regions of their own protection domain. */
static int regions_find(struct hartebeest_mesh *mesh)
{
	const struct hartebeest_mesh_attr *attr = &mesh->qps.attr;
	struct ibv_pd *pd = NULL;
	struct beest_mr *mr;
	uint32_t i;
	int ret = 0;

	if (attr->pd)
		ret = beest_context_find_pd(mesh->qps.hb, attr->pd, &pd);
	for (i = 0; i < attr->region_count && ret == 0; i++) {
		if (!attr->regions[i])
			return beest_fail(EINVAL, "the name of region %" PRIu32 " is NULL", i);
		ret = beest_context_find_mr(mesh->qps.hb, attr->regions[i], &mr);
		if (ret == 0 && mr->mr->pd != pd)
			return beest_fail(EINVAL, "struct hartebeest_mesh_attr: pd does not name "
					  "the protection domain of region '%s'", attr->regions[i]);
		if (ret == 0)
			beest_handshake_region(mr, &mesh->regions[i]);
	}

	return ret;
}

/* ---------------------------------------------------------------------- the whole --- */

/* A fence stays when its mesh is closed: another mesh of that name continues it. */
struct name {
	struct beest_node node;
	struct beest_fence fence;
};

static void name_dispose(struct beest_node *node)
{
	beest_fence_end(&BEEST_CONTAINER(node, struct name, node)->fence);
}

static const struct beest_kind name_kind = {
	.noun = "name of a mesh", .size = sizeof(struct name), .dispose = name_dispose,
};

static int fence_obtain(struct hartebeest_mesh *mesh)
{
	struct beest_node *node;
	int ret = beest_table_obtain(&mesh->qps.hb->objects, &name_kind, mesh->key_name, &node);

	if (ret < 0)
		return ret;
	mesh->fence = &BEEST_CONTAINER(node, struct name, node)->fence;
	beest_fence_abandon(mesh->fence);

	return 0;
}

static void mesh_dispose(struct beest_node *node)
{
	struct hartebeest_mesh *mesh = BEEST_CONTAINER(node, struct hartebeest_mesh, node);

	beest_meshqps_end(&mesh->qps);
	free(mesh->ranks.id);
	free(mesh->value);
	beest_view_free(mesh->view);
	beest_view_free(mesh->complete);
}

const struct beest_kind beest_mesh_kind = {
	.noun = "mesh", .size = sizeof(struct hartebeest_mesh), .dispose = mesh_dispose,
};

static int mesh_make(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
{
	int ret;

	ret = regions_find(mesh);
	if (ret == 0)
		ret = beest_meshqps_make(&mesh->qps, limit);
	if (ret == 0)
		do
			ret = beest_contribution_make(mesh);
		while (beest_retry(&ret, limit, &mesh->qps.hb->log));

	return ret;
}

static int mesh_bringup(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
{
	int ret;

	beest_meshphase_enter(mesh, &mesh->stats.create);
	ret = mesh_make(mesh, limit);
	if (mesh->qps.attr.gather)
		ret = beest_meshown_bringup(mesh, ret, limit);
	else if (ret == 0)
		ret = beest_meshfence_bringup(mesh, limit);
	else
		ret = beest_meshfence_refuse(mesh, ret, limit);
	beest_meshphase_enter(mesh, NULL);

	return ret;
}

static int mesh_open(struct hartebeest_context *hb, const char *name,
		     const struct hartebeest_mesh_attr *attr, struct hartebeest_mesh **meshp)
{
	struct hartebeest_mesh *mesh;
	int ret;

	ret = attr_check(attr);
	if (ret == 0)
		ret = beest_table_name_available(&hb->objects, &beest_mesh_kind, name);
	if (ret < 0)
		return ret;
	mesh = beest_table_new(&beest_mesh_kind);
	if (!mesh)
		return -ENOMEM;
	mesh->qps.hb = hb;
	mesh->qps.name = name;
	mesh->qps.attr = *attr;
	*meshp = mesh;
	ret = ranks_take(mesh);
	if (ret == 0)
		ret = peers_take(mesh);
	if (ret == 0 && snprintf(mesh->key_name, sizeof(mesh->key_name), "mesh/%s", name) >=
			(int)sizeof(mesh->key_name))
		ret = beest_fail(ENAMETOOLONG, "the name '%s' is too long for a key", name);
	if (ret == 0)
		ret = fence_obtain(mesh);
	if (ret < 0)
		beest_table_free(&mesh->node);

	return ret;
}

int beest_mesh_connect(struct hartebeest_context *hb, const char *name,
		       const struct hartebeest_mesh_attr *attr, struct hartebeest_mesh **meshp,
		       const struct beest_limit *limit)
{
	struct hartebeest_mesh_attr own;
	struct hartebeest_mesh *mesh = NULL;
	int ret = 0;

	hartebeest_mesh_attr_init(&own);
	if (attr)
		ret = BEEST_SIZED_COPY(mesh_attr, attr, &own, progress_data);
	if (ret == 0)
		ret = mesh_open(hb, name, &own, &mesh);
	if (ret == 0) {
		ret = mesh_bringup(mesh, limit);
		if (ret < 0)
			beest_table_free(&mesh->node);
	} else if (own.gather && own.rank_count) {
		ret = beest_meshown_refuse(&own, ret);
	}
	if (ret < 0)
		return beest_fail_prefix(ret, "mesh '%s'", name);

	ret = beest_table_add(&hb->objects, name, &mesh->node);
	if (ret < 0)
		return ret;
	mesh->qps.name = mesh->node.name;
	mesh->qps.model->node.name = mesh->node.name;
	*meshp = mesh;

	return 0;
}

int beest_mesh_barrier(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
{
	int ret = mesh->qps.attr.gather ? beest_meshown_barrier(mesh) :
					  beest_meshfence_barrier(mesh, limit);

	return ret < 0 ? beest_fail_prefix(ret, "mesh '%s', barrier %" PRIu64, mesh->node.name,
					   mesh->passes + 1) : 0;
}

int beest_mesh_repair(struct hartebeest_mesh *mesh, const struct beest_limit *limit)
{
	int ret;

	if (mesh->qps.attr.gather)
		return beest_fail(EOPNOTSUPP, "mesh '%s' was made by the program's own exchange "
				  "and cannot be repaired", mesh->node.name);
	do
		ret = beest_contribution_renew(mesh);
	while (beest_retry(&ret, limit, &mesh->qps.hb->log));
	if (ret < 0)
		return beest_fail_prefix(ret, "mesh '%s'", mesh->node.name);
	beest_fence_abandon(mesh->fence);
	memset(&mesh->stats, 0, sizeof(mesh->stats));
	ret = beest_meshfence_bringup(mesh, limit);
	beest_meshphase_enter(mesh, NULL);
	if (ret < 0)
		return beest_fail_prefix(ret, "mesh '%s'", mesh->node.name);
	mesh->passes = 0;

	return ret;
}

bool beest_mesh_find_qp(const struct hartebeest_context *hb, uint32_t qp_num,
			struct beest_qp *qp)
{
	const struct hartebeest_mesh *mesh;
	const struct beest_node *node;
	struct beest_fence_entry entry;
	struct beest_mesh_body body;
	size_t position;

	for (node = hb->objects.newest; node; node = node->older) {
		mesh = BEEST_CONTAINER(node, struct hartebeest_mesh, node);
		if (node->kind == &beest_mesh_kind &&
		    beest_meshqps_find(&mesh->qps, qp_num, qp, &position))
			break;
	}
	if (!node)
		return false;

	entry = beest_view_entry(mesh->view, position);
	beest_record_mesh_decode(entry.value, mesh->blob_size, &body);
	body.endpoint.qp_num = qp->remote.qp_num;
	qp->remote = body.endpoint;
	qp->remote.rank = mesh->ranks.id[position];
	qp->remote.incarnation = entry.incarnation;
	qp->node.kind = &beest_mesh_kind;

	return true;
}

int beest_mesh_region(const struct hartebeest_mesh *mesh, int rank, int index,
		      struct hartebeest_remote_mr *region)
{
	const int position = beest_parse_ids_position(&mesh->ranks, rank);
	struct beest_view *view = mesh->view, *fetched = NULL;
	struct beest_fence_entry entry;
	int ret = 0;

	if (position < 0 || index < 0 || (uint32_t)index >= mesh->qps.attr.region_count)
		return beest_fail(ENOENT, "mesh '%s' has no region %d of rank %d", mesh->node.name,
				  index, rank);
	if (!beest_view_knows(view, (size_t)position)) {
		ret = beest_meshfence_fetch(mesh, (size_t)position, &fetched);
		view = fetched;
	}
	if (ret < 0)
		return beest_fail_prefix(ret, "mesh '%s', regions of rank %d", mesh->node.name,
					 rank);
	entry = beest_view_entry(view, (size_t)position);
	ret = entry.size < mesh->blob_size ?
	      beest_fail(EBADMSG, "rank %d contributes %d bytes to a mesh, not %zu", rank,
			 (int)entry.size, mesh->blob_size) :
	      beest_record_mesh_region(entry.value, (size_t)index, region);
	beest_view_free(fetched);

	return ret;
}

int beest_mesh_address(const struct hartebeest_mesh *mesh, int rank,
		       struct hartebeest_ud_address *address)
{
	char key[24];

	if (mesh->qps.model->local.transport != BEEST_UD)
		return beest_fail(EOPNOTSUPP, "mesh '%s' is not UD: it has a queue pair for each "
				  "rank, which hartebeest_mesh_qp() returns", mesh->node.name);
	snprintf(key, sizeof(key), "rank %d", rank);

	return beest_qp_address(mesh->qps.model, key, address) == 0 ? 0 :
	       beest_fail(ENOENT, "mesh '%s' has no rank %d", mesh->node.name, rank);
}
