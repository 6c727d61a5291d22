/* SPDX-License-Identifier: MIT */
/*
 * record.c - the wire form: records come back as encoded, and nothing else is accepted
 *
 * promise: hartebeest-exchange(7)
 */
#include "config.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "lib/base/hash.h"
#include "lib/kv/choice.h"
#include "lib/kv/kv.h"
#include "lib/rendezvous/record.h"
#include "tests/support/page.h"
#include "tests/support/unit.h"
#include "tests/support/wire.h"

/* ------------------------------------------------------------------ what is encoded --- */

#define VIEW UINT64_C(0x4d62ae6c0981e4b4)
#define IDS UINT64_C(0xa8c7f732281a3812)
#define PARTICIPANTS UINT64_C(0x08cd4c29d1e47d35)
#define SERVERS UINT64_C(0xae0000b3a8add862)

static struct beest_incarnation incarnation(uint8_t from)
{
	struct beest_incarnation drawn;
	uint8_t i;

	for (i = 0; i < BEEST_INCARNATION_SIZE; i++)
		drawn.bytes[i] = (uint8_t)(from + i);
	return drawn;
}

static const struct hartebeest_remote_mr region = {
	.address = UINT64_C(0x7f0011223344), .length = 4096, .rkey = 0x1234, .access = 7,
};

/* RoCE v2, connected, with the IP address in the GID, and with one region. */
static struct beest_qp_body qp_example(void)
{
	struct beest_qp_body body = {
		.endpoint = {
			.qp_type = IBV_QPT_RC, .link_layer = 2, .roce = 2, .mtu = 5,
			.max_dest_rd_atomic = 16, .pkey = 0xffff, .qp_num = 0x12a,
			.psn = 0xabcdef, .generation = 3,
			.gid = { { [10] = 0xff, 0xff, 10, 0, 0, 1 } },
			.ip = { { [10] = 0xff, 0xff, 10, 0, 0, 1 } },
		},
		.echo = { .qp_num = 0x12b, .psn = 0x123456, .generation = 1 },
		.regions = 1,
	};

	body.echo.incarnation = incarnation(16);
	return body;
}

static const struct beest_rank_body rank_example = {
	.began = 0x6b00df00, .participants = PARTICIPANTS, .servers = SERVERS, .pid = 4711,
	.size = 2, .host = "node1", .device = "mlx5_0:1",
	.displaced = { { 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31 } },
};

static int body_of_qp(uint8_t *flags, uint8_t *bytes)
{
	struct beest_qp_body body = qp_example();

	return beest_record_qp_encode(&body, &region, flags, bytes);
}

static int body_of_mr(uint8_t *flags, uint8_t *bytes)
{
	(void)flags;
	return beest_record_mr_encode(&region, bytes);
}

static int body_of_rank(uint8_t *flags, uint8_t *bytes)
{
	(void)flags;
	return beest_record_rank_encode(&rank_example, bytes);
}

/* The first barrier of ranks 0 and 1. */
static const struct beest_fence_setup barrier_of_two = {
	.what = BEEST_FENCE_BARRIER, .size = 2, .ranks = IDS,
};

static int body_of_leader(uint8_t *flags, uint8_t *bytes)
{
	struct beest_leader_body body = {
		.setup = barrier_of_two, .call = 1, .added = incarnation(0), .proposed = VIEW,
	};
	uint8_t view[2 * BEEST_FENCE_ENTRY];
	uint32_t rank;

	(void)flags;
	for (rank = 0; rank < 2; rank++) {
		const struct beest_fence_entry entry = {
			.rank = rank, .incarnation = incarnation((uint8_t)(16 * rank)), .call = 1,
		};

		body.chunks_size += (size_t)beest_record_entry_encode(&entry, view +
								      body.chunks_size);
	}
	body.chunks = view;
	return beest_record_leader_encode(&body, bytes);
}

static int body_of_member(uint8_t *flags, uint8_t *bytes)
{
	const struct beest_member_body body = {
		.setup = barrier_of_two, .call = 1, .follows = incarnation(0), .view = VIEW,
	};

	(void)flags;
	return beest_record_member_encode(&body, bytes);
}

static int body_of_message(uint8_t *flags, uint8_t *bytes)
{
	(void)flags;
	memcpy(bytes, "hello", 5);
	return 5;
}

/* ------------------------------------------------------------------------- vectors --- */

/*
 * Records of rank 0 with the incarnation 00 01 ... 0f, and of rank 1 with 10 11 ... 1f, made by
 * another program.  All of them are also examples of hartebeest-exchange(7).
 */
static const struct vector {
	const char *key;
	int32_t rank;
	enum beest_record_kind kind;
	int (*body)(uint8_t *flags, uint8_t *bytes);
	const char *hex;
} vectors[] = {
	{ "hb1/demo/msg/greeting", 0, BEEST_KIND_MESSAGE, body_of_message,
	  "4842520173" "00" "000102030405060708090a0b0c0d0e0f" "00000000" "68656c6c6f" "632994d5" },
	{ "hb1/demo/mr/buf", 0, BEEST_KIND_MR, body_of_mr,
	  "484252016d" "00" "000102030405060708090a0b0c0d0e0f" "00000000"
	  "00007f0011223344" "0000000000001000" "00001234" "00000007" "204baa71" },
	{ "hb1/demo/qp/0-1", 0, BEEST_KIND_QP, body_of_qp,
	  "4842520171" "02" "000102030405060708090a0b0c0d0e0f" "00000000"
	  "02020205100001" "0000" "ffff" "0000012a" "00abcdef" "00000000" "00000003"
	  "00000000000000000000ffff0a000001"
	  "101112131415161718191a1b1c1d1e1f" "0000012b" "00123456" "00000001"
	  "00007f0011223344" "0000000000001000" "00001234" "00000007" "cfaf72b4" },
	{ "hb1/demo/rank/0", 0, BEEST_KIND_RANK, body_of_rank,
	  "4842520172" "00" "000102030405060708090a0b0c0d0e0f" "00000000"
	  "000000006b00df00" "08cd4c29d1e47d35" "ae0000b3a8add862" "00001267" "00000002" "00"
	  "101112131415161718191a1b1c1d1e1f"
	  "05" "6e6f646531" "08" "6d6c78355f303a31" "00" "00" "dd98a1ff" },
	{ "hb1/demo/fence/all/lead", 0, BEEST_KIND_LEADER, body_of_leader,
	  "4842520166" "00" "000102030405060708090a0b0c0d0e0f" "00000000"
	  "01" "00000002" "a8c7f732281a3812" "0000000000000000" "00000001"
	  "000102030405060708090a0b0c0d0e0f" "0000000000000000" "0000000000000000"
	  "4d62ae6c0981e4b4" "00000000000000000000000000000000" "00000000" "00" "00000000"
	  "00" "0000" "00000000" "0000"
	  "00000000" "000102030405060708090a0b0c0d0e0f" "00000001" "00000000"
	  "00000001" "101112131415161718191a1b1c1d1e1f" "00000001" "00000000" "65d5e82e" },
	{ "hb1/demo/fence/all/1", 1, BEEST_KIND_MEMBER, body_of_member,
	  "4842520165" "00" "101112131415161718191a1b1c1d1e1f" "00000001"
	  "01" "00000002" "a8c7f732281a3812" "0000000000000000" "00000001"
	  "000102030405060708090a0b0c0d0e0f" "4d62ae6c0981e4b4" "0000000000000000"
	  "00000000" "0000" "83b240da" },
};

#define VECTOR_MAX 208
#define QP_VECTOR (&vectors[2])
#define RANK_VECTOR (&vectors[3])
#define LEADER_VECTOR (&vectors[4])
#define MEMBER_VECTOR (&vectors[5])

