/* SPDX-License-Identifier: MIT */
/* lease.c - see lease.h */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/rendezvous/lease.h"

/* A power of two.  A rank of a large job has about one lease for each peer. */
#define BUCKETS 1024

/* Records of a batch to read back, at most: nothing else shows the error of a quiet write. */
#define READ_BACK_MAX 8

/*
 * Records that a checking look reads in turn, at most, to find what a server evicted; and as many
 * messages, to find what readers have deleted.  None is read after so many bytes of either.
 */
#define TURN_MAX 4
#define TURN_BYTES 65536

/* How long a record counts as ours without another look, when its owner withdraws it. */
#define OURS_TIME (10 * BEEST_SECOND)

/* How long a tombstone lives, in seconds: the peer may be about to read it. */
#define TOMBSTONE_TTL 60

enum state { DIRTY, CLEAN, LOST, DOOMED };

/* A key and bytes that never change, so that a request may use them while the lease changes. */
struct beest_lease_copy {
	unsigned int users, writers;	/* the lease and plans; the plans that write it */
	const struct beest_record_row *row;
	int64_t ttl;		/* seconds */
	uint8_t flags;
	bool add_only;		/* is only added ... */
	uint64_t unique;	/* ... or replaces the value that has it; 0: none */
	size_t size;
	char *key;
	uint8_t bytes[];
};

struct lease {
	struct lease *chain;		/* same bucket of keys */
	struct lease *sibling;		/* same bucket of serials */
	struct lease *before, *behind;
	uint32_t hash;
	size_t server;
	uint64_t serial, digest;
	struct beest_lease_copy *copy;
	enum state state;
	bool sent;		/* this version is on its way or stored */
	bool offered;		/* the server may have some version */
	bool superseded;	/* another process's record is there, ... */
	bool contested;		/* ... or once was */
	bool refused;		/* this version is too large for the server: never sent again */
	bool occupied;		/* add-only, but there is another value, or an earlier attempt's */
	bool repeated;		/* add-only, and put again as it was: it may be refused */
	bool checked;		/* DOOMED: was read, and is ours ... */
	bool gone;		/* ... or absent: a tombstone is added, not set */
	bool listed;		/* the list that it joins was there, as far as is known */
	int64_t stored;		/* when it was stored last; 0: never */
	uint64_t found;		/* requests of this number or later find it there */
};

struct beest_leases {
	struct beest_incarnation incarnation;
	struct beest_seal *seal;
	int64_t ttl;

	pthread_mutex_t lock;		/* of everything below */
	struct lease *buckets[BUCKETS];	/* by the key */
	struct lease *owners[BUCKETS];	/* by the serial, those that have one */
	size_t count;
	bool ended;			/* takes no more records that go at the end */
	/*
	 * First the leases that are not CLEAN, in the order in which they became so: most
	 * looks walk only these.  Then the CLEAN ones, in the order in which they were last
	 * stored or read in turn.
	 */
	struct lease *first, *last;
	struct lease *clean;		/* the first CLEAN one; NULL: there is none */
};

/* ----------------------------------------------------------------- open, close --- */

int beest_lease_open(struct beest_leases **leasesp, int64_t ttl,
		     const struct beest_incarnation *incarnation, struct beest_seal *seal)
{
	struct beest_leases *leases = calloc(1, sizeof(*leases));

	if (!leases)
		return beest_fail(ENOMEM, "no memory for a table of records");

	leases->incarnation = *incarnation;
	leases->seal = seal;
	leases->ttl = BEEST_MIN(ttl, BEEST_TTL_MAX);
	pthread_mutex_init(&leases->lock, NULL);
	*leasesp = leases;

	return 0;
}

static void copy_release(struct beest_lease_copy *copy)
{
	if (copy && __atomic_sub_fetch(&copy->users, 1, __ATOMIC_ACQ_REL) == 0)
		free(copy);
}

static struct beest_lease_copy *copy_hold(struct beest_lease_copy *copy)
{
	__atomic_add_fetch(&copy->users, 1, __ATOMIC_RELAXED);

	return copy;
}

void beest_lease_close(struct beest_leases *leases)
{
	struct lease *lease;

	if (!leases)
		return;

	while ((lease = leases->first)) {
		leases->first = lease->behind;
		copy_release(lease->copy);
		free(lease);
	}
	pthread_mutex_destroy(&leases->lock);
	free(leases);
}

