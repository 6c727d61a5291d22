/* SPDX-License-Identifier: MIT */
/*
 * srq.c - one rank takes the messages of all others from one receive queue
 *
 *	hartebeest run -n 4 -- ./srq
 *
 * On several hosts, start it with srun or mpirun, or by hand with HARTEBEEST_PARTICIPANTS=0-3 and
 * HARTEBEEST_NID=0 and so on.  HARTEBEEST_EXC_IP_PORT=host:port names a Memcached server.
 *
 * Rank 0 has a queue pair to each of the others, but posts only as many receives as it can
 * process: they are shared, and none is wasted on a rank that is silent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hartebeest-post.h>
#include <hartebeest.h>

#define RECEIVES 16		/* shared by all queue pairs */
#define MESSAGES 100		/* from each rank */
#define SIZE 64

static struct hartebeest_context *hb;
static struct ibv_cq *cq;
static struct ibv_mr *mr;

static int try(int ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "%s\n", hartebeest_error());
	exit(EXIT_FAILURE);
}

static void posted(int ret)
{
	if (ret == 0)
		return;
	fprintf(stderr, "posting: %s\n", strerror(-ret));
	exit(EXIT_FAILURE);
}

/* The next completion, which must be a success. */
static struct ibv_wc completion(void)
{
	char text[512];
	struct ibv_wc wc;

	try(hartebeest_cq_wait(hb, cq, 1, &wc, 0));
	if (wc.status == IBV_WC_SUCCESS)
		return wc;
	hartebeest_completion_text(hb, &wc, text, sizeof(text));
	fprintf(stderr, "%s\n", text);
	exit(EXIT_FAILURE);
}

/* "0-3" is the queue pair of rank 0 to rank 3, under that name and key. */
static struct ibv_qp *create_qp(const char *srq, int from, int to, char name[2][32])
{
	struct hartebeest_qp_attr attr;
	struct ibv_qp *qp;

	snprintf(name[0], 32, "%d-%d", from, to);
	snprintf(name[1], 32, "%d-%d", to, from);
	hartebeest_qp_attr_init(&attr);
	attr.pd = "pd";
	attr.send_cq = "cq";
	attr.srq = srq;
	attr.type = IBV_QPT_RC;
	try(hartebeest_qp_create(hb, name[0], &attr, &qp));
	return qp;
}

static void fill_pair(struct hartebeest_pair *pair, char name[2][32])
{
	hartebeest_pair_init(pair);
	pair->qp = pair->key = name[0];
	pair->peer_key = name[1];
}

static void serve(int size)
{
	struct hartebeest_srq_attr srq_attr;
	struct hartebeest_pair *pairs = calloc((size_t)size, sizeof(*pairs));
	struct ibv_qp **qp = calloc((size_t)size, sizeof(struct ibv_qp *));
	int *count = calloc((size_t)size, sizeof(*count));
	char (*names)[2][32] = calloc((size_t)size, sizeof(*names));
	int i, left = (size - 1) * MESSAGES;
	struct ibv_srq *srq;
	struct ibv_wc wc;

	hartebeest_srq_attr_init(&srq_attr);
	srq_attr.pd = "pd";
	srq_attr.max_wr = RECEIVES;
	srq_attr.max_sge = 1;
	try(hartebeest_srq_create(hb, "receives", &srq_attr, &srq));
	for (i = 0; i < RECEIVES; i++)
		posted(hartebeest_post_srq_recv(srq, (char *)mr->addr + i * SIZE, SIZE, mr->lkey,
						(uint64_t)i));
	for (i = 1; i < size; i++) {
		qp[i] = create_qp("receives", 0, i, names[i]);
		fill_pair(&pairs[i - 1], names[i]);
	}
	try(hartebeest_pairs_connect(hb, pairs, (size_t)size - 1, 0));

	while (left-- > 0) {
		wc = completion();
		for (i = 1; qp[i]->qp_num != wc.qp_num; i++)
			;
		count[i]++;
		posted(hartebeest_post_srq_recv(srq, (char *)mr->addr + wc.wr_id * SIZE, SIZE,
						mr->lkey, wc.wr_id));
	}
	for (i = 1; i < size; i++)
		printf("rank %d sent %d messages\n", i, count[i]);
	free(names);
	free(count);
	free(qp);
	free(pairs);
}

/* A message that finds no receive is tried again by the device (RNR). */
static void send_all(int rank)
{
	struct hartebeest_pair pair;
	char name[2][32];
	struct ibv_qp *qp = create_qp(NULL, rank, 0, name);
	int i;

	fill_pair(&pair, name);
	try(hartebeest_pairs_connect(hb, &pair, 1, 0));
	for (i = 0; i < MESSAGES; i++) {
		posted(hartebeest_post_send(qp, mr->addr, SIZE, mr->lkey, (uint64_t)i,
					    IBV_SEND_SIGNALED));
		completion();
	}
	printf("rank %d: all sent\n", rank);
}

int main(void)
{
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_cq_attr cq_attr;
	int rank, size;

	try(hartebeest_open(&hb, NULL));
	rank = try(hartebeest_rank(hb));
	size = try(hartebeest_size(hb));
	try(hartebeest_pd_create(hb, "pd", NULL));
	hartebeest_cq_attr_init(&cq_attr);
	cq_attr.flags = HARTEBEEST_CQ_CHANNEL;
	try(hartebeest_cq_create(hb, "cq", &cq_attr, &cq));
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = RECEIVES * SIZE;
	mr_attr.access = IBV_ACCESS_LOCAL_WRITE;
	try(hartebeest_mr_create(hb, "mr", &mr_attr, &mr));
	if (rank == 0)
		serve(size);
	else
		send_all(rank);
	try(hartebeest_barrier(hb, "done", 0));
	try(hartebeest_close(hb));
	return EXIT_SUCCESS;
}
