/* SPDX-License-Identifier: MIT */
/* endpoint.c - see endpoint.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "lib/base/macro.h"
#include "lib/verbs/endpoint.h"

const char *beest_endpoint_roce_text(enum beest_roce roce)
{
	static const char *const texts[] = {
		[BEEST_ROCE_NONE] = "InfiniBand",
		[BEEST_ROCE_V1] = "RoCE v1",
		[BEEST_ROCE_V2] = "RoCE v2",
	};

	return (size_t)roce < BEEST_COUNT(texts) ? texts[roce] : "unknown RoCE version";
}

const char *beest_author_text(const struct beest_author *author, char *text, size_t size)
{
	if (author->rank >= 0)
		snprintf(text, size, "host %s, pid %" PRIu32 ", rank %" PRId32,
			 author->host, author->pid, author->rank);
	else
		snprintf(text, size, "host %s, pid %" PRIu32, author->host, author->pid);
	return text;
}
