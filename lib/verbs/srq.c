/* SPDX-License-Identifier: MIT */
/* srq.c - see srq.h */
#include "config.h"

#include <string.h>

#include "lib/base/error.h"
#include "lib/verbs/srq.h"

static int srq_release(struct beest_node *node)
{
	return beest_error_verbs(ibv_destroy_srq(node->handle));
}

const struct beest_kind beest_srq_kind = {
	.noun = "shared receive queue", .size = sizeof(struct beest_node), .release = srq_release,
	.users = "a queue pair still uses it",
};

int beest_srq_create(const struct beest_device *device, struct ibv_pd *pd, uint32_t max_wr,
		     uint32_t max_sge, struct beest_node **srq)
{
	struct ibv_srq_init_attr attr;
	struct ibv_srq *verbs;

	memset(&attr, 0, sizeof(attr));
	attr.attr.max_wr = BEEST_MIN(max_wr, (uint32_t)device->attr.max_srq_wr);
	attr.attr.max_sge = BEEST_MIN(max_sge, (uint32_t)device->attr.max_srq_sge);
	errno = 0;
	verbs = ibv_create_srq(pd, &attr);
	if (!verbs)
		return beest_fail_errno(beest_error_errno(), "%s: cannot create a shared receive "
					"queue of %u requests with %u elements", device->label,
					attr.attr.max_wr, attr.attr.max_sge);

	*srq = beest_table_wrap(&beest_srq_kind, verbs);
	if (!*srq)
		return -ENOMEM;
	(*srq)->needs[0] = pd;
	return 0;
}
