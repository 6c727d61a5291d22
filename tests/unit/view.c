/* SPDX-License-Identifier: MIT */
/* view.c - readers get a view as its maker has it, from the leader's record or from chunks */
#include "config.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/rendezvous/view.h"
#include "tests/support/unit.h"

#define MOST 1100

static const struct beest_incarnation leader = { { 0xaa, 1 } };
static struct beest_ids ranks;

static uint8_t value_byte(size_t rank, size_t i)
{
	return (uint8_t)(3 * rank + 7 * i + 1);
}

static struct beest_incarnation author(size_t rank)
{
	return (struct beest_incarnation){ { 0x55, (uint8_t)rank } };
}

/* Ranks with gaps between their ids. */
static void ranks_are(size_t count)
{
	static int ids[MOST];
	size_t i;

	for (i = 0; i < count; i++)
		ids[i] = (int)(2 * i + 1);
	ranks = (struct beest_ids){ ids, count };
}

/* What rank number @i contributes to call @call: @size bytes for all, and @hidden more. */
static struct beest_view_encoded entry_of(size_t i, uint32_t call, size_t size, size_t hidden)
{
	uint8_t *value = malloc(size + hidden + 1);
	struct beest_fence_entry entry = {
		.rank = (uint32_t)ranks.id[i], .incarnation = author(i), .call = call,
		.size = (uint32_t)size, .value = value,
	};
	struct beest_view_encoded encoded = { .bytes = malloc(BEEST_FENCE_ENTRY + size + hidden) };
	size_t k;

	for (k = 0; k < size + hidden; k++)
		value[k] = value_byte(i, k);
	encoded.size = (size_t)beest_record_entry_encode(&entry, encoded.bytes) + hidden;
	memcpy(encoded.bytes + encoded.size - hidden, value + size, hidden);
	free(value);
	return encoded;
}

static struct beest_view *view_open(size_t size, size_t hidden)
{
	struct beest_view *view = beest_view_new(ranks.count);
	size_t i;

	assert_false(beest_view_is_whole(view));
	for (i = 0; i < ranks.count; i++)
		beest_view_set(view, i, entry_of(i, 4, size, hidden));
	assert_true(beest_view_is_whole(view));
	return view;
}

static struct beest_view *view_make(size_t size, size_t hidden)
{
	struct beest_view *view = view_open(size, hidden);

	assert_int_equal(beest_view_close(view, &leader, 9), 0);
	return view;
}

/* What the leader's record says of it; @bytes: for free(3). */
static struct beest_leader_body lead_of(const struct beest_view *view, uint8_t **bytes)
{
	struct beest_leader_body lead = { .call = view->call };

	*bytes = beest_view_describe(view, &lead);
	return lead;
}

static struct beest_view *read_begin(const struct beest_view *view)
{
	struct beest_view *read = NULL;
	uint8_t *bytes;
	struct beest_leader_body lead = lead_of(view, &bytes);

	assert_int_equal(beest_view_begin(&ranks, &leader, &lead, &read), 0);
	free(bytes);
	return read;
}

/* Reads chunk @k of @view from memory of exactly that size, after @change. */
static int chunk_read(struct beest_view *read, const struct beest_view *view, size_t k,
		      void (*change)(uint8_t *bytes, size_t *size))
{
	size_t size;
	uint8_t *bytes = beest_view_encode(view, k, &size);
	int ret;

	if (change)
		change(bytes, &size);
	ret = beest_view_read(read, &ranks, bytes, size);
	free(bytes);
	if (ret >= 0)
		assert_int_equal(ret, k);
	return ret < 0 ? ret : 0;
}

static void entries_are_same(const struct beest_view *made, const struct beest_view *read,
			     size_t hidden)
{
	size_t i, k;

	assert_true(read->id == made->id);
	assert_int_equal(read->call, 9);
	assert_memory_equal(&read->leader, &leader, sizeof(leader));
	assert_int_equal(read->count, ranks.count);
	for (i = 0; i < ranks.count; i++) {
		const struct beest_fence_entry a = beest_view_entry(made, i),
			b = beest_view_entry(read, i);
		const struct beest_incarnation who = author(i);

		assert_int_equal(b.rank, ranks.id[i]);
		assert_memory_equal(&b.incarnation, &who, sizeof(who));
		assert_int_equal(b.call, 4);
		assert_int_equal(a.size, b.size);
		assert_memory_equal(a.value, b.value, a.size);
		for (k = 0; k < hidden; k++)
			assert_int_equal(a.hidden[k], value_byte(i, a.size + k));
		assert_int_equal(a.hidden_size, hidden);
		assert_int_equal(b.hidden_size, 0);
		assert_true(beest_view_names(read, i, &who, 4));
		assert_false(beest_view_names(read, i, &who, 5));
		assert_false(beest_view_names(read, i, &leader, 4));
	}
}