enum { AT_VERSION = 3, AT_KIND = 4, AT_FLAGS = 5, AT_BODY = 26 };

#define RANK_TEXTS 49			/* where those of a rank's body begin */

static struct beest_incarnation vector_author(const struct vector *vector)
{
	return incarnation((uint8_t)(16 * vector->rank));
}

static unsigned int hex_value(char digit)
{
	return (unsigned int)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

static size_t vector_bytes(const struct vector *vector, uint8_t bytes[VECTOR_MAX])
{
	size_t i, size = strlen(vector->hex) / 2;
	const char *hex = vector->hex;

	for (i = 0; i < size; i++, hex += 2)
		bytes[i] = (uint8_t)(hex_value(hex[0]) << 4 | hex_value(hex[1]));
	return size;
}

/* Decodes from memory of exactly that size, so that a checker sees every byte read too far. */
static int decode(const uint8_t *bytes, size_t size, enum beest_record_kind kind,
		  const char *key)
{
	uint8_t *exact = malloc(size ? size : 1);
	struct beest_record record;
	int ret;

	memcpy(exact, bytes, size);
	memset(&record, 0x55, sizeof(record));
	ret = beest_record_decode(NULL, exact, size, kind, key, &record);
	if (ret < 0)
		assert_true(record.size == (size_t)UINT64_C(0x5555555555555555));
	else
		assert_int_equal(record.size, size - BEEST_RECORD_OVERHEAD);
	free(exact);
	return ret;
}

/* Corrects the checksum of damaged bytes, as a malicious author would. */
static void seal(uint8_t *bytes, size_t size, const char *key)
{
	uint32_t sum = beest_hash_crc32(beest_hash_crc32(0, key, strlen(key)), bytes, size - 4);
	int i;

	for (i = 0; i < 4; i++)
		bytes[size - 4 + i] = (uint8_t)(sum >> (24 - 8 * i));
}

static int decode_with(const struct vector *vector, size_t at, uint8_t byte)
{
	uint8_t bytes[VECTOR_MAX];
	size_t size = vector_bytes(vector, bytes);

	bytes[at] = byte;
	seal(bytes, size, vector->key);
	return decode(bytes, size, vector->kind, vector->key);
}

/* ------------------------------------------------------------------------- records --- */

static int vector_encode(const struct vector *vector, uint8_t *bytes, size_t room)
{
	uint8_t body[BEEST_BODY_MAX];
	struct beest_record record = {
		.kind = vector->kind, .incarnation = vector_author(vector), .rank = vector->rank,
		.body = body,
	};

	record.size = (size_t)vector->body(&record.flags, body);
	return beest_record_encode(NULL, &record, vector->key, bytes, room);
}

static void wire_form_is_fixed(void **state)
{
	uint8_t wanted[VECTOR_MAX], bytes[VECTOR_MAX];
	size_t i, size;

	(void)state;
	for (i = 0; i < BEEST_COUNT(vectors); i++) {
		size = vector_bytes(&vectors[i], wanted);
		assert_int_equal(vector_encode(&vectors[i], bytes, sizeof(bytes)), size);
		assert_memory_equal(bytes, wanted, size);
		assert_int_equal(decode(wanted, size, vectors[i].kind, vectors[i].key), 0);
	}
}

/* ------------------------------------------------------------------- the manual page --- */

static void the_page_shows_these_bytes(void **state)
{
	char *page = page_read(PAGE), hex[PAGE_HEX];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(vectors); i++) {
		page_hex(page, vectors[i].key, hex);
		assert_string_equal(hex, vectors[i].hex);
	}
	free(page);
}

static void the_page_has_these_digests(void **state)
{
	static const struct {
		const char *of;
		uint64_t digest;
	} rows[] = { { "servers", SERVERS }, { "ids", IDS }, { "view", VIEW } };
	static const uint8_t ids[] = { 0, 0, 0, 0, 0, 0, 0, 1 };
	char *page = page_read(PAGE), text[32];
	struct beest_choice servers[2];
	size_t i;

	(void)state;
	beest_choice_set(&servers[0], "node1:11211");
	beest_choice_set(&servers[1], "node2:11211");
	assert_true(beest_choice_digest(servers, 2) == SERVERS);
	assert_true(beest_hash_fnv(BEEST_HASH_FNV, ids, sizeof(ids)) == IDS);
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)rows[i].digest);
		if (!strstr(page, text))
			fail_msg("the page lacks the digest of the %s, %s", rows[i].of, text);
	}
	free(page);
}

/* ------------------------------------------------------------------------ envelopes --- */

static void round_trip(enum beest_record_kind kind, size_t key_size, size_t size, int32_t rank)
{
	static uint8_t body[70000], bytes[sizeof(body) + BEEST_RECORD_OVERHEAD];
	struct beest_record out, in = {
		.kind = kind, .flags = (uint8_t)size, .incarnation = incarnation(0x77),
		.rank = rank, .body = body, .size = size,
	};
	char key[BEEST_KEY_MAX + 1];
	int ret;

	memset(body, 0xa5, size);
	unit_repeat(key, 'k', key_size);
	ret = beest_record_encode(NULL, &in, key, bytes, BEEST_RECORD_OVERHEAD + size);
	assert_int_equal(ret, 30 + size);
	assert_int_equal(beest_record_decode(NULL, bytes, (size_t)ret, kind, key, &out), 0);
	assert_int_equal(out.kind, kind);
	assert_int_equal(out.flags, in.flags);
	assert_int_equal(wire_flags(bytes), in.flags);
	assert_memory_equal(&out.incarnation, &in.incarnation, BEEST_INCARNATION_SIZE);
	assert_int_equal(out.rank, rank);
	assert_int_equal(out.size, size);
	assert_ptr_equal(out.body, bytes + AT_BODY);
	assert_memory_equal(out.body, body, size);
}

static void every_kind_and_length_comes_back(void **state)
{
	static const size_t sizes[] = { 0, 1, 24, 255, 256, 65535, 65536, 70000 };
	const struct beest_record_row *row;
	size_t i, j;

	(void)state;
	for (i = 0; (row = beest_record_row_at(i)); i++)
		for (j = 0; j < BEEST_COUNT(sizes); j++)
			round_trip(row->kind, 1 + 35 * j, sizes[j], (int32_t)j - 1);
	round_trip(BEEST_KIND_QP, BEEST_KEY_MAX, 0, 1 << 30);
}

/* One table says all of a kind; one that it lacks, as of a later version, is not read beyond it. */
static void kinds_have_rows(void **state)
{
	static const char *const words[] = {
		"rank", "mr", "qp", "msg", "fence", "fence", "fence", "fence", "service",
		"service", "counter",
	};
	const struct beest_record_row *row;
	size_t i;

	(void)state;
	for (i = 0; (row = beest_record_row_at(i)); i++) {
		assert_ptr_equal(beest_record_row(row->kind), row);
		assert_string_equal(row->word, words[i]);
	}
	assert_int_equal(i, BEEST_COUNT(words));
	for (i = 0; i < 256; i++)
		assert_non_null(beest_record_row((enum beest_record_kind)i)->noun);
	row = beest_record_row((enum beest_record_kind)'?');
	assert_string_equal(row->word, "unknown");
	assert_false(row->in_turn || row->taken || row->read_back);
	assert_int_equal(row->ending, BEEST_RECORD_STAYS);
}

