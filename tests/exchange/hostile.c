/* SPDX-License-Identifier: MIT */
/*
 * hostile.c - a bad value under any key is refused with a reason
 *
 * Each value of one table is read by each function that reads a key.  The bytes are made by
 * hand, not by lib/rendezvous/record.
 *
 * promise: hartebeest-exchange(7)
 */
#include "config.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/core/context.h"
#include "lib/kv/kv.h"
#include "tests/support/bringup.h"
#include "tests/support/fake-clock.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/memcached.h"
#include "tests/support/rank.h"
#include "tests/support/raw-kv.h"
#include "tests/support/scratch.h"
#include "tests/support/unit.h"

#define VALUE_MAX 4096
#define HEADER 26
#define CHECKSUM 4

static struct cache *cache;
static char job[32];
static struct hartebeest_context *hb;
static uint32_t own_call;	/* the number of its call of a fence */
static uint64_t view = 0x0123456789abcdef;	/* proposed to it */

/* ---------------------------------------------------------- a valid record --- */

struct value {
	char key[128];
	uint8_t bytes[VALUE_MAX];
	size_t size;
};

static void big_endian(uint8_t *at, size_t size, uint64_t number)
{
	while (size--) {
		at[size] = (uint8_t)number;
		number >>= 8;
	}
}

static void seal_as(struct value *value, const char *key)
{
	size_t end = value->size - CHECKSUM;

	big_endian(value->bytes + end, CHECKSUM,
		   beest_hash_crc32(beest_hash_crc32(0, key, strlen(key)), value->bytes, end));
}

static void seal(struct value *value)
{
	seal_as(value, value->key);
}

static void compose(struct value *value, char kind, const uint8_t *body, size_t size)
{
	uint8_t *bytes = value->bytes;

	memset(bytes, 0, VALUE_MAX);
	value->size = HEADER + size + CHECKSUM;
	memcpy(bytes, "HBR\1", 4);
	bytes[4] = (uint8_t)kind;
	memset(bytes + 6, 0x5a, 16);
	big_endian(bytes + 22, 4, 1);
	memcpy(bytes + HEADER, body, size);
	seal(value);
}

/* -------------------------------------------------- ways to spoil the record --- */

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
	text(value,
	     "{\"session\": \"81d1ab\", \"user\": \"alice\", \"roles\": [\"admin\", \"ops\"]}");
}

static void be_the_original_s(struct value *value)
{
	text(value, "0x1234,0,0x8f3a21,fe80:0000:0000:0000:0e42:a1ff:fe1b:2c3d,qp_attr");
}

static void have_other_letters(struct value *value)
{
	value->bytes[2] = 'C';
	seal(value);
}

static void lose_the_last_byte(struct value *value)
{
	value->size--;
}

static void lose_the_first_byte(struct value *value)
{
	memmove(value->bytes, value->bytes + 1, --value->size);
}

static void be_cut_in_the_header(struct value *value)
{
	value->size = 20;
}

static void be_cut_in_the_sum(struct value *value)
{
	value->size = HEADER + CHECKSUM - 1;
}

static void be_cut_in_the_body(struct value *value)
{
	value->size = HEADER + CHECKSUM + 6;
}

static void have_a_byte_more(struct value *value)
{
	value->bytes[value->size++] = 0;
}

static void have_a_byte_more_before_the_sum(struct value *value)
{
	size_t end = value->size++ - CHECKSUM;

	memmove(value->bytes + end + 1, value->bytes + end, CHECKSUM);
	value->bytes[end] = 0;
}

static void be_twice_there(struct value *value)
{
	memcpy(value->bytes + value->size, value->bytes, value->size);
	value->size *= 2;
}

static void be_of_version_2(struct value *value)
{
	value->bytes[3] = 2;
	seal(value);
}

/* The version is checked before everything but the magic letters. */
static void be_of_version_9_and_short(struct value *value)
{
	value->bytes[3] = 9;
	value->size = HEADER + CHECKSUM;
}

static void be_of_the_other_byte_order(struct value *value)
{
	uint8_t *sum = value->bytes + value->size - CHECKSUM;
	const uint8_t swapped[CHECKSUM] = { sum[3], sum[2], sum[1], sum[0] };

	memcpy(sum, swapped, CHECKSUM);
}

static void have_a_wrong_sum(struct value *value)
{
	value->bytes[value->size - 1] ^= 0x80;
}

static void have_another_kind_and_the_old_sum(struct value *value)
{
	value->bytes[4] ^= 1;
}

static void have_a_changed_flag(struct value *value)
{
	value->bytes[5] ^= 0x80;
}

