/* SPDX-License-Identifier: MIT */
/* gather.c - see gather.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/text.h"
#include "lib/rendezvous/gather.h"
#include "lib/rendezvous/wait.h"

/* Passes of the roll call: all have come, all know of all. */
#define CALLED 1
#define KNOWN 2

/* A gate that is late: whoever is due first reads all records instead. */
#define LATE_FIRST (50 * BEEST_MS)
#define LATE_RANK (500 * BEEST_US)
#define LATE_MOST BEEST_SECOND
#define TAKER_TTL 2

/* Fewer ranks look so often that knowing how many have come saves them nothing. */
#define HINT_FROM 17

/* Who is missing is reported so often. */
#define REPORT_EACH BEEST_SECOND

/* A look besides the wait's own takes what is left of its time, and no more than this. */
#define LOOK_MOST BEEST_SECOND

/* A rank's record, as it was read last. */
struct attendance {
	char key[BEEST_KEY_MAX + 1];
	bool here;
	int refused;			/* what is there is no record: its errno, ... */
	char why[160];			/* ... and the sentence */
	struct beest_incarnation incarnation;
	struct beest_barrier_body body;
	const uint8_t *blob;		/* within the value */
};

struct gathering {
	struct beest_gather *call;
	struct beest_registry *registry;
	struct beest_gather_state *state;
	size_t count;			/* of ranks */
	size_t own;			/* position of this one */
	struct beest_barrier_body body;	/* of the own record */

	char keys_base[BEEST_KEY_MAX + 1];
	char record_key[BEEST_KEY_MAX + 1];
	char gate_key[BEEST_KEY_MAX + 1];
	char roll_key[BEEST_KEY_MAX + 1];
	char count_key[BEEST_KEY_MAX + 1];
	char taker_key[BEEST_KEY_MAX + 1];
	size_t server;

	struct beest_look_extra extras[2];	/* the counter */
	struct beest_wait wait;
	struct beest_wait_get *gets;	/* the gate; then, read directly, all other records */
	struct direct *direct;		/* for each of these */
	bool changed;			/* another life of a rank, or other bytes that it brings */
	bool doubt;			/* what was seen before may have changed */
	bool counted;			/* the number was taken, and looked at */
	int64_t full_at;		/* since when the counter hints that all have come; 0: not yet */
	int64_t numbered;		/* when this rank took a number, or went on with one */
	struct beest_barrier_body gate;	/* of a roll call, as it was seen last */
	struct beest_kv_value roll;	/* that came with it */
	uint64_t read;			/* the roll that call->marks have; 0: none */
	uint64_t strange;		/* one that does not have this rank */
	int64_t late;			/* the least pause between two tries */
	int64_t blind;			/* from then on the counter does not matter */
	int64_t report_at;		/* who is missing */

	/* all records, in the order of ranks; NULL until they are read */
	struct attendance *all;
	struct beest_look_want *wants;
};

static bool calls_roll(const struct gathering *g)
{
	return !g->call->run;
}

/* Who comes last does not matter where all read all records. */
static bool reads_directly(const struct gathering *g)
{
	return g->call->direct && calls_roll(g);
}

/* Each look reads it, and not only a late one. */
static bool reads_counter(const struct gathering *g)
{
	return !reads_directly(g) && g->count >= HINT_FROM;
}

/* --------------------------------------------------------------------------- keys --- */

/* What all keys of a gathering begin with. */
static int keys_begin(const struct beest_gather *call, char base[BEEST_KEY_MAX + 1])
{
	char name[BEEST_KEY_MAX + 1], run[17] = "-";
	int size;

	if (call->run)
		snprintf(run, sizeof(run), "%016" PRIx64, call->run);
	size = snprintf(name, sizeof(name), "%s/%s/", run, call->name);
	if (size > BEEST_KEY_MAX)
		return beest_fail(ENAMETOOLONG, "the name '%s' is too long for a key", call->name);

	return beest_registry_key(call->registry, BEEST_KIND_BARRIER, name, base);
}

static int key_end(const struct beest_gather *call, const char *base, const char *last,
		   char key[BEEST_KEY_MAX + 1])
{
	size_t begun = strlen(base), size = strlen(last);

	if (begun + size > BEEST_KEY_MAX)
		return beest_fail(ENAMETOOLONG, "the name '%s' is too long for a key", call->name);
	memcpy(key, base, begun);
	memcpy(key + begun, last, size + 1);

	return 0;
}

int beest_gather_key(const struct beest_gather *call, const char *last,
		     char key[BEEST_KEY_MAX + 1])
{
	char base[BEEST_KEY_MAX + 1];
	int ret = keys_begin(call, base);

	return ret < 0 ? ret : key_end(call, base, last, key);
}

