/* SPDX-License-Identifier: MIT */
/*
 * wait.h - until all that is wanted is there
 *
 * Owns all waiting: the pauses between looks, the deadline, what was seen of each record,
 * and the sentence about what did not come.  Watches the own presence, the list of
 * servers and the news meanwhile.  Knows nothing of verbs.
 */
#ifndef BEEST_WAIT_H
#define BEEST_WAIT_H

#include "lib/rendezvous/look.h"

/* One record that is waited for. */
struct beest_wait_get {
	enum beest_record_kind kind;
	const char *key;
	const char *name;		/* of the record, for sentences */
	/*
	 * Asked at every sight of it; 1: this is it; 0: not yet; a negative errno with a
	 * sentence ends the wait.  What is not well formed counts as absent until the
	 * deadline, since a living peer may replace it.
	 */
	int (*see)(void *data, const struct beest_record *record);
	void *data;
	const char *unmet;		/* what it "is" when not accepted, for the sentence */
	const char *placed_as;		/* the key that chooses the server; NULL: key */
	bool recheck;			/* asked again in turn, after it came */

	/* Whose leaving ends the wait; see() sets it when it knows. */
	bool has_author;
	int32_t rank;
	struct beest_incarnation author;
	/*
	 * Its author has left, and is not back a second later, or it has failed and has no
	 * rank: the wait goes on without it; NULL: that ends the wait.
	 */
	void (*left)(void *data, int ret);

	/* kept by the wait */
	bool given_up;
	size_t server;
	bool got;
	bool had;			/* got once: to get it again is no progress */
	struct beest_incarnation leaver;	/* an author that said that it leaves, ... */
	int64_t leaving_at;		/* ... and since when; 0: nobody did */
	int seen;			/* 0: never, 1: seen and not accepted, negative: refused */
	char trouble[200];		/* what is known of it, for the sentence */
};

#define BEEST_WAIT_ASIDES 2

struct beest_wait {
	struct beest_wait_get *gets;
	size_t count;
	const char *const *own_keys;	/* of own records that a server must have, too */
	size_t own_count;
	struct beest_look_extra *extras;	/* go along until they are done */
	size_t extra_count;
	/*
	 * Called after every look that a server answered.  1 ends the wait with success, a
	 * negative errno with that.  May be NULL.
	 */
	int (*each)(void *data);
	/*
	 * Keys that each look asks the first get's server for besides, NULL: none.  From what is
	 * there, and from how long the look @took, aside() says how long the wait may take yet,
	 * 0: no idea; before see() and each().  It may keep a value by taking it away.  NULL:
	 * there are no such keys.
	 */
	const char *asides[BEEST_WAIT_ASIDES];
	int64_t (*aside)(void *data, struct beest_look_want *asides, int64_t took);
	void *data;
	const struct beest_limit *limit;
	/* Receives, where the limit ends the wait, what else may be the reason; may be NULL. */
	struct beest_text *hints;

	bool hurry;			/* set by see() or each(): no pause before the next look */

	/* kept by the wait */
	uint64_t since;			/* the number of the last request before it */
	bool expired;			/* nothing ended it but the limit */
};

/*
 * -ETIMEDOUT, or -EAGAIN where one look was asked for, names what did not come and what is
 * known of it; -ECANCELED; -EADDRINUSE: another process has this rank; -EPROTO: others name
 * other servers or ranks; -ESHUTDOWN, -ECONNABORTED: who is waited for has left or failed;
 * else what see(), each(), the decoder (-EBADMSG, -EPROTONOSUPPORT) or the server said last.
 */
int beest_wait_run(struct beest_registry *registry, struct beest_wait *wait);

/*
 * What is known of one that did not come within a wait that has expired: "no queue pair 'b' (key
 * ...) was published".  Returns the error of this one alone.
 */
int beest_wait_say(struct beest_registry *registry, const struct beest_wait *wait,
		   const struct beest_wait_get *get, char *text, size_t size);

#endif