static void have_a_changed_author(struct value *value)
{
	value->bytes[6] ^= 1;
}

static void have_a_changed_rank(struct value *value)
{
	value->bytes[25] ^= 1;
}

static void have_a_changed_body(struct value *value)
{
	value->bytes[HEADER] ^= 1;
}

static void have_a_changed_last_byte(struct value *value)
{
	value->bytes[value->size - CHECKSUM - 1] ^= 0x10;
}

/* A copy of a record that is valid under another key. */
static void be_of_another_key(struct value *value)
{
	char key[sizeof(value->key)];

	strcpy(key, value->key);
	key[strlen(key) - 1] ^= 1;
	seal_as(value, key);
}

static void be_of_another_job(struct value *value)
{
	char key[sizeof(value->key)];

	strcpy(key, value->key);
	key[strlen("hb1/")] ^= 1;
	seal_as(value, key);
}

static void have_a_sum_without_the_key(struct value *value)
{
	seal_as(value, "");
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

#define WRONG_SUM "a damaged record, or one of another key: its checksum is wrong"

static const struct hostility {
	void (*spoil)(struct value *value);
	int err;
	const char *sentence;
} hostilities[] = {
	{ be_empty, EBADMSG, "0 bytes are too few for a record" },
	{ be_another_program_s, EBADMSG, "not a record of hartebeest" },
	{ be_the_original_s, EBADMSG, "not a record of hartebeest" },
	{ have_other_letters, EBADMSG, "not a record of hartebeest" },
	{ lose_the_first_byte, EBADMSG, "not a record of hartebeest" },
	{ lose_the_last_byte, EBADMSG, WRONG_SUM },
	{ be_cut_in_the_header, EBADMSG, "20 bytes are too few for a record" },
	{ be_cut_in_the_sum, EBADMSG, "29 bytes are too few for a record" },
	{ be_cut_in_the_body, EBADMSG, WRONG_SUM },
	{ have_a_byte_more, EBADMSG, WRONG_SUM },
	{ have_a_byte_more_before_the_sum, EBADMSG, WRONG_SUM },
	{ be_twice_there, EBADMSG, WRONG_SUM },
	{ be_of_version_2, EPROTONOSUPPORT,
	  "record of version 2; this library understands version 1 only" },
	{ be_of_version_9_and_short, EPROTONOSUPPORT,
	  "record of version 9; this library understands version 1 only" },
	{ be_of_the_other_byte_order, EBADMSG, WRONG_SUM },
	{ have_a_wrong_sum, EBADMSG, WRONG_SUM },
	{ have_another_kind_and_the_old_sum, EBADMSG, WRONG_SUM },
	{ have_a_changed_flag, EBADMSG, WRONG_SUM },
	{ have_a_changed_author, EBADMSG, WRONG_SUM },
	{ have_a_changed_rank, EBADMSG, WRONG_SUM },
	{ have_a_changed_body, EBADMSG, WRONG_SUM },
	{ have_a_changed_last_byte, EBADMSG, WRONG_SUM },
	{ be_of_another_key, EBADMSG, WRONG_SUM },
	{ be_of_another_job, EBADMSG, WRONG_SUM },
	{ have_a_sum_without_the_key, EBADMSG, WRONG_SUM },
	{ be_of_another_kind, EBADMSG, "record of kind rank, " },
	{ be_of_no_kind, EBADMSG, "record of kind unknown, " },
};

/* ----------------------------------------------------------------- the readers --- */

static int fetch_mr(void)
{
	struct hartebeest_remote_mr remote;

	return hartebeest_mr_fetch(hb, "mr1", &remote, 0);
}

static int fetch_qp(void)
{
	return hartebeest_qp_fetch(hb, "1-0", NULL, 0);
}

static int wait_for_message(void)
{
	return hartebeest_msg_wait(hb, "hello1", NULL, 0, NULL, 0);
}

static int confirm(void)
{
	return hartebeest_qp_confirm(hb, "to1", "1-0", 0);
}

/* @name: of the record; @size: the shortest complete body. */
static const struct reader {
	int (*read)(void);
	const char *word, *name;
	char kind;
	size_t size;
	bool any_size;
} readers[] = {
	{ fetch_mr, "mr", "mr1", 'm', 24, false },
	{ fetch_qp, "qp", "1-0", 'q', 71, false },
	{ wait_for_message, "msg", "hello1", 's', 11, true },
	{ confirm, "qp", "1-0", 'q', 71, false },
};

#define QP_READER (&readers[1])

/* The presence of rank 1, which fetch_mr() reads as well. */
static const struct reader presence = { NULL, "rank", "1", 'r', 36, false };

static void fill_qp(uint8_t *body)
{
	body[0] = IBV_QPT_RC;
	body[1] = IBV_LINK_LAYER_ETHERNET;
	body[2] = 2;
	body[3] = IBV_MTU_1024;
	big_endian(body + 9, 2, 0xffff);
	big_endian(body + 11, 4, 77);
	body[27 + 10] = body[27 + 11] = 0xff;
	body[27 + 12] = 10;
}

static void value_of(const struct reader *reader, struct value *value, size_t size)
{
	uint8_t body[256] = { 0 };

	if (reader->kind == 'q')
		fill_qp(body);
	if (reader->kind == 'm')
		big_endian(body + 8, 8, 4096);
	snprintf(value->key, sizeof(value->key), "hb1/%s/%s/%s", job, reader->word, reader->name);
	compose(value, reader->kind, body, size);
}

static void sound_value(const struct reader *reader, struct value *value)
{
	value_of(reader, value, reader->size);
}

static void put_value(const struct value *value)
{
	struct beest_kv *exchange = NULL;

	assert_int_equal(beest_kv_open(&exchange, cache_hostport(cache), 1), 0);
	assert_int_equal(raw_kv_put(exchange, value->key, value->bytes, value->size, 60,
				    beest_clock_deadline(RANK_PATIENCE_S * BEEST_SECOND)), 0);
	beest_kv_close(exchange);
}

static void take_away(const struct value *value)
{
	struct beest_kv *exchange = NULL;

	assert_int_equal(beest_kv_open(&exchange, cache_hostport(cache), 1), 0);
	assert_int_equal(raw_kv_delete(exchange, value->key,
				       beest_clock_deadline(RANK_PATIENCE_S * BEEST_SECOND)), 0);
	beest_kv_close(exchange);
}

/* The read fails with @err and a sentence with @sentence and the key. */
static void refuses(const struct reader *reader, const struct value *value, int err,
		    const char *sentence)
{
	int ret = IN_VAIN(reader->read());

	if (ret != -err || !strstr(hartebeest_error(), sentence))
		fail_msg("%s: %d where %d was expected, '%s' where '%s'", value->key, ret, -err,
			 hartebeest_error(), sentence);
	assert_error_has(value->key);
}

/* refuses(), and the read waited until its limit for a better value. */
static void is_refused(const struct reader *reader, const struct value *value, int err,
		       const char *sentence)
{
	int64_t begin = beest_clock_now();

	refuses(reader, value, err, sentence);
	assert_true(beest_clock_now() - begin >= RANK_PATIENCE_S * BEEST_SECOND);
}

/* ----------------------------------------------------------------- the tests --- */

static struct bringup *bringup;

static int leave(void **state)
{
	(void)state;
	hartebeest_close(hb);
	hb = NULL;
	if (bringup)
		bringup_free(bringup);
	return fake_verbs.open;
}

/* Rank 0 of two is connected to what rank 1 published; rank 1 has left. */
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

/* This process is rank 1 of two; rank 0 is whoever stores its record. */
static int alone(void **state)
{
	static int number;
	const struct rank_settings settings = {
		.servers = cache_hostport(cache)->text, .job = job, .rank = 1, .size = 2,
	};

	(void)state;
	bringup = NULL;
	own_call = 1;
	fake_verbs_reset();
	snprintf(job, sizeof(job), "alone%d", number++);
	return rank_open(&hb, &settings) || hartebeest_msg_push(hb, "m", "", 0, 0);
}

static void every_reader_refuses_it(void **state)
{
	struct value value;
	size_t i, j;

	(void)state;
	for (i = 0; i < BEEST_COUNT(readers); i++) {
		for (j = 0; j < BEEST_COUNT(hostilities); j++) {
			sound_value(&readers[i], &value);
			hostilities[j].spoil(&value);
			put_value(&value);
			is_refused(&readers[i], &value, hostilities[j].err,
				   hostilities[j].sentence);
		}
		take_away(&value);
	}
}

/* A failed confirmation also says what it was for. */
static void a_confirmation_refuses_a_bad_record(void **state)
{
	struct value value;
	size_t j;

	(void)state;
	for (j = 0; j < BEEST_COUNT(hostilities); j++) {
		sound_value(QP_READER, &value);
		hostilities[j].spoil(&value);
		put_value(&value);
		assert_int_equal(IN_VAIN(confirm()), -hostilities[j].err);
		assert_error_has(hostilities[j].sentence);
		assert_error_has("queue pair 'to1' is connected, but '1-0' did not confirm it (it "
				 "stays connected: confirm again, or reconnect): ");
	}
}

/* Valid records whose body is too short. */
static void short_bodies(void **state)
{
	struct value value;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(readers); i++) {
		if (readers[i].any_size)
			continue;
		value_of(&readers[i], &value, readers[i].size - 1);
		put_value(&value);
		refuses(&readers[i], &value, EBADMSG, "payload of ");
		assert_error_has(" expected");
		value_of(&readers[i], &value, 0);
		put_value(&value);
		refuses(&readers[i], &value, EBADMSG, "payload of 0 bytes");
		take_away(&value);
	}
}

