/* SPDX-License-Identifier: MIT */
/*
 * record.c - the envelope around every payload
 *
 * A record on the wire; all integers are big-endian:
 *
 *   offset  bytes  content
 *        0      3  "HBR"
 *        3      1  version, 1
 *        4      1  kind: r rank, m mr, q qp, c confirm, s msg, b barrier
 *        5      1  zero, not looked at
 *        6      2  K: length of the key, 1 to 250
 *        8      2  H: length of the host name, 0 to 63
 *       10      2  zero, not looked at
 *       12      4  P: length of the payload
 *       16     16  incarnation of the author
 *       32      4  process id of the author
 *       36      4  rank of the author, two's complement, -1: unknown
 *       40      8  seconds since 1970, for people
 *       48      K  the key under which the record was put
 *     48+K      H  host name of the author, without control characters
 *   48+K+H      P  payload
 *  +P           4  CRC-32 (IEEE 802.3, as zlib's) of all bytes before it
 *
 * Nothing follows: a record has 52+K+H+P bytes.
 */
#include "config.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/base/error.h"
#include "lib/base/macro.h"
#include "lib/rendezvous/record.h"

#define CRC_SIZE 4
#define HEADER_SIZE 48

struct header {
	uint8_t magic[3];
	uint8_t version;
	uint8_t kind;
	uint8_t zero1;
	uint16_t key_size;
	uint16_t host_size;
	uint16_t zero2;
	uint32_t payload_size;
	struct beest_incarnation incarnation;
	uint32_t pid;
	int32_t rank;
	uint64_t time;
};

static const struct beest_codec_field header_rows[] = {
	BEEST_CODEC_ROW(header, magic, BYTES),
	BEEST_CODEC_ROW(header, version, UINT),
	BEEST_CODEC_ROW(header, kind, UINT),
	BEEST_CODEC_ROW(header, zero1, UINT),
	BEEST_CODEC_ROW(header, key_size, UINT),
	BEEST_CODEC_ROW(header, host_size, UINT),
	BEEST_CODEC_ROW(header, zero2, UINT),
	BEEST_CODEC_ROW(header, payload_size, UINT),
	BEEST_CODEC_ROW(header, incarnation, BYTES),
	BEEST_CODEC_ROW(header, pid, UINT),
	BEEST_CODEC_ROW(header, rank, UINT),
	BEEST_CODEC_ROW(header, time, UINT),
};
static const struct beest_codec_layout header_layout = {
	header_rows, BEEST_COUNT(header_rows),
};

static const struct beest_codec_field crc_row = { 0, CRC_SIZE, BEEST_CODEC_UINT };
static const struct beest_codec_layout crc_layout = { &crc_row, 1 };

static const struct beest_codec_field mr_rows[] = {
	BEEST_CODEC_ROW(beest_mr_payload, address, UINT),
	BEEST_CODEC_ROW(beest_mr_payload, length, UINT),
	BEEST_CODEC_ROW(beest_mr_payload, rkey, UINT),
	BEEST_CODEC_ROW(beest_mr_payload, access, UINT),
};

static const struct beest_codec_field qp_rows[] = {
	BEEST_CODEC_ROW(beest_endpoint, qp_type, UINT),
	BEEST_CODEC_ROW(beest_endpoint, link_layer, UINT),
	BEEST_CODEC_ROW(beest_endpoint, roce, UINT),
	BEEST_CODEC_ROW(beest_endpoint, mtu, UINT),
	BEEST_CODEC_ROW(beest_endpoint, max_dest_rd_atomic, UINT),
	BEEST_CODEC_ROW(beest_endpoint, grh_required, UINT),
	BEEST_CODEC_ROW(beest_endpoint, lid, UINT),
	BEEST_CODEC_ROW(beest_endpoint, pkey, UINT),
	BEEST_CODEC_ROW(beest_endpoint, qp_num, UINT),
	BEEST_CODEC_ROW(beest_endpoint, psn, UINT),
	BEEST_CODEC_ROW(beest_endpoint, qkey, UINT),
	BEEST_CODEC_ROW(beest_endpoint, gid, BYTES),
	BEEST_CODEC_ROW(beest_endpoint, ip, BYTES),
	BEEST_CODEC_ROW(beest_endpoint, generation, UINT),
};