/* ------------------------------------------------------------------------- the division --- */

/* By number and size, without what is hidden.  An entry has 28 bytes and the value. */
static void views_are_divided(void **state)
{
	static const struct {
		size_t count, size, hidden, chunk_ranks, chunks;
	} rows[] = {
		{ 1, 0, 0, 0, 0 }, { 2, 0, 0, 0, 0 }, { 2, 100, 0, 0, 0 }, { 32, 0, 0, 0, 0 },
		{ 33, 0, 0, 32, 2 }, { 64, 4, 0, 32, 2 }, { 65, 4, 0, 32, 3 },
		{ 32, 228, 0, 0, 0 }, { 32, 229, 0, 32, 1 }, { 2, 4068, 0, 0, 0 },
		{ 2, 4069, 0, 7, 1 }, { 1, 8164, 0, 0, 0 }, { 1, 8165, 0, 3, 1 },
		{ 33, 996, 0, 32, 2 }, { 33, 997, 0, 31, 2 }, { 3, 16356, 0, 2, 2 },
		{ 3, 16357, 0, 1, 3 }, { 3, 32740, 0, 1, 3 }, { 3, 100000, 0, 1, 3 },
		{ 2, 0, 100000, 0, 0 }, { 33, 0, 5000, 32, 2 },
		/* The last one has the digests of the others. */
		{ 1024, 0, 0, 32, 32 }, { 1025, 0, 0, 32, 34 },
	};
	struct beest_view *made, *read;
	size_t i, k;

	(void)state;
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		ranks_are(rows[i].count);
		made = view_make(rows[i].size, rows[i].hidden);
		assert_int_equal(made->chunk_ranks, rows[i].chunk_ranks);
		assert_int_equal(beest_view_chunk_count(made), rows[i].chunks);
		read = read_begin(made);
		for (k = rows[i].chunks; k-- > 0;) {
			assert_false(beest_view_is_whole(read));
			assert_true(beest_view_lacks(read, k));
			assert_int_equal(chunk_read(read, made, k, NULL), 0);
			assert_false(beest_view_lacks(read, k));
		}
		assert_true(beest_view_is_whole(read));
		entries_are_same(made, read, rows[i].hidden);
		beest_view_free(made);
		beest_view_free(read);
	}
	beest_view_free(NULL);
}

static void chunks_in_any_order(void **state)
{
	struct beest_view *made, *read;

	(void)state;
	ranks_are(65);
	made = view_make(8, 0);
	read = read_begin(made);
	assert_int_equal(chunk_read(read, made, 2, NULL), 0);
	assert_int_equal(chunk_read(read, made, 0, NULL), 0);
	assert_false(beest_view_is_whole(read));
	assert_true(beest_view_lacks(read, 1));
	assert_int_equal(chunk_read(read, made, 0, NULL), 0);
	assert_int_equal(chunk_read(read, made, 1, NULL), 0);
	assert_true(beest_view_is_whole(read));
	entries_are_same(made, read, 0);
	beest_view_free(made);
	beest_view_free(read);
}

static void flip(uint8_t *bytes, size_t *size)
{
	bytes[*size - 1] ^= 1;
}

static void cut(uint8_t *bytes, size_t *size)
{
	(void)bytes;
	--*size;
}

/* Without digests, no chunk has a name.  They are refused as any chunk is. */
static void digests_come_first(void **state)
{
	struct beest_view *made, *read;
	size_t k;

	(void)state;
	ranks_are(1056);
	made = view_make(8, 0);
	assert_int_equal(beest_view_chunk_count(made), 34);
	read = read_begin(made);
	for (k = 0; k < 33; k++)
		assert_false(beest_view_lacks(read, k));
	assert_int_equal(chunk_read(read, made, 33, flip), -EBADMSG);
	assert_int_equal(chunk_read(read, made, 33, cut), -EBADMSG);
	assert_int_equal(chunk_read(read, made, 0, NULL), -EBADMSG);
	assert_true(beest_view_lacks(read, 33));
	assert_int_equal(chunk_read(read, made, 33, NULL), 0);
	assert_false(beest_view_lacks(read, 33));
	assert_true(beest_view_lacks(read, 32));
	beest_view_free(made);
	beest_view_free(read);
}