/* Valid records with numbers that no queue pair can have, or with parts missing. */
static void impossible_queue_pairs(void **state)
{
	static const struct {
		size_t at, size;
		uint64_t number;
		uint8_t flags;
		const char *sentence;
	} rows[] = {
		{ 1, 1, 0, 0, "the link layer 0, which is not within 1..2" },
		{ 1, 1, 3, 0, "the link layer 3" },
		{ 2, 1, 3, 0, "the RoCE version 3, which is not within 0..2" },
		{ 3, 1, 0, 0, "the path MTU 0, which is not within 1..5" },
		{ 3, 1, 6, 0, "the path MTU 6" },
		{ 6, 1, 1, 0, "offers 1 regions, but does not have all of them" },
		{ 11, 4, 0, 0, "the queue pair number 0, which is not within 1..16777215" },
		{ 11, 4, 0x1000000, 0, "the queue pair number 16777216" },
		{ 15, 4, 0x1000000, 0, "the sequence number 16777216" },
		{ 15, 4, 0, 4, "payload of 0 bytes, at least 16 expected" },
	};
	struct value value;
	size_t i;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		sound_value(QP_READER, &value);
		big_endian(value.bytes + HEADER + rows[i].at, rows[i].size, rows[i].number);
		value.bytes[5] = rows[i].flags;
		seal(&value);
		put_value(&value);
		refuses(QP_READER, &value, EBADMSG, rows[i].sentence);
		assert_int_equal(IN_VAIN(confirm()), -EBADMSG);
		assert_error_has(rows[i].sentence);
	}
}

