/* SPDX-License-Identifier: MIT */
/*
 * pathrec.h - a path through the fabric, as values
 *
 * Owns how a path record of rdma_cm becomes a struct hartebeest_path, and which IP addresses
 * may be asked for.  Pure, but for the number of the interface after %.  Knows nothing of
 * librdmacm, which rdmacm.c asks.
 */
#ifndef BEEST_PATHREC_H
#define BEEST_PATHREC_H

#include <net/if.h>

#include <infiniband/sa.h>

#include "include/hartebeest.h"
#include "lib/base/ipaddr.h"

/*
 * @lmc of the local port: so many low bits of the local LID are path bits.  Device, port
 * and link layer are the caller's to fill in.
 */
void beest_pathrec_read(const struct ibv_sa_path_rec *record, uint8_t lmc,
			struct hartebeest_path *path);

/*
 * "10.0.0.1", "fd00::1", "fe80::1%eth0" (@scope is the number of the interface then,
 * else 0).  -EINVAL: no address, or one for which rdma_cm would find another:
 * loopback, wildcard, multicast, broadcast.  -ENODEV: no such interface.
 */
int beest_pathrec_parse(const char *text, struct beest_ipaddr *ip, unsigned int *scope);
int beest_pathrec_check(const struct beest_ipaddr *ip);

#endif
