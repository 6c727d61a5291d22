/* SPDX-License-Identifier: MIT */
/*
 * presence.h - who takes part, and whether they still do
 *
 * Owns what this rank's presence contains, judges those of other ranks, remembers which authors are
 * alive, and owns the news: one key of the job that changes whenever a rank leaves or fails.
 * Knows nothing of queue pairs.
 */
#ifndef BEEST_PRESENCE_H
#define BEEST_PRESENCE_H

#include "lib/rendezvous/look.h"

/* Adds "mlx5_0:1" to this rank's presence, for the sentences of others. */
void beest_presence_set_device(struct beest_registry *registry, const char *device);

/* Notes in its presence what this process waits for, for the sentences of others. */
void beest_presence_set_waits(struct beest_registry *registry, const char *noun,
			      const char *name);

/* Puts its presence for the last time: this rank has left, or has failed before. */
int beest_presence_leave(struct beest_registry *registry);

/* Makes the write that announces that this rank has left or failed.  @news holds its bytes. */
void beest_presence_news(const struct beest_registry *registry, struct beest_incarnation *news,
			 struct beest_look_extra *extra);

/* Has this process met no other yet, so that it has to look for others of its rank? */
bool beest_presence_is_new(struct beest_registry *registry);
void beest_presence_has_met(struct beest_registry *registry);

/* Does the presence of another process of this rank have to be replaced, as far as is known? */
bool beest_presence_is_unseen(struct beest_registry *registry);

/* Does this process also have to read its presence, to know whether it is the only one? */
bool beest_presence_is_suspect(struct beest_registry *registry);

/*
 * Did another process have this rank before without leaving?  Then this is not the first run of
 * its job, and what others left may be of an earlier one.
 */
bool beest_presence_follows(struct beest_registry *registry);

/* Is this rank's presence stored, in place of any other? */
bool beest_presence_is_there(struct beest_registry *registry);

/*
 * Judges what was read under this rank's key.  @there: beest_presence_is_there() before it was
 * asked for.  -EADDRINUSE: another living process has this rank.
 */
int beest_presence_judge(struct beest_registry *registry, const struct beest_kv_value *value,
			 bool there);

/*
 * Judges the starts log of this rank, after beest_presence_judge() has judged the presence of the
 * same request.  true: no other process has this rank, or none that showed itself for a while.
 */
bool beest_presence_is_alone(struct beest_registry *registry, const struct beest_kv_value *starts);

/* Decodes a presence.  -ENOENT: there is none; or errors of beest_record_decode(). */
int beest_presence_read(struct beest_seal *seal, const struct beest_kv_value *value,
			const char *key, struct beest_record *record,
			struct beest_rank_body *body);

/* "rank 3 on cn08, pid 17, mlx5_0:1" or "pid 17 on cn08". */
const char *beest_presence_text(int32_t rank, const struct beest_rank_body *body,
				char text[BEEST_PRESENCE_TEXT]);

/* Asks who the author of a record was, and what the presence of its rank shows now. */
struct beest_presence_query {
	int32_t rank;
	const struct beest_incarnation *incarnation;	/* NULL: whichever has the rank */
	/*
	 * out: 1: @body is the author's; 0: not known; -ESTALE: another process, @now,
	 * has that rank, and @body is its own.  If it is not known since its presence cannot be
	 * read, @body has the reason.
	 */
	int ret;
	bool answered;			/* a server has answered the question */
	struct beest_incarnation now;
	struct beest_rank_body body;
};

/*
 * Has the author ended without leaving, as its successor shows, or as can be seen on this host?
 * What one has left that is not of this run.
 */
bool beest_presence_disowns(const struct beest_registry *registry,
			    const struct beest_presence_query *query);

/*
 * Answers all queries by one look with these @flags, and returns its result.  What no server
 * answers by @deadline is not known.
 */
int beest_presence_query(struct beest_registry *registry, struct beest_presence_query *queries,
			 size_t count, int64_t deadline, unsigned int flags);

/*
 * A small cache of what was last learned of authors.  One that confirmed a queue pair, or whose
 * presence was read, counts as alive for a second, or for some looks at a server that answers
 * slowly, since another process may take its place at any time.  An author that was once gone stays
 * gone.  The cache may forget any of them, which costs another question.
 */
void beest_presence_note(struct beest_registry *registry,
			 const struct beest_incarnation *incarnation);

/* Another process has taken its place. */
void beest_presence_forget(struct beest_registry *registry,
			   const struct beest_incarnation *incarnation);
bool beest_presence_is_known(struct beest_registry *registry,
			     const struct beest_incarnation *incarnation);

/* The known fate of an author that is gone, ", which has left"; "": none.  Asks no server. */
const char *beest_presence_fate(struct beest_registry *registry,
				const struct beest_incarnation *incarnation);

/*
 * Names the author of a query, or the process that has the rank, as beest_presence_author() does.
 * Returns the end of the text, which is why it is gone; "": it may be alive.
 */
const char *beest_presence_query_text(const struct beest_registry *registry,
				      const struct beest_presence_query *query,
				      char text[BEEST_PRESENCE_TEXT]);

/*
 * Names the author of a record for a sentence, with what its presence shows: "rank 3 on
 * cn08, pid 17, mlx5_0:1, which has left".  Only of a process of this host can it show
 * that it is dead.  Takes one look of a quarter of a second, and asks no server that was silent
 * a moment ago, so that many such sentences take no longer than one.
 */
const char *beest_presence_author(struct beest_registry *registry, int32_t rank,
				  const struct beest_incarnation *incarnation,
				  char text[BEEST_PRESENCE_TEXT]);

/* The same, but asks until a server answers or @limit ends. */
const char *beest_presence_find(struct beest_registry *registry, int32_t rank,
				const struct beest_incarnation *incarnation,
				const struct beest_limit *limit,
				char text[BEEST_PRESENCE_TEXT]);

/* As beest_presence_author().  true: the author is gone, as the text shows. */
bool beest_presence_is_over(struct beest_registry *registry, int32_t rank,
			    const struct beest_incarnation *incarnation,
			    char text[BEEST_PRESENCE_TEXT]);

/* -ESHUTDOWN or -ECONNABORTED if that presence shows that the rank has left or failed, else 0. */
int beest_presence_ended(int32_t rank, const struct beest_rank_body *body);

#endif
