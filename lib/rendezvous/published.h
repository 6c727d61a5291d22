/* SPDX-License-Identifier: MIT */
/*
 * published.h - what this context has put on the servers, and keeps there
 *
 * Owns a copy of every record, so that one that a server lost (restart, eviction)
 * can be put back, one that grows old be put anew, and all be taken back at the end.
 * Knows nothing of wishes and waiting.
 *
 * The list belongs to the process that uses it first.  A forked child neither reads
 * nor changes it: its lock may have been held by a thread that does not exist there.
 * The list is never locked while talking to a server.
 */
#ifndef BEEST_PUBLISHED_H
#define BEEST_PUBLISHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/kv/kv.h"
#include "lib/base/log.h"
#include "lib/rendezvous/record.h"

struct beest_published;

/* @ttl in ns, 0: for ever.  -ENOMEM. */
int beest_published_open(struct beest_published **published,
			 struct beest_kv *exchange, int64_t ttl,
			 const struct beest_log *log);
void beest_published_close(struct beest_published *published);

/* False in a child that was forked after the first use; nothing below works there. */
bool beest_published_mine(struct beest_published *published);

/* Seconds, as Memcached takes it. */
int64_t beest_published_ttl(const struct beest_published *published);

enum {
	BEEST_PUBLISHED_ANCHOR = 1,	/* watched at every look */
	/*
	 * A letter: its reader may take it away, so that its absence tells nothing and
	 * it is not put anew; it stays behind at the end.
	 */
	BEEST_PUBLISHED_LETTER = 2,
	/* Put back while its author lives, and left behind: a peer may be about to read it. */
	BEEST_PUBLISHED_STAYS = 4,
	/* Nobody else's key: that it is missing shows that its server lost the letters, too. */
	BEEST_PUBLISHED_SENTINEL = 8,
	/* Sent by the next refresh: to say it is not worth a wait of its own. */
	BEEST_PUBLISHED_LAZY = 16,
};

/*
 * Remembers a record, to be sent by sync; takes @bytes, for free(3).  @version, never 0,
 * may be NULL.  -ENOMEM.
 */
int beest_published_set(struct beest_published *published, enum beest_record_kind kind,
			const char *key, uint8_t *bytes, size_t size, int flags,
			uint64_t *version);

/* Says whose record stands under @key; who publishes there next without a word owns it. */
void beest_published_own(struct beest_published *published, const char *key, uint64_t owner);

/*
 * Makes the server have what the list has under @key: the newest bytes, or nothing.
 * However many threads do so at once, the list prevails.  Errors of exchange.h.
 */
int beest_published_sync(struct beest_published *published, const char *key,
			 int64_t deadline);

/* Is it in the list, and has a server taken this version of it? */
bool beest_published_is_put(struct beest_published *published, const char *key);

void beest_published_forget(struct beest_published *published, const char *key);

/* Unless a server has it, or it was replaced by another version. */
void beest_published_forget_unsent(struct beest_published *published, const char *key,
				   uint64_t version);

/* The server of @key failed: for a while refresh leaves it out. */
void beest_published_away(struct beest_published *published, const char *key);

/* Sends what is lazy, and anew whatever is older than a third of its time to live. */
int beest_published_refresh(struct beest_published *published, int64_t deadline);

/* Records to be asked for in a look: the anchor, and some others in turn. */
#define BEEST_WATCH_MAX 9

struct beest_watch {
	char key[BEEST_KEY_MAX + 1];
	bool anchor;
	uint64_t version;
};

size_t beest_published_watch(struct beest_published *published,
			     struct beest_watch watch[BEEST_WATCH_MAX]);

/*
 * values[i] is the answer for watch[i].  When one is missing, all that the server
 * should have and has not is put back, and never over another's record.
 */
int beest_published_check(struct beest_published *published,
			  const struct beest_watch *watch, size_t count,
			  const struct beest_kv_value *values, int64_t deadline);

/*
 * Deletes what still is of this incarnation, as long as the servers answer within
 * @patience and until the deadline.  What is left is told in the log.
 */
void beest_published_withdraw(struct beest_published *published,
			      const struct beest_incarnation *incarnation,
			      int64_t patience, int64_t deadline);

/* The same for the records of one owner, which are then forgotten. */
void beest_published_disown(struct beest_published *published, uint64_t owner,
			    const struct beest_incarnation *incarnation, int64_t deadline);

#endif
