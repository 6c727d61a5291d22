/* SPDX-License-Identifier: MIT */
/*
 * fake-verbs.h - a simulated verbs layer, for tests without a device
 *
 * tests/support/libfake.a, linked before libibverbs, answers every verbs call of the library
 * according to the global below.  It enforces what the kernel enforces (attribute masks, states,
 * address vectors, limits, EBUSY), counts open objects, can fail any call, and records what it was
 * told.
 *
 * It also answers getifaddrs(3): the interfaces are those of the GID tables, unless a test
 * describes others.
 *
 * Usual course of a test:
 *
 * 	fake_verbs_reset();				one RoCE device "fake0"
 * 	fake_verbs.devices[0].ports[0].lmc = 2;		describe what is different
 * 	fake_verbs_fail("ibv_create_cq", 1, ENOMEM);	arm a failure
 * 	... call the library ...
 * 	assert_int_equal(fake_verbs.open, 0);
 *
 * tests/support/fake-world.h describes whole machines by text.
 */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <infiniband/verbs.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_DEVICES 8
#define FAKE_PORTS 4
#define FAKE_GIDS 272
#define FAKE_PKEYS 16
#define FAKE_FAILURES 8
#define FAKE_EVENTS 8
#define FAKE_INTERFACES 64
#define FAKE_ADDRESSES 4
#define FAKE_WRS 64
#define FAKE_SGES 4
#define FAKE_INLINE 256
#define FAKE_HISTORY 8192

/* For fake_verbs_fail(): fails without setting errno, as old providers do. */
#define FAKE_NO_ERRNO INT_MIN

/* ------------------------------------------------------ the description --- */

struct fake_gid {
	const char *gid;		/* "fe80::1", "::ffff:10.0.0.1"; NULL: empty entry */
	int roce;			/* 1, 2; 0: InfiniBand */
	const char *netdev;		/* NULL: unknown to the kernel; on InfiniBand: IPoIB */
	bool netdev_down;		/* without IFF_UP and IFF_RUNNING */
	int error;			/* reading fails with this errno */
	int ah_error;			/* address handles and RTR from this GID fail with it */
	uint32_t number;		/* the kernel's interface number; 0: that of netdev */
};

/* An interface that this process sees. */
struct fake_interface {
	const char *name;
	uint32_t number;		/* 1 or more */
	bool down;			/* without IFF_UP and IFF_RUNNING */
	const char *hardware;		/* "02:00:00:00:00:01"; of IPoIB: its GID, "fe80::7" */
	const char *addresses[FAKE_ADDRESSES];	/* "10.0.0.1", "fe80::1" */
};

struct fake_port {
	enum ibv_port_state state;
	uint8_t link_layer;		/* IBV_LINK_LAYER_* */
	uint8_t lmc;
	uint8_t flags;			/* IBV_QPF_GRH_REQUIRED */
	uint16_t lid;
	enum ibv_mtu active_mtu;
	int gid_count;			/* gid_tbl_len, empty entries included */
	struct fake_gid gids[FAKE_GIDS];
	int pkey_count;			/* pkey_tbl_len */
	uint16_t pkeys[FAKE_PKEYS];	/* host byte order */
	/* IP address of the interface of the GID with this index; NULL: the GID, if it is one. */
	const char *ips[FAKE_GIDS];
};

struct fake_device {
	const char *name;
	enum ibv_node_type node_type;
	enum ibv_transport_type transport;
	const char *ibdev_path;		/* sysfs folder; NULL: derived from the GID table */
	struct ibv_device_attr attr;	/* limits, vendor_id, atomic_cap, phys_port_cnt; RTR takes
					   from max_res_rd_atom, if that is not 0 */
	uint32_t max_inline;		/* ibv_create_qp fails with inline_error above it */
	int inline_error;
	int open_error;			/* ibv_open_device fails with this errno */
	uint32_t ece_vendor, ece_options;	/* vendor 0: no options */
	uint32_t ece_refuses;		/* RTR does without these of the options set */
	int ece_error;			/* ibv_set_ece fails with this errno */
	struct fake_port ports[FAKE_PORTS];	/* ports[0] is port 1 */
};

/* ----------------------------------------------------------- the records --- */

struct fake_modify {
	uint32_t qp_num;
	enum ibv_qp_state from;		/* before the call */
	struct ibv_qp_attr attr;	/* as given */
	int mask;
	int ret;			/* returned to the caller */
};