int64_t beest_lease_ttl(const struct beest_leases *leases)
{
	return (leases->ttl + BEEST_SECOND - 1) / BEEST_SECOND;
}

/* ---------------------------------------------------- under the lock: the table --- */

static struct lease **lease_slot(struct beest_leases *leases, const char *key, uint32_t hash)
{
	struct lease **at = &leases->buckets[hash % BUCKETS];

	while (*at && ((*at)->hash != hash || strcmp((*at)->copy->key, key) != 0))
		at = &(*at)->chain;

	return at;
}

static struct lease *lease_find(struct beest_leases *leases, const char *key)
{
	return *lease_slot(leases, key, beest_hash_crc32(0, key, strlen(key)));
}

/* Makes @serial the object that the record belongs to; 0: none. */
static void lease_set_serial(struct beest_leases *leases, struct lease *lease, uint64_t serial)
{
	struct lease **at = &leases->owners[lease->serial % BUCKETS];

	if (serial == lease->serial)
		return;
	if (lease->serial) {
		while (*at != lease)
			at = &(*at)->sibling;
		*at = lease->sibling;
	}
	lease->serial = serial;
	if (!serial)
		return;
	at = &leases->owners[serial % BUCKETS];
	lease->sibling = *at;
	*at = lease;
}

static void lease_unlink(struct beest_leases *leases, struct lease *lease)
{
	if (leases->clean == lease)
		leases->clean = lease->behind;
	*(lease->before ? &lease->before->behind : &leases->first) = lease->behind;
	*(lease->behind ? &lease->behind->before : &leases->last) = lease->before;
}

/* Puts it at the end of its part of the list. */
static void lease_link(struct beest_leases *leases, struct lease *lease)
{
	lease->behind = lease->state == CLEAN ? NULL : leases->clean;
	lease->before = lease->behind ? lease->behind->before : leases->last;
	*(lease->before ? &lease->before->behind : &leases->first) = lease;
	*(lease->behind ? &lease->behind->before : &leases->last) = lease;
	if (lease->state == CLEAN && !leases->clean)
		leases->clean = lease;
}

static void lease_set_state(struct beest_leases *leases, struct lease *lease, enum state state)
{
	bool moves = (lease->state == CLEAN) != (state == CLEAN);

	if (moves)
		lease_unlink(leases, lease);
	lease->state = state;
	lease->sent = false;
	if (moves)
		lease_link(leases, lease);
}

static void lease_remove(struct beest_leases *leases, struct lease *lease)
{
	lease_unlink(leases, lease);
	lease_set_serial(leases, lease, 0);
	*lease_slot(leases, lease->copy->key, lease->hash) = lease->chain;
	leases->count--;
	copy_release(lease->copy);
	free(lease);
}

/* Has a message expired?  Servers count whole seconds, so allow one. */
static bool lease_is_expired(const struct lease *lease, int64_t now)
{
	return lease->copy->row->taken && lease->copy->ttl && lease->stored &&
	       now - lease->stored > (lease->copy->ttl - 1) * BEEST_SECOND;
}

static bool lease_is_due(const struct lease *lease, int64_t now)
{
	return lease->copy->row->in_turn && !lease->copy->row->joins && lease->copy->ttl &&
	       lease->stored &&
	       now - lease->stored > lease->copy->ttl * BEEST_SECOND / 3;
}

/* Is it a message whose push is over, so that it may be found deleted by a reader? */
static bool lease_is_takable(const struct lease *lease)
{
	return lease->copy->row->taken && !lease->serial;
}

/* Removes expired messages, so that they do not pile up. */
static void expired_remove(struct beest_leases *leases)
{
	struct lease *lease, *behind;
	int64_t now = beest_clock_now();

	for (lease = leases->first; lease; lease = behind) {
		behind = lease->behind;
		if (lease_is_expired(lease, now))
			lease_remove(leases, lease);
	}
}

/* Takes @copy over; NULL: no memory. */
static struct lease *lease_add(struct beest_leases *leases, size_t server,
			       struct beest_lease_copy *copy, enum state state)
{
	struct lease *lease = calloc(1, sizeof(*lease));

