/* SPDX-License-Identifier: MIT */
/*
 * requests.h - the request table of a service, as its list shows it
 *
 * Owns the meaning of the list's entries: who listens, and how far each request is.  Also
 * keeps what the listener knows of each, which outlives the list.  Talks to no server.
 */
#ifndef BEEST_REQUESTS_H
#define BEEST_REQUESTS_H

#include "lib/rendezvous/list.h"

struct beest_requests_row {
	struct beest_request_id id;
	bool asks, accepted, ended;	/* as the list has it now */
	bool named;			/* is in named[] */
	/* The listener's own. */
	bool again;			/* an earlier listener has accepted it */
	bool accepted_here;		/* this one has accepted it */
	bool closed;			/* it is never given to a program again */
	int64_t last_at;		/* when it was open last, or was given up */
	int64_t read_at, pause;		/* when its record is read next */
	int64_t absent;			/* since when its record is absent; 0: it is not */
};

struct beest_requests {
	struct beest_requests_row *rows;	/* in the order in which they were seen first */
	size_t count, room;
	uint32_t *places;		/* by hash: 1 + the index of a request; 0: free */
	size_t place_count;		/* a power of two */
	uint32_t *named;		/* indices of those that the list names, the oldest first */
	size_t named_count;
	size_t asked, accepted;		/* how many of these are open, without those closed */

	/*
	 * The latest listener that was ever seen, see beest_requests_listens_after(): when the
	 * list is lost, no earlier one takes its place.
	 */
	bool listens;			/* the list shows it now, ... */
	bool stopped;			/* ... and that it does not any longer */
	int32_t rank;
	struct beest_incarnation listener;
	uint64_t since;

	size_t bytes;			/* of the list */
	size_t unread;			/* of these, those that are no entry for this process */
	bool full;			/* it can become no longer, see beest_directory_see() */
};

/*
 * A list keeps so many bytes that a process cannot read, which may be entries of another version
 * or secret.
 */
#define BEEST_REQUESTS_UNREAD (16 * 1024)

void beest_requests_end(struct beest_requests *requests);

/*
 * Takes what a look has read, an absent list too.  Goes through what the list names, not through
 * all that is remembered.  -ENOMEM, -EIO.
 */
int beest_requests_see(struct beest_requests *requests, const struct beest_list *list,
		       const struct beest_kv_value *value);

/* NULL: it was never seen. */
struct beest_requests_row *beest_requests_find(const struct beest_requests *requests,
					       const struct beest_request_id *id);

/*
 * Forgets requests that are not open, and have not been for longer than @time.  The listener need
 * not remember that it accepted them: their records have expired, too.
 */
void beest_requests_forget(struct beest_requests *requests, int64_t time);

/*
 * Did the listener begin after a process that began at @since?  Of two that began in the same
 * second, it is the one with the greater incarnation, whatever the order of their entries.
 */
bool beest_requests_listens_after(const struct beest_requests *requests, uint64_t since,
				  const struct beest_incarnation *incarnation);

/* One of those that the list names. */
struct beest_requests_row *beest_requests_named(const struct beest_requests *requests, size_t i);

/* Does a listener have to handle this request? */
static inline bool beest_requests_is_open(const struct beest_requests_row *request)
{
	return (request->asks || request->accepted) && !request->ended;
}

/* Should the list be written again: is it much longer than it has to be, or nearly full? */
bool beest_requests_is_long(const struct beest_requests *requests);

#endif