static int rank_key(const struct gathering *g, size_t i, char key[BEEST_KEY_MAX + 1])
{
	char number[16];

	snprintf(number, sizeof(number), "%d", g->call->ranks->id[i]);

	return key_end(g->call, g->keys_base, number, key);
}

static int keys_make(struct gathering *g)
{
	const struct {
		const char *last;
		char *key;
	} rows[] = {
		{ "gate", g->gate_key }, { "roll", g->roll_key }, { "count", g->count_key },
		{ "taker", g->taker_key },
	};
	size_t i;
	int ret;

	for (i = 0; i < g->count; i++)
		if (g->call->ranks->id[i] == g->call->rank)
			g->own = i;
	ret = keys_begin(g->call, g->keys_base);
	for (i = 0; i < BEEST_COUNT(rows) && ret == 0; i++)
		ret = key_end(g->call, g->keys_base, rows[i].last, rows[i].key);
	if (ret == 0)
		ret = rank_key(g, g->own, g->record_key);
	if (ret == 0)
		g->server = beest_kv_server_of(g->registry->kv, g->gate_key);

	return ret;
}

/* -------------------------------------------------------------------------- marks --- */

static uint8_t *mark_at(const struct gathering *g, uint8_t *marks, size_t i)
{
	return marks + i * beest_gather_mark_size(g->call);
}

static void mark_fill(const struct gathering *g, uint8_t *mark,
		      const struct beest_incarnation *incarnation, const void *blob)
{
	memcpy(mark, incarnation, BEEST_INCARNATION_SIZE);
	if (g->call->blob_size)
		memcpy(mark + BEEST_INCARNATION_SIZE, blob, g->call->blob_size);
}

static bool mark_is(const struct gathering *g, const uint8_t *mark,
		    const struct beest_incarnation *incarnation, const void *blob)
{
	return memcmp(mark, incarnation, BEEST_INCARNATION_SIZE) == 0 &&
	       (!g->call->blob_size ||
		memcmp(mark + BEEST_INCARNATION_SIZE, blob, g->call->blob_size) == 0);
}

/* Does the gate name this very life of this rank, with what it brings? */
static bool marks_name_own(const struct gathering *g, const uint8_t *marks)
{
	return mark_is(g, marks + g->own * beest_gather_mark_size(g->call),
		       &g->registry->presence.incarnation, g->call->blob);
}

/* Never 0, which says that there is none. */
static uint64_t marks_digest(const struct gathering *g, const uint8_t *marks)
{
	return beest_hash_fnv(BEEST_HASH_FNV, marks,
			      g->count * beest_gather_mark_size(g->call)) | 1;
}

/* They are this gathering's from here on. */
static void marks_keep(struct gathering *g, uint8_t *marks, uint64_t digest)
{
	free(g->call->marks);
	g->call->marks = marks;
	g->read = digest;
	g->wait.asides[1] = NULL;
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
		.write = {
			.verb = BEEST_KV_INCR, .key = g->count_key,
			.unasked = reads_counter(g),
		},
	};
	g->wait.extras = g->extras + g->state->added;
	g->wait.extra_count = 2 - g->state->added;
	g->counted = false;
	g->numbered = beest_clock_now();
}

/*
 * Those who have come since this rank did hint at how long the others will take.  A leftover
 * of a former run makes this wrong, and some pauses longer or shorter.
 */
static int64_t number_judge(struct gathering *g, const struct beest_kv_value *value)
{
	int64_t now = beest_clock_now(), elapsed = now - g->numbered;
	char text[24] = "";		/* a value has no NUL at its end */
	uint64_t number = 0;

	if (value->bytes && value->size < sizeof(text)) {
		memcpy(text, value->bytes, value->size);
		sscanf(text, "%" SCNu64, &number);
	}
	if (!number || number % g->count)
		g->full_at = 0;
	else if (!g->full_at)
		g->full_at = now;
	number %= g->count;

	return number ? elapsed / (int64_t)number * (int64_t)(g->count - number) : 0;
}

/* The roll is stored ahead of the gate, so whoever sees the gate has the roll already. */
static int64_t asides_take(void *data, struct beest_look_want *asides)
{
	struct gathering *g = data;

	beest_kv_values_free(&g->roll, 1);
	g->roll = asides[1].value;
	asides[1].value.bytes = NULL;

	return number_judge(g, &asides[0].value);
}