	if (!lease)
		return NULL;

	if (++leases->count % BUCKETS == 0)
		expired_remove(leases);
	lease->hash = beest_hash_crc32(0, copy->key, strlen(copy->key));
	*lease_slot(leases, copy->key, lease->hash) = lease;
	lease->copy = copy;
	lease->server = server;
	lease->state = state;
	lease_link(leases, lease);

	return lease;
}

/* -------------------------------------------------------------- what is wanted --- */

static struct beest_lease_copy *copy_new(const struct beest_leases *leases,
			     const struct beest_lease_wanted *wanted)
{
	size_t key_size = strlen(wanted->key) + 1;
	struct beest_lease_copy *copy = malloc(sizeof(*copy) + wanted->size + key_size);

	if (!copy)
		return NULL;

	copy->users = 1;
	copy->writers = 0;
	copy->row = beest_record_row(wanted->kind);
	copy->ttl = wanted->ttl ? wanted->ttl : beest_lease_ttl(leases);
	copy->flags = wanted->flags;
	copy->add_only = wanted->add_only;
	copy->unique = wanted->unique;
	copy->size = wanted->size;
	copy->key = (char *)copy->bytes + wanted->size;
	memcpy(copy->bytes, wanted->bytes, wanted->size);
	memcpy(copy->key, wanted->key, key_size);

	return copy;
}

/* Returns the copy to release: the previous one, if any, or @copy if there is no memory. */
static struct beest_lease_copy *lease_replace(struct beest_leases *leases,
					      const struct beest_lease_wanted *wanted,
					      struct beest_lease_copy *copy)
{
	struct lease *lease = lease_find(leases, wanted->key);
	struct beest_lease_copy *previous = lease ? lease->copy : NULL;

	if (!lease)
		lease = lease_add(leases, wanted->server, copy, DIRTY);
	if (!lease)
		return copy;
	lease->repeated = wanted->add_only && previous && previous->add_only &&
			  lease->digest == wanted->digest;
	lease->copy = copy;
	lease_set_serial(leases, lease, wanted->serial);
	lease->digest = wanted->digest;
	lease->superseded = false;
	lease->refused = lease->occupied = false;
	lease->checked = lease->gone = false;
	lease_set_state(leases, lease, DIRTY);

	return previous;
}

int beest_lease_put(struct beest_leases *leases, const struct beest_lease_wanted *wanted)
{
	struct beest_lease_copy *copy = copy_new(leases, wanted), *left;
	bool dropped, failed;

	if (!copy)
		return beest_fail(ENOMEM, "no memory for the record of key '%s'", wanted->key);

	pthread_mutex_lock(&leases->lock);
	left = copy;
	dropped = leases->ended && copy->row->ending != BEEST_RECORD_STAYS;
	if (!dropped)
		left = lease_replace(leases, wanted, copy);
	failed = left == copy && !dropped;
	pthread_mutex_unlock(&leases->lock);
	copy_release(left);

	return failed ? beest_fail(ENOMEM, "no memory to remember key '%s'", wanted->key) : 0;
}

bool beest_lease_has(struct beest_leases *leases, const struct beest_lease_wanted *wanted)
{
	const struct lease *lease;
	bool has;

	pthread_mutex_lock(&leases->lock);
	lease = lease_find(leases, wanted->key);
	has = lease && lease->state != DOOMED && lease->serial == wanted->serial &&
	      lease->digest == wanted->digest;
	pthread_mutex_unlock(&leases->lock);

	return has;
}

bool beest_lease_is(struct beest_leases *leases, const char *key, enum beest_lease_fact fact)
{
	const struct lease *lease;
	unsigned int facts = BEEST_LEASE_SETTLED;

	pthread_mutex_lock(&leases->lock);
	lease = lease_find(leases, key);
	if (lease)
		facts = BEEST_LEASE_THERE |
			(lease->state == CLEAN || lease->refused ? BEEST_LEASE_SETTLED : 0) |
			(lease->contested ? BEEST_LEASE_CONTESTED : 0) |
			(lease->refused ? BEEST_LEASE_REFUSED : 0) |
			(lease->state == CLEAN || (lease->sent && !lease->refused) ?
			 BEEST_LEASE_SENT : 0) |
			(lease->occupied ? BEEST_LEASE_OCCUPIED : 0);
	pthread_mutex_unlock(&leases->lock);

	return facts & fact;
}

