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

#define ROOM_MIN 16
/* So many of a batch are read back: the error of a quiet write shows nowhere else. */
#define READ_BACK_MAX 8

/* So many are looked at in turn, to find what a server evicted. */
#define TURN_MAX 4

/* A write on a connection that failed may be carried out this much later. */
#define LATE (20 * BEEST_MS)

/* What a closed record of a queue pair has to live: its peer may be about to read it. */
#define TOMBSTONE_TTL 60

enum state { DIRTY, CLEAN, LOST, DOOMED };

enum ending { DELETED, CLOSED, LEFT };

/* What a kind needs. */
static const struct row {
	enum beest_record_kind kind;
	bool in_turn;		/* looked at in turn, and renewed; else its owner does */
	bool taken;		/* a reader may delete it, so that absence is no loss */
	bool answered;		/* each write waits for its answer */
	bool read_back;		/* reading it shows whether the write was carried out */
	enum ending ending;
} rows[] = {
	{ BEEST_KIND_RANK, false, false, false, false, LEFT },
	{ BEEST_KIND_QP, true, false, false, true, CLOSED },
	{ BEEST_KIND_MR, true, false, false, true, DELETED },
	{ BEEST_KIND_BARRIER, true, false, false, false, LEFT },
	{ BEEST_KIND_GATE, true, false, false, true, LEFT },
	{ BEEST_KIND_MESSAGE, false, true, true, false, LEFT },
};

/* A key and bytes that never change: a request may use them while the lease goes on. */
struct copy {
	unsigned int users;
	const struct row *row;
	int64_t ttl;		/* seconds */
	size_t size;
	char *key;
	uint8_t bytes[];
};

struct lease {
	struct lease *chain;		/* same bucket */
	struct lease *older, *newer;	/* in the order of the first put */
	struct lease *before, *behind;	/* among those that are not CLEAN, as they became so */
	uint32_t hash;
	size_t server;
	uint64_t serial;
	struct copy *copy;
	enum state state;
	bool sent;		/* this version is on its way, or there */
	bool offered;		/* some version may be there */
	bool superseded;	/* another process's record is there */
	bool checked;		/* DOOMED: it was still ours */
	int64_t stored;		/* when it was stored last; 0: never */
	uint64_t stored_by;	/* number of that request */
	int64_t look_at;	/* when it is to be read back; INT64_MAX: in turn only */
};

struct beest_leases {
	struct beest_incarnation incarnation;
	int64_t ttl;

	pthread_mutex_t lock;		/* of all below */
	struct lease **buckets;
	size_t room, count;		/* room is a power of two */
	struct lease *oldest, *newest;
	struct lease *first, *last;	/* of those that are not CLEAN */
	size_t *restless;		/* by server: how many these are */
	size_t *turn;			/* by server: how many were checked in turn */
	size_t servers;
};

struct beest_lease_step {
	struct copy *copy;
	uint8_t *tombstone;		/* bytes of a closed record; for free(3) */
};

/* ----------------------------------------------------------------- open, close --- */

int beest_lease_open(struct beest_leases **leasesp, size_t servers, int64_t ttl,
		     const struct beest_incarnation *incarnation)
{
	struct beest_leases *leases = calloc(1, sizeof(*leases));

	if (leases) {
		leases->restless = calloc(servers, sizeof(*leases->restless));
		leases->turn = calloc(servers, sizeof(*leases->turn));
		leases->buckets = calloc(ROOM_MIN, sizeof(*leases->buckets));
	}
	if (!leases || !leases->restless || !leases->turn || !leases->buckets) {
		if (leases) {
			free(leases->restless);
			free(leases->turn);
			free(leases->buckets);
		}
		free(leases);
		return beest_fail(ENOMEM, "no memory for a table of records");
	}

	leases->incarnation = *incarnation;
	leases->ttl = ttl < BEEST_TTL_MAX ? ttl : BEEST_TTL_MAX;
	leases->room = ROOM_MIN;
	leases->servers = servers;
	pthread_mutex_init(&leases->lock, NULL);
	*leasesp = leases;

	return 0;
}

static void copy_release(struct copy *copy)
{
	if (copy && __atomic_sub_fetch(&copy->users, 1, __ATOMIC_ACQ_REL) == 0)
		free(copy);
}

static struct copy *copy_hold(struct copy *copy)
{
	__atomic_add_fetch(&copy->users, 1, __ATOMIC_RELAXED);

	return copy;
}

static void lease_free(struct lease *lease)
{
	copy_release(lease->copy);
	free(lease);
}