static const struct beest_codec_field confirm_rows[] = {
	BEEST_CODEC_ROW(beest_confirm_payload, qp_num, UINT),
	BEEST_CODEC_ROW(beest_confirm_payload, sq_psn, UINT),
	BEEST_CODEC_ROW(beest_confirm_payload, peer, BYTES),
	BEEST_CODEC_ROW(beest_confirm_payload, peer_qp_num, UINT),
	BEEST_CODEC_ROW(beest_confirm_payload, peer_sq_psn, UINT),
	BEEST_CODEC_ROW(beest_confirm_payload, generation, UINT),
	BEEST_CODEC_ROW(beest_confirm_payload, peer_generation, UINT),
};

static const struct beest_codec_field barrier_rows[] = {
	BEEST_CODEC_ROW(beest_barrier_payload, generation, UINT),
	BEEST_CODEC_ROW(beest_barrier_payload, digest, UINT),
};

static const struct beest_codec_field rank_rows[] = {
	BEEST_CODEC_ROW(beest_rank_payload, servers, UINT),
	BEEST_CODEC_ROW(beest_rank_payload, size, UINT),
};

const struct beest_codec_layout beest_mr_layout = BEEST_CODEC_LAYOUT(mr_rows);
const struct beest_codec_layout beest_qp_layout = BEEST_CODEC_LAYOUT(qp_rows);
const struct beest_codec_layout beest_confirm_layout = BEEST_CODEC_LAYOUT(confirm_rows);
const struct beest_codec_layout beest_barrier_layout = BEEST_CODEC_LAYOUT(barrier_rows);
const struct beest_codec_layout beest_rank_layout = BEEST_CODEC_LAYOUT(rank_rows);

static const struct {
	enum beest_record_kind kind;
	const char *word;
} kinds[] = {
	{ BEEST_KIND_RANK, "rank" },
	{ BEEST_KIND_MR, "mr" },
	{ BEEST_KIND_QP, "qp" },
	{ BEEST_KIND_CONFIRM, "confirm" },
	{ BEEST_KIND_MESSAGE, "msg" },
	{ BEEST_KIND_BARRIER, "barrier" },
};

const char *beest_kind_word(enum beest_record_kind kind)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(kinds); i++)
		if (kinds[i].kind == kind)
			return kinds[i].word;

	return "unknown";
}

const char *beest_author_text(const struct beest_author *author, char *text, size_t size)
{
	if (author->rank >= 0)
		snprintf(text, size, "host %s, pid %" PRIu32 ", rank %" PRId32,
			 author->host, author->pid, author->rank);
	else
		snprintf(text, size, "host %s, pid %" PRIu32, author->host, author->pid);
	return text;
}

/* What follows the header and lies before the sum; 64 bits hold any three lengths. */
static uint64_t body_size(const struct header *header)
{
	return (uint64_t)header->key_size + header->host_size + header->payload_size;
}

static uint8_t *append(uint8_t *to, const void *from, size_t size)
{
	if (size)
		memcpy(to, from, size);

	return to + size;
}

static struct header header_of(const struct beest_record *record)
{
	const struct beest_author *author = &record->author;
	struct header header = {
		.magic = { 'H', 'B', 'R' },
		.version = BEEST_RECORD_VERSION,
		.kind = (uint8_t)record->kind,
		.key_size = (uint16_t)strnlen(record->key, BEEST_KEY_MAX),
		.host_size = (uint16_t)strnlen(author->host, BEEST_HOST_MAX - 1),
		.payload_size = (uint32_t)record->payload_size,
		.incarnation = author->incarnation,
		.pid = author->pid,
		.rank = author->rank,
		.time = author->time,
	};

	return header;
}

int beest_record_encode(const struct beest_record *record, uint8_t *bytes, size_t size)
{
	struct header header = header_of(record);
	uint64_t needed = HEADER_SIZE + body_size(&header) + CRC_SIZE;
	uint8_t *end = bytes + HEADER_SIZE;
	uint32_t crc;

	if (record->payload_size > INT32_MAX || needed > INT32_MAX || needed > size)
		return beest_fail(EMSGSIZE, "record with a payload of %zu bytes in a buffer of %zu",
				  record->payload_size, size);

	beest_codec_encode(&header_layout, &header, bytes, HEADER_SIZE);
	end = append(end, record->key, header.key_size);
	end = append(end, record->author.host, header.host_size);
	end = append(end, record->payload, header.payload_size);
	crc = beest_hash_crc32(bytes, (size_t)(end - bytes));
	beest_codec_encode(&crc_layout, &crc, end, CRC_SIZE);

	return (int)needed;
}