void beest_lease_republish(struct beest_leases *leases, const char *key)
{
	struct lease *lease;

	pthread_mutex_lock(&leases->lock);
	lease = lease_find(leases, key);
	if (lease && lease->state != DOOMED) {
		lease->superseded = lease->listed = false;
		lease_set_state(leases, lease, DIRTY);
	}
	pthread_mutex_unlock(&leases->lock);
}

uint64_t beest_lease_serial(struct beest_leases *leases, const char *key)
{
	const struct lease *lease;
	uint64_t serial;

	pthread_mutex_lock(&leases->lock);
	lease = lease_find(leases, key);
	serial = lease ? lease->serial : 0;
	pthread_mutex_unlock(&leases->lock);

	return serial;
}

void beest_lease_release(struct beest_leases *leases, const char *key, uint64_t serial)
{
	struct lease *lease;

	pthread_mutex_lock(&leases->lock);
	lease = lease_find(leases, key);
	if (lease && lease->serial == serial)
		lease_set_serial(leases, lease, 0);
	pthread_mutex_unlock(&leases->lock);
}

void beest_lease_forget(struct beest_leases *leases, const char *key, uint64_t serial)
{
	struct lease *lease;

	pthread_mutex_lock(&leases->lock);
	lease = lease_find(leases, key);
	if (lease && (!serial || lease->serial == serial))
		lease_remove(leases, lease);
	pthread_mutex_unlock(&leases->lock);
}

/*
 * Makes the tombstone of a queue pair.  Its peer may still confirm by it, or learns that no process
 * will connect, and why.  NULL: any other record, or no memory.
 */
static struct beest_lease_copy *copy_closed(const struct beest_leases *leases,
					    const struct beest_lease_copy *copy)
{
	const struct beest_lease_wanted wanted = {
		.kind = copy->row->kind, .key = copy->key, .ttl = TOMBSTONE_TTL,
		.flags = copy->flags | BEEST_RECORD_CLOSED,
		.bytes = copy->bytes, .size = copy->size,
	};
	struct beest_lease_copy *closed;

	if (copy->row->ending != BEEST_RECORD_ENDS_CLOSED)
		return NULL;
	closed = copy_new(leases, &wanted);
	if (!closed)
		return NULL;

	if (beest_record_close(leases->seal, closed->bytes, closed->size, closed->key) < 0) {
		free(closed);
		return NULL;
	}

	return closed;
}

/*
 * Forgets a record that no server has, that another process replaced, or that is to stay.
 * @closed: its tombstone; NULL: none.  @checked: it is ours, and need not be read first.
 */
static void lease_doom(struct beest_leases *leases, struct lease *lease,
		       struct beest_lease_copy *closed, bool checked)
{
	if (lease->superseded || !lease->offered ||
	    lease->copy->row->ending == BEEST_RECORD_STAYS) {
		copy_release(closed);
		lease_remove(leases, lease);
		return;
	}
	if (closed) {
		copy_release(lease->copy);
		lease->copy = closed;
	}
	lease_set_state(leases, lease, DOOMED);
	lease->checked = checked;
	lease->gone = false;
}

void beest_lease_doom(struct beest_leases *leases, uint64_t serial)
{
	struct lease *lease, *sibling;

	if (!serial)
		return;

	pthread_mutex_lock(&leases->lock);
	for (lease = leases->owners[serial % BUCKETS]; lease; lease = sibling) {
		sibling = lease->sibling;
		if (lease->serial == serial && lease->state != DOOMED)
			lease_doom(leases, lease, copy_closed(leases, lease->copy), false);
	}
	pthread_mutex_unlock(&leases->lock);
}

bool beest_lease_doom_key(struct beest_leases *leases, const char *key)
{
	struct lease *lease;
	bool kept;

	pthread_mutex_lock(&leases->lock);
	lease = lease_find(leases, key);
	kept = lease && lease->state != DOOMED;
	if (kept)
		lease_doom(leases, lease, NULL, lease->state == CLEAN &&
			   beest_clock_now() - lease->stored <= OURS_TIME);
	pthread_mutex_unlock(&leases->lock);

	return kept;
}

