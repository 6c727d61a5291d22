/* SPDX-License-Identifier: MIT */
/*
 * qp.h - a queue pair with a name
 *
 * Owns the struct ibv_qp, unless the program does, this end (what a peer must know, and
 * more) and the address handles of UD.  Knows how to reach INIT, RTR and RTS when handed a
 * peer; knows nothing of where a peer was found.
 */
#ifndef BEEST_QP_H
#define BEEST_QP_H

#include <stdbool.h>

#include "lib/verbs/transition.h"
#include "lib/verbs/port.h"
#include "lib/base/table.h"

/* One peer of a UD queue pair. */
struct beest_ud_peer {
	struct beest_ud_peer *next;
	char key[BEEST_KEY_MAX + 1];
	struct beest_endpoint remote;
	struct ibv_ah *ah;
};

struct beest_qp {
	struct beest_node node;
	struct ibv_qp *qp;
	const struct beest_device *device;
	struct beest_port *port;	/* that INIT took the address from; NULL before */
	bool taken_over;		/* flags, P_Key and Q_Key are what the program chose */
	struct ibv_qp_cap cap;		/* granted */
	struct beest_local local;
	struct beest_gid_entry source;	/* the GID that local.sgid_index is the index of */
	int (*refill)(void *data, struct ibv_qp *qp);
	void *refill_data;

	uint64_t serial;		/* of its records; 0: none was published */
	char key[BEEST_KEY_MAX + 1];	/* published under; "" before that */
	uint32_t published;		/* the generation that was */
	struct hartebeest_remote_mr *regions;	/* that it offers to its peer */
	uint8_t region_count;
	bool untold;			/* connected, which its record does not say yet */
	char peer_key[BEEST_KEY_MAX + 1];	/* connected to; "" before that */
	struct beest_endpoint remote;
	struct beest_ud_peer *addresses;
};

extern const struct beest_kind beest_qp_kind;

/*
 * @attr as for ibv_create_qp(3), sizes that are 0 taken from @options, which has a set for
 * each transport.  Sizes are cut to the device's limits, and inline data halved until it is
 * accepted; what was granted goes to attr->cap and qp->cap.
 */
int beest_qp_create(const struct beest_device *device, struct ibv_pd *pd,
		    const struct beest_qp_options *options, struct ibv_qp_init_attr *attr,
		    struct beest_qp **qp);

/*
 * One of the program, who destroys it: in RESET, or in INIT, whose choices are then read
 * back.  Beyond that it has a name and a state, and can be reset.
 */
int beest_qp_adopt(const struct beest_device *device, const struct beest_qp_options *options,
		   struct ibv_qp *verbs, struct beest_qp **qp);

/*
 * Warns when all that this queue pair alone may have under way does not fit into its
 * completion queues.  After the queue pair got its name.
 */
void beest_qp_warn_of_depth(const struct beest_qp *qp, const struct beest_log *log);

/* Asks the device only where the queue pair may have failed by itself: beyond INIT. */
int beest_qp_state(const struct beest_qp *qp, enum ibv_qp_state *state);

/*
 * RESET -> INIT with GID and P_Key of @port: draws a sequence number, calls refill.
 * INIT is left as it is, read back if the program got there by itself; -EINVAL on another
 * port than @port; -EISCONN beyond INIT.
 */
int beest_qp_init(struct beest_qp *qp, struct beest_port *port);

/* INIT again with the endpoint as it was published, after beest_qp_reset(). */
int beest_qp_init_again(struct beest_qp *qp);

/*
 * -> RTR -> RTS against @remote.  For UD: -> RTS, and an address handle.  rdma_cm is asked
 * until @limit.  @ready gets the time of RTR; NULL: nobody asks.
 */
int beest_qp_connect(struct beest_qp *qp, const char *key, const struct beest_endpoint *remote,
		     const struct beest_limit *limit, int64_t *ready);

/* -> RESET.  Forgets the peer; the key stays. */
int beest_qp_reset(struct beest_qp *qp);

/* -ENOTCONN when this UD queue pair has no address of that key. */
int beest_qp_address(const struct beest_qp *qp, const char *key,
		     const struct beest_ud_peer **address);

#endif
