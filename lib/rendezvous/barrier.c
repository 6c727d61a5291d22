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
#define LATE_MOST BEEST_SECOND
#define TAKER_TTL 2

/* A look besides the wait's own takes what is left of its time, and no more than this. */
#define LOOK_MOST BEEST_SECOND

/* What stands in the digest's place in the keys of a roll call. */
#define NO_DIGEST "-"

/* A rank's record, as it was read last. */
struct attendance {
	char key[BEEST_KEY_MAX + 1];
	bool here;
	struct beest_incarnation incarnation;
	struct beest_barrier_body body;
};

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
	int64_t limit;				/* of the whole call */
	int64_t late;				/* the least pause between two tries */
	int64_t blind;				/* from then on the counter does not matter */
	struct beest_incarnation *called;	/* by the gate that was seen last */

	/* all records, in the order of ranks; NULL until they are read */
	struct attendance *all;
	struct beest_look_want *wants;
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
	if (g->wants)
		beest_look_free(g->wants, g->ranks->count);
	free(g->wants);
	free(g->all);
	free(g->called);
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
	g->late = LATE_FIRST + (int64_t)count * LATE_RANK;
	if (!g->count->began) {
		g->count->began = beest_clock_now();
		g->count->due = g->count->began + g->late;
	}
	g->blind = g->count->began + BEEST_MIN(g->limit / 4, LATE_MOST);
	g->called = calloc(count, sizeof(*g->called));

	return g->called ? 0 : beest_fail(ENOMEM, "no memory for a roll of %zu ranks", count);
}

/* Only who reads all records needs this. */
static int reading_start(struct gathering *g)
{
	size_t i, count = g->ranks->count;
	int ret = 0;

	if (g->all) {
		beest_look_free(g->wants, count);
		return 0;
	}
	g->all = calloc(count, sizeof(*g->all));
	g->wants = calloc(count, sizeof(*g->wants));
	if (!g->all || !g->wants)
		return beest_fail(ENOMEM, "no memory for a barrier of %zu ranks", count);
	for (i = 0; i < count && ret == 0; i++) {
		ret = rank_key(g, i, g->all[i].key);
		g->wants[i].key = g->all[i].key;
		g->wants[i].server = g->server;
	}

	return ret;
}

