/* SPDX-License-Identifier: MIT */
/*
 * reconnect.c - a peer that is killed and comes back
 *
 *	hartebeest run -n 2 -- ./reconnect [END]
 *
 * To kill one end, start it twice, with HARTEBEEST_NID=0 and 1, HARTEBEEST_PARTICIPANTS=0,1 and
 * HARTEBEEST_EXC_IP_PORT=host:port of a Memcached server.  The two count together, ten times
 * a second, to END (100).  Kill one of them at any time, even by SIGKILL, and start it
 * again: it continues from the other one's number.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hartebeest-post.h>
#include <hartebeest.h>

#define SECOND INT64_C(1000000000)

static struct {
	struct hartebeest_context *hb;
	char me[24], peer[24];		/* keys */
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint32_t *numbers;		/* its memory: local number, received number */
	struct ibv_qp *qp;
	uint64_t life;			/* of the queue pair; others are in late completions */
} self;

static int try(int ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "%s\n", hartebeest_error());
	exit(EXIT_FAILURE);
}

static int post_receive(void *data, struct ibv_qp *qp)
{
	(void)data;
	return hartebeest_post_recv(qp, &self.numbers[1], sizeof(uint32_t), self.mr->lkey,
				    self.life);
}

/* Called in INIT, and again after each RESET, which drops posted receives. */
static int refill(void *data, struct ibv_qp *qp)
{
	self.life++;
	return post_receive(data, qp);
}

static void create(void)
{
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_qp_attr attr;

	try(hartebeest_pd_create(self.hb, "pd", NULL));
	try(hartebeest_cq_create(self.hb, "cq", NULL, &self.cq));
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = 2 * sizeof(uint32_t);
	mr_attr.access = IBV_ACCESS_LOCAL_WRITE;
	try(hartebeest_mr_create(self.hb, "mr", &mr_attr, &self.mr));
	self.numbers = self.mr->addr;
	hartebeest_qp_attr_init(&attr);
	attr.pd = "pd";
	attr.send_cq = "cq";
	attr.type = IBV_QPT_RC;
	try(hartebeest_qp_create(self.hb, "qp", &attr, &self.qp));
	try(hartebeest_qp_refill_set(self.hb, "qp", refill, NULL));
}

/*
 * Called at the start, and whenever the peer is gone.  A broken queue pair goes through RESET, and
 * the call waits for a new process under the peer's key.
 */
static void connect(void)
{
	struct hartebeest_pair pair;
	char who[256];

	hartebeest_pair_init(&pair);
	pair.qp = "qp";
	pair.key = self.me;
	pair.peer_key = self.peer;
	try(hartebeest_pairs_connect(self.hb, &pair, 1, HARTEBEEST_FOREVER));
	try(hartebeest_peer_text(self.hb, self.peer, who, sizeof(who), 0));
	printf("connected to %s\n", who);
}

/* 0: the peer is gone, or has been replaced. */
static int exchange(void)
{
	int sent = 0, came = 0, ret;
	struct ibv_wc wc;

	if (hartebeest_post_send(self.qp, self.numbers, sizeof(uint32_t), self.mr->lkey, self.life,
				 IBV_SEND_SIGNALED) < 0)
		return 0;
	while (!sent || !came) {
		ret = hartebeest_poll_until(self.cq, 1, &wc, hartebeest_clock() + SECOND);
		if (ret != 1 && try(hartebeest_qp_follow(self.hb, "qp", self.peer, NULL,
						 HARTEBEEST_ONCE)) == 1)
			return 0;
		if (ret != 1 || wc.wr_id != self.life)
			continue;
		if (wc.status != IBV_WC_SUCCESS)
			return 0;
		if (wc.opcode & IBV_WC_RECV)
			came = 1;
		else
			sent = 1;
	}
	return post_receive(NULL, self.qp) == 0;
}

int main(int argc, char **argv)
{
	/* Notices a dead peer after seven tries of 0.5 s; Soft-RoCE treats 7 as endless. */
	const char *options[] = { "qp_attr.retry_cnt=6", "qp_attr.timeout=17", NULL };
	uint32_t end = argc > 1 ? (uint32_t)atoi(argv[1]) : 100;
	int rank;

	setvbuf(stdout, NULL, _IOLBF, 0);
	try(hartebeest_open(&self.hb, options));
	rank = try(hartebeest_rank(self.hb));
	snprintf(self.me, sizeof(self.me), "count-%d", rank);
	snprintf(self.peer, sizeof(self.peer), "count-%d", !rank);
	create();
	connect();
	while (self.numbers[0] < end) {
		if (!exchange()) {
			printf("the peer is gone\n");
			connect();
			continue;
		}
		if (self.numbers[0] < self.numbers[1])
			self.numbers[0] = self.numbers[1];
		printf("%u\n", ++self.numbers[0]);
		usleep(100000);
	}
	/* A rank that leaves too early may take its last answer with it: wait for each other. */
	try(hartebeest_barrier(self.hb, "done", 0));
	try(hartebeest_close(self.hb));
	return EXIT_SUCCESS;
}
