/* SPDX-License-Identifier: MIT */
/* codec.c - structs to bytes and back by rows; malformed bytes are refused */
#include "config.h"

#include <stdlib.h>

#include "lib/base/codec.h"
#include "lib/base/hash.h"
#include "tests/support/unit.h"

struct sample {
	uint64_t longest;
	char label[16];
	uint8_t raw[5];
	uint16_t number;
	int32_t negative;
	uint8_t flag;
};

/* Fields in the order of the wire, which differs from that of the struct. */
static const struct beest_codec_field sample_rows[] = {
	BEEST_CODEC_ROW(sample, number, UINT),
	BEEST_CODEC_ROW(sample, raw, BYTES),
	BEEST_CODEC_ROW(sample, label, BYTES),
	BEEST_CODEC_ROW(sample, flag, UINT),
	BEEST_CODEC_ROW(sample, negative, UINT),
	BEEST_CODEC_ROW(sample, longest, UINT),
};
static const struct beest_codec_layout layout = BEEST_CODEC_LAYOUT(sample_rows);

static const struct sample sample = {
	.longest = UINT64_C(0x0102030405060708), .label = "mlx5_0:1",
	.raw = { 1, 2, 3, 4, 5 }, .number = 0xabcd, .negative = -2, .flag = 9,
};

static const uint8_t expected[] = {
	0xab, 0xcd, 1, 2, 3, 4, 5,
	'm', 'l', 'x', '5', '_', '0', ':', '1', 0, 0, 0, 0, 0, 0, 0, 0,
	9, 0xff, 0xff, 0xff, 0xfe, 1, 2, 3, 4, 5, 6, 7, 8,
};

/* Decodes from memory of exactly that size, so that a checker sees every byte read too far. */
static int decode(const uint8_t *bytes, size_t size, struct sample *out)
{
	uint8_t *exact = malloc(size ? size : 1);
	int ret;

	memcpy(exact, bytes, size);
	memset(out, 0x55, sizeof(*out));
	ret = beest_codec_decode(&layout, exact, size, out);
	free(exact);
	if (ret < 0)
		assert_int_equal(out->number, 0x5555);
	return ret;
}

static void sum_is_that_of_zlib(void **state)
{
	(void)state;
	assert_int_equal(beest_hash_crc32(0, "", 0), 0);
	assert_int_equal(beest_hash_crc32(0, "123456789", 9), 0xcbf43926);
	assert_int_equal(beest_hash_crc32(0, "The quick brown fox jumps over the lazy dog", 43),
			 0x414fa339);
	assert_int_equal(beest_hash_crc32(beest_hash_crc32(0, "12345", 5), "6789", 4),
			 0xcbf43926);
}

static void fields_are_big_endian_and_without_gaps(void **state)
{
	uint8_t bytes[sizeof(expected)];
	struct sample out;

	(void)state;
	assert_int_equal(beest_codec_size(&layout), sizeof(expected));
	assert_int_equal(beest_codec_encode(&layout, &sample, bytes, sizeof(bytes)),
			 sizeof(expected));
	assert_memory_equal(bytes, expected, sizeof(expected));

	assert_int_equal(decode(expected, sizeof(expected), &out), 0);
	assert_true(out.longest == sample.longest);
	assert_string_equal(out.label, sample.label);
	assert_memory_equal(out.raw, sample.raw, sizeof(out.raw));
	assert_int_equal(out.number, sample.number);
	assert_int_equal(out.negative, sample.negative);
	assert_int_equal(out.flag, sample.flag);
}

static void every_truncation_is_refused(void **state)
{
	uint8_t bytes[sizeof(expected)];
	struct sample out;
	size_t size;

	(void)state;
	for (size = 0; size < sizeof(expected); size++) {
		assert_int_equal(beest_codec_encode(&layout, &sample, bytes, size), -EMSGSIZE);
		assert_int_equal(decode(expected, size, &out), -EBADMSG);
		assert_error_has("at least 36 expected");
	}
}

/* A newer version may have appended fields. */
static void more_bytes_are_ignored(void **state)
{
	uint8_t bytes[sizeof(expected) + 7];
	struct sample out;

	(void)state;
	memset(bytes, 0xee, sizeof(bytes));
	memcpy(bytes, expected, sizeof(expected));
	assert_int_equal(decode(bytes, sizeof(bytes), &out), 0);
	assert_true(out.longest == sample.longest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sum_is_that_of_zlib),
		cmocka_unit_test(fields_are_big_endian_and_without_gaps),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(more_bytes_are_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
