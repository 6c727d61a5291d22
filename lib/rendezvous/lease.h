/* SPDX-License-Identifier: MIT */
/*
 * lease.h - records that this process wants to stay on a server
 *
 * Owns a copy of each and its state: when it is renewed and restored, and what becomes of it at
 * the end, by the table of kinds.  look.c asks for a plan, carries it out and hands the
 * answers back; nothing here talks to a server.  Knows nothing of what a record contains, except
 * whose it is.
 *
 *	put --> NEW, DIRTY --set--> SENT --seen, answered--> CLEAN --renewal due--> DIRTY
 *	                                                     |  ^
 *	         the server's epoch changed, or it is absent |  | seen, answered
 *	                                                     v  |
 *	                                                   LOST --added--> ADDED
 *	another process's is there: REPLACED; too large: REFUSED
 *	any --object destroyed, close--> DOOMED --still ours? OURS--deleted, closed--> REMOVED
 *	                                        --missing? a closed one: MISSING--added--> BURIED
 *
 * lease.c has the table of all states and events.
 *
 * Many threads may use one table; its lock is never held during a request.
 */
#ifndef BEEST_LEASE_H
#define BEEST_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/kv/request.h"
#include "lib/rendezvous/record.h"

struct beest_leases;

/*
 * @ttl: the time to live of most records, in ns; 0: for ever.  @incarnation and @seal are this
 * context's; @seal must outlive the table.  -ENOMEM.
 */
int beest_lease_open(struct beest_leases **leases, int64_t ttl,
		     const struct beest_incarnation *incarnation, struct beest_seal *seal);
void beest_lease_close(struct beest_leases *leases);

/* The table's time to live in seconds, as Memcached takes it. */
int64_t beest_lease_ttl(const struct beest_leases *leases);

/* What to keep under a key from now on. */
struct beest_lease_wanted {
	enum beest_record_kind kind;
	const char *key;
	size_t server;
	uint64_t serial;	/* of the object that the record belongs to; 0: none */
	int64_t ttl;		/* seconds; 0: the table's */
	uint8_t flags;		/* of the record */
	uint64_t digest;	/* of the plain record: sealed bytes differ each time */
	const uint8_t *bytes;	/* copied */
	size_t size;
	bool add_only;		/* only added: another process's record stays ... */
	uint64_t unique;	/* ... but for the value that was read with it; 0: none */
};

/* -ENOMEM */
int beest_lease_put(struct beest_leases *leases, const struct beest_lease_wanted *wanted);

/* Has a record with the same serial and digest been put there?  The bytes may differ. */
bool beest_lease_has(struct beest_leases *leases, const struct beest_lease_wanted *wanted);

/* What may be true of the record of a key; SETTLED also without one. */
enum beest_lease_fact {
	BEEST_LEASE_THERE = 1,		/* there is a record */
	BEEST_LEASE_SETTLED = 2,	/* stored, replaced by another process's, or refused */
	BEEST_LEASE_CONTESTED = 4,	/* another process's was seen there once */
	BEEST_LEASE_REFUSED = 8,	/* too large for the server: never sent again */
	BEEST_LEASE_SENT = 16,		/* stored, or a request that is over has sent it */
	BEEST_LEASE_OCCUPIED = 32,	/* an add-only message: what was there stays */
};

bool beest_lease_is(struct beest_leases *leases, const char *key, enum beest_lease_fact fact);

/*
 * Makes the next look store the record again, because another process may have overwritten it by
 * mistake.
 */
void beest_lease_republish(struct beest_leases *leases, const char *key);

/*
 * This process has the rank that @displaced had, which is over.  A server may carry out its last
 * requests late: what they put in place of a record that this process keeps counts as an older
 * version of that one.  Not of a message, of this rank's presence, and of what is only added.
 */
void beest_lease_displace(struct beest_leases *leases, const struct beest_incarnation *displaced);

/* The serial of the record of @key; 0: there is none, or it belongs to no object. */
uint64_t beest_lease_serial(struct beest_leases *leases, const char *key);

/*
 * The push of a message is over: from now on, its absence in a look shows that a reader has deleted
 * it, and it is forgotten.  @serial: as it was put.
 */
void beest_lease_release(struct beest_leases *leases, const char *key, uint64_t serial);

/* Forgets the record of @key at once, whatever its server has.  @serial: only that one; 0: any. */
void beest_lease_forget(struct beest_leases *leases, const char *key, uint64_t serial);

/* Dooms all records of an object; it has none if @serial is 0. */
void beest_lease_doom(struct beest_leases *leases, uint64_t serial);

/*
 * Dooms the record of a key, which leaves no tombstone: its owner asked for it to go.  It is
 * removed without being read first if it was stored a moment ago.  False: none is kept there.
 */
bool beest_lease_doom_key(struct beest_leases *leases, const char *key);

/* Dooms all records that go when their context is closed; later ones of these kinds are dropped. */
void beest_lease_doom_all(struct beest_leases *leases);

/* Is another thread's request storing a doomed record? */
bool beest_lease_is_busy(struct beest_leases *leases);

/* The number of records; with @doomed, only of those that still have to be removed. */
size_t beest_lease_count(struct beest_leases *leases, bool doomed);

/* The bytes of the largest record for that server and of its key. */
size_t beest_lease_largest(struct beest_leases *leases, size_t server);

/* The server has lost all that was stored there. */
void beest_lease_lose(struct beest_leases *leases, size_t server);

/*
 * The key of the @nth record of this context, from 0, that was on the server already when request
 * @number was carried out, must still be there, and has not been written since; false: there is
 * none.
 */
bool beest_lease_canary(struct beest_leases *leases, size_t server, uint64_t number, size_t nth,
			char key[BEEST_KEY_MAX + 1]);

/* Is that still so?  A plan may have begun to write it since. */
bool beest_lease_is_canary(struct beest_leases *leases, const char *key, uint64_t number);

/* -------------------------------------------------------------------- one look --- */

struct beest_lease_copy;

/*
 * What one request to one server does for leases: writes, and keys to read back.  Both arrays
 * have room for more.  keys[0] is the caller's, and key_count includes it.
 */
struct beest_lease_plan {
	struct beest_kv_write *writes;
	const char **keys;
	size_t write_count, key_count;
	struct beest_leases *leases;
	/* The copies that writes and keys point into; read[0] is NULL. */
	struct beest_lease_copy **written, **read;
	size_t server;
	uint64_t number;		/* of the request, for the caller: it grows with each one */
	bool overtook;			/* out: an older version may have replaced a newer one */
};

/*
 * Makes a plan, with room for @spare more writes and keys.  @check: also read some records in
 * turn, and those that are due for renewal.  -ENOMEM.
 */
int beest_lease_plan(struct beest_leases *leases, size_t server, bool check, size_t spare,
		     struct beest_lease_plan *plan);

/*
 * Takes the outcome of the request: its ret and answered as beest_kv_run() set them, @values[i]
 * for keys[i].  What it stored is found by requests of number @found or later.  With -ENODATA the
 * server may have lost everything since, answered writes included.  Returns the number of records
 * that are missing but should be there: their write was refused, or they were evicted.
 */
size_t beest_lease_done(struct beest_leases *leases, struct beest_lease_plan *plan,
			int ret, bool answered, const struct beest_kv_value *values,
			uint64_t found);
void beest_lease_plan_free(struct beest_lease_plan *plan);

#endif
