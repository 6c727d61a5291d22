/* SPDX-License-Identifier: MIT */
/*
 * mesh.c - every exported function of hartebeest-mesh.h
 *
 * As api.c: each validates and delegates, and logs a failure once, as the call returns.
 * hartebeest-mesh.h has the contracts.
 */
#include "config.h"

#include "include/hartebeest-mesh.h"
#include "lib/base/error.h"
#include "lib/core/context.h"
#include "lib/core/mesh.h"
#include "lib/core/pairs.h"

static int done(const struct hartebeest_context *hb, int ret)
{
	if (ret < 0 && hb)
		beest_log(&hb->log, BEEST_LOG_ERROR, "%s", beest_error_text());
	return ret;
}

static int refuse_null(const struct hartebeest_context *hb, const char *function,
		       const char *argument)
{
	return done(hb, beest_fail(EINVAL, "%s(): %s is NULL", function, argument));
}

HARTEBEEST_EXPORT int hartebeest_mesh_connect(struct hartebeest_context *hb, const char *name,
					      const struct hartebeest_mesh_attr *attr,
					      struct hartebeest_mesh **mesh, int64_t deadline)
{
	struct beest_limit limit;
	int ret;

	if (!hb || !name || !mesh)
		return refuse_null(hb, __func__, !hb ? "hb" : !name ? "name" : "mesh");
	if (deadline < 0)
		return done(hb, beest_fail(EINVAL, "%s(): the deadline is negative", __func__));
	ret = beest_context_limit(hb, __func__, deadline, &limit);
	if (ret == 0)
		ret = beest_mesh_connect(hb, name, attr, mesh, &limit);
	return done(hb, ret);
}

HARTEBEEST_EXPORT struct ibv_qp *hartebeest_mesh_qp(const struct hartebeest_mesh *mesh, int rank,
						    int index)
{
	int position = mesh ? beest_mesh_position(mesh, rank) : -1;

	return position < 0 || index < 0 ? NULL :
	       beest_fabric_qp(&mesh->fabric, (size_t)position, (uint32_t)index);
}

HARTEBEEST_EXPORT struct ibv_cq *hartebeest_mesh_cq(const struct hartebeest_mesh *mesh)
{
	return mesh ? mesh->fabric.cq : NULL;
}

HARTEBEEST_EXPORT struct ibv_pd *hartebeest_mesh_pd(const struct hartebeest_mesh *mesh)
{
	return mesh ? mesh->fabric.pd : NULL;
}

HARTEBEEST_EXPORT int hartebeest_mesh_region(const struct hartebeest_mesh *mesh, int rank,
					     int index, struct hartebeest_remote_mr *region)
{
	struct beest_region found;
	int ret;

	if (!mesh || !region)
		return refuse_null(mesh ? mesh->hb : NULL, __func__, !mesh ? "mesh" : "region");
	ret = beest_mesh_region(mesh, rank, index, &found);
	if (ret == 0)
		beest_pairs_show_region(&found, region);
	return done(mesh->hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_mesh_address(const struct hartebeest_mesh *mesh, int rank,
					      struct hartebeest_address *address)
{
	if (!mesh || !address)
		return refuse_null(mesh ? mesh->hb : NULL, __func__, !mesh ? "mesh" : "address");
	return done(mesh->hb, beest_mesh_address(mesh, rank, address));
}

HARTEBEEST_EXPORT int hartebeest_mesh_barrier(struct hartebeest_mesh *mesh, int64_t deadline)
{
	struct beest_limit limit;
	int ret;

	if (!mesh)
		return refuse_null(NULL, __func__, "mesh");
	ret = beest_context_limit(mesh->hb, __func__, deadline, &limit);
	if (ret == 0)
		ret = beest_mesh_barrier(mesh, &limit);
	return done(mesh->hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_mesh_repair(struct hartebeest_mesh *mesh, int64_t deadline)
{
	struct beest_limit limit;
	int ret;

	if (!mesh)
		return refuse_null(NULL, __func__, "mesh");
	ret = beest_context_limit(mesh->hb, __func__, deadline, &limit);
	if (ret == 0)
		ret = beest_mesh_repair(mesh, &limit);
	return done(mesh->hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_mesh_stats(const struct hartebeest_mesh *mesh,
					    struct hartebeest_mesh_stats *stats)
{
	if (!mesh || !stats)
		return refuse_null(mesh ? mesh->hb : NULL, __func__, !mesh ? "mesh" : "stats");
	*stats = mesh->stats;
	return 0;
}

HARTEBEEST_EXPORT void hartebeest_mesh_close(struct hartebeest_mesh *mesh)
{
	struct hartebeest_context *hb = mesh ? mesh->hb : NULL;

	if (mesh)
		done(hb, beest_context_destroy(hb, &beest_mesh_kind, mesh->node.name));
}