void beest_lease_close(struct beest_leases *leases)
{
	struct lease *lease;

	if (!leases)
		return;

	while ((lease = leases->oldest)) {
		leases->oldest = lease->newer;
		lease_free(lease);
	}
	pthread_mutex_destroy(&leases->lock);
	free(leases->buckets);
	free(leases->restless);
	free(leases->turn);
	free(leases);
}

int64_t beest_lease_ttl(const struct beest_leases *leases)
{
	return (leases->ttl + BEEST_SECOND - 1) / BEEST_SECOND;
}

/* ---------------------------------------------------- under the lock: the table --- */

static const struct row *row_of(enum beest_record_kind kind)
{
	size_t i = 0;

	while (rows[i].kind != kind)
		i++;

	return &rows[i];
}

static struct lease **lease_slot(const struct beest_leases *leases, const char *key,
				 uint32_t hash)
{
	struct lease **at = &leases->buckets[hash & (leases->room - 1)];

	while (*at && ((*at)->hash != hash || strcmp((*at)->copy->key, key) != 0))
		at = &(*at)->chain;

	return at;
}

static struct lease *lease_find(const struct beest_leases *leases, const char *key)
{
	return *lease_slot(leases, key, beest_hash_crc32(key, strlen(key)));
}

/* In and out of the list that each look walks. */
static void lease_wake(struct beest_leases *leases, struct lease *lease)
{
	lease->before = leases->last;
	lease->behind = NULL;
	*(leases->last ? &leases->last->behind : &leases->first) = lease;
	leases->last = lease;
	leases->restless[lease->server]++;
}

static void lease_settle(struct beest_leases *leases, struct lease *lease)
{
	*(lease->before ? &lease->before->behind : &leases->first) = lease->behind;
	*(lease->behind ? &lease->behind->before : &leases->last) = lease->before;
	leases->restless[lease->server]--;
}

static void lease_set_state(struct beest_leases *leases, struct lease *lease, enum state state)
{
	if (lease->state == CLEAN && state != CLEAN)
		lease_wake(leases, lease);
	else if (lease->state != CLEAN && state == CLEAN)
		lease_settle(leases, lease);
	lease->state = state;
	lease->sent = false;
}

static void lease_remove(struct beest_leases *leases, struct lease *lease)
{
	lease_set_state(leases, lease, CLEAN);
	*lease_slot(leases, lease->copy->key, lease->hash) = lease->chain;
	*(lease->older ? &lease->older->newer : &leases->oldest) = lease->newer;
	*(lease->newer ? &lease->newer->older : &leases->newest) = lease->older;
	leases->count--;
	lease_free(lease);
}

/* Nobody reads it any more, by a server's clock that counts whole seconds. */
static bool lease_is_expired(const struct lease *lease, int64_t now)
{
	return lease->copy->ttl && lease->stored &&
	       now - lease->stored > (lease->copy->ttl - 1) * BEEST_SECOND;
}

static bool lease_is_due(const struct lease *lease, int64_t now)
{
	return lease->copy->row->in_turn && lease->copy->ttl && lease->stored &&
	       now - lease->stored > lease->copy->ttl * BEEST_SECOND / 3;
}

/* Messages that no server has any more, before the table grows for others. */
static void expired_remove(struct beest_leases *leases)
{
	struct lease *lease, *newer;
	int64_t now = beest_clock_now();

	for (lease = leases->oldest; lease; lease = newer) {
		newer = lease->newer;
		if (lease->copy->row->taken && lease_is_expired(lease, now))
			lease_remove(leases, lease);
	}
}

static bool leases_grow(struct beest_leases *leases)
{
	size_t room = 2 * leases->room;
	struct lease **buckets, **at, *lease;

	expired_remove(leases);
	if (leases->count < leases->room)
		return true;
	buckets = calloc(room, sizeof(*buckets));
	if (!buckets)
		return false;

	for (lease = leases->oldest; lease; lease = lease->newer) {
		at = &buckets[lease->hash & (room - 1)];
		lease->chain = *at;
		*at = lease;
	}
	free(leases->buckets);
	leases->buckets = buckets;
	leases->room = room;

	return true;
}

