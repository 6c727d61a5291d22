/* SPDX-License-Identifier: MIT */
/* record.c - the wire form: there and back, and nothing else accepted */
#include "config.h"

#include <stdbool.h>
#include <stdlib.h>

#include "lib/base/hash.h"
#include "lib/rendezvous/record.h"
#include "tests/support/unit.h"

#define KEY "hb1/job/mr/buf"

static struct beest_record example(void)
{
	static const uint8_t payload[] = {
		0x00, 0x00, 0x7f, 0x00, 0x11, 0x22, 0x33, 0x44,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00,
		0x00, 0x00, 0x12, 0x34, 0x00, 0x00, 0x00, 0x07,
	};
	struct beest_record record = {
		.kind = BEEST_KIND_MR,
		.key = KEY,
		.author = { .host = "node7", .pid = 4711, .rank = -1, .time = 1700000000 },
		.payload = payload,
		.payload_size = sizeof(payload),
	};
	size_t i;

	for (i = 0; i < BEEST_INCARNATION_SIZE; i++)
		record.author.incarnation.bytes[i] = (uint8_t)i;
	return record;
}

/* example() as it must look; made by another program. */
static const uint8_t golden[] = {
	0x48, 0x42, 0x52, 0x01, 0x6d, 0x00, 0x00, 0x0e, 0x00, 0x05, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x18, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07,
	0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x00, 0x00, 0x12, 0x67,
	0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x65, 0x53, 0xf1, 0x00,
	0x68, 0x62, 0x31, 0x2f, 0x6a, 0x6f, 0x62, 0x2f, 0x6d, 0x72, 0x2f, 0x62,
	0x75, 0x66, 0x6e, 0x6f, 0x64, 0x65, 0x37, 0x00, 0x00, 0x7f, 0x00, 0x11,
	0x22, 0x33, 0x44, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00,
	0x00, 0x12, 0x34, 0x00, 0x00, 0x00, 0x07, 0x47, 0xe7, 0xe9, 0x08,
};

/* Where what stands in golden[]. */
enum {
	AT_VERSION = 3, AT_KIND = 4, AT_KEY_SIZE = 6, AT_HOST_SIZE = 8, AT_PAYLOAD_SIZE = 12,
	AT_KEY = 48, AT_HOST = 62,
};

/* From memory of just that size, so that a checker sees every byte read too far. */
static int decode(const uint8_t *bytes, size_t size, enum beest_record_kind kind,
		  const char *key)
{
	uint8_t *exact = malloc(size ? size : 1);
	struct beest_record record;
	int ret;

	memcpy(exact, bytes, size);
	memset(&record, 0x55, sizeof(record));
	ret = beest_record_decode(exact, size, kind, key, &record);
	if (ret < 0)
		assert_int_equal(record.payload_size, (size_t)UINT64_C(0x5555555555555555));
	free(exact);
	return ret;
}

/* A damage that its author covers with a right checksum. */
static int decode_sealed(uint8_t *bytes, size_t size, const char *key)
{
	uint32_t crc = beest_hash_crc32(bytes, size - 4);
	int i;

	for (i = 0; i < 4; i++)
		bytes[size - 4 + i] = (uint8_t)(crc >> (24 - 8 * i));
	return decode(bytes, size, BEEST_KIND_MR, key);
}

static int decode_with(size_t at, uint8_t byte)
{
	uint8_t bytes[sizeof(golden)];

	memcpy(bytes, golden, sizeof(bytes));
	bytes[at] = byte;
	return decode_sealed(bytes, sizeof(bytes), KEY);
}

/* ---------------------------------------------------------------- records --- */

static void wire_form_is_fixed(void **state)
{
	struct beest_record record = example();
	uint8_t bytes[sizeof(golden)];

	(void)state;
	assert_int_equal(beest_record_encode(&record, bytes, sizeof(bytes)), sizeof(golden));
	assert_memory_equal(bytes, golden, sizeof(golden));
	assert_int_equal(decode(golden, sizeof(golden), BEEST_KIND_MR, KEY), 0);
}

static void sum_is_that_of_zlib(void **state)
{
	(void)state;
	assert_int_equal(beest_hash_crc32("", 0), 0);
	assert_int_equal(beest_hash_crc32("123456789", 9), 0xcbf43926);
	assert_int_equal(beest_hash_crc32("The quick brown fox jumps over the lazy dog", 43),
			 0x414fa339);
}

