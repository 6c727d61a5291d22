/* SPDX-License-Identifier: MIT */
/* srq.c - see srq.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/verbs/srq.h"

static int srq_destroy(struct beest_node *node)
{
	struct beest_srq *srq = BEEST_CONTAINER(node, struct beest_srq, node);
	int ret = node->adopted ? 0 : beest_error_verbs(ibv_destroy_srq(srq->srq));

	if (ret < 0)
		return beest_fail(-ret, "cannot destroy shared receive queue '%s': %s%s", node->name,
				  strerror(-ret),
				  ret == -EBUSY ? "; a queue pair still uses it" : "");
	free(srq);
	return 0;
}

const struct beest_kind beest_srq_kind = { "shared receive queue", srq_destroy };

int beest_srq_adopt(struct ibv_srq *verbs, struct beest_srq **srqp)
{
	struct beest_srq *srq = calloc(1, sizeof(*srq));

	if (!srq)
		return beest_fail(ENOMEM, "no memory for a shared receive queue");

	srq->srq = verbs;
	srq->node.handle = verbs;
	srq->node.needs[0] = verbs ? verbs->pd : NULL;
	srq->node.adopted = true;
	*srqp = srq;
	return 0;
}

int beest_srq_create(const struct beest_device *device, struct ibv_pd *pd, uint32_t max_wr,
		     uint32_t max_sge, struct beest_srq **srqp)
{
	struct ibv_srq_init_attr attr;
	struct beest_srq *srq = NULL;
	int ret = beest_srq_adopt(NULL, &srq);

	if (ret < 0)
		return ret;

	memset(&attr, 0, sizeof(attr));
	attr.attr.max_wr = BEEST_MIN(max_wr, (uint32_t)device->attr.max_srq_wr);
	attr.attr.max_sge = BEEST_MIN(max_sge, (uint32_t)device->attr.max_srq_sge);
	errno = 0;
	srq->srq = ibv_create_srq(pd, &attr);
	if (!srq->srq) {
		ret = beest_error_errno();
		free(srq);
		return beest_fail(-ret, "%s: cannot create a shared receive queue of %u requests "
				  "with %u elements: %s", device->label, attr.attr.max_wr,
				  attr.attr.max_sge, strerror(-ret));
	}
	srq->node.handle = srq->srq;
	srq->node.needs[0] = pd;
	srq->node.adopted = false;
	*srqp = srq;
	return 0;
}