/* Unknown bytes at the end of a body and unknown flags are ignored. */
static void longer_bodies_are_read(void **state)
{
	struct value value;
	size_t i;

	(void)state;
	sound_value(&presence, &value);
	take_away(&value);
	for (i = 0; i < 3; i++) {
		value_of(&readers[i], &value, readers[i].size + 30);
		value.bytes[5] = 0xf0;
		seal(&value);
		put_value(&value);
		assert_int_equal(readers[i].read(), 0);
	}
}

/* A region is fetched even if its author cannot be identified. */
static void a_spoilt_presence(void **state)
{
	struct value value;
	size_t j;

	(void)state;
	for (j = 0; j < BEEST_COUNT(hostilities); j++) {
		sound_value(&readers[0], &value);
		value.bytes[6] = (uint8_t)j;		/* an incarnation not looked up before */
		seal(&value);
		put_value(&value);
		sound_value(&presence, &value);
		hostilities[j].spoil(&value);
		if (hostilities[j].spoil == be_of_another_kind) {
			value.bytes[4] = 'q';
			seal(&value);
		}
		put_value(&value);
		assert_int_equal(fetch_mr(), 0);
	}
}

/* ------------------------------------------------------------------- fences --- */

#define SETUP 21
#define MEMBER 63			/* shortest bodies */
#define LEADER 99
#define ENTRY 28

enum { CALL = SETUP, FOLLOWS = 25, ACKNOWLEDGED = 41, PASS = 49, SHOWN = 57, REFUSAL = 61 };
enum { ADDED = 25, COMMITTED = 41, PASSES = 49, PROPOSED = 57, CULPRIT = 65, CULPRIT_CALL = 81,
       RANGES = 90, CHUNK_RANKS = 91, CHUNKS = 93, FAILURE = 97 };

static void fence_key(struct value *value, const char *last)
{
	snprintf(value->key, sizeof(value->key), "hb1/%s/fence/go/%s", job, last);
}

/* @value has the key. */
static void get_value(struct value *value)
{
	const char *keys[] = { value->key };
	struct beest_kv *exchange = NULL;
	struct beest_kv_value found;

	assert_int_equal(beest_kv_open(&exchange, cache_hostport(cache), 1), 0);
	assert_int_equal(raw_kv_get(exchange, keys, 1, &found,
				    beest_clock_deadline(RANK_PATIENCE_S * BEEST_SECOND)), 0);
	assert_in_range(found.size, 0, VALUE_MAX);
	value->size = found.bytes ? found.size : 0;
	if (found.bytes)
		memcpy(value->bytes, found.bytes, found.size);
	beest_kv_values_free(&found, 1);
	beest_kv_close(exchange);
}