/* A body, and after it what a rank brings, or all marks. */
static int body_put(struct gathering *g, struct beest_registry_record *record,
		    const struct beest_barrier_body *body, const void *more, size_t size)
{
	uint8_t *bytes = malloc(BEEST_BODY_MAX + size);
	int ret;

	if (!bytes)
		return beest_fail(ENOMEM, "no memory for a gathering of %zu ranks", g->count);

	ret = beest_record_barrier_encode(body, bytes);
	if (size)
		memcpy(bytes + ret, more, size);
	record->body = bytes;
	record->size = (size_t)ret + size;
	ret = beest_registry_put(g->registry, record);
	free(bytes);

	return ret;
}

static int record_put(struct gathering *g)
{
	struct beest_registry_record record = {
		.kind = BEEST_KIND_BARRIER, .key = g->record_key, .placed_as = g->gate_key,
	};

	if (g->state->pass != g->body.pass && !reads_directly(g))
		number_take(g);

	return body_put(g, &record, &g->body, g->call->blob, g->call->blob_size);
}

static int gate_put(struct gathering *g, const struct beest_barrier_body *body)
{
	struct beest_registry_record record = { .kind = BEEST_KIND_GATE, .key = g->gate_key };

	g->wait.hurry = true;

	return body_put(g, &record, body, NULL, 0);
}

/* All who wait ask for the gate again and again, so it does not have the roll itself. */
static int roll_put(struct gathering *g, uint64_t digest, const uint8_t *marks)
{
	struct beest_barrier_body body = { .pass = CALLED, .roll = digest, .name = g->body.name };
	struct beest_registry_record record = {
		.kind = BEEST_KIND_GATE, .key = g->roll_key, .placed_as = g->gate_key,
	};
	size_t size = g->count * beest_gather_mark_size(g->call);

	return body_put(g, &record, &body, marks, size);
}

/* --------------------------------------------------------------- reading all records --- */

int64_t beest_gather_deadline(const struct beest_gather *call)
{
	return BEEST_MIN(beest_limit_look(call->limit), beest_clock_deadline(LOOK_MOST));
}

/* Only who reads all records needs this. */
static int reading_start(struct gathering *g)
{
	size_t i;
	int ret = 0;

	if (g->all) {
		beest_look_free(g->wants, g->count);
		return 0;
	}
	g->all = calloc(g->count, sizeof(*g->all));
	g->wants = calloc(g->count, sizeof(*g->wants));
	if (!g->all || !g->wants)
		return beest_fail(ENOMEM, "no memory for the records of %zu ranks", g->count);
	for (i = 0; i < g->count && ret == 0; i++) {
		ret = rank_key(g, i, g->all[i].key);
		g->wants[i].key = g->all[i].key;
		g->wants[i].server = g->server;
	}

	return ret;
}

/* What is no record is as good as absent.  Once for each value: decoding opens a seal. */
static int attendance_decode(struct gathering *g, size_t i)
{
	const struct beest_kv_value *value = &g->wants[i].value;
	struct attendance *rank = &g->all[i];
	struct beest_record record;
	int ret;

	ret = beest_record_decode(g->registry->seal, value->bytes, value->size, BEEST_KIND_BARRIER,
				  rank->key, &record);
	if (ret == 0)
		ret = beest_record_barrier_decode(&record, &rank->body);
	if (ret == 0 && record.size < BEEST_BARRIER_SIZE + g->call->blob_size)
		return beest_fail(EBADMSG, "the record is shorter than those of the others");
	if (ret == 0) {
		rank->incarnation = record.incarnation;
		rank->blob = record.body + BEEST_BARRIER_SIZE;
	}

	return ret;
}

static void attendance_read(struct gathering *g, size_t i)
{
	struct attendance *rank = &g->all[i];

	rank->refused = g->wants[i].value.bytes ? attendance_decode(g, i) : 0;
	rank->here = g->wants[i].value.bytes && rank->refused == 0;
	if (rank->refused)
		snprintf(rank->why, sizeof(rank->why), "%s", beest_error_text());
}

/* 0, or the failure of a server. */
static int records_read(struct gathering *g)
{
	struct beest_look look = { .count = g->count, .deadline = beest_gather_deadline(g->call) };
	size_t i;
	int ret;

	ret = reading_start(g);
	if (ret < 0)
		return ret;
	look.wants = g->wants;
	ret = beest_look_take(g->registry, &look);
	for (i = 0; i < g->count && ret == 0; i++)
		attendance_read(g, i);

	return ret;
}

/* Has a rank come to this pass?  In the roll call: does it know of all? */
static bool rank_is_here(const struct gathering *g, size_t i, uint64_t digest)
{
	const struct attendance *rank = &g->all[i];

	return rank->here && (calls_roll(g) ? rank->body.roll == digest :
			      rank->body.pass >= g->body.pass);
}

