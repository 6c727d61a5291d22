/* SPDX-License-Identifier: MIT */
/*
 * record.h - the wire form of what is published
 *
 * Owns the layouts of hartebeest-exchange(7).  Pure: it converts bytes to structs and
 * back.  Knows nothing of Memcached or of waiting.
 *
 * A record is a header, a body that depends on its kind, and a checksum over the key, the
 * header and the body.  All integers are big-endian.  Where the job has a secret, the
 * whole record is sealed, which no other file does.  Decoding accepts hostile bytes: any
 * input gives a record or a refusal with its reason.
 */
#ifndef BEEST_RECORD_H
#define BEEST_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "include/hartebeest.h"
#include "lib/base/macro.h"
#include "lib/base/process.h"
#include "lib/seal/seal.h"
#include "lib/base/endpoint.h"
#include "lib/rendezvous/recordkind.h"

#define BEEST_RECORD_VERSION 1
#define BEEST_RECORD_HEADER 26
#define BEEST_RECORD_CHECKSUM 4
#define BEEST_RECORD_OVERHEAD (BEEST_RECORD_HEADER + BEEST_RECORD_CHECKSUM)

/* The size of a record without a body, sealed or not. */
#define BEEST_RECORD_EMPTY_MAX (BEEST_RECORD_OVERHEAD + BEEST_SEAL_OVERHEAD)

enum {
	BEEST_RECORD_CLOSED = 1,	/* qp: destroyed; the rest was true until then;
					   request: the listener has ended it;
					   msg: its only reader has taken it */
	BEEST_RECORD_ECHO = 2,		/* qp: it is connected to a peer */
	BEEST_RECORD_IP = 4,		/* qp: its IP address differs from its GID */
	BEEST_RECORD_REFUSED = 8,	/* qp: it could not be connected to a peer; the reason
					   follows */
	BEEST_RECORD_ONCE = 16,		/* msg: for one reader, which puts a tombstone there */
	BEEST_RECORD_ECE = 32,		/* qp: the options of its adapter are last */
};

struct beest_record {
	enum beest_record_kind kind;
	uint8_t flags;
	struct beest_incarnation incarnation;	/* of its author */
	int32_t rank;				/* -1: unknown */
	const uint8_t *body;			/* points into the bytes that were decoded */
	size_t size;
};

/*
 * The number of bytes that a record has besides its body.  @seal, here and below: NULL if
 * the job has no secret.
 */
size_t beest_record_overhead(const struct beest_seal *seal);

/* Returns the number of bytes written; -EMSGSIZE: @room is too small; or errors of the seal. */
int beest_record_encode(struct beest_seal *seal, const struct beest_record *record,
			const char *key, uint8_t *bytes, size_t room);

/*
 * Opens a sealed record in place, so the bytes can be decoded only once.  The body of
 * @record points into @bytes.
 *
 * -EBADMSG          not a record, cut short, forged or damaged, or of another key or kind
 * -EPROTONOSUPPORT  another version
 * -ENOKEY           sealed, but @seal is NULL
 * -EKEYREJECTED     well formed, but not sealed, or sealed with another secret
 * -ENOMEM, -EIO     this process cannot open it now
 */
int beest_record_decode(struct beest_seal *seal, uint8_t *bytes, size_t size,
			enum beest_record_kind kind, const char *key,
			struct beest_record *record);

/*
 * Refuses at a glance, for a reader that tries each byte of a list.  With a seal, neither those
 * that pass with its check value nor those that pass unsealed overlap by more than a few bytes.
 * Errors of decoding.
 */
int beest_record_precheck(const struct beest_seal *seal, const uint8_t *bytes, size_t size);

/* Is it a record of one of these contexts?  Opens it in place. */
bool beest_record_is_of(struct beest_seal *seal, uint8_t *bytes, size_t size, const char *key,
			const struct beest_incarnation *contexts, size_t count);

/* Sets BEEST_RECORD_CLOSED in an encoded record.  Errors of encoding and of opening. */
int beest_record_close(struct beest_seal *seal, uint8_t *bytes, size_t size, const char *key);

/* ------------------------------------------------------------------------ bodies --- */

/* A body may be longer than this version knows; the rest is ignored. */
#define BEEST_BODY_MAX 512

#define BEEST_REGION_SIZE 24

/* Room for a reason; its bytes, without the end, are preceded by their number in a record. */
#define BEEST_REASON_MAX 201

/*
 * "I am in RTR or later for this queue pair of yours", or, in a record with a reason, "I could
 * not get there".
 */
struct beest_echo {
	struct beest_incarnation incarnation;
	uint32_t qp_num, psn, generation;
};

struct beest_qp_body {
	struct beest_endpoint endpoint;	/* incarnation and rank are the header's */
	struct beest_echo echo;		/* with BEEST_RECORD_ECHO or _REFUSED */
	uint8_t regions;		/* number it offers; they follow in the record */
	char reason[BEEST_REASON_MAX];	/* why the peer of the echo was refused; "": it was not */
};

