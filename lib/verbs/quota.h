/* SPDX-License-Identifier: MIT */
/*
 * quota.h - why the kernel makes no more objects: the limits of a process and of its cgroups
 *
 * Owns the sentences that name such a limit and what to raise.  Knows nothing of the objects.
 */
#ifndef BEEST_QUOTA_H
#define BEEST_QUOTA_H

#include "lib/base/error.h"

/*
 * For a call of libibverbs that makes an object or registers memory, and failed with @ret.  As
 * beest_fail_errno(), but the sentence ends with the limit if there is one.  Returns @ret, but
 * -EDQUOT for -EAGAIN: that is the rdma cgroup's, and elsewhere means that a later call may
 * succeed.
 */
int beest_quota_fail(int ret, const char *format, ...) BEEST_PRINTF(2, 3);

#endif
