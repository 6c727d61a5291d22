/* SPDX-License-Identifier: MIT */
/* rdmacm-none.c - resolve.h where librdmacm was not there at build time */
#include "config.h"

#include "lib/base/error.h"
#include "lib/path/rdmacm.h"

int beest_rdmacm_resolve(const struct beest_rdmacm_query *question, struct beest_pathrec *route)
{
	(void)question;
	(void)route;
	return beest_fail(ENOSYS, "this build of libhartebeest has no rdma_cm: it was configured "
			  "without librdmacm");
}
