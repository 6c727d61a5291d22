/* SPDX-License-Identifier: MIT */
/*
 * registry.c - a registry of names: clients that are not known in advance find a server
 *
 *	hartebeest run -n 4 -- ./registry
 *
 * Rank 0 is the server "door", a UD queue pair for whoever sends to it.  A client draws a number,
 * publishes its own queue pair as "client-N" and sends N to the door.  The server then makes
 * "server-N" for it, whose receives all clients share, and returns what they send.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hartebeest-post.h>
#include <hartebeest.h>

#define SIZE 64
#define GRH 40			/* before each datagram */
#define ECHOES 10		/* of each client */
#define RECEIVES 16

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

/* A post sets no sentence. */
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
	try(hartebeest_completion_text(hb, &wc, text, sizeof(text)));
	if (wc.status == IBV_WC_SUCCESS)
		return wc;
	fprintf(stderr, "%s\n", text);
	exit(EXIT_FAILURE);
}

static char *slot(uint64_t i)
{
	return (char *)mr->addr + i * (GRH + SIZE);
}

static struct ibv_qp *create(const char *name, enum ibv_qp_type type, const char *srq)
{
	struct hartebeest_qp_attr attr;
	struct ibv_qp *qp;

	hartebeest_qp_attr_init(&attr);
	attr.pd = "pd";
	attr.send_cq = "cq";
	attr.srq = srq;
	attr.type = type;
	try(hartebeest_qp_create(hb, name, &attr, &qp));
	try(hartebeest_qp_publish(hb, name, name, 0));
	return qp;
}

/* ------------------------------------------------------------------- the registry --- */

/* Waits until @peer is published, but not until it is connected, too. */
static void connect_to(const char *name, const char *peer)
{
	try(hartebeest_qp_connect(hb, name, peer, 0));
}

/* Waits until @peer, whichever queue pair it is connected to, is ready. */
static void wait_ready(const char *peer)
{
	try(hartebeest_qp_confirm(hb, NULL, peer, 0));
}

/* --------------------------------------------------------------------- both sides --- */

static void admit(unsigned int number, struct ibv_qp **qp)
{
	char own[32], peer[32];

	snprintf(own, sizeof(own), "server-%u", number);
	snprintf(peer, sizeof(peer), "client-%u", number);
	*qp = create(own, IBV_QPT_RC, "shared");
	connect_to(own, peer);
	wait_ready(peer);
	printf("%s has come\n", peer);
}

static void serve(int clients)
{
	struct ibv_qp *door, *qp[64] = { NULL };
	struct hartebeest_srq_attr attr;
	int i, left = clients * ECHOES, sent;
	struct ibv_srq *srq;
	unsigned int number;
	struct ibv_wc wc;

	hartebeest_srq_attr_init(&attr);
	attr.pd = "pd";
	attr.max_wr = RECEIVES;
	attr.max_sge = 1;
	try(hartebeest_srq_create(hb, "shared", &attr, &srq));
	for (i = 0; i < RECEIVES; i++)
		posted(hartebeest_post_srq_recv(srq, slot((uint64_t)i), GRH + SIZE, mr->lkey,
						(uint64_t)i));
	door = create("door", IBV_QPT_UD, "shared");
	for (sent = 0; left > 0 || sent > 0; ) {
		wc = completion();
		if (wc.opcode != IBV_WC_RECV) {
			sent--;
			posted(hartebeest_post_srq_recv(srq, slot(wc.wr_id), GRH + SIZE, mr->lkey,
							wc.wr_id));
		} else if (wc.qp_num == door->qp_num) {
			memcpy(&number, slot(wc.wr_id) + GRH, sizeof(number));
			admit(number, &qp[number % 64]);
			posted(hartebeest_post_srq_recv(srq, slot(wc.wr_id), GRH + SIZE, mr->lkey,
							wc.wr_id));
		} else {
			for (i = 0; !qp[i] || qp[i]->qp_num != wc.qp_num; i++)
				;
			posted(hartebeest_post_send(qp[i], slot(wc.wr_id), SIZE, mr->lkey,
						    wc.wr_id, IBV_SEND_SIGNALED));
			left--;
			sent++;
		}
	}
	printf("clients served: %d\n", clients);
}

static void visit(void)
{
	struct hartebeest_ud_address address;
	struct ibv_qp *qp, *ud;
	char own[32], peer[32], knock[32];
	uint64_t number;
	int i;

	try(hartebeest_counter_add(hb, "clients", 1, &number, 0));
	snprintf(own, sizeof(own), "client-%u", (unsigned int)number);
	snprintf(peer, sizeof(peer), "server-%u", (unsigned int)number);
	snprintf(knock, sizeof(knock), "knock-%u", (unsigned int)number);
	qp = create(own, IBV_QPT_RC, NULL);
	ud = create(knock, IBV_QPT_UD, NULL);
	connect_to(knock, "door");
	try(hartebeest_qp_ud_address(hb, knock, "door", &address));
	memcpy(slot(0), &number, sizeof(number));
	posted(hartebeest_post_send_ud(ud, slot(0), SIZE, mr->lkey, address.ah, address.qp_num,
				       address.qkey, 0, IBV_SEND_SIGNALED));
	completion();
	connect_to(own, peer);
	wait_ready(peer);
	for (i = 0; i < ECHOES; i++) {
		snprintf(slot(1), SIZE, "echo %d of %s", i, own);
		posted(hartebeest_post_recv(qp, slot(2), SIZE, mr->lkey, 2));
		posted(hartebeest_post_send(qp, slot(1), SIZE, mr->lkey, 1, IBV_SEND_SIGNALED));
		completion();
		completion();
		if (strcmp(slot(1), slot(2)) != 0)
			exit(EXIT_FAILURE);
	}
	printf("%s: %d echoes\n", own, ECHOES);
}

int main(void)
{
	struct hartebeest_cq_attr cq_attr;
	struct hartebeest_mr_attr mr_attr;
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
	mr_attr.length = RECEIVES * (GRH + SIZE);
	mr_attr.access = IBV_ACCESS_LOCAL_WRITE;
	try(hartebeest_mr_create(hb, "mr", &mr_attr, &mr));
	if (rank == 0)
		serve(size - 1);
	else
		visit();
	try(hartebeest_barrier(hb, "done", 0));
	try(hartebeest_close(hb));
	return EXIT_SUCCESS;
}
