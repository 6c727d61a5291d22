/* SPDX-License-Identifier: MIT */
/* exchange.c - exported functions that need no device: messages, barriers, failure */
#include "config.h"

#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/core/context.h"
#include "lib/rendezvous/barrier.h"
#include "lib/rendezvous/failure.h"
#include "lib/rendezvous/message.h"

HARTEBEEST_EXPORT int hartebeest_msg_push(struct hartebeest_context *hb, const char *key,
					  const void *data, size_t length, int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, key);
	if (!data && length)
		return beest_call_refuse(hb, __func__, "data is NULL");
	TRY_LIMIT(beest_context_need_registry(hb, BEEST_KIND_MESSAGE, key));
	return beest_call_waited(hb, &limit, beest_message_push(hb->registry, key, data, length,
								&limit));
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
	return beest_call_waited(hb, &limit, beest_message_wait_many(hb->registry, messages, count,
								     need, &limit));
}

HARTEBEEST_EXPORT int hartebeest_msg_delete(struct hartebeest_context *hb, const char *key,
					    int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, key);
	TRY_LIMIT(beest_context_need_registry(hb, BEEST_KIND_MESSAGE, key));
	return beest_call_waited(hb, &limit, beest_message_delete(hb->registry, key, &limit));
}

HARTEBEEST_EXPORT int hartebeest_barrier(struct hartebeest_context *hb, const char *name,
					 int64_t deadline)
{
	struct beest_limit limit;
	struct beest_node *node;
	int rank = hartebeest_rank(hb);

	REQUIRE_LIMIT(hb, name);
	TRY_LIMIT(rank);
	TRY_LIMIT(hartebeest_size(hb));
	TRY_LIMIT(beest_context_need_registry(hb, BEEST_KIND_BARRIER, name));
	TRY_LIMIT(beest_barrier_check(hb->registry, &hb->launch.participants, name));
	TRY_LIMIT(beest_table_obtain(&hb->objects, &beest_barrier_kind, name, &node));
	return beest_call_waited(hb, &limit, beest_barrier_wait(hb->registry, &hb->roll,
								BEEST_CONTAINER(node,
								struct beest_barrier, node),
								&hb->launch.participants, rank,
								&limit));
}

HARTEBEEST_EXPORT int hartebeest_fail(struct hartebeest_context *hb, const char *text)
{
	REQUIRE(hb, text);
	TRY(beest_context_need_registry(hb, BEEST_KIND_ANY, NULL));
	return beest_call_done(hb, beest_failure_say(hb->registry, text));
}
