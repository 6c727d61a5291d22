/* SPDX-License-Identifier: MIT */
/* reader.c - see reader.h */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "bench/reader.h"
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/rendezvous/fence.h"
#include "lib/rendezvous/look.h"

/* So many chunks are fetched in one look at most, as by a rank. */
#define CHUNKS_MOST 64

static void chunk_key(const struct reader *reader, const struct beest_view *view, size_t k,
		      char key[BEEST_KEY_MAX + 1])
{
	const struct beest_fence_look look = { .call = reader->call };

	if (beest_fence_chunk_key(&look, view, k, key) < 0)
		abort();
}

static void view_begin(struct reader *reader, const struct beest_view *view)
{
	const size_t count = beest_view_chunk_count(view);
	size_t k;

	reader_end(reader);
	reader->files = (struct beest_nodefiles){
		.author = beest_registry_incarnation(reader->call->registry),
		.swept = &reader->call->registry->swept,
	};
	reader->view = view->id;
	reader->read = calloc(count, sizeof(*reader->read));
	if (!reader->read)
		abort();
	/* What the fence has read itself: the digests and its own chunk. */
	for (k = 0; k < count; k++)
		reader->read[k] = (view->index && k + 1 == count) || (view->needed &&
								      view->needed[k]);
	for (k = 0; k < count; k++)
		reader->left += !reader->read[k];
}

/* Takes the contents, which have the digest. */
static void chunk_take(struct reader *reader, const struct beest_view *view, size_t k,
		       uint8_t *bytes, size_t size, bool store)
{
	struct beest_registry *registry = reader->call->registry;
	char key[BEEST_KEY_MAX + 1];
	struct beest_record record;

	chunk_key(reader, view, k, key);
	if (store)
		beest_nodefiles_store(&reader->files, key, bytes, size);
	if (beest_record_decode(registry->seal, bytes, size, BEEST_KIND_CHUNK, key, &record) < 0 ||
	    beest_hash_fnv(BEEST_HASH_FNV, record.body, record.size) != beest_view_digest(view, k))
		abort();
	reader->read[k] = true;
	reader->left--;
}

static void wants_fetch(struct reader *reader, const struct beest_view *view,
			struct beest_look_want *wants, const size_t *which, size_t count)
{
	struct beest_look look = {
		.wants = wants, .count = count,
		.deadline = beest_limit_look(reader->call->limit),
	};
	size_t i;

	if (count == 0 || beest_look_take(reader->call->registry, &look) < 0)
		return;
	for (i = 0; i < count; i++)
		if (wants[i].value.bytes)
			chunk_take(reader, view, which[i], wants[i].value.bytes,
				   wants[i].value.size, true);
	beest_look_free(wants, count);
}

int reader_take(struct reader *reader, const struct beest_view *view)
{
	const size_t count = beest_view_chunk_count(view);
	static char keys[CHUNKS_MOST][BEEST_KEY_MAX + 1];
	struct beest_look_want wants[CHUNKS_MOST] = { { .key = NULL } };
	size_t which[CHUNKS_MOST], i, k, used = 0, size;
	enum beest_nodefile found;
	uint8_t *bytes = NULL;

	if (reader->view != view->id)
		view_begin(reader, view);
	beest_nodefiles_root = reader->node;
	for (i = 0; i < count && used < CHUNKS_MOST && reader->left; i++) {
		k = (i + (size_t)reader->call->rank) % count;
		if (reader->read[k])
			continue;
		chunk_key(reader, view, k, keys[used]);
		found = beest_nodefiles_look(&reader->files, keys[used], &bytes, &size);
		if (found == BEEST_NODEFILE_THERE) {
			chunk_take(reader, view, k, bytes, size, false);
			free(bytes);
		}
		if (found != BEEST_NODEFILE_OWN)
			continue;
		wants[used].key = keys[used];
		wants[used].server = beest_kv_server_of(reader->call->registry->kv, keys[used]);
		which[used++] = k;
	}
	wants_fetch(reader, view, wants, which, used);
	beest_nodefiles_rest(&reader->files);
	if (reader->left && !used)
		beest_clock_sleep(beest_clock_deadline(BEEST_MS));

	return reader->left ? -EAGAIN : 0;
}

void reader_end(struct reader *reader)
{
	if (reader->files.author)
		beest_nodefiles_end(&reader->files);
	free(reader->read);
	reader->read = NULL;
	reader->left = 0;
	reader->view = 0;
}
