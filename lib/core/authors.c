/* SPDX-License-Identifier: MIT */
/* authors.c - see authors.h */
#include "config.h"

#include <errno.h>

#include "lib/base/clock.h"
#include "lib/core/authors.h"

/*
 * How long an author counts as alive after its presence was read or it confirmed a queue
 * pair.  A look for its presence may take as long, since it decides whether a record is
 * used.
 */
#define AUTHOR_TIME BEEST_SECOND

void beest_authors_start(struct beest_authors *authors)
{
	pthread_mutex_init(&authors->lock, NULL);
}

void beest_authors_end(struct beest_authors *authors)
{
	pthread_mutex_destroy(&authors->lock);
}

/* Each incarnation has one row, chosen by its last byte, which is random. */
static size_t author_row(const struct beest_incarnation *incarnation)
{
	return incarnation->bytes[BEEST_INCARNATION_SIZE - 1];
}

void beest_authors_note(struct beest_authors *authors,
			const struct beest_incarnation *incarnation)
{
	size_t i = author_row(incarnation);

	pthread_mutex_lock(&authors->lock);
	authors->row[i].incarnation = *incarnation;
	authors->row[i].until = beest_clock_deadline(AUTHOR_TIME);
	pthread_mutex_unlock(&authors->lock);
}

void beest_authors_forget(struct beest_authors *authors,
			  const struct beest_incarnation *incarnation)
{
	size_t i = author_row(incarnation);

	pthread_mutex_lock(&authors->lock);
	if (beest_process_is_context(&authors->row[i].incarnation, incarnation))
		authors->row[i].until = 0;
	pthread_mutex_unlock(&authors->lock);
}

bool beest_authors_know(struct beest_authors *authors,
			const struct beest_incarnation *incarnation)
{
	size_t i = author_row(incarnation);
	bool known;

	pthread_mutex_lock(&authors->lock);
	known = beest_process_is_context(&authors->row[i].incarnation, incarnation) &&
		beest_clock_now() < authors->row[i].until;
	pthread_mutex_unlock(&authors->lock);

	return known;
}

void beest_authors_ask(struct beest_authors *authors, struct beest_registry *registry,
		       struct beest_presence_query *queries, size_t count)
{
	size_t i;

	beest_presence_query(registry, queries, count, beest_clock_deadline(AUTHOR_TIME));
	for (i = 0; i < count; i++)
		if (queries[i].ret != -ESTALE)
			beest_authors_note(authors, queries[i].incarnation);
}
