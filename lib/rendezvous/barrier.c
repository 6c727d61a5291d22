/* SPDX-License-Identifier: MIT */
/* barrier.c - see barrier.h */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/rendezvous/barrier.h"
#include "lib/rendezvous/fencecall.h"
#include "lib/rendezvous/message.h"

void beest_membership_start(struct beest_membership *membership)
{
	pthread_mutex_init(&membership->lock, NULL);
}

void beest_membership_end(struct beest_membership *membership)
{
	free(membership->members);
	pthread_mutex_destroy(&membership->lock);
}

static void barrier_dispose(struct beest_node *node)
{
	beest_fence_end(&BEEST_CONTAINER(node, struct beest_barrier, node)->fence);
}

const struct beest_kind beest_barrier_kind = {
	.noun = "barrier", .size = sizeof(struct beest_barrier), .dispose = barrier_dispose,
};

/* -ESTALE: two threads have met different processes of one rank at first. */
static int membership_learn(struct beest_membership *membership, const struct beest_view *view)
{
	struct beest_incarnation *met = calloc(view->count, sizeof(*met));
	size_t i;
	int ret = 0;

	if (!met)
		return beest_fail(ENOMEM, "no memory for %zu ranks", view->count);
	for (i = 0; i < view->count; i++)
		met[i] = beest_view_entry(view, i).incarnation;
	pthread_mutex_lock(&membership->lock);
	if (!membership->members) {
		__atomic_store_n(&membership->members, met, __ATOMIC_RELEASE);
		met = NULL;
	}
	for (i = 0; i < view->count && met && ret == 0; i++)
		if (!beest_process_is_context(&membership->members[i], &met[i]))
			ret = beest_fail(ESTALE, "rank %d was started again after the run began",
					 (int)beest_view_entry(view, i).rank);
	pthread_mutex_unlock(&membership->lock);
	free(met);

	return ret;
}

static int values_copy(const struct beest_barrier_call *call, const struct beest_view *view)
{
	struct beest_fence_entry entry;
	size_t i;

	for (i = 0; i < view->count; i++) {
		entry = beest_view_entry(view, i);
		if (entry.size != call->size)
			return beest_fail(EPROTO, "the value of rank %d has %d bytes, not %zu",
					  (int)entry.rank, (int)entry.size, call->size);
		memcpy((char *)call->all + i * call->size, entry.value, call->size);
	}

	return 0;
}

/* Stores why this rank cannot take part, so that the others do not wait for it. */
static int value_refuse(struct beest_fence *fence, const struct beest_fence_call *meet)
{
	struct beest_fence_call without = *meet;

	without.value = NULL;
	without.size = 0;

	return beest_fencecall_refuse(fence, &without,
				      beest_fail(EMSGSIZE, "a value of %zu bytes; at most %d "
						 "are possible", meet->size, BEEST_MESSAGE_MAX));
}

int beest_barrier_run(struct beest_barrier *barrier, const struct beest_barrier_call *call)
{
	struct beest_fence *fence = &barrier->fence;
	const char *noun = call->value ? "gather" : "barrier";
	const struct beest_fence_call meet = {
		.registry = call->registry, .ranks = call->ranks, .rank = call->rank,
		.name = barrier->node.name, .title = barrier->node.name,
		.value = call->value, .size = call->size,
		.setup = {
			.what = call->value ? BEEST_FENCE_GATHER : BEEST_FENCE_BARRIER,
			.form = call->size,
		},
		/* What goes on may be the call that makes the first view. */
		.pass = !call->value && (beest_fence_goes_on(fence) ? fence->pass != 0 :
					 fence->view != NULL),
		.members = __atomic_load_n(&call->membership->members, __ATOMIC_ACQUIRE),
		.limit = call->limit,
	};
	int ret = meet.size > BEEST_MESSAGE_MAX ? value_refuse(fence, &meet) :
		  beest_fencecall_run(fence, &meet);

	if (ret == 0 && !meet.pass)
		ret = membership_learn(call->membership, fence->view);
	if (ret == 0 && call->value)
		ret = values_copy(call, fence->view);
	if (ret == -ESTALE)
		beest_fail(ESTALE, "%s: barriers need all ranks to open new contexts",
			   beest_error_text());
	if (ret < 0)
		return beest_fail_prefix(ret, "%s '%s', pass %" PRIu64, noun, barrier->node.name,
					 barrier->passes + 1);
	barrier->passes++;

	return 0;
}
