/* SPDX-License-Identifier: MIT */
/*
 * choice.c - which server of the list holds a key
 *
 * A key belongs to the server with the highest mix64(fnv1a64(server text) ^
 * fnv1a64(key)); at a tie the greater text wins.  Every implementation that shares
 * keys with this one must choose the same way.
 */
#include "config.h"

#include <string.h>

#include "lib/base/hash.h"
#include "lib/kv/choice.h"

/* The finalizer of splitmix64: each input bit changes half of the output bits. */
static uint64_t mix64(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);

	return x ^ x >> 31;
}

void beest_choice_set(struct beest_choice *server, const char *text)
{
	server->text = text;
	server->hash = beest_hash_text(text);
}

size_t beest_choice_of(const struct beest_choice *servers, size_t count, const char *key)
{
	uint64_t hash, most = 0, score;
	size_t i, best = 0;

	if (count == 1)
		return 0;

	hash = beest_hash_text(key);
	for (i = 0; i < count; i++) {
		score = mix64(servers[i].hash ^ hash);
		if (i && (score < most || (score == most &&
					   strcmp(servers[i].text, servers[best].text) <= 0)))
			continue;
		most = score;
		best = i;
	}

	return best;
}

uint64_t beest_choice_digest(const struct beest_choice *servers, size_t count)
{
	uint64_t sum = count;
	size_t i;

	for (i = 0; i < count && count > 1; i++)
		sum += mix64(servers[i].hash);

	return mix64(sum);
}
