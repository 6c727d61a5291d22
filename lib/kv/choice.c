/* SPDX-License-Identifier: MIT */
/*
 * choice.c - which server of the list holds a key
 *
 * A key belongs to the server with the highest mix64(fnv1a64(server text) ^
 * fnv1a64(key)), the greater text at a tie.  Every implementation that shares keys
 * with this one must choose alike.
 */
#include "config.h"

#include <stdbool.h>
#include <string.h>

#include "lib/kv/choice.h"

static uint64_t fnv1a64(const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *text; text++)
		hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);

	return hash;
}

/* The finalizer of splitmix64: every bit in changes half of the bits out. */
static uint64_t mix64(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);

	return x ^ x >> 31;
}

static bool outranks(const struct beest_choice *a, const struct beest_choice *b, uint64_t key)
{
	uint64_t score_a = mix64(a->hash ^ key);
	uint64_t score_b = mix64(b->hash ^ key);

	if (score_a != score_b)
		return score_a > score_b;

	return strcmp(a->text, b->text) > 0;
}

void beest_choice_set(struct beest_choice *server, const char *text)
{
	server->text = text;
	server->hash = fnv1a64(text);
}

size_t beest_choice_of(const struct beest_choice *servers, size_t count, const char *key)
{
	uint64_t hash = fnv1a64(key);
	size_t i, best = 0;

	for (i = 1; i < count; i++)
		if (outranks(&servers[i], &servers[best], hash))
			best = i;

	return best;
}

uint64_t beest_choice_digest(const struct beest_choice *servers, size_t count)
{
	uint64_t sum = count;
	size_t i;

	for (i = 0; i < count; i++)
		sum += mix64(servers[i].hash);

	return mix64(sum);
}
