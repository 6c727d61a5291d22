/* SPDX-License-Identifier: MIT */
/*
 * roster.h - the requests of a service, as its list shows them
 *
 * Owns the meaning of the list's entries: who listens, and what was said of each request.  Also
 * keeps what the listener knows of each, which outlives the list.  Talks to no server.
 */
#ifndef BEEST_ROSTER_H
#define BEEST_ROSTER_H

#include "lib/rendezvous/list.h"

struct beest_roster_request {
	struct beest_request_id id;
	bool asks, had, ended;		/* what the list says of it now */
	bool named;			/* is in named[] */
	/* The listener's own. */
	bool again;			/* an earlier listener has had it */
	bool taken;			/* this one has had it */
	bool over;			/* it is never given to anybody again */
	int64_t last_at;		/* when it was open last, or was given up */
	int64_t read_at, pause;		/* when its record is read next */
	int64_t absent;			/* since when its record is absent; 0: it is not */
};

struct beest_roster {
	struct beest_roster_request *requests;	/* in the order in which they were seen first */
	size_t count, room;
	uint32_t *places;		/* by hash: 1 + the index of a request; 0: free */
	size_t place_count;		/* a power of two */
	uint32_t *named;		/* indices of those that the list names, the oldest first */
	size_t named_count;
	size_t pending, accepted;	/* how many of these are open, without those over */

	/*
	 * The latest listener that was ever seen, see beest_roster_comes_after(): when the list is
	 * lost, no earlier one takes its place.
	 */
	bool listens;			/* the list says so now, ... */
	bool stopped;			/* ... and that it does not any longer */
	int32_t rank;
	struct beest_incarnation listener;
	uint64_t since;

	size_t bytes;			/* of the list */
	size_t unread;			/* of these, those that are no entry for this process */
	bool full;			/* it can become no longer, see beest_home_see() */
};

/*
 * A list keeps so many bytes that a process cannot read, which may be entries of another version
 * or secret.
 */
#define BEEST_ROSTER_UNREAD (16 * 1024)

void beest_roster_end(struct beest_roster *roster);

/*
 * Takes what a look has read, an absent list too.  Goes through what the list names, not through
 * all that is remembered.  -ENOMEM, -EIO.
 */
int beest_roster_see(struct beest_roster *roster, const struct beest_list *list,
		     const struct beest_kv_value *value);

/* NULL: it was never seen. */
struct beest_roster_request *beest_roster_find(const struct beest_roster *roster,
					       const struct beest_request_id *id);

/*
 * Forgets requests that are not open, and have not been for longer than @time.  The listener need
 * not remember that it had them: their records have expired, too.
 */
void beest_roster_forget(struct beest_roster *roster, int64_t time);

/*
 * Did the listener begin after a process that began at @since?  Of two that began in the same
 * second, it is the one with the greater incarnation, whatever the order of their entries.
 */
bool beest_roster_comes_after(const struct beest_roster *roster, uint64_t since,
			      const struct beest_incarnation *incarnation);

/* One of those that the list names. */
struct beest_roster_request *beest_roster_named(const struct beest_roster *roster, size_t i);

/* Does anybody have to listen to this request? */
static inline bool beest_roster_is_open(const struct beest_roster_request *request)
{
	return (request->asks || request->had) && !request->ended;
}

/* Should the list be written again: is it much longer than it has to be, or nearly full? */
bool beest_roster_is_long(const struct beest_roster *roster);

#endif
