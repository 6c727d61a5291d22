/* SPDX-License-Identifier: MIT */
/* opening.c - see opening.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/rendezvous/attendance.h"
#include "lib/rendezvous/changes.h"
#include "lib/rendezvous/opening.h"

/* Pause for twice as long as a look takes, so that looks take a third of the time at most. */
#define LOOK_PAUSE 2

/*
 * A gate counts as late after LATE_FIRST plus LATE_RANK per rank.  Then the first rank whose turn
 * has come reads all records itself.  Tries are at most LATE_MOST apart.
 */
#define LATE_FIRST (50 * BEEST_MS)
#define LATE_RANK (500 * BEEST_US)
#define LATE_MOST BEEST_SECOND
#define TAKER_TTL 2			/* seconds */

/* -------------------------------------------------------------------- the number --- */

/* Adds the counter where it is absent, then increments it. */
void beest_opening_number_prepare(struct beest_gathering *g)
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
			.answered = !beest_gathering_watches_counter(g),
		},
	};
	g->wait.extras = g->extras + g->state->counter_added;
	g->wait.extra_count = 2 - g->state->counter_added;
	g->counted = false;
	g->numbered_at = beest_clock_now();
}

/*
 * The number of ranks that have come hints at how long the others will take.  The first few hint
 * at little, since their answers wait for the requests of all others; so a rank never expects to
 * wait longer than it has waited already.  A counter left by a former run makes the estimate
 * wrong, and some pauses longer or shorter.
 *
 * When all have come, one rank reads all records and makes the roll.  If looks take long then,
 * those of the waiting ranks are holding that rank up.
 */
int64_t beest_opening_expect(struct beest_gathering *g, const struct beest_kv_value *value,
			     int64_t took)
{
	int64_t now = beest_clock_now(), elapsed = now - g->numbered_at, left;
	char text[24] = "";		/* a value has no NUL at its end */
	uint64_t number = 0;

	if (value->bytes && value->size < sizeof(text)) {
		memcpy(text, value->bytes, value->size);
		sscanf(text, "%" SCNu64, &number);
	}
	if (number != g->state->number)
		g->state->moved_at = now;
	g->state->number = number;
	if (!number || number % g->count)
		g->full_at = 0;
	else if (!g->full_at)
		g->full_at = now;
	if (g->full_at)
		return LOOK_PAUSE * took;
	number %= g->count;
	left = (int64_t)(g->count - number);

	return number ? BEEST_MIN(elapsed, elapsed / (int64_t)number * left) : 0;
}

/* ---------------------------------------------------------------------- the gate --- */

/* The waiting ranks read the gate again and again, so the roll has a key of its own. */
static int roll_put(struct beest_gathering *g, uint64_t digest, const uint8_t *marks)
{
	struct beest_barrier_body body = {
		.pass = BEEST_PASS_COME, .roll = digest, .name = g->body.name,
	};
	struct beest_registry_record record = {
		.kind = BEEST_KIND_GATE, .key = g->roll_key, .placed_as = g->gate_key,
	};
	size_t size = g->count * beest_gather_mark_size(g->call);

	return beest_gathering_put(g, &record, &body, marks, size);
}

/* The tag that all ranks gave; 0: they differ. */
static uint64_t common_tag(const struct beest_gathering *g)
{
	size_t i;

	for (i = 0; i < g->count; i++)
		if (g->all[i].body.name != g->body.name)
			return 0;

	return g->body.name;
}

/*
 * Opens the first gate when all have come, storing the roll ahead of it, or the second one when
 * all know that roll.
 */
