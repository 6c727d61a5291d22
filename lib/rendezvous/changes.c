/* SPDX-License-Identifier: MIT */
/* changes.c - see changes.h */
#include "config.h"

#include <endian.h>
#include <stdlib.h>

#include "lib/rendezvous/changes.h"

#define DIGEST_SIZE sizeof(uint64_t)
#define POSITION_SIZE sizeof(uint32_t)

/* The former roll that the first such rank names in its record; 0: there is none. */
static uint64_t former_find(const struct beest_gathering *g)
{
	size_t i;

	for (i = 0; i < g->count; i++)
		if (g->all[i].body.name)
			return g->all[i].body.name;

	return 0;
}

static void change_add(struct beest_changes *changes, size_t i, const uint8_t *mark, size_t size)
{
	const uint32_t position = htobe32((uint32_t)i);

	memcpy(changes->bytes + changes->size, &position, POSITION_SIZE);
	memcpy(changes->bytes + changes->size + POSITION_SIZE, mark, size);
	changes->size += POSITION_SIZE + size;
}

void beest_changes_tell(const struct beest_gathering *g, const uint8_t *marks,
			struct beest_changes *changes)
{
	const uint64_t former = g->call->blob ? former_find(g) : 0, wire = htobe64(former);
	const size_t size = beest_gather_mark_size(g->call);
	size_t i;

	changes->size = former ? DIGEST_SIZE : 0;
	memcpy(changes->bytes, &wire, DIGEST_SIZE);
	for (i = 0; i < g->count && changes->size; i++) {
		if (g->all[i].body.name == former)
			continue;
		if (changes->size + POSITION_SIZE + size > sizeof(changes->bytes))
			changes->size = 0;
		else
			change_add(changes, i, marks + i * size, size);
	}
}

/* Are @marks those of the new roll now? */
static bool changes_apply(const struct beest_gathering *g, const uint8_t *change,
			  const uint8_t *end, uint8_t *marks)
{
	const size_t size = beest_gather_mark_size(g->call);
	uint32_t position;

	for (; change < end; change += POSITION_SIZE + size) {
		if ((size_t)(end - change) < POSITION_SIZE + size)
			return false;
		memcpy(&position, change, POSITION_SIZE);
		position = be32toh(position);
		/* A change of this rank itself comes from its record of before this call. */
		if (position >= g->count || position == g->own)
			return false;
		memcpy(beest_mark_at(g, marks, position), change + POSITION_SIZE, size);
	}

	return true;
}

void beest_changes_take(struct beest_gathering *g, const struct beest_record *record)
{
	const uint8_t *changes = record->body + BEEST_BARRIER_SIZE;
	const size_t size = g->count * beest_gather_mark_size(g->call);
	const uint64_t former = g->call->blob ? htobe64(g->body.name) : 0;
	uint8_t *marks;

	/* With direct reading, gates tell no changes. */
	if (beest_gathering_is_direct(g) || !former || g->gate.roll == g->kept_roll ||
	    record->size < BEEST_BARRIER_SIZE + DIGEST_SIZE ||
	    memcmp(changes, &former, DIGEST_SIZE) != 0)
		return;
	marks = malloc(size);
	if (!marks)
		return;
	memcpy(marks, g->call->marks, size);
	if (changes_apply(g, changes + DIGEST_SIZE, record->body + record->size, marks))
		beest_gathering_keep(g, marks, g->gate.roll);
	else
		free(marks);
}