/* A number in what this process has stored there. */
static uint64_t stored_number(const char *last, size_t at)
{
	struct value value;
	uint64_t number = 0;
	size_t i;

	fence_key(&value, last);
	get_value(&value);
	assert_in_range(value.size, HEADER + at + 8, VALUE_MAX);
	for (i = 0; i < 8; i++)
		number = number << 8 | value.bytes[HEADER + at + i];
	return number;
}

static uint64_t own_number(void)
{
	uint64_t number;

	memcpy(&number, beest_registry_incarnation(hb->registry), sizeof(number));
	return be64toh(number);
}

/* What both ranks say of themselves in a barrier. */
static void fill_setup(uint8_t *body)
{
	static const uint8_t ids[8] = { 0, 0, 0, 0, 0, 0, 0, 1 };

	body[0] = 1;
	big_endian(body + 1, 4, 2);
	big_endian(body + 5, 8, beest_hash_fnv(BEEST_HASH_FNV, ids, sizeof(ids)));
	big_endian(body + CALL, 4, 1);
}

/* Rank 1, which follows this process and so would be counted. */
static void sound_member(struct value *value, size_t size)
{
	uint8_t body[256] = { 0 };

	fill_setup(body);
	memcpy(body + FOLLOWS, beest_registry_incarnation(hb->registry), BEEST_INCARNATION_SIZE);
	fence_key(value, "1");
	compose(value, 'e', body, size);
}

/* A view of a leader and this process; returns its size. */
static size_t fill_entries(uint8_t *bytes)
{
	memset(bytes, 0, 2 * ENTRY);
	memset(bytes + 4, 0x5a, BEEST_INCARNATION_SIZE);
	big_endian(bytes + 20, 4, 1);
	big_endian(bytes + ENTRY, 4, 1);
	memcpy(bytes + ENTRY + 4, beest_registry_incarnation(hb->registry), BEEST_INCARNATION_SIZE);
	big_endian(bytes + ENTRY + 20, 4, own_call);
	return 2 * ENTRY;
}

/* Rank 0, which proposes such a view, within its record or in a chunk. */
static void sound_leader(struct value *value, bool in_chunk)
{
	uint8_t body[LEADER + 2 * ENTRY] = { 0 }, entries[2 * ENTRY];
	size_t size = fill_entries(entries);

	fill_setup(body);
	memset(body + ADDED, 0x5a, BEEST_INCARNATION_SIZE);
	big_endian(body + PROPOSED, 8, view);
	big_endian(body + CHUNK_RANKS, 2, 2);
	if (in_chunk) {
		big_endian(body + CHUNKS, 4, 1);
		big_endian(body + LEADER, 8, beest_hash_fnv(BEEST_HASH_FNV, entries, size));
		size = 8;
	} else {
		memcpy(body + LEADER, entries, size);
	}
	fence_key(value, "lead");
	compose(value, 'f', body, LEADER + size);
	big_endian(value->bytes + 22, 4, 0);
	seal(value);
}

static void sound_chunk(struct value *value)
{
	uint8_t entries[2 * ENTRY];
	size_t size = fill_entries(entries);
	char last[24];

	snprintf(last, sizeof(last), "%016llx",
		 (unsigned long long)beest_hash_fnv(BEEST_HASH_FNV, entries, size));
	fence_key(value, last);
	compose(value, 'h', entries, size);
}

static int meet(void)
{
	return IN_VAIN(hartebeest_barrier(hb, "go", 0));
}

/* Looks until this process has nothing to add to what is there. */
static void look(void)
{
	int i;

	for (i = 0; i < 8; i++)
		assert_int_equal(UNTIL_ANSWERED(hartebeest_barrier(hb, "go", HARTEBEEST_ONCE)),
				 -EAGAIN);
}

/* Which of its calls goes on: one that failed otherwise than by its limit has ended. */
static void own_call_find(void)
{
	assert_int_equal(meet(), -ETIMEDOUT);
	own_call = (uint32_t)(stored_number("1", CALL) >> 32);
}

#define NOT_ARRIVED "1 of 2 ranks has not arrived: rank "

/* It counts as absent, whatever it is, and may be why nobody comes. */
static void is_not_met(const struct value *value, int err, const char *sentence)
{
	int ret = meet();

	if (ret != -err)
		fail_msg("%s: %d, '%s' (%s)", value->key, ret, hartebeest_error(), sentence);
	assert_error_has(NOT_ARRIVED);
	assert_error_has(sentence);
	assert_error_has(value->key);
}

