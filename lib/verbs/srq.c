/* SPDX-License-Identifier: MIT */
/* srq.c - see srq.h */
#include "config.h"

#include <string.h>

#include "lib/base/error.h"
#include "lib/verbs/quota.h"
#include "lib/verbs/srq.h"

static int srq_release(struct beest_node *node)
{
	return beest_quota_count(BEEST_QUOTA_SRQ, -1,
				 beest_error_verbs(ibv_destroy_srq(node->handle)));
}

const struct beest_kind beest_srq_kind = {
	.noun = "shared receive queue", .size = sizeof(struct beest_node), .release = srq_release,
	.users = "a queue pair still uses it",
};

int beest_srq_create(const struct beest_device *device, struct ibv_pd *pd,
		     const struct hartebeest_srq_attr *attr, struct beest_node **srq)
{
	struct ibv_srq_init_attr init;
	struct ibv_srq *verbs;

	memset(&init, 0, sizeof(init));
	init.srq_context = attr->srq_context;
	init.attr.max_wr = BEEST_MIN(attr->max_wr, (uint32_t)device->attr.max_srq_wr);
	init.attr.max_sge = BEEST_MIN(attr->max_sge, (uint32_t)device->attr.max_srq_sge);
	errno = 0;
	verbs = ibv_create_srq(pd, &init);
	if (!verbs)
		return beest_quota_limit(BEEST_QUOTA_SRQ, device->verbs,
					 beest_quota_fail(beest_error_errno(), "%s: cannot create "
							  "a shared receive queue of %u requests "
							  "with %u elements", device->label,
							  init.attr.max_wr, init.attr.max_sge));
	beest_quota_count(BEEST_QUOTA_SRQ, 1, 0);
	*srq = beest_table_wrap(&beest_srq_kind, verbs);
	if (!*srq)
		return -ENOMEM;
	(*srq)->needs[0] = pd;
	return 0;
}
