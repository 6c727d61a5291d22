/* SPDX-License-Identifier: MIT */
/*
 * adopt-srq.c - servers, each with one receive queue, and clients; all own their verbs objects
 *
 *	hartebeest run -n 5 -- ./adopt-srq 2
 *
 * The first ranks, 2 here, are servers; each client sends to all of them, and each server returns
 * what it gets.  A program like this usually exchanges queue pair numbers over sockets, one for
 * each pair of processes, and takes its queue pairs to RTS by itself.  Here bring_up() does both.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hartebeest-post.h>
#include <hartebeest.h>

#define SIZE 64
#define ECHOES 100		/* of each client with each server */
#define RECEIVES 32		/* shared by all queue pairs of a process */
#define PEERS 64

static struct ibv_context *verbs;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_mr *mr;
static struct ibv_qp *qps[PEERS];
static char memory[(RECEIVES + 1) * SIZE];

static void need(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(EXIT_FAILURE);
}

/* ------------------------------------------------------ the program's own objects --- */

static void make_objects(int peers)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = RECEIVES, .max_sge = 1 } };
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = RECEIVES, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	int i;

	need(devices && devices[0], "no device");
	verbs = ibv_open_device(devices[0]);
	ibv_free_device_list(devices);
	need(verbs != NULL, "ibv_open_device");
	pd = ibv_alloc_pd(verbs);
	cq = ibv_create_cq(verbs, 2 * RECEIVES, NULL, NULL, 0);
	need(pd && cq, "ibv_create_cq");
	srq = ibv_create_srq(pd, &shared);
	mr = ibv_reg_mr(pd, memory, sizeof(memory), IBV_ACCESS_LOCAL_WRITE);
	need(srq && mr, "ibv_reg_mr");
	init.send_cq = init.recv_cq = cq;
	init.srq = srq;
	for (i = 0; i < peers; i++) {
		qps[i] = ibv_create_qp(pd, &init);
		need(qps[i] != NULL, "ibv_create_qp");
	}
}

/* --------------------------------------------------- what took sockets before --- */

static struct hartebeest_context *hb;

static int try(int ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "%s\n", hartebeest_error());
	exit(EXIT_FAILURE);
}

static void bring_up(int rank, int first, int peers)
{
	static struct hartebeest_pair pairs[PEERS];
	static char names[PEERS][2][32];
	int i;

	try(hartebeest_open_verbs(&hb, NULL, verbs, 1));
	for (i = 0; i < peers; i++) {
		snprintf(names[i][0], 32, "%d-%d", rank, first + i);
		snprintf(names[i][1], 32, "%d-%d", first + i, rank);
		try(hartebeest_qp_adopt(hb, names[i][0], qps[i]));
		hartebeest_pair_init(&pairs[i]);
		pairs[i].qp = pairs[i].key = names[i][0];
		pairs[i].peer_key = names[i][1];
	}
	try(hartebeest_pairs_connect(hb, pairs, (size_t)peers, 0));
}

/* ------------------------------------------------------------------ the echo --- */

/* The next completion, which must be a success. */
static struct ibv_wc completion(void)
{
	char text[512];
	struct ibv_wc wc;

	if (hartebeest_poll_until(cq, 1, &wc, hartebeest_clock() + INT64_C(30000000000)) != 1) {
		fprintf(stderr, "no completion came\n");
		exit(EXIT_FAILURE);
	}
	if (wc.status == IBV_WC_SUCCESS)
		return wc;
	hartebeest_completion_text(hb, &wc, text, sizeof(text));
	fprintf(stderr, "%s\n", text);
	exit(EXIT_FAILURE);
}

static void receive(uint64_t i)
{
	need(!hartebeest_post_srq_recv(srq, memory + i * SIZE, SIZE, mr->lkey, i), "receive");
}

static void send_to(int peer, uint64_t i)
{
	need(!hartebeest_post_send(qps[peer], memory + i * SIZE, SIZE, mr->lkey, i,
				   IBV_SEND_SIGNALED), "send");
}

/* A receive is posted again once its message was returned. */
static void serve(int peers)
{
	int i, left = 2 * peers * ECHOES;	/* received and returned */
	struct ibv_wc wc;

	for (; left > 0; left--) {
		wc = completion();
		if (wc.opcode != IBV_WC_RECV) {
			receive(wc.wr_id);
			continue;
		}
		for (i = 0; qps[i]->qp_num != wc.qp_num; i++)
			;
		send_to(i, wc.wr_id);
	}
	printf("returned %d messages\n", peers * ECHOES);
}

static void ask(int peers)
{
	struct ibv_wc wc;
	int i, n, right = 0;

	for (n = 0; n < peers * ECHOES; n++) {
		snprintf(memory + RECEIVES * SIZE, SIZE, "message %d", n);
		send_to(n % peers, RECEIVES);
		for (i = 0; i < 2; i++) {
			wc = completion();
			if (wc.opcode != IBV_WC_RECV)
				continue;
			right += !strcmp(memory + wc.wr_id * SIZE, memory + RECEIVES * SIZE);
			receive(wc.wr_id);
		}
	}
	printf("%d of %d came back right\n", right, peers * ECHOES);
}

int main(int argc, char **argv)
{
	int servers = argc > 1 ? atoi(argv[1]) : 1, rank, size, peers, serves;
	uint64_t i;

	try(hartebeest_open(&hb, NULL));	/* only to learn rank and size */
	rank = try(hartebeest_rank(hb));
	size = try(hartebeest_size(hb));
	try(hartebeest_close(hb));
	serves = rank < servers;
	peers = serves ? size - servers : servers;
	need(peers > 0 && peers <= PEERS, "number of servers");
	make_objects(peers);
	for (i = 0; i < RECEIVES; i++)
		receive(i);
	bring_up(rank, serves ? servers : 0, peers);
	if (serves)
		serve(peers);
	else
		ask(peers);
	try(hartebeest_barrier(hb, "done", 0));
	try(hartebeest_close(hb));
	return EXIT_SUCCESS;
}
