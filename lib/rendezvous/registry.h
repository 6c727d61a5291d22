/* SPDX-License-Identifier: MIT */
/*
 * registry.h - what one context keeps on the servers
 *
 * Owns the identity of this context and all that the room remembers: the table of leases, this
 * rank's presence, what is known of servers and of other ranks.  Putting a record only adds it to
 * the table; a look sends it to its server.  Talks to no server, and knows nothing of verbs.
 *
 * Many threads may use it: no lock is held while a thread talks to a server.
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
#include "lib/rendezvous/lease.h"
#include "lib/rendezvous/pace.h"
#include "lib/rendezvous/record.h"

struct beest_registry_config {
	const struct beest_hostport *servers;
	size_t server_count;
	const char *job;		/* safe in a key, at most BEEST_JOB_MAX bytes */
	int rank;			/* -1: unknown */
	const struct beest_ids *ranks;	/* of the job, outlive the registry; count 0: unknown */
	int64_t ttl;			/* ns */
	struct beest_seal *seal;	/* outlives the registry; NULL: none */
	const struct beest_incarnation *incarnation;	/* of this context */
	/* Called after each look in vain; a negative errno ends the wait.  May be NULL. */
	int (*interrupt)(void *data);
	/* Adds what the caller knows about @name, of which no record arrived.  May be NULL. */
	void (*explain)(void *data, const char *name, struct beest_text *text);
	void *data;
	const struct beest_log *log;	/* outlives the registry */
};

/*
 * Two processes may have one rank: two runs under one job id, or one that took the other's place.
 * A presence is only added, so that the later process finds that of the earlier one.  Each also
 * appends its incarnation to the starts log of its rank, in the same request, so that the earlier
 * one finds the later one.  Before a process meets others, it reads the log along with what it
 * waits for.  Any other process has a moment to show that it is alive, by storing its presence.
 */
struct beest_registry_presence {
	struct beest_incarnation incarnation;
	int32_t rank;			/* -1: unknown */
	int64_t put;			/* when it was put last; 0: never; atomic */
	int64_t begun_at;		/* when its start was sent; 0: not yet; atomic */
	bool met;			/* this process has met others; atomic */

	/* Under the registry's lock: what changes of struct beest_rank_body, and ... */
	uint8_t state;
	struct beest_incarnation displaced;
	char device[BEEST_DEVICE_MAX];
	char reason[BEEST_REASON_MAX];
	char waits[BEEST_WAITS_MAX];

	/* ... what is known of other processes of this rank. */
	bool owned;			/* this rank's is there, or replaces another */
	int64_t seen_at;		/* when it was last read */
	struct beest_incarnation settled;	/* the last start that is suspect no longer */
	struct beest_incarnation suspected;	/* the last one that is, ... */
	int64_t suspected_until;	/* ... until then */
};

/* Room for "rank 3 on cn08, pid 17, mlx5_0:1, which has left". */
#define BEEST_PRESENCE_TEXT (BEEST_HOST_MAX + BEEST_DEVICE_MAX + 80)

/* What was last learned of an author; the row is given by the last byte, which is random. */
#define BEEST_REGISTRY_HEARD 256
struct beest_registry_heard {
	struct beest_incarnation incarnation;
	int64_t alive_until;		/* of beest_clock_now() */
	const char *fate;		/* ", which has left"; NULL: it may be alive */
};

/* What this context has seen of ranks that failed; see failure.h. */
struct beest_registry_failure {
	int64_t began;			/* when this run did, by beest_process_clock(), or later */
	/* under the registry's lock */
	bool looked;
	struct beest_incarnation found;		/* author of a leftover then; zeros: none */
};

/* The state of one server, as far as it is known. */
struct beest_registry_server {
	struct beest_epoch epoch;
	int failure;			/* result of the last look; 0: the server answered */
	int64_t answered;		/* when it last answered */
	bool stuck;			/* silence has ended a request since one was answered */
	uint64_t answered_by, failed_by;	/* numbers of those requests; 0: none */
	char why[BEEST_KV_WHY];		/* the sentence of its last failure */
	struct beest_pace pace;
	int64_t away_until;		/* until then only what a caller waits for is sent */
	int64_t probed;			/* when it was last asked for its evictions */
	uint64_t evictions;		/* 0: none known */
	unsigned int strikes;		/* how often it evicted a record just stored */
	bool listed;			/* own settings are stored there; atomic */
};

/* The keys that each process of the job uses. */
enum beest_registry_key {
	BEEST_KEY_EPOCH,		/* on every server; see epoch.h */
	BEEST_KEY_SERVERS,		/* on every server; see serverlist.h */
	BEEST_KEY_RANK,			/* of its presence */
	BEEST_KEY_STARTS,		/* of the starts log of its rank */
	BEEST_KEY_NEWS,
	BEEST_KEY_FAILED,		/* see failure.h */
	BEEST_KEY_COUNT
};

