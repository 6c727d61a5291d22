/* SPDX-License-Identifier: MIT */
/* pd.c - see pd.h */
#include "config.h"

#include "lib/base/error.h"
#include "lib/verbs/pd.h"

static int pd_release(struct beest_node *node)
{
	return beest_error_verbs(ibv_dealloc_pd(BEEST_CONTAINER(node, struct beest_pd, node)->pd));
}

const struct beest_kind beest_pd_kind = {
	.noun = "protection domain", .size = sizeof(struct beest_pd), .release = pd_release,
	.users = "regions, queue pairs or shared receive queues still use it",
};

int beest_pd_adopt(struct ibv_pd *verbs, struct beest_pd **pd)
{
	*pd = beest_table_new(&beest_pd_kind);
	if (!*pd)
		return -ENOMEM;

	(*pd)->pd = verbs;
	(*pd)->node.handle = verbs;
	(*pd)->node.adopted = true;
	return 0;
}

int beest_pd_alloc(const struct beest_device *device, struct ibv_pd **verbs)
{
	errno = 0;
	*verbs = ibv_alloc_pd(device->verbs);
	return *verbs ? 0 : beest_fail_errno(beest_error_errno(), "%s: cannot allocate a "
					     "protection domain", device->label);
}

int beest_pd_create(const struct beest_device *device, struct beest_pd **pd)
{
	struct ibv_pd *verbs;
	int ret;

	ret = beest_pd_alloc(device, &verbs);
	if (ret < 0)
		return ret;

	ret = beest_pd_adopt(verbs, pd);
	if (ret < 0)
		ibv_dealloc_pd(verbs);
	else
		(*pd)->node.adopted = false;
	return ret;
}