static bool all_are_here(const struct gathering *g, uint64_t digest)
{
	size_t i;

	for (i = 0; i < g->count; i++)
		if (!rank_is_here(g, i, digest))
			return false;

	return true;
}

/* What all have said; 0: not the same. */
static uint64_t common_word(const struct gathering *g)
{
	size_t i;

	for (i = 0; i < g->count; i++)
		if (g->all[i].body.name != g->body.name)
			return 0;

	return g->body.name;
}

/* The first gate says that all have come, the second that all know of all. */
static int roll_open(struct gathering *g)
{
	struct beest_barrier_body gate = { .pass = CALLED };
	uint8_t *marks = malloc(g->count * beest_gather_mark_size(g->call));
	bool fresh = false;
	size_t i;
	int ret = 0;

	if (!marks)
		return beest_fail(ENOMEM, "no memory for a roll of %zu ranks", g->count);
	for (i = 0; i < g->count && g->all[i].here; i++)
		mark_fill(g, mark_at(g, marks, i), &g->all[i].incarnation, g->all[i].blob);
	if (i == g->count) {
		gate.roll = marks_digest(g, marks);
		if (all_are_here(g, gate.roll)) {
			gate.pass = KNOWN;
			gate.name = common_word(g);
		}
		/* The same first gate again would open nothing. */
		fresh = gate.roll != g->read;
		if (fresh && g->call->opening)
			g->call->opening(g->call->data, marks, gate.roll);
		if (fresh)
			ret = roll_put(g, gate.roll, marks);
		if (fresh)
			marks_keep(g, marks, gate.roll);
		if (ret == 0 && (gate.pass == KNOWN || gate.roll != g->gate.roll))
			ret = gate_put(g, &gate);
	}
	if (!fresh)
		free(marks);

	return ret;
}

static int gate_open(struct gathering *g)
{
	if (calls_roll(g))
		return roll_open(g);

	return all_are_here(g, 0) ? gate_put(g, &g->body) : 0;
}

/* -------------------------------------------------------------- who will not come --- */

/* Whoever started again is told by name at the gate of the roll call. */
static void newcomers_refuse(struct gathering *g, const struct beest_incarnation *newcomers,
			     size_t count)
{
	const struct beest_gather roll = { .registry = g->registry, .name = g->call->roll };
	struct beest_barrier_body body = { .pass = KNOWN, .roll = g->body.roll };
	char key[BEEST_KEY_MAX + 1];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_GATE, .key = key, .flags = BEEST_RECORD_CLOSED,
	};

	if (beest_gather_key(&roll, "gate", key) == 0)
		body_put(g, &record, &body, newcomers, count * sizeof(*newcomers));
	g->wait.hurry = true;
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
	struct beest_presence_query *queries = calloc(g->count, sizeof(*queries));
	struct beest_incarnation *newcomers = calloc(g->count, sizeof(*newcomers));
	size_t i, count = 0;
	int ret;

	for (i = 0; i < g->count && queries; i++) {
		if (rank_is_here(g, i, 0))
			continue;
		queries[count].rank = g->call->ranks->id[i];
		queries[count++].incarnation = &g->call->expected[i];
	}
	if (queries && newcomers) {
		beest_presence_query(g->registry, queries, count, beest_gather_deadline(g->call));
		ret = missing_judge_each(g, queries, count, newcomers);
	} else {
		ret = beest_fail(ENOMEM, "no memory to ask for %zu ranks", g->count);
	}
	free(newcomers);
	free(queries);

	return ret;
}

/* 1: it is that of this pass, or a later one. */
static int see_gate(void *data, const struct beest_record *record)
{
	struct gathering *g = data;
	struct beest_barrier_body gate;
	int ret;

	ret = beest_record_barrier_decode(record, &gate);

	return ret < 0 ? ret : gate.roll == g->body.roll && gate.pass >= g->body.pass;
}

/* ------------------------------------------------- a roll that each rank makes itself --- */

/* The roll has changed: this rank knows it, and says so. */
static int roll_take(struct gathering *g, uint64_t digest)
{
	int ret;

	ret = g->call->called ? g->call->called(g->call->data, g->call->marks, digest) : 0;
	if (ret < 0)
		return ret == -EAGAIN ? 0 : ret;
	g->body.roll = digest;
	g->body.pass = KNOWN;
	g->wait.hurry = true;
	ret = record_put(g);

	return ret < 0 ? ret : 0;
}

