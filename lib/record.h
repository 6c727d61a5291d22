/* SPDX-License-Identifier: MIT */
/*
 * record.h - the wire form of what is published
 *
 * Owns the layout of hartebeest-exchange(7).  Pure: bytes in, struct out, and
 * back.  Knows nothing of Memcached, of waiting, or of what a verbs call wants.
 *
 * A record: magic "HBR", version, kind, key, incarnation, who (host, pid, rank,
 * time), payload, CRC-32.  All integers are big-endian.  Decoding accepts hostile
 * bytes: any input yields a record or a reasoned refusal.
 */
#ifndef BEEST_RECORD_H
#define BEEST_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "lib/process.h"

#define BEEST_RECORD_VERSION 1
#define BEEST_INCARNATION_SIZE 16
#define BEEST_HOST_MAX 64
#define BEEST_KEY_MAX 250

/* The letter stands on the wire; the word in the key: hb1/JOB/WORD/NAME. */
enum beest_record_kind {
	BEEST_KIND_RANK = 'r',		/* "rank": a process that takes part */
	BEEST_KIND_MR = 'm',		/* "mr" */
	BEEST_KIND_QP = 'q',		/* "qp" */
	BEEST_KIND_CONFIRM = 'c',	/* "confirm": my QP is in RTR for yours */
	BEEST_KIND_MESSAGE = 's',	/* "msg" */
	BEEST_KIND_BARRIER = 'b',	/* "barrier" */
};

const char *beest_kind_word(enum beest_record_kind kind);

struct beest_incarnation {
	uint8_t bytes[BEEST_INCARNATION_SIZE];
};

/* It begins with the mark of the process, which may have several contexts. */
static inline bool beest_same_process(const struct beest_incarnation *a,
				      const struct beest_incarnation *b)
{
	return memcmp(a->bytes, b->bytes, BEEST_PROCESS_SIZE) == 0;
}

/* Where a process id of the one means something to the other. */
static inline bool beest_same_place(const struct beest_incarnation *a,
				    const struct beest_incarnation *b)
{
	return memcmp(a->bytes, b->bytes, BEEST_PLACE_SIZE) == 0;
}

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

/* A decoded record.  payload points into the bytes that were decoded. */
struct beest_record {
	enum beest_record_kind kind;
	char key[BEEST_KEY_MAX + 1];
	struct beest_author author;
	const uint8_t *payload;
	size_t payload_size;
};

/* The most that beest_record_encode() adds around a payload. */
#define BEEST_RECORD_OVERHEAD (BEEST_KEY_MAX + BEEST_HOST_MAX + 64)

/* Returns the bytes written, or -EMSGSIZE when @size is too small. */
int beest_record_encode(const struct beest_record *record, uint8_t *bytes, size_t size);

/*
 * -EBADMSG: not a record, cut short, or damaged; -EPROTONOSUPPORT: another
 * version; -EBADMSG too when kind or key differ from @kind and @key, which says
 * that the server or its client mixed up answers.
 */
int beest_record_decode(const uint8_t *bytes, size_t size, enum beest_record_kind kind,
			const char *key, struct beest_record *record);

/* Payloads.  A longer payload than this version knows is read and its rest ignored. */

/* BEEST_KIND_MR */
struct beest_mr_payload {
	uint64_t address;
	uint64_t length;		/* bytes */
	uint32_t rkey;
	uint32_t access;		/* enum ibv_access_flags */
};

enum beest_roce {
	BEEST_ROCE_NONE = 0,		/* InfiniBand */
	BEEST_ROCE_V1 = 1,
	BEEST_ROCE_V2 = 2,
};

/* BEEST_KIND_QP: all that the other end needs to agree and to address this one. */
struct beest_qp_payload {
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

/*
 * BEEST_KIND_CONFIRM: "I, the author, am in RTR or later with this QP of mine
 * for that QP of yours."
 */
struct beest_confirm_payload {
	uint32_t qp_num, sq_psn;			/* the author's */
	struct beest_incarnation peer;
	uint32_t peer_qp_num, peer_sq_psn;
	uint32_t generation, peer_generation;		/* of the two cards */
};

/* BEEST_KIND_BARRIER: digest of all incarnations the author has seen, 0: not all yet. */
struct beest_barrier_payload {
	uint64_t generation;
	uint64_t digest;
};

/* BEEST_KIND_RANK */
struct beest_rank_payload {
	uint64_t servers;		/* digest of the server list, for comparison */
	uint32_t size;			/* ranks in the job, 0: unknown */
};

/*
 * One codec for all of them: a row per field, walked by both directions, so that
 * they cannot drift apart.
 */
struct beest_field {
	uint16_t offset;
	uint16_t size;
	enum { BEEST_FIELD_UINT, BEEST_FIELD_BYTES, BEEST_FIELD_TEXT } type;
};

struct beest_layout {
	const struct beest_field *fields;
	size_t count;
};

extern const struct beest_layout beest_mr_layout;
extern const struct beest_layout beest_qp_layout;
extern const struct beest_layout beest_confirm_layout;
extern const struct beest_layout beest_barrier_layout;
extern const struct beest_layout beest_rank_layout;

/* Bytes written, or -EMSGSIZE. */
int beest_payload_encode(const struct beest_layout *layout, const void *payload,
			 uint8_t *bytes, size_t size);

/* 0, or -EBADMSG when the bytes end too early or a text is not terminated. */
int beest_payload_decode(const struct beest_layout *layout, const uint8_t *bytes,
			 size_t size, void *payload);

/* The most any of the layouts takes. */
#define BEEST_PAYLOAD_MAX 256

#endif
