/* SPDX-License-Identifier: MIT */
/*
 * epoch.h - has a server lost what it had?
 *
 * Owns the 16 random bytes that whoever comes first adds to a server, and that nobody
 * ever sets: as long as they are the same, the server has lost nothing but what it
 * evicted.  Pure.  Knows nothing of requests.
 */
#ifndef BEEST_EPOCH_H
#define BEEST_EPOCH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/clock.h"
#include "lib/kv/kv.h"

#define BEEST_EPOCH_SIZE 16
#define BEEST_EPOCH_TTL (BEEST_TTL_MAX / BEEST_SECOND)

struct beest_epoch {
	bool known;
	uint8_t bytes[BEEST_EPOCH_SIZE];
	uint64_t learned;		/* how many requests had begun by then */
};

enum beest_epoch_verdict {
	BEEST_EPOCH_SAME,
	BEEST_EPOCH_FIRST,		/* learned now, nothing was stored before */
	BEEST_EPOCH_CHANGED,		/* learned now: what was stored before is lost */
	BEEST_EPOCH_OUTDATED,		/* the request began before the present one was learned */
	BEEST_EPOCH_ALIEN,		/* no epoch at all */
};

/* What request @number has read, when @begun requests had begun. */
enum beest_epoch_verdict beest_epoch_judge(struct beest_epoch *epoch,
					   const struct beest_kv_value *value, uint64_t number,
					   uint64_t begun);

#endif
