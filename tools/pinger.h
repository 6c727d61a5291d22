/* SPDX-License-Identifier: MIT */
/*
 * pinger.h - pings over a connected queue pair, and the other end's answers
 *
 * Owns the parts of the two buffers, what a ping carries and whether it came back right.
 * Knows nothing of how the queue pair was connected, and prints nothing.
 *
 * Where the device of the other end does the work (write, read, atomics of RC), a ping
 * lasts until its completion, and what was written is read back, or what is read was
 * written before; that is not timed.  Else the other end sends each message back, by
 * pinger_answer(), and a ping lasts until the echo is here.
 */
#ifndef TOOLS_PINGER_H
#define TOOLS_PINGER_H

#include <stdbool.h>

#include <hartebeest.h>

#include "tools/histogram.h"
#include "tools/plan.h"

struct pinger {
	/* in */
	struct hartebeest_context *hb;
	const struct plan *plan;
	struct ibv_qp *qp;
	struct ibv_cq *send_cq;		/* of others, too, that have nothing under way */
	struct ibv_cq *recv_cq;		/* where the other end answers */
	struct ibv_mr *mr;		/* of pinger_bytes() */
	struct hartebeest_remote_mr there;	/* the other end's */
	struct hartebeest_address address;	/* UD */
	int64_t patience;		/* ns, for a completion or an echo */
	/* out */
	char why[600];			/* to a negative result */
	/* kept by pinger.c */
	uint32_t number;		/* of the last ping */
	uint64_t sum;			/* the other end's word, for atomics */
	int sending;			/* requests without completion */
};

/* What pings of one size came to. */
struct pinger_result {
	struct histogram times;		/* ns of a round trip */
	int64_t sent, lost, wrong;
	int64_t rate;			/* bytes per second, one way; 0: not measured */
	int64_t messages;		/* per second */
};

/* Messages that may be under way, receives, and bytes of the region, for such a plan. */
int pinger_window(const struct plan *plan);
size_t pinger_bytes(const struct plan *plan);

/* All receives of the other end or of this one; in INIT. */
int pinger_refill(const struct pinger *pinger, struct ibv_qp *qp);

/*
 * The first ping, which is not counted.  Of UC and UD the other end may not be ready yet:
 * it is repeated until @until.  Returns the time it took, or as pinger_measure().
 */
int64_t pinger_first(struct pinger *pinger, int64_t until);

/*
 * Pings of @size bytes as planned; @seen, if not NULL, is called after each.  What was
 * measured until a failure is in @result.  Returns 0, -ECANCELED after session_signal(), or a
 * negative errno with a sentence.
 */
int pinger_measure(struct pinger *pinger, uint32_t size, struct pinger_result *result,
		   void (*seen)(void *data, const struct pinger_result *result), void *data);

/*
 * The other end: sends one message back, or waits @idle in vain.  Returns 1, 0, or a
 * negative errno with a sentence.
 */
int pinger_answer(struct pinger *pinger, int64_t idle);

/* Of RC: is the other end's device there?  It needs no memory of it.  As pinger_measure(). */
int pinger_touch(struct pinger *pinger);

#endif
