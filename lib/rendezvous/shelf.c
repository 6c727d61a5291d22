/* SPDX-License-Identifier: MIT */
/*
 * shelf.c - see shelf.h
 *
 * A list for walking, and chains through it for finding: the full mesh of a thousand
 * ranks has some thousand records in each.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/hash.h"
#include "lib/rendezvous/shelf.h"

#define ROOM_MIN 16
#define NONE SIZE_MAX

static uint32_t hash_of(const char *key)
{
	return beest_hash_crc32(key, strlen(key));
}

static size_t *chain_of(const struct beest_shelf *shelf, uint32_t hash)
{
	return &shelf->chains[hash & (shelf->room - 1)];
}

static void link_in(struct beest_shelf *shelf, size_t i)
{
	size_t *chain = chain_of(shelf, shelf->list[i].hash);

	shelf->list[i].next = *chain;
	*chain = i;
}

static void unlink_from(struct beest_shelf *shelf, size_t i)
{
	size_t *at = chain_of(shelf, shelf->list[i].hash);

	while (*at != i)
		at = &shelf->list[*at].next;
	*at = shelf->list[i].next;
}

static bool grow(struct beest_shelf *shelf)
{
	size_t room = shelf->room ? 2 * shelf->room : ROOM_MIN, i;
	size_t *chains = malloc(room * sizeof(*chains));
	struct beest_own *list = NULL;

	if (chains)
		list = realloc(shelf->list, room * sizeof(*list));
	if (!list) {
		free(chains);
		return false;
	}
	free(shelf->chains);
	shelf->list = list;
	shelf->chains = chains;
	shelf->room = room;
	for (i = 0; i < room; i++)
		chains[i] = NONE;
	for (i = 0; i < shelf->count; i++)
		link_in(shelf, i);

	return true;
}

void beest_shelf_clear(struct beest_shelf *shelf)
{
	size_t i;

	for (i = 0; i < shelf->count; i++)
		free(shelf->list[i].bytes);
	free(shelf->list);
	free(shelf->chains);
	memset(shelf, 0, sizeof(*shelf));
}

struct beest_own *beest_shelf_find(const struct beest_shelf *shelf, const char *key)
{
	uint32_t hash = hash_of(key);
	struct beest_own *own;
	size_t i;

	if (!shelf->count)
		return NULL;
	for (i = *chain_of(shelf, hash); i != NONE; i = own->next) {
		own = &shelf->list[i];
		if (own->hash == hash && !strcmp(own->key, key))
			return own;
	}

	return NULL;
}

struct beest_own *beest_shelf_add(struct beest_shelf *shelf, const char *key)
{
	struct beest_own *own;

	if (shelf->count == shelf->room && !grow(shelf))
		return NULL;

	own = &shelf->list[shelf->count];
	memset(own, 0, sizeof(*own));
	strcpy(own->key, key);
	own->hash = hash_of(key);
	link_in(shelf, shelf->count++);

	return own;
}

uint8_t *beest_shelf_take(struct beest_shelf *shelf, struct beest_own *own)
{
	size_t i = (size_t)(own - shelf->list), last = shelf->count - 1;
	uint8_t *bytes = own->bytes;

	unlink_from(shelf, i);
	if (i != last) {
		unlink_from(shelf, last);
		*own = shelf->list[last];
		link_in(shelf, i);
	}
	shelf->count--;

	return bytes;
}
