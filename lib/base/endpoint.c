/* SPDX-License-Identifier: MIT */
/* endpoint.c - see endpoint.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/base/macro.h"
#include "lib/base/endpoint.h"

const char *beest_endpoint_roce_text(enum beest_roce roce)
{
	static const char *const texts[] = {
		[BEEST_ROCE_NONE] = "InfiniBand",
		[BEEST_ROCE_V1] = "RoCE v1",
		[BEEST_ROCE_V2] = "RoCE v2",
	};

	return (size_t)roce < BEEST_COUNT(texts) ? texts[roce] : "unknown RoCE version";
}

const char *beest_endpoint_peer_text(const struct beest_endpoint *remote, char text[32])
{
	if (remote->rank < 0)
		return "the peer";
	snprintf(text, 32, "the peer (rank %" PRId32 ")", remote->rank);
	return text;
}
