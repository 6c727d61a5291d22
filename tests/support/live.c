/* SPDX-License-Identifier: MIT */
/* live.c - see live.h */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "tests/support/live.h"
#include "tests/support/unit.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"

void live_open(struct live *live, int rank, int type, const char *const *options)
{
	memset(live, 0, sizeof(*live));
	live->rank = rank;
	snprintf(live->me, sizeof(live->me), "rank-%d", rank);
	snprintf(live->peer, sizeof(live->peer), "rank-%d", !rank);
	EXPECT(hartebeest_open(&live->hb, options) == 0);
	EXPECT(hartebeest_pd_create(live->hb, "pd", NULL) == 0);
	EXPECT(cq_make(live->hb, "cq", 0, 0, &live->cq) == 0);
	EXPECT(mr_make(live->hb, "mr", "pd", LIVE_BUFFER, LIVE_ACCESS,
		       &live->mr) == 0);
	EXPECT(qp_make(live->hb, "qp", "pd", type, "cq", "cq", &live->qp) == 0);
	EXPECT(hartebeest_qp_init(live->hb, "qp") == 0);
	EXPECT(live_state(live) == IBV_QPS_INIT);
}

void live_connect(struct live *live)
{
	EXPECT(hartebeest_mr_publish(live->hb, "mr", live->me, 0) == 0);
	EXPECT(hartebeest_qp_publish(live->hb, "qp", live->me, 0) == 0);
	EXPECT(hartebeest_qp_fetch(live->hb, live->peer, NULL, 0) == 0);
	EXPECT(hartebeest_qp_connect(live->hb, "qp", live->peer, 0) == 0);
	EXPECT(live_state(live) == IBV_QPS_RTS);
	if (live->qp->qp_type != IBV_QPT_UD)
		EXPECT(hartebeest_qp_confirm(live->hb, "qp", live->peer, 0) == 0);
	else
		EXPECT(hartebeest_barrier(live->hb, "connected", 0) == 0);
	EXPECT(hartebeest_mr_fetch(live->hb, live->peer, &live->there, 0) == 0);
}

/* ---------------------------------------------------------- a pair that reconnects --- */

/* The offsets in the buffer of the messages to be sent and received. */
#define OWN 0
#define RECEIVED (LIVE_BUFFER / 2)
#define MESSAGE 3000

static char *live_part(const struct live *live, size_t offset)
{
	return (char *)live->mr->addr + offset;
}

static int post_receive(void *data, struct ibv_qp *qp)
{
	struct live *live = data;

	memset(live_part(live, RECEIVED), 0, MESSAGE);
	return hartebeest_post_recv(qp, live_part(live, RECEIVED), MESSAGE, live->mr->lkey, 41);
}

/*
 * A dead peer is noticed after (retries + 1) * 4.096 us * 2^timeout, here 0.9 s.  A living peer
 * answers faster even on a busy machine.
 */
void live_begin(struct live *live, int rank)
{
	static const char *const impatient[] = {
		"qp_attr.retry_cnt=6", "qp_attr.timeout=15", NULL,
	};

	live_open(live, rank, IBV_QPT_RC, impatient);
	live_fill(live_part(live, OWN), rank, MESSAGE);
	EXPECT(hartebeest_qp_reset(live->hb, "qp") == 0);
	EXPECT(hartebeest_qp_refill_set(live->hb, "qp", post_receive, live) == 0);
	EXPECT(hartebeest_qp_init(live->hb, "qp") == 0);
}

void live_talk(struct live *live)
{
	struct ibv_wc wc;

	EXPECT(hartebeest_post_send(live->qp, live_part(live, OWN), MESSAGE, live->mr->lkey, 42,
				    0) == 0);
	do {	/* a failure may have flushed receives */
		live_await(live->cq, &wc);
	} while (wc.status == IBV_WC_WR_FLUSH_ERR);
	EXPECT(wc.status == IBV_WC_SUCCESS && wc.wr_id == 41);
	EXPECT(live_is(live_part(live, RECEIVED), !live->rank, MESSAGE));
}

/* Both ranks leave together, since a rank that leaves takes its memory with it. */
void live_close(struct live *live)
{
	EXPECT(hartebeest_barrier(live->hb, "leaving", 0) == 0);
	hartebeest_close(live->hb);
}

void live_await(struct ibv_cq *cq, struct ibv_wc *wc)
{
	int ret;

	while ((ret = hartebeest_poll(cq, 1, wc)) == 0)
		pause_us(200);
	EXPECT(ret == 1);
}

void live_complete(struct live *live, uint64_t wr_id, struct ibv_wc *wc)
{
	char text[512] = "";

	live_await(live->cq, wc);
	if (wc->status != IBV_WC_SUCCESS || wc->wr_id != wr_id) {
		hartebeest_completion_text(live->hb, wc, text, sizeof(text));
		fprintf(stderr, "rank %d: %s\n", live->rank, text);
	}
	EXPECT(wc->status == IBV_WC_SUCCESS);
	EXPECT(wc->wr_id == wr_id);
}

enum ibv_qp_state live_state(const struct live *live)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	EXPECT(ibv_query_qp(live->qp, &attr, IBV_QP_STATE, &init) == 0);
	return attr.qp_state;
}

unsigned char live_byte(int rank, size_t index)
{
	return (unsigned char)(index * 7 + index / 251 + (size_t)rank * 101 + 1);
}

void live_fill(void *bytes, int rank, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		((unsigned char *)bytes)[i] = live_byte(rank, i);
}

bool live_is(const void *bytes, int rank, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++) {
		if (((const unsigned char *)bytes)[i] == live_byte(rank, i))
			continue;
		fprintf(stderr, "byte %zu of %zu is not rank %d's\n", i, size, rank);
		return false;
	}

	return true;
}

int live_pair(int (*function)(int rank, void *data), void *data)
{
	struct cache *cache;
	struct ranks ranks = { .count = 2 };
	int failed;

	cache_need();
	cache = cache_start(NULL);
	ranks.server = cache_hostport(cache)->text;
	failed = ranks_run(&ranks, function, data);
	cache_end(cache);
	return failed;
}
