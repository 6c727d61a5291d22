/* SPDX-License-Identifier: MIT */
/*
 * live.h - one of the two ends of bench/connect, on a real device
 *
 * Owns what all sides need: the socket between the two processes, the queue pairs to be
 * connected, and the buffer of the proof.
 */
#ifndef BENCH_LIVE_H
#define BENCH_LIVE_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#ifdef HAVE_RDMACM
#include <rdma/rdma_cma.h>
#endif

#include "bench/bare.h"
#include "bench/bench.h"
#include "bench/ours.h"

struct live {
	int socket;			/* to the other process */
	char port[64];			/* "mlx5_0:1" */
	struct bare_port bare;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp **qps;		/* pass->size of them */
	struct bare_end *ends;
	char *buffer;
	struct ours_call call;

#ifdef HAVE_RDMACM
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener;
	struct rdma_cm_id **ids;
	struct sockaddr_in address;	/* the listener's */
#endif
};

/* Stores a new end in rank->device, with room for as many queue pairs as the pass wants. */
struct live *live_new(struct bench_rank *rank);

/* All bytes, or a negative errno. */
int live_send(struct live *live, const void *bytes, size_t size);
int live_receive(struct live *live, void *bytes, size_t size);

/* Exchanges a byte each way, so both are here. */
int live_meet(struct live *live);

/* Makes PD, CQ and region on @verbs. */
int live_objects(struct bench_rank *rank, struct ibv_context *verbs);

int cmtime_programs(struct bench_pass *pass);
const char *cmtime_missing(void);

#ifdef HAVE_RDMACM
int cm_open(struct bench_rank *rank);
int cm_work(struct bench_rank *rank);
const char *cm_missing(void);
#endif

#endif