static void no_bad_member_is_counted(void **state)
{
	struct value value;
	size_t j, size;

	(void)state;
	for (j = 0; j < BEEST_COUNT(hostilities); j++) {
		sound_member(&value, MEMBER);
		hostilities[j].spoil(&value);
		put_value(&value);
		is_not_met(&value, hostilities[j].err, hostilities[j].sentence);
		assert_true(stored_number("lead", PROPOSED) == 0);
	}
	for (size = 0; size < MEMBER; size++) {
		sound_member(&value, size);
		put_value(&value);
		assert_int_equal(meet(), -ETIMEDOUT);
		assert_error_has(NOT_ARRIVED);
		assert_true(stored_number("lead", PROPOSED) == 0);
	}
	sound_member(&value, MEMBER);		/* else the rows would say nothing */
	put_value(&value);
	look();
	assert_true(stored_number("lead", PROPOSED) != 0);
}

/* It is replaced, since only its author could have decided anything. */
static void no_bad_leader_is_left_there(void **state)
{
	struct value value;
	size_t j;

	(void)state;
	for (j = 0; j < BEEST_COUNT(hostilities); j++) {
		sound_leader(&value, false);
		hostilities[j].spoil(&value);
		put_value(&value);
		assert_int_equal(meet(), -ETIMEDOUT);
		assert_error_has(NOT_ARRIVED);
		assert_true(stored_number("lead", ADDED) == own_number());
		assert_true(stored_number("lead", PROPOSED) == 0);
	}
}

static void no_bad_leader_is_followed(void **state)
{
	struct value value;
	size_t j, size;

	(void)state;
	for (j = 0; j < BEEST_COUNT(hostilities); j++) {
		sound_leader(&value, false);
		hostilities[j].spoil(&value);
		put_value(&value);
		is_not_met(&value, hostilities[j].err, hostilities[j].sentence);
		assert_true(stored_number("1", FOLLOWS) == 0);
	}
	for (size = 0; size < LEADER; size++) {
		sound_leader(&value, false);
		value.size = HEADER + size + CHECKSUM;
		seal(&value);
		put_value(&value);
		assert_int_equal(meet(), -ETIMEDOUT);
		assert_error_has(NOT_ARRIVED);
		assert_true(stored_number("1", FOLLOWS) == 0);
	}
	own_call_find();
	sound_leader(&value, false);		/* else the rows would say nothing */
	put_value(&value);
	look();
	assert_true(stored_number("1", FOLLOWS) == 0x5a5a5a5a5a5a5a5a);
	assert_true(stored_number("1", ACKNOWLEDGED) == view);
}

/* Proposes another view to this process, and stores its only chunk, spoilt or not. */
static void propose(struct value *value, void (*spoil)(struct value *value))
{
	sound_leader(value, true);
	put_value(value);
	take_away(value);
	own_call_find();
	view++;
	sound_leader(value, true);
	put_value(value);
	sound_chunk(value);
	if (spoil)
		spoil(value);
	put_value(value);
}

static void no_bad_chunk_is_taken(void **state)
{
	struct value value;
	size_t j;

	(void)state;
	for (j = 0; j < BEEST_COUNT(hostilities); j++) {
		propose(&value, hostilities[j].spoil);
		is_not_met(&value, hostilities[j].err, hostilities[j].sentence);
		assert_true(stored_number("1", FOLLOWS) == 0x5a5a5a5a5a5a5a5a);
		assert_true(stored_number("1", ACKNOWLEDGED) == 0);
	}
	propose(&value, NULL);			/* else the rows would say nothing */
	look();
	assert_true(stored_number("1", ACKNOWLEDGED) == view);
}

