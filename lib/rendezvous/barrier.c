/* SPDX-License-Identifier: MIT */
/* barrier.c - see barrier.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/codec.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/text.h"
#include "lib/rendezvous/barrier.h"
#include "lib/rendezvous/wait.h"

/* Passes of the roll call: all have come, all know of all. */
#define CALLED 1
#define KNOWN 2

/* What the gate of a roll call carries of each rank. */
#define MARK_SIZE BEEST_INCARNATION_SIZE

/* A gate that is late: whoever is due first reads all records instead. */
#define LATE_FIRST (50 * BEEST_MS)
#define LATE_RANK (500 * BEEST_US)
#define LATE_UNKNOWN BEEST_SECOND
#define TAKER_TTL 2

/* What stands in the digest's place in the keys of a roll call. */
#define NO_DIGEST "-"

/* A roll call that ranks join one by one has several first gates. */
#define ECHOES 4

struct gathering {
	struct beest_registry *registry;
	struct beest_roll *roll;
	const char *name;			/* "-" in a roll call */
	const struct beest_ids *ranks;
	int rank;
	size_t own;				/* position of the rank */
	bool calls_roll;
	struct beest_barrier_count *count;
	struct beest_barrier_body body;		/* of the own record */

	char digest[17];			/* in keys */
	char record_key[BEEST_KEY_MAX + 1];
	char gate_key[BEEST_KEY_MAX + 1];
	char count_key[BEEST_KEY_MAX + 1];
	char taker_key[BEEST_KEY_MAX + 1];
	size_t server;

	struct beest_look_extra extras[2];	/* the counter */
	struct beest_wait wait;
	bool counted;				/* the number was taken, and looked at */
	uint64_t number;
	int64_t began, due;
	int64_t late;				/* the least pause between two tries */
	int64_t unknown;			/* after so long the counter does not matter */
	struct beest_incarnation *called;	/* by the gate that was seen last */
	uint64_t echoed[ECHOES];		/* the last digests that this rank said */
	unsigned int echoes;
	int refused;				/* why a record is none, of the rank there */
	size_t refused_at;
	char trouble[200];

	/* one reading of all records */
	char (*keys)[BEEST_KEY_MAX + 1];
	struct beest_look_want *wants;
	struct beest_incarnation *incarnations;
	struct beest_barrier_body *bodies;
	bool *here;
};

/* ------------------------------------------------------------------------ the roll --- */

void beest_roll_start(struct beest_roll *roll)
{
	pthread_mutex_init(&roll->lock, NULL);
}

void beest_roll_end(struct beest_roll *roll)
{
	free(roll->incarnations);
	pthread_mutex_destroy(&roll->lock);
}

/* Never 0, which says that there is none. */
static uint64_t roll_digest(const struct beest_incarnation *incarnations, size_t count)
{
	return beest_hash_fnv(BEEST_HASH_FNV, incarnations, count * MARK_SIZE) | 1;
}

