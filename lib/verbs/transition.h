/* SPDX-License-Identifier: MIT */
/*
 * transition.h - what two ends agree on, and the three transitions that follow
 *
 * Owns the agreement between two endpoints, the attribute masks of each transport, and the
 * calls of ibv_modify_qp(3).  Deciding is pure, and apart from doing.  Knows nothing of the
 * exchange, of names, or of where an endpoint is from.
 */
#ifndef BEEST_TRANSITION_H
#define BEEST_TRANSITION_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#include "lib/settings/options.h"
#include "lib/base/endpoint.h"
#include "lib/path/pathrec.h"

/* This end: what it publishes, and what only this host understands. */
struct beest_local {
	struct beest_endpoint endpoint;
	const struct beest_qp_options *options;
	enum beest_transport transport;
	uint8_t port;
	uint8_t sgid_index;
	uint16_t pkey_index;
	uint8_t max_init_rd_atomic;	/* device limit on outstanding reads */
	int access_flags;
	struct beest_ece ece;		/* what its device had when it was made */
	uint8_t lmc;			/* number of low LID bits that the port ignores */
	bool asks_rdmacm;		/* which gives the path, so that it may lead to a router */
	const char *label;		/* "mlx5_0:1", for sentences */
};

/* Values that follow from both ends. */
struct beest_connection {
	struct ibv_qp_attr attr;	/* ah_attr, path_mtu, max_rd_atomic, dest_qp_num, rq_psn */
	struct beest_ece ece;		/* of both ends */
	struct ibv_ah *handle;		/* UD: made from attr.ah_attr */
};

/*
 * -EPROTOTYPE: transport or link layer differ; -EPROTO: RoCE version, address family,
 * partition, subnet or sequence number differ, or the peer has no LID; -EINVAL: an option cannot
 * be met.  The sentence has both sides' values, and the option that makes them equal.
 */
int beest_transition_agree(const struct beest_local *local, const struct beest_endpoint *remote,
			   struct beest_connection *path);

/* The options of both; none if the vendors differ.  Both ends find the same. */
struct beest_ece beest_transition_ece(const struct beest_ece *a, const struct beest_ece *b);

/*
 * Takes the path to the peer from a path record of rdma_cm instead of the peer's endpoint:
 * addresses, SL, LID, hop limit, traffic class, rate, and the MTU if it is smaller.
 * @sgid_index is that of route->sgid.  -EXDEV: the path leaves by another port; -EPROTO: it
 * is in another partition.
 */
int beest_transition_apply_path(const struct beest_local *local,
				const struct hartebeest_path *route, uint8_t sgid_index,
				struct beest_connection *path);

/*
 * "path MTU 1024 (4096 here, 1024 at the peer), reads out 4 (of 16 wanted, 16 of the device,
 * 4 at the peer), in 16": what was agreed, and the values it follows from.
 */
const char *beest_transition_agreed_text(const struct beest_local *local,
					 const struct beest_endpoint *remote,
					 const struct beest_connection *path, char *text,
					 size_t size);

enum beest_transition {
	BEEST_TO_INIT,
	BEEST_TO_RTR,
	BEEST_TO_RTS,
	BEEST_TRANSITIONS,
};

/* Fills @attr, also with what the mask, which it returns, leaves out.  @path as below. */
int beest_transition_attr(enum beest_transition step, const struct beest_local *local,
			  const struct beest_connection *path, struct ibv_qp_attr *attr);

/*
 * Takes one step on the device.  The sentence of a failure has the transition, the values of
 * both sides and the likely cause.  @path is NULL for BEEST_TO_INIT.
 */
int beest_transition_take(enum beest_transition step, struct ibv_qp *qp,
			  const struct beest_local *local, const struct beest_connection *path);

/* Makes the address handle of a UD peer.  The sentence of a failure is like that of a step. */
int beest_transition_handle(struct ibv_pd *pd, const struct beest_local *local,
			    struct beest_connection *path);

/* Any state -> RESET. */
int beest_transition_reset(struct ibv_qp *qp);

/* "RC", "UC", "UD", "unknown type". */
const char *beest_transition_type_text(int qp_type);

/* The transport of a queue pair type, or -EOPNOTSUPP. */
int beest_transition_transport(int qp_type);

/* Bytes of an enum ibv_mtu. */
int beest_transition_mtu_bytes(int mtu);

#endif