/* Sound records that no leader would store.  None makes a rank pass, or acknowledge. */
static void impossible_leaders(void **state)
{
	static const struct {
		size_t at, size;
		uint64_t number;
	} rows[] = {
		{ 0, 1, 0 },
		{ 0, 1, 255 },
		{ 1, 4, UINT32_MAX },
		{ 5, 8, 1 },
		{ 13, 8, UINT64_MAX },
		{ RANGES, 1, 33 },
		{ RANGES, 1, 255 },
		{ RANGES, 1, 7 },			/* the entries are behind them */
		{ CHUNKS, 4, 1 },
		{ CHUNKS, 4, 7 },
		{ CHUNKS, 4, 8 },
		{ CHUNKS, 4, UINT32_MAX },
		{ CHUNK_RANKS, 6, 0x000000000001 },
		{ CHUNK_RANKS, 6, 0xffff00000001 },
		{ CHUNK_RANKS, 6, 0x000100000002 },
		{ FAILURE, 2, 22 },			/* an empty sentence */
		{ FAILURE, 2, 65535 },
		{ LEADER, 4, 1 },			/* the first entry */
		{ LEADER + 24, 4, 1 },
		{ LEADER + 24, 4, UINT32_MAX },
		{ LEADER + ENTRY, 4, 0 },
		{ LEADER + ENTRY + 4, 8, 1 },
		{ LEADER + ENTRY + 20, 4, 2 },
		{ LEADER + ENTRY + 24, 4, 1 },
		{ LEADER + ENTRY + 24, 4, UINT32_MAX },
	};
	struct value value;
	size_t i;
	int ret;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		view++;			/* a view never changes */
		sound_leader(&value, false);
		big_endian(value.bytes + HEADER + rows[i].at, rows[i].size, rows[i].number);
		seal(&value);
		put_value(&value);
		ret = meet();
		if (ret != -ETIMEDOUT)
			print_error("row %zu: %d, %s\n", i, ret, hartebeest_error());
		assert_true(ret == -ETIMEDOUT);
		assert_true(stored_number("1", ACKNOWLEDGED) == 0);
	}
	view++;
	sound_leader(&value, false);		/* else the rows would say nothing */
	put_value(&value);
	look();
	assert_true(stored_number("1", ACKNOWLEDGED) == view);
}

/* The failure of rank 0, whose setup differs, about this process's call. */
static void failed_leader(struct value *value, const char *sentence)
{
	uint8_t body[LEADER + 64] = { 0 };
	const size_t length = strlen(sentence);

	fill_setup(body);
	body[0] = 2;
	memset(body + ADDED, 0x5a, BEEST_INCARNATION_SIZE);
	memcpy(body + CULPRIT, beest_registry_incarnation(hb->registry), BEEST_INCARNATION_SIZE);
	big_endian(body + CULPRIT_CALL, 4, own_call);
	big_endian(body + FAILURE, 2, EPROTO);
	body[LEADER] = (uint8_t)length;
	memcpy(body + LEADER + 1, sentence, length);
	fence_key(value, "lead");
	compose(value, 'f', body, LEADER + 1 + length);
	big_endian(value->bytes + 22, 4, 0);
	seal(value);
}

/* Only the leader judges: a member shows it how it differs, and fails by what it says of that. */
static void another_leader_s_setup(void **state)
{
	struct value value;

	(void)state;
	sound_leader(&value, false);
	value.bytes[HEADER] = 2;
	seal(&value);
	put_value(&value);
	look();
	assert_true(stored_number("1", FOLLOWS) == 0x5a5a5a5a5a5a5a5a);
	assert_true(stored_number("1", ACKNOWLEDGED) == 0);
	assert_int_equal(stored_number("1", 0) >> 56, 1);
	assert_int_equal(stored_number("1", REFUSAL - 6) & 0xffff, 0);
	failed_leader(&value, "give them different names");
	put_value(&value);
	assert_int_equal(meet(), -EPROTO);
	assert_error_has("give them different names");
	assert_int_equal(stored_number("1", 0) >> 56, 0);	/* its call is over */
}

/* The same of members, which are not counted. */
static void impossible_members(void **state)
{
	static const struct {
		size_t at, size;
		uint64_t number;
		int err;
	} rows[] = {
		{ SHOWN, 4, 1, ETIMEDOUT },
		{ SHOWN, 4, UINT32_MAX, ETIMEDOUT },
		{ PASS, 8, 1, ETIMEDOUT },
		{ PASS, 8, UINT64_MAX, ETIMEDOUT },
		{ REFUSAL, 2, 22, ETIMEDOUT },			/* there is no sentence */
		{ 0, 1, 0, ETIMEDOUT },				/* its call is over */
		{ 0, 1, 255, EPROTO },
		{ 1, 4, UINT32_MAX, EPROTO },
		{ 5, 8, 1, EPROTO },
		{ 13, 8, UINT64_MAX, EPROTO },
	};
	struct value value;
	size_t i;
	int ret;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		sound_member(&value, MEMBER);
		big_endian(value.bytes + HEADER + rows[i].at, rows[i].size, rows[i].number);
		seal(&value);
		put_value(&value);
		ret = meet();
		if (ret != -rows[i].err)
			print_error("row %zu: %d, %s\n", i, ret, hartebeest_error());
		assert_true(ret == -rows[i].err);
		assert_true(stored_number("lead", PROPOSED) == 0);
	}
	sound_member(&value, MEMBER);		/* else the rows would say nothing */
	put_value(&value);
	look();
	assert_true(stored_number("lead", PROPOSED) != 0);
}

