/* SPDX-License-Identifier: MIT */
/* chunks.c - see chunks.h */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/rendezvous/chunks.h"

/*
 * The first and the last pause, each twice the one before, in which a rank waits for what other
 * processes of its host fetch.  Then it looks at the leader's record again.
 */
#define FILE_PAUSE BEEST_MS
#define FILE_PAUSE_MAX (8 * BEEST_MS)

static bool chunk_is_there(struct beest_fence_look *look, const char *key, uint8_t *bytes,
			   size_t size)
{
	struct beest_record record;

	return beest_record_decode(look->call->registry->seal, bytes, size, BEEST_KIND_CHUNK, key,
				   &record) == 0 &&
	       beest_view_read(look->fence->next, look->call->ranks, record.body,
			       record.size) >= 0;
}

/* What is there and wrong is fetched. */
static enum beest_nodefile chunk_look(struct beest_fence_look *look, const char *key)
{
	uint8_t *bytes = NULL;
	size_t size;
	enum beest_nodefile found = beest_nodefiles_look(&look->files, key, &bytes, &size);

	if (found == BEEST_NODEFILE_THERE && !chunk_is_there(look, key, bytes, size))
		found = BEEST_NODEFILE_OWN;
	free(bytes);

	return found;
}

/* Another author seals it again; its contents are known by their digest. */
static void chunk_store(struct beest_fence_look *look, const char *key,
			const struct beest_record *seen)
{
	struct beest_registry *registry = look->call->registry;
	const struct beest_record record = {
		.kind = BEEST_KIND_CHUNK, .incarnation = *beest_registry_incarnation(registry),
		.rank = look->call->rank, .body = seen->body, .size = seen->size,
	};
	const size_t room = beest_record_overhead(registry->seal) + seen->size;
	uint8_t *bytes = beest_nodefiles_made(&look->files, key) ? malloc(room) : NULL;
	int size = bytes ? beest_record_encode(registry->seal, &record, key, bytes, room) : -1;

	if (size > 0)
		beest_nodefiles_store(&look->files, key, bytes, (size_t)size);
	beest_nodefiles_rest(&look->files);
	free(bytes);
}

static int chunk_see(void *data, const struct beest_record *record)
{
	struct beest_fence_look *look = data;
	char key[BEEST_KEY_MAX + 1];
	int k = look->fence->next ? beest_view_read(look->fence->next, look->call->ranks,
						    record->body, record->size) : -ENOENT;

	if (k < 0)
		return 0;
	look->wait.hurry = true;	/* for those that remain */
	if (beest_fence_chunk_key(look, look->fence->next, (size_t)k, key) == 0)
		chunk_store(look, key, record);

	return 1;
}

void beest_chunks_start(struct beest_fence_look *look, size_t first)
{
	size_t i;

	look->files.author = beest_registry_incarnation(look->call->registry);
	look->files.swept = &look->call->registry->swept;
	for (i = first; i < look->wait.most; i++) {
		look->wait.gets[i] = look->wait.gets[0];
		look->wait.gets[i].kind = BEEST_KIND_CHUNK;
		look->wait.gets[i].see = chunk_see;
		look->wait.gets[i].key = look->keys[i];
	}
}

/* SIZE_MAX, or the first chunk of those lacking, if other processes of this host fetch them all. */
static size_t chunks_look(struct beest_fence_look *look, size_t first)
{
	const struct beest_view *view = look->fence->next;
	const size_t count = view && !view->taken ? beest_view_chunk_count(view) : 0;
	struct beest_wait *wait = &look->wait;
	size_t i, k, awaited = SIZE_MAX;
	enum beest_nodefile found;
	char *key;

	wait->count = first;
	for (i = 0; i < count && wait->count < wait->most; i++) {
		k = (i + look->own) % count;	/* each process begins with another one */
		if (!beest_view_lacks(view, k))
			continue;
		key = look->keys[wait->count];
		if (beest_fence_chunk_key(look, view, k, key) < 0)
			return SIZE_MAX;
		found = chunk_look(look, key);
		if (found == BEEST_NODEFILE_AWAITED && awaited == SIZE_MAX)
			awaited = k;
		if (found != BEEST_NODEFILE_OWN)
			continue;
		wait->gets[wait->count].server = wait->gets[0].server;
		wait->gets[wait->count++].got = false;
	}

	return wait->count == first ? awaited : SIZE_MAX;
}

static bool is_awaited(struct beest_fence_look *look, size_t k)
{
	char key[BEEST_KEY_MAX + 1];

	return beest_fence_chunk_key(look, look->fence->next, k, key) == 0 &&
	       chunk_look(look, key) == BEEST_NODEFILE_AWAITED;
}

/*
 * Looks for one file after each pause: many processes that look for all would delay its maker.  A
 * call of one look does not wait; the next one finds the file.
 */
void beest_chunks_want(struct beest_fence_look *look, size_t first)
{
	int64_t pause = FILE_PAUSE;
	size_t k = chunks_look(look, first);

	while (k != SIZE_MAX && pause <= FILE_PAUSE_MAX && !look->call->limit->once &&
	       beest_limit_check(look->call->limit) == 0) {
		beest_clock_sleep(beest_clock_deadline(pause));
		pause *= 2;
		if (!is_awaited(look, k))
			k = chunks_look(look, first);
	}
	beest_nodefiles_rest(&look->files);
}