/* Another rank's record, which this one reads without a gate. */
struct direct {
	struct gathering *g;
	char key[BEEST_KEY_MAX + 1];
	uint8_t *mark;			/* within those of the call; zero: not seen yet */
	uint64_t word;
	bool goes_on;			/* seen once in another gathering of this name */
};

/*
 * Whoever goes on to another gathering knew that all know of all in this one, and has put
 * a gate that says so, in one go with the record: it is read with the next look.
 */
static bool direct_goes_on(struct direct *direct, const struct beest_record *record)
{
	if (direct->goes_on || direct->g->body.pass != KNOWN ||
	    memcmp(direct->mark, &record->incarnation, BEEST_INCARNATION_SIZE) != 0)
		return false;
	direct->goes_on = true;

	return true;
}

/* 1: it has come, and where this rank knows of all, it knows of the very same. */
static int see_direct(void *data, const struct beest_record *record)
{
	struct direct *direct = data;
	struct gathering *g = direct->g;
	const uint8_t *blob = record->body + BEEST_BARRIER_SIZE;
	struct beest_barrier_body body;
	int ret;

	ret = beest_record_barrier_decode(record, &body);
	if (ret < 0 || record->size < BEEST_BARRIER_SIZE + g->call->blob_size)
		return ret;
	if (!mark_is(g, direct->mark, &record->incarnation, blob)) {
		if (direct_goes_on(direct, record))
			return 0;
		mark_fill(g, direct->mark, &record->incarnation, blob);
		g->changed = true;
	}
	direct->word = body.name;
	/* It knows of others than this rank does: was one of them replaced? */
	g->doubt |= g->body.pass == KNOWN && body.pass == KNOWN && body.roll != g->body.roll;

	return g->body.pass != KNOWN || body.roll == g->body.roll;
}

static int direct_start(struct gathering *g)
{
	size_t i, k = 1;
	int ret = 0;

	g->direct = calloc(g->count, sizeof(*g->direct));
	g->call->marks = calloc(g->count, beest_gather_mark_size(g->call));
	if (!g->direct || !g->call->marks)
		return beest_fail(ENOMEM, "no memory for the records of %zu ranks", g->count);
	for (i = 0; i < g->count && ret == 0; i++) {
		g->direct[i].g = g;
		g->direct[i].mark = mark_at(g, g->call->marks, i);
		ret = rank_key(g, i, g->direct[i].key);
		if (i == g->own)
			continue;
		g->gets[k++] = (struct beest_wait_get){
			.kind = BEEST_KIND_BARRIER, .key = g->direct[i].key, .name = g->call->name,
			.see = see_direct, .data = &g->direct[i], .placed_as = g->gate_key,
		};
	}
	g->wait.count = k;
	g->direct[g->own].word = g->body.name;
	mark_fill(g, g->direct[g->own].mark, &g->registry->presence.incarnation, g->call->blob);

	return ret;
}

static bool all_are_read(const struct gathering *g)
{
	size_t k;

	for (k = 1; k < g->wait.count; k++)
		if (!g->gets[k].got)
			return false;

	return true;
}

static void read_again(struct gathering *g)
{
	size_t k;

	for (k = 1; k < g->wait.count; k++)
		g->gets[k].got = false;
	g->doubt = false;
}

/* What cannot be taken yet is read again. */
static int direct_take(struct gathering *g)
{
	g->changed = false;
	read_again(g);

	return roll_take(g, marks_digest(g, g->call->marks));
}

/*
 * All know of all.  The gate is for those who have not seen it yet when a record is
 * replaced: it need not be stored before this rank stores anything else.
 */
static int direct_end(struct gathering *g)
{
	struct beest_barrier_body gate = { .pass = KNOWN, .roll = g->body.roll };
	size_t i;
	int ret;

	g->call->digest = g->body.roll;
	g->call->word = g->body.name;
	for (i = 0; i < g->count; i++)
		if (g->direct[i].word != g->body.name)
			g->call->word = 0;
	gate.name = g->call->word;
	ret = gate_put(g, &gate);

	return ret < 0 ? ret : 1;
}

static bool record_is_stored(const struct gathering *g)
{
	return beest_lease_is_settled(g->registry->leases, g->record_key);
}

static int direct_each(struct gathering *g)
{
	if (g->body.pass == KNOWN && !g->changed &&
	    (g->gets[0].got || (all_are_read(g) && record_is_stored(g))))
		return direct_end(g);
	if (g->body.pass == KNOWN ? g->changed : all_are_read(g))
		return direct_take(g);
	if (g->doubt)
		read_again(g);

	return 0;
}