/* The chunk of each rank that is needed, and of its own; later, that of any other. */
static void chunks_that_are_needed(void **state)
{
	static const size_t positions[] = { 1, 5, 70, 1055 };
	const struct beest_positions needs = { positions, BEEST_COUNT(positions) };
	struct beest_view *made, *read, *again;
	size_t k, lacks = 0;

	(void)state;
	ranks_are(1056);
	made = view_make(8, 0);
	read = read_begin(made);
	assert_int_equal(beest_view_need(read, &needs, 40), 0);
	assert_int_equal(chunk_read(read, made, 33, NULL), 0);
	for (k = 0; k < 34; k++) {
		if (!beest_view_lacks(read, k))
			continue;
		assert_false(beest_view_is_whole(read));
		assert_int_equal(chunk_read(read, made, k, NULL), 0);
		lacks++;
	}
	assert_int_equal(lacks, 4);
	assert_true(beest_view_is_whole(read));
	for (k = 0; k < 1056; k++)
		assert_int_equal(beest_view_knows(read, k), k < 96 || k >= 1024);

	assert_int_equal(beest_view_begin_again(read, 100, &again), 0);
	for (k = 0; k < 34; k++)
		assert_int_equal(beest_view_lacks(again, k), k == 3);
	assert_int_equal(chunk_read(again, made, 3, NULL), 0);
	assert_true(beest_view_is_whole(again));
	assert_int_equal(beest_view_entry(again, 100).rank, ranks.id[100]);
	beest_view_free(again);
	beest_view_free(read);

	/* None but the own one. */
	read = read_begin(made);
	assert_int_equal(beest_view_need(read, &(struct beest_positions){ positions, 0 }, 40), 0);
	assert_int_equal(chunk_read(read, made, 33, NULL), 0);
	assert_int_equal(chunk_read(read, made, 1, NULL), 0);
	assert_true(beest_view_is_whole(read));
	beest_view_free(read);
	beest_view_free(made);
}

/* ------------------------------------------------------------------ what is not read --- */

static void empty(uint8_t *bytes, size_t *size)
{
	(void)bytes;
	*size = 0;
}

/* A chunk is what its digest covers. */
static void other_chunks_are_refused(void **state)
{
	static void (*const changes[])(uint8_t *bytes, size_t *size) = { flip, cut, empty };
	struct beest_view *made, *read, *other;
	size_t i;

	(void)state;
	ranks_are(64);
	made = view_make(8, 0);
	other = view_make(9, 0);
	read = read_begin(made);
	for (i = 0; i < BEEST_COUNT(changes); i++) {
		assert_int_equal(chunk_read(read, made, 0, changes[i]), -EBADMSG);
		assert_error_is("no chunk of this view has the digest of these bytes");
	}
	assert_int_equal(chunk_read(read, other, 0, NULL), -EBADMSG);
	assert_true(beest_view_lacks(read, 0));
	assert_int_equal(chunk_read(read, made, 0, NULL), 0);
	assert_int_equal(chunk_read(read, made, 1, NULL), 0);
	entries_are_same(made, read, 0);
	beest_view_free(made);
	beest_view_free(other);
	beest_view_free(read);
}

/* The digests fit, but the author of the chunks was wrong, or does not mean these ranks. */
static void chunks_of_other_ranks(void **state)
{
	struct beest_view *made, *read;

	(void)state;
	ranks_are(64);
	made = view_make(8, 0);
	read = read_begin(made);
	ranks.id[40] = 1000;
	assert_int_equal(chunk_read(read, made, 0, NULL), 0);
	assert_int_equal(chunk_read(read, made, 1, NULL), -EBADMSG);
	assert_error_is("a view has rank 81 in the place of rank 1000");
	assert_false(beest_view_is_whole(read));
	beest_view_free(made);
	beest_view_free(read);
}

/* The leader's record may have any bytes: its view is refused, and nothing is read too far. */
static void leaders_records_that_are_wrong(void **state)
{
	struct beest_view *made, *read = NULL;
	struct beest_leader_body lead;
	uint8_t *bytes, *exact;
	size_t size, whole;
	int swap;

	(void)state;
	ranks_are(3);
	made = view_make(5, 0);
	lead = lead_of(made, &bytes);
	whole = lead.chunks_size;
	for (size = 0; size < whole; size++) {
		exact = malloc(size ? size : 1);
		memcpy(exact, bytes, size);
		lead.chunks = exact;
		lead.chunks_size = size;
		assert_int_equal(beest_view_begin(&ranks, &leader, &lead, &read), -EBADMSG);
		assert_null(read);
		free(exact);
	}
	lead.chunks = bytes;
	lead.chunks_size = whole;
	swap = ranks.id[1];
	ranks.id[1] = ranks.id[2];
	ranks.id[2] = swap;
	assert_int_equal(beest_view_begin(&ranks, &leader, &lead, &read), -EBADMSG);
	assert_error_is("a view has rank 3 in the place of rank 5");
	beest_view_free(made);
	free(bytes);
}