static void round_trip(enum beest_record_kind kind, size_t key_size, size_t host_size,
		       size_t payload_size)
{
	static uint8_t payload[70000], bytes[sizeof(payload) + BEEST_RECORD_OVERHEAD];
	struct beest_record in = example(), out;
	int size;

	memset(payload, 0xa5, payload_size);
	in.kind = kind;
	in.author.rank = 1 << 30;
	in.author.pid = UINT32_MAX;
	in.payload = payload;
	in.payload_size = payload_size;
	unit_repeat(in.key, 'k', key_size);
	unit_repeat(in.author.host, 'h', host_size);

	size = beest_record_encode(&in, bytes, BEEST_RECORD_OVERHEAD + payload_size);
	assert_int_equal(size, 52 + key_size + host_size + payload_size);
	assert_int_equal(beest_record_decode(bytes, (size_t)size, kind, in.key, &out), 0);
	assert_int_equal(out.kind, kind);
	assert_string_equal(out.key, in.key);
	assert_string_equal(out.author.host, in.author.host);
	assert_memory_equal(&out.author.incarnation, &in.author.incarnation, 16);
	assert_int_equal(out.author.pid, in.author.pid);
	assert_int_equal(out.author.rank, in.author.rank);
	assert_int_equal(out.author.time, in.author.time);
	assert_int_equal(out.payload_size, payload_size);
	assert_memory_equal(out.payload, payload, payload_size);
}

static void every_kind_and_length_comes_back(void **state)
{
	static const enum beest_record_kind kinds[] = {
		BEEST_KIND_RANK, BEEST_KIND_MR, BEEST_KIND_QP, BEEST_KIND_CONFIRM,
		BEEST_KIND_MESSAGE, BEEST_KIND_BARRIER,
	};
	static const size_t sizes[] = { 0, 1, 24, 255, 256, 65535, 65536, 70000 };
	size_t i, j;

	(void)state;
	for (i = 0; i < BEEST_COUNT(kinds); i++)
		for (j = 0; j < BEEST_COUNT(sizes); j++)
			round_trip(kinds[i], 1 + 35 * j, 9 * j, sizes[j]);
	round_trip(BEEST_KIND_QP, BEEST_KEY_MAX, BEEST_HOST_MAX - 1, 0);
}

static void kinds_have_words(void **state)
{
	(void)state;
	assert_string_equal(beest_kind_word(BEEST_KIND_RANK), "rank");
	assert_string_equal(beest_kind_word(BEEST_KIND_MR), "mr");
	assert_string_equal(beest_kind_word(BEEST_KIND_QP), "qp");
	assert_string_equal(beest_kind_word(BEEST_KIND_CONFIRM), "confirm");
	assert_string_equal(beest_kind_word(BEEST_KIND_MESSAGE), "msg");
	assert_string_equal(beest_kind_word(BEEST_KIND_BARRIER), "barrier");
	assert_string_equal(beest_kind_word((enum beest_record_kind)'?'), "unknown");
}

static void a_small_buffer_is_refused(void **state)
{
	struct beest_record record = example();
	uint8_t bytes[sizeof(golden)];
	size_t size;

	(void)state;
	for (size = 0; size < sizeof(golden); size++)
		assert_int_equal(beest_record_encode(&record, bytes, size), -EMSGSIZE);
	record.payload_size = (size_t)UINT32_MAX + 1;
	assert_int_equal(beest_record_encode(&record, bytes, SIZE_MAX), -EMSGSIZE);
}

static void every_truncation_is_refused(void **state)
{
	size_t size;

	(void)state;
	for (size = 0; size < sizeof(golden); size++)
		assert_int_equal(decode(golden, size, BEEST_KIND_MR, KEY), -EBADMSG);
}

static void a_longer_record_is_refused(void **state)
{
	uint8_t bytes[sizeof(golden) + 1] = { 0 };

	(void)state;
	memcpy(bytes, golden, sizeof(golden));
	assert_int_equal(decode(bytes, sizeof(bytes), BEEST_KIND_MR, KEY), -EBADMSG);
	assert_int_equal(decode_sealed(bytes, sizeof(bytes), KEY), -EBADMSG);
}