/* ------------------------------------------------------------------- a late gate --- */

/* Did another rank open it a moment ago? */
static bool gate_is_open(struct gathering *g, const struct beest_kv_value *value)
{
	struct beest_record record;

	return !calls_roll(g) && value->bytes &&
	       beest_record_decode(g->registry->seal, value->bytes, value->size, BEEST_KIND_GATE,
				   g->gate_key, &record) == 0 && see_gate(g, &record) > 0;
}

/*
 * Only one rank at a time reads all records: whose incarnation is stored under the key of
 * the taker, which nobody sets.
 */
static bool gate_is_mine(struct gathering *g, bool *open)
{
	struct beest_look_want wants[] = {
		{ .key = g->taker_key, .server = g->server },
		{ .key = g->gate_key, .server = g->server },
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
		.wants = wants, .count = BEEST_COUNT(wants), .extras = &taker, .extra_count = 1,
		.deadline = beest_gather_deadline(g->call),
	};
	bool mine;
	int ret;

	ret = beest_look_take(g->registry, &look);
	*open = gate_is_open(g, &wants[1].value);
	mine = ret == 0 && wants[0].value.size == BEEST_INCARNATION_SIZE &&
	       memcmp(wants[0].value.bytes, taker.write.value, BEEST_INCARNATION_SIZE) == 0;
	beest_look_free(wants, BEEST_COUNT(wants));

	return mine;
}

