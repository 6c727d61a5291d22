/* SPDX-License-Identifier: MIT */
/*
 * datagram.c - one UD queue pair that talks to all ranks
 *
 *	hartebeest run -n 4 -- ./datagram
 *
 * On several hosts, start it with srun or mpirun, or by hand with HARTEBEEST_PARTICIPANTS=0-3 and
 * HARTEBEEST_NID=0 and so on.  HARTEBEEST_EXC_IP_PORT=host:port names a Memcached server.
 *
 * Each rank greets all others.  A datagram may get lost, so every rank continues to greet until
 * the barrier opens.  Ranks come to the barrier once they have heard all others.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hartebeest-post.h>
#include <hartebeest.h>

#define GRH 40			/* bytes in front of each datagram that arrives */
#define RECEIVES 64
#define PAUSE INT64_C(50000000)	/* ns */

struct greeting {
	int32_t rank;
	char text[60];
};

struct arrival {
	unsigned char grh[GRH];
	struct greeting greeting;
};

/* The region: this rank's greeting, and room for those of others. */
struct memory {
	struct greeting own;
	struct arrival arrivals[RECEIVES];
};

static struct {
	struct hartebeest_context *hb;
	int rank, peers;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct memory *memory;
	struct ibv_qp *qp;
	struct peer {
		int rank, heard;
		char key[16];
		struct hartebeest_ud_address address;
	} *peer;
	int pending;			/* sends not completed yet */
} self;

static int try(int ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "rank %d: %s\n", self.rank, hartebeest_error());
	exit(EXIT_FAILURE);
}

static int post_receive(uint64_t slot)
{
	return hartebeest_post_recv(self.qp, &self.memory->arrivals[slot], sizeof(struct arrival),
				    self.mr->lkey, slot);
}

/* Called in INIT: a datagram that finds no receive is lost. */
static int refill(void *data, struct ibv_qp *qp)
{
	uint64_t slot;
	int ret = 0;

	(void)data;
	(void)qp;
	for (slot = 0; slot < RECEIVES && ret == 0; slot++)
		ret = post_receive(slot);
	return ret;
}

static void create(void)
{
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_cq_attr cq_attr;
	struct hartebeest_qp_attr attr;

	try(hartebeest_pd_create(self.hb, "pd", NULL));
	hartebeest_cq_attr_init(&cq_attr);
	cq_attr.depth = RECEIVES + (uint32_t)self.peers;
	try(hartebeest_cq_create(self.hb, "cq", &cq_attr, &self.cq));
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = sizeof(*self.memory);
	mr_attr.access = IBV_ACCESS_LOCAL_WRITE;
	try(hartebeest_mr_create(self.hb, "mr", &mr_attr, &self.mr));
	self.memory = self.mr->addr;
	hartebeest_qp_attr_init(&attr);
	attr.pd = "pd";
	attr.send_cq = "cq";
	attr.type = IBV_QPT_UD;
	attr.cap.max_send_wr = (uint32_t)self.peers;
	attr.cap.max_recv_wr = RECEIVES;
	try(hartebeest_qp_create(self.hb, "qp", &attr, &self.qp));
	try(hartebeest_qp_refill_set(self.hb, "qp", refill, NULL));
}

/* All ranks except this one. */
static void find_peers(void)
{
	int i, rank, size = try(hartebeest_size(self.hb));

	self.rank = try(hartebeest_rank(self.hb));
	self.peer = calloc((size_t)size, sizeof(*self.peer));
	if (!self.peer)
		exit(EXIT_FAILURE);
	for (i = 0; i < size; i++) {
		rank = try(hartebeest_participant(self.hb, i));
		if (rank == self.rank)
			continue;
		self.peer[self.peers].rank = rank;
		snprintf(self.peer[self.peers++].key, sizeof(self.peer->key), "%d", rank);
	}
}

/* All pairs share one queue pair and one local key, and each gives an address of its peer. */
static void connect(void)
{
	struct hartebeest_pair *pairs = calloc((size_t)self.peers + 1, sizeof(*pairs));
	char own[16];
	int i;

	if (!pairs)
		exit(EXIT_FAILURE);
	snprintf(own, sizeof(own), "%d", self.rank);
	for (i = 0; i < self.peers; i++) {
		hartebeest_pair_init(&pairs[i]);
		pairs[i].qp = "qp";
		pairs[i].key = own;
		pairs[i].peer_key = self.peer[i].key;
	}
	try(hartebeest_pairs_connect(self.hb, pairs, (size_t)self.peers, 0));
	for (i = 0; i < self.peers; i++)
		try(hartebeest_qp_ud_address(self.hb, "qp", self.peer[i].key,
					     &self.peer[i].address));
	free(pairs);
}

static void greet_all(void)
{
	const struct hartebeest_ud_address *to;
	int i, ret;

	for (i = 0; i < self.peers; i++) {
		to = &self.peer[i].address;
		ret = hartebeest_post_send_ud(self.qp, &self.memory->own, sizeof(self.memory->own),
					      self.mr->lkey, to->ah, to->qp_num, to->qkey, RECEIVES,
					      IBV_SEND_SIGNALED);
		if (ret < 0) {
			fprintf(stderr, "rank %d: posting: %s\n", self.rank, strerror(-ret));
			exit(EXIT_FAILURE);
		}
		self.pending++;
	}
}

static void hear(const struct greeting *greeting)
{
	int i;

	for (i = 0; i < self.peers; i++)
		if (self.peer[i].rank == greeting->rank && !self.peer[i].heard++)
			printf("rank %d hears: %s\n", self.rank, greeting->text);
}

/* Takes completions for a moment, and posts the receive of each arrival again. */
static void listen(void)
{
	int64_t until = hartebeest_clock() + PAUSE;
	struct ibv_wc wc;

	while (hartebeest_poll_until(self.cq, 1, &wc, until) > 0) {
		if (wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "rank %d: %s\n", self.rank, ibv_wc_status_str(wc.status));
			exit(EXIT_FAILURE);
		}
		if (wc.opcode & IBV_WC_RECV) {
			hear(&self.memory->arrivals[wc.wr_id].greeting);
			if (post_receive(wc.wr_id) < 0)
				exit(EXIT_FAILURE);
		} else {
			self.pending--;
		}
	}
}

/* Does not wait at the barrier: a rank that has not heard this one still needs its greetings. */
static int all_have_heard_all(void)
{
	int i, ret;

	for (i = 0; i < self.peers; i++)
		if (!self.peer[i].heard)
			return 0;
	ret = hartebeest_barrier(self.hb, "heard", HARTEBEEST_ONCE);
	return ret == -EAGAIN ? 0 : try(ret) == 0;
}

int main(void)
{
	try(hartebeest_open(&self.hb, NULL));
	find_peers();
	create();
	self.memory->own.rank = self.rank;
	snprintf(self.memory->own.text, sizeof(self.memory->own.text), "hello from rank %d",
		 self.rank);
	connect();

	do {
		if (self.pending == 0)
			greet_all();
		listen();
	} while (!all_have_heard_all());
	try(hartebeest_close(self.hb));
	free(self.peer);
	return EXIT_SUCCESS;
}
