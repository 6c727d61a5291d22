/* SPDX-License-Identifier: MIT */
/* pd.c - see pd.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/verbs/pd.h"

static int pd_destroy(struct beest_node *node)
{
	struct beest_pd *pd = BEEST_CONTAINER(node, struct beest_pd, node);
	int ret = node->adopted ? 0 : beest_error_verbs(ibv_dealloc_pd(pd->pd));

	if (ret < 0)
		return beest_fail(-ret, "cannot destroy protection domain '%s': %s%s", node->name,
				  strerror(-ret), ret == -EBUSY ?
				  "; regions, queue pairs or shared receive queues still use it" : "");
	free(pd);
	return 0;
}

const struct beest_kind beest_pd_kind = { "protection domain", pd_destroy };

int beest_pd_adopt(struct ibv_pd *verbs, struct beest_pd **pdp)
{
	struct beest_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return beest_fail(ENOMEM, "no memory for a protection domain");

	pd->pd = verbs;
	pd->node.handle = verbs;
	pd->node.adopted = true;
	*pdp = pd;
	return 0;
}

int beest_pd_create(const struct beest_device *device, struct beest_pd **pdp)
{
	struct beest_pd *pd = NULL;
	int ret = beest_pd_adopt(NULL, &pd);

	if (ret < 0)
		return ret;

	errno = 0;
	pd->pd = ibv_alloc_pd(device->verbs);
	if (!pd->pd) {
		ret = beest_error_errno();
		free(pd);
		return beest_fail(-ret, "%s: cannot allocate a protection domain: %s",
				  device->label, strerror(-ret));
	}
	pd->node.handle = pd->pd;
	pd->node.adopted = false;
	*pdp = pd;
	return 0;
}
