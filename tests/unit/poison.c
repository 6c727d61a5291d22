/* SPDX-License-Identifier: MIT */
/*
 * poison.c - another program writes into all records of a job at work
 *
 * Four ranks connect, exchange, serve, meet, and make a mesh, while records and counters on the
 * server are changed between any two requests: well formed, with absurd contents.  The job may
 * fail, as SECURITY.md says.  But each call ends, with a sentence if it fails, no memory is
 * accessed out of bounds, and nothing stays open.
 *
 * 	poison [SEEDS [FIRST]]
 */
#include "config.h"

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hartebeest-mesh.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/macro.h"
#include "tests/support/crew.h"
#include "tests/support/party.h"

#define RANKS 4
#define ITEMS_MAX 256
#define VALUE_MAX 4096
#define HEADER 26			/* of a record */
#define LENGTH 2			/* before each entry of a list */
#define CHECKSUM 4
#define PATIENCE (3 * BEEST_SECOND)
#define HELD_UP_S 300

static uint32_t first_seed = 1, seeds = 40, stride;
static uint32_t seed, dice;
static long poisoned, calls, failures;

static uint32_t roll(uint32_t sides)
{
	return unit_next(&dice) % sides;
}

/* ----------------------------------------------------------------- the poisoner --- */

struct item {
	char key[256];
	uint8_t bytes[VALUE_MAX + 16];
	size_t size;
};

static struct item items[ITEMS_MAX];
static size_t item_count;

static void note_item(const char *key, const void *value, size_t size, void *data)
{
	struct item *item = &items[item_count];

	(void)data;
	if (item_count == ITEMS_MAX || size > VALUE_MAX || strlen(key) >= sizeof(item->key))
		return;
	item_count++;
	strcpy(item->key, key);
	memcpy(item->bytes, value, size);
	item->size = size;
}

static void checksum_set(struct item *item)
{
	size_t end = item->size - CHECKSUM;
	uint32_t sum = beest_hash_crc32(beest_hash_crc32(0, item->key, strlen(item->key)),
					     item->bytes, end);
	int i;

	for (i = 0; i < CHECKSUM; i++)
		item->bytes[end + (size_t)i] = (uint8_t)(sum >> (8 * (CHECKSUM - 1 - i)));
}

/* Replaces one, two, four or eight of the @size bytes at @at by an extreme number. */
static void spoil_number(uint8_t *at, size_t size)
{
	static const uint8_t extremes[] = { 0x00, 0xff, 0x7f, 0x80, 0x01 };
	size_t width = (size_t)1 << roll(4), begin;

	if (width > size)
		return;
	begin = roll((uint32_t)(size - width + 1));
	memset(at + begin, roll(2) ? 0xff : 0, width);
	at[begin] = extremes[roll(BEEST_COUNT(extremes))];
}

static void spoil_record(struct item *item)
{
	size_t body = item->size - HEADER - CHECKSUM, i;

	switch (roll(6)) {
	case 0:
		for (i = roll(8) + 1; body && i; i--)
			item->bytes[HEADER + roll((uint32_t)body)] = (uint8_t)roll(256);
		break;
	case 1:
		spoil_number(item->bytes + HEADER, body);
		break;
	case 2:
		item->size -= roll((uint32_t)body + 1);
		break;
	case 3:
		for (i = roll(12); i; i--)
			item->bytes[item->size++ - CHECKSUM] = (uint8_t)roll(256);
		break;
	case 4:					/* kind, flags, incarnation, rank */
		spoil_number(item->bytes + 4, HEADER - 4);
		break;
	case 5:					/* the bytes of another record */
		i = roll((uint32_t)item_count);
		if (items[i].size >= HEADER + CHECKSUM) {
			memcpy(item->bytes, items[i].bytes, items[i].size);
			item->size = items[i].size;
		}
		break;
	}
	checksum_set(item);
}

/* The first entry becomes another one, and perhaps the length before it, and what follows it. */
static void spoil_list(struct item *item)
{
	static struct item entry;
	size_t size = (size_t)(item->bytes[0] << 8 | item->bytes[1]), rest;

	if (size + LENGTH > item->size || size < HEADER + CHECKSUM || size > VALUE_MAX / 2)
		return;
	strcpy(entry.key, item->key);
	memcpy(entry.bytes, item->bytes + LENGTH, size);
	entry.size = size;
	spoil_record(&entry);
	rest = item->size - LENGTH - size;
	if (LENGTH + entry.size + rest > VALUE_MAX)
		return;
	memmove(item->bytes + LENGTH + entry.size, item->bytes + LENGTH + size, rest);
	memcpy(item->bytes + LENGTH, entry.bytes, entry.size);
	item->bytes[0] = (uint8_t)(entry.size >> 8);
	item->bytes[1] = (uint8_t)entry.size;
	item->size = LENGTH + entry.size + rest;
	if (!roll(4))
		spoil_number(item->bytes, item->size);
}

static void spoil_plain(struct item *item)
{
	static const char *const numbers[] = {
		"18446744073709551615", "18446744073709551614", "0", "-1", "", "7", "4294967296",
		"99999999999999999999999", "x",
	};
	const char *number = numbers[roll(BEEST_COUNT(numbers))];
	size_t i;

	if (roll(2)) {
		item->size = strlen(number);
		memcpy(item->bytes, number, item->size);
		return;
	}
	item->size = roll(64);
	for (i = 0; i < item->size; i++)
		item->bytes[i] = (uint8_t)roll(256);
}

