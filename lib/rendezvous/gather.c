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
#include "lib/rendezvous/attendance.h"
#include "lib/rendezvous/changes.h"
#include "lib/rendezvous/direct.h"
#include "lib/rendezvous/opening.h"

/* The most that a look besides those of the wait may take. */
#define LOOK_MOST BEEST_SECOND

int64_t beest_gather_deadline(const struct beest_gather *call)
{
	return BEEST_MIN(beest_limit_look(call->limit), beest_clock_deadline(LOOK_MOST));
}

/* --------------------------------------------------------------------------- keys --- */

/* The common beginning of all keys of a gathering. */
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

int beest_gathering_rank_key(const struct beest_gathering *g, size_t i, char key[BEEST_KEY_MAX + 1])
{
	char number[16];

	snprintf(number, sizeof(number), "%d", g->call->ranks->id[i]);

	return key_end(g->call, g->keys_base, number, key);
}

static int keys_make(struct beest_gathering *g)
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
		ret = beest_gathering_rank_key(g, g->own, g->record_key);
	if (ret == 0)
		g->server = beest_kv_server_of(g->registry->kv, g->gate_key);

	return ret;
}

/* -------------------------------------------------------------------------- marks --- */

/* Do @marks name this process, with what it brings now? */
static bool marks_name_own(const struct beest_gathering *g, const uint8_t *marks)
{
	return beest_mark_is(g, marks + g->own * beest_gather_mark_size(g->call),
			     &g->registry->presence.incarnation, g->call->blob);
}

uint64_t beest_gathering_digest(const struct beest_gathering *g, const uint8_t *marks)
{
	return beest_hash_fnv(BEEST_HASH_FNV, marks,
			      g->count * beest_gather_mark_size(g->call)) | 1;
}

void beest_gathering_keep(struct beest_gathering *g, uint8_t *marks, uint64_t digest)
{
	free(g->kept_marks);
	g->kept_marks = marks;
	g->kept_roll = digest;
	g->wait.asides[1] = NULL;
}

/* ----------------------------------------------------------------- record and gate --- */