#define BEEST_QP_BODY_MAX (BEEST_BODY_MAX + UINT8_MAX * BEEST_REGION_SIZE)

/* The state of a rank. */
enum beest_rank_state {
	BEEST_RANK_ALIVE,
	BEEST_RANK_LEFT,
	BEEST_RANK_FAILED,
};

#define BEEST_HOST_MAX 64
#define BEEST_DEVICE_MAX 80
#define BEEST_WAITS_MAX 96

struct beest_rank_body {
	uint64_t began;			/* see beest_process_ticks() */
	uint64_t participants;		/* digest of the ids, 0: unknown */
	uint64_t servers;		/* digest of the list of servers */
	uint32_t pid;
	uint32_t size;			/* number of ranks, 0: unknown */
	uint8_t state;			/* enum beest_rank_state */
	/* The last process that had this rank before, and did not leave; zero: none. */
	struct beest_incarnation displaced;
	char host[BEEST_HOST_MAX];
	char device[BEEST_DEVICE_MAX];	/* "mlx5_0:1"; "": none opened */
	char reason[BEEST_REASON_MAX];	/* why it failed */
	char waits[BEEST_WAITS_MAX];	/* "barrier 'b'": its last long wait; "": none so far */
	const uint8_t *rest;		/* what follows in a record that was decoded */
	size_t rest_size;
};

/* What a rank calls, and what all ranks of a fence must have alike. */
enum beest_fence_what {
	BEEST_FENCE_NOTHING = 0,	/* a member has learned that its call has failed */
	BEEST_FENCE_BARRIER = 1,
	BEEST_FENCE_GATHER = 2,
	BEEST_FENCE_MESH = 3,
};

struct beest_fence_setup {
	uint8_t what;			/* enum beest_fence_what */
	uint32_t size;			/* number of ranks */
	uint64_t ranks;			/* digest of their ids */
	uint64_t form;			/* gather: bytes of a value; mesh: digest of its settings */
};

/* Why a rank does not go on. */
struct beest_fence_trouble {
	uint16_t error;			/* an errno of Linux; 0: it goes on */
	char text[BEEST_REASON_MAX];
};

struct beest_member_body {
	struct beest_fence_setup setup;
	uint32_t call;			/* among the calls of its author under this name, from 1 */
	struct beest_incarnation follows;	/* the leader that it has read; zeros: none */
	uint64_t view;			/* that it acknowledges, or passes; 0: none */
	uint64_t pass;			/* from 1; 0: it calls for another view */
	struct beest_fence_trouble refusal;
	uint32_t shown;			/* bytes of the value that are for all; the rest are
					   for the leader */
	const uint8_t *value;		/* what it contributes */
	size_t size;
};

#define BEEST_MEMBER_MAX(size) (71 + BEEST_REASON_MAX + (size))

/* Ids in a row, both included. */
struct beest_fence_range {
	uint32_t first, last;
};

#define BEEST_FENCE_RANGES 32

/* So many digests are in a leader's record.  More are in another chunk, whose digest it has. */
#define BEEST_FENCE_DIGESTS 32

struct beest_leader_body {
	struct beest_fence_setup setup;
	uint32_t call;
	struct beest_incarnation added;	/* the leader that has added this record first */
	uint64_t committed;		/* the last view that all have acknowledged; 0: none */
	uint64_t passes;		/* how often all have passed with it */
	uint64_t proposed;		/* a view for all to acknowledge; 0: none */
	struct beest_incarnation culprit;	/* whose failure it is, in which call */
	uint32_t culprit_call;
	uint8_t in_pass;		/* the failure is one of a pass */
	struct beest_fence_trouble failure;
	uint32_t looked;		/* changes each second while ranks are missing */
	uint8_t range_count;
	struct beest_fence_range missing[BEEST_FENCE_RANGES];
	uint16_t chunk_ranks;		/* the ranks of a chunk; the last one may have fewer */
	uint32_t chunk_count;		/* 0: the proposed view is within this record */
	const uint8_t *chunks;		/* digests of 8 bytes, or the digest of all digests, or the
					   entries of the view */
	size_t chunks_size;
};

#define BEEST_LEADER_MAX(size) (119 + BEEST_REASON_MAX + 8 * BEEST_FENCE_RANGES + (size))

/* What one rank contributes to a view; @value has @size bytes. */
struct beest_fence_entry {
	uint32_t rank;			/* its id */
	struct beest_incarnation incarnation;
	uint32_t call;
	uint32_t size;
	const uint8_t *value;
	/* Of the leader only, behind what is shown to all. */
	const uint8_t *hidden;
	size_t hidden_size;
};

#define BEEST_FENCE_ENTRY 28		/* bytes, without the value */

/* A request of any service: never the same twice. */
struct beest_request_id {
	uint64_t client;		/* the random bits of its author's incarnation */
	uint32_t number;		/* among the requests of its author, from 1 */
};

