/* SPDX-License-Identifier: MIT */
/* pd.c - see pd.h */
#include "config.h"

#include "lib/base/error.h"
#include "lib/verbs/pd.h"
#include "lib/verbs/quota.h"

int beest_pd_free(struct ibv_pd *verbs)
{
	return beest_quota_count(BEEST_QUOTA_PD, -1, beest_error_verbs(ibv_dealloc_pd(verbs)));
}

static int pd_release(struct beest_node *node)
{
	return beest_pd_free(node->handle);
}

const struct beest_kind beest_pd_kind = {
	.noun = "protection domain", .size = sizeof(struct beest_node), .release = pd_release,
	.users = "regions, queue pairs or shared receive queues still use it",
};

int beest_pd_alloc(const struct beest_device *device, struct ibv_pd **verbs)
{
	errno = 0;
	*verbs = ibv_alloc_pd(device->verbs);
	if (*verbs)
		return beest_quota_count(BEEST_QUOTA_PD, 1, 0);

	return beest_quota_limit(BEEST_QUOTA_PD, device->verbs,
				 beest_quota_fail(beest_error_errno(), "%s: cannot allocate a "
						  "protection domain", device->label));
}

int beest_pd_create(const struct beest_device *device, struct beest_node **pd)
{
	struct ibv_pd *verbs;
	int ret;

	ret = beest_pd_alloc(device, &verbs);
	if (ret < 0)
		return ret;

	*pd = beest_table_wrap(&beest_pd_kind, verbs);
	return *pd ? 0 : -ENOMEM;
}