static void a_small_buffer_is_refused(void **state)
{
	struct beest_record record = { .kind = BEEST_KIND_MESSAGE };
	uint8_t bytes[VECTOR_MAX];
	size_t size, whole = vector_bytes(QP_VECTOR, bytes);

	(void)state;
	for (size = 0; size < whole; size++)
		assert_int_equal(vector_encode(QP_VECTOR, bytes, size), -EMSGSIZE);
	assert_int_equal(vector_encode(QP_VECTOR, bytes, whole), whole);
	record.size = INT32_MAX;
	assert_int_equal(beest_record_encode(NULL, &record, "k", bytes, SIZE_MAX), -EMSGSIZE);
	record.size = SIZE_MAX;
	assert_int_equal(beest_record_encode(NULL, &record, "k", bytes, SIZE_MAX), -EMSGSIZE);
}

static void every_truncation_is_refused(void **state)
{
	uint8_t bytes[VECTOR_MAX];
	size_t i, size, whole;

	(void)state;
	for (i = 0; i < BEEST_COUNT(vectors); i++) {
		whole = vector_bytes(&vectors[i], bytes);
		for (size = 0; size < whole; size++)
			assert_int_equal(decode(bytes, size, vectors[i].kind, vectors[i].key),
					 -EBADMSG);
	}
}

static void bytes_behind_the_checksum_are_refused(void **state)
{
	uint8_t bytes[VECTOR_MAX] = { 0 };
	size_t i, size;

	(void)state;
	for (i = 0; i < BEEST_COUNT(vectors); i++) {
		size = vector_bytes(&vectors[i], bytes);
		bytes[size] = 0;
		assert_int_equal(decode(bytes, size + 1, vectors[i].kind, vectors[i].key),
				 -EBADMSG);
	}
}

static void every_flipped_bit_is_refused(void **state)
{
	uint8_t bytes[VECTOR_MAX];
	size_t i, bit, size;
	int ret;

	(void)state;
	for (i = 0; i < BEEST_COUNT(vectors); i++) {
		size = vector_bytes(&vectors[i], bytes);
		for (bit = 0; bit < 8 * size; bit++) {
			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
			ret = decode(bytes, size, vectors[i].kind, vectors[i].key);
			assert_int_equal(ret, bit / 8 == AT_VERSION ? -EPROTONOSUPPORT :
					 -EBADMSG);
			bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		}
	}
}

/* Even if the checksum is wrong, since another version may have a different checksum. */
static void another_version_is_named(void **state)
{
	uint8_t bytes[VECTOR_MAX];
	size_t size = vector_bytes(QP_VECTOR, bytes);

	(void)state;
	assert_int_equal(decode_with(QP_VECTOR, AT_VERSION, 2), -EPROTONOSUPPORT);
	assert_error_is("a record of version 2; this library understands version 1 only");
	bytes[AT_VERSION] = 255;
	assert_int_equal(decode(bytes, size, BEEST_KIND_QP, QP_VECTOR->key), -EPROTONOSUPPORT);
}

static void another_kind_is_named(void **state)
{
	uint8_t bytes[VECTOR_MAX];
	size_t size = vector_bytes(QP_VECTOR, bytes);

	(void)state;
	assert_int_equal(decode(bytes, size, BEEST_KIND_MR, QP_VECTOR->key), -EBADMSG);
	assert_error_is("a record of kind qp, mr expected");
	assert_int_equal(decode_with(QP_VECTOR, AT_KIND, 'z'), -EBADMSG);
	assert_error_has("kind unknown");
}

/* The checksum covers the key, which is not part of the record. */
static void a_record_of_another_key_is_refused(void **state)
{
	static const char *const others[] = {
		"hb1/demo/qp/0-", "hb1/demo/qp/0-2", "hb1/demo/qp/0-11", "hb1/demO/qp/0-1", "",
	};
	uint8_t bytes[VECTOR_MAX];
	size_t i, size = vector_bytes(QP_VECTOR, bytes);

	(void)state;
	for (i = 0; i < BEEST_COUNT(others); i++) {
		assert_int_equal(decode(bytes, size, BEEST_KIND_QP, others[i]), -EBADMSG);
		assert_error_is("a damaged record, or one of another key: its checksum is wrong");
		assert_int_equal(decode(bytes, size, BEEST_KIND_ANY, others[i]), -EBADMSG);
	}
}

static void garbage_is_refused(void **state)
{
	uint8_t bytes[300];
	uint32_t seed = 1;
	size_t size, i;
	int round, stride = unit_stride(7);

	(void)state;
	for (round = 0; round < 100000; round += stride) {
		size = unit_next(&seed) % sizeof(bytes);
		for (i = 0; i < size; i++)
			bytes[i] = (uint8_t)unit_next(&seed);
		if (round % 2 && size > 4)
			memcpy(bytes, "HBR\x01", 4);
		assert_true(decode(bytes, size, BEEST_KIND_MR, "k") < 0);
	}
}

static void any_kind_of_sound_bytes(void **state)
{
	struct beest_incarnation wanted;
	struct beest_record record;
	uint8_t bytes[VECTOR_MAX];
	size_t i, size;

	(void)state;
	for (i = 0; i < BEEST_COUNT(vectors); i++) {
		size = vector_bytes(&vectors[i], bytes);
		assert_int_equal(beest_record_decode(NULL, bytes, size, BEEST_KIND_ANY,
						     vectors[i].key, &record), 0);
		assert_int_equal(record.kind, vectors[i].kind);
		assert_int_equal(record.rank, vectors[i].rank);
		wanted = vector_author(&vectors[i]);
		assert_memory_equal(&record.incarnation, &wanted, sizeof(wanted));
		assert_true(decode(bytes, size - 1, BEEST_KIND_ANY, vectors[i].key) < 0);
		assert_true(decode(bytes, 29, BEEST_KIND_ANY, vectors[i].key) < 0);
		bytes[AT_BODY]++;
		assert_true(decode(bytes, size, BEEST_KIND_ANY, vectors[i].key) < 0);
	}
}

/* -------------------------------------------------------------------- queue pairs --- */

#define QP_RECORD_MAX (BEEST_QP_BODY_MAX + BEEST_RECORD_OVERHEAD)

static size_t qp_encode(const struct beest_qp_body *body, const char *key, uint8_t *bytes)
{
	uint8_t plain[BEEST_QP_BODY_MAX];
	struct beest_record record = {
		.kind = BEEST_KIND_QP, .incarnation = incarnation(0), .rank = 3, .body = plain,
	};
	struct hartebeest_remote_mr regions[UINT8_MAX];
	size_t i;

	for (i = 0; i < body->regions; i++) {
		regions[i] = region;
		regions[i].rkey = (uint32_t)i;
	}
	record.size = (size_t)beest_record_qp_encode(body, regions, &record.flags, plain);
	return (size_t)beest_record_encode(NULL, &record, key, bytes, QP_RECORD_MAX);
}

static int qp_decode(uint8_t *bytes, size_t size, struct beest_qp_body *body)
{
	struct beest_record record;

	assert_int_equal(beest_record_decode(NULL, bytes, size, BEEST_KIND_QP, "k", &record), 0);
	return beest_record_qp_decode(&record, body);
}

static void endpoints_are_same(const struct beest_endpoint *a, const struct beest_endpoint *b)
{
	assert_int_equal(a->qp_type, b->qp_type);
	assert_int_equal(a->link_layer, b->link_layer);
	assert_int_equal(a->roce, b->roce);
	assert_int_equal(a->mtu, b->mtu);
	assert_int_equal(a->max_dest_rd_atomic, b->max_dest_rd_atomic);
	assert_int_equal(a->grh_required, b->grh_required);
	assert_int_equal(a->lid, b->lid);
	assert_int_equal(a->pkey, b->pkey);
	assert_int_equal(a->qp_num, b->qp_num);
	assert_int_equal(a->psn, b->psn);
	assert_int_equal(a->qkey, b->qkey);
	assert_int_equal(a->generation, b->generation);
	assert_memory_equal(&a->gid, &b->gid, sizeof(a->gid));
	assert_memory_equal(&a->ip, &b->ip, sizeof(a->ip));
	assert_int_equal(a->ece.vendor, b->ece.vendor);
	assert_int_equal(a->ece.options, b->ece.options);
}

