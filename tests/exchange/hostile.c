/* SPDX-License-Identifier: MIT */
/*
 * hostile.c - whatever stands under a key is refused with a reason
 *
 * One table of what may stand there, against every function that reads a key.  The
 * bytes are made here by hand, not by lib/record.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/kv/kv.h"
#include "tests/support/bringup.h"
#include "tests/support/fake-clock.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/memcached.h"
#include "tests/support/rank.h"
#include "tests/support/unit.h"

#define VALUE_MAX 4096
#define HEADER 48
#define HOST "node1"

static struct cache *cache;
static char job[32];
static struct hartebeest *hb;

/* ---------------------------------------------------------- a sound record --- */

struct value {
	uint8_t bytes[VALUE_MAX];
	size_t size;
	size_t key_size, payload_size;
};

static void big_endian(uint8_t *at, size_t size, uint64_t number)
{
	while (size--) {
		at[size] = (uint8_t)number;
		number >>= 8;
	}
}

static void seal(struct value *value)
{
	big_endian(value->bytes + value->size - 4, 4,
		   beest_hash_crc32(value->bytes, value->size - 4));
}

static void compose(struct value *value, char kind, const char *key, const uint8_t *payload,
		    size_t size)
{
	uint8_t *bytes = value->bytes;

	memset(value, 0, sizeof(*value));
	value->key_size = strlen(key);
	value->payload_size = size;
	value->size = HEADER + value->key_size + strlen(HOST) + size + 4;
	memcpy(bytes, "HBR\1", 4);
	bytes[4] = (uint8_t)kind;
	big_endian(bytes + 6, 2, value->key_size);
	big_endian(bytes + 8, 2, strlen(HOST));
	big_endian(bytes + 12, 4, size);
	memset(bytes + 16, 0x5a, 16);
	big_endian(bytes + 32, 4, 4711);
	big_endian(bytes + 36, 4, 1);
	memcpy(bytes + HEADER, key, value->key_size);
	memcpy(bytes + HEADER + value->key_size, HOST, strlen(HOST));
	memcpy(bytes + HEADER + value->key_size + strlen(HOST), payload, size);
	seal(value);
}

/* ------------------------------------------------------- what is done to it --- */

static void text(struct value *value, const char *words)
{
	value->size = strlen(words);
	memcpy(value->bytes, words, value->size);
}

static void be_empty(struct value *value)
{
	value->size = 0;
}

static void be_another_program_s(struct value *value)
{
	text(value, "{\"session\": \"81d1ab\", \"user\": \"alice\", \"roles\": [\"admin\", \"ops\"]}");
}

static void be_the_original_s(struct value *value)
{
	text(value, "0x1234,0,0x8f3a21,fe80:0000:0000:0000:0e42:a1ff:fe1b:2c3d,qp_attr");
}

static void lose_the_last_byte(struct value *value)
{
	value->size--;
}

static void be_cut_in_the_header(struct value *value)
{
	value->size = 20;
}

static void be_cut_in_the_key(struct value *value)
{
	value->size = HEADER + 6;
}

static void have_a_byte_more(struct value *value)
{
	value->bytes[value->size++] = 0;
}

static void claim_a_huge_payload(struct value *value)
{
	big_endian(value->bytes + 12, 4, 0xffffffff);
	seal(value);
}

static void claim_a_huge_key(struct value *value)
{
	big_endian(value->bytes + 6, 2, 0xffff);
	seal(value);
}

/* The lengths add up, but the parts are not what they may be. */
static void have_a_long_host(struct value *value)
{
	big_endian(value->bytes + 8, 2, strlen(HOST) + value->payload_size);
	big_endian(value->bytes + 12, 4, 0);
	if (value->payload_size < 64) {		/* short ones become longer */
		memset(value->bytes + value->size, 'h', 64);
		value->size += 64;
		big_endian(value->bytes + 8, 2, strlen(HOST) + value->payload_size + 64);
	}
	seal(value);
}

static void have_no_key(struct value *value)
{
	big_endian(value->bytes + 6, 2, 0);
	big_endian(value->bytes + 12, 4, value->payload_size + value->key_size);
	seal(value);
}

static void be_of_version_2(struct value *value)
{
	value->bytes[3] = 2;
	seal(value);
}

/* Version is looked at before all else but the letters. */
static void be_of_version_9_and_short(struct value *value)
{
	value->bytes[3] = 9;
	value->size = HEADER + 10;
}

static void be_of_the_other_byte_order(struct value *value)
{
	value->bytes[6] = value->bytes[7];
	value->bytes[7] = 0;
	value->bytes[8] = value->bytes[9];
	value->bytes[9] = 0;
	seal(value);
}

static void have_a_wrong_sum(struct value *value)
{
	value->bytes[value->size - 1] ^= 0x80;
}

static void have_a_changed_byte(struct value *value)
{
	value->bytes[33] ^= 1;
}

static void be_of_another_key(struct value *value)
{
	value->bytes[HEADER + value->key_size - 1] ^= 1;
	seal(value);
}

static void be_of_another_kind(struct value *value)
{
	value->bytes[4] = 'r';
	seal(value);
}

