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
	int ret;

	ret = beest_error_verbs(ibv_dealloc_pd(pd->pd));
	if (ret < 0)
		return beest_fail(-ret, "cannot destroy protection domain '%s': %s%s", node->name,
				  strerror(-ret), ret == -EBUSY ?
				  "; memory regions or queue pairs still use it" : "");
	free(pd);
	return 0;
}

const struct beest_kind beest_pd_kind = { "protection domain", pd_destroy };

int beest_pd_create(const struct beest_device *device, struct beest_pd **pdp)
{
	struct beest_pd *pd;
	int ret;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return beest_fail(ENOMEM, "no memory for a protection domain");

	errno = 0;
	pd->pd = ibv_alloc_pd(device->verbs);
	if (!pd->pd) {
		ret = beest_error_errno();
		free(pd);
		return beest_fail(-ret, "%s: cannot allocate a protection domain: %s",
				  device->label, strerror(-ret));
	}

	*pdp = pd;
	return 0;
}