static void every_flipped_bit_is_refused(void **state)
{
	uint8_t bytes[sizeof(golden)];
	size_t bit;
	int ret;

	(void)state;
	memcpy(bytes, golden, sizeof(bytes));
	for (bit = 0; bit < 8 * sizeof(bytes); bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ret = decode(bytes, sizeof(bytes), BEEST_KIND_MR, KEY);
		assert_int_equal(ret, bit / 8 == AT_VERSION ? -EPROTONOSUPPORT : -EBADMSG);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void another_version_is_named(void **state)
{
	(void)state;
	assert_int_equal(decode_with(AT_VERSION, 2), -EPROTONOSUPPORT);
	assert_error_is("record of version 2, this library speaks version 1");
}

static void another_kind_or_key_is_named(void **state)
{
	(void)state;
	assert_int_equal(decode(golden, sizeof(golden), BEEST_KIND_QP, KEY), -EBADMSG);
	assert_error_is("record of kind mr under key '" KEY "', qp expected");
	assert_int_equal(decode_with(AT_KIND, 'z'), -EBADMSG);
	assert_error_has("kind unknown");
	assert_int_equal(decode(golden, sizeof(golden), BEEST_KIND_MR, "hb1/job/mr/bu"), -EBADMSG);
	assert_int_equal(decode(golden, sizeof(golden), BEEST_KIND_MR, KEY "2"), -EBADMSG);
	assert_error_is("the answer for key '" KEY "2' holds the record of key '" KEY "'");
}

/* Right checksum, wrong lengths: the sum of all three must still be the size. */
static void lying_lengths_are_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_with(AT_KEY_SIZE, 0xff), -EBADMSG);
	assert_int_equal(decode_with(AT_KEY_SIZE + 1, 0x0f), -EBADMSG);
	assert_int_equal(decode_with(AT_HOST_SIZE, 0xff), -EBADMSG);
	assert_int_equal(decode_with(AT_HOST_SIZE + 1, 0), -EBADMSG);
	assert_int_equal(decode_with(AT_PAYLOAD_SIZE, 0xff), -EBADMSG);
	assert_int_equal(decode_with(AT_PAYLOAD_SIZE + 3, 0), -EBADMSG);
}

/* The lengths add up, but the key is too long, too short, or the host name is. */
static void impossible_lengths_are_refused(void **state)
{
	static const struct {
		int key, host;
	} rows[] = { { 0, 19 }, { 251, 0 }, { 1, 64 }, { 1, 300 }, { 300, 1 } };
	uint8_t bytes[512];
	size_t i, size;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		memset(bytes, 'x', sizeof(bytes));
		memcpy(bytes, golden, AT_KEY);
		bytes[AT_KEY_SIZE] = (uint8_t)(rows[i].key >> 8);
		bytes[AT_KEY_SIZE + 1] = (uint8_t)rows[i].key;
		bytes[AT_HOST_SIZE] = (uint8_t)(rows[i].host >> 8);
		bytes[AT_HOST_SIZE + 1] = (uint8_t)rows[i].host;
		size = 52 + 24 + (size_t)rows[i].key + (size_t)rows[i].host;
		assert_int_equal(decode_sealed(bytes, size, "x"), -EBADMSG);
		assert_error_has("record with a key of");
	}
}

/* Sentences go to terminals: nothing from the network may steer one. */
static void control_characters_are_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_with(AT_HOST, 0x1b), -EBADMSG);
	assert_int_equal(decode_with(AT_HOST, 0x7f), -EBADMSG);
	assert_int_equal(decode_with(AT_HOST, 0), -EBADMSG);
	assert_int_equal(decode_with(AT_KEY, '\n'), -EBADMSG);
	assert_null(strchr(beest_error_text(), '\n'));
	assert_int_equal(decode_with(AT_HOST, 'N'), 0);
}

static void garbage_is_refused(void **state)
{
	uint8_t bytes[300];
	uint32_t seed = 1;
	size_t size, i;
	int round;

	(void)state;
	for (round = 0; round < 100000; round++) {
		size = unit_next(&seed) % sizeof(bytes);
		for (i = 0; i < size; i++)
			bytes[i] = (uint8_t)unit_next(&seed);
		if (round % 2 && size > 4)
			memcpy(bytes, "HBR\x01", 4);
		assert_true(decode(bytes, size, BEEST_KIND_MR, KEY) < 0);
	}
}