static void be_of_no_kind(struct value *value)
{
	value->bytes[4] = 'z';
	seal(value);
}

static void have_an_escape_sequence(struct value *value)
{
	value->bytes[HEADER + value->key_size] = 0x1b;
	seal(value);
}

static const struct hostility {
	void (*spoil)(struct value *value);
	int err;
	const char *sentence;
} hostilities[] = {
	{ be_empty, EBADMSG, "0 bytes are too few for a record" },
	{ be_another_program_s, EBADMSG, "not a record of hartebeest" },
	{ be_the_original_s, EBADMSG, "not a record of hartebeest" },
	{ lose_the_last_byte, EBADMSG, "where its lengths demand" },
	{ be_cut_in_the_header, EBADMSG, "20 bytes are too few for a record" },
	{ be_cut_in_the_key, EBADMSG, "record of 54 bytes where its lengths demand" },
	{ have_a_byte_more, EBADMSG, "where its lengths demand" },
	{ claim_a_huge_payload, EBADMSG, "where its lengths demand 42949" },
	{ claim_a_huge_key, EBADMSG, "where its lengths demand 65" },
	{ have_a_long_host, EBADMSG, "and a host name of " },
	{ have_no_key, EBADMSG, "record with a key of 0 and a host name of 5 bytes" },
	{ be_of_version_2, EPROTONOSUPPORT,
	  "record of version 2, this library speaks version 1" },
	{ be_of_version_9_and_short, EPROTONOSUPPORT,
	  "record of version 9, this library speaks version 1" },
	{ be_of_the_other_byte_order, EBADMSG, "where its lengths demand" },
	{ have_a_wrong_sum, EBADMSG, "damaged record: its checksum is wrong" },
	{ have_a_changed_byte, EBADMSG, "damaged record: its checksum is wrong" },
	{ be_of_another_key, EBADMSG, "holds the record of key 'hb1/" },
	{ be_of_another_kind, EBADMSG, "record of kind rank under key" },
	{ be_of_no_kind, EBADMSG, "record of kind unknown under key" },
	{ have_an_escape_sequence, EBADMSG,
	  "record with control characters in key or host name" },
};

/* ------------------------------------------------------------- who reads it --- */

static int fetch_mr(void)
{
	struct hartebeest_remote_mr remote;

	return hartebeest_mr_fetch(hb, "mr1", &remote);
}

static int fetch_qp(void)
{
	return hartebeest_qp_fetch(hb, "1-0", NULL);
}

static int wait_for_message(void)
{
	return hartebeest_msg_wait(hb, "hello1", NULL, 0, NULL);
}

static int meet(void)
{
	return hartebeest_barrier(hb, "go");
}

static int confirm(void)
{
	return hartebeest_qp_confirm(hb, "to1", "1-0");
}

/*
 * @name and @size of a payload that is as long as it must be; @short_size: one byte
 * less is refused as a payload, -1: any length will do.
 */
static const struct reader {
	int (*read)(void);
	const char *word, *name;
	char kind;
	size_t size;
	bool any_size;
} readers[] = {
	{ fetch_mr, "mr", "mr1", 'm', 24, false },
	{ fetch_qp, "qp", "1-0", 'q', 124, false },
	{ wait_for_message, "msg", "hello1", 's', 11, true },
	{ meet, "barrier", "go/1/1", 'b', 16, false },
	{ confirm, "confirm", "1-0", 'c', 32, false },
};

static void key_of(const struct reader *reader, char key[128])
{
	snprintf(key, 128, "hb1/%s/%s/%s", job, reader->word, reader->name);
}

static void sound_value(const struct reader *reader, struct value *value)
{
	static const uint8_t payload[256];
	char key[128];

	key_of(reader, key);
	compose(value, reader->kind, key, payload, reader->size);
}

static void put_value(const struct reader *reader, const struct value *value)
{
	struct beest_kv *exchange = NULL;
	char key[128];

	key_of(reader, key);
	assert_int_equal(beest_kv_open(&exchange, cache_hostport(cache), 1), 0);
	assert_int_equal(beest_kv_put(exchange, key, value->bytes, value->size, 60,
				      beest_clock_deadline(RANK_PATIENCE_S * BEEST_SECOND)), 0);
	beest_kv_close(exchange);
}

/* Refused with errno, sentence, key; and it was waited for something better. */
static void is_refused(const struct reader *reader, int err, const char *sentence)
{
	int64_t begin = beest_clock_now();
	char key[128];
	int ret;

	key_of(reader, key);
	ret = IN_VAIN(reader->read());
	if (ret != -err || !strstr(hartebeest_error(), sentence))
		fail_msg("%s: %d where %d was expected, '%s' where '%s'", key, ret, -err,
			 hartebeest_error(), sentence);
	assert_error_has(key);
	assert_true(beest_clock_now() - begin >= RANK_PATIENCE_S * BEEST_SECOND);
}

/* ----------------------------------------------------------------- the tests --- */

static struct bringup *bringup;

static int leave(void **state)
{
	(void)state;
	hartebeest_close(hb);
	hb = NULL;
	bringup_free(bringup);
	return fake_verbs.open;
}

