/* SPDX-License-Identifier: MIT */
/* ours.c - see ours.h */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench/ours.h"

int ours_result(struct bench_rank *rank, int ret)
{
	return ret < 0 ? bench_fail(rank, ret, "%s", hartebeest_error()) : 0;
}

int ours_open(struct bench_rank *rank)
{
	char id[32], count[48], server[24 + sizeof(rank->pass->server)], job[64], limit[48];
	const char *options[] = { id, count, server, job, limit, NULL };
	const struct bench_pass *pass = rank->pass;
	struct hartebeest_context *hb = NULL;
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

int ours_open_connected(struct bench_rank *rank)
{
	char key[OURS_NAME];
	int ret = ours_open(rank);

	snprintf(key, sizeof(key), "opening%d", rank->rank);
	return ret < 0 ? ret : ours_result(rank, hartebeest_msg_push(rank->own, key, NULL, 0, 0));
}

int ours_objects(struct bench_rank *rank, struct ibv_mr **mr)
{
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_cq_attr cq_attr;
	int ret = hartebeest_pd_create(rank->own, "pd", NULL);

	hartebeest_cq_attr_init(&cq_attr);
	cq_attr.depth = 4096;
	if (ret == 0)
		ret = hartebeest_cq_create(rank->own, "cq", &cq_attr, NULL);
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = OURS_REGION;
	mr_attr.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	if (ret == 0)
		ret = hartebeest_mr_create(rank->own, "mr", &mr_attr, mr);
	return ours_result(rank, ret);
}

int ours_mesh(struct bench_rank *rank, struct ibv_qp_cap cap, struct hartebeest_mesh **mesh)
{
	static const char *const offer[] = { "mr" };
	struct hartebeest_mesh_attr attr;

	hartebeest_mesh_attr_init(&attr);
	attr.pd = "pd";
	attr.cq = "cq";
	attr.regions = offer;
	attr.region_count = 1;
	attr.cap = cap;
	return ours_result(rank, hartebeest_mesh_connect(rank->own, "mesh", &attr, mesh, 0));
}

void ours_close(struct bench_rank *rank)
{
	hartebeest_close(rank->own);
}

void ours_call_begin(struct ours_call *call, size_t count)
{
	call->count = 0;
	call->pairs = calloc(count, sizeof(call->pairs[0]));
	call->regions = calloc(count, sizeof(call->regions[0]));
	call->names = calloc(count, sizeof(call->names[0]));
	if (!call->pairs || !call->regions || !call->names)
		abort();
}

void ours_call_end(struct ours_call *call)
{
	free(call->pairs);
	free(call->regions);
	free(call->names);
}

void ours_call_add(struct ours_call *call, const char *own, const char *theirs,
		   const char *const *offer)
{
	struct hartebeest_pair *pair = &call->pairs[call->count];
	char (*names)[OURS_NAME] = call->names[call->count];

	snprintf(names[0], OURS_NAME, "%s", own);
	snprintf(names[1], OURS_NAME, "%s", theirs);
	hartebeest_pair_init(pair);
	pair->qp = pair->key = names[0];
	pair->peer_key = names[1];
	pair->offer = offer;
	pair->offer_count = pair->region_room = offer ? 1 : 0;
	pair->regions = &call->regions[call->count++];
}
