/* SPDX-License-Identifier: MIT */
/*
 * epoch.h - has a server lost what it had?
 *
 * Owns the 16 random bytes that the first process adds to a server and that no process
 * ever sets.  As long as they stay the same, the server has lost nothing but what it
 * evicted.  Pure.  Knows nothing of requests.
 */
#ifndef BEEST_EPOCH_H
#define BEEST_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/kv/request.h"

#define BEEST_EPOCH_SIZE 16
#define BEEST_EPOCH_TTL (BEEST_TTL_MAX / BEEST_SECOND)

struct beest_epoch {
	bool known;
	uint8_t bytes[BEEST_EPOCH_SIZE];
	bool changed;			/* it was learned in place of another one, ... */
	uint8_t previous[BEEST_EPOCH_SIZE];	/* ... which no server should have any more */
	/*
	 * It was known earlier.  If the server evicted both, a process that had not looked in
	 * between has added the one that it knew, since its records were still there.
	 */
	bool returned;
	uint64_t learned;		/* number of requests begun when it was learned */
	uint64_t brought;		/* number of the last request that has brought it */
};

enum beest_epoch_verdict {
	BEEST_EPOCH_SAME,
	BEEST_EPOCH_FIRST,		/* learned now, nothing was stored before */
	BEEST_EPOCH_CHANGED,		/* learned now: what was stored before is lost */
	BEEST_EPOCH_AGAIN,		/* both were seen again: two servers answer in turn */
	/* The request began before the known one was learned: what it stored may be lost. */
	BEEST_EPOCH_OUTDATED,
	BEEST_EPOCH_ALIEN,		/* not an epoch */
};

/*
 * Judges what request @number has read, no bytes if it did not ask; @begun: number of requests
 * begun so far.
 */
enum beest_epoch_verdict beest_epoch_judge(struct beest_epoch *epoch,
					   const struct beest_kv_value *value, uint64_t number,
					   uint64_t begun);

#endif