static void write_alone(struct gathering *g, const struct beest_kv_write *write)
{
	struct beest_look_extra extra = { .server = g->server, .write = *write };
	struct beest_look look = {
		.extras = &extra, .extra_count = 1, .deadline = beest_gather_deadline(g->call),
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

/* Reads all records, and opens the gate or says who will not come. */
static int gate_verify(struct gathering *g, bool blind)
{
	int ret;

	ret = records_read(g);
	if (ret < 0)
		return ret;
	if (!calls_roll(g) && !all_are_here(g, 0))
		return missing_judge(g);
	if (!calls_roll(g) && blind)
		counter_restart(g);

	return gate_open(g);
}

/* What a server does not answer, the wait's own look tells. */
static int gate_take(struct gathering *g, bool blind, bool open)
{
	char sentence[BEEST_ERROR_SIZE];
	int ret;

	ret = open ? 0 : gate_verify(g, blind);
	snprintf(sentence, sizeof(sentence), "%s", beest_error_text());
	taker_delete(g);
	if (ret == 0 || beest_kv_transient(ret))
		return 0;

	return beest_fail(-ret, "%s", sentence);
}

/* At most one of those who find that all have come looks at all records. */
static int gate_contend(struct gathering *g, bool blind)
{
	bool open;

	return gate_is_mine(g, &open) ? gate_take(g, blind, open) : 0;
}

/* Nobody knows when the last one came, but after a while somebody has to look. */
static int gate_late(struct gathering *g)
{
	int64_t now = beest_clock_now(), elapsed = now - g->state->began;
	bool blind = now >= g->blind;

	if (now < g->state->due)
		return 0;
	g->wait.asides[0] = g->count_key;
	if (!blind && (!g->full_at || now - g->full_at < g->late))
		return 0;
	g->state->due = now + BEEST_MIN(BEEST_MAX(elapsed / 4, g->late), LATE_MOST);

	return gate_contend(g, blind);
}

/* ----------------------------------------------------------------- who is missing --- */

static void missing_report(struct gathering *g)
{
	bool known = g->body.pass == KNOWN;
	int *missing = calloc(g->count, sizeof(*missing));
	size_t i, count = 0;

	for (i = 0; i < g->count && missing; i++)
		if (i != g->own && !(known ? rank_is_here(g, i, g->body.roll) : g->all[i].here))
			missing[count++] = g->call->ranks->id[i];
	if (missing && count)
		g->call->progress(g->call->data, known, missing, count);
	free(missing);
}

/* A server that does not answer is told of elsewhere. */
static void progress_report(struct gathering *g)
{
	int64_t now = beest_clock_now();

	if (!g->call->progress || now < g->report_at)
		return;
	g->report_at = now + REPORT_EACH;
	if (records_read(g) == 0)
		missing_report(g);
}

/* ------------------------------------------------------ a roll that another has made --- */

/* Has it all ranks, this very life of this one among them?  1, or 0. */
static int roll_judge(struct gathering *g, struct beest_kv_value *value)
{
	size_t size = g->count * beest_gather_mark_size(g->call);
	struct beest_barrier_body body;
	struct beest_record record;
	const uint8_t *marks;

	if (!value->bytes ||
	    beest_record_decode(g->registry->seal, value->bytes, value->size, BEEST_KIND_GATE,
				g->roll_key, &record) < 0 ||
	    beest_record_barrier_decode(&record, &body) < 0 || body.roll != g->gate.roll)
		return 0;
	marks = record.body + BEEST_BARRIER_SIZE;
	if (record.size != BEEST_BARRIER_SIZE + size || !marks_name_own(g, marks)) {
		/* A leftover, or others were called before this rank came: neither counts. */
		g->strange = body.roll;
		g->wait.asides[1] = NULL;
		g->blind = g->state->began;
		return 0;
	}
	/* Its own memory takes what it has of them: a copy of all costs more than the rest here. */
	memmove(value->bytes, marks, size);
	marks_keep(g, (uint8_t *)value->bytes, body.roll);
	value->bytes = NULL;

	return 1;
}

static int roll_read(struct gathering *g)
{
	struct beest_look_want want = { .key = g->roll_key, .server = g->server };
	struct beest_look look = {
		.wants = &want, .count = 1, .deadline = beest_gather_deadline(g->call),
	};
	int ret;

	ret = roll_judge(g, &g->roll);
	if (ret != 0 || g->strange == g->gate.roll)
		return ret;
	ret = beest_look_take(g->registry, &look);
	if (ret == 0)
		ret = roll_judge(g, &want.value);
	beest_look_free(&want, 1);

	return beest_kv_transient(ret) ? 0 : ret;
}

/* The gate tells of a roll that this rank does not know yet. */
static int roll_follow(struct gathering *g)
{
	uint64_t roll = g->gate.roll;
	int ret = 1;

	if (!roll || roll == g->body.roll || roll == g->strange)
		return 0;
	if (roll != g->read)
		ret = roll_read(g);

	return ret > 0 ? roll_take(g, roll) : ret;
}

static int gather_each(void *data)
{
	struct gathering *g = data;
	const struct beest_kv_write *count = &g->extras[1].write;
	int ret = 0;

	progress_report(g);
	if (reads_directly(g))
		return direct_each(g);
	if (calls_roll(g))
		ret = roll_follow(g);
	if (ret < 0)
		return ret;
	if (g->counted || !g->extras[1].done)
		return gate_late(g);
	g->counted = g->state->added = true;
	g->state->pass = g->body.pass;
	if (reads_counter(g))
		return g->full_at ? gate_contend(g, false) : gate_late(g);
	if (count->ret < 0 || !count->number || count->number % g->count != 0)
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

	for (; named + BEEST_INCARNATION_SIZE <= end; named += BEEST_INCARNATION_SIZE)
		if (memcmp(named, &g->registry->presence.incarnation, BEEST_INCARNATION_SIZE) == 0)
			return beest_fail(ESTALE, "rank %d was started again after the roll call of "
					  "this run, which goes on without it", g->call->rank);

	return 0;
}

/* 1: all ranks know of all, this one among them. */
static int see_roll(void *data, const struct beest_record *record)
{
	struct gathering *g = data;
	struct beest_barrier_body gate;
	int ret;

	ret = beest_record_barrier_decode(record, &gate);
	if (ret < 0)
		return ret;
	if (record->flags & BEEST_RECORD_CLOSED)
		return see_refusal(g, record);
	g->gate = gate;
	if (gate.roll != g->body.roll || gate.pass != KNOWN)
		return 0;
	/* A former call, which ended before the second gate, has read it. */
	if (gate.roll != g->read && !reads_directly(g)) {
		ret = roll_read(g);
		if (ret <= 0)
			return ret;
	}
	g->call->word = gate.name;
	g->call->digest = gate.roll;

	return 1;
}

/* ------------------------------------------------------------- what did not come --- */

static void rank_say(struct beest_text *text, struct gathering *g, size_t i)
{
	const struct attendance *rank = &g->all[i];
	int id = g->call->ranks->id[i];
	char who[BEEST_PRESENCE_TEXT];

	if (rank->here)
		beest_text_add(text, "rank %d (key %s, last seen as %s)", id, rank->key,
			       beest_presence_author(g->registry, id, &rank->incarnation, who));
	else
		beest_text_add(text, "rank %d (key %s%s%s)", id, rank->key,
			       rank->refused ? ": " : ", never seen",
			       rank->refused ? rank->why : "");
}

#define NAMED_MAX 4

/* Of a call that looks once, and may be repeated at any rate: so few are asked for. */
#define ONCE_MAX 32

/* Whose record is absent, is none, or does not know of this gathering. */
static int gather_expired(struct gathering *g)
{
	size_t i, count = 0;
	const bool once = g->call->limit->once;
	int ret, refused = 0;
	char list[950];
	struct beest_text text;

	if (once && g->count > ONCE_MAX)
		return beest_fail(EAGAIN, "not all of %zu ranks are here; a call with a deadline "
				  "says who is missing", g->count);
	ret = records_read(g);
	if (ret < 0)
		return ret;
	beest_text_start(&text, list, sizeof(list));
	for (i = 0; i < g->count; i++) {
		if (i == g->own || rank_is_here(g, i, g->body.roll))
			continue;
		refused = refused ? refused : g->all[i].refused;
		if (count++ < NAMED_MAX) {
			beest_text_add(&text, "%s", count > 1 ? ", " : "");
			rank_say(&text, g, i);
		}
	}
	if (count > NAMED_MAX)
		beest_text_add(&text, " and %zu more", count - NAMED_MAX);
	beest_registry_suspicion(g->registry, &text);
	if (!count)
		return beest_fail(beest_limit_errno(g->call->limit), "all %zu ranks are here by now: "
				  "call again", g->count);
	if (once)
		return beest_fail(EAGAIN, "%zu of %zu are not here yet: %s", count, g->count, list);

	return beest_fail(refused ? -refused : ETIMEDOUT, "%zu of %zu did not come within %s: %s",
			  count, g->count, BEEST_SPAN(beest_limit_span(g->call->limit)), list);
}

/* -------------------------------------------------------------------- the whole --- */

static void gathering_times(struct gathering *g)
{
	int64_t now = beest_clock_now(), patience = beest_limit_span(g->call->limit) / 4;

	g->late = LATE_FIRST + (int64_t)g->count * LATE_RANK;
	if (!g->state->began) {
		g->state->began = now;
		g->state->due = now + g->late;
	}
	g->numbered = now;
	g->report_at = now + REPORT_EACH;
	g->blind = g->state->began + BEEST_MIN(patience, LATE_MOST);
}

/* The gate is what is waited for; direct_start() adds all records. */
static void gathering_wait(struct gathering *g)
{
	const struct beest_gather *call = g->call;

	g->gets[0] = (struct beest_wait_get){
		.kind = BEEST_KIND_GATE, .key = g->gate_key,
		.name = call->title ? call->title : call->name,
		.see = calls_roll(g) ? see_roll : see_gate, .data = g,
	};
	g->wait.gets = g->gets;
	g->wait.count = 1;
	g->wait.each = gather_each;
	g->wait.aside = asides_take;
	if (reads_counter(g))
		g->wait.asides[0] = g->count_key;
	/* Where there is a former one, each look would fetch that. */
	if (reads_counter(g) && calls_roll(g) && !call->former)
		g->wait.asides[1] = g->roll_key;
	g->wait.data = g;
	g->wait.limit = call->limit;
}

static int gathering_start(struct gathering *g)
{
	const struct beest_gather *call = g->call;
	int ret;

	ret = keys_make(g);
	if (ret < 0)
		return ret;

	gathering_times(g);
	g->strange = call->former;
	g->body = g->state->body;
	if (calls_roll(g)) {
		g->body.pass = BEEST_MAX(g->body.pass, CALLED);
		g->body.name = call->word;
	} else {
		g->body.pass = call->pass;
		g->body.roll = call->run;
	}
	g->gets = calloc(g->count, sizeof(*g->gets));
	if (!g->gets)
		return beest_fail(ENOMEM, "no memory for a gathering of %zu ranks", g->count);
	gathering_wait(g);

	return reads_directly(g) ? direct_start(g) : 0;
}

static void gathering_end(struct gathering *g, int ret)
{
	if (calls_roll(g))
		g->state->body = g->body;
	if (ret == 0)
		g->state->began = 0;
	if (ret < 0) {
		free(g->call->marks);
		g->call->marks = NULL;
	}
	if (g->wants)
		beest_look_free(g->wants, g->count);
	beest_kv_values_free(&g->roll, 1);
	free(g->wants);
	free(g->all);
	free(g->direct);
	free(g->gets);
}

int beest_gather_run(struct beest_gather *call)
{
	struct gathering g = {
		.call = call, .registry = call->registry, .state = call->state,
		.count = call->ranks->count,
	};
	int ret;

	ret = gathering_start(&g);
	if (ret == 0)
		ret = record_put(&g);
	if (ret == 0)
		ret = beest_wait_run(call->registry, &g.wait);
	if (ret == -ETIMEDOUT || ret == -EAGAIN)
		ret = gather_expired(&g);
	gathering_end(&g, ret);

	return ret;
}