void beest_lease_doom_all(struct beest_leases *leases)
{
	struct lease *lease, *behind;

	pthread_mutex_lock(&leases->lock);
	leases->ended = true;
	for (lease = leases->first; lease; lease = behind) {
		behind = lease->behind;
		if (lease->state != DOOMED && lease->copy->row->ending != BEEST_RECORD_STAYS)
			lease_doom(leases, lease, copy_closed(leases, lease->copy), false);
	}
	pthread_mutex_unlock(&leases->lock);
}

static unsigned int writers_of(const struct beest_lease_copy *copy)
{
	return __atomic_load_n(&copy->writers, __ATOMIC_RELAXED);
}

bool beest_lease_is_busy(struct beest_leases *leases)
{
	const struct lease *lease;
	bool busy = false;

	pthread_mutex_lock(&leases->lock);
	for (lease = leases->first; lease != leases->clean; lease = lease->behind)
		busy |= lease->state == DOOMED && writers_of(lease->copy);
	pthread_mutex_unlock(&leases->lock);

	return busy;
}

size_t beest_lease_count(struct beest_leases *leases, bool doomed)
{
	const struct lease *lease;
	size_t count = 0;

	pthread_mutex_lock(&leases->lock);
	for (lease = leases->first; doomed && lease != leases->clean; lease = lease->behind)
		count += lease->state == DOOMED;
	count = doomed ? count : leases->count;
	pthread_mutex_unlock(&leases->lock);

	return count;
}

size_t beest_lease_largest(struct beest_leases *leases, size_t server)
{
	const struct lease *lease;
	size_t most = 0;

	pthread_mutex_lock(&leases->lock);
	for (lease = leases->first; lease; lease = lease->behind)
		if (lease->server == server)
			most = BEEST_MAX(most, lease->copy->size + strlen(lease->copy->key));
	pthread_mutex_unlock(&leases->lock);

	return most;
}

static bool copy_is_closed(const struct beest_lease_copy *copy)
{
	return copy->flags & BEEST_RECORD_CLOSED;
}

/*
 * A DOOMED record is absent.  There is nothing to remove, but a peer that follows a queue pair
 * must still learn that it is gone.
 */
static void lease_missed(struct beest_leases *leases, struct lease *lease)
{
	lease->checked = lease->gone = true;
	lease->sent = false;
	if (!copy_is_closed(lease->copy))
		lease_remove(leases, lease);
}

void beest_lease_lose(struct beest_leases *leases, size_t server)
{
	struct lease *lease, *behind;
	int64_t now = beest_clock_now();

	pthread_mutex_lock(&leases->lock);
	for (lease = leases->first; lease; lease = behind) {
		behind = lease->behind;
		if (lease->server != server || lease->superseded)
			continue;
		lease->listed = false;
		if (lease_is_expired(lease, now))
			lease_remove(leases, lease);
		else if (lease->state == DOOMED)
			lease_missed(leases, lease);
		else if (lease->state == CLEAN)
			lease_set_state(leases, lease, LOST);
	}
	pthread_mutex_unlock(&leases->lock);
}

/* Only CLEAN leases count: a record in flight may have reached the server after its loss. */
bool beest_lease_canary(struct beest_leases *leases, size_t server, uint64_t number, size_t nth,
			char key[BEEST_KEY_MAX + 1])
{
	const struct lease *lease;

	pthread_mutex_lock(&leases->lock);
	for (lease = leases->last; lease; lease = lease->before)
		if (lease->server == server && lease->state == CLEAN && lease->stored &&
		    lease->found <= number && !lease->superseded && !lease->copy->row->taken &&
		    !lease->copy->row->joins && nth-- == 0)
			break;
	if (lease)
		strcpy(key, lease->copy->key);
	pthread_mutex_unlock(&leases->lock);

	return lease != NULL;
}

/* -------------------------------------------------------------------- the plan --- */

static bool lease_is_unsent(const struct lease *lease)
{
	return lease->state != CLEAN && !lease->sent && !lease->refused &&
	       (lease->state != DOOMED || lease->checked);
}

