/* SPDX-License-Identifier: MIT */
/*
 * registry.h - what one context keeps on the servers
 *
 * Owns who this context is, what is known of each server, and all other parts of this
 * room.  Records are put into the table of leases without a word to a server; a look
 * carries them there.  Knows nothing of verbs.
 *
 * May be used by many threads: no lock is held while somebody talks to a server.
 */
#ifndef BEEST_REGISTRY_H
#define BEEST_REGISTRY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/limit.h"
#include "lib/base/log.h"
#include "lib/base/parse.h"
#include "lib/base/text.h"
#include "lib/kv/kv.h"
#include "lib/rendezvous/epoch.h"
#include "lib/rendezvous/failure.h"
#include "lib/rendezvous/lease.h"
#include "lib/rendezvous/presence.h"
#include "lib/rendezvous/record.h"
#include "lib/rendezvous/serverlist.h"

struct beest_login;

struct beest_registry_config {
	const struct beest_hostport *servers;
	size_t server_count;
	struct beest_login *login;	/* taken over; NULL: none */
	const char *job;		/* safe in a key, at most BEEST_JOB_MAX bytes */
	int rank;			/* -1: unknown */
	const struct beest_ids *ranks;	/* of the job, outlive the registry; count 0: unknown */
	int64_t ttl;			/* ns */
	struct beest_seal *seal;	/* taken over when that succeeds; NULL: none */
	/* Asked after each look in vain; a negative errno ends the wait.  May be NULL. */
	int (*interrupt)(void *data);
	void *data;
	const struct beest_log *log;	/* outlives the registry */
};

/* What is known of one server. */
struct beest_registry_server {
	struct beest_epoch epoch;
	int failure;			/* at the last look; 0: it has answered */
	int64_t answered;		/* when it did so last */
	uint64_t answered_by, failed_by;	/* which request was the last to; 0: none */
	char why[BEEST_KV_WHY];		/* it failed last */
	int64_t away_until, away_pause;	/* what nobody waits for is not sent before that */
	int64_t probed;			/* when it was asked for its evictions */
	uint64_t evictions;		/* 0: none known */
	unsigned int strikes;		/* how often it evicted what was just stored */
	bool listed;			/* the own settings were put there; atomic */
};

struct beest_registry {
	struct beest_kv *kv;
	struct beest_leases *leases;
	const struct beest_log *log;
	struct beest_seal *seal;	/* of all records; NULL: the job has no secret */
	char *job;
	char epoch_key[BEEST_KEY_MAX + 1];	/* the same on every server */
	int (*interrupt)(void *data);
	void *data;
	const struct beest_ids *ranks;	/* outlive it; NULL: unknown */
	int size;			/* number of ranks; 0: unknown */
	uint64_t requests;		/* numbered; atomic */
	uint64_t bytes;			/* of values that went either way; atomic */
	uint64_t serials;		/* drawn so far; atomic */
	bool degraded;			/* it was told that a server is away; atomic */
	struct beest_presence presence;
	struct beest_serverlist serverlist;
	struct beest_failure failure;

	pthread_mutex_t lock;		/* of what is known of servers and others */
	char suspicion[BEEST_REASON_MAX + BEEST_PRESENCE_TEXT];	/* "": none */
	struct beest_registry_server *servers;
	size_t server_count;
};

/* Draws the incarnation; sends nothing.  Errors of beest_kv_open(). */
int beest_registry_open(struct beest_registry **registry,
			const struct beest_registry_config *config);

/*
 * Takes away what is still this context's own of queue pairs and regions, says that this
 * rank has left, and frees.  Barriers, messages and listeners stay until their time to live ends.
 * A server that is silent costs a second at most.
 */
void beest_registry_close(struct beest_registry *registry);

static inline const struct beest_incarnation *
beest_registry_incarnation(const struct beest_registry *registry)
{
	return &registry->presence.incarnation;
}

/*
 * "hb1/JOB/WORD/NAME".  -EINVAL for a name that no key can hold (empty, blank, control or
 * non-ASCII byte: says which), -ENAMETOOLONG.
 */
int beest_registry_key(const struct beest_registry *registry, enum beest_record_kind kind,
		       const char *name, char key[BEEST_KEY_MAX + 1]);

/* A record of this context, not yet encoded. */
struct beest_registry_record {
	enum beest_record_kind kind;
	const char *key;
	const char *placed_as;	/* the key that chooses the server; NULL: key */
	uint8_t flags;
	const void *body;
	size_t size;
	uint64_t *serial;	/* of an object, drawn here; NULL: it goes with none */
	int64_t ttl;		/* seconds; 0: the option's */
	bool stored;		/* it is there already */
	bool calm;		/* where the same was put before nothing is sent */
};

/* Its bytes, for free(3); how many they are, or -EMSGSIZE, -ENOMEM. */
int beest_registry_encode(const struct beest_registry *registry,
			  const struct beest_registry_record *record, uint8_t **bytes);

/* Wanted from now on; the next look sends it. */
int beest_registry_put(struct beest_registry *registry,
		       const struct beest_registry_record *record);

/* The same, and waits until a server has it. */
int beest_registry_publish(struct beest_registry *registry,
			   const struct beest_registry_record *record,
			   const struct beest_limit *limit);

/*
 * Sends what is wanted on the server of @key, best effort: a quarter of a second at most,
 * and without waiting for an answer where the connection is known to be good.
 */
void beest_registry_offer(struct beest_registry *registry, const char *key);

/* Deletes a key, whoever's record is there.  -ENOENT when nothing was. */
int beest_registry_delete(struct beest_registry *registry, const char *key,
			  const struct beest_limit *limit);

/*
 * Takes away what goes with an object; a second at most.  A server that failed a moment ago is
 * left to a later look, unless it is @server; SIZE_MAX: none.
 */
void beest_registry_withdraw(struct beest_registry *registry, uint64_t serial, size_t server);

/* "@who had @what": whoever waits in vain will want to know; and for its sentence. */
void beest_registry_suspect(struct beest_registry *registry, const char *who, const char *what);
void beest_registry_suspicion(struct beest_registry *registry, struct beest_text *text);

#endif