static bool is_same(const struct beest_incarnation *a, const struct beest_incarnation *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static int barrier_destroy(struct beest_node *node)
{
	free(BEEST_CONTAINER(node, struct beest_barrier, node));
	return 0;
}

const struct beest_kind beest_barrier_kind = { "barrier", barrier_destroy };

int beest_barrier_create(struct beest_barrier **barrier)
{
	*barrier = calloc(1, sizeof(**barrier));

	return *barrier ? 0 : beest_fail(ENOMEM, "no memory for a barrier");
}

/* --------------------------------------------------------------------------- keys --- */

static int barrier_key(const struct gathering *g, const char *last, char key[BEEST_KEY_MAX + 1])
{
	char name[BEEST_KEY_MAX + 1];
	int size = snprintf(name, sizeof(name), "%s/%s/%s", g->digest, g->name, last);

	if (size > BEEST_KEY_MAX)
		return beest_fail(ENAMETOOLONG, "the barrier's name '%s' is too long for a key",
				  g->name);

	return beest_registry_key(g->registry, BEEST_KIND_BARRIER, name, key);
}

static int rank_key(const struct gathering *g, size_t i, char key[BEEST_KEY_MAX + 1])
{
	char number[16];

	snprintf(number, sizeof(number), "%d", g->ranks->id[i]);

	return barrier_key(g, number, key);
}

static void gathering_free(struct gathering *g)
{
	free(g->called);
	free(g->keys);
	free(g->wants);
	free(g->incarnations);
	free(g->bodies);
	free(g->here);
}

static int gathering_start(struct gathering *g)
{
	size_t i, count = g->ranks->count;
	int ret;

	ret = barrier_key(g, "gate", g->gate_key);
	if (ret == 0)
		ret = barrier_key(g, "count", g->count_key);
	if (ret == 0)
		ret = barrier_key(g, "taker", g->taker_key);
	for (i = 0; i < count; i++)
		if (g->ranks->id[i] == g->rank)
			g->own = i;
	if (ret == 0)
		ret = rank_key(g, g->own, g->record_key);
	if (ret < 0)
		return ret;

	g->server = beest_kv_server_of(g->registry->kv, g->gate_key);
	g->began = beest_clock_now();
	g->late = LATE_FIRST + (int64_t)count * LATE_RANK;
	g->due = g->began + g->late;
	g->unknown = g->registry->timeout / 4 < LATE_UNKNOWN ? g->registry->timeout / 4 :
		     LATE_UNKNOWN;
	g->called = calloc(count, sizeof(*g->called));

	return g->called ? 0 : beest_fail(ENOMEM, "no memory for a roll of %zu ranks", count);
}

/* Only who reads all records needs this. */
static int reading_start(struct gathering *g)
{
	size_t i, count = g->ranks->count;
	int ret = 0;

	if (g->keys)
		return 0;
	g->keys = calloc(count, sizeof(*g->keys));
	g->wants = calloc(count, sizeof(*g->wants));
	g->incarnations = calloc(count, sizeof(*g->incarnations));
	g->bodies = calloc(count, sizeof(*g->bodies));
	g->here = calloc(count, sizeof(*g->here));
	if (!g->keys || !g->wants || !g->incarnations || !g->bodies || !g->here)
		return beest_fail(ENOMEM, "no memory for a barrier of %zu ranks", count);
	for (i = 0; i < count && ret == 0; i++)
		ret = rank_key(g, i, g->keys[i]);

	return ret;
}

/* ----------------------------------------------------------------- record and gate --- */

/* The counter hints at who comes last: added where it is not there, then counted up. */
static void number_take(struct gathering *g)
{
	g->extras[0] = (struct beest_look_extra){
		.server = g->server,
		.write = {
			.verb = BEEST_KV_ADD, .key = g->count_key, .value = "0", .size = 1,
			.ttl = beest_lease_ttl(g->registry->leases),
		},
	};
	g->extras[1] = (struct beest_look_extra){
		.server = g->server,
		.write = { .verb = BEEST_KV_INCR, .key = g->count_key },
	};
	g->wait.extras = g->extras + g->count->added;
	g->wait.extra_count = 2 - g->count->added;
	g->count->added = true;
	g->count->pass = g->body.pass;
	g->counted = false;
}

static int record_put(struct gathering *g)
{
	uint8_t body[BEEST_BODY_MAX];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_BARRIER, .key = g->record_key, .placed_as = g->gate_key,
		.body = body,
	};

	record.size = (size_t)beest_record_barrier_encode(&g->body, body);
	if (g->count->pass != g->body.pass)
		number_take(g);

	return beest_registry_put(g->registry, &record);
}

static int gate_put(struct gathering *g, const struct beest_barrier_body *body, uint8_t flags,
		    const struct beest_incarnation *named, size_t count)
{
	size_t size = count * MARK_SIZE;
	uint8_t *bytes = malloc(BEEST_BODY_MAX + size);
	struct beest_registry_record record = {
		.kind = BEEST_KIND_GATE, .key = g->gate_key, .flags = flags, .body = bytes,
	};
	int ret;

	if (!bytes)
		return beest_fail(ENOMEM, "no memory for a gate of %zu ranks", g->ranks->count);

	ret = beest_record_barrier_encode(body, bytes);
	if (size)
		memcpy(bytes + ret, named, size);
	record.size = (size_t)ret + size;
	g->wait.hurry = true;
	ret = beest_registry_put(g->registry, &record);
	free(bytes);

	return ret;
}