/* What an entry in a service's list states: first and last of its author, else of requests. */
enum beest_service_word {
	BEEST_SERVICE_LISTENS = 1,	/* it is the listener */
	BEEST_SERVICE_ASKS = 2,		/* they are stored */
	BEEST_SERVICE_ACCEPTED = 3,	/* a listener has accepted them */
	BEEST_SERVICE_ENDED = 4,	/* they are closed for ever */
	BEEST_SERVICE_STOPS = 5,	/* it was the listener */
};

/* An entry that names more requests would be too long. */
#define BEEST_SERVICE_IDS 128

struct beest_service_body {
	uint8_t word;			/* of enum beest_service_word; others mean nothing here */
	uint64_t since;			/* orders listeners, see hartebeest-exchange(7) */
	size_t count;			/* else: of the requests */
	struct beest_request_id ids[BEEST_SERVICE_IDS];
};

#define BEEST_REQUEST_DATA 1024

struct beest_request_body {
	uint32_t number;			/* of its id; the header has the client */
	uint32_t pid;
	uint16_t length;
	char host[BEEST_HOST_MAX];
	uint8_t data[BEEST_REQUEST_DATA];	/* only length bytes are stored */
};

#define BEEST_ONCE_ID 8

/* A message; one for one reader begins with the id of its push. */
struct beest_message_body {
	bool once, taken;		/* the flags 16 and 1 */
	uint8_t push[BEEST_ONCE_ID];	/* random, and the same in each attempt */
	uint8_t take[BEEST_ONCE_ID];	/* taken: random, too */
	const uint8_t *data;		/* else: the message itself */
	size_t size;
};

/* Each returns the size of the body.  @flags receives the flags for the header. */
int beest_record_qp_encode(const struct beest_qp_body *body,
			   const struct hartebeest_remote_mr *regions, uint8_t *flags,
			   uint8_t bytes[BEEST_QP_BODY_MAX]);
int beest_record_mr_encode(const struct hartebeest_remote_mr *region,
			   uint8_t bytes[BEEST_BODY_MAX]);
int beest_record_rank_encode(const struct beest_rank_body *body,
			     uint8_t bytes[BEEST_BODY_MAX]);
int beest_record_member_encode(const struct beest_member_body *body, uint8_t *bytes);
int beest_record_leader_encode(const struct beest_leader_body *body, uint8_t *bytes);
int beest_record_entry_encode(const struct beest_fence_entry *entry, uint8_t *bytes);
#define BEEST_SERVICE_MAX (1 + 12 * BEEST_SERVICE_IDS)
int beest_record_service_encode(const struct beest_service_body *body,
				uint8_t bytes[BEEST_SERVICE_MAX]);
#define BEEST_REQUEST_MAX (74 + BEEST_REQUEST_DATA)
int beest_record_request_encode(const struct beest_request_body *body,
				uint8_t bytes[BEEST_REQUEST_MAX]);

/* -EBADMSG: too short, or an impossible value, which the sentence names. */
int beest_record_qp_decode(const struct beest_record *record, struct beest_qp_body *body);

/* Region @i of a record that beest_record_qp_decode() has accepted. */
void beest_record_qp_region(const struct beest_record *record, size_t i,
			    struct hartebeest_remote_mr *region);

int beest_record_message_decode(const struct beest_record *record,
				struct beest_message_body *body);
int beest_record_mr_decode(const struct beest_record *record,
			   struct hartebeest_remote_mr *region);
int beest_record_rank_decode(const struct beest_record *record, struct beest_rank_body *body);
int beest_record_member_decode(const struct beest_record *record, struct beest_member_body *body);
int beest_record_leader_decode(const struct beest_record *record, struct beest_leader_body *body);

/* The entry at the beginning of @bytes; returns its size. */
int beest_record_entry_decode(const uint8_t *bytes, size_t size, struct beest_fence_entry *entry);
int beest_record_service_decode(const struct beest_record *record,
				struct beest_service_body *body);
int beest_record_request_decode(const struct beest_record *record,
				struct beest_request_body *body);

/*
 * A rank's contribution to a mesh, of the same size for all ranks.  Its queue pairs have
 * numbers in a row, as have their first sequence numbers, from those of the endpoint on,
 * towards the ranks that follow its own in turn.  If the device gave other numbers, a
 * list has them.
 */
struct beest_mesh_body {
	struct beest_endpoint endpoint;
	uint64_t form;			/* digest of what all ranks must ask for alike */
	uint64_t list;			/* digest of the list of numbers; 0: no list */
};

#define BEEST_MESH_REGIONS 64

size_t beest_record_mesh_size(size_t regions);
void beest_record_mesh_encode(const struct beest_mesh_body *body,
			      const struct hartebeest_remote_mr *regions, size_t count,
			      uint8_t *bytes);

/* The caller fills in incarnation and rank of the endpoint.  -EBADMSG. */
int beest_record_mesh_decode(const uint8_t *bytes, size_t size, struct beest_mesh_body *body);

/* Region @i of a rank's bytes, which must have all regions.  -EBADMSG: an impossible value. */
int beest_record_mesh_region(const uint8_t *bytes, size_t i,
			     struct hartebeest_remote_mr *region);

#endif
