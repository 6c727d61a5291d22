/* SPDX-License-Identifier: MIT */
/* mr.c - exported functions of memory regions */
#include "config.h"

#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/core/context.h"
#include "lib/core/handshake.h"
#include "lib/verbs/mr.h"

/* Allocates a buffer if attr->address is NULL, and the memory is not that of another device. */
static int mr_make(struct hartebeest_context *hb, const char *name,
		   const struct hartebeest_mr_attr *attr, bool from_device, struct ibv_mr **out)
{
	struct beest_mr *mr = NULL;
	struct ibv_mr *verbs;
	struct ibv_pd *pd;
	int ret;

	if (attr->length == 0)
		TRY(beest_fail(EINVAL, "memory region '%s' would be empty", name));
	if (!from_device && (attr->dmabuf_fd || attr->dmabuf_offset || attr->dmabuf_iova))
		TRY(beest_fail(EINVAL, "memory region '%s': attr->dmabuf_* are for "
			       "hartebeest_mr_register_dmabuf()", name));
	TRY(beest_table_name_available(&hb->objects, &beest_mr_kind, name));
	TRY(beest_context_find_pd(hb, attr->pd, &pd));
	ret = from_device ?
	      beest_mr_register_dmabuf(pd, attr->dmabuf_fd, attr->dmabuf_offset, attr->length,
				       attr->dmabuf_iova, attr->access, &mr) :
	      beest_mr_create(pd, attr->address, attr->length, attr->access,
			      hb->options.mr_huge_pages != 0, &hb->log, &mr);
	if (ret < 0)
		return beest_call_done(hb, beest_fail_prefix(ret, "memory region '%s'", name));
	verbs = mr->mr;
	TRY(beest_table_add(&hb->objects, name, &mr->node));
	if (out)
		*out = verbs;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_mr_create(struct hartebeest_context *hb, const char *name,
					   const struct hartebeest_mr_attr *attr,
					   struct ibv_mr **out)
{
	struct hartebeest_mr_attr own;

	REQUIRE(hb, name, attr);
	TRY(BEEST_SIZED_COPY(mr_attr, attr, &own, dmabuf_iova));
	REQUIRE(hb, attr->pd);
	if (own.address)
		return beest_call_refuse(hb, __func__, "attr->address is for "
					 "hartebeest_mr_register()");
	return mr_make(hb, name, &own, false, out);
}

HARTEBEEST_EXPORT int hartebeest_mr_register(struct hartebeest_context *hb, const char *name,
					     const struct hartebeest_mr_attr *attr,
					     struct ibv_mr **out)
{
	struct hartebeest_mr_attr own;

	REQUIRE(hb, name, attr);
	TRY(BEEST_SIZED_COPY(mr_attr, attr, &own, dmabuf_iova));
	REQUIRE(hb, attr->pd, attr->address);
	return mr_make(hb, name, &own, false, out);
}

HARTEBEEST_EXPORT int hartebeest_mr_register_dmabuf(struct hartebeest_context *hb,
						    const char *name,
						    const struct hartebeest_mr_attr *attr,
						    struct ibv_mr **out)
{
	struct hartebeest_mr_attr own;

	REQUIRE(hb, name, attr);
	TRY(BEEST_SIZED_COPY(mr_attr, attr, &own, dmabuf_iova));
	REQUIRE(hb, attr->pd);
	if (own.address)
		return beest_call_refuse(hb, __func__, "attr->address is for "
					 "hartebeest_mr_register()");
	return mr_make(hb, name, &own, true, out);
}

HARTEBEEST_EXPORT int hartebeest_mr_adopt(struct hartebeest_context *hb, const char *name,
					  struct ibv_mr *verbs, int access)
{
	struct beest_mr *mr;

	REQUIRE(hb, name, verbs);
	TRY(beest_context_adoptable(hb, &beest_mr_kind, name, verbs->context, verbs));
	TRY(beest_mr_adopt(verbs, access, &mr));
	return beest_call_done(hb, beest_table_add(&hb->objects, name, &mr->node));
}

HARTEBEEST_EXPORT int hartebeest_mr_get(struct hartebeest_context *hb, const char *name,
					struct ibv_mr **mr)
{
	struct beest_mr *found;

	REQUIRE(hb, name, mr);
	TRY(beest_context_find_mr(hb, name, &found));
	*mr = found->mr;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_mr_destroy(struct hartebeest_context *hb, const char *name)
{
	REQUIRE(hb, name);
	return beest_call_done(hb, beest_context_destroy(hb, &beest_mr_kind, name));
}

HARTEBEEST_EXPORT int hartebeest_mr_publish(struct hartebeest_context *hb, const char *name,
					    const char *key, int64_t deadline)
{
	struct beest_limit limit;
	struct beest_mr *mr;

	REQUIRE_LIMIT(hb, name, key);
	TRY_LIMIT(beest_context_find_mr(hb, name, &mr));
	return beest_call_waited(hb, &limit, beest_handshake_mr_publish(hb, mr, key, &limit));
}

HARTEBEEST_EXPORT int hartebeest_mr_fetch(struct hartebeest_context *hb,
					  const char *peer_key,
					  struct hartebeest_remote_mr *mr, int64_t deadline)
{
	struct beest_limit limit;
	struct hartebeest_remote_mr region;

	REQUIRE_LIMIT(hb, peer_key, mr);
	TRY_LIMIT(beest_handshake_mr_fetch(hb, peer_key, &region, &limit));
	*mr = region;
	return 0;
}
