/* SPDX-License-Identifier: MIT */
/* message.c - see message.h */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/sized.h"
#include "lib/rendezvous/message.h"
#include "lib/rendezvous/store.h"
#include "lib/rendezvous/wait.h"

static int life_check(const struct hartebeest_msg_attr *attr)
{
	int ret = beest_sized_check("msg_attr", BEEST_SIZED_ALONE, attr, attr->size,
				    sizeof(*attr),
				    BEEST_SIZED_FIRST(struct hartebeest_msg_attr, flags));

	if (ret < 0)
		return ret;
	/* Less is likely a number of seconds. */
	if (attr->ttl && (attr->ttl < BEEST_MS || attr->ttl > BEEST_TTL_MAX))
		return beest_fail(EINVAL, "attr.ttl is %" PRId64 " ns, but a message lives for a "
				  "millisecond to 30 days: 60 s is 60000000000", attr->ttl);
	if (attr->flags & ~(uint64_t)HARTEBEEST_MSG_ONCE)
		return beest_fail(E2BIG, "unknown flags 0x%" PRIx64 " of a message", attr->flags);

	return 0;
}

/* In seconds.  Servers count whole ones, so allow one.  0: the option exchange.ttl. */
static int64_t life_ttl(const struct hartebeest_msg_attr *attr)
{
	return attr->ttl ? attr->ttl / BEEST_SECOND + 2 : 0;
}

/*
 * A message for one reader is not kept: if its server loses it, nobody can tell whether it had
 * been read.
 */
static void life_begin(struct beest_registry *registry, const char *key, uint64_t serial,
		       bool keeps)
{
	if (keeps)
		beest_lease_release(registry->leases, key, serial);
	else
		beest_lease_forget(registry->leases, key, serial);
}

int beest_message_push(struct beest_registry *registry, const char *name, const void *data,
		       size_t size, const struct hartebeest_msg_attr *attr,
		       const struct beest_limit *limit)
{
	char key[BEEST_KEY_MAX + 1];
	uint64_t serial = 0;
	bool once = attr->flags & HARTEBEEST_MSG_ONCE;
	struct beest_registry_record record = {
		.kind = BEEST_KIND_MESSAGE, .key = key, .body = data, .size = size,
		.flags = once ? BEEST_RECORD_ONCE : 0, .ttl = life_ttl(attr), .serial = &serial,
	};
	int ret;

	ret = life_check(attr);
	if (ret == 0 && size > BEEST_MESSAGE_MAX)
		return beest_fail(EMSGSIZE, "message '%s' has %zu bytes; at most %d fit into a "
				  "Memcached value", name, size, BEEST_MESSAGE_MAX);
	if (ret == 0)
		ret = beest_registry_key(registry, BEEST_KIND_MESSAGE, name, key);
	if (ret < 0)
		return ret;
	/* Again if another thread's push replaced this one meanwhile, failed and was given up. */
	do
		ret = beest_store_publish(registry, &record, limit);
	while (ret == 0 && !beest_lease_is(registry->leases, key, BEEST_LEASE_THERE));
	/* Stored at a later look, it could replace what another process has pushed since. */
	life_begin(registry, key, serial, ret == 0 && !once);

	return ret;
}

/* ------------------------------------------------------------------------ waiting --- */

/* A message that is asked for. */
struct asked {
	struct hartebeest_message *message;
	bool once;			/* was seen, and is to be deleted by its only reader */
	char key[BEEST_KEY_MAX + 1];
};

struct many {
	struct beest_registry *registry;
	const struct beest_limit *limit;
	struct beest_wait_get *gets;
	struct asked *list;
	size_t asked, here, need;
};

static int see_message(void *data, const struct beest_record *record)
{
	struct asked *asked = data;
	struct hartebeest_message *message = asked->message;

	asked->once = record->flags & BEEST_RECORD_ONCE && message->room &&
		      message->room >= record->size;
	message->arrived = !asked->once;
	message->length = record->size;
	message->result = 0;
	if (message->room && record->size > message->room)
		message->result = beest_fail(EMSGSIZE, "message '%s' has %zu bytes, the buffer %zu",
					     message->peer_key, record->size, message->room);
	else if (message->room && record->size)
		memcpy(message->buffer, record->body, record->size);

	return message->arrived;
}

