/* SPDX-License-Identifier: MIT */
/*
 * rdmacm.h - resolves the path to an IP address with rdma_cm
 *
 * Owns the one use of librdmacm: it resolves, but neither makes nor connects queue pairs.  A
 * build without librdmacm has rdmacm-none.c instead of rdmacm.c.  Knows nothing of peers and
 * their records.
 */
#ifndef BEEST_RDMACM_H
#define BEEST_RDMACM_H

#include "lib/base/limit.h"
#include "lib/path/pathrec.h"

struct beest_rdmacm_query {
	const struct beest_ipaddr *from;	/* local IP; NULL: the kernel chooses */
	const struct beest_ipaddr *to;	/* IP of the peer */
	unsigned int scope;		/* interface number for link-local addresses; 0: none */
	uint8_t tos;			/* type of service, which becomes the traffic class */
	const struct beest_limit *limit;
};

/*
 * -ENOSYS: built without librdmacm; -EOPNOTSUPP: the kernel's rdma_ucm is not loaded; -EACCES:
 * no permission for /dev/infiniband/rdma_cm; -EINVAL: see beest_pathrec_check(); -EADDRNOTAVAIL:
 * from is no address of this host; -ENODEV: no RDMA device behind from, or behind the interface
 * that leads to @to; -ENETUNREACH, -EHOSTUNREACH: no route; -ETIMEDOUT (-EAGAIN if the limit is
 * a single look): no answer to ARP or neighbour discovery, or from the subnet administrator;
 * -ECANCELED; -EPROTONOSUPPORT: iWARP.  *path is set on success only.
 */
int beest_rdmacm_resolve(const struct beest_rdmacm_query *query, struct hartebeest_path *path);

#endif
