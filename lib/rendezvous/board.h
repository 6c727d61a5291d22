/* SPDX-License-Identifier: MIT */
/*
 * board.h - the notice board: publish records, wait for those of others
 *
 * Owns this context's incarnation, the list of what it has published, and all
 * waiting.  Puts records and the exchange together; knows nothing of verbs.
 *
 * While somebody waits, every look at the server also asks for some of one's own
 * records.  One that is missing was lost by the server (restart, eviction) and is
 * put back; another's rank record under one's own key is a duplicate rank.
 *
 * May be used by many threads: nothing is locked while talking to the server.
 */
#ifndef BEEST_BOARD_H
#define BEEST_BOARD_H

#include <stddef.h>
#include <stdint.h>

#include "lib/kv/kv.h"
#include "lib/base/log.h"
#include "lib/rendezvous/record.h"

struct beest_board;
struct beest_login;

struct beest_board_config {
	const struct beest_hostport *servers;
	size_t server_count;
	const struct beest_login *login;	/* NULL: none */
	const char *job;		/* safe in a key, at most BEEST_JOB_MAX bytes */
	int rank;			/* -1: unknown */
	int size;			/* 0: unknown */
	int64_t timeout;		/* ns, for every call below */
	int64_t ttl;			/* ns */
	/* Asked after each look in vain; a negative errno ends the wait.  May be NULL. */
	int (*interrupt)(void *data);
	void *data;
	const struct beest_log *log;	/* outlives the board */
};

/* Draws the incarnation; sends nothing.  Errors of beest_kv_open(). */
int beest_board_open(struct beest_board **board, const struct beest_board_config *config);

/*
 * Takes back the records of ranks, queue pairs and regions that are still this
 * context's own, then frees.  Messages, confirmations and barriers stay until their
 * time to live ends: a peer may be about to read them.
 */
void beest_board_close(struct beest_board *board);

const struct beest_incarnation *beest_board_incarnation(const struct beest_board *board);

/*
 * "hb1/JOB/WORD/NAME".  -EINVAL for a name that no key can hold (empty, blank,
 * control or non-ASCII byte: says which), -ENAMETOOLONG.
 */
int beest_board_key(const struct beest_board *board, enum beest_record_kind kind,
		    const char *name, char key[BEEST_KEY_MAX + 1]);

/*
 * All below retry transient failures of the server until the board's timeout and
 * then return the last one (errors of exchange.h).
 */

/* Replaces what stood under the name, whoever wrote it. */
int beest_board_publish(struct beest_board *board, enum beest_record_kind kind,
			const char *name, const void *payload, size_t size);

/*
 * The same without a word to a server: whatever is published or waited for next sends
 * it.  Fails only where no record can be.  *note, never 0 then, is for unnote.
 */
int beest_board_note(struct beest_board *board, enum beest_record_kind kind,
		     const char *name, const void *payload, size_t size, uint64_t *note);

/*
 * Sends what was noted, once and without insistence (a quarter of a second at most): where
 * that fails it goes with whatever is published or waited for next.
 */
void beest_board_try_send(struct beest_board *board, enum beest_record_kind kind,
			  const char *name);

/* Sends what was noted and not sent yet. */
int beest_board_send(struct beest_board *board, enum beest_record_kind kind,
		     const char *name);

/* Forgets that note if it was neither sent nor replaced yet. */
void beest_board_unnote(struct beest_board *board, enum beest_record_kind kind,
			const char *name, uint64_t note);

/*
 * The same for a record that goes with an object.  *owner is the object's mark, 0 before
 * its first record; drawn here.
 */
int beest_board_publish_of(struct beest_board *board, uint64_t *owner,
			   enum beest_record_kind kind, const char *name,
			   const void *payload, size_t size);

/*
 * Takes back the records of one owner, as beest_board_close() does for all: those that
 * another's have replaced stay, and a server that keeps silent costs a second at most.
 */
void beest_board_withdraw(struct beest_board *board, uint64_t owner);

/* -ENOENT when nothing stood there. */
int beest_board_remove(struct beest_board *board, enum beest_record_kind kind,
		       const char *name);

/*
 * One record that is waited for.  accept() is asked for every new sight of it and
 * returns 1: this is it; 0: not yet; negative errno (with a sentence): give up at
 * once.  NULL accepts any well-formed record.  What is not a well-formed record is
 * as good as absent until the deadline, since a live peer may replace it; the
 * reason for its refusal is then returned.
 */
struct beest_wish {
	enum beest_record_kind kind;
	const char *name;
	int (*accept)(void *data, const struct beest_record *record);
	void *data;
	const char *unmet;		/* what it "is" when not accepted, for the sentence */

	/* set on success; payload points into bytes */
	struct beest_record record;
	uint8_t *bytes;

	/* kept by the board while waiting */
	int seen;			/* 0: never, 1: seen and not accepted, negative: refused */
	char trouble[240];		/* what is known of it, for the sentence */
};

/*
 * One look, a quarter of a second at most, without insistence.  1: *bytes is for free(3),
 * and @record points into it; 0: nothing well-formed there; negative: the server.
 */
int beest_board_peek(struct beest_board *board, enum beest_record_kind kind, const char *name,
		     struct beest_record *record, uint8_t **bytes);

/*
 * Until all @count wishes are granted.  -ETIMEDOUT names what did not come and
 * what is known of it; -EADDRINUSE: another process runs under this rank (both
 * hosts and pids are named); else what accept(), the decoder (-EBADMSG,
 * -EPROTONOSUPPORT) or the server said last.  @each, when not NULL, is called after every
 * look at the server and may publish; 1 ends the wait with success whatever is still
 * pending (for conditions over several records), a negative return ends it with that.
 */
int beest_board_wait(struct beest_board *board, struct beest_wish *wishes, size_t count,
		     int (*each)(void *data), void *data);
void beest_wishes_free(struct beest_wish *wishes, size_t count);

#endif
