/* SPDX-License-Identifier: MIT */
/* cq.c - see cq.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/verbs/cq.h"
#include "lib/base/error.h"

static int cq_destroy(struct beest_node *node)
{
	struct beest_cq *cq = BEEST_CONTAINER(node, struct beest_cq, node);
	int ret;

	ret = beest_error_verbs(ibv_destroy_cq(cq->cq));
	if (ret < 0)
		return beest_fail(-ret, "cannot destroy completion queue '%s': %s%s", node->name,
				  strerror(-ret),
				  ret == -EBUSY ? "; a queue pair still uses it" : "");
	free(cq);
	return 0;
}

const struct beest_kind beest_cq_kind = { "completion queue", cq_destroy };

int beest_cq_create(const struct beest_device *device, int64_t depth, struct beest_cq **cqp)
{
	struct beest_cq *cq;
	int ret;

	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return beest_fail(ENOMEM, "no memory for a completion queue");

	if (depth > device->attr.max_cqe)
		depth = device->attr.max_cqe;
	errno = 0;
	cq->cq = ibv_create_cq(device->verbs, (int)depth, NULL, NULL, 0);
	if (!cq->cq) {
		ret = beest_error_errno();
		free(cq);
		return beest_fail(-ret, "%s: cannot create a completion queue of %d entries: %s",
				  device->label, (int)depth, strerror(-ret));
	}

	*cqp = cq;
	return 0;
}