/* May these bytes stand in a sentence? */
static bool is_printable(const uint8_t *bytes, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		if (bytes[i] < 0x20 || bytes[i] == 0x7f)
			return false;

	return true;
}

/* Version before checksum: another version may have another layout. */
static int header_check(const struct header *header, size_t size)
{
	if (memcmp(header->magic, "HBR", sizeof(header->magic)))
		return beest_fail(EBADMSG, "not a record of hartebeest");
	if (header->version != BEEST_RECORD_VERSION)
		return beest_fail(EPROTONOSUPPORT,
				  "record of version %d, this library speaks version %d",
				  header->version, BEEST_RECORD_VERSION);
	if (HEADER_SIZE + body_size(header) + CRC_SIZE != size)
		return beest_fail(EBADMSG, "record of %zu bytes where its lengths demand %llu",
				  size, (unsigned long long)(HEADER_SIZE +
							     body_size(header) + CRC_SIZE));
	if (!header->key_size || header->key_size > BEEST_KEY_MAX ||
	    header->host_size >= BEEST_HOST_MAX)
		return beest_fail(EBADMSG, "record with a key of %d and a host name of %d bytes",
				  header->key_size, header->host_size);

	return 0;
}

static int crc_check(const uint8_t *bytes, size_t size)
{
	uint32_t crc = 0;

	beest_codec_decode(&crc_layout, bytes + size - CRC_SIZE, CRC_SIZE, &crc);
	if (crc != beest_hash_crc32(bytes, size - CRC_SIZE))
		return beest_fail(EBADMSG, "damaged record: its checksum is wrong");

	return 0;
}

/* Is it the record that was asked for?  libmemcached has been seen to mix answers up. */
static int identity_check(const struct header *header, const uint8_t *key,
			  enum beest_record_kind kind, const char *wanted)
{
	if (!is_printable(key, (size_t)header->key_size + header->host_size))
		return beest_fail(EBADMSG, "record with control characters in key or host name");
	if (header->key_size != strlen(wanted) || memcmp(key, wanted, header->key_size))
		return beest_fail(EBADMSG, "the answer for key '%s' holds the record of key '%.*s'",
				  wanted, header->key_size, (const char *)key);
	if (header->kind != (uint8_t)kind)
		return beest_fail(EBADMSG, "record of kind %s under key '%s', %s expected",
				  beest_kind_word((enum beest_record_kind)header->kind), wanted,
				  beest_kind_word(kind));

	return 0;
}

static void record_fill(struct beest_record *record, const struct header *header,
			const uint8_t *key)
{
	const uint8_t *host = key + header->key_size;

	memset(record, 0, sizeof(*record));
	record->kind = (enum beest_record_kind)header->kind;
	memcpy(record->key, key, header->key_size);
	record->author.incarnation = header->incarnation;
	memcpy(record->author.host, host, header->host_size);
	record->author.pid = header->pid;
	record->author.rank = header->rank;
	record->author.time = header->time;
	record->payload = host + header->host_size;
	record->payload_size = header->payload_size;
}

int beest_record_decode(const uint8_t *bytes, size_t size, enum beest_record_kind kind,
			const char *key, struct beest_record *record)
{
	struct header header;
	int ret;

	if (size < HEADER_SIZE + CRC_SIZE)
		return beest_fail(EBADMSG, "%zu bytes are too few for a record", size);

	beest_codec_decode(&header_layout, bytes, HEADER_SIZE, &header);
	ret = header_check(&header, size);
	if (ret == 0)
		ret = crc_check(bytes, size);
	if (ret == 0)
		ret = identity_check(&header, bytes + HEADER_SIZE, kind, key);
	if (ret < 0)
		return ret;

	record_fill(record, &header, bytes + HEADER_SIZE);

	return 0;
}
