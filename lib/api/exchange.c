/* SPDX-License-Identifier: MIT */
/* exchange.c - exported functions that need no device: messages, barriers, failure */
#include "config.h"

#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/core/context.h"
#include "lib/rendezvous/barrier.h"
#include "lib/rendezvous/message.h"
#include "lib/rendezvous/store.h"

static int push_run(struct hartebeest_context *hb, const char *function, const char *key,
		    const void *data, size_t length, const struct hartebeest_msg_attr *attr,
		    const struct beest_limit *limit)
{
	int ret;

	if (!data && length)
		return beest_call_refuse(hb, function, "data is NULL");
	ret = beest_context_need_registry(hb, BEEST_KIND_MESSAGE, key);
	if (ret == 0)
		ret = beest_message_push(hb->registry, key, data, length, attr, limit);
	return beest_call_waited(hb, limit, ret);
}

HARTEBEEST_EXPORT int hartebeest_msg_push(struct hartebeest_context *hb, const char *key,
					  const void *data, size_t length, int64_t deadline)
{
	struct hartebeest_msg_attr attr;
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, key);
	hartebeest_msg_attr_init(&attr);
	return push_run(hb, __func__, key, data, length, &attr, &limit);
}

HARTEBEEST_EXPORT int hartebeest_msg_push_attr(struct hartebeest_context *hb, const char *key,
					       const void *data, size_t length,
					       const struct hartebeest_msg_attr *attr,
					       int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, key, attr);
	return push_run(hb, __func__, key, data, length, attr, &limit);
}

HARTEBEEST_EXPORT int hartebeest_msg_wait(struct hartebeest_context *hb,
					  const char *peer_key, void *buffer, size_t size,
					  size_t *length, int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, peer_key);
	if (!buffer && size)
		return beest_call_refuse(hb, __func__, "buffer is NULL");
	TRY_LIMIT(beest_context_need_registry(hb, BEEST_KIND_MESSAGE, peer_key));
	return beest_call_waited(hb, &limit, beest_message_wait(hb->registry, peer_key, buffer,
								size, length, &limit));
}

HARTEBEEST_EXPORT int hartebeest_msgs_wait(struct hartebeest_context *hb,
					   struct hartebeest_message *messages,
					   size_t count, size_t need, int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, messages);
	TRY_LIMIT(beest_context_need_registry(hb, BEEST_KIND_MESSAGE,
					      count ? messages->peer_key : NULL));
	return beest_call_waited(hb, &limit, beest_message_wait_many(hb->registry,
								     messages, count, need,
								     &limit));
}

HARTEBEEST_EXPORT int hartebeest_msg_delete(struct hartebeest_context *hb, const char *key,
					    int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, key);
	TRY_LIMIT(beest_context_need_registry(hb, BEEST_KIND_MESSAGE, key));
	return beest_call_waited(hb, &limit, beest_message_delete(hb->registry, key, &limit));
}

HARTEBEEST_EXPORT int hartebeest_counter_add(struct hartebeest_context *hb, const char *key,
					     uint32_t add, uint64_t *value, int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, key, value);
	TRY_LIMIT(beest_context_need_registry(hb, BEEST_KIND_COUNTER, key));
	return beest_call_waited(hb, &limit, beest_message_count(hb->registry, key, add, value,
								 &limit));
}

/* Finds the barrier of that name, or makes it. */
static int barrier_obtain(struct hartebeest_context *hb, const char *name,
			  struct beest_barrier **barrier)
{
	struct beest_node *node;
	int ret;

	ret = hartebeest_rank(hb);
	if (ret >= 0)
		ret = hartebeest_size(hb);
	if (ret >= 0)
		ret = beest_launch_check(&hb->launch);
	if (ret >= 0)
		ret = beest_context_need_registry(hb, BEEST_KIND_MEMBER, name);
	if (ret == 0)
		ret = beest_fence_check(hb->registry, name);
	if (ret == 0)
		ret = beest_table_obtain(&hb->objects, &beest_barrier_kind, name, &node);
	if (ret == 0)
		*barrier = BEEST_CONTAINER(node, struct beest_barrier, node);
	return ret;
}

/* @call: a gather has its value. */
static int barrier_run(struct hartebeest_context *hb, const char *name,
		       struct beest_barrier_call *call)
{
	struct beest_barrier *barrier = NULL;
	int ret = barrier_obtain(hb, name, &barrier);

	if (ret < 0)
		return ret;
	call->registry = hb->registry;
	call->membership = &hb->membership;
	call->ranks = &hb->launch.participants;
	call->rank = hb->launch.rank;
	return beest_barrier_run(barrier, call);
}

HARTEBEEST_EXPORT int hartebeest_barrier(struct hartebeest_context *hb, const char *name,
					 int64_t deadline)
{
	struct beest_limit limit;
	struct beest_barrier_call call = { .limit = &limit };

	REQUIRE_LIMIT(hb, name);
	return beest_call_waited(hb, &limit, barrier_run(hb, name, &call));
}

HARTEBEEST_EXPORT int hartebeest_gather(struct hartebeest_context *hb, const char *name,
					const void *value, size_t size, void *all,
					int64_t deadline)
{
	struct beest_limit limit;
	struct beest_barrier_call call = {
		.value = value, .size = size, .all = all, .limit = &limit,
	};

	REQUIRE_LIMIT(hb, name, value, all);
	if (size == 0)
		return beest_call_refuse(hb, __func__, "size is 0");
	return beest_call_waited(hb, &limit, barrier_run(hb, name, &call));
}

HARTEBEEST_EXPORT int hartebeest_fail(struct hartebeest_context *hb, const char *text)
{
	REQUIRE(hb, text);
	TRY(beest_context_need_registry(hb, BEEST_KIND_ANY, NULL));
	return beest_call_done(hb, beest_store_fail(hb->registry, text));
}
