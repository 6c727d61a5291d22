/* SPDX-License-Identifier: MIT */
/* guestbook.c - see guestbook.h */
#include "config.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/rendezvous/guestbook.h"

/* One server that keeps silent must not use up the time of the others. */
#define VISIT_TIME (250 * BEEST_MS)

struct beest_guestbook {
	struct beest_kv *exchange;
	const struct beest_log *log;
	char key[BEEST_KEY_MAX + 1];
	bool *signed_at;		/* by server */

	pthread_mutex_t lock;		/* of what follows */
	char suspicion[BEEST_HOST_MAX + 128];
};

int beest_guestbook_open(struct beest_guestbook **guestbookp, struct beest_kv *exchange,
			 const char *key, const struct beest_log *log)
{
	struct beest_guestbook *guestbook = calloc(1, sizeof(*guestbook));

	if (guestbook)
		guestbook->signed_at = calloc(beest_kv_count(exchange), sizeof(bool));
	if (!guestbook || !guestbook->signed_at) {
		free(guestbook);
		return beest_fail(ENOMEM, "no memory for a list of servers");
	}

	guestbook->exchange = exchange;
	guestbook->log = log;
	snprintf(guestbook->key, sizeof(guestbook->key), "%s", key);
	pthread_mutex_init(&guestbook->lock, NULL);
	*guestbookp = guestbook;

	return 0;
}

void beest_guestbook_close(struct beest_guestbook *guestbook)
{
	if (!guestbook)
		return;

	pthread_mutex_destroy(&guestbook->lock);
	free(guestbook->signed_at);
	free(guestbook);
}

/* ---------------------------------------------------------- who was there --- */

static const char *who(const struct beest_author *author, char text[BEEST_AUTHOR_TEXT])
{
	if (author->rank >= 0)
		snprintf(text, BEEST_HOST_MAX + 64, "rank %" PRId32 " (host %s, pid %" PRIu32 ")",
			 author->rank, author->host, author->pid);
	else
		snprintf(text, BEEST_HOST_MAX + 64, "the process of host %s, pid %" PRIu32,
			 author->host, author->pid);

	return text;
}

struct entry {
	struct beest_author author;
	bool other_list;
};

/* False when nothing, or nothing well-formed, stands there. */
static bool read_entry(const struct beest_guestbook *guestbook,
		       const struct beest_kv_value *value, struct entry *entry)
{
	struct beest_rank_payload payload;
	struct beest_record record;

	if (!value->bytes || beest_record_decode(value->bytes, value->size, BEEST_KIND_RANK,
						 guestbook->key, &record) < 0 ||
	    beest_codec_decode(&beest_rank_layout, record.payload, record.payload_size,
			       &payload) < 0)
		return false;

	entry->author = record.author;
	entry->other_list = payload.servers != beest_kv_digest(guestbook->exchange);

	return true;
}

static bool is_author(const struct beest_author *a, const struct beest_author *b)
{
	return !memcmp(&a->incarnation, &b->incarnation, sizeof(a->incarnation));
}

/* A leftover, or somebody who is alive: whoever waits in vain will want to know. */
static void suspect(struct beest_guestbook *guestbook, const struct beest_author *author,
		    const char *server)
{
	char text[BEEST_AUTHOR_TEXT];

	pthread_mutex_lock(&guestbook->lock);
	snprintf(guestbook->suspicion, sizeof(guestbook->suspicion),
		 "%s had another list of servers", who(author, text));
	pthread_mutex_unlock(&guestbook->lock);
	beest_log(guestbook->log, BEEST_LOG_INFO, "server %s: %s had another list of servers: "
		  "a former run, or a mistake", server, text);
}

static int different(const struct beest_author *self, const struct beest_author *other,
		     const char *server)
{
	char mine[BEEST_AUTHOR_TEXT], theirs[BEEST_HOST_MAX + 64];

	return beest_fail(EPROTO, "%s and %s, who meet on server %s, name different lists of "
			  "servers: HARTEBEEST_EXC_IP_PORT (exchange.servers) must say the same "
			  "in the same words everywhere", who(self, mine), who(other, theirs),
			  server);
}

/* ------------------------------------------------------------- one server --- */

/* 0, -EPROTO, or a failure of the server. */
static int visit_one(struct beest_guestbook *guestbook, size_t i,
		     const struct beest_author *author, const void *bytes, size_t size,
		     int64_t ttl, int64_t deadline)
{
	bool done = __atomic_load_n(&guestbook->signed_at[i], __ATOMIC_ACQUIRE);
	const char *server = beest_kv_text(guestbook->exchange, i);
	struct beest_kv_value value;
	struct entry entry;
	bool found;
	int ret;

	ret = beest_kv_get_at(guestbook->exchange, i, guestbook->key, &value, deadline);
	if (ret < 0)
		return ret;
	found = read_entry(guestbook, &value, &entry);
	beest_kv_values_free(&value, 1);

	if (done && found && !entry.other_list)
		return 0;
	if (!done && found && entry.other_list)
		suspect(guestbook, &entry.author, server);

	ret = beest_kv_put_at(guestbook->exchange, i, guestbook->key, bytes, size, ttl,
			      deadline);
	if (ret == 0)
		__atomic_store_n(&guestbook->signed_at[i], true, __ATOMIC_RELEASE);

	return done && found ? different(author, &entry.author, server) : ret;
}

int beest_guestbook_visit(struct beest_guestbook *guestbook,
			  const struct beest_author *author, const void *bytes, size_t size,
			  int64_t ttl, int64_t deadline)
{
	size_t i;
	int64_t end;
	int ret;

	for (i = 0; i < beest_kv_count(guestbook->exchange) && beest_clock_left(deadline); i++) {
		end = beest_clock_deadline(VISIT_TIME);
		ret = visit_one(guestbook, i, author, bytes, size, ttl,
				end < deadline ? end : deadline);
		if (ret == -EPROTO)
			return ret;
	}

	return 0;
}

void beest_guestbook_suspicion(struct beest_guestbook *guestbook, char *text, size_t size)
{
	pthread_mutex_lock(&guestbook->lock);
	snprintf(text, size, "%s", guestbook->suspicion);
	pthread_mutex_unlock(&guestbook->lock);
}

static void leave_one(struct beest_guestbook *guestbook, size_t i,
		      const struct beest_author *author, int64_t deadline)
{
	struct beest_kv_value value;
	struct entry entry;

	if (beest_kv_get_at(guestbook->exchange, i, guestbook->key, &value, deadline) < 0)
		return;
	if (read_entry(guestbook, &value, &entry) && is_author(&entry.author, author))
		beest_kv_delete_at(guestbook->exchange, i, guestbook->key, deadline);
	beest_kv_values_free(&value, 1);
}

void beest_guestbook_leave(struct beest_guestbook *guestbook,
			   const struct beest_author *author, int64_t deadline)
{
	int64_t end;
	size_t i;

	for (i = 0; i < beest_kv_count(guestbook->exchange) && beest_clock_left(deadline); i++) {
		if (!guestbook->signed_at[i])
			continue;
		end = beest_clock_deadline(VISIT_TIME);
		leave_one(guestbook, i, author, end < deadline ? end : deadline);
	}
}
