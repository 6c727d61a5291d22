/* SPDX-License-Identifier: MIT */
/*
 * authors.h - which authors of records are known to be alive
 *
 * Owns a small memory of incarnations: those that have confirmed a queue pair, or whose
 * presence was read, a moment ago.  It may forget anything, which costs a question.  Knows
 * nothing of what they have published.
 */
#ifndef BEEST_AUTHORS_H
#define BEEST_AUTHORS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "lib/rendezvous/registry.h"

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

/* It is alive, which counts for a second: another process may take its place at any time, ... */
void beest_authors_note(struct beest_authors *authors,
			const struct beest_incarnation *incarnation);

/* ... or has done so. */
void beest_authors_forget(struct beest_authors *authors,
			  const struct beest_incarnation *incarnation);
bool beest_authors_know(struct beest_authors *authors,
			const struct beest_incarnation *incarnation);

/*
 * One look for the presence of each: -ESTALE where another process has its place.  All others
 * are known for a second: what cannot be asked is no reason against anybody.
 */
void beest_authors_ask(struct beest_authors *authors, struct beest_registry *registry,
		       struct beest_presence_query *queries, size_t count);

#endif