/* 1: it is this reader's, since it found it there to delete; 0: another's. */
static int once_take(struct many *many, struct asked *asked)
{
	int ret = beest_store_take(many->registry, asked->key, many->limit);

	asked->once = false;
	asked->message->arrived = ret == 0;
	if (ret == -ESTALE)
		return beest_fail(ESTALE, "message '%s' (key %s) is gone: its server failed as it "
				  "was deleted, by this reader or by another",
				  asked->message->peer_key, asked->key);

	return ret == -ENOENT ? 0 : ret < 0 ? ret : 1;
}

static int many_each(void *data)
{
	struct many *many = data;
	size_t i, here = many->here;
	int ret;

	for (i = 0; i < many->asked; i++) {
		ret = many->list[i].once ? once_take(many, &many->list[i]) : many->gets[i].got;
		if (ret < 0)
			return ret;
		many->gets[i].got = ret;
		here += many->gets[i].got;
	}

	return here >= many->need;
}

/* @i: place of @message in the caller's array. */
static int many_ask(struct many *many, struct hartebeest_message *message, size_t i)
{
	struct asked *asked = &many->list[many->asked];

	if (!message->peer_key)
		return beest_fail(EINVAL, "message %zu: peer_key is NULL", i);
	if (message->room && !message->buffer)
		return beest_fail(EINVAL, "message %zu: buffer is NULL, but room is %zu", i,
				  message->room);
	asked->message = message;
	many->gets[many->asked++] = (struct beest_wait_get){
		.kind = BEEST_KIND_MESSAGE, .key = asked->key, .name = message->peer_key,
		.see = see_message, .data = asked, .unmet = "another reader has taken it",
		.authors = BEEST_AUTHORS_OWN_RUN,
	};

	return beest_registry_key(many->registry, BEEST_KIND_MESSAGE, message->peer_key,
				  asked->key);
}

/* Checks each size before other fields: the size of the first element is the step. */
static int many_fill(struct many *many, struct hartebeest_message *first, size_t count)
{
	struct hartebeest_message *message;
	size_t i;
	int ret = 0;

	for (i = 0; i < count && ret == 0; i++) {
		message = (struct hartebeest_message *)((char *)first + i * first->size);
		ret = beest_sized_check("message", i, message, first->size, sizeof(*message),
					BEEST_SIZED_FIRST(struct hartebeest_message, result));
		if (ret == 0 && !message->arrived)
			ret = many_ask(many, message, i);
		else
			many->here += ret == 0;
	}

	return ret;
}

static int many_run(struct many *many)
{
	struct beest_wait wait = {
		.gets = many->gets, .count = many->asked, .each = many_each, .data = many,
		.limit = many->limit,
	};
	struct hartebeest_message *message;
	size_t i;
	int waited = 0;

	if (many->here < many->need)
		waited = beest_wait_run(many->registry, &wait);
	for (i = 0; i < many->asked; i++) {
		message = many->list[i].message;
		if (!message->arrived)
			message->result = -EAGAIN;
		many->here += message->arrived;
	}

	return waited < 0 ? waited : (int)many->here;
}

int beest_message_wait_many(struct beest_registry *registry, struct hartebeest_message *first,
			    size_t count, size_t need, const struct beest_limit *limit)
{
	struct many many = { .registry = registry, .limit = limit, .need = need ? need : count };
	int ret;

	if (need > count)
		return beest_fail(EINVAL, "need is %zu, but only %zu messages are asked for", need,
				  count);
	if (!count)
		return 0;
	many.gets = calloc(count, sizeof(*many.gets));
	many.list = calloc(count, sizeof(*many.list));
	if (many.gets && many.list)
		ret = many_fill(&many, first, count);
	else
		ret = beest_fail(ENOMEM, "no memory for %zu messages", count);
	if (ret == 0)
		ret = many_run(&many);
	free(many.gets);
	free(many.list);

	return ret;
}

int beest_message_wait(struct beest_registry *registry, const char *name, void *buffer,
		       size_t size, size_t *length, const struct beest_limit *limit)
{
	struct hartebeest_message message = {
		.size = sizeof(message), .peer_key = name, .buffer = buffer, .room = size,
	};
	int ret = beest_message_wait_many(registry, &message, 1, 1, limit);

	if (message.arrived && length)
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
		ret = beest_store_delete(registry, key, limit);
	if (ret == -ENOENT)
		return beest_fail(ENOENT, "no message '%s' (key %s)", name, key);

	return ret;
}
