/* SPDX-License-Identifier: MIT */
/* message.c - see message.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/rendezvous/message.h"
#include "lib/rendezvous/wait.h"

int beest_message_push(struct beest_registry *registry, const char *name, const void *data,
		       size_t size, const struct beest_limit *limit)
{
	char key[BEEST_KEY_MAX + 1];
	uint64_t serial = 0;
	struct beest_registry_record record = {
		.kind = BEEST_KIND_MESSAGE, .key = key, .body = data, .size = size,
		.serial = &serial,
	};
	int ret;

	if (size > BEEST_MESSAGE_MAX)
		return beest_fail(EMSGSIZE, "message '%s' has %zu bytes; at most %d fit into a "
				  "Memcached value", name, size, BEEST_MESSAGE_MAX);
	ret = beest_registry_key(registry, BEEST_KIND_MESSAGE, name, key);
	if (ret < 0)
		return ret;
	/* Again if another thread's push replaced this one meanwhile, failed and was given up. */
	do
		ret = beest_registry_publish(registry, &record, limit);
	while (ret == 0 && !beest_lease_is(registry->leases, key, BEEST_LEASE_THERE));
	/* Stored at a later look, it could replace what another process has pushed since. */
	if (ret < 0)
		beest_lease_forget(registry->leases, key, serial);

	return ret;
}

/* ------------------------------------------------------------------------ waiting --- */

#define MESSAGE_SIZE_MIN (offsetof(struct hartebeest_message, result) + sizeof(int32_t))

struct many {
	struct beest_wait_get *gets;	/* of the messages that are asked for */
	char (*keys)[BEEST_KEY_MAX + 1];
	size_t asked, here, need;
};

static int see_message(void *data, const struct beest_record *record)
{
	struct hartebeest_message *message = data;

	message->here = 1;
	message->length = record->size;
	message->result = 0;
	if (message->room && record->size > message->room)
		message->result = beest_fail(EMSGSIZE, "message '%s' has %zu bytes, the buffer %zu",
					     message->peer_key, record->size, message->room);
	else if (message->room && record->size)
		memcpy(message->buffer, record->body, record->size);

	return 1;
}

static int many_each(void *data)
{
	const struct many *many = data;
	size_t i, here = many->here;

	for (i = 0; i < many->asked; i++)
		here += many->gets[i].got;

	return here >= many->need;
}

/* @i: place of @message in the caller's array. */
static int many_ask(struct many *many, const struct beest_registry *registry,
		    struct hartebeest_message *message, size_t i)
{
	char *key = many->keys[many->asked];

	if (!message->peer_key)
		return beest_fail(EINVAL, "message %zu: peer_key is NULL", i);
	if (message->room && !message->buffer)
		return beest_fail(EINVAL, "message %zu: buffer is NULL, but room is %zu", i,
				  message->room);
	many->gets[many->asked++] = (struct beest_wait_get){
		.kind = BEEST_KIND_MESSAGE, .key = key, .name = message->peer_key,
		.see = see_message, .data = message,
	};

	return beest_registry_key(registry, BEEST_KIND_MESSAGE, message->peer_key, key);
}

/* Checks each size before other fields: the size of the first element is the step. */
static int many_fill(struct many *many, const struct beest_registry *registry,
		     struct hartebeest_message *first, size_t count)
{
	struct hartebeest_message *message;
	size_t i;
	int ret = 0;

	for (i = 0; i < count && ret == 0; i++) {
		message = (struct hartebeest_message *)((char *)first + i * first->size);
		ret = beest_sized_check("message", i, message, first->size, sizeof(*message),
					MESSAGE_SIZE_MIN);
		if (ret == 0 && !message->here)
			ret = many_ask(many, registry, message, i);
		else
			many->here += ret == 0;
	}

	return ret;
}

static int many_run(struct many *many, struct beest_registry *registry,
		    const struct beest_limit *limit)
{
	struct beest_wait wait = {
		.gets = many->gets, .count = many->asked, .each = many_each, .data = many,
		.limit = limit,
	};
	struct hartebeest_message *message;
	size_t i;
	int ret = 0;

	if (many->here < many->need)
		ret = beest_wait_run(registry, &wait);
	for (i = 0; i < many->asked; i++) {
		message = many->gets[i].data;
		if (!message->here)
			message->result = -EAGAIN;
		many->here += message->here;
	}

	return ret < 0 ? ret : (int)many->here;
}

int beest_message_wait_many(struct beest_registry *registry, struct hartebeest_message *first,
			    size_t count, size_t need, const struct beest_limit *limit)
{
	struct many many = { .need = need ? need : count };
	int ret;

	if (need > count)
		return beest_fail(EINVAL, "need is %zu, but only %zu messages are asked for", need,
				  count);
	many.gets = calloc(count + 1, sizeof(*many.gets));
	many.keys = calloc(count + 1, sizeof(*many.keys));
	if (many.gets && many.keys)
		ret = many_fill(&many, registry, first, count);
	else
		ret = beest_fail(ENOMEM, "no memory for %zu messages", count);
	if (ret == 0)
		ret = many_run(&many, registry, limit);
	free(many.gets);
	free(many.keys);

	return ret;
}

int beest_message_wait(struct beest_registry *registry, const char *name, void *buffer,
		       size_t size, size_t *length, const struct beest_limit *limit)
{
	struct hartebeest_message message = {
		.size = sizeof(message), .peer_key = name, .buffer = buffer, .room = size,
	};
	int ret = beest_message_wait_many(registry, &message, 1, 1, limit);

	if (message.here && length)
		*length = message.length;

	return ret < 0 ? ret : message.result;
}

/* ----------------------------------------------------------------------- deleting --- */

int beest_message_delete(struct beest_registry *registry, const char *name,
			 const struct beest_limit *limit)
{
	char key[BEEST_KEY_MAX + 1];
	int ret;

	ret = beest_registry_key(registry, BEEST_KIND_MESSAGE, name, key);
	if (ret == 0)
		ret = beest_registry_delete(registry, key, limit);
	if (ret == -ENOENT)
		return beest_fail(ENOENT, "no message '%s' (key %s)", name, key);

	return ret;
}