/* --------------------------------------------------------------- reading all records --- */

/* What is no record is as good as absent; the first one is named if it stays. */
static bool record_read(struct gathering *g, size_t i)
{
	const struct beest_kv_value *value = &g->wants[i].value;
	struct beest_record record;
	int ret;

	ret = beest_record_decode(value->bytes, value->size, BEEST_KIND_BARRIER, g->keys[i],
				  &record);
	if (ret == 0)
		ret = beest_record_barrier_decode(&record, &g->bodies[i]);
	if (ret < 0 && !g->refused) {
		g->refused = ret;
		g->refused_at = i;
		snprintf(g->trouble, sizeof(g->trouble), "%s", beest_error_text());
	}
	if (ret < 0)
		return false;
	g->incarnations[i] = record.incarnation;

	return true;
}

/* 0, or the failure of a server. */
static int records_read(struct gathering *g)
{
	struct beest_look look = {
		.count = g->ranks->count, .deadline = beest_clock_deadline(BEEST_SECOND),
	};
	size_t i;
	int ret;

	ret = reading_start(g);
	if (ret < 0)
		return ret;
	look.wants = g->wants;
	for (i = 0; i < look.count; i++) {
		g->wants[i].key = g->keys[i];
		g->wants[i].server = g->server;
	}
	ret = beest_look_take(g->registry, &look);
	g->refused = 0;
	for (i = 0; i < look.count; i++)
		g->here[i] = g->wants[i].value.bytes && record_read(g, i);
	beest_look_free(g->wants, look.count);

	return ret;
}

/* Has a rank come to this pass?  In the roll call: does it know of all? */
static bool rank_is_here(const struct gathering *g, size_t i, uint64_t digest)
{
	if (!g->here[i])
		return false;
	if (g->calls_roll)
		return g->bodies[i].roll == digest;

	return g->bodies[i].pass >= g->body.pass;
}

static bool all_are_here(const struct gathering *g, uint64_t digest)
{
	size_t i;

	for (i = 0; i < g->ranks->count; i++)
		if (!rank_is_here(g, i, digest))
			return false;

	return true;
}

/* The name of the barrier that all came to first; 0: not the same. */
static uint64_t common_name(const struct gathering *g)
{
	size_t i;

	for (i = 0; i < g->ranks->count; i++)
		if (g->bodies[i].name != g->body.name)
			return 0;

	return g->body.name;
}

/* The first gate tells who has come, the second that all know it. */
static int roll_open(struct gathering *g)
{
	struct beest_barrier_body gate = { .pass = CALLED };
	size_t i, count = g->ranks->count;

	for (i = 0; i < count; i++)
		if (!g->here[i])
			return 0;
	gate.roll = roll_digest(g->incarnations, count);
	if (all_are_here(g, gate.roll)) {
		gate.pass = KNOWN;
		gate.name = common_name(g);
	} else if (memcmp(g->incarnations, g->called, count * MARK_SIZE) == 0) {
		return 0;		/* the same gate again would open nothing */
	}

	return gate_put(g, &gate, 0, g->incarnations, count);
}

static int gate_open(struct gathering *g)
{
	if (g->calls_roll)
		return roll_open(g);

	return all_are_here(g, 0) ? gate_put(g, &g->body, 0, NULL, 0) : 0;
}

/* -------------------------------------------------------------- who will not come --- */

