/* SPDX-License-Identifier: MIT */
/*
 * pathrec.h - a path through the fabric, as values
 *
 * Owns what a path record of rdma_cm means, and which IP addresses may be asked for.
 * Pure, but for the number of the interface after %.  Knows nothing of librdmacm, which
 * rdmacm.c asks.
 */
#ifndef BEEST_PATHREC_H
#define BEEST_PATHREC_H

#include <stdbool.h>

#include <net/if.h>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>

#include "lib/base/ipaddr.h"

/* From this end to a peer.  Host byte order. */
struct beest_pathrec {
	char device[64];		/* "mlx5_0" */
	uint8_t port;
	bool ethernet;			/* link layer of the port */
	struct beest_ipaddr sgid, dgid;
	uint32_t flow_label;
	uint16_t dlid;			/* InfiniBand */
	uint16_t pkey;
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t mtu;			/* enum ibv_mtu */
	uint8_t rate;			/* enum ibv_rate */
	uint8_t hop_limit;
	uint8_t traffic_class;
	uint8_t life_time;		/* 4.096 us * 2^life_time */
};

/*
 * @lmc of the local port: so many low bits of the local LID are path bits.  Device, port
 * and link layer are the caller's to fill in.
 */
void beest_pathrec_read(const struct ibv_sa_path_rec *record, uint8_t lmc,
			struct beest_pathrec *path);

/*
 * "10.0.0.1", "fd00::1", "fe80::1%eth0" (@scope is the number of the interface then,
 * else 0).  -EINVAL: no address, or one for which rdma_cm would find another:
 * loopback, wildcard, multicast, broadcast.  -ENODEV: no such interface.
 */
int beest_pathrec_parse(const char *text, struct beest_ipaddr *ip, unsigned int *scope);
int beest_pathrec_check(const struct beest_ipaddr *ip);

#endif