/* A view is committed for nobody who has not acknowledged it. */
static void a_view_that_was_not_acknowledged(void **state)
{
	struct value value;

	(void)state;
	sound_leader(&value, false);
	big_endian(value.bytes + HEADER + COMMITTED, 8, view);
	big_endian(value.bytes + HEADER + PASSES, 8, UINT64_MAX);
	big_endian(value.bytes + HEADER + PROPOSED, 8, 0);
	seal(&value);
	put_value(&value);
	assert_int_equal(meet(), -ETIMEDOUT);
	assert_true(stored_number("1", ACKNOWLEDGED) == 0);
}

/* Bodies with a right sum and random bytes: no rank passes, and each wait ends. */
static void random_fences(void **state)
{
	uint32_t number = 4711;
	struct value value;
	size_t size, at;
	int round;

	(void)state;
	for (round = 0; round < 96; round++) {
		if (round % 3)
			sound_leader(&value, round % 3 == 1);
		else
			sound_chunk(&value);
		size = value.size - HEADER - CHECKSUM;
		if (round % 4 == 0)
			size = unit_next(&number) % 1000;
		value.size = HEADER + size + CHECKSUM;
		for (at = round % 2 ? SETUP : 0; at < size; at++)
			if (round % 8 < 4 || unit_next(&number) % 16 == 0)
				value.bytes[HEADER + at] = (uint8_t)unit_next(&number);
		seal(&value);
		put_value(&value);
		assert_true(meet() < 0);
		assert_int_not_equal(hartebeest_error()[0], '\0');
	}
}

/* Whoever has no secret cannot make a rank count, follow or acknowledge. */
static void nothing_is_believed_without_a_seal(void **state)
{
	struct value value;

	(void)state;
	sound_leader(&value, true);
	put_value(&value);
	sound_chunk(&value);
	put_value(&value);
	assert_int_equal(meet(), -EKEYREJECTED);
	assert_error_has(NOT_ARRIVED);
	assert_error_has("a record that is not sealed: its author has no secret");
}

/* Any value at all is refused, without harm. */
static void random_bytes(void **state)
{
	uint32_t number = 12345;
	struct value value;
	size_t i, at;
	int round, ret;

	(void)state;
	for (round = 0; round < 48; round++) {
		i = (size_t)round % BEEST_COUNT(readers);
		sound_value(&readers[i], &value);
		if (round % 4 == 0)
			value.size = unit_next(&number) % 300;
		for (at = round / 2 % 2 ? 0 : 4; at < value.size; at++)
			value.bytes[at] = (uint8_t)unit_next(&number);
		put_value(&value);
		ret = IN_VAIN(readers[i].read());
		assert_true(ret == -EBADMSG || ret == -EPROTONOSUPPORT);
		assert_int_not_equal(hartebeest_error()[0], '\0');
		take_away(&value);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, connected, leave)
#define ALONE(name) cmocka_unit_test_setup_teardown(name, alone, leave)

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
		TEST(a_confirmation_refuses_a_bad_record),
		TEST(short_bodies),
		TEST(impossible_queue_pairs),
		TEST(longer_bodies_are_read),
		TEST(a_spoilt_presence),
		TEST(no_bad_member_is_counted),
		TEST(no_bad_leader_is_left_there),
		TEST(impossible_members),
		ALONE(no_bad_leader_is_followed),
		ALONE(no_bad_chunk_is_taken),
		ALONE(impossible_leaders),
		ALONE(another_leader_s_setup),
		ALONE(a_view_that_was_not_acknowledged),
		ALONE(random_fences),
		TEST(random_bytes),
	};
	const struct CMUnitTest with_secret[] = {
		ALONE(nothing_is_believed_without_a_seal),
		ALONE(random_fences),
	};
	char secret[SCRATCH_SIZE];
	int failed;

	surroundings_clear();
	cache_need();
	failed = cmocka_run_group_tests(tests, group_setup, group_teardown);
#ifdef HAVE_CRYPTO
	scratch_text(secret, "hartebeest-hostile", "0123456789abcdef0123456789abcdef\n");
	setenv("HARTEBEEST_SECRET_FILE", secret, 1);
	failed += cmocka_run_group_tests(with_secret, group_setup, group_teardown);
	unlink(secret);
#else
	(void)with_secret;
	(void)secret;
#endif
	return failed;
}
