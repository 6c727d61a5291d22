/* SPDX-License-Identifier: MIT */
/* quota.c - see quota.h */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/macro.h"
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

int beest_quota_fail(enum beest_quota kind, struct ibv_context *verbs, int ret,
		     const char *format, ...)
{
	char what[BEEST_ERROR_SIZE / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (ret == -EAGAIN)
		return beest_fail(EDQUOT, "%s: the rdma cgroup of this process allows no more "
				  "objects of the device: raise hca_object and hca_handle in "
				  "rdma.max of the cgroup that /proc/self/cgroup names", what);
	if (ret == -ENOMEM)
		fail_for_memory(what);
	else
		beest_fail_errno(ret, "%s", what);
	return beest_quota_limit(kind, verbs, ret);
}

/* ------------------------------------------------------------- limits of the device --- */

static const struct limit {
	const char *nouns, *name;
	size_t at;			/* of an int in struct ibv_device_attr */
} limits[] = {
#define LIMIT(nouns, name) { nouns, #name, offsetof(struct ibv_device_attr, name) }
	[BEEST_QUOTA_PD] = LIMIT("protection domains", max_pd),
	[BEEST_QUOTA_MR] = LIMIT("memory regions", max_mr),
	[BEEST_QUOTA_CQ] = LIMIT("completion queues", max_cq),
	[BEEST_QUOTA_SRQ] = LIMIT("shared receive queues", max_srq),
	[BEEST_QUOTA_QP] = LIMIT("queue pairs", max_qp),
};

static int made[BEEST_COUNT(limits)];	/* atomic */

int beest_quota_count(enum beest_quota kind, int change, int ret)
{
	if (ret == 0)
		__atomic_add_fetch(&made[kind], change, __ATOMIC_RELAXED);

	return ret;
}

/*
 * Devices whose objects are used up return ENOMEM or ENOSPC, some EINVAL, which mostly means
 * another thing: so then only if this process alone has most of them.
 */
int beest_quota_limit(enum beest_quota kind, struct ibv_context *verbs, int ret)
{
	const int own = __atomic_load_n(&made[kind], __ATOMIC_RELAXED);
	const struct limit *limit = &limits[kind];
	struct ibv_device_attr attr;
	int all;

	if ((ret != -ENOMEM && ret != -ENOSPC && ret != -EINVAL) || kind == BEEST_QUOTA_NONE ||
	    ibv_query_device(verbs, &attr) != 0)
		return ret;
	memcpy(&all, (const char *)&attr + limit->at, sizeof(all));
	if (all <= 0 || (ret == -EINVAL && own < all / 2))
		return ret;

	return beest_fail(-ret, "%s; this process has %d of the %d %s that the device allows all "
			  "processes together (%s)", beest_error_text(), own, all, limit->nouns,
			  limit->name);
}

int beest_quota_refill(struct ibv_qp *qp, int ret, const char *format, ...)
{
	char what[BEEST_ERROR_SIZE / 2];
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (ret != -ENOMEM || ibv_query_qp(qp, &attr, IBV_QP_CAP, &init))
		return beest_fail_errno(ret, "%s", what);
	return beest_fail_errno(ret, "%s (the receive queue takes at most %" PRIu32 " requests, "
				"qp_init_attr.cap.max_recv_wr)", what, attr.cap.max_recv_wr);
}