/* Whoever started again is told by name at the gate of the roll call. */
static int newcomer_refuse(struct gathering *g, const struct beest_incarnation *newcomer)
{
	struct gathering roll = {
		.registry = g->registry, .name = NO_DIGEST, .digest = NO_DIGEST,
		.ranks = g->ranks,
	};
	struct beest_barrier_body body = { .pass = KNOWN, .roll = g->body.roll };
	int ret = barrier_key(&roll, "gate", roll.gate_key);

	return ret < 0 ? ret : gate_put(&roll, &body, BEEST_RECORD_CLOSED, newcomer, 1);
}

static int rank_restarted(struct gathering *g, size_t i, const struct beest_incarnation *now,
			  const struct beest_rank_body *body)
{
	char who[BEEST_PRESENCE_TEXT];

	newcomer_refuse(g, now);

	return beest_fail(ESTALE, "%s was started again after the roll call of this run",
			  beest_presence_text(g->ranks->id[i], body, who));
}

/* 0, or why the rank at position @i will not come to this pass. */
static int rank_judge(struct gathering *g, size_t i, const struct beest_kv_value *value,
		      const char *key)
{
	const struct beest_incarnation *known = &g->roll->incarnations[i];
	struct beest_record record;
	struct beest_rank_body body;

	if (!value->bytes || beest_record_decode(value->bytes, value->size, BEEST_KIND_RANK, key,
						 &record) < 0 ||
	    beest_record_rank_decode(&record, &body) < 0)
		return 0;
	if (is_same(&record.incarnation, known))
		return beest_presence_ended(g->ranks->id[i], &body);
	if (beest_process_is_same(&record.incarnation, known))
		return 0;

	return rank_restarted(g, i, &record.incarnation, &body);
}

/* The presences of those who are missing. */
static int missing_judge(struct gathering *g)
{
	struct beest_look look = { .deadline = beest_clock_deadline(BEEST_SECOND) };
	char (*keys)[BEEST_KEY_MAX + 1] = calloc(g->ranks->count, sizeof(*keys));
	size_t *rank_of = calloc(g->ranks->count, sizeof(*rank_of));
	size_t i;
	int ret = 0;

	if (!keys || !rank_of)
		ret = beest_fail(ENOMEM, "no memory to ask for %zu ranks", g->ranks->count);
	look.wants = g->wants;
	for (i = 0; i < g->ranks->count && ret == 0; i++) {
		if (rank_is_here(g, i, 0))
			continue;
		ret = beest_presence_key(g->registry, g->ranks->id[i],
					 &g->roll->incarnations[i], keys[look.count]);
		g->wants[look.count].key = keys[look.count];
		g->wants[look.count].server = beest_kv_server_of(g->registry->kv,
								 keys[look.count]);
		rank_of[look.count++] = i;
	}
	if (ret == 0 && look.count && beest_look_take(g->registry, &look) == 0)
		for (i = 0; i < look.count && ret == 0; i++)
			ret = rank_judge(g, rank_of[i], &g->wants[i].value, keys[i]);
	beest_look_free(g->wants, look.count);
	free(keys);
	free(rank_of);

	return ret;
}

/* ------------------------------------------------------------------- a late gate --- */

/* Has the counter come to a number that hints at all ranks? */
static bool all_have_counted(const struct gathering *g, const struct beest_kv_value *value)
{
	char text[24];			/* a value has no NUL at its end */
	uint64_t number;

	if (!value->bytes || value->size >= sizeof(text))
		return false;
	memcpy(text, value->bytes, value->size);
	text[value->size] = '\0';

	return sscanf(text, "%" SCNu64, &number) == 1 && number &&
	       number % g->ranks->count == 0;
}

/*
 * Only one rank at a time reads all records: whose incarnation is stored under the key of
 * the taker, which nobody sets.
 */
