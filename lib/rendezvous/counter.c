/* SPDX-License-Identifier: MIT */
/* counter.c - see counter.h */
#include "config.h"

#include <errno.h>

#include "lib/base/error.h"
#include "lib/rendezvous/counter.h"
#include "lib/rendezvous/store.h"

/* A counter is no record, and no process restores it: it lives as long as an epoch. */
int beest_counter_add(struct beest_registry *registry, const char *name, uint32_t add,
		      uint64_t *value, const struct beest_limit *limit)
{
	char key[BEEST_KEY_MAX + 1];
	struct beest_look_extra extras[] = {
		{ .write = { .verb = BEEST_KV_ADD, .key = key, .value = "0", .size = 1,
			     .ttl = BEEST_EPOCH_TTL } },
		{ .write = { .verb = BEEST_KV_INCR, .key = key, .delta = add,
			     .answered = true } },
	};
	int ret;

	if (!add)
		return beest_fail(EINVAL, "counter '%s': nothing is added", name);
	ret = beest_registry_key(registry, BEEST_KIND_COUNTER, name, key);
	if (ret < 0)
		return ret;
	extras[0].server = extras[1].server = beest_kv_server_of(registry->kv, key);
	ret = beest_store_ask(registry, extras, BEEST_COUNT(extras), "to be added to", limit);
	if (ret == -ENOENT)
		return beest_fail(ENOBUFS, "server %s did not store counter '%s' (key %s)",
				  beest_kv_text(registry->kv, extras[0].server), name, key);
	if (ret == 0)
		*value = extras[1].write.number;

	return ret;
}
