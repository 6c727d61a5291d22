/* SPDX-License-Identifier: MIT */
/*
 * authors.h - which authors of records are known to be alive
 *
 * Owns a small cache of incarnations that confirmed a queue pair, or whose presence was
 * read, a moment ago.  The cache may forget any of them, which costs another question.
 * Knows nothing of what they published.
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
		int64_t until;		/* of beest_clock_now() */
	} row[BEEST_AUTHORS_ROOM];
};

void beest_authors_start(struct beest_authors *authors);
void beest_authors_end(struct beest_authors *authors);

/* Alive now.  Counts for a second, since another process may take its place at any time. */
void beest_authors_note(struct beest_authors *authors,
			const struct beest_incarnation *incarnation);

/* Another process has taken its place. */
void beest_authors_forget(struct beest_authors *authors,
			  const struct beest_incarnation *incarnation);
bool beest_authors_know(struct beest_authors *authors,
			const struct beest_incarnation *incarnation);

/*
 * Reads the presence of all of them in one look.  Sets ret of a query to -ESTALE if another
 * process has that rank now.  Notes all other authors as alive, also those whose server did
 * not answer: silence is no evidence against them.
 */
void beest_authors_ask(struct beest_authors *authors, struct beest_registry *registry,
		       struct beest_presence_query *queries, size_t count);

#endif