static int roll_open(struct beest_gathering *g)
{
	struct beest_barrier_body gate = { .pass = BEEST_PASS_COME };
	struct beest_changes changes;
	uint8_t *marks = malloc(g->count * beest_gather_mark_size(g->call));
	bool fresh = false;
	size_t i;
	int ret = 0;

	if (!marks)
		return beest_fail(ENOMEM, "no memory for a roll of %zu ranks", g->count);
	for (i = 0; i < g->count && beest_attendance_has_come(g, i); i++)
		beest_mark_fill(g, beest_mark_at(g, marks, i), &g->all[i].incarnation,
				g->all[i].blob);
	if (i == g->count) {
		gate.roll = beest_gathering_digest(g, marks);
		beest_changes_tell(g, marks, &changes);
		if (beest_attendance_complete(g, gate.roll)) {
			gate.pass = BEEST_PASS_KNOWN;
			gate.name = common_tag(g);
		}
		/* The kept roll is stored already, and its first gate again would open nothing. */
		fresh = gate.roll != g->kept_roll;
		if (fresh && g->call->opening && !changes.size)
			g->call->opening(g->call->data, marks, gate.roll);
		if (fresh)
			ret = roll_put(g, gate.roll, marks);
		if (fresh)
			beest_gathering_keep(g, marks, gate.roll);
		if (ret == 0 && (gate.pass == BEEST_PASS_KNOWN || gate.roll != g->gate.roll))
			ret = beest_gathering_open(g, &gate, changes.bytes, changes.size);
	}
	if (!fresh)
		free(marks);

	return ret;
}

/*
 * A record that names a second gate which others have passed, and which a server has lost before
 * the author of the record saw it; NULL: none.
 */
static const struct beest_attendance *gate_find_lost(const struct beest_gathering *g)
{
	const struct beest_attendance *rank;

	for (rank = g->all; rank < g->all + g->count; rank++)
		if (rank->here && rank->body.roll != g->finished_roll &&
		    beest_gathering_is_behind(g, &rank->body))
			return rank;

	return NULL;
}

static int gate_open(struct beest_gathering *g)
{
	const struct beest_attendance *behind;

	if (beest_gathering_calls_roll(g)) {
		behind = gate_find_lost(g);
		return behind ? beest_gathering_open(g, &behind->body, NULL, 0) : roll_open(g);
	}

	return beest_attendance_complete(g, 0) ? beest_gathering_open(g, &g->body, NULL, 0) : 0;
}

int beest_opening_at_last(struct beest_gathering *g)
{
	const bool calls_roll = beest_gathering_calls_roll(g);
	struct beest_barrier_body gate = g->body;
	int ret;

	if (!beest_attendance_complete(g, gate.roll) ||
	    (calls_roll && gate.pass != BEEST_PASS_KNOWN))
		return 0;
	if (calls_roll) {
		g->call->tag = gate.name = common_tag(g);
		g->call->digest = gate.roll;
	}
	ret = beest_gathering_open(g, &gate, NULL, 0);
	if (ret == 0)
		beest_registry_offer(g->registry, g->gate_key);

	return ret < 0 ? ret : 1;
}

/* ------------------------------------------------------------------- a late gate --- */

/* Has another rank opened the gate a moment ago?  Then the next look of the wait reads it. */
static bool gate_is_open(struct beest_gathering *g, const struct beest_kv_value *value)
{
	struct beest_barrier_body gate;
	struct beest_record record;

	if (!beest_gathering_decode(g, g->gate_key, value, &record, &gate) ||
	    record.flags & BEEST_RECORD_CLOSED)
		return false;
	if (!beest_gathering_calls_roll(g) || g->body.pass == BEEST_PASS_KNOWN)
		return beest_gathering_passes(g, &gate);

	return gate.roll != g->gate.roll && gate.roll != g->skipped_roll;
}

/*
 * Only one rank at a time reads all records: the one whose incarnation the taker key holds; that
 * key is added and deleted, never overwritten.  Also reads the gate.  Returns true if this rank
 * holds the key.
 */
static bool taker_claim(struct beest_gathering *g, bool *open)
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

static void write_alone(struct beest_gathering *g, const struct beest_kv_write *write)
{
	struct beest_look_extra extra = { .server = g->server, .write = *write };
	struct beest_look look = {
		.extras = &extra, .extra_count = 1, .deadline = beest_gather_deadline(g->call),
	};

	beest_look_take(g->registry, &look);
}

static void taker_delete(struct beest_gathering *g)
{
	write_alone(g, &(struct beest_kv_write){
		.verb = BEEST_KV_DELETE, .key = g->taker_key,
	});
}

/*
 * All have come, but the counter did not say so: a server lost it, or it is left from a former
 * run.  Sets it to 0 for the next pass, for which no rank takes a number before the gate opens.
 */