/* With @copy as its own; NULL: no memory. */
static struct lease *lease_add(struct beest_leases *leases,
			       const struct beest_lease_wanted *wanted, struct copy *copy)
{
	struct lease *lease, **slot;

	if (leases->count == leases->room && !leases_grow(leases))
		return NULL;
	lease = calloc(1, sizeof(*lease));
	if (!lease)
		return NULL;

	lease->hash = beest_hash_crc32(wanted->key, strlen(wanted->key));
	slot = lease_slot(leases, wanted->key, lease->hash);
	*slot = lease;
	lease->copy = copy;
	lease->server = wanted->server;
	lease->state = CLEAN;
	lease->older = leases->newest;
	*(leases->newest ? &leases->newest->newer : &leases->oldest) = lease;
	leases->newest = lease;
	leases->count++;

	return lease;
}

/* -------------------------------------------------------------- what is wanted --- */

static struct copy *copy_new(const struct beest_leases *leases,
			     const struct beest_lease_wanted *wanted)
{
	size_t key_size = strlen(wanted->key) + 1;
	struct copy *copy = malloc(sizeof(*copy) + wanted->size + key_size);

	if (!copy)
		return NULL;

	copy->users = 1;
	copy->row = row_of(wanted->kind);
	copy->ttl = wanted->ttl ? wanted->ttl : beest_lease_ttl(leases);
	copy->size = wanted->size;
	copy->key = (char *)copy->bytes + wanted->size;
	memcpy(copy->bytes, wanted->bytes, wanted->size);
	memcpy(copy->key, wanted->key, key_size);

	return copy;
}

static struct copy *lease_replace(struct beest_leases *leases,
				  const struct beest_lease_wanted *wanted, struct copy *copy)
{
	struct lease *lease = lease_find(leases, wanted->key);
	struct copy *former = NULL;

	if (lease) {
		former = lease->copy;
		lease->copy = copy;
	} else {
		lease = lease_add(leases, wanted, copy);
		if (!lease)
			return copy;
	}
	lease->serial = wanted->serial;
	lease->superseded = false;
	lease->checked = false;
	lease->look_at = INT64_MAX;
	lease_set_state(leases, lease, DIRTY);

	return former;
}

int beest_lease_put(struct beest_leases *leases, const struct beest_lease_wanted *wanted)
{
	struct copy *copy = copy_new(leases, wanted), *left;
	bool failed;

	if (!copy)
		return beest_fail(ENOMEM, "no memory for the record of key '%s'", wanted->key);

	pthread_mutex_lock(&leases->lock);
	left = lease_replace(leases, wanted, copy);
	failed = left == copy;
	pthread_mutex_unlock(&leases->lock);
	copy_release(left);

	return failed ? beest_fail(ENOMEM, "no memory to remember key '%s'", wanted->key) : 0;
}

bool beest_lease_is_settled(struct beest_leases *leases, const char *key)
{
	const struct lease *lease;
	bool settled;

	pthread_mutex_lock(&leases->lock);
	lease = lease_find(leases, key);
	settled = !lease || lease->state == CLEAN;
	pthread_mutex_unlock(&leases->lock);

	return settled;
}

void beest_lease_insist(struct beest_leases *leases, const char *key)
{
	struct lease *lease;

	pthread_mutex_lock(&leases->lock);
	lease = lease_find(leases, key);
	if (lease && lease->state != DOOMED) {
		lease->superseded = false;
		lease_set_state(leases, lease, DIRTY);
	}
	pthread_mutex_unlock(&leases->lock);
}

void beest_lease_forget(struct beest_leases *leases, const char *key)
{
	struct lease *lease;

	pthread_mutex_lock(&leases->lock);
	lease = lease_find(leases, key);
	if (lease)
		lease_remove(leases, lease);
	pthread_mutex_unlock(&leases->lock);
}

/* What no server can have, and what is another's by now, is only forgotten. */
static void lease_doom(struct beest_leases *leases, struct lease *lease)
{
	if (lease->superseded || !lease->offered) {
		lease_remove(leases, lease);
		return;
	}
	lease_set_state(leases, lease, DOOMED);
	lease->checked = false;
}

void beest_lease_doom(struct beest_leases *leases, uint64_t serial)
{
	struct lease *lease, *newer;

	pthread_mutex_lock(&leases->lock);
	for (lease = leases->oldest; lease; lease = newer) {
		newer = lease->newer;
		if (lease->state == DOOMED)
			continue;
		if (serial ? lease->serial == serial : lease->copy->row->ending != LEFT)
			lease_doom(leases, lease);
	}
	pthread_mutex_unlock(&leases->lock);
}

size_t beest_lease_count(struct beest_leases *leases)
{
	size_t count;

	pthread_mutex_lock(&leases->lock);
	count = leases->count;
	pthread_mutex_unlock(&leases->lock);

	return count;
}

