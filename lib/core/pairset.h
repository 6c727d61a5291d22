/* SPDX-License-Identifier: MIT */
/*
 * pairset.h - the pairs that a program gives to one call
 *
 * Owns what struct hartebeest_pair demands, what this end does before it looks for the peer, and
 * what the struct receives.  Knows nothing of how the peer's record gets here.
 */
#ifndef BEEST_PAIRSET_H
#define BEEST_PAIRSET_H

#include "include/hartebeest.h"
#include "lib/core/handshake.h"

struct beest_pairset {
	struct hartebeest_context *hb;
	struct hartebeest_pair *first;
	size_t step;			/* from one to the next, in bytes */
	size_t count;			/* those whose struct is good */
	struct beest_handshake *list;	/* one for each */
};

/*
 * Checks all pairs, and finds their queue pairs: one that is not there has its result.  Call
 * beest_pairset_close() in any case.  @keeps: what the structs have of their peers stays.
 */
int beest_pairset_open(struct beest_pairset *set, struct hartebeest_context *hb,
		       struct hartebeest_pair *first, size_t count, bool keeps);
void beest_pairset_close(struct beest_pairset *set);

/* The call fails as a whole: no pair may look as if it were connected.  Returns @ret. */
int beest_pairset_refuse(const struct beest_pairset *set, int ret);

/*
 * The result of the call: that of the first pair that failed, preferably not -EAGAIN, since another
 * call may succeed; 0: none has.  @wait: shows how long the call has waited; NULL: it did not.
 */
int beest_pairset_result(const struct beest_pairset *set, const struct beest_wait *wait);

/* Notes @ret with the thread's sentence as the result of this pair alone. */
void beest_pairing_fail(struct hartebeest_pair *pair, int ret);

bool beest_pairing_is_datagram(const struct beest_handshake *pairing);

/*
 * Takes the queue pair to INIT, unless it is connected to this very peer, and has it offer the
 * regions of the pair.
 */
int beest_pairing_start(struct beest_handshake *pairing, const struct beest_limit *limit);

/* The pair is connected: fills the struct, and notes if the regions of the peer do not fit. */
void beest_pairing_end(struct beest_handshake *pairing);

#endif
