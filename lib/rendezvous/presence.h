/* SPDX-License-Identifier: MIT */
/*
 * presence.h - who takes part, and whether they still do
 *
 * Owns this context's rank record (its presence), judges those of other ranks, remembers
 * which authors are alive, and owns the news: one key of the job that changes whenever
 * somebody leaves or fails.  Knows nothing of queue pairs.
 */
#ifndef BEEST_PRESENCE_H
#define BEEST_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/kv/kv.h"
#include "lib/rendezvous/record.h"

struct beest_registry;
struct beest_registry_config;

struct beest_presence {
	struct beest_incarnation incarnation;
	int32_t rank;			/* -1: unknown */
	struct beest_rank_body self;	/* under the registry's lock */
	int64_t put;			/* when it was put last; 0: never; atomic */
	size_t server;
	char key[BEEST_KEY_MAX + 1];
	char news_key[BEEST_KEY_MAX + 1];
};

/* Draws the incarnation and fills in what is known from the start. */
int beest_presence_open(struct beest_registry *registry,
			const struct beest_registry_config *config);

/* Puts the own presence, with the device if one is known. */
int beest_presence_put(struct beest_registry *registry);

/* Has the own presence been put? */
bool beest_presence_is_put(struct beest_registry *registry);

/* Puts the own presence unless that was done.  Must precede any other record of this context. */
int beest_presence_announce(struct beest_registry *registry);

/* Adds "mlx5_0:1" to the own presence, for the sentences of others. */
void beest_presence_set_device(struct beest_registry *registry, const char *device);

/* Puts the own presence for the last time: this rank has left, or has failed before. */
int beest_presence_leave(struct beest_registry *registry);

/* Makes the write that tells others that this rank has left or failed.  @news holds its bytes. */
struct beest_look_extra;
void beest_presence_news(const struct beest_registry *registry, struct beest_incarnation *news,
			 struct beest_look_extra *extra);

/* Judges what was read under the own key.  -EADDRINUSE: another living process has this rank. */
int beest_presence_judge(struct beest_registry *registry, const struct beest_kv_value *value);

/* Decodes a presence.  -ENOENT: there is none; or errors of beest_record_decode(). */
int beest_presence_read(struct beest_seal *seal, const struct beest_kv_value *value,
			const char *key, struct beest_record *record,
			struct beest_rank_body *body);

/* "rank 3 on cn08, pid 17, mlx5_0:1" or "pid 17 on cn08". */
#define BEEST_PRESENCE_TEXT (BEEST_HOST_MAX + BEEST_DEVICE_MAX + 80)
const char *beest_presence_text(int32_t rank, const struct beest_rank_body *body,
				char text[BEEST_PRESENCE_TEXT]);

/* Asks who the author of a record was, and what the presence of its rank says now. */
struct beest_presence_query {
	int32_t rank;
	const struct beest_incarnation *incarnation;
	/*
	 * out: 1: @body is the author's; 0: not known; -ESTALE: another process, @now,
	 * has that rank, and @body is its own.
	 */
	int ret;
	bool answered;			/* a server has answered the question */
	struct beest_incarnation now;
	struct beest_rank_body body;
};

/* Answers all queries by one look.  What no server answers by @deadline is not known. */
void beest_presence_query(struct beest_registry *registry, struct beest_presence_query *queries,
			  size_t count, int64_t deadline);

/*
 * A small cache of authors that confirmed a queue pair, or whose presence was read, a moment ago.
 * Each counts as alive for a second, since another process may take its place at any time.  The
 * cache may forget any of them, which costs another question.
 */
#define BEEST_PRESENCE_CACHE 256	/* by the last byte of the incarnation, which is random */
struct beest_presence_alive {
	struct beest_incarnation incarnation;
	int64_t until;			/* of beest_clock_now() */
};

void beest_presence_note(struct beest_registry *registry,
			 const struct beest_incarnation *incarnation);

/* Another process has taken its place. */
void beest_presence_forget(struct beest_registry *registry,
			   const struct beest_incarnation *incarnation);
bool beest_presence_is_known(struct beest_registry *registry,
			     const struct beest_incarnation *incarnation);

/*
 * As beest_presence_query(), for a second.  Notes as alive all authors whose rank no other process
 * has, also those whose server did not answer: silence is no evidence against them.
 */
void beest_presence_ask(struct beest_registry *registry, struct beest_presence_query *queries,
			size_t count);

/*
 * Names the author of a record for a sentence, with what its presence says: "rank 3 on
 * cn08, pid 17, mlx5_0:1, which has left".  Only of a process of this host can it say
 * that it is dead.
 */
const char *beest_presence_author(struct beest_registry *registry, int32_t rank,
				  const struct beest_incarnation *incarnation,
				  char text[BEEST_PRESENCE_TEXT]);

/* The same.  true: the text says that the author is gone. */
bool beest_presence_is_over(struct beest_registry *registry, int32_t rank,
			    const struct beest_incarnation *incarnation,
			    char text[BEEST_PRESENCE_TEXT]);

/* -ESHUTDOWN or -ECONNABORTED if that presence says that the rank has left or failed, else 0. */
int beest_presence_ended(int32_t rank, const struct beest_rank_body *body);

#endif
