/* SPDX-License-Identifier: MIT */
/* remote.c - see remote.h */
#include "config.h"

#include "include/hartebeest-c.h"
#include "lib/api/default.h"
#include "lib/api/remote.h"
#include "lib/base/error.h"
#include "lib/base/lock.h"
#include "lib/core/context.h"

struct remote {
	struct beest_node node;
	union {
		struct ibv_mr mr;
		struct ibv_qp qp;
	} its;
};

/* Objects of the default context, which is there when something was fetched. */
static const struct beest_kind remote_mr_kind = {
	.noun = "fetched memory region", .size = sizeof(struct remote),
};
static const struct beest_kind remote_qp_kind = {
	.noun = "fetched queue pair", .size = sizeof(struct remote),
};

static void *find_or_add_remote(struct beest_table *objects, const struct beest_kind *kind,
				const char *key)
{
	struct beest_node *node;

	if (beest_default_failed(beest_table_obtain(objects, kind, key, &node)))
		return NULL;
	return &BEEST_CONTAINER(node, struct remote, node)->its;
}

bool beest_remote_keep_mr(const char *key, const struct hartebeest_remote_mr *mr)
{
	struct beest_table *objects = &hartebeest_default_context()->objects;
	struct ibv_mr *remote;
	BEEST_HOLD(&objects->lock);

	remote = find_or_add_remote(objects, &remote_mr_kind, key);
	if (remote) {
		remote->addr = (void *)(uintptr_t)mr->address;
		remote->length = (size_t)mr->length;
		remote->rkey = mr->rkey;
	}
	return remote;
}

bool beest_remote_keep_qp(const char *key, const struct hartebeest_remote_qp *qp)
{
	struct beest_table *objects = &hartebeest_default_context()->objects;
	struct ibv_qp *remote;
	BEEST_HOLD(&objects->lock);

	remote = find_or_add_remote(objects, &remote_qp_kind, key);
	if (remote) {
		remote->qp_num = qp->qp_num;
		remote->qp_type = qp->qp_type;
	}
	return remote;
}

static void *find_remote(const struct beest_kind *kind, const char *key)
{
	struct hartebeest_context *hb = hartebeest_default_context();
	struct beest_node *node = NULL;

	if (!hb)
		return NULL;

	if (key)
		node = beest_table_find(&hb->objects, kind, key);
	else
		beest_fail(EINVAL, "the key of a %s is NULL", kind->noun);
	if (node)
		return &BEEST_CONTAINER(node, struct remote, node)->its;

	beest_default_failed(-ENOENT);
	return NULL;
}

HARTEBEEST_EXPORT struct ibv_mr *hartebeest_get_remote_mr(const char *memc_key)
{
	return find_remote(&remote_mr_kind, memc_key);
}

HARTEBEEST_EXPORT struct ibv_qp *hartebeest_get_remote_qp(const char *memc_key)
{
	return find_remote(&remote_qp_kind, memc_key);
}
