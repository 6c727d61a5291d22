/* SPDX-License-Identifier: MIT */
/* ece.c - see ece.h */
#include "config.h"

#include <errno.h>

#include "lib/base/error.h"
#include "lib/verbs/ece.h"
#include "lib/verbs/newer.h"

struct beest_ece beest_ece_of(struct ibv_qp *qp)
{
	const struct beest_newer *newer = beest_newer();
	struct beest_newer_ece found = { .vendor_id = 0 };
	struct beest_ece ece = { .vendor = 0 };

	/* A provider without options answers EOPNOTSUPP; whatever the errno, there are none. */
	if (!newer->query_ece || !newer->set_ece || newer->query_ece(qp, &found) != 0 ||
	    !found.vendor_id)
		return ece;
	ece.vendor = found.vendor_id;
	ece.options = found.options;

	return ece;
}

struct beest_ece beest_ece_common(const struct beest_ece *a, const struct beest_ece *b)
{
	struct beest_ece common = *a;

	common.options = a->vendor == b->vendor ? a->options & b->options : 0;

	return common;
}

int beest_ece_set(struct ibv_qp *qp, const struct beest_ece *ece)
{
	struct beest_newer_ece wanted = { .vendor_id = ece->vendor, .options = ece->options };

	return beest_error_verbs(beest_newer()->set_ece(qp, &wanted));
}