/*
 * Must it be read, to see the result of a write, or whose record would be removed?  A write whose
 * answer was not awaited is read back whatever the kind, but not while another plan writes it.  So
 * is one that its owner repeats, who has not found it there.
 */
static bool lease_is_unseen(const struct lease *lease)
{
	if (writers_of(lease->copy))
		return false;

	return lease->state == DOOMED ? !lease->checked || lease->sent :
	       lease->state != CLEAN && !lease->copy->row->taken &&
	       (lease->copy->row->read_back || lease->sent || lease->repeated);
}

/* All four arrays are one block.  A lease has at most two writes. */
static int plan_allocate(struct beest_lease_plan *plan, size_t leases, size_t spare)
{
	size_t room = 2 * leases + spare + 1;

	plan->writes = calloc(1, room * (sizeof(*plan->writes) + sizeof(*plan->keys)) +
				 (3 * leases + 2) * sizeof(*plan->written));
	if (!plan->writes)
		return beest_fail(ENOMEM, "no memory for a request of %zu records", leases);
	plan->keys = (const char **)(plan->writes + room);
	plan->written = (struct beest_lease_copy **)(plan->keys + room);
	plan->read = plan->written + 2 * leases + 1;

	return 0;
}

void beest_lease_plan_free(struct beest_lease_plan *plan)
{
	size_t i;

	for (i = 0; i < plan->write_count; i++) {
		__atomic_sub_fetch(&plan->written[i]->writers, 1, __ATOMIC_RELAXED);
		copy_release(plan->written[i]);
	}
	for (i = 1; i < plan->key_count; i++)
		copy_release(plan->read[i]);
	free(plan->writes);
	memset(plan, 0, sizeof(*plan));
}

static void plan_add(struct beest_lease_plan *plan, struct beest_lease_copy *copy,
		     enum beest_kv_verb verb, size_t size)
{
	__atomic_add_fetch(&copy->writers, 1, __ATOMIC_RELAXED);
	plan->written[plan->write_count] = copy_hold(copy);
	plan->writes[plan->write_count++] = (struct beest_kv_write){
		.verb = verb, .key = copy->key, .value = copy->bytes, .size = size,
		.ttl = copy->ttl, .answered = copy->row->taken, .unique = copy->unique,
	};
}

static void plan_write(struct beest_lease_plan *plan, struct lease *lease)
{
	struct beest_lease_copy *copy = lease->copy;
	enum beest_kv_verb verb = copy->row->joins ? BEEST_KV_APPEND :
				  lease->state == LOST || lease->gone ? BEEST_KV_ADD :
				  copy->unique ? BEEST_KV_CAS :
				  copy->add_only ? BEEST_KV_ADD :
				  lease->state == DOOMED && !copy_is_closed(copy) ?
				  BEEST_KV_DELETE : BEEST_KV_SET;

	/* Nothing can be appended to a list that is not there. */
	if (copy->row->joins && !lease->listed)
		plan_add(plan, copy, BEEST_KV_ADD, 0);
	plan_add(plan, copy, verb, copy->size);
	lease->sent = true;
	lease->offered = true;
}

static void plan_read(struct beest_lease_plan *plan, struct lease *lease)
{
	plan->read[plan->key_count] = copy_hold(lease->copy);
	plan->keys[plan->key_count++] = lease->copy->key;
}

/*
 * Reads back a few of the records just written, always including the last.  Doomed records are
 * always read.
 */
static void plan_restless(struct beest_leases *leases, struct beest_lease_plan *plan)
{
	struct lease *lease, *last = NULL;
	size_t budget = READ_BACK_MAX - 1;
	bool unseen;

	for (lease = leases->first; lease != leases->clean; lease = lease->behind) {
		if (lease->server != plan->server)
			continue;
		unseen = lease_is_unseen(lease);
		if (lease_is_unsent(lease))
			plan_write(plan, lease);
		if (unseen && lease->state == DOOMED) {
			plan_read(plan, lease);
		} else if (unseen) {
			if (last && budget) {
				plan_read(plan, last);
				budget--;
			}
			last = lease;
		}
	}
	if (last)
		plan_read(plan, last);
}

/*
 * Reads a few CLEAN records in turn, which may have been evicted, replaced or deleted; they go to
 * the end of the list.  Also reads those that are due.
 */