static int64_t look_deadline(const struct gathering *g)
{
	return BEEST_MIN(beest_clock_look(g->wait.deadline), beest_clock_deadline(LOOK_MOST));
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

/* What is no record is as good as absent; the sentence says why it is none. */
static int attendance_read(struct gathering *g, size_t i)
{
	const struct beest_kv_value *value = &g->wants[i].value;
	struct beest_record record;
	int ret;

	ret = beest_record_decode(value->bytes, value->size, BEEST_KIND_BARRIER, g->all[i].key,
				  &record);
	if (ret == 0)
		ret = beest_record_barrier_decode(&record, &g->all[i].body);
	if (ret == 0)
		g->all[i].incarnation = record.incarnation;

	return ret;
}

/* 0, or the failure of a server. */
static int records_read(struct gathering *g)
{
	struct beest_look look = { .count = g->ranks->count, .deadline = look_deadline(g) };
	size_t i;
	int ret;

	ret = reading_start(g);
	if (ret < 0)
		return ret;
	look.wants = g->wants;
	ret = beest_look_take(g->registry, &look);
	for (i = 0; i < look.count && ret == 0; i++)
		g->all[i].here = g->wants[i].value.bytes && attendance_read(g, i) == 0;

	return ret;
}

/* Has a rank come to this pass?  In the roll call: does it know of all? */
static bool rank_is_here(const struct gathering *g, size_t i, uint64_t digest)
{
	const struct attendance *rank = &g->all[i];

	return rank->here && (g->calls_roll ? rank->body.roll == digest :
			      rank->body.pass >= g->body.pass);
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
		if (g->all[i].body.name != g->body.name)
			return 0;

	return g->body.name;
}

/* The first gate tells who has come, the second that all know it. */
static int roll_open(struct gathering *g)
{
	struct beest_barrier_body gate = { .pass = CALLED };
	size_t i, count = g->ranks->count;
	struct beest_incarnation *roll = calloc(count, sizeof(*roll));
	int ret = 0;

	if (!roll)
		return beest_fail(ENOMEM, "no memory for a roll of %zu ranks", count);
	for (i = 0; i < count && g->all[i].here; i++)
		roll[i] = g->all[i].incarnation;
	gate.roll = roll_digest(roll, count);
	if (i == count && all_are_here(g, gate.roll)) {
		gate.pass = KNOWN;
		gate.name = common_name(g);
	}
	/* The same first gate again would open nothing. */
	if (i == count && (gate.pass == KNOWN || memcmp(roll, g->called, count * MARK_SIZE) != 0))
		ret = gate_put(g, &gate, 0, roll, count);
	free(roll);

	return ret;
}

static int gate_open(struct gathering *g)
{
	if (g->calls_roll)
		return roll_open(g);

	return all_are_here(g, 0) ? gate_put(g, &g->body, 0, NULL, 0) : 0;
}

/* -------------------------------------------------------------- who will not come --- */

/* Whoever started again is told by name at the gate of the roll call. */
static void newcomers_refuse(struct gathering *g, const struct beest_incarnation *newcomers,
			     size_t count)
{
	struct gathering roll = {
		.registry = g->registry, .name = NO_DIGEST, .digest = NO_DIGEST,
		.ranks = g->ranks,
	};
	struct beest_barrier_body body = { .pass = KNOWN, .roll = g->body.roll };

	if (barrier_key(&roll, "gate", roll.gate_key) == 0)
		gate_put(&roll, &body, BEEST_RECORD_CLOSED, newcomers, count);
}

/* 0, or why not all of those who are missing will come to this pass. */
static int missing_judge_each(struct gathering *g, const struct beest_presence_query *queries,
			      size_t count, struct beest_incarnation *newcomers)
{
	const struct beest_presence_query *first = NULL;
	char who[BEEST_PRESENCE_TEXT];
	size_t i, restarted = 0;
	int ret = 0;

	for (i = 0; i < count && ret == 0; i++) {
		if (queries[i].ret > 0)
			ret = beest_presence_ended(queries[i].rank, &queries[i].body);
		if (queries[i].ret != -ESTALE)
			continue;
		first = first ? first : &queries[i];
		newcomers[restarted++] = queries[i].now;
	}
	if (!first || ret < 0)
		return ret;

	newcomers_refuse(g, newcomers, restarted);
	beest_presence_text(first->rank, &first->body, who);
	if (restarted == 1)
		return beest_fail(ESTALE, "%s was started again after the roll call of this run",
				  who);

	return beest_fail(ESTALE, "%s and %zu more were started again after the roll call of "
			  "this run", who, restarted - 1);
}

/* Asks for the presences of those who are missing. */
static int missing_judge(struct gathering *g)
{
	size_t i, count = 0, size = g->ranks->count;
	struct beest_presence_query *queries = calloc(size, sizeof(*queries));
	struct beest_incarnation *newcomers = calloc(size, sizeof(*newcomers));
	int ret;

	for (i = 0; i < size && queries; i++) {
		if (rank_is_here(g, i, 0))
			continue;
		queries[count].rank = g->ranks->id[i];
		queries[count++].incarnation = &g->roll->incarnations[i];
	}
	if (queries && newcomers) {
		beest_presence_query(g->registry, queries, count, look_deadline(g));
		ret = missing_judge_each(g, queries, count, newcomers);
	} else {
		ret = beest_fail(ENOMEM, "no memory to ask for %zu ranks", size);
	}
	free(newcomers);
	free(queries);

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
static bool gate_is_mine(struct gathering *g, bool blind)
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
	struct beest_look look = { .wants = wants, .count = 1, .deadline = look_deadline(g) };
	bool mine;
	int ret;

	if (!blind) {
		ret = beest_look_take(g->registry, &look);
		blind = ret == 0 && all_have_counted(g, &wants[0].value);
		beest_look_free(wants, 1);
		if (!blind)
			return false;
	}
	look.wants = &wants[1];
	look.extras = &taker;
	look.extra_count = 1;
	ret = beest_look_take(g->registry, &look);
	mine = ret == 0 && wants[1].value.size == BEEST_INCARNATION_SIZE &&
	       memcmp(wants[1].value.bytes, taker.write.value, BEEST_INCARNATION_SIZE) == 0;
	beest_look_free(&wants[1], 1);

	return mine;
}

static void write_alone(struct gathering *g, const struct beest_kv_write *write)
{
	struct beest_look_extra extra = { .server = g->server, .write = *write };
	struct beest_look look = {
		.extras = &extra, .extra_count = 1, .deadline = look_deadline(g),
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
static int gate_take(struct gathering *g, bool blind)
{
	char sentence[BEEST_ERROR_SIZE];
	int ret;

	ret = records_read(g);
	if (ret == 0 && (g->calls_roll || all_are_here(g, 0))) {
		if (blind && !g->calls_roll)
			counter_restart(g);
		ret = gate_open(g);
	} else if (ret == 0) {
		ret = missing_judge(g);
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
	int64_t now = beest_clock_now();
	bool blind = now >= g->blind;

	if (now < g->count->due)
		return 0;
	g->count->due = now + BEEST_MIN(BEEST_MAX((now - g->count->began) / 4, g->late), LATE_MOST);

	return gate_is_mine(g, blind) ? gate_take(g, blind) : 0;
}

static int gather_each(void *data)
{
	struct gathering *g = data;
	const struct beest_kv_write *count = &g->extras[1].write;
	int ret;

	if (g->counted || !g->extras[1].done)
		return gate_late(g);
	g->counted = g->count->added = true;
	g->count->pass = g->body.pass;
	if (count->ret < 0 || !count->number || count->number % g->ranks->count != 0)
		return gate_late(g);
	ret = records_read(g);
	if (ret == 0)
		ret = gate_open(g);

	return beest_kv_transient(ret) ? 0 : ret;
}

/* ------------------------------------------------------------------ at the gate --- */

/* 0: the living say that they go on, but not without this very rank. */
static int see_refusal(const struct gathering *g, const struct beest_record *record)
{
	const uint8_t *named = record->body + BEEST_BARRIER_SIZE;
	const uint8_t *end = record->body + record->size;

	for (; named + MARK_SIZE <= end; named += MARK_SIZE)
		if (memcmp(named, &g->registry->presence.incarnation, MARK_SIZE) == 0)
			return beest_fail(ESTALE, "rank %d was started again after the roll call of "
					  "this run, which goes on without it", g->rank);

	return 0;
}

/* 1: all ranks know of all, this one among them. */
static int see_roll(void *data, const struct beest_record *record)
{
	struct gathering *g = data;
	const uint8_t *named = record->body + BEEST_BARRIER_SIZE;
	const struct beest_incarnation *own = &g->registry->presence.incarnation;
	struct beest_barrier_body gate;
	size_t size = g->ranks->count * MARK_SIZE;
	int ret;

	ret = beest_record_barrier_decode(record, &gate);
	if (ret < 0)
		return ret;
	if (record->flags & BEEST_RECORD_CLOSED)
		return see_refusal(g, record);
	if (record->size != BEEST_BARRIER_SIZE + size ||
	    memcmp(named + g->own * MARK_SIZE, own, MARK_SIZE) != 0) {
		/* A leftover, or others were called before this rank came: neither counts. */
		g->blind = g->count->began;
		return 0;
	}

	memcpy(g->called, named, size);
	gate.roll = roll_digest(g->called, g->ranks->count);
	if (gate.pass == KNOWN && gate.roll == g->body.roll) {
		g->body.name = gate.name;
		return 1;
	}
	if (gate.roll == g->body.roll)
		return 0;

	g->body.roll = gate.roll;
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
	const struct attendance *rank = &g->all[i];
	char who[BEEST_PRESENCE_TEXT];

	if (rank->here)
		beest_text_add(text, "rank %d (key %s, last seen as %s)", g->ranks->id[i], rank->key,
			       beest_presence_author(g->registry, g->ranks->id[i],
						     &rank->incarnation, who));
	else
		beest_text_add(text, "rank %d (key %s%s%s)", g->ranks->id[i], rank->key,
			       g->wants[i].value.bytes ? ": " : ", never seen",
			       g->wants[i].value.bytes ? beest_error_text() : "");
}

#define NAMED_MAX 4

/* Whose record is absent, is none, or does not know of this gathering. */
static int gather_expired(struct gathering *g)
{
	size_t i, count = 0;
	int ret, refused = 0;
	char list[900];
	struct beest_text text;

	ret = records_read(g);
	if (ret < 0)
		return ret;
	beest_text_start(&text, list, sizeof(list));
	for (i = 0; i < g->ranks->count; i++) {
		if (i == g->own || rank_is_here(g, i, g->body.roll))
			continue;
		if (g->wants[i].value.bytes && !g->all[i].here)
			refused = refused ? refused : attendance_read(g, i);
		if (count++ < NAMED_MAX) {
			beest_text_add(&text, "%s", count > 1 ? ", " : "");
			rank_say(&text, g, i);
		}
	}
	if (count > NAMED_MAX)
		beest_text_add(&text, " and %zu more", count - NAMED_MAX);

	return beest_fail(refused ? -refused : ETIMEDOUT, "%zu of %zu did not come within %s: %s",
			  count, g->ranks->count, BEEST_SPAN(g->limit), list);
}

/* ----------------------------------------------------------------------- a pass --- */

static int gather_run(struct gathering *g, int (*see)(void *, const struct beest_record *))
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

	if (ret == 0)
		g->count->began = 0;

	return ret == -ETIMEDOUT ? gather_expired(g) : ret;
}

/* Takes the turn of the one thread that calls the roll; 1: it is complete already. */
static int roll_begin(struct beest_roll *roll, int64_t deadline)
{
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
			return beest_fail(deadline == HARTEBEEST_ONCE ? EAGAIN : ETIMEDOUT,
					  "another thread is still in the roll call");
		beest_clock_backoff_sleep(&backoff, deadline);
	}
}

/* 1: it was a pass of this barrier, too; 0: all have come, but to different barriers. */
static int roll_call(struct gathering *g, const char *name)
{
	struct beest_roll *roll = g->roll;
	const uint64_t own = beest_hash_fnv(BEEST_HASH_FNV, name, strlen(name)) | 1;
	int ret;

	g->name = NO_DIGEST;
	strcpy(g->digest, NO_DIGEST);
	g->calls_roll = true;
	g->count = &roll->count;
	g->body = roll->body;
	g->body.pass = BEEST_MAX(g->body.pass, CALLED);
	g->body.name = own;
	ret = gather_run(g, see_roll);
	pthread_mutex_lock(&roll->lock);
	roll->calling = false;
	roll->complete = ret == 0;
	roll->body = g->body;
	if (ret == 0) {
		roll->digest = g->body.roll;
		roll->incarnations = g->called;
		g->called = NULL;
	}
	pthread_mutex_unlock(&roll->lock);

	return ret == 0 ? g->body.name == own : ret;
}

static int later_pass(struct gathering *g, struct beest_barrier *barrier)
{
	g->name = barrier->node.name;
	snprintf(g->digest, sizeof(g->digest), "%016" PRIx64, g->roll->digest);
	g->count = &barrier->count;
	g->body.pass = barrier->passes + 1;
	g->body.roll = g->roll->digest;

	return gather_run(g, see_gate);
}

int beest_barrier_wait(struct beest_registry *registry, struct beest_roll *roll,
		       struct beest_barrier *barrier, const struct beest_ids *ranks,
		       int rank, int64_t deadline)
{
	const char *name = barrier->node.name;
	const struct gathering blank = {
		.registry = registry, .roll = roll, .ranks = ranks, .rank = rank,
		.limit = deadline > 0 ? beest_clock_left(deadline) : registry->timeout,
		.wait.deadline = beest_registry_deadline(registry, deadline),
	};
	struct gathering g = blank;
	char key[BEEST_KEY_MAX + 1];
	bool called = false;
	int ret;

	ret = beest_registry_key(registry, BEEST_KIND_BARRIER, name, key);
	if (ret == 0)
		ret = roll_begin(roll, blank.wait.deadline);
	if (ret == 0) {
		ret = roll_call(&g, name);
		called = ret > 0;
		gathering_free(&g);
		g = blank;
	}
	if (ret >= 0 && !called) {
		ret = later_pass(&g, barrier);
		gathering_free(&g);
	}
	if (ret < 0)
		return beest_fail_prefix(ret, "barrier '%s', pass %" PRIu64, name,
					 barrier->passes + 1);
	barrier->passes++;

	return 0;
}