static void poison(struct beest_kv *kv, const struct beest_kv_request *request)
{
	struct fake_kv_server *server = fake_kv_server("a:1");
	struct item *item;

	(void)kv;
	(void)request;
	if (roll(seed % 4 ? 64 : 5))
		return;
	item_count = 0;
	fake_kv_visit(server, note_item, NULL);
	if (!item_count)
		return;
	item = &items[roll((uint32_t)item_count)];
	poisoned++;
	if (!roll(12)) {
		fake_kv_evict(server, item->key);
		return;
	}
	if (item->size >= HEADER + CHECKSUM && !memcmp(item->bytes, "HBR", 3))
		spoil_record(item);
	else if (item->size >= LENGTH + HEADER && !memcmp(item->bytes + LENGTH, "HBR", 3))
		spoil_list(item);
	else
		spoil_plain(item);
	fake_kv_put(server, item->key, item->bytes, item->size, 60);
}

/* ------------------------------------------------------------------------- a rank --- */

/* A call that fails must have a sentence, and no call may hang beyond its limit. */
static int told(const char *call, int64_t began, int ret)
{
	calls++;
	failures += ret < 0;
	if (ret < 0 && !hartebeest_error()[0])
		fail_msg("seed %u: %s returns %d without a sentence", seed, call, ret);
	if (crew_now() - began > PATIENCE + 2 * BEEST_SECOND)
		fail_msg("seed %u: %s took %lld ms", seed, call,
			 (long long)((crew_now() - began) / BEEST_MS));
	return ret;
}

#define TELL(call) told(#call, crew_now(), call)
#define SOON (crew_now() + PATIENCE)

static void work_as_server(struct hartebeest_context *hb)
{
	struct hartebeest_client request;
	int i;

	TELL(hartebeest_service_listen(hb, "kv", SOON));
	for (i = 0; i < RANKS - 1; i++)
		if (TELL(hartebeest_service_accept(hb, "kv", &request, SOON)) == 0)
			TELL(hartebeest_service_leave(hb, "kv", &request));
}

static void work_in_mesh(struct hartebeest_context *hb)
{
	static const char *const regions[] = { "mr0", "mr1" };
	struct hartebeest_mesh_attr attr;
	struct hartebeest_mesh *mesh = NULL;

	hartebeest_mesh_attr_init(&attr);
	attr.pd = "pd";
	attr.regions = regions;
	attr.region_count = 2;
	if (TELL(hartebeest_mesh_connect(hb, "m", &attr, &mesh, SOON)) == 0)
		TELL(hartebeest_mesh_barrier(mesh, SOON));
	hartebeest_mesh_close(mesh);
}

static void work(void *data)
{
	struct party_member *member = data;
	struct hartebeest_context *hb = member->hb;
	struct hartebeest_client request;
	struct hartebeest_remote_mr mr;
	char text[64], own[16] = "", other[16];

	snprintf(own, sizeof(own), "x%d", member->rank);
	snprintf(other, sizeof(other), "x%d", (member->rank + 1) % RANKS);
	TELL(hartebeest_pairs_connect(hb, member->pairs, member->count, SOON));
	TELL(hartebeest_msg_push(hb, own, own, sizeof(own), SOON));
	TELL(hartebeest_msg_wait(hb, other, text, sizeof(text), NULL, SOON));
	TELL(hartebeest_mr_publish(hb, "mr3", own, SOON));
	TELL(hartebeest_mr_fetch(hb, other, &mr, SOON));
	TELL(hartebeest_barrier(hb, "all", SOON));
	TELL(hartebeest_qp_follow(hb, member->pairs[0].qp, member->pairs[0].peer_key, NULL,
				  HARTEBEEST_ONCE));
	TELL(hartebeest_qp_reconnect(hb, member->pairs[0].qp, member->pairs[0].peer_key, SOON));
	if (member->rank == 0)
		work_as_server(hb);
	else
		TELL(hartebeest_service_request(hb, "kv", own, strlen(own), &request, SOON));
	work_in_mesh(hb);
	TELL(hartebeest_barrier(hb, "all", SOON));
	party_close(member);
}

static void a_job_at_work(void **state)
{
	int i, j;

	(void)state;
	for (seed = first_seed; seed < first_seed + seeds; seed += stride) {
		dice = seed;
		party_start();
		for (i = 0; i < RANKS; i++) {
			party_open(i, i, RANKS, NULL);
			for (j = 0; j < RANKS; j++)
				if (j != i)
					party_offer(party_pair(&party[i], j, IBV_QPT_RC), 2, 2);
		}
		fake_kv.hook = poison;
		for (i = 0; i < RANKS; i++)
			crew_start(work, &party[i]);
		crew_run();
		assert_int_equal(party_teardown(NULL), 0);
	}
	print_message("%u seeds, %ld records poisoned, %ld of %ld calls failed\n",
		      (seeds + stride - 1) / stride, poisoned, failures, calls);
}

static int setup(void **state)
{
	(void)state;
	crew_need();
	alarm(HELD_UP_S);
	return 0;
}

static int teardown(void **state)
{
	return party_teardown(state);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_job_at_work, setup, teardown),
	};

	stride = (uint32_t)unit_stride(4);
	if (argc > 1)
		seeds = (uint32_t)atol(argv[1]);
	if (argc > 2)
		first_seed = (uint32_t)atol(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
