/* SPDX-License-Identifier: MIT */
/*
 * missing.h - who has not come, and why
 *
 * Owns the sentences about missing ranks, and the question whether one of them will never come.
 * Knows nothing of the order in which ranks do things.
 */
#ifndef BEEST_MISSING_H
#define BEEST_MISSING_H

#include "lib/rendezvous/tally.h"

struct beest_missing {
	const struct beest_tally *tally;	/* in which they are missing */
	/* Of a roll call whose ranks have come, and say in @tally that they know all; else NULL. */
	const struct beest_tally *came;
	const struct beest_limit *limit;
	uint64_t since;			/* the number of the last request before the wait */
	bool returned;			/* out: some have passed, and have yet to come again */
};

/* Calls @report with the ids of the missing ranks, if there are any. */
void beest_missing_report(const struct beest_missing *missing,
			  void (*report)(void *data, bool known, const int *ids, size_t count),
			  void *data);

/*
 * After a roll call, whose incarnations @expected has @stride bytes apart: 0, or why some of the
 * missing ranks will not come: -ESTALE, -ESHUTDOWN, -ECONNABORTED.  @late gets the processes that
 * have the rank of others; returns their number in *@late_count.  Asks for a few ranks, from number
 * *@turn on.
 */
#define BEEST_MISSING_ASKED 64
int beest_missing_judge(const struct beest_missing *missing, const uint8_t *expected,
			size_t stride, size_t *turn, int64_t deadline,
			struct beest_incarnation late[BEEST_MISSING_ASKED], size_t *late_count);

/* -ETIMEDOUT or -EAGAIN names the missing; 0: nobody is missing. */
int beest_missing_fail(struct beest_missing *missing);

#endif
