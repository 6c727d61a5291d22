/* SPDX-License-Identifier: MIT */
/* message.c - see message.h */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/sized.h"
#include "lib/rendezvous/message.h"
#include "lib/rendezvous/store.h"
#include "lib/rendezvous/wait.h"

/* How long a tombstone lives, in seconds: the author may push the message again until then. */
#define TAKEN_TTL 60

/* ------------------------------------------------------------------ for one reader --- */

/* What the server has under the key of a message. */
struct held {
	struct beest_registry *registry;
	const char *name;
	const char *purpose;			/* what is to be done with it */
	const struct beest_limit *limit;
	char key[BEEST_KEY_MAX + 1];
	uint64_t unique;			/* 0: nothing */
	struct beest_message_body body;		/* its ids; its data are not kept */
};

/* Makes the key. */
static int held_start(struct held *held, struct beest_registry *registry, const char *name,
		      const char *purpose, const struct beest_limit *limit)
{
	*held = (struct held){
		.registry = registry, .name = name, .purpose = purpose, .limit = limit,
	};

	return beest_registry_key(registry, BEEST_KIND_MESSAGE, name, held->key);
}

/* What is no message of this job may be replaced like one. */
static int held_read(struct held *held)
{
	struct beest_seal *seal = held->registry->seal;
	struct beest_kv_value value;
	struct beest_record record;
	int ret = beest_store_read(held->registry, held->key, held->purpose, &value, held->limit);

	memset(&held->body, 0, sizeof(held->body));
	held->unique = ret == 0 && value.bytes ? value.unique : 0;
	if (held->unique)
		ret = beest_record_decode(seal, value.bytes, value.size, BEEST_KIND_MESSAGE,
					  held->key, &record);
	if (ret == 0 && held->unique)
		ret = beest_record_message_decode(&record, &held->body);
	beest_kv_values_free(&value, 1);

	return ret == -EBADMSG || ret == -EPROTONOSUPPORT || ret == -ENOKEY ||
	       ret == -EKEYREJECTED ? 0 : ret;
}

static bool held_is_of(const struct held *held, const uint8_t push[BEEST_ONCE_ID])
{
	return held->body.once && memcmp(held->body.push, push, BEEST_ONCE_ID) == 0;
}

/*
 * The server did not replace the message, or did so in an attempt whose answer was lost.  1: it
 * did; 0: it did not.  @ids: of the push and of the take.
 */
static int held_judge(struct held *held, const uint8_t ids[2 * BEEST_ONCE_ID])
{
	int ret = held_read(held);

	if (ret < 0)
		return ret;
	if (held_is_of(held, ids))
		return held->body.taken &&
		       memcmp(held->body.take, ids + BEEST_ONCE_ID, BEEST_ONCE_ID) == 0;

	return beest_fail(ESTALE, "message '%s' (key %s) is gone: its server failed as it was "
			  "taken, by this reader or by another", held->name, held->key);
}

/*
 * Puts a tombstone in place of the message that was read.  1: it is this caller's; 0: another
 * reader or push was faster.
 */
static int held_take(struct held *held)
{
	struct beest_registry *registry = held->registry;
	uint8_t ids[2 * BEEST_ONCE_ID], bytes[BEEST_RECORD_EMPTY_MAX + sizeof(ids)];
	const struct beest_record record = {
		.kind = BEEST_KIND_MESSAGE, .flags = BEEST_RECORD_ONCE | BEEST_RECORD_CLOSED,
		.incarnation = registry->presence.incarnation, .rank = -1,
		.body = ids, .size = sizeof(ids),
	};
	struct beest_look_extra extra = {
		.server = beest_kv_server_of(registry->kv, held->key),
		.write = { .verb = BEEST_KV_CAS, .key = held->key, .value = bytes,
			   .ttl = TAKEN_TTL, .unique = held->unique, .answered = true },
	};
	int ret = beest_random(ids + BEEST_ONCE_ID, BEEST_ONCE_ID);

	memcpy(ids, held->body.push, BEEST_ONCE_ID);
	if (ret == 0)
		ret = beest_record_encode(registry->seal, &record, held->key, bytes,
					  sizeof(bytes));
	if (ret < 0)
		return ret;
	extra.write.size = (size_t)ret;
	beest_lease_forget(registry->leases, held->key, 0);
	ret = beest_store_ask(registry, &extra, 1, held->purpose, held->limit);
	if (ret != -EEXIST && ret != -ENOENT)
		return ret < 0 ? ret : 1;

	return extra.repeated ? held_judge(held, ids) : 0;
}

