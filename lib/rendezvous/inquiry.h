/* SPDX-License-Identifier: MIT */
/*
 * inquiry.h - what the servers know when a wait has ended in vain
 *
 * Owns the questions that are asked once, for the sake of a sentence: what keeps records from a
 * server, and whether the other ranks are in the job and what they wait for.  Knows nothing of
 * waiting, and changes nothing that a later wait depends on.
 */
#ifndef BEEST_INQUIRY_H
#define BEEST_INQUIRY_H

#include "lib/rendezvous/registry.h"

/* How long all questions of one kind may take together. */
#define BEEST_INQUIRY_TIME (250 * BEEST_MS)

/* Is a wait of this length worth a question?  A program repeats a shorter one at any rate. */
bool beest_inquiry_fits(const struct beest_limit *limit);

/*
 * Adds that a server which answers this process takes no new connections, or has evicted records.
 * @kind: of a record that was never seen there; BEEST_KIND_ANY: none is missing.
 */
void beest_inquiry_server(struct beest_registry *registry, size_t server,
			  enum beest_record_kind kind, int64_t deadline, struct beest_text *text);

/*
 * Adds who has each other rank: "rank 1 on cn08, pid 17, which last waited for barrier 'b'", or
 * that some are not seen.  True: all are in the job, so job id and servers are not the reason.
 * False also for jobs whose size is unknown or large, whose ranks are not asked for.
 */
bool beest_inquiry_ranks(struct beest_registry *registry, int64_t deadline,
			 struct beest_text *text);

#endif
