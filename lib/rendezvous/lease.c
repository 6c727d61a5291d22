/* SPDX-License-Identifier: MIT */
/* lease.c - see lease.h */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/lock.h"
#include "lib/base/macro.h"
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

/*
 * What the server has of a record, as far as is known.  CLEAN to REFUSED are settled, from DOOMED
 * on the record is to go.
 */
enum state {
	STAYS,			/* in the table: the event changes nothing */
	NEW,			/* no version was ever sent */
	DIRTY,			/* the server may have another version: to be set */
	SENT,			/* this version is under way, or its answer was not awaited */
	LOST,			/* to be added, so as to replace no other process's record */
	ADDED,			/* as SENT */
	CLEAN,			/* stored */
	OCCUPIED,		/* add-only message: a value is there, perhaps its own */
	REPLACED,		/* another process's record is there */
	REFUSED,		/* too large for the server: never sent again */
	DOOMED,			/* to be read: whose is it? */
	OURS,			/* to be deleted or, of a queue pair, closed */
	REMOVED,		/* as SENT */
	MISSING,		/* the tombstone of a queue pair that is absent: to be added */
	BURIED,			/* as SENT */
	FREED,			/* in the table: the lease is forgotten */
};

enum event {
	NOTHING,
	/* What the process wants. */
	PUT,
	REPUBLISH,
	DOOM,
	WITHDRAW,		/* DOOM, stored a moment ago */
	LOSE,			/* its server has lost all */
	DISPLACE,		/* the process that had this rank before is known */
	/* What was read. */
	SAME,
	DUE,			/* SAME, to be renewed */
	OLDER,
	ABSENT,
	ANOTHERS,
	TAKEN,			/* neither SAME nor OLDER, of a message */
	TOMBSTONE,		/* SAME, of a closed record */
	/* What a write has brought. */
	SEND,
	STORED,
	EXISTS,			/* add-only message */
	TOO_LARGE,
	FAILED,
	OUTDATED,		/* an older version was written, perhaps last */
	EVENTS
};

/* A record is renewed only after it was seen, so as not to replace another process's. */
static const uint8_t transitions[FREED][EVENTS] = {
	[NEW] = {
		[DOOM] = FREED, [SEND] = SENT, [OUTDATED] = DIRTY,
	},
	[DIRTY] = {
		[DOOM] = DOOMED, [ANOTHERS] = REPLACED, [SEND] = SENT,
	},
	[SENT] = {
		[PUT] = DIRTY, [REPUBLISH] = DIRTY, [DOOM] = DOOMED,
		[SAME] = CLEAN, [OLDER] = DIRTY, [ABSENT] = DIRTY, [ANOTHERS] = REPLACED,
		[STORED] = CLEAN, [EXISTS] = OCCUPIED, [TOO_LARGE] = REFUSED, [FAILED] = DIRTY,
		[OUTDATED] = DIRTY,
	},
	[LOST] = {
		[PUT] = DIRTY, [REPUBLISH] = DIRTY, [DOOM] = DOOMED,
		[OLDER] = DIRTY, [ANOTHERS] = REPLACED, [SEND] = ADDED,
	},
	[ADDED] = {
		[PUT] = DIRTY, [REPUBLISH] = DIRTY, [DOOM] = DOOMED,
		[SAME] = CLEAN, [OLDER] = DIRTY, [ABSENT] = LOST, [ANOTHERS] = REPLACED,
		[STORED] = CLEAN, [EXISTS] = OCCUPIED, [TOO_LARGE] = REFUSED, [FAILED] = LOST,
		[OUTDATED] = LOST,
	},
	[CLEAN] = {
		[PUT] = DIRTY, [REPUBLISH] = DIRTY, [DOOM] = DOOMED, [WITHDRAW] = OURS,
		[LOSE] = LOST,
		[DUE] = DIRTY, [OLDER] = DIRTY, [ABSENT] = LOST, [ANOTHERS] = REPLACED,
		[TAKEN] = FREED, [OUTDATED] = DIRTY,
	},
	[OCCUPIED] = {
		[PUT] = DIRTY, [LOSE] = LOST, [TAKEN] = FREED,
	},
	[REPLACED] = {
		[PUT] = DIRTY, [REPUBLISH] = DIRTY, [DOOM] = FREED, [DISPLACE] = SENT,
	},
	[REFUSED] = {
		[PUT] = DIRTY, [DOOM] = DOOMED,
	},
	[DOOMED] = {
		[PUT] = DIRTY, [LOSE] = MISSING,
		[SAME] = OURS, [OLDER] = OURS, [ABSENT] = MISSING, [ANOTHERS] = FREED,
		[TOMBSTONE] = FREED,
	},
	[OURS] = {
		[PUT] = DIRTY, [LOSE] = MISSING,
		[ABSENT] = MISSING, [ANOTHERS] = FREED, [TOMBSTONE] = FREED,
		[SEND] = REMOVED, [OUTDATED] = DOOMED,
	},
	[REMOVED] = {
		[PUT] = DIRTY, [LOSE] = MISSING,
		[SAME] = OURS, [OLDER] = OURS, [ABSENT] = MISSING, [ANOTHERS] = FREED,
		[TOMBSTONE] = FREED,
		[STORED] = FREED, [TOO_LARGE] = FREED, [FAILED] = OURS, [OUTDATED] = DOOMED,
	},
	[MISSING] = {
		[PUT] = DIRTY,
		[OLDER] = OURS, [ANOTHERS] = FREED, [TOMBSTONE] = FREED,
		[SEND] = BURIED, [OUTDATED] = DOOMED,
	},
	[BURIED] = {
		[PUT] = DIRTY, [LOSE] = MISSING,
		[OLDER] = OURS, [ABSENT] = MISSING, [ANOTHERS] = FREED, [TOMBSTONE] = FREED,
		[STORED] = FREED, [TOO_LARGE] = FREED, [FAILED] = MISSING, [OUTDATED] = DOOMED,
	},
};