/* Some bytes of a good record changed and sealed: whatever comes, no byte too far. */
static void hostile_records_do_no_harm(void **state)
{
	uint8_t bytes[sizeof(golden)];
	uint32_t seed = 2;
	int round, i, good = 0;

	(void)state;
	for (round = 0; round < 100000; round++) {
		memcpy(bytes, golden, sizeof(bytes));
		for (i = unit_next(&seed) % 4; i >= 0; i--)
			bytes[unit_next(&seed) % sizeof(bytes)] = (uint8_t)unit_next(&seed);
		good += decode_sealed(bytes, sizeof(bytes), KEY) == 0;
	}
	assert_in_range(good, 1000, 99000);
}

/* --------------------------------------------------------------- payloads --- */

/* Every byte of the struct that a field covers comes back; returns the size. */
static int payload_round_trip(const struct beest_codec_layout *layout, size_t struct_size)
{
	uint8_t in[256], out[256] = { 0 }, bytes[BEEST_PAYLOAD_MAX], again[BEEST_PAYLOAD_MAX];
	const struct beest_codec_field *field;
	size_t i;
	int size;

	assert_true(struct_size <= sizeof(in));
	for (i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(i + 0x21);
	for (i = 0; i < layout->count; i++)
		if (layout->fields[i].type == BEEST_CODEC_TEXT)
			strcpy((char *)in + layout->fields[i].offset, "mlx5_0:1");

	size = beest_codec_encode(layout, in, bytes, sizeof(bytes));
	assert_true(size > 0);
	assert_int_equal(beest_codec_decode(layout, bytes, (size_t)size, out), 0);
	for (i = 0; i < layout->count; i++) {
		field = &layout->fields[i];
		assert_true(field->offset + field->size <= struct_size);
		if (field->type != BEEST_CODEC_TEXT)
			assert_memory_equal(in + field->offset, out + field->offset, field->size);
		else
			assert_string_equal((char *)out + field->offset, "mlx5_0:1");
	}
	assert_int_equal(beest_codec_encode(layout, out, again, sizeof(again)), size);
	assert_memory_equal(bytes, again, size);
	return size;
}

static void payloads_come_back(void **state)
{
	(void)state;
	assert_int_equal(payload_round_trip(&beest_mr_layout, sizeof(struct beest_mr_payload)), 24);
	assert_int_equal(payload_round_trip(&beest_qp_layout, sizeof(struct beest_endpoint)),
			 58);
	assert_int_equal(payload_round_trip(&beest_confirm_layout,
					    sizeof(struct beest_confirm_payload)), 40);
	assert_int_equal(payload_round_trip(&beest_barrier_layout,
					    sizeof(struct beest_barrier_payload)), 16);
	assert_int_equal(payload_round_trip(&beest_rank_layout, sizeof(struct beest_rank_payload)),
			 12);
}

static void qp_payload_is_fixed(void **state)
{
	const struct beest_endpoint qp = {
		.qp_type = 2, .link_layer = 1, .roce = 0, .mtu = 5, .max_dest_rd_atomic = 16,
		.grh_required = 1, .lid = 0x0102, .pkey = 0xffff,
		.qp_num = 0x00abcdef, .psn = 0x00123456, .qkey = 0x11111111,
		.gid = { { 0xfe, 0x80, [15] = 0x01 } },
		.ip = { { [10] = 0xff, 0xff, 10, 0, 0, 5 } }, .generation = 0x01020304,
	};
	static const uint8_t expected[58] = {
		2, 1, 0, 5, 16, 1, 0x01, 0x02, 0xff, 0xff,
		0x00, 0xab, 0xcd, 0xef, 0x00, 0x12, 0x34, 0x56, 0x11, 0x11, 0x11, 0x11,
		0xfe, 0x80, [37] = 0x01, [48] = 0xff, 0xff, 10, 0, 0, 5, 1, 2, 3, 4,
	};
	uint8_t bytes[BEEST_PAYLOAD_MAX];

	(void)state;
	assert_int_equal(beest_codec_encode(&beest_qp_layout, &qp, bytes, sizeof(bytes)),
			 58);
	assert_memory_equal(bytes, expected, 58);
}

/* No payload of today has a text. */
struct labelled {
	uint8_t number;
	char label[64];
};

static const struct beest_codec_field labelled_rows[] = {
	BEEST_CODEC_ROW(labelled, number, UINT),
	BEEST_CODEC_ROW(labelled, label, TEXT),
};
static const struct beest_codec_layout labelled_layout = BEEST_CODEC_LAYOUT(labelled_rows);

/* Whatever lay in memory behind the end of a name stays at home. */
static void nothing_behind_a_text_travels(void **state)
{
	struct labelled it;
	uint8_t bytes[BEEST_PAYLOAD_MAX];
	size_t i;

	(void)state;
	memset(&it, 'S', sizeof(it));
	strcpy(it.label, "d");
	assert_int_equal(beest_codec_encode(&labelled_layout, &it, bytes, sizeof(bytes)), 65);
	for (i = 2; i < 65; i++)
		assert_int_equal(bytes[i], 0);
}

static void payload_lengths_are_checked(void **state)
{
	struct beest_mr_payload mr = { .address = 1, .length = 2 }, out = { .length = 77 };
	uint8_t bytes[64] = { 0 }, *exact;
	size_t size;

	(void)state;
	for (size = 0; size < 24; size++) {
		assert_int_equal(beest_codec_encode(&beest_mr_layout, &mr, bytes, size),
				 -EMSGSIZE);
		exact = malloc(size ? size : 1);
		memset(exact, 0, size ? size : 1);
		assert_int_equal(beest_codec_decode(&beest_mr_layout, exact, size, &out),
				 -EBADMSG);
		free(exact);
	}
	assert_int_equal(out.length, 77);
	/* a newer version appended something */
	assert_int_equal(beest_codec_encode(&beest_mr_layout, &mr, bytes, 24), 24);
	assert_int_equal(beest_codec_decode(&beest_mr_layout, bytes, sizeof(bytes), &out), 0);
	assert_int_equal(out.length, 2);
}

static void payload_texts_are_checked(void **state)
{
	struct labelled out = { .number = 77 };
	uint8_t bytes[65] = { 0 };

	(void)state;
	memset(bytes + 1, 'd', 64);
	assert_int_equal(beest_codec_decode(&labelled_layout, bytes, 65, &out), -EBADMSG);
	bytes[64] = 0;
	bytes[5] = 0x1b;
	assert_int_equal(beest_codec_decode(&labelled_layout, bytes, 65, &out), -EBADMSG);
	assert_int_equal(out.number, 77);
	bytes[5] = 0;
	assert_int_equal(beest_codec_decode(&labelled_layout, bytes, 65, &out), 0);
	assert_string_equal(out.label, "dddd");
}

static void authors_in_words(void **state)
{
	struct beest_author author = { .host = "node-7", .pid = 4294967295U, .rank = 0 };
	char text[128];

	(void)state;
	assert_string_equal(beest_author_text(&author, text, sizeof(text)),
			    "host node-7, pid 4294967295, rank 0");
	author.rank = -1;
	assert_string_equal(beest_author_text(&author, text, sizeof(text)),
			    "host node-7, pid 4294967295");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wire_form_is_fixed),
		cmocka_unit_test(sum_is_that_of_zlib),
		cmocka_unit_test(every_kind_and_length_comes_back),
		cmocka_unit_test(kinds_have_words),
		cmocka_unit_test(a_small_buffer_is_refused),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(a_longer_record_is_refused),
		cmocka_unit_test(every_flipped_bit_is_refused),
		cmocka_unit_test(another_version_is_named),
		cmocka_unit_test(another_kind_or_key_is_named),
		cmocka_unit_test(lying_lengths_are_refused),
		cmocka_unit_test(impossible_lengths_are_refused),
		cmocka_unit_test(control_characters_are_refused),
		cmocka_unit_test(garbage_is_refused),
		cmocka_unit_test(hostile_records_do_no_harm),
		cmocka_unit_test(payloads_come_back),
		cmocka_unit_test(qp_payload_is_fixed),
		cmocka_unit_test(nothing_behind_a_text_travels),
		cmocka_unit_test(payload_lengths_are_checked),
		cmocka_unit_test(payload_texts_are_checked),
		cmocka_unit_test(authors_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
