/* SPDX-License-Identifier: MIT */
/*
 * qp.h - a queue pair with a name
 *
 * Owns the struct ibv_qp, unless the program does, this end of the connection, and the
 * address handles of UD.  Knows how to reach INIT, RTR and RTS with a given peer; knows
 * nothing of where the peer was found.
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
	struct beest_port *port;	/* whose address INIT took; NULL before */
	bool taken_over;		/* the program chose access flags, P_Key and Q_Key */
	struct ibv_qp_cap cap;		/* granted by the device */
	struct beest_local local;
	struct beest_gid_entry source;	/* the GID at index local.sgid_index */
	int (*refill)(void *data, struct ibv_qp *qp);
	void *refill_data;

	char key[BEEST_KEY_MAX + 1];	/* of its record; "": not published */
	uint32_t published;		/* the generation in its record */
	struct hartebeest_remote_mr *regions;	/* offered to its peer */
	uint8_t region_count;
	bool by_bytes;			/* its peer gets what it publishes from the program */
	char *refusal;			/* for these bytes: why not connected to remote; or NULL */
	bool untold;			/* connected, but its record does not show it yet */
	char peer_key[BEEST_KEY_MAX + 1];	/* "": not connected; UD: the latest peer's */
	struct beest_endpoint remote;
	struct beest_ud_peer *addresses;	/* of UD, each of another peer */
};

extern const struct beest_kind beest_qp_kind;

/* A queue pair without a name, to be freed.  NULL, and errno. */
struct ibv_qp *beest_qp_alloc(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int beest_qp_free(struct ibv_qp *verbs);

/*
 * @attr as for ibv_create_qp(3).  Sizes of 0 are taken from @options, an array by transport.
 * Sizes are capped at the device's limits, and inline data is halved until it is accepted.
 * attr->cap and qp->cap get what was granted.
 */
int beest_qp_create(const struct beest_device *device, struct ibv_pd *pd,
		    const struct beest_qp_options *options, struct ibv_qp_init_attr *attr,
		    struct beest_qp **qp);

/*
 * A queue pair of the program, which also destroys it: in RESET, or in INIT, where
 * beest_qp_init() reads back the program's choices, as it does of UD in RTS.  Any other beyond INIT
 * has only a name and a state, and can be reset.
 */
int beest_qp_adopt(const struct beest_device *device, const struct beest_qp_options *options,
		   struct ibv_qp *verbs, struct beest_qp **qp);

/*
 * How many requests it may have under way whose completions @queue gets.  Reads only @qp itself.
 * Receives of a shared receive queue are not counted: they belong to no single queue pair.
 */
int64_t beest_qp_requests(const struct beest_qp *qp, const struct ibv_cq *queue);

/* Asks the device only beyond INIT, where the queue pair may have failed by itself. */
int beest_qp_state(const struct beest_qp *qp, enum ibv_qp_state *state);

/*
 * RESET -> INIT with GID and P_Key of @port: draws a sequence number and calls refill.  A
 * queue pair in INIT stays as it is; if the program took it there, its choices are read
 * back.  -EINVAL: it is on another port than @port; -EISCONN: it is beyond INIT.
 */
int beest_qp_init(struct beest_qp *qp, struct beest_port *port);

/*
 * Looks up LID and MTU of the port again.  1: they are others than INIT found, and @qp has another
 * generation: it is to be published before a peer counts as connected.  0: they are the same.
 * Errors of beest_port_look_again().
 */
int beest_qp_look_again(struct beest_qp *qp);

/*
 * A UD queue pair in INIT -> RTS, for those that send to it; looks again, since these peers do not
 * confirm.  Does nothing with any other.
 */
int beest_qp_serve(struct beest_qp *qp);

/* RESET -> INIT with the endpoint as it was published, after beest_qp_reset(). */
int beest_qp_init_again(struct beest_qp *qp);

/*
 * Leaves resources of the device for the reads and atomics of @count queue pairs like this one,
 * which is in INIT and was not published yet.
 */
void beest_qp_share_reads(struct beest_qp *qp, size_t count);

/*
 * Do both ends agree?  As beest_transition_agree(); the sentence of -EPROTO also notes if the
 * address that was published has been lost, or if this end has a fitting one by now.
 */
int beest_qp_agree(const struct beest_qp *qp, const struct beest_endpoint *remote,
		   struct beest_connection *path);

/*
 * INIT -> RTR -> RTS, connected to @remote.  Looks again first if it was published.  If the device
 * has too few resources for the reads and atomics of the peer, answers fewer at once.  In both
 * cases, it may have another generation than its record afterwards.
 * UD: -> RTS the first time, and an address
 * handle for @remote.  @limit is for the query to rdma_cm.  @ready gets the time of RTR; it
 * may be NULL.
 */
int beest_qp_connect(struct beest_qp *qp, const char *key, const struct beest_endpoint *remote,
		     const struct beest_limit *limit, int64_t *ready);

/* Any state -> RESET.  Forgets the peer; its own key stays. */
int beest_qp_reset(struct beest_qp *qp);

/*
 * The peer under @key that it is connected to or, of UD, has an address of.  NULL: neither.
 * Valid until the next call that changes it.
 */
const struct beest_endpoint *beest_qp_remote(const struct beest_qp *qp, const char *key);

/* -ENOTCONN: this UD queue pair has no address for @key. */
int beest_qp_address(const struct beest_qp *qp, const char *key,
		     struct hartebeest_ud_address *address);

#endif