static void plan_check(struct beest_leases *leases, struct beest_lease_plan *plan)
{
	struct lease *lease = NULL, *behind = leases->clean, *end = leases->last;
	int64_t now = beest_clock_now();
	struct { size_t records, bytes; } turns[] = { { 0, 0 }, { 0, 0 } }, *turn;

	while (behind && lease != end) {
		lease = behind;
		behind = lease->behind;
		if (lease->server != plan->server || lease->superseded ||
		    !(lease->copy->row->in_turn || lease_is_takable(lease)))
			continue;
		turn = &turns[lease->copy->row->taken];
		if (turn->records < TURN_MAX && turn->bytes < TURN_BYTES) {
			lease_unlink(leases, lease);
			lease_link(leases, lease);
			turn->records++;
			turn->bytes += lease->copy->size;
		} else if (!lease_is_due(lease, now)) {
			continue;
		}
		plan_read(plan, lease);
	}
}

int beest_lease_plan(struct beest_leases *leases, size_t server, bool check, size_t spare,
		     struct beest_lease_plan *plan)
{
	const struct lease *lease;
	size_t room = 0;
	int ret = 0;

	memset(plan, 0, sizeof(*plan));
	plan->server = server;
	plan->key_count = 1;
	pthread_mutex_lock(&leases->lock);
	for (lease = leases->first; lease && (check || lease != leases->clean);
	     lease = lease->behind)
		room += lease->server == server;
	if (room || spare)
		ret = plan_allocate(plan, room, spare);
	if (ret == 0 && room)
		plan_restless(leases, plan);
	if (ret == 0 && room && check)
		plan_check(leases, plan);
	pthread_mutex_unlock(&leases->lock);

	return ret;
}

/* ----------------------------------------------------------------- the answers --- */

/* The lease that @copy belongs to; NULL: it is gone, or has another version by now. */
static struct lease *lease_of(struct beest_leases *leases, const struct beest_lease_copy *copy)
{
	struct lease *lease = lease_find(leases, copy->key);

	return lease && lease->copy == copy ? lease : NULL;
}

/*
 * An outdated version was written.  It may have replaced the newer one, which is sent again.
 * If the lease was removed meanwhile, the record may be on the server and has to go; without
 * memory it stays until it expires.
 */
static void write_outdated(struct beest_leases *leases, struct beest_lease_plan *plan, size_t i)
{
	struct beest_lease_copy *copy = plan->written[i];
	struct lease *lease = lease_find(leases, copy->key);

	if (copy->row->taken)
		return;
	if (lease && lease->state != CLEAN) {
		/* The newer version's answer may predate this write, and its look be the last. */
		plan->overtook |= lease->sent;
		lease->checked = lease->sent = false;
	} else if (lease && !lease->superseded) {
		lease_set_state(leases, lease, DIRTY);
		plan->overtook = true;
	} else if (!lease && plan->writes[i].verb != BEEST_KV_DELETE && !copy_is_closed(copy)) {
		lease = lease_add(leases, plan->server, copy, DOOMED);
		if (!lease)
			return;
		copy_hold(copy);
		lease->offered = true;
	}
}

static void write_stored(struct beest_leases *leases, struct lease *lease, uint64_t found)
{
	lease->stored = beest_clock_now();
	lease->found = found;
	lease->listed = true;
	if (lease->state == DOOMED)
		lease_remove(leases, lease);
	else
		lease_set_state(leases, lease, CLEAN);
}

enum sight { ABSENT, SAME, OLDER, ANOTHERS };

static enum sight value_judge(const struct beest_leases *leases,
			      const struct beest_lease_copy *copy,
			      const struct beest_kv_value *value)
{
	struct beest_record record;

	if (!value->bytes)
		return ABSENT;
	if (copy->row->joins)
		return memmem(value->bytes, value->size, copy->bytes, copy->size) ? SAME : ABSENT;
	if (value->size == copy->size && memcmp(value->bytes, copy->bytes, copy->size) == 0)
		return SAME;

	return beest_record_decode(leases->seal, value->bytes, value->size, BEEST_KIND_ANY,
				   copy->key, &record) == 0 &&
	       beest_process_is_context(&record.incarnation, &leases->incarnation) ? OLDER :
	       ANOTHERS;
}

