/* SPDX-License-Identifier: MIT */
/*
 * presence.h - who takes part, and whether they still do
 *
 * Owns this context's rank record, what it says of others' ranks, and the news: one key
 * of the job that changes whenever somebody leaves or fails.  Knows nothing of queue
 * pairs.
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

/* Draws the incarnation and fills what is known from the start. */
int beest_presence_open(struct beest_registry *registry,
			const struct beest_registry_config *config);

/* Wanted on its server from now on; with the device once it is known. */
int beest_presence_put(struct beest_registry *registry);

/* Has it been put in this process? */
bool beest_presence_is_put(struct beest_registry *registry);

/* Before any other record of this context: puts it unless that was done. */
int beest_presence_announce(struct beest_registry *registry);

/* "mlx5_0:1", for the sentences of others. */
void beest_presence_set_device(struct beest_registry *registry, const char *device);

/* Says at the end that this rank has left, unless it has failed: wanted from now on. */
int beest_presence_leave(struct beest_registry *registry);

/* The write by which others hear that it has; @news holds its bytes. */
struct beest_look_extra;
void beest_presence_news(const struct beest_registry *registry, struct beest_incarnation *news,
			 struct beest_look_extra *extra);

/* What was read under the own key.  -EADDRINUSE: another living process has this rank. */
int beest_presence_judge(struct beest_registry *registry, const struct beest_kv_value *value);

/* A presence: errors of beest_record_decode(), or -ENOENT where there is none. */
int beest_presence_read(struct beest_seal *seal, const struct beest_kv_value *value,
			const char *key, struct beest_record *record,
			struct beest_rank_body *body);

/* "rank 3 on cn08, pid 17, mlx5_0:1" or "pid 17 on cn08". */
#define BEEST_PRESENCE_TEXT (BEEST_HOST_MAX + BEEST_DEVICE_MAX + 80)
const char *beest_presence_text(int32_t rank, const struct beest_rank_body *body,
				char text[BEEST_PRESENCE_TEXT]);

/* Who was the author of a record, and what does the presence of its rank say now? */
struct beest_presence_query {
	int32_t rank;
	const struct beest_incarnation *incarnation;
	/*
	 * out: 1: @body is that very incarnation's; 0: nobody knows; -ESTALE: another process
	 * has that rank now, @now, and @body is its own.
	 */
	int ret;
	bool answered;			/* a server was asked, and has said so */
	struct beest_incarnation now;
	struct beest_rank_body body;
};

/* One look for all of them.  What is not answered by @deadline is not known. */
void beest_presence_query(struct beest_registry *registry, struct beest_presence_query *queries,
			  size_t count, int64_t deadline);

/*
 * The author of a record as a sentence names it, with what its presence says: "rank 3 on cn08,
 * pid 17, mlx5_0:1, which has left".  That its process is dead is known of those of this host.
 */
const char *beest_presence_author(struct beest_registry *registry, int32_t rank,
				  const struct beest_incarnation *incarnation,
				  char text[BEEST_PRESENCE_TEXT]);

/* The same; true: what it says is that the author has come to its end. */
bool beest_presence_is_over(struct beest_registry *registry, int32_t rank,
			    const struct beest_incarnation *incarnation,
			    char text[BEEST_PRESENCE_TEXT]);

/* -ESHUTDOWN or -ECONNABORTED when that incarnation has left or failed, else 0. */
int beest_presence_ended(int32_t rank, const struct beest_rank_body *body);

#endif