struct beest_registry {
	struct beest_kv *kv;
	struct beest_leases *leases;
	const struct beest_log *log;
	struct beest_seal *seal;	/* of all records; NULL: the job has no secret */
	char *job;
	char keys[BEEST_KEY_COUNT][BEEST_KEY_MAX + 1];
	int (*interrupt)(void *data);
	void (*explain)(void *data, const char *name, struct beest_text *text);
	void *data;
	const struct beest_ids *ranks;	/* outlive the registry; NULL: unknown */
	uint64_t requests;		/* number of the last request; atomic */
	uint64_t bytes;			/* of values, in both directions; atomic */
	bool degraded;			/* it was logged that a server is away; atomic */
	int swept;			/* see nodefiles.h; atomic */
	int64_t watched;		/* see last_watch() in watch.c; 0: never; atomic */
	struct beest_registry_presence presence;
	struct beest_registry_failure failure;

	pthread_mutex_t lock;		/* covers what is known of servers and other ranks */
	struct beest_registry_heard heard[BEEST_REGISTRY_HEARD];
	char suspicion[BEEST_REASON_MAX + BEEST_PRESENCE_TEXT];	/* "": none */
	struct beest_registry_server *servers;
	size_t server_count;
};

/* Sends nothing, and sets *@registry atomically.  Errors of beest_kv_open(). */
int beest_registry_open(struct beest_registry **registry,
			const struct beest_registry_config *config);

/* Frees it.  What is stored stays on the servers: call beest_store_leave() first. */
void beest_registry_close(struct beest_registry *registry);

static inline const struct beest_incarnation *
beest_registry_incarnation(const struct beest_registry *registry)
{
	return &registry->presence.incarnation;
}

/* The number of ranks; 0: unknown. */
static inline int beest_registry_size(const struct beest_registry *registry)
{
	return registry->ranks ? (int)registry->ranks->count : 0;
}

/* The server of one of its keys, except for those on every server. */
static inline size_t beest_registry_server(const struct beest_registry *registry,
					   enum beest_registry_key key)
{
	return beest_kv_server_of(registry->kv, registry->keys[key]);
}

/* Numbers a request that begins now. */
static inline uint64_t beest_registry_number(struct beest_registry *registry)
{
	return __atomic_add_fetch(&registry->requests, 1, __ATOMIC_RELAXED);
}

/* The number of the last request that has begun. */
static inline uint64_t beest_registry_begun(const struct beest_registry *registry)
{
	return __atomic_load_n(&registry->requests, __ATOMIC_RELAXED);
}

/*
 * Make the key "hb1/JOB/WORD/NAME".  -EINVAL: @name is empty or has a byte that no key
 * can hold (a blank, a control character or one beyond ASCII), which the sentence gives;
 * -ENAMETOOLONG.
 */
int beest_registry_key_of(const char *job, enum beest_record_kind kind, const char *name,
			  char key[BEEST_KEY_MAX + 1]);
int beest_registry_key(const struct beest_registry *registry, enum beest_record_kind kind,
		       const char *name, char key[BEEST_KEY_MAX + 1]);

/* Makes the key of the presence of @rank or, if that is unknown, of a process.  Errors as above. */
int beest_registry_rank_key(const struct beest_registry *registry, int32_t rank,
			    const struct beest_incarnation *incarnation,
			    char key[BEEST_KEY_MAX + 1]);

/* A record of this context, not yet encoded. */
struct beest_registry_record {
	enum beest_record_kind kind;
	const char *key;
	const char *placed_as;	/* the key that chooses the server; NULL: key */
	uint8_t flags;
	const void *body;
	size_t size;
	uint64_t *serial;	/* of the object it belongs to, drawn if 0; NULL: none */
	int64_t ttl;		/* seconds; 0: of the option exchange.ttl */
	bool add_only;		/* only added: another process's record stays ... */
	uint64_t unique;	/* ... but for the value that was read with it; 0: none */
	bool if_changed;	/* send nothing if the same was put before */
};

/*
 * Encodes a record.  Returns the number of @bytes, which are for free(3), or -EMSGSIZE or
 * -ENOMEM.
 */
int beest_registry_encode(const struct beest_registry *registry,
			  const struct beest_registry_record *record, uint8_t **bytes);

/*
 * Puts a record into the table of leases, behind this rank's presence; the next look sends it.
 */
int beest_registry_put(struct beest_registry *registry,
		       const struct beest_registry_record *record);

/* The name of this host, with nothing in it that no key can hold. */
void beest_registry_host(char host[BEEST_HOST_MAX]);

/* This rank's presence as it is now. */
void beest_registry_self(struct beest_registry *registry, struct beest_rank_body *body);

/* How long it lives in its state, in ns; 0: for ever. */
int64_t beest_registry_presence_ttl(struct beest_registry *registry);

/* Puts this rank's presence as it is now. */
int beest_registry_present(struct beest_registry *registry);

/* Puts it unless that was done; must precede all that others see of this context. */
int beest_registry_announce(struct beest_registry *registry);
bool beest_registry_is_announced(const struct beest_registry *registry);

/*
 * Gives up the record that this context keeps under @name, without talking to a server: later looks
 * remove it, and leave no tombstone.  False: it keeps none.
 */
bool beest_registry_retract(struct beest_registry *registry, enum beest_record_kind kind,
			    const char *name);

/*
 * Notes "@who had @what", which may be why a wait ends in vain; the second function adds
 * the note to the sentence of such a wait.  @sides: "both sides" or "all ranks", if these may
 * have different jobs or servers; else NULL.
 */
void beest_registry_suspect(struct beest_registry *registry, const char *who, const char *what);
void beest_registry_suspicion(struct beest_registry *registry, const char *sides,
			      struct beest_text *text);

#endif
