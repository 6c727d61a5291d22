/* SPDX-License-Identifier: MIT */
/*
 * pinger.h - pings over a connected queue pair, and the other end's answers
 *
 * Owns the layout of the region, the data of a ping, and the check that it returned
 * right.  Knows nothing of how the queue pair was connected, and prints nothing.
 *
 * If the other end's device does the work (write, read and atomics over RC), a ping lasts
 * until its completion.  The check needs another transfer, which is not timed: what was
 * written is read back, and what is read was written before.  Otherwise the other end sends
 * each message back by pinger_answer(), and a ping lasts until its echo arrives.
 */
#ifndef TOOLS_PINGER_H
#define TOOLS_PINGER_H

#include <hartebeest.h>

#include "tools/histogram.h"
#include "tools/plan.h"

struct pinger {
	/* in */
	struct hartebeest_context *hb;
	const struct plan *plan;
	struct ibv_qp *qp;
	struct ibv_cq *send_cq;		/* may be shared with idle queue pairs */
	struct ibv_cq *recv_cq;		/* where the other end answers */
	struct ibv_mr *mr;		/* of pinger_bytes() */
	struct hartebeest_remote_mr there;	/* the other end's */
	struct hartebeest_ud_address address;	/* UD */
	int64_t patience;		/* ns, for a completion or an echo */
	/* out */
	char why[600];			/* the sentence for a negative errno */
	/* kept by pinger.c */
	uint32_t number;		/* of the last ping */
	uint64_t sum;			/* what the other end's word should be, for atomics */
	int sending;			/* requests without completion */
};

/* The result of all pings of one size. */
struct pinger_result {
	struct histogram times;		/* ns of a round trip */
	int64_t sent, lost, wrong;
	int64_t rate;			/* bytes per second, one way; 0: not measured */
	int64_t messages;		/* per second */
	int64_t both;			/* bytes per second of writes and reads at once, both ways
					   together; 0: not measured */
};

/* Messages that may be outstanding, which is also the number of receives. */
int pinger_window(const struct plan *plan);

/* The size of the region. */
size_t pinger_bytes(const struct plan *plan);

/* Posts all receives, at either end, to a queue pair in INIT. */
int pinger_refill(const struct pinger *pinger, struct ibv_qp *qp);

/*
 * The first ping, which is not counted.  Over UC and UD it is repeated until @until, since the
 * other end may not be ready yet.  Returns its time in ns, or an error as pinger_measure().
 */
int64_t pinger_first(struct pinger *pinger, int64_t until);

/*
 * Pings with @size bytes as planned.  @seen is called after each ping, unless NULL.  After a
 * failure @result has what was measured before.  Returns 0, -ECANCELED if session_signal() is
 * set, or a negative errno with a sentence.
 */
int pinger_measure(struct pinger *pinger, uint32_t size, struct pinger_result *result,
		   void (*seen)(void *data, const struct pinger_result *result), void *data);

/*
 * At the other end: sends one message back.  Returns 1, 0 if none arrived for @idle ns, or a
 * negative errno with a sentence.
 */
int pinger_answer(struct pinger *pinger, int64_t idle);

/*
 * RC only: does the other end's device still answer?  Writes 0 bytes, for which it needs no
 * memory there.  Returns as pinger_measure().
 */
int pinger_touch(struct pinger *pinger);

#endif