static int gate_is_mine(struct gathering *g, bool unknown)
{
	struct beest_look_want wants[] = {
		{ .key = g->count_key, .server = g->server },
		{ .key = g->taker_key, .server = g->server },
	};
	struct beest_look_extra taker = {
		.server = g->server,
		.write = {
			.verb = BEEST_KV_ADD, .key = g->taker_key,
			.value = &g->registry->presence.incarnation,
			.size = BEEST_INCARNATION_SIZE, .ttl = TAKER_TTL,
		},
	};
	struct beest_look look = {
		.wants = wants, .count = 1, .deadline = beest_clock_deadline(BEEST_SECOND),
	};
	int ret;

	if (!unknown) {
		ret = beest_look_take(g->registry, &look);
		unknown = ret == 0 && all_have_counted(g, &wants[0].value);
		beest_look_free(wants, 1);
		if (!unknown)
			return 0;
	}
	look.wants = &wants[1];
	look.extras = &taker;
	look.extra_count = 1;
	ret = beest_look_take(g->registry, &look);
	ret = ret == 0 && wants[1].value.size == BEEST_INCARNATION_SIZE &&
	      memcmp(wants[1].value.bytes, taker.write.value, BEEST_INCARNATION_SIZE) == 0;
	beest_look_free(&wants[1], 1);

	return ret;
}

static void write_alone(struct gathering *g, const struct beest_kv_write *write)
{
	struct beest_look_extra extra = { .server = g->server, .write = *write };
	struct beest_look look = {
		.extras = &extra, .extra_count = 1,
		.deadline = beest_clock_deadline(BEEST_SECOND),
	};

	beest_look_take(g->registry, &look);
}

static void taker_delete(struct gathering *g)
{
	write_alone(g, &(struct beest_kv_write){
		.verb = BEEST_KV_DELETE, .key = g->taker_key,
	});
}

/*
 * All have come, and no number said so: a server lost the counter, or had it from a former
 * run.  Ahead of the gate nobody counts for the next pass, for which it begins anew.
 */
static void counter_restart(struct gathering *g)
{
	write_alone(g, &(struct beest_kv_write){
		.verb = BEEST_KV_SET, .key = g->count_key, .value = "0", .size = 1,
		.ttl = beest_lease_ttl(g->registry->leases),
	});
}

/* What a server does not answer, the wait's own look tells. */
static int gate_take(struct gathering *g, bool unknown)
{
	char sentence[BEEST_ERROR_SIZE];
	int ret;

	ret = records_read(g);
	if (ret == 0 && g->calls_roll) {
		ret = roll_open(g);
	} else if (ret == 0 && !all_are_here(g, 0)) {
		ret = missing_judge(g);
	} else if (ret == 0) {
		if (unknown)
			counter_restart(g);
		ret = gate_open(g);
	}
	snprintf(sentence, sizeof(sentence), "%s", beest_error_text());
	taker_delete(g);
	if (ret == 0 || beest_kv_transient(ret))
		return 0;

	return beest_fail(-ret, "%s", sentence);
}

/* Nobody knows when the last one came, but after a while somebody has to look. */
static int gate_late(struct gathering *g)
{
	int64_t now = beest_clock_now(), elapsed = now - g->began, pause = elapsed / 4;
	bool unknown = elapsed >= g->unknown;

	if (now < g->due)
		return 0;
	if (pause < g->late)
		pause = g->late;
	if (pause > LATE_UNKNOWN)
		pause = LATE_UNKNOWN;
	g->due = now + pause;

	return gate_is_mine(g, unknown) > 0 ? gate_take(g, unknown) : 0;
}

static int gather_each(void *data)
{
	struct gathering *g = data;
	int ret;

	if (!g->counted && g->extras[1].done) {
		g->counted = true;
		g->number = g->extras[1].write.ret == 0 ? g->extras[1].write.number : 0;
		if (g->number && g->number % g->ranks->count == 0) {
			ret = records_read(g);
			if (ret == 0)
				ret = gate_open(g);
			return beest_kv_transient(ret) ? 0 : ret;
		}
	}

	return gate_late(g);
}

/* ------------------------------------------------------------------ at the gate --- */

static int refused(const struct gathering *g)
{
	return beest_fail(ESTALE, "rank %d was started again after the roll call of this run, "
			  "which goes on without it", g->rank);
}