size_t beest_lease_doomed(struct beest_leases *leases)
{
	const struct lease *lease;
	size_t count = 0;

	pthread_mutex_lock(&leases->lock);
	for (lease = leases->oldest; lease; lease = lease->newer)
		count += lease->state == DOOMED;
	pthread_mutex_unlock(&leases->lock);

	return count;
}

void beest_lease_lose(struct beest_leases *leases, size_t server, uint64_t number)
{
	struct lease *lease, *newer;
	int64_t now = beest_clock_now();

	pthread_mutex_lock(&leases->lock);
	for (lease = leases->oldest; lease; lease = newer) {
		newer = lease->newer;
		if (lease->server != server || lease->stored_by == number || lease->superseded)
			continue;
		if (lease->state == DOOMED || (lease->copy->row->taken &&
					       lease_is_expired(lease, now)))
			lease_remove(leases, lease);
		else if (lease->state == CLEAN)
			lease_set_state(leases, lease, LOST);
	}
	pthread_mutex_unlock(&leases->lock);
}

/* One that is on its way may have come there after all else was lost. */
static bool lease_is_witness(const struct lease *lease, size_t server)
{
	return lease->server == server && lease->state == CLEAN && lease->stored &&
	       !lease->superseded && !lease->copy->row->taken;
}

bool beest_lease_witness(struct beest_leases *leases, size_t server, size_t nth,
			 char key[BEEST_KEY_MAX + 1])
{
	const struct lease *lease;

	pthread_mutex_lock(&leases->lock);
	for (lease = leases->newest; lease; lease = lease->older)
		if (lease_is_witness(lease, server) && nth-- == 0)
			break;
	if (lease)
		strcpy(key, lease->copy->key);
	pthread_mutex_unlock(&leases->lock);

	return lease != NULL;
}

/* -------------------------------------------------------------------- the plan --- */

static bool lease_is_unsent(const struct lease *lease)
{
	return !lease->sent && (lease->state == DIRTY || lease->state == LOST ||
				(lease->state == DOOMED && lease->checked));
}

/*
 * What has to be seen: the result of a write, or whose record is to be taken away.  A write
 * that nobody waited for is read back whatever the kind.
 */
static bool lease_is_unseen(const struct lease *lease)
{
	return (lease->copy->row->read_back || lease->sent || lease->state == DOOMED) &&
	       lease->state != CLEAN && !(lease->state == DOOMED && lease->checked);
}

/* At most one step a lease for its write, and one for its reading. */
static int plan_allocate(struct beest_lease_plan *plan, size_t leases)
{
	plan->room = leases;
	plan->writes = calloc(leases, sizeof(*plan->writes));
	plan->keys = calloc(leases, sizeof(*plan->keys));
	plan->steps = calloc(2 * leases, sizeof(*plan->steps));
	if (plan->writes && plan->keys && plan->steps)
		return 0;

	beest_lease_plan_free(plan);
	return beest_fail(ENOMEM, "no memory for a request of %zu records", leases);
}

void beest_lease_plan_free(struct beest_lease_plan *plan)
{
	size_t i;

	for (i = 0; plan->steps && i < 2 * plan->room; i++) {
		copy_release(plan->steps[i].copy);
		free(plan->steps[i].tombstone);
	}
	free(plan->writes);
	free(plan->keys);
	free(plan->steps);
	memset(plan, 0, sizeof(*plan));
}

/* One that has an echo is closed and stays for a while: its peer may confirm by it. */
static void plan_ending(struct beest_kv_write *write, struct beest_lease_step *step)
{
	const struct copy *copy = step->copy;

	write->verb = BEEST_KV_DELETE;
	if (copy->row->ending != CLOSED || !(beest_record_flags(copy->bytes) & BEEST_RECORD_ECHO))
		return;
	step->tombstone = malloc(copy->size);
	if (!step->tombstone)
		return;

	memcpy(step->tombstone, copy->bytes, copy->size);
	beest_record_close(step->tombstone, copy->size, copy->key);
	write->verb = BEEST_KV_SET;
	write->value = step->tombstone;
	write->ttl = TOMBSTONE_TTL;
}

