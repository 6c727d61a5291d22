/* SPDX-License-Identifier: MIT */
/*
 * fake-rdmacm.h - a simulated rdma_cm, for tests without one
 *
 * tests/support/libfake.a, linked before librdmacm, answers the calls of lib/path/rdmacm.c
 * according to the global below.  It is as strict as the real one: it shows events that were not
 * acknowledged, ids that were not destroyed, and calls out of order.  Devices are those of
 * tests/support/fake-verbs.h.
 */
#ifndef FAKE_RDMACM_H
#define FAKE_RDMACM_H

#include <stdbool.h>

#include <infiniband/sa.h>
#include <netinet/in.h>

/* How a call, or the event after it, ends. */
struct fake_cm_end {
	int error;		/* the call fails with this errno */
	int status;		/* the event is an error with this status */
	bool silent;		/* no event ever comes */
};

struct fake_rdmacm {
	struct fake_cm_end channel, id, bind, address, route;
	int late;			/* that many tries for the address time out first */
	bool no_device;			/* ADDR_RESOLVED, but id->verbs stays NULL */
	int device, port;		/* indexes of fake_verbs; port 0 is port 1 */
	struct ibv_sa_path_rec path;
	int paths;

	/* recorded */
	int open;			/* channels, ids and events alive */
	int asked;			/* number of paths */
	int timeout_ms;			/* of the last rdma_resolve_addr() */
	int tos;			/* -1: not set */
	struct sockaddr_storage from, to;	/* from.ss_family 0: not bound */
};

extern struct fake_rdmacm fake_rdmacm;

/* Sets fake0, port 1, and a path over RoCE from 10.0.0.1 to 10.0.0.2. */
void fake_rdmacm_reset(void);

/* Sets a path record as an InfiniBand subnet administrator returns it. */
void fake_rdmacm_infiniband(void);

#endif
