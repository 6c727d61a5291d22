/* SPDX-License-Identifier: MIT */
/*
 * wanted.h - what a wait is to bring: records of others, and own ones that must be stored
 *
 * Owns these structs, which a caller fills in.  Knows nothing of how they are waited for.
 */
#ifndef BEEST_WANTED_H
#define BEEST_WANTED_H

#include "lib/rendezvous/look.h"

/* Whose records count. */
enum beest_wait_authors {
	BEEST_AUTHORS_ALL,
	BEEST_AUTHORS_PRESENT,	/* processes that no other has replaced in their rank */
	BEEST_AUTHORS_OWN_RUN,	/* ... or that left before; see beest_presence_disowns() */
};

/* A record to wait for. */
struct beest_wait_get {
	enum beest_record_kind kind;
	const char *key;
	const char *name;		/* of the record, for sentences */
	const char *noun;		/* what it names; NULL: that of its kind */
	/*
	 * Called each time that the record is seen.  1: accepted; 0: not yet; a negative errno
	 * with a sentence ends the wait.  A malformed record counts as absent until the
	 * deadline, since a living peer may replace it.
	 */
	int (*see)(void *data, const struct beest_record *record);
	/* In place of see(), if the value is a list: called also when it is absent. */
	int (*see_list)(void *data, const struct beest_kv_value *value);
	void *data;
	/*
	 * The presence of an author that is not known is read before see() is called.  If see()
	 * changes this, it is called again, after that.
	 */
	enum beest_wait_authors authors;
	const char *unmet;		/* why it is not accepted, for the sentence; or NULL */
	const char *placed_as;		/* the key that chooses the server; NULL: key */
	bool recheck;			/* read again in turn after it arrived; the wait clears
					   it if it goes on without this record */

	/* The author, whose leaving ends the wait; see() sets it once it is known. */
	bool has_author;
	int32_t rank;
	struct beest_incarnation author;
	/*
	 * Called if the author has left and is not back a second later, or if it has failed and
	 * has no rank: the wait goes on without this record.  NULL: that ends the wait.
	 */
	void (*left)(void *data, int ret);

	/* Kept by the wait. */
	uint64_t unique;		/* of the value, if the wait has uniques */
	size_t server;
	bool got;
	bool answered;			/* whether it is there was known at least once */
	bool had;			/* got before: getting it again is no progress */
	size_t list_size;		/* as read last: a list that grows is progress */
	int64_t leaving_at;		/* when it was first seen that the author has left; 0: no */
	int seen;			/* 0: never, 1: seen and not accepted, negative: refused */
	char trouble[BEEST_PRESENCE_TEXT + 64];	/* what is known of it, for the sentence */
	bool unknown;			/* the author of @record is, and has to be asked for */
	struct beest_record record;	/* as this look has read it */
};

struct beest_wait {
	struct beest_wait_get *gets;
	size_t count;
	/* If each() changes the count: the greatest; 0: it stays.  Later gets need their server. */
	size_t most;
	const char *const *own_keys;	/* of own records that must be stored, too */
	size_t own_count;
	struct beest_look_extra *extras;	/* go along with each look until they are done */
	size_t extra_count;
	/*
	 * Called after every look that has not ended the wait already.  1 ends it with success,
	 * a negative errno with that.  May be NULL.
	 */
	int (*each)(void *data);
	void *data;
	/*
	 * Called after a second, then ever more rarely, if warnings are logged: logs who of those
	 * that are waited for has ended.  True: one has, and that is enough.  NULL: the authors of
	 * the gets.
	 */
	bool (*ended_log)(void *data);
	const struct beest_limit *limit;
	/* Receives other possible reasons if the limit ends the wait; may be NULL. */
	struct beest_text *hints;

	int readers;			/* how many ranks read so at a time; 0: all of the job */
	bool meets;			/* looks for others of this rank, as the first wait does */
	bool uniques;			/* also reads the unique of each value */

	/* Set by see() or each(): */
	bool hurry;			/* no pause before the next look */
	int64_t expected;		/* how many ns the wait may still take; 0: unknown */

	/* Kept by the wait. */
	uint64_t since;			/* the number of the last request before the wait */
	bool failing;			/* a needed server failed at the last look or, if the limit
					   ended the wait, is what it ends with */
	bool expired;			/* the limit ended the wait */
};

#endif