static void chunks_that_do_not_add_up(void **state)
{
	static const struct {
		uint16_t ranks;
		uint32_t count;
	} rows[] = { { 32, 1 }, { 32, 3 }, { 31, 2 }, { 64, 3 }, { 1, 3 }, { 65535, 3 } };
	struct beest_view *read = NULL;
	const uint8_t digests[3 * 8] = { 0 };
	struct beest_leader_body lead = { .proposed = 1, .chunks = digests };
	size_t i;

	(void)state;
	ranks_are(64);
	for (i = 0; i < BEEST_COUNT(rows); i++) {
		lead.chunk_ranks = rows[i].ranks;
		lead.chunk_count = rows[i].count;
		lead.chunks_size = 8 * rows[i].count;
		assert_int_equal(beest_view_begin(&ranks, &leader, &lead, &read), -EBADMSG);
		assert_error_has("a view of 64 ranks has ");
		assert_null(read);
	}
}

/* ------------------------------------------------------------------------- its name --- */

/* Otherwise an old acknowledgement would count for the same ranks and values of a later call. */
static void no_two_views_have_the_same_id(void **state)
{
	enum { VIEWS = 1000 };
	static uint64_t ids[VIEWS];
	struct beest_view *view;
	size_t i, k;

	(void)state;
	ranks_are(2);
	for (i = 0; i < VIEWS; i++) {
		view = view_make(1, 0);
		ids[i] = view->id;
		beest_view_free(view);
		assert_int_not_equal(ids[i], 0);
		for (k = 0; k < i; k++)
			assert_true(ids[k] != ids[i]);
	}
}

/* The entry is another one than that which is there, and then the same. */
static bool is_replaced(struct beest_view *view, size_t position,
			struct beest_view_encoded encoded)
{
	const bool had = beest_view_has(view, position, &encoded);

	beest_view_set(view, position, encoded);
	return !had && beest_view_has(view, position, &encoded);
}

/* What a process keeps of a view stays as it is when ranks contribute something else. */
static void a_copy_changes_alone(void **state)
{
	struct beest_view *view, *copy;

	(void)state;
	ranks_are(40);
	view = beest_view_share(view_make(8, 3));
	copy = beest_view_copy(view);
	assert_int_equal(copy->id, 0);
	assert_true(beest_view_is_whole(copy));
	assert_true(is_replaced(copy, 7, entry_of(7, 5, 8, 0)));
	assert_int_equal(beest_view_close(copy, &leader, 9), 0);
	assert_true(copy->chunks[1] == view->chunks[1]);
	assert_int_equal(beest_view_entry(view, 7).call, 4);
	assert_int_equal(beest_view_entry(copy, 7).call, 5);
	beest_view_free(view);
	assert_int_equal(beest_view_entry(view, 8).hidden_size, 3);
	assert_int_equal(beest_view_entry(copy, 8).hidden_size, 3);
	beest_view_free(view);
	beest_view_free(copy);
}

/* A chunk whose ranks say the same again has its former name, so it need not be stored again. */
static void chunks_that_do_not_change_are_shared(void **state)
{
	struct beest_view *first, *second;

	(void)state;
	ranks_are(64);
	first = view_make(8, 0);
	second = view_open(8, 0);
	assert_true(is_replaced(second, 40, entry_of(40, 5, 8, 0)));
	assert_int_equal(beest_view_close(second, &leader, 9), 0);
	assert_true(second->chunks[0] == first->chunks[0]);
	assert_true(second->chunks[1] != first->chunks[1]);
	beest_view_free(first);
	beest_view_free(second);
}

/* What only the leader reads: a rank that changes it is counted again, but the chunks stay. */
static void what_is_hidden_is_not_in_chunks(void **state)
{
	struct beest_view *first, *second;

	(void)state;
	ranks_are(33);
	first = view_make(8, 0);
	second = view_open(8, 0);
	assert_true(is_replaced(second, 7, entry_of(7, 4, 8, 3)));
	assert_int_equal(beest_view_close(second, &leader, 9), 0);
	assert_true(second->chunks[0] == first->chunks[0]);
	assert_int_equal(beest_view_entry(second, 7).hidden_size, 3);
	beest_view_free(first);
	beest_view_free(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(views_are_divided),
		cmocka_unit_test(chunks_in_any_order),
		cmocka_unit_test(digests_come_first),
		cmocka_unit_test(chunks_that_are_needed),
		cmocka_unit_test(other_chunks_are_refused),
		cmocka_unit_test(chunks_of_other_ranks),
		cmocka_unit_test(leaders_records_that_are_wrong),
		cmocka_unit_test(chunks_that_do_not_add_up),
		cmocka_unit_test(no_two_views_have_the_same_id),
		cmocka_unit_test(a_copy_changes_alone),
		cmocka_unit_test(chunks_that_do_not_change_are_shared),
		cmocka_unit_test(what_is_hidden_is_not_in_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
