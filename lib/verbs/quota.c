/* SPDX-License-Identifier: MIT */
/* quota.c - see quota.h */
#include "config.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/memlock.h"
#include "lib/verbs/quota.h"

/* The usual cause of ENOMEM is the limit on locked memory, which few users know. */
static int fail_for_memory(const char *what)
{
	uint64_t bytes;

	if (!beest_memlock_limit(&bytes))
		return beest_fail_errno(-ENOMEM, "%s", what);
	return beest_fail(ENOMEM, "%s: %s; the limit on locked memory is %" PRIu64 " bytes (ulimit "
			  "-l; for a daemon's children LimitMEMLOCK=infinity in its systemd unit; "
			  "for a container --ulimit memlock=-1)", what, strerror(ENOMEM), bytes);
}

int beest_quota_fail(int ret, const char *format, ...)
{
	char what[BEEST_ERROR_SIZE / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (ret == -ENOMEM)
		return fail_for_memory(what);
	if (ret == -EAGAIN)
		return beest_fail(EDQUOT, "%s: the rdma cgroup of this process allows no more "
				  "objects of the device: raise hca_object and hca_handle in "
				  "rdma.max of the cgroup that /proc/self/cgroup names", what);
	return beest_fail_errno(ret, "%s", what);
}