#define REASON "the transport differs"

/* Bits of @which: has an echo, a separate IP address, regions, a reason, options of an adapter. */
static struct beest_qp_body qp_variant(unsigned int which)
{
	struct beest_qp_body body = qp_example();

	body.endpoint.lid = 0x0102;
	body.endpoint.grh_required = 1;
	body.endpoint.qkey = 0x11111111;
	if (!(which & 1))
		memset(&body.echo, 0, sizeof(body.echo));
	if (which & 2)
		memset(&body.endpoint.ip, which, sizeof(body.endpoint.ip));
	body.regions = which & 4 ? UINT8_MAX : 0;
	if (which & 8)
		strcpy(body.reason, REASON);
	if (which & 16)
		body.endpoint.ece = (struct beest_ece){ 0x15b3, 0x80000003 };
	return body;
}

static void every_form_of_a_queue_pair_comes_back(void **state)
{
	struct beest_qp_body in, out;
	struct beest_incarnation author = incarnation(0);
	uint8_t bytes[QP_RECORD_MAX];
	struct hartebeest_remote_mr found;
	struct beest_record record;
	unsigned int which;
	size_t i, size;
	bool refused;

	(void)state;
	for (which = 0; which < 32; which++) {
		refused = (which & 9) == 9;
		in = qp_variant(which);
		size = qp_encode(&in, "k", bytes);
		assert_int_equal(size, 101 + (which & 2 ? 16 : 0) + 24 * in.regions +
				 (refused ? sizeof(REASON) : 0) + (which & 16 ? 8 : 0));
		assert_int_equal(wire_flags(bytes), (refused ? BEEST_RECORD_REFUSED :
				 which & 1 ? BEEST_RECORD_ECHO : 0) |
				 (which & 2 ? BEEST_RECORD_IP : 0) |
				 (which & 16 ? BEEST_RECORD_ECE : 0));
		assert_int_equal(qp_decode(bytes, size, &out), 0);
		endpoints_are_same(&out.endpoint, &in.endpoint);
		assert_memory_equal(&out.endpoint.incarnation, &author, sizeof(author));
		assert_int_equal(out.endpoint.rank, 3);
		assert_memory_equal(&out.echo, &in.echo, sizeof(in.echo));
		assert_string_equal(out.reason, refused ? REASON : "");
		assert_int_equal(out.regions, in.regions);
		assert_int_equal(beest_record_decode(NULL, bytes, size, BEEST_KIND_QP, "k",
						     &record), 0);
		for (i = 0; i < out.regions; i++) {
			beest_record_qp_region(&record, i, &found);
			assert_int_equal(found.length, region.length);
			assert_int_equal(found.rkey, i);
		}
	}
}

/* A reader that does not know of options takes the rest of such a record as it is. */
static void options_are_behind_all_else(void **state)
{
	struct beest_qp_body in = qp_variant(31), known, unknown;
	uint8_t bytes[QP_RECORD_MAX];
	size_t size = qp_encode(&in, "k", bytes);
	struct beest_record record;

	(void)state;
	assert_int_equal(beest_record_decode(NULL, bytes, size, BEEST_KIND_QP, "k", &record), 0);
	assert_int_equal(beest_record_qp_decode(&record, &known), 0);
	record.flags &= ~BEEST_RECORD_ECE;
	assert_int_equal(beest_record_qp_decode(&record, &unknown), 0);
	assert_int_equal(known.endpoint.ece.vendor, 0x15b3);
	assert_int_equal(unknown.endpoint.ece.vendor, 0);
	unknown.endpoint.ece = known.endpoint.ece;
	assert_memory_equal(&unknown, &known, sizeof(known));
	/* It ends too early. */
	record.flags |= BEEST_RECORD_ECE;
	record.size--;
	assert_int_equal(beest_record_qp_decode(&record, &known), -EBADMSG);
}

/* The sizes of memcached's slab classes for one item: see hartebeest-exchange(7). */
static void a_queue_pair_stays_small_on_a_server(void **state)
{
	char key[61];
	struct beest_qp_body plain = qp_variant(1 | 2), full = plain;
	uint8_t bytes[VECTOR_MAX];

	(void)state;
	full.regions = 1;
	unit_repeat(key, 'k', 60);
	assert_in_range(strlen(key) + qp_encode(&plain, key, bytes), 1, 181);
	assert_in_range(strlen(key) + qp_encode(&full, key, bytes), 1, 245);
}

static void a_queue_pair_can_be_closed(void **state)
{
	struct beest_qp_body in = qp_variant(7), out;
	struct beest_record record;
	uint8_t bytes[QP_RECORD_MAX];
	size_t size = qp_encode(&in, "k", bytes);

	(void)state;
	beest_record_close(NULL, bytes, size, "k");
	assert_int_equal(beest_record_decode(NULL, bytes, size, BEEST_KIND_QP, "k", &record), 0);
	assert_int_equal(record.flags, BEEST_RECORD_CLOSED | BEEST_RECORD_ECHO |
			 BEEST_RECORD_IP);
	assert_int_equal(beest_record_qp_decode(&record, &out), 0);
	endpoints_are_same(&out.endpoint, &in.endpoint);
	assert_memory_equal(&out.echo, &in.echo, sizeof(in.echo));
	assert_int_equal(beest_record_decode(NULL, bytes, size, BEEST_KIND_QP, "l", &record),
			 -EBADMSG);
}

/* The envelope is correct, but no queue pair can have these values. */
static void impossible_values_are_named(void **state)
{
	static const struct {
		size_t at;
		uint8_t byte;
		const char *sentence;
	} rows[] = {
		{ 1, 0, "the record has the link layer 0, which is not within 1..2" },
		{ 1, 3, "the record has the link layer 3, which is not within 1..2" },
		{ 2, 3, "the record has the RoCE version 3, which is not within 0..2" },
		{ 3, 0, "the record has the path MTU 0, which is not within 1..5" },
		{ 3, 6, "the record has the path MTU 6, which is not within 1..5" },
		{ 11, 1, "the record has the queue pair number 16777514, which is not within "
			 "1..16777215" },
		{ 15, 255, "the record has the sequence number 4289449455, which is not within "
			   "0..16777215" },
	};
	struct beest_qp_body out;
	uint8_t bytes[VECTOR_MAX];
	size_t i, size;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		size = vector_bytes(QP_VECTOR, bytes);
		bytes[AT_BODY + rows[i].at] = rows[i].byte;
		seal(bytes, size, "k");
		assert_int_equal(qp_decode(bytes, size, &out), -EBADMSG);
		assert_error_is(rows[i].sentence);
	}
	size = vector_bytes(QP_VECTOR, bytes);
	memset(bytes + AT_BODY + 11, 0, 4);
	seal(bytes, size, "k");
	assert_int_equal(qp_decode(bytes, size, &out), -EBADMSG);
	assert_error_has("queue pair number 0");
}

static void a_region_that_is_offered_must_be_there(void **state)
{
	struct beest_qp_body in = qp_variant(0), out;
	uint8_t bytes[VECTOR_MAX];
	size_t size;

	(void)state;
	in.regions = 1;
	size = qp_encode(&in, "k", bytes);
	assert_int_equal(qp_decode(bytes, size, &out), 0);
	bytes[AT_BODY + 6] = 2;
	seal(bytes, size, "k");
	assert_int_equal(qp_decode(bytes, size, &out), -EBADMSG);
	assert_error_is("the record offers 2 regions, but does not have all of them");
}

