/* SPDX-License-Identifier: MIT */
/*
 * pathrec.h - reads path records and the addresses to resolve
 *
 * Owns how a path record of rdma_cm becomes a struct hartebeest_path, and which IP addresses
 * may be resolved.  Pure, except that it looks up the number of the interface after %.  Knows
 * nothing of librdmacm, which rdmacm.c calls.
 */
#ifndef BEEST_PATHREC_H
#define BEEST_PATHREC_H

#include <net/if.h>

#include <infiniband/sa.h>

#include "include/hartebeest.h"
#include "lib/base/ipaddr.h"

/*
 * @lmc: of the local port, the number of low bits of the local LID that are path bits.  The
 * caller fills in device, port and link layer.
 */
void beest_pathrec_read(const struct ibv_sa_path_rec *record, uint8_t lmc,
			struct hartebeest_path *path);

/*
 * Reads "10.0.0.1", "fd00::1" or "fe80::1%eth0" (*scope is then the number of the interface,
 * else 0).  -EINVAL: not an address, or one that beest_pathrec_check() refuses; -ENODEV: no such
 * interface.
 */
int beest_pathrec_parse(const char *text, struct beest_ipaddr *ip, unsigned int *scope);

/*
 * -EINVAL: a loopback, wildcard, multicast or broadcast address, for which rdma_cm would find
 * another address.
 */
int beest_pathrec_check(const struct beest_ipaddr *ip);

#endif