/* May another thread have stored it since the request was sent? */
static bool is_stored_meanwhile(const struct lease *lease, const struct beest_lease_plan *plan)
{
	unsigned int own = 0;
	size_t i;

	for (i = 0; i < plan->write_count; i++)
		own += plan->written[i] == lease->copy;

	return lease->found > plan->number || writers_of(lease->copy) > own;
}

/* A DOOMED record is there: it is removed if it is ours, or was, if its tombstone is there. */
static void doomed_see(struct beest_leases *leases, struct lease *lease, enum sight sight)
{
	if (sight == ANOTHERS || (sight == SAME && copy_is_closed(lease->copy))) {
		lease_remove(leases, lease);
		return;
	}
	lease->checked = true;
	lease->gone = lease->sent = false;
}

/* A record is renewed only after it was seen, so as not to replace another process's. */
static void lease_see(struct beest_leases *leases, struct lease *lease, enum sight sight,
		      uint64_t found)
{
	if (lease->state == DOOMED && sight == ABSENT) {
		lease_missed(leases, lease);
	} else if (lease->copy->row->taken && lease->state == CLEAN && sight != SAME &&
		   sight != OLDER) {
		lease_remove(leases, lease);	/* a reader deleted it, or another replaced it */
	} else if (lease->state == DOOMED) {
		doomed_see(leases, lease, sight);
	} else if (sight == ABSENT) {
		lease->listed = false;
		lease_set_state(leases, lease, lease->state == CLEAN ? LOST : lease->state);
	} else if (sight == ANOTHERS) {
		lease->superseded = lease->contested = true;
		lease_set_state(leases, lease, CLEAN);
	} else if (sight == OLDER ||
		   (lease->state == CLEAN && lease_is_due(lease, beest_clock_now()))) {
		lease_set_state(leases, lease, DIRTY);
	} else if (lease->sent) {
		write_stored(leases, lease, found);
	}
}

static void writes_done(struct beest_leases *leases, struct beest_lease_plan *plan,
			int ret, bool stored, uint64_t found)
{
	const struct beest_kv_write *write = plan->writes;
	struct lease *lease;
	bool known;
	size_t i;

	for (i = 0; i < plan->write_count; i++, write++) {
		lease = lease_of(leases, plan->written[i]);
		if (write->verb == BEEST_KV_ADD && plan->written[i]->row->joins)
			continue;	/* there was a list already, or this one is extended next */
		known = ret == 0 || (write->done && ret != -ENODATA);
		if (!lease) {
			write_outdated(leases, plan, i);
		} else if (!lease->sent) {
			continue;	/* reading it back has shown more */
		} else if (known && write->ret == -EMSGSIZE) {
			lease->refused = true;
		} else if (known && lease->copy->add_only && write->ret < 0) {
			lease->occupied = true;
			write_stored(leases, lease, found);
		} else if (!known || (write->ret < 0 && write->ret != -EEXIST)) {
			lease->sent = false;
		} else if (stored || write->answered) {
			write_stored(leases, lease, found);
		}
	}
}

size_t beest_lease_done(struct beest_leases *leases, struct beest_lease_plan *plan,
			int ret, bool answered, const struct beest_kv_value *values,
			uint64_t found)
{
	enum sight sight;
	struct lease *lease;
	size_t i, missing = 0;
	bool refused = false;

	pthread_mutex_lock(&leases->lock);
	for (i = 1; i < plan->key_count && ret == 0 && answered; i++) {
		lease = lease_of(leases, plan->read[i]);
		if (!lease)
			continue;
		if (!values[i].bytes) {
			refused |= lease->sent;
			missing += lease->sent || (lease->state == CLEAN &&
						   !lease->copy->row->taken);
		} else if (lease->copy->unique && values[i].unique == lease->copy->unique) {
			/* A server that refuses an add keeps the value that it was to replace. */
			missing += lease->sent;
		}
		sight = value_judge(leases, lease->copy, &values[i]);
		if (sight != ANOTHERS || !is_stored_meanwhile(lease, plan))
			lease_see(leases, lease, sight, found);
	}
	writes_done(leases, plan, ret, answered && !refused, found);
	pthread_mutex_unlock(&leases->lock);

	return missing;
}