/* ------------------------------------------------------------------------- pushing --- */

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

/* Puts it again if another thread's push replaced it meanwhile, failed and was given up. */
static int message_put(struct beest_registry *registry,
		       const struct beest_registry_record *record,
		       const struct beest_limit *limit)
{
	int ret;

	do
		ret = beest_store_publish(registry, record, limit);
	while (ret == 0 && !beest_lease_is(registry->leases, record->key, BEEST_LEASE_THERE));

	return ret;
}

/*
 * Nothing that a server may carry out late or twice replaces a tombstone: the message is added
 * or, if something else is there, replaces just that.
 */
static int once_put(struct held *held, struct beest_registry_record *record)
{
	const uint8_t *push = record->body;
	bool again;
	int ret;

	for (again = false; ; again = true) {
		ret = message_put(held->registry, record, held->limit);
		if (ret < 0 || !beest_lease_is(held->registry->leases, held->key,
					       BEEST_LEASE_OCCUPIED))
			return ret;
		ret = held_read(held);
		if (ret < 0 || held_is_of(held, push))
			return ret;
		if (again && !beest_limit_left(held->limit))
			return beest_fail(beest_limit_errno(held->limit), "message '%s' (key %s): "
					  "others push or take messages of this key all the time",
					  held->name, held->key);
		record->unique = held->unique;
	}
}

/* Behind the id of the push, which is drawn here.  For free(3). */
static int once_body(const void *data, size_t size, uint8_t **body)
{
	int ret;

	*body = malloc(BEEST_ONCE_ID + size);
	if (!*body)
		return beest_fail(ENOMEM, "no memory for a message of %zu bytes", size);
	ret = beest_random(*body, BEEST_ONCE_ID);
	if (ret < 0)
		free(*body);
	else if (size)
		memcpy(*body + BEEST_ONCE_ID, data, size);

	return ret;
}

/*
 * A message for one reader is not kept: if its server loses it, no process knows whether it had
 * been read.  Nor is one that failed: stored at a later look, it could replace what another process
 * has pushed since.
 */
static int held_push(struct held *held, struct beest_registry_record *record, bool once)
{
	struct beest_leases *leases = held->registry->leases;
	uint8_t *body = NULL;
	int ret = once ? once_body(record->body, record->size, &body) : 0;

	if (ret < 0)
		return ret;
	if (once) {
		record->body = body;
		record->size += BEEST_ONCE_ID;
		record->flags = BEEST_RECORD_ONCE;
		record->add_only = true;
	}
	ret = once ? once_put(held, record) : message_put(held->registry, record, held->limit);
	if (ret == 0 && !once)
		beest_lease_release(leases, record->key, *record->serial);
	else
		beest_lease_forget(leases, record->key, *record->serial);
	free(body);

	return ret;
}

int beest_message_push(struct beest_registry *registry, const char *name, const void *data,
		       size_t size, const struct hartebeest_msg_attr *attr,
		       const struct beest_limit *limit)
{
	struct held held;
	uint64_t serial = 0;
	struct beest_registry_record record = {
		.kind = BEEST_KIND_MESSAGE, .key = held.key, .body = data, .size = size,
		.serial = &serial,
	};
	int ret;

	ret = life_check(attr);
	if (ret == 0 && size > BEEST_MESSAGE_MAX)
		return beest_fail(EMSGSIZE, "message '%s' has %zu bytes; at most %d fit into a "
				  "Memcached value", name, size, BEEST_MESSAGE_MAX);
	if (ret == 0)
		ret = held_start(&held, registry, name, "to be stored", limit);
	if (ret < 0)
		return ret;
	/* In seconds.  Servers count whole ones, so allow one.  0: the option exchange.ttl. */
	record.ttl = attr->ttl ? attr->ttl / BEEST_SECOND + 2 : 0;

	return held_push(&held, &record, attr->flags & HARTEBEEST_MSG_ONCE);
}

/* ------------------------------------------------------------------------ waiting --- */

/* A message that is asked for. */
struct asked {
	struct hartebeest_message *message;
	/* body.once: this reader is to take it.  It is not, if its buffer is too small. */
	struct held held;
};

struct many {
	struct beest_registry *registry;
	struct beest_wait wait;
	struct asked *list;
	size_t here, need;
};