/* ------------------------------------------------------------------- other bodies --- */

static void regions_come_back(void **state)
{
	struct hartebeest_remote_mr out, wide = {
		.address = UINT64_C(0x8000000000000000), .length = UINT64_C(0x8000000000000000),
		.rkey = UINT32_MAX, .access = 0x3ff003ff,
	};
	uint8_t bytes[BEEST_BODY_MAX];
	struct beest_record record = { .body = bytes };

	(void)state;
	record.size = (size_t)beest_record_mr_encode(&wide, bytes);
	assert_int_equal(record.size, 24);
	assert_int_equal(beest_record_mr_decode(&record, &out), 0);
	assert_memory_equal(&out, &wide, sizeof(out));
	record.size = (size_t)beest_record_mr_encode(&region, bytes);
	assert_int_equal(beest_record_mr_decode(&record, &out), 0);
	assert_memory_equal(&out, &region, sizeof(out));
}

/* Such a region cannot have been registered, and data sent to it would go astray. */
static void impossible_regions_are_refused(void **state)
{
	static const struct {
		struct hartebeest_remote_mr region;
		const char *sentence;
	} rows[] = {
		{ { 0x1000, 0, 1, 7, { 0 } }, "the record has a region of 0 bytes" },
		{ { 1, UINT64_MAX, 1, 7, { 0 } }, NULL },
		{ { 2, UINT64_MAX, 1, 7, { 0 } }, "the record has a region of "
		  "18446744073709551615 bytes at 0x2, which would end beyond 2^64" },
		{ { UINT64_MAX, 1, 1, 7, { 0 } }, NULL },
		{ { UINT64_MAX, 2, 1, 7, { 0 } },
		  "of 2 bytes at 0xffffffffffffffff, which would end" },
		{ { 0x1000, 1, 1, 0x400, { 0 } }, "a region with unknown access flags: 0x400" },
		{ { 0x1000, 1, 1, 0x40000007, { 0 } }, "unknown access flags: 0x40000000" },
	};
	struct beest_qp_body body = qp_example(), found;
	uint8_t bytes[BEEST_QP_BODY_MAX], flags;
	struct beest_record record = { .body = bytes };
	struct hartebeest_remote_mr out;
	size_t i;
	int ret;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		ret = rows[i].sentence ? -EBADMSG : 0;
		record.size = (size_t)beest_record_mr_encode(&rows[i].region, bytes);
		assert_int_equal(beest_record_mr_decode(&record, &out), ret);
		if (ret)
			assert_error_has(rows[i].sentence);
		record.size = (size_t)beest_record_qp_encode(&body, &rows[i].region, &flags,
							     bytes);
		record.flags = flags;
		assert_int_equal(beest_record_qp_decode(&record, &found), ret);
		if (ret)
			assert_error_has(rows[i].sentence);
	}
}

/* RoCE sends to the address in the GID.  A GID of InfiniBand is not an IP address. */
static void addresses_of_nobody_are_refused(void **state)
{
	static const struct {
		const char *address;
		bool nobody;
	} rows[] = {
		{ "0.0.0.0", true }, { "0.1.2.3", true }, { "127.0.0.1", true },
		{ "127.255.255.254", true }, { "224.0.0.1", true }, { "239.1.2.3", true },
		{ "255.255.255.255", true }, { "::", true }, { "::1", true }, { "ff02::1", true },
		{ "1.0.0.1", false }, { "126.0.0.1", false }, { "128.0.0.1", false },
		{ "223.255.255.1", false }, { "169.254.0.1", false }, { "fe80::1", false },
		{ "fd00::1", false }, { "::2", false },
	};
	struct beest_qp_body body = qp_example(), found;
	uint8_t bytes[BEEST_QP_BODY_MAX];
	struct beest_record record = { .body = bytes };
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		assert_int_equal(beest_ipaddr_parse(rows[i].address, &body.endpoint.gid), 0);
		body.endpoint.link_layer = IBV_LINK_LAYER_ETHERNET;
		record.size = (size_t)beest_record_qp_encode(&body, &region, &record.flags,
							     bytes);
		assert_int_equal(beest_record_qp_decode(&record, &found),
				 rows[i].nobody ? -EBADMSG : 0);
		if (rows[i].nobody)
			assert_error_has(rows[i].address);
		body.endpoint.link_layer = IBV_LINK_LAYER_INFINIBAND;
		record.size = (size_t)beest_record_qp_encode(&body, &region, &record.flags,
							     bytes);
		assert_int_equal(beest_record_qp_decode(&record, &found), 0);
	}
}

static void ranks_are_same(const struct beest_rank_body *a, const struct beest_rank_body *b)
{
	assert_true(a->began == b->began);
	assert_true(a->participants == b->participants);
	assert_true(a->servers == b->servers);
	assert_int_equal(a->pid, b->pid);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->state, b->state);
	assert_memory_equal(&a->displaced, &b->displaced, sizeof(a->displaced));
	assert_string_equal(a->host, b->host);
	assert_string_equal(a->device, b->device);
	assert_string_equal(a->reason, b->reason);
	assert_string_equal(a->waits, b->waits);
}

static void ranks_come_back(void **state)
{
	struct beest_rank_body in = rank_example, out;
	uint8_t bytes[BEEST_BODY_MAX];
	struct beest_record record = { .body = bytes };

	(void)state;
	memset(&out, 'x', sizeof(out));
	record.size = (size_t)beest_record_rank_encode(&in, bytes);
	assert_int_equal(beest_record_rank_decode(&record, &out), 0);
	ranks_are_same(&out, &in);

	in.state = BEEST_RANK_FAILED;
	in.pid = in.size = UINT32_MAX;
	in.began = UINT64_MAX;
	unit_repeat(in.host, 'h', BEEST_HOST_MAX - 1);
	unit_repeat(in.device, 'd', BEEST_DEVICE_MAX - 1);
	unit_repeat(in.reason, 'r', BEEST_REASON_MAX - 1);
	record.size = (size_t)beest_record_rank_encode(&in, bytes);
	assert_int_equal(record.size, RANK_TEXTS + 4 + 63 + 79 + 200);
	assert_int_equal(beest_record_rank_decode(&record, &out), 0);
	ranks_are_same(&out, &in);

	unit_repeat(in.waits, 'w', BEEST_WAITS_MAX - 1);
	record.size = (size_t)beest_record_rank_encode(&in, bytes);
	assert_int_equal(record.size, RANK_TEXTS + 4 + 63 + 79 + 200 + 95);
	assert_int_equal(beest_record_rank_decode(&record, &out), 0);
	ranks_are_same(&out, &in);
	record.size--;
	assert_int_equal(beest_record_rank_decode(&record, &out), -EBADMSG);
}

/* Sentences go to terminals, so no control character may come from the network. */
static void control_characters_do_not_come_through(void **state)
{
	struct beest_rank_body in = rank_example, out;
	uint8_t bytes[BEEST_BODY_MAX];
	struct beest_record record = { .body = bytes };

	(void)state;
	strcpy(in.host, "no\033de\n1");
	strcpy(in.device, "\177\001");
	strcpy(in.reason, "a\tb \302\265 \233");
	record.size = (size_t)beest_record_rank_encode(&in, bytes);
	assert_int_equal(beest_record_rank_decode(&record, &out), 0);
	assert_string_equal(out.host, "no\\x1bde\\x0a1");
	assert_string_equal(out.device, "\\x7f\\x01");
	assert_string_equal(out.reason, "a\\x09b \302\265 \\x9b");
	assert_ptr_equal(out.rest, bytes + record.size);	/* as long as the texts were */
	assert_int_equal(out.rest_size, 0);

	bytes[RANK_TEXTS + 1] = 0;	/* a NUL in the host name */
	assert_int_equal(beest_record_rank_decode(&record, &out), 0);
	assert_string_equal(out.host, "\\x00o\\x1bde\\x0a1");
}

