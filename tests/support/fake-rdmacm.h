/* SPDX-License-Identifier: MIT */
/*
 * fake-rdmacm.h - an rdma_cm made of structs, for tests without one
 *
 * tests/fake-rdmacm.o, linked ahead of librdmacm, answers what lib/resolve asks, from
 * the description in the global below.  It is as strict as the real one: events that
 * are not acknowledged, ids that are not destroyed and calls out of order show.  The
 * devices are those of tests/fake-verbs.
 */
#ifndef FAKE_RDMACM_H
#define FAKE_RDMACM_H

#include <stdbool.h>

#include <infiniband/sa.h>
#include <netinet/in.h>

/* How one call, or the event after it, ends. */
struct fake_cm_end {
	int error;		/* the call fails with this errno */
	int status;		/* the event is an error with this status */
	bool silent;		/* no event ever comes */
};

struct fake_rdmacm {
	struct fake_cm_end channel, id, bind, address, route;
	int late;			/* so many tries for the address end in time-out first */
	bool no_device;			/* ADDR_RESOLVED, and id->verbs stays NULL */
	int device, port;		/* of fake_verbs; port 0 is port 1 */
	struct ibv_sa_path_rec path;
	int paths;

	/* what was seen */
	int open;			/* channels, ids and events alive */
	int asked;			/* paths */
	int timeout_ms;			/* of the last rdma_resolve_addr() */
	int tos;			/* -1: not set */
	struct sockaddr_storage from, to;	/* from.ss_family 0: not bound */
};

extern struct fake_rdmacm fake_rdmacm;

/* fake0, port 1, and a path over RoCE from 10.0.0.1 to 10.0.0.2. */
void fake_rdmacm_reset(void);

/* A path record as a subnet administrator of InfiniBand gives one. */
void fake_rdmacm_infiniband(void);

#endif
