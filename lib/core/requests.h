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

/* How far a request is in the list: the greatest of its words counts. */
enum beest_request_listed {
	BEEST_LISTED_NOT,
	BEEST_LISTED_BEFORE,		/* only while a list is read: the one before has it */
	BEEST_LISTED_ASKED = BEEST_SERVICE_ASKS,
	BEEST_LISTED_ACCEPTED = BEEST_SERVICE_ACCEPTED,
	BEEST_LISTED_ENDED = BEEST_SERVICE_ENDED,
};

/* What the listener knows of a request.  It outlives the list, and only grows while it listens. */
enum beest_request_state {
	BEEST_REQUEST_PENDING,		/* no listener has accepted it */
	BEEST_REQUEST_INHERITED,	/* an earlier one has */
	BEEST_REQUEST_ACCEPTED,		/* this one has */
	BEEST_REQUEST_CLOSED,		/* it is never given to a program again */
};

struct beest_requests_row {
	struct beest_request_id id;
	enum beest_request_listed listed;	/* now */
	enum beest_request_state state;
	int64_t last_at;		/* when it was open last, or was closed here */
	int64_t read_at;		/* when the listener reads its record next; 0: at once */
	int64_t absent_at;		/* since when its record is absent; 0: it is not */
};

struct beest_requests {
	struct beest_requests_row *rows;	/* in the order in which they were seen first */
	size_t count, room;
	uint32_t *places;		/* by hash: 1 + the index of a request; 0: free */
	size_t place_count;		/* a power of two */
	uint32_t *named;		/* indices of those that the list names, the oldest first */
	size_t named_count;
	size_t asked, accepted;		/* how many of these are not over */

	/*
	 * The latest listener that was ever seen, see beest_requests_listens_after(): when the
	 * list is lost, no earlier one takes its place.
	 */
	uint8_t shows;			/* BEEST_SERVICE_LISTENS or _STOPS: what the list has of it
					   now; 0: nothing */
	int32_t rank;
	struct beest_incarnation listener;
	uint64_t since;

	size_t bytes;			/* of the list */
	size_t unread;			/* of these, those that are no entry for this process */
	bool full;			/* it takes no further entry, see beest_directory_see() */
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

/* How far the request is by the list and by what the listener knows, which may be more. */
enum beest_request_listed beest_requests_reached(const struct beest_requests_row *row);

/* Is it in the list, and not ended there? */
static inline bool beest_requests_is_open(const struct beest_requests_row *row)
{
	return row->listed == BEEST_LISTED_ASKED || row->listed == BEEST_LISTED_ACCEPTED;
}

/* With one entry more, could this process not store the list again? */
static inline bool beest_requests_is_large(const struct beest_requests *requests)
{
	return requests->bytes > BEEST_VALUE_MAX - BEEST_ENTRY_MAX;
}

/* Should the list be written again: is it much longer than it has to be, or nearly full? */
bool beest_requests_is_long(const struct beest_requests *requests);

#endif