/* Each text follows a byte with its length, which must fit into the record and the struct. */
static void lying_lengths_are_refused(void **state)
{
	struct beest_rank_body out;
	uint8_t bytes[VECTOR_MAX] = { 0 }, *exact;
	size_t size = vector_bytes(RANK_VECTOR, bytes) - BEEST_RECORD_OVERHEAD, cut;
	struct beest_record record = { .body = bytes + AT_BODY, .size = size };

	(void)state;
	for (cut = 0; cut < size; cut++) {
		exact = malloc(cut ? cut : 1);
		memcpy(exact, bytes + AT_BODY, cut);
		record.body = exact;
		record.size = cut;
		assert_int_equal(beest_record_rank_decode(&record, &out), -EBADMSG);
		free(exact);
	}
	record.body = bytes + AT_BODY;
	record.size = size;
	bytes[AT_BODY + RANK_TEXTS] = 64;
	assert_int_equal(beest_record_rank_decode(&record, &out), -EBADMSG);
	assert_error_is("the record ends within a text");
	record.size = VECTOR_MAX - AT_BODY;	/* now it fits into the record */
	assert_int_equal(beest_record_rank_decode(&record, &out), -EBADMSG);
	bytes[AT_BODY + RANK_TEXTS] = 255;
	assert_int_equal(beest_record_rank_decode(&record, &out), -EBADMSG);
	bytes[AT_BODY + RANK_TEXTS] = 63;
	assert_int_equal(beest_record_rank_decode(&record, &out), 0);
}

/* Decodes a body as @kind, from memory of exactly that size. */
static int body_decode(enum beest_record_kind kind, uint8_t flags, const uint8_t *bytes,
		       size_t size)
{
	uint8_t *exact = malloc(size ? size : 1);
	struct beest_record record = {
		.kind = kind, .flags = flags, .body = exact, .size = size,
	};
	union {
		struct beest_qp_body qp;
		struct hartebeest_remote_mr mr;
		struct beest_rank_body rank;
		struct beest_member_body member;
		struct beest_leader_body leader;
	} out;
	int ret;

	if (size)
		memcpy(exact, bytes, size);
	ret = kind == BEEST_KIND_QP ? beest_record_qp_decode(&record, &out.qp) :
	      kind == BEEST_KIND_MR ? beest_record_mr_decode(&record, &out.mr) :
	      kind == BEEST_KIND_RANK ? beest_record_rank_decode(&record, &out.rank) :
	      kind == BEEST_KIND_MEMBER ? beest_record_member_decode(&record, &out.member) :
	      beest_record_leader_decode(&record, &out.leader);
	free(exact);
	return ret;
}

/* ------------------------------------------------------------------------- fences --- */

#define MEMBER_HEAD 63			/* bytes before the reason or the contribution */
#define LEADER_HEAD 99			/* bytes before the reason or the ranges */

/* No field has the bytes of another one, so none can be taken for another. */
static struct beest_fence_setup setup_example(void)
{
	return (struct beest_fence_setup){
		.what = BEEST_FENCE_MESH, .size = 0x80000001, .ranks = UINT64_C(0xf102030405060708),
		.form = UINT64_C(0xf1121314151617),
	};
}

static struct beest_fence_trouble trouble_example(bool with)
{
	struct beest_fence_trouble trouble = { .error = with ? 0xff01 : 0 };

	if (with)
		unit_repeat(trouble.text, 't', BEEST_REASON_MAX - 1);
	return trouble;
}

static struct beest_member_body member_example(bool refuses, const void *value, size_t size)
{
	return (struct beest_member_body){
		.setup = setup_example(), .call = 0xfffffffe, .follows = incarnation(0x20),
		.view = UINT64_C(0xf122232425262728), .pass = UINT64_C(0xf132333435363738),
		.refusal = trouble_example(refuses), .shown = (uint32_t)size / 2, .value = value,
		.size = size,
	};
}

static struct beest_leader_body leader_example(bool fails, size_t ranges, uint32_t chunks)
{
	static const uint8_t digests[] = "digest_0digest_1digest_2";
	struct beest_leader_body body = {
		.setup = setup_example(), .call = 0xfffffffd, .added = incarnation(0x30),
		.committed = UINT64_C(0xf142434445464748), .passes = UINT64_C(0xf152535455565758),
		.proposed = UINT64_C(0xf162636465666768), .culprit = incarnation(0x40),
		.culprit_call = 0xfffffffc, .in_pass = 1, .failure = trouble_example(fails),
		.looked = 0xfffffffb, .range_count = (uint8_t)ranges, .chunk_ranks = 0xfffa,
		.chunk_count = chunks, .chunks = digests, .chunks_size = 8 * chunks,
	};
	uint32_t i;

	for (i = 0; i < ranges; i++)
		body.missing[i] = (struct beest_fence_range){ 0x80000000 + 3 * i,
							      0x80000001 + 3 * i };
	return body;
}

static void setups_are_same(const struct beest_fence_setup *a, const struct beest_fence_setup *b)
{
	assert_int_equal(a->what, b->what);
	assert_int_equal(a->size, b->size);
	assert_true(a->ranks == b->ranks);
	assert_true(a->form == b->form);
}

static void members_come_back(void **state)
{
	static const uint8_t value[300] = { 1, 2, 3, [299] = 4 };
	static const size_t sizes[] = { 0, 1, 2, 300 };
	uint8_t bytes[BEEST_MEMBER_MAX(sizeof(value))];
	struct beest_record record = { .body = bytes };
	struct beest_member_body in, out;
	size_t i;

	(void)state;
	for (i = 0; i < 2 * BEEST_COUNT(sizes); i++) {
		in = member_example(i % 2, value, sizes[i / 2]);
		memset(&out, 'x', sizeof(out));
		record.size = (size_t)beest_record_member_encode(&in, bytes);
		assert_int_equal(record.size, MEMBER_HEAD + in.size +
				 (i % 2 ? BEEST_REASON_MAX : 0));
		assert_int_equal(beest_record_member_decode(&record, &out), 0);
		setups_are_same(&out.setup, &in.setup);
		assert_int_equal(out.call, in.call);
		assert_memory_equal(&out.follows, &in.follows, sizeof(in.follows));
		assert_true(out.view == in.view && out.pass == in.pass);
		assert_int_equal(out.refusal.error, in.refusal.error);
		assert_string_equal(out.refusal.text, in.refusal.text);
		assert_int_equal(out.shown, in.shown);
		assert_int_equal(out.size, in.size);
		assert_ptr_equal(out.value, bytes + record.size - in.size);
		assert_memory_equal(out.value, value, in.size);
	}
}

