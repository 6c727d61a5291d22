/* SPDX-License-Identifier: MIT */
/* ours.c - see ours.h */
#include "config.h"

#include <stdio.h>

#include "bench/ours.h"

int ours_result(struct bench_rank *rank, int ret)
{
	return ret < 0 ? bench_fail(rank, ret, "%s", hartebeest_error()) : 0;
}

int ours_open(struct bench_rank *rank)
{
	char id[32], count[48], server[64], job[64], limit[48];
	const char *options[] = { id, count, server, job, limit, NULL };
	const struct bench_pass *pass = rank->pass;
	struct hartebeest *hb = NULL;
	int ret;

	snprintf(id, sizeof(id), "job.rank=%d", rank->rank);
	snprintf(count, sizeof(count), "job.nparticipants=%d", pass->count);
	snprintf(server, sizeof(server), "exchange.servers=%s", pass->server);
	snprintf(job, sizeof(job), "job.id=%s", pass->job);
	snprintf(limit, sizeof(limit), "exchange.timeout=%ds", pass->limit);
	ret = hartebeest_open(&hb, options);
	rank->own = hb;
	return ours_result(rank, ret);
}

void ours_close(struct bench_rank *rank)
{
	hartebeest_close(rank->own);
}
