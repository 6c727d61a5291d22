/* SPDX-License-Identifier: MIT */
/* collect.c - see collect.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/error.h"
#include "lib/rendezvous/collect.h"
#include "lib/rendezvous/message.h"

const struct beest_kind beest_collect_kind = {
	.noun = "gather", .size = sizeof(struct beest_collect),
};

/*
 * Two keys for each rank, in turn: whoever stores the value of the pass after next has met all at
 * the next one, which have read the values of this one by then.
 */
static void value_key(const struct beest_collect *collect, int rank, char key[BEEST_KEY_MAX + 1])
{
	snprintf(key, BEEST_KEY_MAX + 1, "%s/%d/%d", collect->node.name,
		 (int)(collect->passes & 1), rank);
}

/* A barrier shows that all values are of this run: what an earlier one left was replaced. */
static int collect_meet(const struct beest_collect_call *call, struct beest_collect *collect)
{
	const struct hartebeest_msg_attr attr = { .size = sizeof(attr) };
	char key[BEEST_KEY_MAX + 1];
	int ret;

	if (collect->has_met)
		return 0;
	value_key(collect, call->rank, key);
	ret = beest_message_push(call->registry, BEEST_KIND_VALUE, key, call->value, call->size,
				 &attr, call->limit);
	if (ret == 0)
		ret = beest_barrier_wait(call->registry, call->roll, call->barrier, true,
					 call->ranks, call->rank, call->limit);
	collect->has_met = ret == 0;

	return ret;
}

static int sizes_check(const struct beest_collect_call *call,
		       const struct hartebeest_message *messages)
{
	size_t i;

	for (i = 0; i < call->ranks->count; i++)
		if (messages[i].length != call->size)
			return beest_fail(EPROTO, "rank %d gives %zu bytes, but rank %d, this one, "
					  "gives %zu", call->ranks->id[i], messages[i].length,
					  call->rank, call->size);

	return 0;
}

static int collect_read(const struct beest_collect_call *call, const struct beest_collect *collect)
{
	const size_t count = call->ranks->count;
	struct hartebeest_message *messages = calloc(count, sizeof(*messages));
	char (*keys)[BEEST_KEY_MAX + 1] = calloc(count, sizeof(*keys));
	size_t i;
	int ret;

	for (i = 0; i < count && messages && keys; i++) {
		value_key(collect, call->ranks->id[i], keys[i]);
		messages[i].size = sizeof(*messages);
		messages[i].peer_key = keys[i];
		messages[i].buffer = (char *)call->all + i * call->size;
		messages[i].room = call->size;
	}
	if (messages && keys)
		ret = beest_message_wait_many(call->registry, BEEST_KIND_VALUE, messages, count, 0,
					      call->limit);
	else
		ret = beest_fail(ENOMEM, "no memory for the values of %zu ranks", count);
	if (ret >= 0)
		ret = sizes_check(call, messages);
	free(keys);
	free(messages);

	return ret;
}

int beest_collect_run(const struct beest_collect_call *call, struct beest_collect *collect)
{
	int ret = collect_meet(call, collect);

	if (ret == 0)
		ret = collect_read(call, collect);
	if (ret < 0 && collect->has_met && ret != -EPROTO)
		return beest_fail_prefix(ret, "gather '%s', pass %" PRIu64, collect->node.name,
					 collect->passes + 1);
	if (ret < 0 && !collect->has_met)
		return ret;
	collect->has_met = false;
	collect->passes++;

	return ret < 0 ? beest_fail_prefix(ret, "gather '%s'", collect->node.name) : 0;
}
