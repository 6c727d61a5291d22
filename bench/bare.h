/* SPDX-License-Identifier: MIT */
/*
 * bare.h - a queue pair by verbs calls alone, for the sides without the library
 *
 * Owns the attributes of the three transitions.  Does not know how the two ends learn of each
 * other.
 */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H

#include <infiniband/verbs.h>
#include <stdint.h>

/* An open port and its address. */
struct bare_port {
	struct ibv_context *verbs;
	uint8_t number;
	int gid_index;
	union ibv_gid gid;
	uint16_t lid;
	uint8_t link_layer;
	enum ibv_mtu mtu;
};

/* What the other end must know. */
struct bare_end {
	uint32_t qp_num, psn;
	union ibv_gid gid;
	uint16_t lid;
};

/* @name is "mlx5_0:1"; NULL: port 1 of the first device.  0 or a negative errno. */
int bare_open(struct bare_port *port, const char *name);

/* The library's defaults, so that all sides make the same queue pairs. */
struct ibv_qp_init_attr bare_init_attr(struct ibv_cq *cq);

/* Takes a queue pair from RESET to INIT, and notes what its peer must know. */
int bare_init(const struct bare_port *port, struct ibv_qp *qp, struct bare_end *end);

/* A queue pair in INIT; NULL on failure. */
struct ibv_qp *bare_create(const struct bare_port *port, struct ibv_pd *pd,
			   struct ibv_cq *cq, struct bare_end *end);

/* Takes a queue pair from INIT to RTS. */
int bare_connect(const struct bare_port *port, struct ibv_qp *qp, const struct bare_end *own,
		 const struct bare_end *peer);

#endif
