/* SPDX-License-Identifier: MIT */
/* list.c - see list.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/rendezvous/list.h"

int beest_list_start(struct beest_list *list, struct beest_registry *registry,
		     enum beest_record_kind kind, const char *name)
{
	static const enum beest_kv_verb verbs[] = { BEEST_KV_ADD, BEEST_KV_APPEND };
	size_t i;
	int ret;

	memset(list, 0, sizeof(*list));
	list->registry = registry;
	list->kind = kind;
	ret = beest_registry_key(registry, kind, name, list->key);
	if (ret < 0)
		return ret;

	list->server = beest_kv_server_of(registry->kv, list->key);
	for (i = 0; i < BEEST_LIST_WRITES; i++)
		list->extras[i] = (struct beest_look_extra){
			.server = list->server,
			.write = {
				.verb = verbs[i], .key = list->key,
				.ttl = beest_lease_ttl(registry->leases),
			},
			.done = true,
		};

	return 0;
}

void beest_list_end(struct beest_list *list)
{
	free(list->entries);
	list->entries = NULL;
}

/* --------------------------------------------------------------------- appending --- */

int beest_list_encode(const struct beest_list *list, const void *body, size_t size,
		      uint8_t bytes[BEEST_ENTRY_MAX])
{
	const struct beest_record record = {
		.kind = list->kind,
		.incarnation = list->registry->presence.incarnation,
		.rank = list->registry->presence.rank,
		.body = body,
		.size = size,
	};

	return beest_entry_encode(list->registry->seal, &record, list->key, bytes);
}

bool beest_list_is_appending(const struct beest_list *list)
{
	return !list->extras[BEEST_LIST_WRITES - 1].done;
}

int beest_list_append(struct beest_list *list, const void *body, size_t size)
{
	uint8_t entry[BEEST_ENTRY_MAX], *entries;
	size_t previous = beest_list_is_appending(list) ? list->entries_size : 0;
	int ret = beest_registry_announce(list->registry);

	if (ret == 0)
		ret = beest_list_encode(list, body, size, entry);
	if (ret < 0)
		return ret;
	entries = realloc(list->entries, previous + (size_t)ret);
	if (!entries)
		return beest_fail(ENOMEM, "no memory for an entry of %d bytes", ret);

	memcpy(entries + previous, entry, (size_t)ret);
	list->entries = entries;
	list->entries_size = previous + (size_t)ret;
	list->extras[0].done = list->extras[1].done = false;
	list->extras[1].write.value = entries;
	list->extras[1].write.size = list->entries_size;

	return 0;
}

bool beest_list_is_refused(struct beest_list *list, const struct beest_kv_value *value)
{
	size_t size = list->entries_size;

	if (beest_list_is_appending(list))
		return false;
	list->entries_size = 0;

	return size && value->size && !memmem(value->bytes, value->size, list->entries, size);
}

void beest_list_offer(struct beest_list *list)
{
	if (beest_list_is_appending(list))
		beest_look_offer(list->registry, &list->extras[1], BEEST_LOOK_IDLE);
	list->extras[0].done = true;
}

void beest_list_read(const struct beest_list *list, const struct beest_kv_value *value,
		     struct beest_entry_reader *reader)
{
	beest_entry_read(reader, list->registry->seal, list->kind, list->key, value->bytes,
			 value->bytes ? value->size : 0);
}

/* --------------------------------------------------------------------- replacing --- */

int beest_list_fetch(struct beest_list *list, struct beest_kv_value *value)
{
	struct beest_look_want want = { .key = list->key, .server = list->server };
	struct beest_look look = {
		.wants = &want, .count = 1, .flags = BEEST_LOOK_UNIQUES,
		.deadline = beest_look_brief(list->registry, list->server),
	};
	int ret = beest_look_take(list->registry, &look);

	if (ret < 0)
		beest_look_free(&want, 1);
	*value = want.value;

	return ret;
}

int beest_list_replace(struct beest_list *list, uint64_t unique, const void *bytes, size_t size)
{
	struct beest_look_extra extra = {
		.server = list->server,
		.write = {
			.verb = BEEST_KV_CAS, .key = list->key, .value = bytes, .size = size,
			.ttl = beest_lease_ttl(list->registry->leases), .unique = unique,
			.answered = true,
		},
	};
	struct beest_look look = {
		.extras = &extra, .extra_count = 1,
		.deadline = beest_look_brief(list->registry, list->server),
	};
	int ret;

	/* A request that cannot be sent would count as a failure of the server. */
	if (size > BEEST_VALUE_MAX)
		return -EMSGSIZE;
	ret = beest_look_take(list->registry, &look);

	return ret < 0 ? ret : extra.write.ret;
}
