/* SPDX-License-Identifier: MIT */
/*
 * record.c - see record.h
 *
 * The header, 26 bytes:
 *
 *   offset  bytes  content
 *        0      3  "HBR"
 *        3      1  version, 1
 *        4      1  kind, a letter
 *        5      1  flags
 *        6     16  incarnation of the author
 *       22      4  rank of the author, two's complement, -1: unknown
 *
 * The body follows, and then the CRC-32 (IEEE 802.3, as in zlib) of the key and of all
 * bytes before it.  lib/seal/ describes the bytes around a sealed record.
 */
#include "config.h"

#include <endian.h>
#include <inttypes.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "lib/base/codec.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/text.h"
#include "lib/rendezvous/record.h"

/* Defines the layout @name with these rows. */
#define LAYOUT(name, ...) \
	static const struct beest_codec_field name##_rows[] = { __VA_ARGS__ }; \
	static const struct beest_codec_layout name = BEEST_CODEC_LAYOUT(name##_rows)

struct header {
	uint8_t magic[3];
	uint8_t version;
	uint8_t kind;
	uint8_t flags;
	struct beest_incarnation incarnation;
	int32_t rank;
};

enum { VERSION_AT = 3, KIND_AT, FLAGS_AT };

LAYOUT(header_layout,
	BEEST_CODEC_ROW(header, magic, BYTES),
	BEEST_CODEC_ROW(header, version, UINT),
	BEEST_CODEC_ROW(header, kind, UINT),
	BEEST_CODEC_ROW(header, flags, UINT),
	BEEST_CODEC_ROW(header, incarnation, BYTES),
	BEEST_CODEC_ROW(header, rank, UINT));

/* ---------------------------------------------------------------- the envelope --- */

/* The result is big-endian, as it is stored. */
static uint32_t record_checksum(const char *key, const uint8_t *bytes, size_t size)
{
	return htobe32(beest_hash_crc32(beest_hash_crc32(0, key, strlen(key)), bytes, size));
}

size_t beest_record_overhead(const struct beest_seal *seal)
{
	return seal ? BEEST_RECORD_OVERHEAD + BEEST_SEAL_OVERHEAD : BEEST_RECORD_OVERHEAD;
}

/* Offset of the header. */
static size_t record_begin(const struct beest_seal *seal)
{
	return seal ? BEEST_SEAL_HEAD : 0;
}

/* Appends the checksum, and seals the record if there is a seal.  @size: of all of it. */
static int record_finish(struct beest_seal *seal, const char *key, uint8_t *bytes, size_t size)
{
	uint8_t *plain = bytes + record_begin(seal);
	size_t used = size - (seal ? BEEST_SEAL_OVERHEAD : 0) - BEEST_RECORD_CHECKSUM;
	uint32_t sum = record_checksum(key, plain, used);

	memcpy(plain + used, &sum, sizeof(sum));

	return seal ? beest_seal_encrypt(seal, key, bytes, size) : 0;
}

int beest_record_encode(struct beest_seal *seal, const struct beest_record *record,
			const char *key, uint8_t *bytes, size_t room)
{
	struct header header = {
		.magic = { 'H', 'B', 'R' },
		.version = BEEST_RECORD_VERSION,
		.kind = (uint8_t)record->kind,
		.flags = record->flags,
		.incarnation = record->incarnation,
		.rank = record->rank,
	};
	uint8_t *plain = bytes + record_begin(seal);
	size_t size = record->size + beest_record_overhead(seal);
	int ret;

	if (record->size > INT32_MAX - BEEST_RECORD_EMPTY_MAX || size > room)
		return beest_fail(EMSGSIZE, "a record with a body of %zu bytes does not fit into "
				  "%zu bytes", record->size, room);

	beest_codec_encode(&header_layout, &header, plain, BEEST_RECORD_HEADER);
	if (record->size)
		memcpy(plain + BEEST_RECORD_HEADER, record->body, record->size);
	ret = record_finish(seal, key, bytes, size);

	return ret < 0 ? ret : (int)size;
}

static int begin_check(const uint8_t *bytes)
{
	if (memcmp(bytes, "HBR", VERSION_AT) != 0)
		return beest_fail(EBADMSG, "not a record of hartebeest");
	if (bytes[VERSION_AT] != BEEST_RECORD_VERSION)
		return beest_fail(EPROTONOSUPPORT,
				  "a record of version %d; this library understands version "
				  "%d only",
				  bytes[VERSION_AT], BEEST_RECORD_VERSION);

	return 0;
}

/* Checks the version before what depends on it: another one may have another layout. */
static int record_check(const struct header *header, const uint8_t *bytes, size_t size,
			enum beest_record_kind kind, const char *key)
{
	uint32_t sum;
	int ret = begin_check(bytes);

	if (ret < 0)
		return ret;
	sum = record_checksum(key, bytes, size - sizeof(sum));
	if (memcmp(bytes + size - sizeof(sum), &sum, sizeof(sum)) != 0)
		return beest_fail(EBADMSG, "a damaged record, or one of another key: its checksum "
				  "is wrong");
	if (kind != BEEST_KIND_ANY && header->kind != (uint8_t)kind)
		return beest_fail(EBADMSG, "a record of kind %s, %s expected",
				  beest_record_row((enum beest_record_kind)header->kind)->word,
				  beest_record_row(kind)->word);

	return 0;
}

static int plain_decode(const uint8_t *bytes, size_t size, enum beest_record_kind kind,
			const char *key, struct beest_record *record)
{
	struct header header;
	int ret;

	if (size < BEEST_RECORD_OVERHEAD)
		return beest_fail(EBADMSG, "%zu bytes are too few for a record", size);

	beest_codec_decode(&header_layout, bytes, BEEST_RECORD_HEADER, &header);
	ret = record_check(&header, bytes, size, kind, key);
	if (ret < 0)
		return ret;

	record->kind = (enum beest_record_kind)header.kind;
	record->flags = header.flags;
	record->incarnation = header.incarnation;
	record->rank = header.rank;
	record->body = bytes + BEEST_RECORD_HEADER;
	record->size = size - BEEST_RECORD_OVERHEAD;

	return 0;
}

/* Any process can write an unsealed record, so it is refused where the job has a secret. */
static int unsealed_decode(const struct beest_seal *seal, const uint8_t *bytes, size_t size,
			   enum beest_record_kind kind, const char *key,
			   struct beest_record *record)
{
	struct beest_record refused;
	int ret = plain_decode(bytes, size, kind, key, seal ? &refused : record);

	if (ret == 0 && seal)
		return beest_fail(EKEYREJECTED, "a record that is not sealed: its author has no "
				  "secret");

	return ret;
}

int beest_record_precheck(const struct beest_seal *seal, const uint8_t *bytes, size_t size)
{
	int ret;

	if (beest_seal_is_on(bytes, size))
		return seal ? beest_seal_check(seal, bytes, size) : 0;
	if (size < BEEST_RECORD_OVERHEAD)
		return 0;
	ret = begin_check(bytes);
	if (ret == 0 && seal && memmem(bytes + 1, size - 1, bytes, KIND_AT))
		return beest_fail(EBADMSG, "not a record: it contains the beginning of another");

	return ret;
}

int beest_record_decode(struct beest_seal *seal, uint8_t *bytes, size_t size,
			enum beest_record_kind kind, const char *key,
			struct beest_record *record)
{
	int ret;

	if (!beest_seal_is_on(bytes, size))
		return unsealed_decode(seal, bytes, size, kind, key, record);
	if (!seal)
		return beest_fail(ENOKEY, "a sealed record, but this process has no secret: set "
				  "HARTEBEEST_SECRET_FILE (exchange.secret_file)");
	ret = beest_seal_decrypt(seal, key, bytes, size);

	return ret < 0 ? ret : plain_decode(bytes + BEEST_SEAL_HEAD, size - BEEST_SEAL_OVERHEAD,
					    kind, key, record);
}

bool beest_record_is_of(struct beest_seal *seal, uint8_t *bytes, size_t size, const char *key,
			const struct beest_incarnation *contexts, size_t count)
{
	struct beest_record record;
	size_t i;

	if (beest_record_decode(seal, bytes, size, BEEST_KIND_ANY, key, &record) < 0)
		return false;
	for (i = 0; i < count; i++)
		if (beest_process_is_context(&record.incarnation, &contexts[i]))
			return true;

	return false;
}

int beest_record_close(struct beest_seal *seal, uint8_t *bytes, size_t size, const char *key)
{
	int ret = seal ? beest_seal_decrypt(seal, key, bytes, size) : 0;

	if (ret < 0)
		return ret;
	bytes[record_begin(seal) + FLAGS_AT] |= BEEST_RECORD_CLOSED;

	return record_finish(seal, key, bytes, size);
}

/* ------------------------------------------------------------------ parts of a body --- */

/* What is left of a body.  Nothing is read after a part that is refused. */
struct reader {
	const uint8_t *bytes;
	size_t size;
	int ret;
};

static struct reader body_begin(const struct beest_record *record)
{
	return (struct reader){ .bytes = record->body, .size = record->size };
}

static void reader_skip(struct reader *reader, size_t size)
{
	reader->bytes += size;
	reader->size -= size;
}

static void fields_read(struct reader *reader, const struct beest_codec_layout *layout, void *body)
{
	if (reader->ret == 0)
		reader->ret = beest_codec_decode(layout, reader->bytes, reader->size, body);
	if (reader->ret == 0)
		reader_skip(reader, beest_codec_size(layout));
}

/* Writes a byte with the length and then the text, cut to room - 1 bytes. */
static int text_write(const char *text, size_t room, uint8_t *bytes)
{
	size_t length = strnlen(text, room - 1);

	bytes[0] = (uint8_t)length;
	memcpy(bytes + 1, text, length);

	return (int)length + 1;
}

/* Texts of other processes go to terminals and logs, so they are cleaned. */
static void text_read(struct reader *reader, char *text, size_t room)
{
	const size_t length = reader->ret == 0 && reader->size ? reader->bytes[0] : 0;
	char raw[UINT8_MAX + 1];

	if (reader->ret < 0)
		return;
	if (reader->size < 1 + length || length >= room) {
		reader->ret = beest_fail(EBADMSG, "the record ends within a text");
		return;
	}
	memcpy(raw, reader->bytes + 1, length);
	raw[length] = '\0';
	beest_text_clean(text, room, raw, length);
	reader_skip(reader, 1 + length);
}

/* ------------------------------------------------------------------ queue pairs --- */

/* Of an endpoint, whose other fields are elsewhere in a queue pair and in a mesh. */
#define KIND_ROWS(type) \
	BEEST_CODEC_ROW(type, endpoint.qp_type, UINT), \
	BEEST_CODEC_ROW(type, endpoint.link_layer, UINT), \
	BEEST_CODEC_ROW(type, endpoint.roce, UINT), \
	BEEST_CODEC_ROW(type, endpoint.mtu, UINT), \
	BEEST_CODEC_ROW(type, endpoint.max_dest_rd_atomic, UINT), \
	BEEST_CODEC_ROW(type, endpoint.grh_required, UINT)

#define NUMBER_ROWS(type) \
	BEEST_CODEC_ROW(type, endpoint.lid, UINT), \
	BEEST_CODEC_ROW(type, endpoint.pkey, UINT), \
	BEEST_CODEC_ROW(type, endpoint.qp_num, UINT), \
	BEEST_CODEC_ROW(type, endpoint.psn, UINT), \
	BEEST_CODEC_ROW(type, endpoint.qkey, UINT), \
	BEEST_CODEC_ROW(type, endpoint.generation, UINT)

LAYOUT(qp_layout,
	KIND_ROWS(beest_qp_body),
	BEEST_CODEC_ROW(beest_qp_body, regions, UINT),
	NUMBER_ROWS(beest_qp_body),
	BEEST_CODEC_ROW(beest_qp_body, endpoint.gid, BYTES),
	BEEST_CODEC_ROW(beest_qp_body, echo.incarnation, BYTES),
	BEEST_CODEC_ROW(beest_qp_body, echo.qp_num, UINT),
	BEEST_CODEC_ROW(beest_qp_body, echo.psn, UINT),
	BEEST_CODEC_ROW(beest_qp_body, echo.generation, UINT));

LAYOUT(ip_layout,
	BEEST_CODEC_ROW(beest_qp_body, endpoint.ip, BYTES));

LAYOUT(ece_layout,
	BEEST_CODEC_ROW(beest_qp_body, endpoint.ece.vendor, UINT),
	BEEST_CODEC_ROW(beest_qp_body, endpoint.ece.options, UINT));

LAYOUT(mr_layout,
	BEEST_CODEC_ROW(hartebeest_remote_mr, address, UINT),
	BEEST_CODEC_ROW(hartebeest_remote_mr, length, UINT),
	BEEST_CODEC_ROW(hartebeest_remote_mr, rkey, UINT),
	BEEST_CODEC_ROW(hartebeest_remote_mr, access, UINT));

#define IP_SIZE 16
#define ECE_SIZE 8

static uint8_t qp_flags(const struct beest_qp_body *body)
{
	const struct beest_endpoint *end = &body->endpoint;
	uint8_t flags = 0;

	if (body->echo.qp_num)
		flags |= body->reason[0] ? BEEST_RECORD_REFUSED : BEEST_RECORD_ECHO;
	if (memcmp(&end->ip, &end->gid, sizeof(end->ip)) != 0)
		flags |= BEEST_RECORD_IP;
	if (end->ece.vendor)
		flags |= BEEST_RECORD_ECE;

	return flags;
}

static int regions_encode(const struct hartebeest_remote_mr *regions, size_t count, uint8_t *bytes)
{
	size_t i;

	for (i = 0; i < count; i++)
		beest_codec_encode(&mr_layout, &regions[i], bytes + i * BEEST_REGION_SIZE,
				   BEEST_REGION_SIZE);

	return (int)(count * BEEST_REGION_SIZE);
}

int beest_record_qp_encode(const struct beest_qp_body *body,
			   const struct hartebeest_remote_mr *regions, uint8_t *flags,
			   uint8_t bytes[BEEST_QP_BODY_MAX])
{
	int used = beest_codec_encode(&qp_layout, body, bytes, BEEST_BODY_MAX);

	*flags = qp_flags(body);
	if (*flags & BEEST_RECORD_IP)
		used += beest_codec_encode(&ip_layout, body, bytes + used, IP_SIZE);

	used += regions_encode(regions, body->regions, bytes + used);
	if (*flags & BEEST_RECORD_REFUSED)
		used += text_write(body->reason, sizeof(body->reason), bytes + used);
	if (*flags & BEEST_RECORD_ECE)
		used += beest_codec_encode(&ece_layout, body, bytes + used, ECE_SIZE);

	return used;
}

/*
 * The flags of enum ibv_access_flags up to IBV_ACCESS_FLUSH_PERSISTENT, and the range of
 * those that a device may ignore, which may grow.
 */
#define ACCESS_KNOWN (0x3ffu | 0x3ff00000u)

/* A well-formed record may have values that no region can have. */
static int region_check(const struct hartebeest_remote_mr *region)
{
	if (region->length == 0)
		return beest_fail(EBADMSG, "the record has a region of 0 bytes");
	if (region->length - 1 > UINT64_MAX - region->address)
		return beest_fail(EBADMSG,
				  "the record has a region of %" PRIu64 " bytes at 0x%" PRIx64
				  ", which would end beyond 2^64", region->length, region->address);
	if (region->access & ~ACCESS_KNOWN)
		return beest_fail(EBADMSG, "the record has a region with unknown access flags: 0x%"
				  PRIx32, region->access & ~ACCESS_KNOWN);

	return 0;
}

/* On RoCE, packets are sent to the address in the GID. */
static int gid_check(const struct beest_endpoint *end)
{
	const char *why = beest_ipaddr_nobody(&end->gid);

	if (end->link_layer != IBV_LINK_LAYER_ETHERNET || !why)
		return 0;

	return beest_fail(EBADMSG, "the record has the address %s, %s", BEEST_IP_TEXT(&end->gid),
			  why);
}

/* A well-formed record may have values that no queue pair can have. */
static int endpoint_check(const struct beest_endpoint *end)
{
	const struct {
		const char *what;
		uint32_t value, min, max;
	} rows[] = {
		{ "queue pair number", end->qp_num, 1, 0xffffff },
		{ "sequence number", end->psn, 0, 0xffffff },
		{ "path MTU", end->mtu, IBV_MTU_256, IBV_MTU_4096 },
		{ "link layer", end->link_layer, IBV_LINK_LAYER_INFINIBAND,
		  IBV_LINK_LAYER_ETHERNET },
		{ "RoCE version", end->roce, BEEST_ROCE_NONE, BEEST_ROCE_V2 },
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(rows); i++)
		if (rows[i].value < rows[i].min || rows[i].value > rows[i].max)
			return beest_fail(EBADMSG, "the record has the %s %" PRIu32 ", which is "
					  "not within %" PRIu32 "..%" PRIu32, rows[i].what,
					  rows[i].value, rows[i].min, rows[i].max);

	return gid_check(end);
}

static int region_decode(const uint8_t *bytes, size_t size, struct hartebeest_remote_mr *region)
{
	struct hartebeest_remote_mr found;
	int ret;

	memset(&found, 0, sizeof(found));
	ret = beest_codec_decode(&mr_layout, bytes, size, &found);
	if (ret == 0)
		ret = region_check(&found);
	if (ret == 0)
		*region = found;
	return ret;
}

/* Offset of region @i in the body. */
static size_t qp_region_at(const struct beest_record *record, size_t i)
{
	return beest_codec_size(&qp_layout) + (record->flags & BEEST_RECORD_IP ? IP_SIZE : 0) +
	       i * BEEST_REGION_SIZE;
}

static void regions_read(struct reader *reader, size_t count)
{
	struct hartebeest_remote_mr region;
	size_t i;

	if (reader->ret == 0 && reader->size < count * BEEST_REGION_SIZE)
		reader->ret = beest_fail(EBADMSG, "the record offers %zu regions, but does not "
					 "have all of them", count);
	for (i = 0; i < count && reader->ret == 0; i++) {
		reader->ret = region_decode(reader->bytes, BEEST_REGION_SIZE, &region);
		reader_skip(reader, BEEST_REGION_SIZE);
	}
}

int beest_record_qp_decode(const struct beest_record *record, struct beest_qp_body *body)
{
	struct reader reader = body_begin(record);

	memset(body, 0, sizeof(*body));
	fields_read(&reader, &qp_layout, body);
	body->endpoint.incarnation = record->incarnation;
	body->endpoint.rank = record->rank;
	body->endpoint.ip = body->endpoint.gid;
	if (record->flags & BEEST_RECORD_IP)
		fields_read(&reader, &ip_layout, body);
	regions_read(&reader, body->regions);
	if (record->flags & BEEST_RECORD_REFUSED)
		text_read(&reader, body->reason, sizeof(body->reason));
	if (record->flags & BEEST_RECORD_ECE)
		fields_read(&reader, &ece_layout, body);

	return reader.ret < 0 ? reader.ret : endpoint_check(&body->endpoint);
}

void beest_record_qp_region(const struct beest_record *record, size_t i,
			    struct hartebeest_remote_mr *region)
{
	region_decode(record->body + qp_region_at(record, i), BEEST_REGION_SIZE, region);
}

/* --------------------------------------------------------------------- messages --- */

int beest_record_message_decode(const struct beest_record *record, struct beest_message_body *body)
{
	size_t ids;

	memset(body, 0, sizeof(*body));
	body->once = record->flags & BEEST_RECORD_ONCE;
	body->taken = body->once && record->flags & BEEST_RECORD_CLOSED;
	ids = (size_t)(body->once + body->taken) * BEEST_ONCE_ID;
	if (record->size < ids)
		return beest_fail(EBADMSG, "a message for one reader has %zu bytes, at least %zu "
				  "are needed", record->size, ids);
	if (body->once)
		memcpy(body->push, record->body, BEEST_ONCE_ID);
	if (body->taken)
		memcpy(body->take, record->body + BEEST_ONCE_ID, BEEST_ONCE_ID);
	body->data = record->body + ids;
	body->size = record->size - ids;

	return 0;
}

/* ---------------------------------------------------------------------- regions --- */

int beest_record_mr_encode(const struct hartebeest_remote_mr *region,
			   uint8_t bytes[BEEST_BODY_MAX])
{
	return beest_codec_encode(&mr_layout, region, bytes, BEEST_BODY_MAX);
}

int beest_record_mr_decode(const struct beest_record *record,
			   struct hartebeest_remote_mr *region)
{
	return region_decode(record->body, record->size, region);
}

/* ------------------------------------------------------------------------ ranks --- */

LAYOUT(rank_layout,
	BEEST_CODEC_ROW(beest_rank_body, began, UINT),
	BEEST_CODEC_ROW(beest_rank_body, participants, UINT),
	BEEST_CODEC_ROW(beest_rank_body, servers, UINT),
	BEEST_CODEC_ROW(beest_rank_body, pid, UINT),
	BEEST_CODEC_ROW(beest_rank_body, size, UINT),
	BEEST_CODEC_ROW(beest_rank_body, state, UINT),
	BEEST_CODEC_ROW(beest_rank_body, displaced, BYTES));

/* The texts that follow the fields. */
static const struct rank_text {
	size_t offset, room;
} rank_texts[] = {
	{ offsetof(struct beest_rank_body, host), BEEST_HOST_MAX },
	{ offsetof(struct beest_rank_body, device), BEEST_DEVICE_MAX },
	{ offsetof(struct beest_rank_body, reason), BEEST_REASON_MAX },
	{ offsetof(struct beest_rank_body, waits), BEEST_WAITS_MAX },
};

int beest_record_rank_encode(const struct beest_rank_body *body, uint8_t bytes[BEEST_BODY_MAX])
{
	int used = beest_codec_encode(&rank_layout, body, bytes, BEEST_BODY_MAX);
	size_t i;

	for (i = 0; i < BEEST_COUNT(rank_texts); i++)
		used += text_write((const char *)body + rank_texts[i].offset,
				   rank_texts[i].room, bytes + used);

	return used;
}

int beest_record_rank_decode(const struct beest_record *record, struct beest_rank_body *body)
{
	struct reader reader = body_begin(record);
	size_t i;

	fields_read(&reader, &rank_layout, body);
	for (i = 0; i < BEEST_COUNT(rank_texts); i++)
		text_read(&reader, (char *)body + rank_texts[i].offset, rank_texts[i].room);
	body->rest = reader.bytes;
	body->rest_size = reader.size;

	return reader.ret;
}

/* ----------------------------------------------------------------------- fences --- */

#define SETUP_ROWS(type) \
	BEEST_CODEC_ROW(type, setup.what, UINT), \
	BEEST_CODEC_ROW(type, setup.size, UINT), \
	BEEST_CODEC_ROW(type, setup.ranks, UINT), \
	BEEST_CODEC_ROW(type, setup.form, UINT)

LAYOUT(member_layout,
	SETUP_ROWS(beest_member_body),
	BEEST_CODEC_ROW(beest_member_body, call, UINT),
	BEEST_CODEC_ROW(beest_member_body, follows, BYTES),
	BEEST_CODEC_ROW(beest_member_body, view, UINT),
	BEEST_CODEC_ROW(beest_member_body, pass, UINT),
	BEEST_CODEC_ROW(beest_member_body, shown, UINT),
	BEEST_CODEC_ROW(beest_member_body, refusal.error, UINT));

LAYOUT(leader_layout,
	SETUP_ROWS(beest_leader_body),
	BEEST_CODEC_ROW(beest_leader_body, call, UINT),
	BEEST_CODEC_ROW(beest_leader_body, added, BYTES),
	BEEST_CODEC_ROW(beest_leader_body, committed, UINT),
	BEEST_CODEC_ROW(beest_leader_body, passes, UINT),
	BEEST_CODEC_ROW(beest_leader_body, proposed, UINT),
	BEEST_CODEC_ROW(beest_leader_body, culprit, BYTES),
	BEEST_CODEC_ROW(beest_leader_body, culprit_call, UINT),
	BEEST_CODEC_ROW(beest_leader_body, in_pass, UINT),
	BEEST_CODEC_ROW(beest_leader_body, looked, UINT),
	BEEST_CODEC_ROW(beest_leader_body, range_count, UINT),
	BEEST_CODEC_ROW(beest_leader_body, chunk_ranks, UINT),
	BEEST_CODEC_ROW(beest_leader_body, chunk_count, UINT),
	BEEST_CODEC_ROW(beest_leader_body, failure.error, UINT));

LAYOUT(range_layout,
	BEEST_CODEC_ROW(beest_fence_range, first, UINT),
	BEEST_CODEC_ROW(beest_fence_range, last, UINT));

LAYOUT(entry_layout,
	BEEST_CODEC_ROW(beest_fence_entry, rank, UINT),
	BEEST_CODEC_ROW(beest_fence_entry, incarnation, BYTES),
	BEEST_CODEC_ROW(beest_fence_entry, call, UINT),
	BEEST_CODEC_ROW(beest_fence_entry, size, UINT));

static int trouble_encode(const struct beest_fence_trouble *trouble, uint8_t *bytes)
{
	return trouble->error ? text_write(trouble->text, sizeof(trouble->text), bytes) : 0;
}

static void trouble_read(struct reader *reader, struct beest_fence_trouble *trouble)
{
	if (reader->ret < 0 || !trouble->error)
		return;
	text_read(reader, trouble->text, sizeof(trouble->text));
	if (reader->ret == 0 && !trouble->text[0])
		reader->ret = beest_fail(EBADMSG, "the record says that its author fails, but not "
					 "why");
}

int beest_record_member_encode(const struct beest_member_body *body, uint8_t *bytes)
{
	int used = beest_codec_encode(&member_layout, body, bytes, BEEST_BODY_MAX);

	used += trouble_encode(&body->refusal, bytes + used);
	if (body->size)
		memcpy(bytes + used, body->value, body->size);

	return used + (int)body->size;
}

int beest_record_member_decode(const struct beest_record *record, struct beest_member_body *body)
{
	struct reader reader = body_begin(record);

	memset(body, 0, sizeof(*body));
	fields_read(&reader, &member_layout, body);
	trouble_read(&reader, &body->refusal);
	body->value = reader.bytes;
	body->size = reader.size;
	if (reader.ret == 0 && body->shown > body->size)
		return beest_fail(EBADMSG, "the record ends within what its author contributes");

	return reader.ret;
}

int beest_record_leader_encode(const struct beest_leader_body *body, uint8_t *bytes)
{
	int used = beest_codec_encode(&leader_layout, body, bytes, BEEST_BODY_MAX);
	size_t i;

	used += trouble_encode(&body->failure, bytes + used);
	for (i = 0; i < body->range_count; i++)
		used += beest_codec_encode(&range_layout, &body->missing[i], bytes + used,
					   sizeof(body->missing[i]));
	if (body->chunks_size)
		memcpy(bytes + used, body->chunks, body->chunks_size);

	return used + (int)body->chunks_size;
}

int beest_record_leader_decode(const struct beest_record *record, struct beest_leader_body *body)
{
	struct reader reader = body_begin(record);
	size_t digests, i;

	memset(body, 0, sizeof(*body));
	fields_read(&reader, &leader_layout, body);
	trouble_read(&reader, &body->failure);
	if (reader.ret == 0 && body->range_count > BEEST_FENCE_RANGES)
		return beest_fail(EBADMSG, "the record has %d ranges of ranks", body->range_count);
	for (i = 0; i < body->range_count && reader.ret == 0; i++)
		fields_read(&reader, &range_layout, &body->missing[i]);
	if (reader.ret < 0)
		return reader.ret;
	body->chunks = reader.bytes;
	body->chunks_size = reader.size;
	digests = body->chunk_count > BEEST_FENCE_DIGESTS ? 1 : body->chunk_count;
	if (body->chunk_count && (body->chunks_size / 8 < digests || !body->chunk_ranks))
		return beest_fail(EBADMSG, "the record names %" PRIu32 " chunks of %d ranks, but "
				  "does not have the digest of each", body->chunk_count,
				  body->chunk_ranks);

	return 0;
}

int beest_record_entry_encode(const struct beest_fence_entry *entry, uint8_t *bytes)
{
	int used = beest_codec_encode(&entry_layout, entry, bytes, BEEST_FENCE_ENTRY);

	if (entry->size)
		memcpy(bytes + used, entry->value, entry->size);

	return used + (int)entry->size;
}

int beest_record_entry_decode(const uint8_t *bytes, size_t size, struct beest_fence_entry *entry)
{
	int ret = beest_codec_decode(&entry_layout, bytes, size, entry);

	if (ret < 0)
		return ret;
	if (entry->size > size - BEEST_FENCE_ENTRY)
		return beest_fail(EBADMSG, "what rank %" PRIu32 " contributes ends too early",
				  entry->rank);
	entry->value = bytes + BEEST_FENCE_ENTRY;
	entry->hidden = NULL;
	entry->hidden_size = 0;

	return BEEST_FENCE_ENTRY + (int)entry->size;
}

/* --------------------------------------------------------------------- services --- */

LAYOUT(listens_layout,
	BEEST_CODEC_ROW(beest_service_body, word, UINT),
	BEEST_CODEC_ROW(beest_service_body, since, UINT));

LAYOUT(id_layout,
	BEEST_CODEC_ROW(beest_request_id, client, UINT),
	BEEST_CODEC_ROW(beest_request_id, number, UINT));

LAYOUT(request_layout,
	BEEST_CODEC_ROW(beest_request_body, number, UINT),
	BEEST_CODEC_ROW(beest_request_body, pid, UINT),
	BEEST_CODEC_ROW(beest_request_body, length, UINT));

/* Does it concern its author? */
static bool word_has_since(uint8_t word)
{
	return word == BEEST_SERVICE_LISTENS || word == BEEST_SERVICE_STOPS;
}

int beest_record_service_encode(const struct beest_service_body *body,
				uint8_t bytes[BEEST_SERVICE_MAX])
{
	int used = 1;
	size_t i;

	if (word_has_since(body->word))
		return beest_codec_encode(&listens_layout, body, bytes, BEEST_SERVICE_MAX);
	bytes[0] = body->word;
	for (i = 0; i < body->count; i++)
		used += beest_codec_encode(&id_layout, &body->ids[i], bytes + used,
					   BEEST_SERVICE_MAX - (size_t)used);

	return used;
}

int beest_record_service_decode(const struct beest_record *record,
				struct beest_service_body *body)
{
	size_t size = beest_codec_size(&id_layout), i;

	body->count = 0;
	body->since = 0;
	if (record->size && word_has_since(record->body[0]))
		return beest_codec_decode(&listens_layout, record->body, record->size, body);
	if (!record->size || record->size > BEEST_SERVICE_MAX || (record->size - 1) % size)
		return beest_fail(EBADMSG, "an entry of %zu bytes is not one of a service",
				  record->size);

	body->word = record->body[0];
	body->count = (record->size - 1) / size;
	for (i = 0; i < body->count; i++)
		beest_codec_decode(&id_layout, record->body + 1 + i * size, size, &body->ids[i]);

	return 0;
}

int beest_record_request_encode(const struct beest_request_body *body,
				uint8_t bytes[BEEST_REQUEST_MAX])
{
	int used = beest_codec_encode(&request_layout, body, bytes, BEEST_REQUEST_MAX);

	used += text_write(body->host, sizeof(body->host), bytes + used);
	memcpy(bytes + used, body->data, body->length);

	return used + body->length;
}

int beest_record_request_decode(const struct beest_record *record,
				struct beest_request_body *body)
{
	struct reader reader = body_begin(record);

	fields_read(&reader, &request_layout, body);
	text_read(&reader, body->host, sizeof(body->host));
	if (reader.ret < 0)
		return reader.ret;
	if (body->length > BEEST_REQUEST_DATA || body->length > reader.size)
		return beest_fail(EBADMSG, "the request announces %d bytes of data, but "
				  "has %d", body->length, (int)reader.size);
	memcpy(body->data, reader.bytes, body->length);

	return 0;
}

/* ------------------------------------------------------------------------- mesh --- */

LAYOUT(mesh_layout,
	BEEST_CODEC_ROW(beest_mesh_body, form, UINT),
	BEEST_CODEC_ROW(beest_mesh_body, list, UINT),
	KIND_ROWS(beest_mesh_body),
	NUMBER_ROWS(beest_mesh_body),
	BEEST_CODEC_ROW(beest_mesh_body, endpoint.ece.vendor, UINT),
	BEEST_CODEC_ROW(beest_mesh_body, endpoint.ece.options, UINT),
	BEEST_CODEC_ROW(beest_mesh_body, endpoint.gid, BYTES),
	BEEST_CODEC_ROW(beest_mesh_body, endpoint.ip, BYTES));

size_t beest_record_mesh_size(size_t regions)
{
	return beest_codec_size(&mesh_layout) + regions * BEEST_REGION_SIZE;
}

void beest_record_mesh_encode(const struct beest_mesh_body *body,
			      const struct hartebeest_remote_mr *regions, size_t count,
			      uint8_t *bytes)
{
	bytes += beest_codec_encode(&mesh_layout, body, bytes, beest_codec_size(&mesh_layout));
	regions_encode(regions, count, bytes);
}

int beest_record_mesh_decode(const uint8_t *bytes, size_t size, struct beest_mesh_body *body)
{
	int ret;

	memset(body, 0, sizeof(*body));
	ret = beest_codec_decode(&mesh_layout, bytes, size, body);

	return ret < 0 ? ret : endpoint_check(&body->endpoint);
}

int beest_record_mesh_region(const uint8_t *bytes, size_t i,
			     struct hartebeest_remote_mr *region)
{
	return region_decode(bytes + beest_record_mesh_size(i), BEEST_REGION_SIZE, region);
}
