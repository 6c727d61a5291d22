/* SPDX-License-Identifier: MIT */
/*
 * pairset.h - the pairs that a program gives to one call
 *
 * Owns what struct hartebeest_pair demands, what this end does before it looks for the peer, and
 * what the struct receives.  Also shows what is known of a peer in the public structs.  Knows
 * nothing of how the peer's record gets here.
 */
#ifndef BEEST_PAIRSET_H
#define BEEST_PAIRSET_H

#include "include/hartebeest.h"
#include "lib/core/context.h"

void beest_pairs_show_peer(const struct beest_endpoint *remote, struct hartebeest_remote_qp *out);
void beest_pairs_show_address(const struct beest_ud_peer *peer, struct hartebeest_ud_address *out);

struct beest_pairing {
	struct hartebeest_pair *pair;
	struct beest_qp *qp;
};

struct beest_pairset {
	struct hartebeest_context *hb;
	struct hartebeest_pair *first;
	size_t step;			/* from one to the next, in bytes */
	size_t count;			/* those whose struct is good */
	struct beest_pairing *list;
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

/* The first pair that failed; one with -EAGAIN is last, since another call may succeed. */
const struct hartebeest_pair *beest_pairset_failed(const struct beest_pairset *set);

/* Notes @ret with the thread's sentence as the result of this pair alone. */
void beest_pairing_fail(struct hartebeest_pair *pair, int ret);

bool beest_pairing_is_datagram(const struct beest_pairing *pairing);

/*
 * Takes the queue pair to INIT, unless it is connected to this very peer, and has it offer the
 * regions of the pair.
 */
int beest_pairing_start(struct hartebeest_context *hb, struct beest_pairing *pairing,
			const struct beest_limit *limit);

/* Takes as many regions of the peer as there is room for. */
void beest_pairing_take_regions(struct hartebeest_pair *pair, const struct beest_qp_body *peer,
				const struct beest_record *record);

/* The pair is connected to @peer: fills the struct, and notes if its regions do not fit. */
void beest_pairing_end(struct hartebeest_context *hb, struct hartebeest_pair *pair,
		       const struct beest_endpoint *peer);

#endif
