/* SPDX-License-Identifier: MIT */
/* pd.c - exported functions of protection domains */
#include "config.h"

#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/core/context.h"
#include "lib/verbs/pd.h"

HARTEBEEST_EXPORT int hartebeest_pd_create(struct hartebeest_context *hb, const char *name,
					   struct ibv_pd **pd)
{
	struct beest_node *made;
	void *handle;

	REQUIRE(hb, name);
	TRY(beest_table_name_available(&hb->objects, &beest_pd_kind, name));
	TRY(beest_call_prefix(__func__, beest_context_need_device(hb, NULL)));
	TRY(beest_pd_create(&hb->device, &made));
	handle = made->handle;
	TRY(beest_table_add(&hb->objects, name, made));
	if (pd)
		*pd = handle;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_pd_adopt(struct hartebeest_context *hb, const char *name,
					  struct ibv_pd *verbs)
{
	REQUIRE(hb, name, verbs);
	return beest_call_done(hb, beest_context_adopt(hb, &beest_pd_kind, name, verbs->context,
						       verbs, NULL));
}

HARTEBEEST_EXPORT int hartebeest_pd_get(struct hartebeest_context *hb, const char *name,
					struct ibv_pd **pd)
{
	REQUIRE(hb, name, pd);
	return beest_call_done(hb, beest_context_find_pd(hb, name, pd));
}

HARTEBEEST_EXPORT int hartebeest_pd_destroy(struct hartebeest_context *hb, const char *name)
{
	REQUIRE(hb, name);
	return beest_call_done(hb, beest_context_destroy(hb, &beest_pd_kind, name));
}
