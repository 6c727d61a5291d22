/* SPDX-License-Identifier: MIT */
/* resolve-none.c - resolve.h where librdmacm was not there at build time */
#include "config.h"

#include "lib/error.h"
#include "lib/resolve.h"

int beest_resolve(const struct beest_question *question, struct beest_route *route)
{
	(void)question;
	(void)route;
	return beest_fail(ENOSYS, "this build of libhartebeest has no rdma_cm: it was configured "
			  "without librdmacm");
}