/* What is kept never changes, so that a request may use it while the lease changes. */
struct beest_lease_copy {
	unsigned int users;		/* the lease and plans */
	unsigned int writers;		/* the plans that write it; under the lock */
	uint32_t hash;			/* of the key */
	const struct beest_record_row *row;
	bool repeated;		/* only added, and put again as it was: it may be refused */
	struct beest_lease_wanted what;	/* its key and bytes are in @room */
	uint8_t room[];
};

struct lease {
	struct lease *chain;		/* same bucket of keys */
	struct lease *sibling;		/* same bucket of serials */
	struct lease *before, *behind;
	uint64_t serial;	/* now: an owner may let go of what was put with its own */
	struct beest_lease_copy *copy;
	enum state state;
	bool contested;		/* another process's record was there once */
	int64_t stored;		/* when it was stored last; 0: never */
	uint64_t found;		/* requests of this number or later find what was last written */
};

struct beest_leases {
	/* This context, and the one that it has displaced: itself as long as there is none. */
	struct beest_incarnation authors[2];
	struct beest_seal *seal;
	int64_t ttl;

	pthread_mutex_t lock;		/* of everything below */
	struct lease *buckets[BUCKETS];	/* by the key */
	struct lease *owners[BUCKETS];	/* by the serial, those that have one */
	unsigned int writing[BUCKETS];	/* by the key: writes of plans that are not freed */
	size_t count;
	bool ended;			/* takes no more records that go at the end */
	/*
	 * First the leases that are not settled, in the order in which they became so: most
	 * looks walk only these.  Then the settled ones, in the order in which they were last
	 * stored or read in turn.
	 */
	struct lease *first, *last;
	struct lease *settled;		/* the first settled one; NULL: there is none */
};

/* ----------------------------------------------------------------- open, close --- */

