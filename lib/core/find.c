/* SPDX-License-Identifier: MIT */
/* find.c - see find.h */
#include "config.h"

#include <errno.h>

#include "lib/core/context.h"
#include "lib/core/find.h"
#include "lib/verbs/cq.h"
#include "lib/verbs/mr.h"
#include "lib/verbs/pd.h"
#include "lib/verbs/qp.h"
#include "lib/verbs/srq.h"

/* @object: what is handed out of the node that was found. */
#define DEFINE_FIND(noun, type, object)							\
	int beest_find_##noun(struct hartebeest_context *hb, const char *name,		\
			      type **found)						\
	{										\
		struct beest_node *node = beest_table_find(&hb->objects,		\
							   &beest_##noun##_kind, name);	\
											\
		if (node)								\
			*found = object;						\
		return node ? 0 : -ENOENT;						\
	}

DEFINE_FIND(cq, struct beest_cq, BEEST_CONTAINER(node, struct beest_cq, node))
DEFINE_FIND(mr, struct beest_mr, BEEST_CONTAINER(node, struct beest_mr, node))
DEFINE_FIND(pd, struct ibv_pd, node->handle)
DEFINE_FIND(qp, struct beest_qp, BEEST_CONTAINER(node, struct beest_qp, node))
DEFINE_FIND(srq, struct ibv_srq, node->handle)