static void leader_comes_back(bool fails, size_t ranges, uint32_t chunks)
{
	struct beest_leader_body out, in = leader_example(fails, ranges, chunks);
	uint8_t bytes[BEEST_LEADER_MAX(24)];
	struct beest_record record = { .body = bytes };

	memset(&out, 'x', sizeof(out));
	record.size = (size_t)beest_record_leader_encode(&in, bytes);
	assert_int_equal(record.size, LEADER_HEAD + (fails ? BEEST_REASON_MAX : 0) + 8 * ranges +
			 8 * chunks);
	assert_int_equal(beest_record_leader_decode(&record, &out), 0);
	setups_are_same(&out.setup, &in.setup);
	assert_int_equal(out.call, in.call);
	assert_memory_equal(&out.added, &in.added, sizeof(in.added));
	assert_true(out.committed == in.committed && out.passes == in.passes);
	assert_true(out.proposed == in.proposed);
	assert_memory_equal(&out.culprit, &in.culprit, sizeof(in.culprit));
	assert_int_equal(out.culprit_call, in.culprit_call);
	assert_int_equal(out.in_pass, in.in_pass);
	assert_int_equal(out.failure.error, in.failure.error);
	assert_string_equal(out.failure.text, in.failure.text);
	assert_int_equal(out.looked, in.looked);
	assert_int_equal(out.range_count, ranges);
	assert_memory_equal(out.missing, in.missing, sizeof(in.missing));
	assert_int_equal(out.chunk_ranks, in.chunk_ranks);
	assert_int_equal(out.chunk_count, chunks);
	assert_int_equal(out.chunks_size, in.chunks_size);
	assert_memory_equal(out.chunks, in.chunks, in.chunks_size);
}

static void leaders_come_back(void **state)
{
	static const size_t ranges[] = { 0, 1, BEEST_FENCE_RANGES };
	size_t i;
	uint32_t chunks;

	(void)state;
	for (i = 0; i < 2 * BEEST_COUNT(ranges); i++)
		for (chunks = 0; chunks < 4; chunks++)
			leader_comes_back(i % 2, ranges[i / 2], chunks);
}

static void entries_come_back(void **state)
{
	struct beest_fence_entry out, in = {
		.rank = 0x80000002, .incarnation = incarnation(0x50), .call = 0xfffffff9,
		.value = (const uint8_t *)"value",
	};
	uint8_t bytes[BEEST_FENCE_ENTRY + 5], *exact;
	size_t size, cut;

	(void)state;
	for (in.size = 0; in.size <= 5; in.size++) {
		size = (size_t)beest_record_entry_encode(&in, bytes);
		assert_int_equal(size, BEEST_FENCE_ENTRY + in.size);
		for (cut = 0; cut <= size; cut++) {
			exact = malloc(cut ? cut : 1);
			memcpy(exact, bytes, cut);
			memset(&out, 'x', sizeof(out));
			assert_int_equal(beest_record_entry_decode(exact, cut, &out),
					 cut < size ? -EBADMSG : (int)size);
			if (cut == size) {
				assert_int_equal(out.rank, in.rank);
				assert_memory_equal(&out.incarnation, &in.incarnation,
						    sizeof(in.incarnation));
				assert_int_equal(out.call, in.call);
				assert_int_equal(out.size, in.size);
				assert_memory_equal(out.value, "value", in.size);
				assert_null(out.hidden);
				assert_int_equal(out.hidden_size, 0);
			} else if (cut >= BEEST_FENCE_ENTRY) {
				assert_error_is("what rank 2147483650 contributes ends too early");
			}
			free(exact);
		}
	}
}

/* What follows the reason and the ranges has no length of its own: it ends with the record. */
static void fences_end_at_no_wrong_byte(void **state)
{
	struct beest_member_body member = member_example(true, "value", 5);
	struct beest_leader_body leader = leader_example(true, 2, 3);
	uint8_t bytes[BEEST_LEADER_MAX(24)];
	size_t cut, size = (size_t)beest_record_member_encode(&member, bytes);

	(void)state;
	for (cut = 0; cut <= size; cut++)
		assert_int_equal(body_decode(BEEST_KIND_MEMBER, 0, bytes, cut),
				 cut + 5 < size + member.shown ? -EBADMSG : 0);
	size = (size_t)beest_record_leader_encode(&leader, bytes);
	for (cut = 0; cut <= size; cut++)
		assert_int_equal(body_decode(BEEST_KIND_LEADER, 0, bytes, cut),
				 cut < size ? -EBADMSG : 0);
}

/* The envelope is correct, but no author can have stored these values. */
static void impossible_fences_are_named(void **state)
{
	static const char digests[] = "the record names 3 chunks of 65530 ranks, but does not have "
				      "the digest of each";
	static const struct {
		enum beest_record_kind kind;
		size_t at;
		uint8_t byte;
		const char *sentence;
	} rows[] = {
		{ BEEST_KIND_MEMBER, 60, 5, NULL },
		{ BEEST_KIND_MEMBER, 60, 6, "the record ends within what its author contributes" },
		{ BEEST_KIND_MEMBER, 57, 255,
		  "the record ends within what its author contributes" },
		{ BEEST_KIND_MEMBER, MEMBER_HEAD, BEEST_REASON_MAX - 1, NULL },
		{ BEEST_KIND_MEMBER, MEMBER_HEAD, BEEST_REASON_MAX,
		  "the record ends within a text" },
		{ BEEST_KIND_MEMBER, MEMBER_HEAD, 255, "the record ends within a text" },
		{ BEEST_KIND_MEMBER, MEMBER_HEAD, 0,
		  "the record says that its author fails, but not why" },
		{ BEEST_KIND_LEADER, 90, 255, "the record has 255 ranges of ranks" },
		{ BEEST_KIND_LEADER, 90, BEEST_FENCE_RANGES + 1,
		  "the record has 33 ranges of ranks" },
		{ BEEST_KIND_LEADER, 90, 1, NULL },
		{ BEEST_KIND_LEADER, 90, 3, digests },
		{ BEEST_KIND_LEADER, 96, 2, NULL },
		{ BEEST_KIND_LEADER, 96, 4, "the record names 4 chunks of 65530 ranks" },
		{ BEEST_KIND_LEADER, 96, BEEST_FENCE_DIGESTS, "the record names 32 chunks of" },
		/* One digest is that of all digests: the view has to be of so many ranks. */
		{ BEEST_KIND_LEADER, 96, BEEST_FENCE_DIGESTS + 1, NULL },
		{ BEEST_KIND_LEADER, 93, 0x80, NULL },
		{ BEEST_KIND_LEADER, LEADER_HEAD, 0,
		  "the record says that its author fails, but not why" },
		{ BEEST_KIND_LEADER, LEADER_HEAD, BEEST_REASON_MAX,
		  "the record ends within a text" },
	};
	struct beest_member_body member = member_example(true, "value", 5);
	struct beest_leader_body leader = leader_example(true, 2, 3);
	uint8_t bytes[BEEST_LEADER_MAX(24)];
	size_t i, size;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		size = (size_t)(rows[i].kind == BEEST_KIND_MEMBER ?
				beest_record_member_encode(&member, bytes) :
				beest_record_leader_encode(&leader, bytes));
		bytes[rows[i].at] = rows[i].byte;
		assert_int_equal(body_decode(rows[i].kind, 0, bytes, size),
				 rows[i].sentence ? -EBADMSG : 0);
		if (rows[i].sentence)
			assert_error_has(rows[i].sentence);
	}
	leader.chunk_ranks = 0;
	size = (size_t)beest_record_leader_encode(&leader, bytes);
	assert_int_equal(body_decode(BEEST_KIND_LEADER, 0, bytes, size), -EBADMSG);
	assert_error_has("3 chunks of 0 ranks");
}