static void counter_restart(struct beest_gathering *g)
{
	write_alone(g, &(struct beest_kv_write){
		.verb = BEEST_KV_SET, .key = g->count_key, .value = "0", .size = 1,
		.ttl = beest_lease_ttl(g->registry->leases),
	});
}

/* Reads all records, and opens the gate, or fails because a missing rank will not come. */
static int gate_verify(struct beest_gathering *g, bool counter_is_wrong)
{
	int ret;

	ret = beest_attendance_read(g);
	if (ret < 0)
		return ret;
	if (!beest_gathering_calls_roll(g) && !beest_attendance_complete(g, 0))
		return beest_attendance_judge(g);
	if (!beest_gathering_calls_roll(g) && counter_is_wrong)
		counter_restart(g);

	return gate_open(g);
}

/*
 * Of the ranks that find that all have come, at most one reads all records.  A server that does
 * not answer is left for the wait's own look to report.
 */
static int gate_open_as_taker(struct beest_gathering *g, bool counter_is_wrong)
{
	char sentence[BEEST_ERROR_SIZE];
	bool open;
	int ret;

	if (!taker_claim(g, &open))
		return 0;
	g->wait.hurry |= open;
	ret = open ? 0 : gate_verify(g, counter_is_wrong);
	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	taker_delete(g);
	if (ret == 0 || beest_kv_transient(ret))
		return 0;

	return beest_fail(-ret, "%s", sentence);
}

/*
 * The gate is late.  Reads all records if the counter has said for a while that all have come,
 * or cannot be believed.
 */
static int gate_late(struct beest_gathering *g)
{
	int64_t now = beest_clock_now(), elapsed = now - g->state->began_at;
	bool counter_is_wrong = g->counter_is_wrong || now - g->state->moved_at >= g->patience;

	if (now < g->state->due_at)
		return 0;
	g->wait.asides[0] = g->count_key;
	if (!counter_is_wrong && (!g->full_at || now - g->full_at < g->late_after))
		return 0;
	g->state->due_at = now + BEEST_MIN(BEEST_MAX(elapsed / 4, g->late_after), LATE_MOST);

	return gate_open_as_taker(g, counter_is_wrong);
}

/* This rank's number has arrived: opens the gate if it is the last one. */
static int number_answered(struct beest_gathering *g)
{
	const struct beest_kv_write *count = &g->extras[1].write;
	int ret;

	g->counted = g->state->counter_added = true;
	g->state->numbered_pass = g->body.pass;
	if (beest_gathering_watches_counter(g))
		return g->full_at ? gate_open_as_taker(g, false) : gate_late(g);
	if (count->ret < 0 || !count->number || count->number % g->count != 0)
		return gate_late(g);
	ret = beest_attendance_read(g);
	if (ret == 0)
		ret = gate_open(g);

	return beest_kv_transient(ret) ? 0 : ret;
}

int beest_opening_number_take(struct beest_gathering *g)
{
	struct beest_look look = {
		.extras = g->wait.extras, .extra_count = g->wait.extra_count,
		.deadline = beest_gather_deadline(g->call),
	};

	if (!look.extra_count || beest_gathering_watches_counter(g) ||
	    beest_limit_is_short(g->call->limit))
		return 0;		/* a single look must ask for both */
	beest_look_take(g->registry, &look);

	/* A silent server has taken the time that a cancelled call has. */
	return g->extras[1].done ? number_answered(g) : beest_limit_check(g->call->limit);
}

int beest_opening_each(struct beest_gathering *g)
{
	return g->counted || !g->extras[1].done ? gate_late(g) : number_answered(g);
}

void beest_opening_start(struct beest_gathering *g)
{
	int64_t now = beest_clock_now();

	g->late_after = LATE_FIRST + (int64_t)g->count * LATE_RANK;
	if (!g->state->began_at) {
		g->state->began_at = g->state->moved_at = now;
		g->state->due_at = now + g->late_after;
	}
	g->numbered_at = now;
	g->patience = BEEST_MIN(beest_limit_span(g->call->limit) / 4, LATE_MOST);
}
