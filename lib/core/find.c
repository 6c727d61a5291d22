/* SPDX-License-Identifier: MIT */
/* find.c - see find.h */
#include "config.h"

#include "lib/core/context.h"
#include "lib/core/find.h"
#include "lib/verbs/cq.h"
#include "lib/verbs/mr.h"
#include "lib/verbs/pd.h"
#include "lib/verbs/qp.h"
#include "lib/verbs/srq.h"

#define DEFINE_FIND(type)								\
	int beest_find_##type(struct hartebeest_context *hb, const char *name,		\
			      struct beest_##type **object)				\
	{										\
		struct beest_node *node;						\
		int ret;								\
											\
		ret = beest_context_find(hb, &beest_##type##_kind, name, &node);	\
		if (ret == 0)								\
			*object = BEEST_CONTAINER(node, struct beest_##type, node);	\
		return ret;								\
	}

DEFINE_FIND(cq)
DEFINE_FIND(mr)
DEFINE_FIND(pd)
DEFINE_FIND(qp)
DEFINE_FIND(srq)
