/* SPDX-License-Identifier: MIT */
/* rdmacm-none.c - rdmacm.h for a build without librdmacm */
#include "config.h"

#include "lib/base/error.h"
#include "lib/path/rdmacm.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

int beest_rdmacm_resolve(const struct beest_rdmacm_query *query, struct hartebeest_path *path)
{
	return beest_fail(ENOSYS, "this build of libhartebeest has no rdma_cm: it was configured "
			  "without librdmacm");
}
