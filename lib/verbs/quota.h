/* SPDX-License-Identifier: MIT */
/*
 * quota.h - why no more objects are made: the limits of a process, its cgroups and its device
 *
 * Owns the sentences that name such a limit and what to raise, and how many objects of each kind
 * this process has made and not destroyed.  Knows nothing else of the objects.
 */
#ifndef BEEST_QUOTA_H
#define BEEST_QUOTA_H

#include <infiniband/verbs.h>

#include "lib/base/error.h"

enum beest_quota {
	BEEST_QUOTA_NONE,		/* any other object */
	BEEST_QUOTA_PD, BEEST_QUOTA_MR, BEEST_QUOTA_CQ, BEEST_QUOTA_SRQ, BEEST_QUOTA_QP,
};

/*
 * For a call of libibverbs that makes an object or registers memory, and failed with @ret.  As
 * beest_fail_errno(), but the sentence ends with the limit if there is one, as beest_quota_limit()
 * has it.  Returns @ret, but -EDQUOT for -EAGAIN: that is the rdma cgroup's, and elsewhere means
 * that a later call may succeed.
 */
int beest_quota_fail(enum beest_quota kind, struct ibv_context *verbs, int ret,
		     const char *format, ...) BEEST_PRINTF(4, 5);

/*
 * For a program's function that posts receives, and failed with @ret.  As beest_fail_errno(), but
 * the sentence ends with the size of the receive queue if that may be too small.
 */
int beest_quota_refill(struct ibv_qp *qp, int ret, const char *format, ...) BEEST_PRINTF(3, 4);

/* One more (1) or less (-1) of this kind if @ret is 0.  Returns @ret. */
int beest_quota_count(enum beest_quota kind, int change, int ret);

/*
 * Adds to the sentence of a failure with @ret, if that may be the reason, how many of the objects
 * that the device has for all processes this one has.  Returns @ret.
 */
int beest_quota_limit(enum beest_quota kind, struct ibv_context *verbs, int ret);

#endif