/* 1: all ranks know of all, this one among them. */
static int see_roll(void *data, const struct beest_record *record)
{
	struct gathering *g = data;
	const struct beest_incarnation *own = &g->registry->presence.incarnation;
	const uint8_t *named = record->body + BEEST_BARRIER_SIZE;
	struct beest_barrier_body gate;
	size_t size = g->ranks->count * MARK_SIZE;
	int ret;

	ret = beest_record_barrier_decode(record, &gate);
	if (ret < 0)
		return ret;
	if (record->flags & BEEST_RECORD_CLOSED)
		return record->size >= BEEST_BARRIER_SIZE + MARK_SIZE &&
		       memcmp(named, own, MARK_SIZE) == 0 ? refused(g) : 0;
	if (record->size != BEEST_BARRIER_SIZE + size ||
	    memcmp(named + g->own * MARK_SIZE, own, MARK_SIZE) != 0)
		return 0;		/* a leftover, or of another number of ranks */

	memcpy(g->called, named, size);
	gate.roll = roll_digest(g->called, g->ranks->count);
	if (gate.pass == KNOWN && gate.roll == g->body.roll) {
		g->body.name = gate.name;
		return 1;
	}
	if (gate.roll == g->body.roll)
		return 0;

	g->body.roll = gate.roll;
	g->echoed[g->echoes++ % ECHOES] = gate.roll;
	g->body.pass = KNOWN;
	g->wait.hurry = true;
	ret = record_put(g);

	return ret < 0 ? ret : 0;
}

static int see_gate(void *data, const struct beest_record *record)
{
	struct gathering *g = data;
	struct beest_barrier_body gate;
	int ret;

	ret = beest_record_barrier_decode(record, &gate);

	return ret < 0 ? ret : gate.roll == g->body.roll && gate.pass >= g->body.pass;
}

/* ------------------------------------------------------------- what did not come --- */

static void rank_say(struct beest_text *text, struct gathering *g, size_t i)
{
	char who[BEEST_PRESENCE_TEXT];

	if (g->here[i])
		beest_text_add(text, "rank %d (key %s, last seen as %s)", g->ranks->id[i], g->keys[i],
			       beest_presence_author(g->registry, g->ranks->id[i],
						     &g->incarnations[i], who));
	else if (g->refused && g->refused_at == i)
		beest_text_add(text, "rank %d (key %s: %s)", g->ranks->id[i], g->keys[i],
			       g->trouble);
	else
		beest_text_add(text, "rank %d (key %s, never seen)", g->ranks->id[i], g->keys[i]);
}

#define NAMED_MAX 4

/*
 * Who has no record, or one of another gathering: that of a former run.  In the roll call,
 * whoever waits for the first gate, or has seen an earlier one, has come all the same.
 */
static bool rank_has_come(const struct gathering *g, size_t i)
{
	size_t k;

	if (i == g->own || rank_is_here(g, i, g->body.roll))
		return true;
	if (!g->here[i] || !g->calls_roll)
		return false;
	for (k = 0; k < ECHOES; k++)
		if (g->bodies[i].roll == g->echoed[k])
			return true;

	return g->bodies[i].roll == 0;
}

static int gather_expired(struct gathering *g, const char *name, uint64_t pass)
{
	size_t i, count = 0;
	char list[900];
	struct beest_text text;

	beest_text_start(&text, list, sizeof(list));
	if (records_read(g) < 0)
		return beest_fail_prefix(-ETIMEDOUT, "barrier '%s', pass %" PRIu64, name, pass);
	for (i = 0; i < g->ranks->count; i++) {
		if (rank_has_come(g, i))
			continue;
		if (count++ < NAMED_MAX) {
			if (count > 1)
				beest_text_add(&text, ", ");
			rank_say(&text, g, i);
		}
	}
	if (count > NAMED_MAX)
		beest_text_add(&text, " and %zu more", count - NAMED_MAX);

	return beest_fail(g->refused ? -g->refused : ETIMEDOUT,
			  "barrier '%s', pass %" PRIu64 ": %zu of %zu did not come within "
			  "exchange.timeout: %s", name, pass, count, g->ranks->count, list);
}

