/* SPDX-License-Identifier: MIT */
/*
 * lease.h - records that this process wants to stay on a server
 *
 * Owns a copy of each, its state, and the table of what each kind needs: whether it is
 * renewed, when it is restored, what becomes of it at the end.  One loop (lib/rendezvous/
 * look) asks for a plan, carries it out and hands the answers back; nothing here talks to
 * a server.  Knows nothing of what a record says, but whose it is.
 *
 *	put, replace --> DIRTY --stored--> CLEAN --renewal due, or other bytes of ours--> DIRTY
 *	                                   |  ^
 *	       the server's epoch changed, |  | stored again, or somebody else's by now
 *	       or it is absent in a look   v  |
 *	                                   LOST
 *	any --object destroyed, close--> DOOMED --still ours? deleted or closed--> freed
 *	                                        --missing? a closed one is added--> freed
 *
 * May be used by many threads; the lock is never held while somebody talks to a server.
 */
#ifndef BEEST_LEASE_H
#define BEEST_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/kv/kv.h"
#include "lib/rendezvous/record.h"

struct beest_leases;

/*
 * @ttl in ns, 0: for ever.  @incarnation and @seal are this context's; the seal outlives the
 * table.  -ENOMEM.
 */
int beest_lease_open(struct beest_leases **leases, int64_t ttl,
		     const struct beest_incarnation *incarnation, struct beest_seal *seal);
void beest_lease_close(struct beest_leases *leases);

/* Seconds, as Memcached takes it. */
int64_t beest_lease_ttl(const struct beest_leases *leases);

/* What is wanted under a key from now on. */
struct beest_lease_wanted {
	enum beest_record_kind kind;
	const char *key;
	size_t server;
	uint64_t serial;	/* of the object that it goes with; 0: none */
	int64_t ttl;		/* seconds; 0: the table's */
	uint8_t flags;		/* of the record */
	uint64_t digest;	/* of what it says, which bytes under a seal do not tell */
	const uint8_t *bytes;	/* copied */
	size_t size;
	bool stored;		/* it is there already; sealed, it is stored once more */
};

/* -ENOMEM */
int beest_lease_put(struct beest_leases *leases, const struct beest_lease_wanted *wanted);

/* Has a record that says the same been put there?  The bytes do not matter. */
bool beest_lease_has(struct beest_leases *leases, const struct beest_lease_wanted *wanted);

/* Is what is wanted there stored, replaced by another process's record, or refused for good? */
bool beest_lease_is_settled(struct beest_leases *leases, const char *key);

/* Was another process's record seen there since this context has one? */
bool beest_lease_is_contested(struct beest_leases *leases, const char *key);

/*
 * Has its server refused for good what was put there, which is too large for it?  Nobody sends
 * it again, and it is forgotten with this answer.
 */
bool beest_lease_take_refusal(struct beest_leases *leases, const char *key);

/* Stored again at the next look: somebody else's record may be there, wrongly. */
void beest_lease_insist(struct beest_leases *leases, const char *key);

/* A number that goes with a key, whatever is wanted there; 0: none. */
void beest_lease_note(struct beest_leases *leases, const char *key, uint64_t number);
uint64_t beest_lease_noted(struct beest_leases *leases, const char *key);

/* Forgotten at once, whatever a server has. */
void beest_lease_forget(struct beest_leases *leases, const char *key);

/* To be taken away: all of an object, which has no record if its serial is 0. */
void beest_lease_doom(struct beest_leases *leases, uint64_t serial);

/* The same for all that goes at the end. */
void beest_lease_doom_all(struct beest_leases *leases);

/* How many there are, or are to be taken away still. */
size_t beest_lease_count(struct beest_leases *leases, bool doomed);

/* The server has lost what was stored there, but by request @number, which showed it. */
void beest_lease_lose(struct beest_leases *leases, size_t server, uint64_t number);

/* The @nth key of ours, from 0, that must be on that server; false: there is none. */
bool beest_lease_witness(struct beest_leases *leases, size_t server, size_t nth,
			 char key[BEEST_KEY_MAX + 1]);

/* -------------------------------------------------------------------- one look --- */

struct beest_lease_copy;

/*
 * What one request to one server does for leases: writes, and keys to be read back.  Behind
 * both there is room for more, and keys[0], which is counted, is the caller's.
 */
struct beest_lease_plan {
	struct beest_kv_write *writes;
	const char **keys;
	size_t write_count, key_count;
	/* Whose bytes these are; read[0] is NULL. */
	struct beest_lease_copy **written, **read;
	size_t server;
	bool overtook;			/* out: an older version may have gone over a newer one */
};

/*
 * With room for @spare more writes and keys.  @check: some in turn, too, and what is due for
 * renewal.  -ENOMEM.
 */
int beest_lease_plan(struct beest_leases *leases, size_t server, bool check, size_t spare,
		     struct beest_lease_plan *plan);

/*
 * How the request ended: @ret as beest_kv_run() set it, @answered when @values, one a
 * key of the plan behind the first, were read.  @number: of the request, which grows with each.
 * Returns how many were not there that should be: a write refused, or an eviction.
 */
size_t beest_lease_done(struct beest_leases *leases, struct beest_lease_plan *plan,
			int ret, bool answered, const struct beest_kv_value *values,
			uint64_t number);
void beest_lease_plan_free(struct beest_lease_plan *plan);

#endif
