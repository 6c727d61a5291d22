/* SPDX-License-Identifier: MIT */
/*
 * endpoint.h - one end of a connection, as both ends know it
 *
 * Owns the one form of "the other end".  Knows nothing of how it travels.
 */
#ifndef BEEST_ENDPOINT_H
#define BEEST_ENDPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/process.h"

enum beest_roce {
	BEEST_ROCE_NONE = 0,		/* InfiniBand */
	BEEST_ROCE_V1 = 1,
	BEEST_ROCE_V2 = 2,
};

/* All that the other end needs to agree with this one and to address it. */
struct beest_endpoint {
	uint8_t qp_type;		/* enum ibv_qp_type */
	uint8_t link_layer;		/* IBV_LINK_LAYER_INFINIBAND 1, _ETHERNET 2 */
	uint8_t roce;			/* enum beest_roce of the GID below */
	uint8_t mtu;			/* enum ibv_mtu: the most this end takes */
	uint8_t max_dest_rd_atomic;	/* reads and atomics this end answers at once */
	uint8_t grh_required;		/* port demands a GRH */
	uint8_t lmc;
	uint8_t sl;
	uint16_t lid;
	uint16_t pkey;			/* with the membership bit 0x8000 */
	uint32_t qp_num;		/* 24 bits */
	uint32_t sq_psn;		/* 24 bits */
	uint32_t qkey;			/* UD */
	uint8_t gid[16];
	uint8_t address[16];		/* IP of the port, IPv4 mapped; zero: none known */
	char device[64];		/* "mlx5_0:1", for people */
	/*
	 * Counts the times this queue pair began anew.  A sequence number that an option
	 * fixes does not tell one life of a queue pair from the next.
	 */
	uint32_t generation;
};

#define BEEST_HOST_MAX 64

/* Who wrote a record.  Only the incarnation decides; the rest is for people. */
struct beest_author {
	struct beest_incarnation incarnation;
	char host[BEEST_HOST_MAX];
	uint32_t pid;
	int32_t rank;			/* -1: unknown */
	uint64_t time;			/* seconds since 1970, never compared with a clock */
};

/* "host b, pid 12, rank 3" for sentences, in BEEST_AUTHOR_TEXT bytes; returns @text. */
#define BEEST_AUTHOR_TEXT (BEEST_HOST_MAX + 64)
const char *beest_author_text(const struct beest_author *author, char *text, size_t size);

/* "InfiniBand", "RoCE v1", "RoCE v2". */
const char *beest_endpoint_roce_text(enum beest_roce roce);

#endif