/* ----------------------------------------------------------------------- a pass --- */

static int gather_run(struct gathering *g, int (*see)(void *, const struct beest_record *),
		      const char *name, uint64_t pass)
{
	struct beest_wait_get gate = {
		.kind = BEEST_KIND_GATE, .key = g->gate_key, .name = g->name, .see = see, .data = g,
	};
	int ret;

	ret = gathering_start(g);
	g->wait.gets = &gate;
	g->wait.count = 1;
	g->wait.each = gather_each;
	g->wait.data = g;
	if (ret == 0)
		ret = record_put(g);
	if (ret == 0)
		ret = beest_wait_run(g->registry, &g->wait);
	if (ret == -ETIMEDOUT)
		ret = gather_expired(g, name, pass);
	else if (ret < 0)
		beest_fail_prefix(ret, "barrier '%s', pass %" PRIu64, name, pass);

	return ret;
}

/* Takes the turn of the one thread that calls the roll; 1: it is complete already. */
static int roll_begin(struct beest_registry *registry, struct beest_roll *roll)
{
	int64_t deadline = beest_clock_deadline(registry->timeout);
	struct beest_backoff backoff;
	bool complete, mine;

	beest_clock_backoff_start(&backoff, 0);
	for (;;) {
		pthread_mutex_lock(&roll->lock);
		complete = roll->complete;
		mine = !complete && !roll->calling;
		if (mine)
			roll->calling = true;
		pthread_mutex_unlock(&roll->lock);
		if (complete || mine)
			return complete;
		if (!beest_clock_left(deadline))
			return beest_fail(ETIMEDOUT, "another thread is still in the roll call");
		beest_clock_backoff_sleep(&backoff, deadline);
	}
}

/* 1: it was a pass of this barrier, too; 0: all have come, but to different barriers. */
static int roll_call(struct beest_registry *registry, struct beest_roll *roll, const char *name,
		     const struct beest_ids *ranks, int rank)
{
	struct gathering g = {
		.registry = registry, .roll = roll, .name = NO_DIGEST, .digest = NO_DIGEST,
		.ranks = ranks, .rank = rank, .count = &roll->count, .calls_roll = true,
		.body = { .pass = CALLED, .name = beest_hash_fnv(BEEST_HASH_FNV, name, strlen(name)) | 1 },
	};
	const uint64_t own = g.body.name;
	int ret;

	ret = gather_run(&g, see_roll, name, 1);
	pthread_mutex_lock(&roll->lock);
	roll->calling = false;
	roll->complete = ret == 0;
	if (ret == 0) {
		roll->digest = g.body.roll;
		roll->incarnations = g.called;
		g.called = NULL;
	}
	pthread_mutex_unlock(&roll->lock);
	if (ret == 0)
		ret = g.body.name == own;
	gathering_free(&g);

	return ret;
}

int beest_barrier_wait(struct beest_registry *registry, struct beest_roll *roll,
		       struct beest_barrier *barrier, const struct beest_ids *ranks,
		       int rank)
{
	struct gathering g = {
		.registry = registry, .roll = roll, .name = barrier->node.name, .ranks = ranks,
		.rank = rank, .count = &barrier->count,
		.body = { .pass = barrier->passes + 1 },
	};
	char key[BEEST_KEY_MAX + 1];
	int ret;

	ret = beest_registry_key(registry, BEEST_KIND_BARRIER, barrier->node.name, key);
	if (ret == 0)
		ret = roll_begin(registry, roll);
	if (ret == 0)
		ret = roll_call(registry, roll, barrier->node.name, ranks, rank);
	else if (ret > 0)
		ret = 0;
	if (ret == 0) {
		g.body.roll = roll->digest;
		snprintf(g.digest, sizeof(g.digest), "%016" PRIx64, roll->digest);
		ret = gather_run(&g, see_gate, barrier->node.name, g.body.pass);
		gathering_free(&g);
	}
	if (ret < 0)
		return ret;
	barrier->passes++;

	return 0;
}