/* Rank 0 of two, connected to what rank 1 has published, and rank 1 is gone again. */
static int connected(void **state)
{
	struct bringup_member member = { .rank = 0, .last = bringup_step("qp_publish") };
	struct bringup_member other = { .rank = 1, .last = bringup_step("qp_publish") };
	static int number;
	int ret;

	(void)state;
	fake_verbs_reset();
	snprintf(job, sizeof(job), "job%d", number++);
	bringup = bringup_new(cache_hostport(cache)->text, job, 2);
	member.bringup = other.bringup = bringup;
	ret = bringup_take(&other) || bringup_take(&member);
	member.first = bringup_step("qp_fetch");
	member.last = bringup_step("connect");
	ret = ret || bringup_take(&member);
	hb = member.hb;
	hartebeest_close(other.hb);
	return ret;
}

/* The confirmation reads two keys: the other one is as it should be. */
static void put_sound_card(void)
{
	struct value value;
	uint8_t *card;

	sound_value(&readers[1], &value);
	card = value.bytes + value.size - 4 - 124;
	card[0] = IBV_QPT_RC;
	card[1] = IBV_LINK_LAYER_ETHERNET;
	card[2] = 2;
	card[3] = IBV_MTU_1024;
	big_endian(card + 10, 2, 0xffff);
	big_endian(card + 12, 4, 77);
	card[24 + 10] = card[24 + 11] = 0xff;
	card[24 + 12] = 10;
	seal(&value);
	put_value(&readers[1], &value);
}

static void every_reader_refuses_it(void **state)
{
	struct value value;
	size_t i, j;

	(void)state;
	for (i = 0; i < BEEST_COUNT(readers); i++) {
		if (readers[i].read == confirm)
			put_sound_card();
		for (j = 0; j < BEEST_COUNT(hostilities); j++) {
			sound_value(&readers[i], &value);
			hostilities[j].spoil(&value);
			put_value(&readers[i], &value);
			is_refused(&readers[i], hostilities[j].err, hostilities[j].sentence);
		}
	}
}

/* The confirmation reads the peer's card too. */
static void a_confirmation_refuses_a_spoilt_card(void **state)
{
	struct value value;
	size_t j;

	(void)state;
	for (j = 0; j < BEEST_COUNT(hostilities); j++) {
		sound_value(&readers[1], &value);
		hostilities[j].spoil(&value);
		put_value(&readers[1], &value);
		assert_int_equal(IN_VAIN(confirm()), -hostilities[j].err);
		assert_error_has(hostilities[j].sentence);
		assert_error_has("queue pair 'to1' is connected, but '1-0' did not confirm it");
	}
}

/* A sound record with a payload that ends too early. */
static void short_payloads(void **state)
{
	static const uint8_t payload[256];
	struct value value;
	char key[128];
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(readers); i++) {
		if (readers[i].any_size)
			continue;
		key_of(&readers[i], key);
		compose(&value, readers[i].kind, key, payload, readers[i].size - 1);
		put_value(&readers[i], &value);
		if (readers[i].read == confirm)
			put_sound_card();
		assert_int_equal(IN_VAIN(readers[i].read()), -EBADMSG);
		assert_error_has("payload of ");
		assert_error_has(" expected");
		assert_error_has(readers[i].name);
	}
}

/* What this version knows is read, the rest passed over. */
static void longer_payloads_are_read(void **state)
{
	static const uint8_t payload[256];
	struct value value;
	char key[128];

	(void)state;
	key_of(&readers[0], key);
	compose(&value, readers[0].kind, key, payload, readers[0].size + 30);
	put_value(&readers[0], &value);
	assert_int_equal(fetch_mr(), 0);
	key_of(&readers[2], key);
	compose(&value, readers[2].kind, key, payload, 200);
	put_value(&readers[2], &value);
	assert_int_equal(wait_for_message(), 0);
}

/* Any value at all is refused or read, never more. */
static void random_bytes(void **state)
{
	uint32_t number = 12345;
	struct value value;
	size_t i, at;
	int round, ret;

	(void)state;
	for (round = 0; round < 40; round++) {
		i = (size_t)round % BEEST_COUNT(readers);
		sound_value(&readers[i], &value);
		if (round % 3 == 0)
			value.size = unit_next(&number) % 300;
		for (at = round % 2 ? 0 : 4; at < value.size; at++)
			value.bytes[at] = (uint8_t)unit_next(&number);
		put_value(&readers[i], &value);
		ret = IN_VAIN(readers[i].read());
		assert_true(ret == -EBADMSG || ret == -EPROTONOSUPPORT);
		assert_int_not_equal(hartebeest_error()[0], '\0');
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, connected, leave)

static int group_setup(void **state)
{
	(void)state;
	cache = cache_start(NULL);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	cache_end(cache);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_reader_refuses_it),
		TEST(a_confirmation_refuses_a_spoilt_card),
		TEST(short_payloads),
		TEST(longer_payloads_are_read),
		TEST(random_bytes),
	};

	clearenv();
	cache_need();
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