static int see_message(void *data, const struct beest_record *record)
{
	struct asked *asked = data;
	struct beest_message_body *body = &asked->held.body;
	struct hartebeest_message *message = asked->message;
	int ret = beest_record_message_decode(record, body);

	if (ret < 0 || body->taken) {
		body->once = false;
		return ret;
	}
	body->once = body->once && message->room && message->room >= body->size;
	message->arrived = !body->once;
	message->length = body->size;
	message->result = 0;
	if (message->room && body->size > message->room)
		message->result = beest_fail(EMSGSIZE, "message '%s' has %zu bytes, the buffer %zu",
					     message->peer_key, body->size, message->room);
	else if (message->room && body->size)
		memcpy(message->buffer, body->data, body->size);

	return message->arrived;
}

/* @unique: of the message.  1: it is this reader's; 0: another's. */
static int once_take(struct asked *asked, uint64_t unique)
{
	int ret;

	asked->held.unique = unique;
	ret = held_take(&asked->held);
	asked->held.body.once = false;
	asked->message->arrived = ret == 1;

	return ret;
}

static int many_each(void *data)
{
	struct many *many = data;
	size_t i, here = many->here;
	int ret;

	for (i = 0; i < many->wait.count; i++) {
		ret = many->wait.gets[i].got;
		if (many->list[i].held.body.once)
			ret = once_take(&many->list[i], many->wait.gets[i].unique);
		if (ret < 0)
			return ret;
		many->wait.gets[i].got = ret;
		here += many->wait.gets[i].got;
	}

	return here >= many->need;
}

/* @i: place of @message in the caller's array. */
static int many_ask(struct many *many, struct hartebeest_message *message, size_t i)
{
	struct asked *asked = &many->list[many->wait.count];

	if (!message->peer_key)
		return beest_fail(EINVAL, "message %zu: peer_key is NULL", i);
	if (message->room && !message->buffer)
		return beest_fail(EINVAL, "message %zu: buffer is NULL, but room is %zu", i,
				  message->room);
	asked->message = message;
	many->wait.gets[many->wait.count++] = (struct beest_wait_get){
		.kind = BEEST_KIND_MESSAGE, .key = asked->held.key, .name = message->peer_key,
		.see = see_message, .data = asked,
		.unmet = "a reader has taken it, or it was deleted",
		.authors = BEEST_AUTHORS_OWN_RUN,
	};

	return held_start(&asked->held, many->registry, message->peer_key, "to be taken",
			  many->wait.limit);
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
	struct hartebeest_message *message;
	size_t i;
	int waited = 0;

	if (many->here < many->need)
		waited = beest_wait_run(many->registry, &many->wait);
	for (i = 0; i < many->wait.count; i++) {
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
	struct many many = {
		.registry = registry, .need = need ? need : count,
		.wait = { .each = many_each, .data = &many, .limit = limit, .uniques = true },
	};
	int ret;

	if (need > count)
		return beest_fail(EINVAL, "need is %zu, but only %zu messages are asked for", need,
				  count);
	if (!count)
		return 0;
	many.wait.gets = calloc(count, sizeof(*many.wait.gets));
	many.list = calloc(count, sizeof(*many.list));
	if (many.wait.gets && many.list)
		ret = many_fill(&many, first, count);
	else
		ret = beest_fail(ENOMEM, "no memory for %zu messages", count);
	if (ret == 0)
		ret = many_run(&many);
	free(many.wait.gets);
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

/*
 * Deletes at once what this context keeps.  A message for one reader is taken instead: a reader
 * that is about to take it must not get it, too.
 */
static int held_delete(struct held *held)
{
	struct beest_leases *leases = held->registry->leases;
	int ret;

	if (beest_lease_is(leases, held->key, BEEST_LEASE_THERE) &&
	    !beest_lease_serial(leases, held->key))
		return beest_store_delete(held->registry, held->key, held->limit);
	beest_lease_forget(leases, held->key, 0);
	do {
		ret = held_read(held);
		if (ret < 0)
			return ret;
		if (!held->unique || held->body.taken)
			return -ENOENT;
		if (!held->body.once)
			return beest_store_delete(held->registry, held->key, held->limit);
		ret = held_take(held);
	} while (ret == 0);

	return ret < 0 ? ret : 0;
}

int beest_message_delete(struct beest_registry *registry, const char *name,
			 const struct beest_limit *limit)
{
	struct held held;
	int ret;

	ret = held_start(&held, registry, name, "to be deleted", limit);
	if (ret < 0)
		return ret;
	ret = held_delete(&held);
	if (ret == -ENOENT)
		return beest_fail(ENOENT, "no message '%s' (key %s)", name, held.key);

	return ret;
}

/* ----------------------------------------------------------------------- counters --- */

/* A counter is no record, and no process restores it: it lives as long as an epoch. */
int beest_message_count(struct beest_registry *registry, const char *name, uint32_t add,
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
