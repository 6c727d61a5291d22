/* SPDX-License-Identifier: MIT */
/* view.c - see view.h */
#include "config.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/random.h"
#include "lib/rendezvous/view.h"

/*
 * A view of few ranks rides in the leader's record, which saves a round trip: but all read that
 * record until the fence is over.
 */
#define WHOLE_RANKS 32
#define WHOLE_SIZE 8192

/* A chunk has so many ranks and bytes at most, or one rank. */
#define CHUNK_RANKS 32
#define CHUNK_SIZE 32768

void beest_view_free(struct beest_view *view)
{
	size_t i;

	if (!view || __atomic_fetch_sub(&view->owners, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	for (i = 0; i < view->count; i++)
		free(view->entries[i].bytes);
	free(view->needed);
	free(view->chunks);
	free(view->entries);
	free(view);
}

struct beest_view *beest_view_share(struct beest_view *view)
{
	__atomic_fetch_add(&view->owners, 1, __ATOMIC_RELAXED);

	return view;
}

struct beest_view *beest_view_new(size_t count)
{
	struct beest_view *view = calloc(1, sizeof(*view));

	if (view)
		view->entries = calloc(count, sizeof(*view->entries));
	if (view && view->entries) {
		view->count = count;
		return view;
	}
	beest_view_free(view);
	beest_fail(ENOMEM, "no memory for what %zu ranks contribute", count);

	return NULL;
}

static uint8_t *bytes_copy(const void *bytes, size_t size)
{
	uint8_t *copy = malloc(size);

	if (copy)
		memcpy(copy, bytes, size);
	else
		beest_fail(ENOMEM, "no memory for %zu bytes", size);

	return copy;
}

/* Copies the encoded entry at @bytes. */
static int entry_keep(struct beest_view *view, size_t position, const uint8_t *bytes, size_t size)
{
	struct beest_view_encoded encoded = { .bytes = bytes_copy(bytes, size), .size = size };

	if (!encoded.bytes)
		return -ENOMEM;
	beest_view_set(view, position, encoded);

	return 0;
}

struct beest_view *beest_view_copy(const struct beest_view *view)
{
	struct beest_view *copy = beest_view_new(view->count);
	size_t i;
	int ret = copy ? 0 : -ENOMEM;

	for (i = 0; i < view->count && ret == 0; i++)
		if (view->entries[i].bytes)
			ret = entry_keep(copy, i, view->entries[i].bytes, view->entries[i].size);
	if (ret == 0)
		return copy;
	beest_view_free(copy);

	return NULL;
}

bool beest_view_has(const struct beest_view *view, size_t position,
		    const struct beest_view_encoded *encoded)
{
	const struct beest_view_encoded *own = &view->entries[position];

	return own->bytes && own->size == encoded->size &&
	       memcmp(own->bytes, encoded->bytes, encoded->size) == 0;
}

void beest_view_set(struct beest_view *view, size_t position, struct beest_view_encoded encoded)
{
	free(view->entries[position].bytes);
	view->entries[position] = encoded;
}

struct beest_fence_entry beest_view_entry(const struct beest_view *view, size_t position)
{
	const struct beest_view_encoded *encoded = &view->entries[position];
	struct beest_fence_entry entry;

	beest_record_entry_decode(encoded->bytes, encoded->size, &entry);
	entry.hidden = entry.value + entry.size;
	entry.hidden_size = encoded->size - BEEST_FENCE_ENTRY - entry.size;

	return entry;
}

bool beest_view_names(const struct beest_view *view, size_t position,
		      const struct beest_incarnation *incarnation, uint32_t call)
{
	const struct beest_fence_entry entry = beest_view_entry(view, position);

	return beest_process_is_context(&entry.incarnation, incarnation) && entry.call == call;
}

static bool is_needed(const struct beest_view *view, size_t position)
{
	return !view->needed || view->needed[position / view->chunk_ranks];
}

bool beest_view_is_whole(const struct beest_view *view)
{
	size_t i = 0;

	while (i < view->count && (beest_view_knows(view, i) || !is_needed(view, i)))
		i++;

	return i == view->count;
}

/* ------------------------------------------------------------------------- chunks --- */

/* The entry without what is hidden. */
static size_t shown_size(const struct beest_view *view, size_t position)
{
	return BEEST_FENCE_ENTRY + beest_view_entry(view, position).size;
}

static size_t chunk_begin(const struct beest_view *view, size_t k)
{
	return BEEST_MIN(k * view->chunk_ranks, view->count);
}

static size_t chunk_end(const struct beest_view *view, size_t k)
{
	return view->chunk_ranks ? chunk_begin(view, k + 1) : view->count;
}

/* Without that of digests. */
static size_t part_count(const struct beest_view *view)
{
	return view->chunk_ranks ? (view->count + view->chunk_ranks - 1) / view->chunk_ranks : 0;
}

size_t beest_view_chunk_count(const struct beest_view *view)
{
	return part_count(view) + (view->index != 0);
}

uint64_t beest_view_digest(const struct beest_view *view, size_t k)
{
	return be64toh(k == part_count(view) ? view->index : view->chunks[k]);
}

/* As it is stored. */
static uint64_t digest_stored(const void *bytes, size_t size)
{
	return htobe64(beest_hash_fnv(BEEST_HASH_FNV, bytes, size));
}

static size_t digests_size(const struct beest_view *view)
{
	return part_count(view) * sizeof(*view->chunks);
}

uint8_t *beest_view_encode(const struct beest_view *view, size_t k, size_t *size)
{
	uint8_t *bytes;
	size_t i;

	if (view->chunk_ranks && k == part_count(view)) {
		*size = digests_size(view);
		return bytes_copy(view->chunks, *size);
	}
	*size = 0;
	for (i = chunk_begin(view, k); i < chunk_end(view, k); i++)
		*size += shown_size(view, i);
	bytes = malloc(*size);
	if (!bytes)
		beest_fail(ENOMEM, "no memory for what %zu ranks contribute", view->count);
	*size = 0;
	for (i = chunk_begin(view, k); i < chunk_end(view, k) && bytes; i++) {
		memcpy(bytes + *size, view->entries[i].bytes, shown_size(view, i));
		*size += shown_size(view, i);
	}

	return bytes;
}

static int digests_make(struct beest_view *view)
{
	const size_t count = part_count(view);
	uint8_t *bytes;
	size_t k, size;

	view->chunks = calloc(count, sizeof(*view->chunks));
	if (!view->chunks)
		return beest_fail(ENOMEM, "no memory for %zu chunks", count);
	for (k = 0; k < count; k++) {
		bytes = beest_view_encode(view, k, &size);
		if (!bytes)
			return -ENOMEM;
		view->chunks[k] = digest_stored(bytes, size);
		free(bytes);
	}
	if (count > BEEST_FENCE_DIGESTS)
		view->index = digest_stored(view->chunks, digests_size(view));

	return 0;
}

/* The same ranks have the same chunks, whatever else changes: most can be shared with the last. */
int beest_view_close(struct beest_view *view, const struct beest_incarnation *leader,
		     uint32_t call)
{
	size_t i, sum = 0, most = 1;
	int ret = 0;

	for (i = 0; i < view->count; i++) {
		sum += shown_size(view, i);
		most = BEEST_MAX(most, shown_size(view, i));
	}
	if (view->count > WHOLE_RANKS || sum > WHOLE_SIZE) {
		view->chunk_ranks = BEEST_MAX(BEEST_MIN(CHUNK_RANKS, CHUNK_SIZE / most), 1);
		ret = digests_make(view);
	}
	view->leader = *leader;
	view->call = call;
	while (ret == 0 && !view->id)
		ret = beest_random(&view->id, sizeof(view->id));

	return ret;
}

uint8_t *beest_view_describe(const struct beest_view *view, struct beest_leader_body *lead)
{
	uint8_t *bytes;

	lead->proposed = view->id;
	lead->chunk_ranks = (uint16_t)view->chunk_ranks;
	lead->chunk_count = (uint32_t)part_count(view);
	lead->chunks_size = view->index ? sizeof(view->index) : digests_size(view);
	if (view->chunk_ranks)
		bytes = bytes_copy(view->index ? &view->index : view->chunks, lead->chunks_size);
	else
		bytes = beest_view_encode(view, 0, &lead->chunks_size);
	lead->chunks = bytes;

	return bytes;
}

/* ------------------------------------------------------------------------ to read --- */

static int digests_read(struct beest_view *view, const void *bytes, size_t size)
{
	if (size != digests_size(view))
		return beest_fail(EBADMSG, "%zu bytes are no %zu digests", size, part_count(view));
	free(view->chunks);
	view->chunks = (uint64_t *)bytes_copy(bytes, size);

	return view->chunks ? 0 : -ENOMEM;
}

/* Its entries must be those of its ranks, in their order. */
static int entry_take(struct beest_view *view, const struct beest_ids *ranks, size_t position,
		      const uint8_t *bytes, size_t size)
{
	struct beest_fence_entry entry;
	int kept, ret = beest_record_entry_decode(bytes, size, &entry);

	if (ret < 0)
		return ret;
	if (entry.rank != (uint32_t)ranks->id[position])
		return beest_fail(EBADMSG, "a view has rank %d in the place of rank %d",
				  (int)entry.rank, ranks->id[position]);
	kept = entry_keep(view, position, bytes, (size_t)ret);

	return kept < 0 ? kept : ret;
}

static int entries_read(struct beest_view *view, const struct beest_ids *ranks, size_t k,
			const uint8_t *bytes, size_t size)
{
	size_t i, at = 0;
	int ret;

	for (i = chunk_begin(view, k); i < chunk_end(view, k); i++) {
		ret = entry_take(view, ranks, i, bytes + at, size - at);
		if (ret < 0)
			return ret;
		at += (size_t)ret;
	}

	return 0;
}

int beest_view_begin(const struct beest_ids *ranks, const struct beest_incarnation *leader,
		     const struct beest_leader_body *lead, struct beest_view **viewp)
{
	struct beest_view *view = beest_view_new(ranks->count);
	int ret = view ? 0 : -ENOMEM;

	if (ret < 0)
		return ret;
	view->id = lead->proposed;
	view->leader = *leader;
	view->call = lead->call;
	view->chunk_ranks = lead->chunk_count ? lead->chunk_ranks : 0;
	if (part_count(view) != lead->chunk_count) {
		ret = beest_fail(EBADMSG, "a view of %zu ranks has %d chunks of %d", ranks->count,
				 (int)lead->chunk_count, lead->chunk_ranks);
	} else if (!lead->chunk_count) {
		ret = entries_read(view, ranks, 0, lead->chunks, lead->chunks_size);
	} else if (lead->chunk_count <= BEEST_FENCE_DIGESTS) {
		ret = digests_read(view, lead->chunks, digests_size(view));
	} else {
		memcpy(&view->index, lead->chunks, sizeof(view->index));
	}
	if (ret < 0)
		beest_view_free(view);
	else
		*viewp = view;

	return ret;
}

int beest_view_need(struct beest_view *view, const struct beest_positions *needs, size_t own)
{
	size_t i;

	if (!view->chunk_ranks || !needs->position)
		return 0;
	view->needed = calloc(part_count(view), sizeof(*view->needed));
	if (!view->needed)
		return beest_fail(ENOMEM, "no memory for %zu chunks", part_count(view));
	view->needed[own / view->chunk_ranks] = true;
	for (i = 0; i < needs->count; i++)
		view->needed[needs->position[i] / view->chunk_ranks] = true;

	return 0;
}

int beest_view_begin_again(const struct beest_view *known, size_t position,
			   struct beest_view **viewp)
{
	const struct beest_positions only = { &position, 1 };
	struct beest_view *view = beest_view_new(known->count);
	int ret = view ? 0 : -ENOMEM;

	if (ret < 0)
		return ret;
	view->chunk_ranks = known->chunk_ranks;
	ret = digests_read(view, known->chunks, digests_size(known));
	if (ret == 0)
		ret = beest_view_need(view, &only, position);
	if (ret < 0)
		beest_view_free(view);
	else
		*viewp = view;

	return ret;
}

/* beest_view_chunk_count(): no chunk has these bytes. */
static size_t chunk_find(const struct beest_view *view, const uint8_t *bytes, size_t size)
{
	const uint64_t digest = beest_hash_fnv(BEEST_HASH_FNV, bytes, size);
	const size_t count = beest_view_chunk_count(view);
	size_t k = view->chunks ? 0 : part_count(view);

	while (k < count && beest_view_digest(view, k) != digest)
		k++;

	return k;
}

int beest_view_read(struct beest_view *view, const struct beest_ids *ranks, const uint8_t *bytes,
		    size_t size)
{
	const size_t k = chunk_find(view, bytes, size);
	int ret;

	if (k == beest_view_chunk_count(view))
		return beest_fail(EBADMSG, "no chunk of this view has the digest of these bytes");
	ret = k == part_count(view) ? digests_read(view, bytes, size) :
	      entries_read(view, ranks, k, bytes, size);

	return ret < 0 ? ret : (int)k;
}

bool beest_view_lacks(const struct beest_view *view, size_t k)
{
	if (k == part_count(view) || !view->chunks)
		return k == part_count(view) && !view->chunks;

	return (!view->needed || view->needed[k]) &&
	       !beest_view_knows(view, chunk_end(view, k) - 1);
}
