/* SPDX-License-Identifier: MIT */
/* mesh.c - exported functions of hartebeest-mesh.h */
#include "config.h"

#include "include/hartebeest-mesh.h"
#include "lib/api/call.h"
#include "lib/base/error.h"
#include "lib/core/context.h"
#include "lib/core/mesh.h"

#define BEYOND_ONE_LOOK "deadline is HARTEBEEST_ONCE, but ranks cannot meet in one look"

static struct hartebeest_context *context_of_mesh(const struct hartebeest_mesh *mesh)
{
	return mesh ? mesh->qps.hb : NULL;
}

HARTEBEEST_EXPORT int hartebeest_mesh_connect(struct hartebeest_context *hb, const char *name,
					      const struct hartebeest_mesh_attr *attr,
					      struct hartebeest_mesh **mesh, int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, name, mesh);
	if (limit.once)
		return beest_call_refuse(hb, __func__, BEYOND_ONE_LOOK);
	return beest_call_waited(hb, &limit,
				  beest_mesh_connect(hb, name, attr, mesh, &limit));
}

HARTEBEEST_EXPORT struct ibv_qp *hartebeest_mesh_qp(const struct hartebeest_mesh *mesh, int rank,
						    int index)
{
	int position = mesh ? beest_parse_ids_position(&mesh->ranks, rank) : -1;
	struct ibv_qp *qp = NULL;

	if (position >= 0 && index >= 0)
		qp = beest_meshqps_qp(&mesh->qps, (size_t)position, (uint32_t)index);
	if (!mesh)
		beest_fail(EINVAL, "%s(): mesh is NULL", __func__);
	else if (!qp)
		beest_fail(ENOENT, "mesh '%s' has no queue pair %d to rank %d", mesh->node.name,
			   index, rank);
	return qp;
}

HARTEBEEST_EXPORT struct ibv_cq *hartebeest_mesh_cq(const struct hartebeest_mesh *mesh)
{
	if (!mesh)
		beest_fail(EINVAL, "%s(): mesh is NULL", __func__);
	return mesh ? mesh->qps.cq : NULL;
}

HARTEBEEST_EXPORT struct ibv_pd *hartebeest_mesh_pd(const struct hartebeest_mesh *mesh)
{
	if (!mesh)
		beest_fail(EINVAL, "%s(): mesh is NULL", __func__);
	return mesh ? mesh->qps.pd : NULL;
}

HARTEBEEST_EXPORT int hartebeest_mesh_region(const struct hartebeest_mesh *mesh, int rank,
					     int index, struct hartebeest_remote_mr *region)
{
	struct hartebeest_context *hb = context_of_mesh(mesh);

	REQUIRE(mesh, region);
	return beest_call_done(hb, beest_mesh_region(mesh, rank, index, region));
}

HARTEBEEST_EXPORT int hartebeest_mesh_ud_address(const struct hartebeest_mesh *mesh, int rank,
						 struct hartebeest_ud_address *address)
{
	struct hartebeest_context *hb = context_of_mesh(mesh);

	REQUIRE(mesh, address);
	return beest_call_done(hb, beest_mesh_address(mesh, rank, address));
}

HARTEBEEST_EXPORT int hartebeest_mesh_barrier(struct hartebeest_mesh *mesh, int64_t deadline)
{
	struct hartebeest_context *hb = context_of_mesh(mesh);
	struct beest_limit limit;

	REQUIRE_LIMIT(mesh);
	return beest_call_waited(hb, &limit, beest_mesh_barrier(mesh, &limit));
}

HARTEBEEST_EXPORT int hartebeest_mesh_repair(struct hartebeest_mesh *mesh, int64_t deadline)
{
	struct hartebeest_context *hb = context_of_mesh(mesh);
	struct beest_limit limit;

	REQUIRE_LIMIT(mesh);
	if (limit.once)
		return beest_call_refuse(hb, __func__, BEYOND_ONE_LOOK);
	return beest_call_waited(hb, &limit, beest_mesh_repair(mesh, &limit));
}

HARTEBEEST_EXPORT int hartebeest_mesh_stats_get(const struct hartebeest_mesh *mesh,
						struct hartebeest_mesh_stats *stats)
{
	struct hartebeest_context *hb = context_of_mesh(mesh);

	REQUIRE(mesh, stats);
	*stats = mesh->stats;
	stats->qps = mesh->qps.count;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_mesh_close(struct hartebeest_mesh *mesh)
{
	struct hartebeest_context *hb = context_of_mesh(mesh);

	return mesh ? beest_call_done(hb, beest_table_destroy(&hb->objects, &beest_mesh_kind,
							      mesh->node.name)) : 0;
}
