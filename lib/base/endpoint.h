/* SPDX-License-Identifier: MIT */
/*
 * endpoint.h - one end of a connection, as both ends know it
 *
 * Owns the struct that describes an end, and the words for its fields.  Knows nothing of how
 * it is transmitted, or of the host that it is on.
 */
#ifndef BEEST_ENDPOINT_H
#define BEEST_ENDPOINT_H

#include <stdint.h>

#include "lib/base/ipaddr.h"
#include "lib/base/process.h"

enum beest_roce {
	BEEST_ROCE_NONE = 0,		/* InfiniBand */
	BEEST_ROCE_V1 = 1,
	BEEST_ROCE_V2 = 2,
};

/* Options of an adapter, as in struct ibv_ece; a vendor of 0: it knows of none. */
struct beest_ece {
	uint32_t vendor, options;
};

/* Everything that the other end needs to agree with this one and to address it. */
struct beest_endpoint {
	struct beest_incarnation incarnation;	/* of the context that owns it */
	int32_t rank;			/* -1: unknown */
	uint8_t qp_type;		/* enum ibv_qp_type */
	uint8_t link_layer;		/* IBV_LINK_LAYER_INFINIBAND 1, _ETHERNET 2 */
	uint8_t roce;			/* enum beest_roce of the GID below */
	uint8_t mtu;			/* enum ibv_mtu: the largest this end accepts */
	uint8_t max_dest_rd_atomic;	/* reads and atomics this end answers at once */
	uint8_t grh_required;		/* the port requires a GRH */
	uint16_t lid;
	uint16_t pkey;			/* with the membership bit BEEST_PKEY_FULL */
	uint32_t qp_num;		/* 24 bits */
	uint32_t psn;			/* 24 bits, of the first packet that this end sends */
	uint32_t qkey;			/* UD */
	/*
	 * Counts how often this queue pair was initialized, or had to change what it published.
	 * The PSN alone does not distinguish the lives of a queue pair, since an option may
	 * fix it.
	 */
	uint32_t generation;
	struct beest_ece ece;		/* that it offers */
	struct beest_ipaddr gid;
	struct beest_ipaddr ip;		/* of the port; zero: none known */
};

/* The top bit of a P_Key means full membership; the other 15 name the partition. */
#define BEEST_PKEY_FULL 0x8000
#define BEEST_PKEY_BASE 0x7fff

/* "the peer (rank 3)", or "the peer"; the macro's text lives as long as the block. */
#define BEEST_PEER_TEXT(remote) beest_endpoint_peer_text((remote), (char[32]){ 0 })
const char *beest_endpoint_peer_text(const struct beest_endpoint *remote, char text[32]);

/* "InfiniBand", "RoCE v1", "RoCE v2". */
const char *beest_endpoint_roce_text(enum beest_roce roce);

#endif
