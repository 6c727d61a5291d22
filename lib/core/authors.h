/* SPDX-License-Identifier: MIT */
/*
 * authors.h - which authors of records are known to be alive
 *
 * Owns a small memory of incarnations: those that have confirmed a queue pair, which is
 * proof for ever, and those whose presence was read a moment ago.  It may forget anything,
 * which costs a question.  Knows nothing of servers.
 */
#ifndef BEEST_AUTHORS_H
#define BEEST_AUTHORS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/base/process.h"

#define BEEST_AUTHORS_ROOM 256

struct beest_authors {
	pthread_mutex_t lock;
	struct {
		struct beest_incarnation incarnation;
		int64_t until;		/* of the monotonic clock */
	} row[BEEST_AUTHORS_ROOM];
};

void beest_authors_start(struct beest_authors *authors);
void beest_authors_end(struct beest_authors *authors);

/* @until: INT64_MAX for one that has confirmed. */
void beest_authors_note(struct beest_authors *authors,
			const struct beest_incarnation *incarnation, int64_t until);
bool beest_authors_know(struct beest_authors *authors,
			const struct beest_incarnation *incarnation);

#endif