int beest_gathering_put(struct beest_gathering *g, struct beest_registry_record *record,
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

static int record_put(struct beest_gathering *g)
{
	struct beest_registry_record record = {
		.kind = BEEST_KIND_BARRIER, .key = g->record_key, .placed_as = g->gate_key,
	};

	if (g->state->numbered_pass != g->body.pass && !beest_gathering_is_direct(g))
		beest_opening_number_prepare(g);

	return beest_gathering_put(g, &record, &g->body, g->call->blob,
				   g->call->blob ? g->call->blob_size : 0);
}

int beest_gathering_open(struct beest_gathering *g, const struct beest_barrier_body *body,
			 const void *more, size_t size)
{
	struct beest_registry_record record = { .kind = BEEST_KIND_GATE, .key = g->gate_key };

	g->wait.hurry = true;

	return beest_gathering_put(g, &record, body, more, size);
}

bool beest_gathering_decode(const struct beest_gathering *g, const char *key,
			    const struct beest_kv_value *value, struct beest_record *record,
			    struct beest_barrier_body *body)
{
	return value->bytes &&
	       beest_record_decode(g->registry->seal, value->bytes, value->size, BEEST_KIND_GATE,
				   key, record) == 0 &&
	       beest_record_barrier_decode(record, body) == 0;
}

/* -------------------------------------------------- a roll that another rank has made --- */

static void stage_tell(const struct beest_gathering *g, enum beest_gather_stage stage)
{
	if (g->call->stage && g->body.pass != BEEST_PASS_KNOWN)
		g->call->stage(g->call->data, stage);
}

int beest_gathering_look(struct beest_gathering *g, struct beest_look *look)
{
	int ret;

	stage_tell(g, BEEST_GATHER_READS);
	ret = beest_look_take(g->registry, look);
	stage_tell(g, BEEST_GATHER_WAITS);

	return ret;
}

int beest_gathering_know(struct beest_gathering *g, uint64_t digest)
{
	int ret = g->call->take_roll(g->call->data, g->kept_marks, digest);

	if (ret < 0)
		return ret == -EAGAIN ? 0 : ret;
	if (g->body.pass == BEEST_PASS_KNOWN && g->body.roll != digest)
		g->state->given_up_roll = g->body.roll;
	g->kept_marks = NULL;
	g->body.roll = digest;
	g->body.pass = BEEST_PASS_KNOWN;
	g->wait.hurry = true;
	ret = record_put(g);

	return ret < 0 ? ret : 0;
}

/* 1: the record is the roll of the gate, and names this process.  Its marks are kept. */
static int roll_judge(struct beest_gathering *g, struct beest_kv_value *value)
{
	size_t size = g->count * beest_gather_mark_size(g->call);
	struct beest_barrier_body body;
	struct beest_record record;
	const uint8_t *marks;

	if (!beest_gathering_decode(g, g->roll_key, value, &record, &body) ||
	    body.roll != g->gate.roll)
		return 0;
	marks = record.body + BEEST_BARRIER_SIZE;
	if (record.size != BEEST_BARRIER_SIZE + size || !marks_name_own(g, marks)) {
		/* A leftover of a former run, or a roll from before this process came. */
		g->skipped_roll = body.roll;
		g->wait.asides[1] = NULL;
		g->counter_is_wrong = true;
		return 0;
	}
	/* Reuses the value's buffer: another one for all marks would cost more than the rest. */
	memmove(value->bytes, marks, size);
	beest_gathering_keep(g, (uint8_t *)value->bytes, body.roll);
	value->bytes = NULL;

	return 1;
}

static int roll_read(struct beest_gathering *g)
{
	struct beest_look_want want = { .key = g->roll_key, .server = g->server };
	struct beest_look look = {
		.wants = &want, .count = 1, .deadline = beest_gather_deadline(g->call),
	};
	int ret;

	ret = roll_judge(g, &g->roll_value);
	if (ret != 0 || g->skipped_roll == g->gate.roll)
		return ret;
	ret = beest_gathering_look(g, &look);
	if (ret == 0)
		ret = roll_judge(g, &want.value);
	beest_look_free(&want, 1);

	return beest_kv_transient(ret) ? 0 : ret;
}

/* Takes the roll that the gate names, unless this rank knows it or must not follow it. */
static int roll_follow(struct beest_gathering *g)
{
	uint64_t roll = g->gate.roll;
	int ret = 1;

	if (!roll || roll == g->body.roll || roll == g->skipped_roll)
		return 0;
	if (roll != g->kept_roll)
		ret = roll_read(g);

	return ret > 0 ? beest_gathering_know(g, roll) : ret;
}

/*
 * Does @gate say that all ranks know the roll which this rank has given up for one with an heir?
 * A rank that saw so has passed with that roll, and knows nothing of the heir.
 */
static bool roll_is_over(const struct beest_gathering *g, const struct beest_barrier_body *gate)
{
	return g->state->given_up_roll && gate->roll == g->state->given_up_roll &&
	       gate->pass == BEEST_PASS_KNOWN;
}

static int roll_return(struct beest_gathering *g)
{
	beest_gathering_keep(g, NULL, 0);

	return beest_gathering_know(g, g->gate.roll);
}

/* A server that does not answer is left for the wait: further looks would prolong the call. */
static int gather_each(void *data)
{
	struct beest_gathering *g = data;
	int ret = 0;

	stage_tell(g, BEEST_GATHER_WAITS);
	if (g->wait.failing)
		return 0;
	beest_attendance_report(g);
	if (roll_is_over(g, &g->gate))
		return roll_return(g);
	if (beest_gathering_is_direct(g))
		return beest_direct_each(g);
	if (beest_gathering_calls_roll(g))
		ret = roll_follow(g);

	return ret < 0 ? ret : beest_opening_each(g);
}

/* ------------------------------------------------------------------ at the gate --- */

static int see_gate(void *data, const struct beest_record *record)
{
	struct beest_barrier_body gate;
	int ret;

	ret = beest_record_barrier_decode(record, &gate);

	return ret < 0 ? ret : beest_gathering_passes(data, &gate);
}

/* -ESTALE: the closed gate refuses this process; 0: it refuses others. */
static int see_refusal(const struct beest_gathering *g, const struct beest_record *record)
{
	const uint8_t *named = record->body + BEEST_BARRIER_SIZE;
	const uint8_t *end = record->body + record->size;

	for (; named + BEEST_INCARNATION_SIZE <= end; named += BEEST_INCARNATION_SIZE)
		if (memcmp(named, &g->registry->presence.incarnation, BEEST_INCARNATION_SIZE) == 0)
			return beest_fail(ESTALE, "rank %d, this process, was started again after "
					  "the run began", g->call->rank);

	return 0;
}

/* 1: all ranks know the roll, including this one. */
static int see_roll(void *data, const struct beest_record *record)
{
	struct beest_gathering *g = data;
	struct beest_barrier_body gate;
	bool passes;
	int ret;

	ret = beest_record_barrier_decode(record, &gate);
	if (ret < 0)
		return ret;
	passes = gate.roll == g->body.roll && gate.pass == BEEST_PASS_KNOWN &&
		 g->body.pass == BEEST_PASS_KNOWN;
	/* A closed gate refuses newcomers, but lets a rank pass that only sees it late. */
	if (record->flags & BEEST_RECORD_CLOSED && !passes && !roll_is_over(g, &gate))
		return see_refusal(g, record);
	g->gate = gate;
	g->finished_roll = gate.pass == BEEST_PASS_KNOWN ? gate.roll : 0;
	beest_changes_take(g, record);
	if (!passes)
		return 0;
	g->call->tag = gate.name;
	g->call->digest = gate.roll;

	return 1;
}

/* -------------------------------------------------------------------- the whole --- */

/*
 * The roll is stored ahead of the gate, so it arrives with the gate at the latest, and is kept
 * until then.  Then the counter says how long the wait may take.
 */
static int64_t asides_take(void *data, struct beest_look_want *asides, int64_t took)
{
	struct beest_gathering *g = data;

	if (asides[1].value.bytes) {
		beest_kv_values_free(&g->roll_value, 1);
		g->roll_value = asides[1].value;
		asides[1].value.bytes = NULL;
		g->wait.asides[1] = NULL;
	}

	return beest_opening_expect(g, &asides[0].value, took);
}

/* Waits for the gate; beest_direct_start() adds all records. */
static void gathering_wait(struct beest_gathering *g)
{
	const struct beest_gather *call = g->call;

	g->gets[0] = (struct beest_wait_get){
		.kind = BEEST_KIND_GATE, .key = g->gate_key, .noun = call->noun,
		.name = call->title ? call->title : call->name,
		.see = beest_gathering_calls_roll(g) ? see_roll : see_gate,
		.data = g,
	};
	g->wait.gets = g->gets;
	g->wait.count = 1;
	g->wait.each = gather_each;
	g->wait.aside = asides_take;
	if (beest_gathering_watches_counter(g))
		g->wait.asides[0] = g->count_key;
	/* Not where an old roll is stored there, which every look would fetch. */
	if (g->wait.asides[0] && beest_gathering_calls_roll(g) && !g->passed_roll)
		g->wait.asides[1] = g->roll_key;
	g->wait.data = g;
	g->wait.meets = beest_gathering_calls_roll(g);
	g->wait.limit = call->limit;
}

/*
 * The record says which roll call of this name the context passed last, since a server may lose
 * that one's gate before every rank has seen it.
 */
static void roll_call_begin(struct beest_gathering *g)
{
	g->passed_roll = g->skipped_roll = beest_lease_noted(g->registry->leases, g->record_key);
	g->body.name = g->call->tag;
	if (!g->body.pass) {
		g->body.pass = BEEST_PASS_COME;
		g->body.roll = g->passed_roll;
	}
}

static int gathering_start(struct beest_gathering *g)
{
	const struct beest_gather *call = g->call;
	int ret;

	ret = keys_make(g);
	if (ret < 0)
		return ret;

	beest_opening_start(g);
	g->report_at = beest_clock_now() + BEEST_REPORT_EACH;
	g->body = g->state->body;
	if (beest_gathering_calls_roll(g)) {
		roll_call_begin(g);
	} else {
		g->body.pass = call->pass;
		g->body.roll = call->run;
	}
	/* At a thousand ranks, room for all records would cost more than the rest of this. */
	g->gets = calloc(beest_gathering_is_direct(g) ? g->count : 1, sizeof(*g->gets));
	if (!g->gets)
		return beest_fail(ENOMEM, "no memory for a gathering of %zu ranks", g->count);
	gathering_wait(g);

	return beest_gathering_is_direct(g) ? beest_direct_start(g) : 0;
}

static void gathering_end(struct beest_gathering *g, int ret)
{
	if (beest_gathering_calls_roll(g)) {
		g->state->body = g->body;
		if (ret == 0)
			beest_lease_note(g->registry->leases, g->record_key, g->body.roll);
	}
	if (ret == 0)
		g->state->began_at = 0;
	if (g->wants)
		beest_look_free(g->wants, g->count + 1);
	beest_kv_values_free(&g->roll_value, 1);
	free(g->kept_marks);
	free(g->wants);
	free(g->all);
	free(g->marks);
	beest_direct_free(g);
	free(g->gets);
}

int beest_gather_run(struct beest_gather *call)
{
	struct beest_gathering g = {
		.call = call, .registry = call->registry, .state = call->state,
		.count = call->ranks->count, .newcomer = -1,
	};
	int ret;

	ret = gathering_start(&g);
	if (ret == 0)
		ret = record_put(&g);
	if (ret == 0)
		ret = beest_opening_number_take(&g);
	if (ret == 0)
		ret = beest_wait_run(call->registry, &g.wait);
	if (ret == -ETIMEDOUT || ret == -EAGAIN)
		ret = beest_attendance_expired(&g);
	gathering_end(&g, ret);

	return ret;
}