static void plan_write(struct beest_lease_plan *plan, struct lease *lease)
{
	struct beest_kv_write *write = &plan->writes[plan->write_count];
	struct beest_lease_step *step = &plan->steps[plan->write_count++];

	step->copy = copy_hold(lease->copy);
	write->verb = lease->state == LOST ? BEEST_KV_ADD : BEEST_KV_SET;
	write->key = lease->copy->key;
	write->value = lease->copy->bytes;
	write->size = lease->copy->size;
	write->ttl = lease->copy->ttl;
	if (lease->state == DOOMED)
		plan_ending(write, step);
	lease->sent = true;
	lease->offered = true;
}

static void plan_read(struct beest_lease_plan *plan, struct lease *lease)
{
	plan->steps[plan->room + plan->key_count].copy = copy_hold(lease->copy);
	plan->keys[plan->key_count++] = lease->copy->key;
}

static bool plan_takes(const struct lease *lease, size_t server, unsigned int flags)
{
	return lease->server == server &&
	       lease->copy->row->answered == !!(flags & BEEST_LEASE_ANSWERED);
}

/*
 * Of those that were written only some are read back, the last one among them.  Who is
 * doomed is read in any case.
 */
static void plan_restless(struct beest_leases *leases, size_t server, unsigned int flags,
			  struct beest_lease_plan *plan)
{
	struct lease *lease, *last = NULL;
	size_t budget = READ_BACK_MAX - 1;
	bool unseen;

	for (lease = leases->first; lease; lease = lease->behind) {
		if (!plan_takes(lease, server, flags))
			continue;
		unseen = lease_is_unseen(lease) && !(flags & BEEST_LEASE_ANSWERED);
		if (lease_is_unsent(lease))
			plan_write(plan, lease);
		if (!unseen)
			continue;
		if (lease->state == DOOMED) {
			plan_read(plan, lease);
			continue;
		}
		if (last && budget) {
			plan_read(plan, last);
			budget--;
		}
		last = lease;
	}
	if (last)
		plan_read(plan, last);
}

/* What may have been evicted, or replaced, or is due: one walk from where the last ended. */
static void plan_check(struct beest_leases *leases, size_t server, struct beest_lease_plan *plan)
{
	size_t seen = 0, taken = 0, begin = leases->turn[server];
	int64_t now = beest_clock_now();
	struct lease *lease;

	for (lease = leases->oldest; lease; lease = lease->newer) {
		if (lease->server != server || lease->state != CLEAN || lease->superseded ||
		    !lease->copy->row->in_turn)
			continue;
		seen++;
		if (lease_is_due(lease, now) || now >= lease->look_at ||
		    (seen > begin && taken < TURN_MAX)) {
			taken += seen > begin;
			plan_read(plan, lease);
		}
	}
	leases->turn[server] = begin + taken >= seen ? 0 : begin + taken;
}

int beest_lease_plan(struct beest_leases *leases, size_t server, unsigned int flags,
		     struct beest_lease_plan *plan)
{
	size_t room;
	int ret = 0;

	memset(plan, 0, sizeof(*plan));
	plan->server = server;
	pthread_mutex_lock(&leases->lock);
	room = flags & BEEST_LEASE_CHECK ? leases->count : leases->restless[server];
	if (room)
		ret = plan_allocate(plan, room);
	if (ret == 0 && leases->restless[server])
		plan_restless(leases, server, flags, plan);
	if (ret == 0 && plan->room && flags & BEEST_LEASE_CHECK)
		plan_check(leases, server, plan);
	pthread_mutex_unlock(&leases->lock);

	return ret;
}

/* ----------------------------------------------------------------- the answers --- */

/* The lease of a step, unless it is gone or has another version by now. */
static struct lease *step_lease(struct beest_leases *leases, const struct beest_lease_step *step)
{
	struct lease *lease = lease_find(leases, step->copy->key);

	return lease && lease->copy == step->copy ? lease : NULL;
}

/*
 * Destroyed while it was on its way: it may be there now, and has to go.  Without memory it
 * stays behind until its time to live is over.
 */
static void step_orphaned(struct beest_leases *leases, const struct beest_lease_plan *plan,
			  size_t i)
{
	struct copy *copy = plan->steps[i].copy;
	struct beest_lease_wanted wanted = { .key = copy->key, .server = plan->server };
	struct lease *lease;

	if (plan->writes[i].verb == BEEST_KV_DELETE || plan->steps[i].tombstone)
		return;
	lease = lease_add(leases, &wanted, copy);
	if (!lease)
		return;

	copy_hold(copy);
	lease->offered = true;
	lease->look_at = INT64_MAX;
	lease_set_state(leases, lease, DOOMED);
}

