/* SPDX-License-Identifier: MIT */
/*
 * yield.c - ranks that spin on one emulated processor let each other work
 *
 * tests/vm/init preloads it in machines of one processor.  There, a rank that polls an empty
 * completion queue only keeps its peer, and Soft-RoCE's timers, from filling it, for up to 4 ms
 * each turn.  So an empty queue gives the processor away: at first to others that are ready, and
 * from the fifth time on for 50 us.  The provider's own function polls as before.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define YIELDS 4
#define SLEEP 50		/* us */

static int (*provider_poll)(struct ibv_cq *cq, int count, struct ibv_wc *wc);

static int yielding_poll(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
	static __thread int empty;		/* times in a row */
	int found = provider_poll(cq, count, wc);

	if (found)
		empty = 0;
	else if (empty++ < YIELDS)
		sched_yield();
	else
		usleep(SLEEP);
	return found;
}

/* All devices of the machine have the same provider. */
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*open_device)(struct ibv_device *);
	struct ibv_context *context;

	open_device = dlsym(RTLD_NEXT, "ibv_open_device");
	context = open_device(device);
	if (context) {
		provider_poll = context->ops.poll_cq;
		context->ops.poll_cq = yielding_poll;
	}
	return context;
}