int beest_lease_open(struct beest_leases **leasesp, int64_t ttl,
		     const struct beest_incarnation *incarnation, struct beest_seal *seal)
{
	struct beest_leases *leases = calloc(1, sizeof(*leases));

	if (!leases)
		return beest_fail(ENOMEM, "no memory for a table of records");

	leases->authors[0] = leases->authors[1] = *incarnation;
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

	while (*at && ((*at)->copy->hash != hash || strcmp((*at)->copy->what.key, key) != 0))
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

static bool state_is_settled(enum state state)
{
	return state >= CLEAN && state <= REFUSED;
}

static bool lease_is_doomed(const struct lease *lease)
{
	return lease->state >= DOOMED;
}

static bool lease_is_sent(const struct lease *lease)
{
	return transitions[lease->state][FAILED];
}

static void lease_unlink(struct beest_leases *leases, struct lease *lease)
{
	if (leases->settled == lease)
		leases->settled = lease->behind;
	*(lease->before ? &lease->before->behind : &leases->first) = lease->behind;
	*(lease->behind ? &lease->behind->before : &leases->last) = lease->before;
}

/* Puts it at the end of its part of the list. */
static void lease_link(struct beest_leases *leases, struct lease *lease)
{
	lease->behind = state_is_settled(lease->state) ? NULL : leases->settled;
	lease->before = lease->behind ? lease->behind->before : leases->last;
	*(lease->before ? &lease->before->behind : &leases->first) = lease;
	*(lease->behind ? &lease->behind->before : &leases->last) = lease;
	if (state_is_settled(lease->state) && !leases->settled)
		leases->settled = lease;
}

static void lease_remove(struct beest_leases *leases, struct lease *lease)
{
	lease_unlink(leases, lease);
	lease_set_serial(leases, lease, 0);
	*lease_slot(leases, lease->copy->what.key, lease->copy->hash) = lease->chain;
	leases->count--;
	copy_release(lease->copy);
	free(lease);
}

static bool copy_is_closed(const struct beest_lease_copy *copy)
{
	return copy->what.flags & BEEST_RECORD_CLOSED;
}

/* Takes the row of the table.  False: the event changes nothing.  May free the lease. */
static bool lease_step(struct beest_leases *leases, struct lease *lease, enum event event)
{
	enum state next = (enum state)transitions[lease->state][event];

	/* There is nothing to remove, but a peer that follows a queue pair must still learn it. */
	if (next == FREED || (next == MISSING && !copy_is_closed(lease->copy))) {
		lease_remove(leases, lease);
	} else if (next != STAYS && state_is_settled(next) == state_is_settled(lease->state)) {
		lease->state = next;
	} else if (next != STAYS) {
		lease_unlink(leases, lease);
		lease->state = next;
		lease_link(leases, lease);
	}

	return next != STAYS;
}

/* Has a message expired?  Servers count whole seconds, so allow one. */
static bool lease_is_expired(const struct lease *lease, int64_t now)
{
	return lease->copy->row->taken && lease->copy->what.ttl && lease->stored &&
	       now - lease->stored > (lease->copy->what.ttl - 1) * BEEST_SECOND;
}

static bool lease_is_due(const struct lease *lease, int64_t now)
{
	return lease->copy->row->in_turn && lease->copy->what.ttl && lease->stored &&
	       now - lease->stored > lease->copy->what.ttl * BEEST_SECOND / 3;
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
static struct lease *lease_add(struct beest_leases *leases, struct beest_lease_copy *copy,
			       enum state state)
{
	struct lease *lease = calloc(1, sizeof(*lease));

	if (!lease)
		return NULL;

	if (++leases->count % BUCKETS == 0)
		expired_remove(leases);
	*lease_slot(leases, copy->what.key, copy->hash) = lease;
	lease->copy = copy;
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

	*copy = (struct beest_lease_copy){
		.users = 1, .row = beest_record_row(wanted->kind), .what = *wanted,
	};
	copy->what.ttl = wanted->ttl ? wanted->ttl : beest_lease_ttl(leases);
	copy->what.bytes = memcpy(copy->room, wanted->bytes, wanted->size);
	copy->what.key = memcpy(copy->room + wanted->size, wanted->key, key_size);
	copy->hash = beest_hash_crc32(0, wanted->key, key_size - 1);

	return copy;
}

/* Takes @copy over. */
static int lease_replace(struct beest_leases *leases, const struct beest_lease_wanted *wanted,
			 struct beest_lease_copy *copy)
{
	struct beest_lease_copy *previous;
	struct lease *lease;
	BEEST_HOLD(&leases->lock);

	if (leases->ended && copy->row->ending != BEEST_RECORD_STAYS) {
		copy_release(copy);
		return 0;
	}
	lease = lease_find(leases, wanted->key);
	previous = lease ? lease->copy : NULL;
	if (!lease)
		lease = lease_add(leases, copy, NEW);
	if (!lease) {
		copy_release(copy);
		return beest_fail(ENOMEM, "no memory to remember key '%s'", wanted->key);
	}
	copy->repeated = wanted->add_only && previous && previous->what.add_only &&
			 previous->what.digest == wanted->digest;
	lease->copy = copy;
	lease_set_serial(leases, lease, wanted->serial);
	lease_step(leases, lease, PUT);
	copy_release(previous);

	return 0;
}

int beest_lease_put(struct beest_leases *leases, const struct beest_lease_wanted *wanted)
{
	struct beest_lease_copy *copy = copy_new(leases, wanted);

	return copy ? lease_replace(leases, wanted, copy) :
	       beest_fail(ENOMEM, "no memory for the record of key '%s'", wanted->key);
}

bool beest_lease_has(struct beest_leases *leases, const struct beest_lease_wanted *wanted)
{
	const struct lease *lease;
	BEEST_HOLD(&leases->lock);

	lease = lease_find(leases, wanted->key);

	return lease && !lease_is_doomed(lease) && lease->serial == wanted->serial &&
	       lease->copy->what.digest == wanted->digest;
}

static unsigned int lease_facts(const struct lease *lease)
{
	const bool settled = state_is_settled(lease->state);
	unsigned int facts = BEEST_LEASE_THERE;

	if (settled)
		facts |= BEEST_LEASE_SETTLED;
	if (lease->contested)
		facts |= BEEST_LEASE_CONTESTED;
	if (lease->state == REFUSED)
		facts |= BEEST_LEASE_REFUSED;
	else if (settled || (lease_is_sent(lease) && !lease->copy->writers))
		facts |= BEEST_LEASE_SENT;
	if (lease->state == OCCUPIED)
		facts |= BEEST_LEASE_OCCUPIED;

	return facts;
}

bool beest_lease_is(struct beest_leases *leases, const char *key, enum beest_lease_fact fact)
{
	const struct lease *lease;
	BEEST_HOLD(&leases->lock);

	lease = lease_find(leases, key);

	return (lease ? lease_facts(lease) : BEEST_LEASE_SETTLED) & fact;
}

void beest_lease_republish(struct beest_leases *leases, const char *key)
{
	struct lease *lease;
	BEEST_HOLD(&leases->lock);

	lease = lease_find(leases, key);
	if (lease)
		lease_step(leases, lease, REPUBLISH);
}

void beest_lease_displace(struct beest_leases *leases, const struct beest_incarnation *displaced)
{
	struct lease *lease, *behind;
	BEEST_HOLD(&leases->lock);

	if (beest_process_is_context(&leases->authors[1], displaced))
		return;
	leases->authors[1] = *displaced;
	/* One that was replaced is read again, and whose record that is decides. */
	for (lease = leases->settled; lease; lease = behind) {
		behind = lease->behind;
		lease_step(leases, lease, DISPLACE);
	}
}

uint64_t beest_lease_serial(struct beest_leases *leases, const char *key)
{
	const struct lease *lease;
	BEEST_HOLD(&leases->lock);

	lease = lease_find(leases, key);

	return lease ? lease->serial : 0;
}

void beest_lease_release(struct beest_leases *leases, const char *key, uint64_t serial)
{
	struct lease *lease;
	BEEST_HOLD(&leases->lock);

	lease = lease_find(leases, key);
	if (lease && lease->serial == serial)
		lease_set_serial(leases, lease, 0);
}

void beest_lease_forget(struct beest_leases *leases, const char *key, uint64_t serial)
{
	struct lease *lease;
	BEEST_HOLD(&leases->lock);

	lease = lease_find(leases, key);
	if (lease && (!serial || lease->serial == serial))
		lease_remove(leases, lease);
}

/*
 * Makes the tombstone of a queue pair.  Its peer may still confirm by it, or learns that no process
 * will connect, and why.  NULL: any other record, or no memory.
 */
static struct beest_lease_copy *copy_closed(const struct beest_leases *leases,
					    const struct beest_lease_copy *copy)
{
	struct beest_lease_wanted wanted = copy->what;
	struct beest_lease_copy *closed;

	if (copy->row->ending != BEEST_RECORD_ENDS_CLOSED)
		return NULL;
	wanted.ttl = TOMBSTONE_TTL;
	wanted.flags |= BEEST_RECORD_CLOSED;
	closed = copy_new(leases, &wanted);
	if (!closed)
		return NULL;

	if (beest_record_close(leases->seal, closed->room, wanted.size, wanted.key) < 0) {
		free(closed);
		return NULL;
	}

	return closed;
}

/*
 * Forgets a record that no server has, that another process replaced, or that is to stay.
 * @closes: its tombstone is left, if its kind has one.
 */
static void lease_doom(struct beest_leases *leases, struct lease *lease, bool closes,
		       enum event event)
{
	struct beest_lease_copy *closed = closes ? copy_closed(leases, lease->copy) : NULL;

	if (closed) {
		copy_release(lease->copy);
		lease->copy = closed;
	}
	if (lease->copy->row->ending == BEEST_RECORD_STAYS)
		lease_remove(leases, lease);
	else
		lease_step(leases, lease, event);
}

void beest_lease_doom(struct beest_leases *leases, uint64_t serial)
{
	struct lease *lease, *sibling;
	BEEST_HOLD(&leases->lock);

	for (lease = leases->owners[serial % BUCKETS]; lease && serial; lease = sibling) {
		sibling = lease->sibling;
		if (lease->serial == serial && !lease_is_doomed(lease))
			lease_doom(leases, lease, true, DOOM);
	}
}

bool beest_lease_doom_key(struct beest_leases *leases, const char *key)
{
	struct lease *lease;
	BEEST_HOLD(&leases->lock);

	lease = lease_find(leases, key);
	if (!lease || lease_is_doomed(lease))
		return false;
	lease_set_serial(leases, lease, 0);
	lease_doom(leases, lease, false, lease->state == CLEAN &&
		   beest_clock_now() - lease->stored <= OURS_TIME ? WITHDRAW : DOOM);

	return true;
}

void beest_lease_doom_all(struct beest_leases *leases)
{
	struct lease *lease, *behind;
	BEEST_HOLD(&leases->lock);

	leases->ended = true;
	for (lease = leases->first; lease; lease = behind) {
		behind = lease->behind;
		if (!lease_is_doomed(lease) && lease->copy->row->ending != BEEST_RECORD_STAYS)
			lease_doom(leases, lease, true, DOOM);
	}
}

bool beest_lease_is_busy(struct beest_leases *leases)
{
	const struct lease *lease;
	BEEST_HOLD(&leases->lock);

	lease = leases->first;
	while (lease != leases->settled && !(lease_is_doomed(lease) && lease->copy->writers))
		lease = lease->behind;

	return lease != leases->settled;
}

size_t beest_lease_count(struct beest_leases *leases, bool doomed)
{
	const struct lease *lease;
	size_t count = 0;
	BEEST_HOLD(&leases->lock);

	for (lease = leases->first; doomed && lease != leases->settled; lease = lease->behind)
		count += lease_is_doomed(lease);

	return doomed ? count : leases->count;
}

size_t beest_lease_largest(struct beest_leases *leases, size_t server)
{
	const struct beest_lease_wanted *what;
	const struct lease *lease;
	size_t most = 0;
	BEEST_HOLD(&leases->lock);

	for (lease = leases->first; lease; lease = lease->behind) {
		what = &lease->copy->what;
		if (what->server == server)
			most = BEEST_MAX(most, what->size + strlen(what->key));
	}

	return most;
}

void beest_lease_lose(struct beest_leases *leases, size_t server)
{
	struct lease *lease, *behind;
	int64_t now = beest_clock_now();
	BEEST_HOLD(&leases->lock);

	for (lease = leases->first; lease; lease = behind) {
		behind = lease->behind;
		if (lease->copy->what.server != server)
			continue;
		if (lease_is_expired(lease, now))
			lease_remove(leases, lease);
		else
			lease_step(leases, lease, LOSE);
	}
}

/*
 * A record in flight may have reached the server after its loss.  That holds for each version: one
 * may be CLEAN while the request of another, or of another thread, has yet to end.
 */
static bool lease_is_canary(const struct beest_leases *leases, const struct lease *lease,
			    uint64_t number)
{
	return lease->state == CLEAN && lease->stored && lease->found <= number &&
	       !lease->copy->row->taken && !leases->writing[lease->copy->hash % BUCKETS];
}

bool beest_lease_canary(struct beest_leases *leases, size_t server, uint64_t number, size_t nth,
			char key[BEEST_KEY_MAX + 1])
{
	const struct lease *lease;
	BEEST_HOLD(&leases->lock);

	for (lease = leases->last; lease; lease = lease->before)
		if (lease->copy->what.server == server &&
		    lease_is_canary(leases, lease, number) && nth-- == 0) {
			strcpy(key, lease->copy->what.key);
			return true;
		}

	return false;
}

bool beest_lease_is_canary(struct beest_leases *leases, const char *key, uint64_t number)
{
	const struct lease *lease;
	BEEST_HOLD(&leases->lock);

	lease = lease_find(leases, key);

	return lease && lease_is_canary(leases, lease, number);
}

/* -------------------------------------------------------------------- the plan --- */

/*
 * Must it be read, to see the result of a write, or whose record would be removed?  A write whose
 * answer was not awaited is read back whatever the kind, but not while another plan writes it.  So
 * is one that its owner repeats, who has not found it there.
 */
static bool lease_is_unseen(const struct lease *lease)
{
	const struct beest_lease_copy *copy = lease->copy;

	if (copy->writers || state_is_settled(lease->state))
		return false;
	if (lease_is_doomed(lease))
		return lease->state == DOOMED || lease_is_sent(lease);

	return !copy->row->taken &&
	       (copy->row->read_back || copy->repeated || lease_is_sent(lease));
}

/* All four arrays are one block. */
static int plan_allocate(struct beest_lease_plan *plan, size_t leases, size_t spare)
{
	size_t room = leases + spare + 1;

	plan->writes = calloc(1, room * (sizeof(*plan->writes) + sizeof(*plan->keys)) +
				 (2 * leases + 1) * sizeof(*plan->written));
	if (!plan->writes)
		return beest_fail(ENOMEM, "no memory for a request of %zu records", leases);
	plan->keys = (const char **)(plan->writes + room);
	plan->written = (struct beest_lease_copy **)(plan->keys + room);
	plan->read = plan->written + leases;

	return 0;
}

static void plan_end(struct beest_lease_plan *plan)
{
	size_t i;
	BEEST_HOLD(&plan->leases->lock);

	for (i = 0; i < plan->write_count; i++) {
		plan->leases->writing[plan->written[i]->hash % BUCKETS]--;
		plan->written[i]->writers--;
	}
}

void beest_lease_plan_free(struct beest_lease_plan *plan)
{
	size_t i;

	if (plan->write_count)
		plan_end(plan);
	for (i = 0; i < plan->write_count; i++)
		copy_release(plan->written[i]);
	for (i = 1; i < plan->key_count; i++)
		copy_release(plan->read[i]);
	free(plan->writes);
	memset(plan, 0, sizeof(*plan));
}

static void plan_add(struct beest_lease_plan *plan, struct beest_lease_copy *copy,
		     enum beest_kv_verb verb)
{
	copy->writers++;
	plan->leases->writing[copy->hash % BUCKETS]++;
	plan->written[plan->write_count] = copy_hold(copy);
	plan->writes[plan->write_count++] = (struct beest_kv_write){
		.verb = verb, .key = copy->what.key, .value = copy->what.bytes,
		.size = copy->what.size, .ttl = copy->what.ttl, .answered = copy->row->taken,
		.unique = copy->what.unique,
	};
}

static enum beest_kv_verb lease_verb(const struct lease *lease)
{
	const struct beest_lease_copy *copy = lease->copy;

	if (lease->state == OURS)
		return copy_is_closed(copy) ? BEEST_KV_SET : BEEST_KV_DELETE;
	if (lease->state == LOST || lease->state == MISSING)
		return BEEST_KV_ADD;

	return copy->what.unique ? BEEST_KV_CAS : copy->what.add_only ? BEEST_KV_ADD : BEEST_KV_SET;
}

/* Sends it, if that is due. */
static void plan_write(struct beest_leases *leases, struct beest_lease_plan *plan,
		       struct lease *lease)
{
	const enum beest_kv_verb verb = lease_verb(lease);

	if (lease_step(leases, lease, SEND))
		plan_add(plan, lease->copy, verb);
}

static void plan_read(struct beest_lease_plan *plan, struct lease *lease)
{
	plan->read[plan->key_count] = copy_hold(lease->copy);
	plan->keys[plan->key_count++] = lease->copy->what.key;
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

	for (lease = leases->first; lease != leases->settled; lease = lease->behind) {
		if (lease->copy->what.server != plan->server)
			continue;
		unseen = lease_is_unseen(lease);
		plan_write(leases, plan, lease);
		if (unseen && lease_is_doomed(lease)) {
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
 * Reads a few stored records in turn, which may have been evicted, replaced or deleted; they go to
 * the end of the list.  Also reads those that are due.
 */
static void plan_check(struct beest_leases *leases, struct beest_lease_plan *plan)
{
	struct lease *lease = NULL, *behind = leases->settled, *end = leases->last;
	int64_t now = beest_clock_now();
	struct { size_t records, bytes; } turns[] = { { 0, 0 }, { 0, 0 } }, *turn;

	while (behind && lease != end) {
		lease = behind;
		behind = lease->behind;
		if (lease->copy->what.server != plan->server || lease->state > OCCUPIED ||
		    !(lease->copy->row->in_turn || lease_is_takable(lease)))
			continue;
		turn = &turns[lease->copy->row->taken];
		if (turn->records < TURN_MAX && turn->bytes < TURN_BYTES) {
			lease_unlink(leases, lease);
			lease_link(leases, lease);
			turn->records++;
			turn->bytes += lease->copy->what.size;
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
	BEEST_HOLD(&leases->lock);

	memset(plan, 0, sizeof(*plan));
	plan->leases = leases;
	plan->server = server;
	plan->key_count = 1;
	for (lease = leases->first; lease && (check || lease != leases->settled);
	     lease = lease->behind)
		room += lease->copy->what.server == server;
	if (room || spare)
		ret = plan_allocate(plan, room, spare);
	if (ret == 0 && room)
		plan_restless(leases, plan);
	if (ret == 0 && room && check)
		plan_check(leases, plan);

	return ret;
}

/* ----------------------------------------------------------------- the answers --- */

/* The lease of the key, whatever version it has by now. */
static struct lease *lease_of_key(struct beest_leases *leases, const struct beest_lease_copy *copy)
{
	return *lease_slot(leases, copy->what.key, copy->hash);
}

/* The lease that @copy belongs to; NULL: it is gone, or has another version by now. */
static struct lease *lease_of(struct beest_leases *leases, const struct beest_lease_copy *copy)
{
	struct lease *lease = lease_of_key(leases, copy);

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
	struct lease *lease = lease_of_key(leases, copy);

	if (copy->row->taken)
		return;
	if (lease) {
		/* The newer version's answer may predate this write, and its look be the last. */
		plan->overtook |= lease->state == CLEAN || lease_is_sent(lease);
		lease_step(leases, lease, OUTDATED);
	} else if (plan->writes[i].verb != BEEST_KV_DELETE && !copy_is_closed(copy) &&
		   (lease = lease_add(leases, copy, DOOMED))) {
		copy_hold(copy);
		lease_set_serial(leases, lease, copy->what.serial);
	}
}

/*
 * How many of the authors count as this process.  What is to go is not touched if it is another
 * one's; who has the rank is decided in presence.c; a reader may have deleted a message before, so
 * that is not stored twice; and what is only added would not replace anything.
 */
static size_t author_count(const struct beest_leases *leases, const struct lease *lease)
{
	const struct beest_lease_copy *copy = lease->copy;

	return lease_is_doomed(lease) || copy->what.kind == BEEST_KIND_RANK || copy->row->taken ||
	       copy->what.add_only ? 1 : BEEST_COUNT(leases->authors);
}

static enum event value_judge(const struct beest_leases *leases, const struct lease *lease,
			      const struct beest_kv_value *value)
{
	const struct beest_lease_copy *copy = lease->copy;

	if (!value->bytes)
		return ABSENT;
	if (value->size == copy->what.size &&
	    memcmp(value->bytes, copy->what.bytes, value->size) == 0)
		return SAME;

	return beest_record_is_of(leases->seal, value->bytes, value->size, copy->what.key,
				  leases->authors, author_count(leases, lease)) ?
	       OLDER : ANOTHERS;
}

/* May another thread have stored it since the request was sent? */
static bool is_stored_meanwhile(const struct lease *lease, const struct beest_lease_plan *plan)
{
	unsigned int own = 0;
	size_t i;

	for (i = 0; i < plan->write_count; i++)
		own += plan->written[i] == lease->copy;

	return lease->found > plan->number || lease->copy->writers > own;
}

/* What was read, by the kind and the state of the record. */
static enum event sight_event(const struct lease *lease, enum event sight)
{
	if (lease->copy->row->taken && (sight == ABSENT || sight == ANOTHERS))
		return TAKEN;
	if (sight == SAME && copy_is_closed(lease->copy))
		return TOMBSTONE;
	if (sight == SAME && lease->state == CLEAN && lease_is_due(lease, beest_clock_now()))
		return DUE;

	return sight;
}

/* @known: the server has answered; @stored: all that it has not refused. */
static enum event write_event(const struct beest_lease_copy *copy,
			      const struct beest_kv_write *write, bool known, bool stored)
{
	if (known && write->ret == -EMSGSIZE)
		return TOO_LARGE;
	if (known && copy->what.add_only && write->ret < 0)
		return copy->row->taken ? EXISTS : STORED;
	if (!known || (write->ret < 0 && write->ret != -EEXIST))
		return FAILED;

	return stored || write->answered ? STORED : NOTHING;
}

/* What was sent has arrived, or not; @found as in beest_lease_done(). */
static void lease_answer(struct beest_leases *leases, struct lease *lease, enum event event,
			 uint64_t found)
{
	if (lease_is_sent(lease) && (event == SAME || event == STORED || event == EXISTS)) {
		lease->stored = beest_clock_now();
		lease->found = BEEST_MAX(lease->found, found);
	}
	lease->contested |= event == ANOTHERS;
	lease_step(leases, lease, event);
}

static void writes_done(struct beest_leases *leases, struct beest_lease_plan *plan,
			int ret, bool stored, uint64_t found)
{
	const struct beest_kv_write *write = plan->writes;
	struct lease *lease;
	enum event event;
	bool known;
	size_t i;

	for (i = 0; i < plan->write_count; i++, write++) {
		/* Even one that failed may have stored it: see lease_is_canary(). */
		lease = lease_of_key(leases, plan->written[i]);
		if (lease)
			lease->found = BEEST_MAX(lease->found, found);
		if (lease && lease->copy != plan->written[i])
			lease = NULL;
		known = ret == 0 || (write->done && ret != -ENODATA);
		event = write_event(plan->written[i], write, known, stored);
		if (!lease)
			write_outdated(leases, plan, i);
		else if (lease_is_sent(lease))		/* else reading it back has shown more */
			lease_answer(leases, lease, event, found);
	}
}

size_t beest_lease_done(struct beest_leases *leases, struct beest_lease_plan *plan,
			int ret, bool answered, const struct beest_kv_value *values,
			uint64_t found)
{
	enum event sight;
	struct lease *lease;
	size_t i, missing = 0;
	bool refused = false;
	BEEST_HOLD(&leases->lock);

	for (i = 1; i < plan->key_count && ret == 0 && answered; i++) {
		lease = lease_of(leases, plan->read[i]);
		if (!lease)
			continue;
		if (!values[i].bytes) {
			refused |= lease_is_sent(lease);
			missing += lease_is_sent(lease) || (lease->state == CLEAN &&
						   !lease->copy->row->taken);
		} else if (values[i].unique && values[i].unique == lease->copy->what.unique) {
			/* A server that refuses an add keeps the value that it was to replace. */
			missing += lease_is_sent(lease);
		}
		sight = value_judge(leases, lease, &values[i]);
		if (sight != ANOTHERS || !is_stored_meanwhile(lease, plan))
			lease_answer(leases, lease, sight_event(lease, sight), found);
	}
	writes_done(leases, plan, ret, answered && !refused, found);

	return missing;
}