struct fake_wr {
	uint32_t qp_num;
	bool receive;			/* recv is set, else send */
	struct ibv_send_wr send;	/* do not follow next and sg_list */
	struct ibv_recv_wr recv;
	struct ibv_sge sge[FAKE_SGES];
	uint8_t bytes[FAKE_INLINE];	/* of IBV_SEND_INLINE, as they were when posted */
	size_t byte_count;
};

struct fake_failure {
	const char *function;		/* NULL: slot unused */
	int nth;			/* calls still to go; 0: every call */
	int error;
};

struct fake_verbs {
	/* A reset clears only the counts of these two. */
	struct fake_device devices[FAKE_DEVICES];
	struct fake_modify modified[FAKE_HISTORY];	/* a ring */

	int device_count;
	size_t modified_count;

	/* Living objects; open is the sum of all. */
	int open;
	int lists, contexts, pds, mrs, cqs, srqs, qps, ahs, channels;

	struct fake_wr posted[FAKE_WRS];		/* a ring */
	size_t posted_count;
	bool complete_sends;	/* signaled sends complete at once with complete_status */
	enum ibv_wc_status complete_status;

	uint32_t next_qp_num;	/* of the next queue pair, as devices reuse numbers; 0: a new one */

	struct ibv_async_event events[FAKE_EVENTS];	/* for ibv_get_async_event */
	int event_count;
	int acked_events;

	/* If there is one, getifaddrs(3) returns these instead of those of the GID tables. */
	struct fake_interface interfaces[FAKE_INTERFACES];
	int interface_count;

	/*
	 * Called first by every function, with its name, so that a test can change things
	 * meanwhile.
	 */
	void (*hook)(const char *function);

	/* internal */
	struct fake_failure failures[FAKE_FAILURES];
	int fired;
};

extern struct fake_verbs fake_verbs;

/*
 * Frees all that a test left open, resets everything, and describes one device "fake0" with an
 * active RoCE port 1: interface "eth0", MTU 1024, GIDs 0 and 1 link-local (v1, v2), 2 and 3
 * ::ffff:10.0.0.1 (v1, v2), P_Key 0xffff.
 */
void fake_verbs_reset(void);

/*
 * The same with an InfiniBand port: LID 7, MTU 4096, one GID (fe80::7, index 0),
 * P_Keys 0xffff and 0x8012.
 */
void fake_verbs_infiniband(void);

/* Adds a device, as a copy of the first one with another name. */
struct fake_device *fake_verbs_add(const char *name);

/* ---------------------------------------------------------- steering it --- */

/*
 * The @nth call from now (1: the next; 0: every one) of @function fails with @error: the errno,
 * returned or set as that function does, or FAKE_NO_ERRNO.  "*" is any function except
 * destructors.  Names are those of the manual: "ibv_query_port", "ibv_reg_mr",
 * "ibv_query_gid_ex", "ibv_post_send", "ibv_poll_cq", ...
 */
void fake_verbs_fail(const char *function, int nth, int error);

/*
 * How many armed failures have happened.  To try all calls:
 *
 * 	for (n = 1; ; n++) {
 * 		fake_verbs_reset();
 * 		fake_verbs_fail("*", n, EIO);
 * 		ret = ...;
 * 		if (!fake_verbs.fired)
 * 			break;
 * 		... it failed, or did without; nothing may stay open ...
 * 	}
 */

/* How many times @function was called since the reset. */
int fake_verbs_calls(const char *function);

/*
 * Appends an event for ibv_get_async_event(3) and makes async_fd readable.  All contexts share
 * both.
 */
void fake_verbs_raise(const struct ibv_async_event *event);

/* The options of this queue pair as set, or as RTR took them; 0: none were set. */
uint32_t fake_verbs_ece(const struct ibv_qp *qp);

/* The last modification of this queue pair; NULL: none yet. */
const struct fake_modify *fake_verbs_last_modify(const struct ibv_qp *qp);

/* The @back-th last work request, 0 being the last; NULL if there are fewer. */
const struct fake_wr *fake_verbs_posted(size_t back);

/* Changes the state as a device would by itself: to ERR after a failed transfer. */
void fake_verbs_set_state(struct ibv_qp *qp, enum ibv_qp_state state);

/* The completion vector with which a queue was created. */
int fake_verbs_vector(struct ibv_cq *cq);

/*
 * Appends a completion for ibv_poll_cq(3), which returns it once.  If the queue is armed and
 * has a channel, this makes an event and disarms it.
 */
void fake_verbs_complete(struct ibv_cq *cq, const struct ibv_wc *wc);

#endif