/* A later version may have been stored before this one: it is sent again. */
static void step_outdated(struct beest_leases *leases, const struct beest_lease_plan *plan,
			  size_t i)
{
	const struct copy *copy = plan->steps[i].copy;
	struct lease *lease = lease_find(leases, copy->key);

	if (copy->row->taken)
		return;
	if (!lease)
		step_orphaned(leases, plan, i);
	else if (lease->state == DOOMED)
		lease->checked = lease->sent = false;
	else if (lease->state != CLEAN)
		lease->sent = false;
	else if (!lease->superseded)
		lease_set_state(leases, lease, DIRTY);
}

static void write_failed(struct lease *lease)
{
	lease->sent = false;
	lease->look_at = beest_clock_now() + LATE;
}

static void write_stored(struct beest_leases *leases, struct lease *lease, uint64_t number)
{
	lease->stored = beest_clock_now();
	lease->stored_by = number;
	if (lease->state == DOOMED)
		lease_remove(leases, lease);
	else
		lease_set_state(leases, lease, CLEAN);
}

static bool value_is_own(const struct beest_leases *leases, const char *key,
			 const struct beest_kv_value *value)
{
	struct beest_incarnation author;

	return beest_record_author(value->bytes, value->size, key, &author) &&
	       memcmp(&author, &leases->incarnation, sizeof(author)) == 0;
}

static bool value_is_same(const struct copy *copy, const struct beest_kv_value *value)
{
	return value->size == copy->size && memcmp(value->bytes, copy->bytes, copy->size) == 0;
}

static void read_absent(struct beest_leases *leases, struct lease *lease)
{
	if (lease->state == DOOMED)
		lease_remove(leases, lease);
	else
		lease_set_state(leases, lease, lease->state == CLEAN ? LOST : lease->state);
}

/* Renewed only after it was seen, lest another's record be replaced. */
static void read_same(struct beest_leases *leases, struct lease *lease, uint64_t number)
{
	if (lease->state == DOOMED) {
		lease->checked = true;
	} else if (lease->state != CLEAN) {
		if (lease->sent)
			write_stored(leases, lease, number);
	} else if (lease_is_due(lease, beest_clock_now())) {
		lease_set_state(leases, lease, DIRTY);
	}
}

static void read_another(struct beest_leases *leases, struct lease *lease)
{
	if (lease->state == DOOMED) {
		lease_remove(leases, lease);
		return;
	}
	lease->superseded = true;
	lease_set_state(leases, lease, CLEAN);
}

static void read_seen(struct beest_leases *leases, struct lease *lease,
		      const struct beest_kv_value *value, uint64_t number)
{
	if (beest_clock_now() >= lease->look_at)
		lease->look_at = INT64_MAX;
	if (!value->bytes)
		read_absent(leases, lease);
	else if (value_is_same(lease->copy, value))
		read_same(leases, lease, number);
	else if (!value_is_own(leases, lease->copy->key, value))
		read_another(leases, lease);
	else if (lease->state == DOOMED)
		lease->checked = true;	/* an older version of ours: it goes, too */
	else
		lease_set_state(leases, lease, DIRTY);
}

static void writes_done(struct beest_leases *leases, const struct beest_lease_plan *plan,
			int ret, bool stored, uint64_t number)
{
	struct lease *lease;
	size_t i;

	for (i = 0; i < plan->write_count; i++) {
		lease = step_lease(leases, &plan->steps[i]);
		if (!lease)
			step_outdated(leases, plan, i);
		else if (!lease->sent)
			continue;	/* the reading has shown more */
		else if (ret < 0 || (plan->writes[i].ret < 0 && plan->writes[i].ret != -EEXIST))
			write_failed(lease);
		else if (stored)
			write_stored(leases, lease, number);
	}
}

size_t beest_lease_done(struct beest_leases *leases, const struct beest_lease_plan *plan,
			int ret, bool answered, const struct beest_kv_value *values,
			uint64_t number)
{
	struct lease *lease;
	size_t i, missing = 0;
	bool refused = false;

	pthread_mutex_lock(&leases->lock);
	for (i = 0; i < plan->key_count && ret == 0 && answered; i++) {
		lease = step_lease(leases, &plan->steps[plan->room + i]);
		if (!lease)
			continue;
		if (!values[i].bytes) {
			refused |= lease->sent;
			missing += lease->sent || lease->state == CLEAN;
		}
		read_seen(leases, lease, &values[i], number);
	}
	writes_done(leases, plan, ret, answered && !refused, number);
	pthread_mutex_unlock(&leases->lock);

	return missing;
}