/* All ranks of a job print the sentence of one. */
static void reasons_of_a_fence_are_clean(void **state)
{
	static const struct {
		const char *text, *clean;
	} rows[] = {
		{ "no device", "no device" },
		{ "a\tb\033[2J\n", "a\\x09b\\x1b[2J\\x0a" },
		{ "\302\265 \233 \177", "\302\265 \\x9b \\x7f" },
	};
	struct beest_member_body member = member_example(true, "v", 1), found;
	struct beest_leader_body leader = leader_example(true, 1, 1), lead;
	uint8_t bytes[BEEST_LEADER_MAX(8)];
	struct beest_record record = { .body = bytes };
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		strcpy(member.refusal.text, rows[i].text);
		record.size = (size_t)beest_record_member_encode(&member, bytes);
		assert_int_equal(beest_record_member_decode(&record, &found), 0);
		assert_string_equal(found.refusal.text, rows[i].clean);
		assert_memory_equal(found.value, "v", found.size);
		strcpy(leader.failure.text, rows[i].text);
		record.size = (size_t)beest_record_leader_encode(&leader, bytes);
		assert_int_equal(beest_record_leader_decode(&record, &lead), 0);
		assert_string_equal(lead.failure.text, rows[i].clean);
		assert_int_equal(lead.missing[0].last, leader.missing[0].last);
	}
	/* A text that grows is cut, and never written behind its end. */
	memset(member.refusal.text, '\n', BEEST_REASON_MAX - 1);
	record.size = (size_t)beest_record_member_encode(&member, bytes);
	assert_int_equal(beest_record_member_decode(&record, &found), 0);
	assert_in_range(strlen(found.refusal.text), BEEST_REASON_MAX - 5, BEEST_REASON_MAX - 1);
}

static void messages_come_back(void **state)
{
	const uint8_t once = BEEST_RECORD_ONCE, closed = BEEST_RECORD_CLOSED;
	const struct { uint8_t flags; size_t size, ids; } rows[] = {
		{ 0, 0, 0 }, { 0, 5, 0 }, { closed, 5, 0 }, { once, 8, 8 }, { once, 20, 8 },
		{ once | closed, 16, 16 }, { once | closed, 20, 16 },
		{ once, 7, SIZE_MAX }, { once, 0, SIZE_MAX }, { once | closed, 15, SIZE_MAX },
	};
	struct beest_message_body body;
	size_t i, k;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		uint8_t bytes[32];
		struct beest_record record = {
			.flags = rows[i].flags, .body = bytes, .size = rows[i].size,
		};

		for (k = 0; k < sizeof(bytes); k++)
			bytes[k] = (uint8_t)k;
		if (rows[i].ids == SIZE_MAX) {
			assert_int_equal(beest_record_message_decode(&record, &body), -EBADMSG);
			assert_error_has("a message for one reader has ");
			continue;
		}
		assert_int_equal(beest_record_message_decode(&record, &body), 0);
		assert_int_equal(body.once, rows[i].ids > 0);
		assert_int_equal(body.taken, rows[i].ids == 16);
		assert_ptr_equal(body.data, bytes + rows[i].ids);
		assert_int_equal(body.size, rows[i].size - rows[i].ids);
		if (body.once)
			assert_memory_equal(body.push, bytes, 8);
		if (body.taken)
			assert_memory_equal(body.take, bytes + 8, 8);
	}
}

static void short_bodies_are_refused_and_longer_ones_accepted(void **state)
{
	static const struct {
		enum beest_record_kind kind;
		uint8_t flags;
		size_t size;
		size_t vector;
	} rows[] = {
		{ BEEST_KIND_MR, 0, 24, 1 },
		{ BEEST_KIND_QP, 0, 95, 2 },
		{ BEEST_KIND_QP, BEEST_RECORD_IP, 111, 2 },
		{ BEEST_KIND_QP, BEEST_RECORD_ECE, 103, 2 },
		{ BEEST_KIND_LEADER, 0, LEADER_HEAD, 4 },
		{ BEEST_KIND_MEMBER, 0, MEMBER_HEAD, 5 },
	};
	uint8_t bytes[VECTOR_MAX];
	size_t i, size;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		memset(bytes, 0, sizeof(bytes));
		vector_bytes(&vectors[rows[i].vector], bytes);
		for (size = 0; size < rows[i].size; size++)
			assert_int_equal(body_decode(rows[i].kind, rows[i].flags, bytes + AT_BODY,
						     size), -EBADMSG);
		for (; size < VECTOR_MAX - AT_BODY; size++)
			assert_int_equal(body_decode(rows[i].kind, rows[i].flags, bytes + AT_BODY,
						     size), 0);
	}
}

/* A rank's texts have their own lengths, and bytes may follow them. */
static void a_longer_rank_is_accepted(void **state)
{
	uint8_t bytes[VECTOR_MAX] = { 0 };
	size_t size = vector_bytes(RANK_VECTOR, bytes) - BEEST_RECORD_OVERHEAD;

	(void)state;
	assert_int_equal(body_decode(BEEST_KIND_RANK, 0, bytes + AT_BODY, size), 0);
	assert_int_equal(body_decode(BEEST_KIND_RANK, 0, bytes + AT_BODY, size + 40), 0);
}

/* Changes some bytes of a good record and corrects the checksum: no byte is read too far. */
static void hostile_records_do_no_harm(void **state)
{
	struct beest_record record;
	uint8_t bytes[VECTOR_MAX];
	uint32_t seed = 2;
	const struct vector *vector;
	int round, i, good = 0, stride = unit_stride(7);
	size_t size;

	(void)state;
	for (round = 0; round < 100000; round += stride) {
		vector = &vectors[(size_t)(round / stride) % BEEST_COUNT(vectors)];
		size = vector_bytes(vector, bytes);
		for (i = unit_next(&seed) % 4; i >= 0; i--)
			bytes[unit_next(&seed) % size] = (uint8_t)unit_next(&seed);
		seal(bytes, size, vector->key);
		if (beest_record_decode(NULL, bytes, size, vector->kind, vector->key, &record) < 0)
			continue;
		good++;
		body_decode(vector->kind, record.flags, record.body, record.size);
	}
	assert_in_range(good, 1000, 99000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wire_form_is_fixed),
		cmocka_unit_test(the_page_shows_these_bytes),
		cmocka_unit_test(the_page_has_these_digests),
		cmocka_unit_test(every_kind_and_length_comes_back),
		cmocka_unit_test(kinds_have_rows),
		cmocka_unit_test(a_small_buffer_is_refused),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(bytes_behind_the_checksum_are_refused),
		cmocka_unit_test(every_flipped_bit_is_refused),
		cmocka_unit_test(another_version_is_named),
		cmocka_unit_test(another_kind_is_named),
		cmocka_unit_test(a_record_of_another_key_is_refused),
		cmocka_unit_test(garbage_is_refused),
		cmocka_unit_test(any_kind_of_sound_bytes),
		cmocka_unit_test(every_form_of_a_queue_pair_comes_back),
		cmocka_unit_test(options_are_behind_all_else),
		cmocka_unit_test(a_queue_pair_stays_small_on_a_server),
		cmocka_unit_test(a_queue_pair_can_be_closed),
		cmocka_unit_test(impossible_values_are_named),
		cmocka_unit_test(a_region_that_is_offered_must_be_there),
		cmocka_unit_test(regions_come_back),
		cmocka_unit_test(impossible_regions_are_refused),
		cmocka_unit_test(addresses_of_nobody_are_refused),
		cmocka_unit_test(ranks_come_back),
		cmocka_unit_test(control_characters_do_not_come_through),
		cmocka_unit_test(lying_lengths_are_refused),
		cmocka_unit_test(members_come_back),
		cmocka_unit_test(leaders_come_back),
		cmocka_unit_test(entries_come_back),
		cmocka_unit_test(fences_end_at_no_wrong_byte),
		cmocka_unit_test(impossible_fences_are_named),
		cmocka_unit_test(reasons_of_a_fence_are_clean),
		cmocka_unit_test(messages_come_back),
		cmocka_unit_test(short_bodies_are_refused_and_longer_ones_accepted),
		cmocka_unit_test(a_longer_rank_is_accepted),
		cmocka_unit_test(hostile_records_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
