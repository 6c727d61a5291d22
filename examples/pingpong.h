/* SPDX-License-Identifier: MIT */
/*
 * pingpong.h - a program that makes all objects by its own verbs calls
 *
 * The common part of examples/pingpong-socket.c and examples/adopt.c: device, protection domain,
 * completion queue, region and queue pair, and messages to and fro.  The programs differ in how
 * the two ends find each other.
 */
#ifndef PINGPONG_H
#define PINGPONG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

#define SIZE 1024		/* bytes of a message */
#define ROUNDS 200

struct pingpong {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	int sends, receives;		/* completed so far */
	char sent[SIZE], received[SIZE];
};

static void need(int condition, const char *what)
{
	if (condition)
		return;
	perror(what);
	exit(EXIT_FAILURE);
}

/* The first device whose first port is active. */
static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **each;
	struct ibv_context *verbs = NULL;
	struct ibv_port_attr attr;

	for (each = list; each && *each; each++) {
		verbs = ibv_open_device(*each);
		if (verbs && ibv_query_port(verbs, 1, &attr) == 0 &&
		    attr.state == IBV_PORT_ACTIVE)
			break;
		if (verbs)
			ibv_close_device(verbs);
		verbs = NULL;
	}
	if (list)
		ibv_free_device_list(list);
	need(verbs != NULL, "no device with an active port");
	return verbs;
}

static void create(struct pingpong *self)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	self->verbs = open_device();
	self->pd = ibv_alloc_pd(self->verbs);
	need(self->pd != NULL, "protection domain");
	self->cq = ibv_create_cq(self->verbs, 8, NULL, NULL, 0);
	need(self->cq != NULL, "completion queue");
	self->mr = ibv_reg_mr(self->pd, self, sizeof(*self), IBV_ACCESS_LOCAL_WRITE);
	need(self->mr != NULL, "memory region");
	attr.send_cq = attr.recv_cq = self->cq;
	self->qp = ibv_create_qp(self->pd, &attr);
	need(self->qp != NULL, "queue pair");
}

static void destroy(struct pingpong *self)
{
	ibv_destroy_qp(self->qp);
	ibv_dereg_mr(self->mr);
	ibv_destroy_cq(self->cq);
	ibv_dealloc_pd(self->pd);
	ibv_close_device(self->verbs);
}

/* ------------------------------------------------------------ messages --- */

static int post_receive(struct pingpong *self)
{
	struct ibv_sge sge = { (uintptr_t)self->received, SIZE, self->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(self->qp, &wr, &bad);
}

static void post_send(struct pingpong *self)
{
	struct ibv_sge sge = { (uintptr_t)self->sent, SIZE, self->mr->lkey };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 }, *bad;

	need(ibv_post_send(self->qp, &wr, &bad) == 0, "send");
}

/* Waits for these totals since the start: a completion may come before it is waited for. */
static void wait_until(struct pingpong *self, int sends, int receives)
{
	struct ibv_wc wc;
	int ret;

	while (self->sends < sends || self->receives < receives) {
		ret = ibv_poll_cq(self->cq, 1, &wc);
		if (ret == 0)
			continue;
		if (ret < 0 || wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "%s\n", ret < 0 ? "polling failed" :
				ibv_wc_status_str(wc.status));
			exit(EXIT_FAILURE);
		}
		if (wc.opcode & IBV_WC_RECV)
			self->receives++;
		else
			self->sends++;
	}
}

/* One receive is posted before the two ends are connected, and then always one ahead. */
static void play(struct pingpong *self, int begins)
{
	struct timespec start, end;
	int round;

	memset(self->sent, begins ? 'i' : 'o', SIZE);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (round = 1; round <= ROUNDS; round++) {
		if (begins)
			post_send(self);
		wait_until(self, round - !begins, round);
		need(self->received[round % SIZE] == (begins ? 'o' : 'i'), "wrong contents");
		if (round < ROUNDS)
			need(post_receive(self) == 0, "receive");
		if (!begins)
			post_send(self);
	}
	wait_until(self, ROUNDS, ROUNDS);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%d round trips of %d bytes, %.1f us each\n", ROUNDS, SIZE,
	       ((double)(end.tv_sec - start.tv_sec) * 1e6 +
		(double)(end.tv_nsec - start.tv_nsec) / 1e3) / ROUNDS);
}

#endif
