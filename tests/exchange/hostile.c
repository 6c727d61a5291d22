/* SPDX-License-Identifier: MIT */
/*
 * hostile.c - a bad value under any key is refused with a reason
 *
 * Each value of one table is read by each function that reads a key.  The bytes are made by
 * hand, not by lib/rendezvous/record.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
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
#include "tests/support/raw-kv.h"
#include "tests/support/unit.h"

#define VALUE_MAX 4096
#define HEADER 26
#define CHECKSUM 4

static struct cache *cache;
static char job[32];
static struct hartebeest_context *hb;

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

static int meet(void)
{
	return hartebeest_barrier(hb, "go", 0);
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

/* An entry of rank 1 in the list of the roll call. */
static const struct reader meeting = { meet, "barrier", "-/-/0", 'b', 17 + 8, false };

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
	if (reader->kind == 'b')
		body[0] = 1;
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

	assert_int_equal(beest_kv_open(&exchange, cache_hostport(cache), 1, NULL), 0);
	assert_int_equal(raw_kv_put(exchange, value->key, value->bytes, value->size, 60,
				    beest_clock_deadline(RANK_PATIENCE_S * BEEST_SECOND)), 0);
	beest_kv_close(exchange);
}

static void take_away(const struct value *value)
{
	struct beest_kv *exchange = NULL;

	assert_int_equal(beest_kv_open(&exchange, cache_hostport(cache), 1, NULL), 0);
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

/* Makes an entry of a record. */
static void join(struct value *value)
{
	memmove(value->bytes + 2, value->bytes, value->size);
	big_endian(value->bytes, 2, value->size);
	value->size += 2;
}

#define NOT_ARRIVED "1 of 2 ranks has not arrived: rank 1"

/* It is skipped, whatever it is.  One of another version may be why nobody comes. */
static void no_bad_entry_lets_a_rank_pass(void **state)
{
	struct value value;
	bool of_a_stranger;
	size_t j, size;

	(void)state;
	for (j = 0; j < BEEST_COUNT(hostilities); j++) {
		of_a_stranger = hostilities[j].err == EPROTONOSUPPORT;
		sound_value(&meeting, &value);
		hostilities[j].spoil(&value);
		join(&value);
		put_value(&value);
		refuses(&meeting, &value, of_a_stranger ? EPROTONOSUPPORT : ETIMEDOUT, NOT_ARRIVED);
		if (of_a_stranger)
			assert_error_has(hostilities[j].sentence);
	}
	for (size = 0; size < meeting.size; size++) {
		value_of(&meeting, &value, size);
		join(&value);
		put_value(&value);
		assert_int_equal(IN_VAIN(meet()), -ETIMEDOUT);
		assert_error_has(NOT_ARRIVED);
	}
}

static void *meet_as_rank_1(void *data)
{
	static char error[1024];
	const struct rank_settings settings = {
		.servers = cache_hostport(cache)->text, .job = job, .rank = 1, .size = 2,
	};
	struct hartebeest_context *other = NULL;
	int ret = rank_open(&other, &settings);

	(void)data;
	if (ret == 0)
		ret = hartebeest_barrier(other, "go", 0);
	snprintf(error, sizeof(error), "%s", ret ? hartebeest_error() : "");
	hartebeest_close(other);
	return ret ? error : NULL;
}

/* What is no list, and ends like the beginning of a long entry. */
static void entries_behind_junk_are_read(void **state)
{
	static const uint8_t begin[] = { 0x07, 0xff, 'H', 'B', 'R', 1 };
	uint32_t number = 54321;
	struct value value;
	pthread_t thread;
	void *error;

	(void)state;
	sound_value(&meeting, &value);
	for (value.size = 0; value.size < 1000; value.size++)
		value.bytes[value.size] = (uint8_t)unit_next(&number);
	memcpy(value.bytes + value.size - sizeof(begin), begin, sizeof(begin));
	put_value(&value);
	assert_int_equal(pthread_create(&thread, NULL, meet_as_rank_1, NULL), 0);
	assert_int_equal(meet(), 0);
	pthread_join(thread, &error);
	if (error)
		fail_msg("%s", (const char *)error);
}

/* @value has the key. */
static void get_value(struct value *value)
{
	const char *keys[] = { value->key };
	struct beest_kv *exchange = NULL;
	struct beest_kv_value found;

	assert_int_equal(beest_kv_open(&exchange, cache_hostport(cache), 1, NULL), 0);
	assert_int_equal(raw_kv_get(exchange, keys, 1, &found,
				    beest_clock_deadline(RANK_PATIENCE_S * BEEST_SECOND)), 0);
	assert_in_range(found.size, 0, VALUE_MAX);
	value->size = found.bytes ? found.size : 0;
	if (found.bytes)
		memcpy(value->bytes, found.bytes, found.size);
	beest_kv_values_free(&found, 1);
	beest_kv_close(exchange);
}

/* The list in which ranks say that they know the roll of two ranks with a mark of sound_value(). */
static void second_list_of_strangers(struct value *list)
{
	uint64_t digest = BEEST_HASH_FNV;
	uint8_t head[16 + 4] = { 0 }, number[8];
	int i;

	memset(head, 0x5a, 16);
	for (i = 0; i < 2; i++)
		digest = beest_hash_fnv(digest, head, sizeof(head));
	big_endian(number, 8, digest | 1);
	digest = beest_hash_fnv(BEEST_HASH_FNV, number, 8) | 1;
	snprintf(list->key, sizeof(list->key), "hb1/%s/barrier/%016llx/-/0/0", job,
		 (unsigned long long)digest);
}

/* The entry of a dead process, carried out late, stands behind that of the living one. */
static void a_roll_without_this_process_is_not_taken(void **state)
{
	struct value list, value;
	uint8_t rank;
	int i;

	(void)state;
	assert_int_equal(UNTIL_ANSWERED(hartebeest_barrier(hb, "go", HARTEBEEST_ONCE)), -EAGAIN);
	sound_value(&meeting, &list);
	get_value(&list);
	for (rank = 0; rank < 2; rank++) {
		sound_value(&meeting, &value);
		value.bytes[HEADER - 1] = rank;
		seal(&value);
		join(&value);
		memcpy(list.bytes + list.size, value.bytes, value.size);
		list.size += value.size;
	}
	put_value(&list);
	for (i = 0; i < 4; i++)
		assert_int_equal(UNTIL_ANSWERED(hartebeest_barrier(hb, "go", HARTEBEEST_ONCE)),
				 -EAGAIN);
	second_list_of_strangers(&value);
	get_value(&value);
	assert_int_equal(value.size, 0);
	i = (int)list.size;
	get_value(&list);
	assert_true((int)list.size > i);
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
		TEST(no_bad_entry_lets_a_rank_pass),
		TEST(entries_behind_junk_are_read),
		TEST(a_roll_without_this_process_is_not_taken),
		TEST(random_bytes),
	};

	surroundings_clear();
	cache_need();
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
