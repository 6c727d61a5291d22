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

#include "lib/base/codec.h"
#include "lib/base/macro.h"
#include "lib/base/process.h"
#include "lib/verbs/endpoint.h"

#define BEEST_RECORD_VERSION 1

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

extern const struct beest_codec_layout beest_mr_layout;
extern const struct beest_codec_layout beest_qp_layout;
extern const struct beest_codec_layout beest_confirm_layout;
extern const struct beest_codec_layout beest_barrier_layout;
extern const struct beest_codec_layout beest_rank_layout;

/* The most any of the layouts takes. */
#define BEEST_PAYLOAD_MAX 256

#endif
