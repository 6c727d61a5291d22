/* SPDX-License-Identifier: MIT */
/* attendance.c - see attendance.h */
#include "config.h"

#include <stdlib.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/rendezvous/attendance.h"
#include "lib/rendezvous/inquiry.h"
#include "lib/rendezvous/opening.h"

/* Allocated late, since only the rank that reads all records needs it. */
static int reading_start(struct beest_gathering *g)
{
	size_t i;
	int ret = 0;

	if (g->all && g->wants) {
		beest_look_free(g->wants, g->count + 1);
		return 0;
	}
	g->all = g->all ? g->all : calloc(g->count, sizeof(*g->all));
	g->wants = g->wants ? g->wants : calloc(g->count + 1, sizeof(*g->wants));
	if (!g->all || !g->wants)
		return beest_fail(ENOMEM, "no memory for the records of %zu ranks", g->count);
	for (i = 0; i < g->count && ret == 0; i++) {
		ret = beest_gathering_rank_key(g, i, g->all[i].key);
		g->wants[i].key = g->all[i].key;
		g->wants[i].server = g->server;
	}
	g->wants[g->count].key = g->gate_key;
	g->wants[g->count].server = g->server;

	return ret;
}

/* An invalid record counts as absent.  Once for each value, since decoding opens a seal. */
static int attendance_decode(struct beest_gathering *g, size_t i)
{
	const struct beest_kv_value *value = &g->wants[i].value;
	struct beest_attendance *rank = &g->all[i];
	struct beest_record record;
	int ret;

	ret = beest_record_decode(g->registry->seal, value->bytes, value->size, BEEST_KIND_BARRIER,
				  rank->key, &record);
	if (ret == 0)
		ret = beest_record_barrier_decode(&record, &rank->body);
	if (ret == 0)
		beest_gathering_note_passed(g, &rank->body);
	if (ret == 0 && g->call->blob && record.size < BEEST_BARRIER_SIZE + g->call->blob_size)
		return beest_fail(EBADMSG, "the record is shorter than those of the others");
	if (ret == 0) {
		rank->incarnation = record.incarnation;
		rank->blob = record.body + BEEST_BARRIER_SIZE;
	}

	return ret;
}

static void attendance_take(struct beest_gathering *g, size_t i)
{
	struct beest_attendance *rank = &g->all[i];

	rank->refused = g->wants[i].value.bytes ? attendance_decode(g, i) : 0;
	rank->here = g->wants[i].value.bytes && rank->refused == 0;
	if (rank->refused)
		beest_text_copy(rank->why, sizeof(rank->why), beest_error_text());
}

/* The roll of the gate that was read, if it is a second one; 0: it is not. */
static uint64_t second_gate_roll(const struct beest_gathering *g)
{
	struct beest_barrier_body gate;
	struct beest_record record;

	return beest_gathering_decode(g, g->gate_key, &g->wants[g->count].value, &record, &gate) &&
	       gate.pass == BEEST_PASS_KNOWN ? gate.roll : 0;
}

int beest_attendance_read(struct beest_gathering *g)
{
	struct beest_look look = {
		.count = g->count + beest_gathering_calls_roll(g),
		.deadline = beest_gather_deadline(g->call),
	};
	size_t i;
	int ret;

	ret = reading_start(g);
	if (ret < 0)
		return ret;
	look.wants = g->wants;
	ret = beest_gathering_look(g, &look);
	for (i = 0; i < g->count && ret == 0; i++)
		attendance_take(g, i);
	g->finished_roll = second_gate_roll(g);

	return ret;
}

bool beest_attendance_has_come(const struct beest_gathering *g, size_t i)
{
	return g->all[i].here && !beest_gathering_is_behind(g, &g->all[i].body);
}

bool beest_attendance_here(const struct beest_gathering *g, size_t i, uint64_t digest)
{
	const struct beest_attendance *rank = &g->all[i];

	return rank->here && (beest_gathering_calls_roll(g) ? rank->body.roll == digest :
			      rank->body.pass >= g->body.pass);
}

bool beest_attendance_complete(const struct beest_gathering *g, uint64_t digest)
{
	size_t i;

	for (i = 0; i < g->count; i++)
		if (!beest_attendance_here(g, i, digest))
			return false;

	return true;
}

/* ------------------------------------------------------- ranks that will not come --- */

/* Rank number @i as it was in the roll call. */
static const struct beest_incarnation *rank_expected(const struct beest_gathering *g, size_t i)
{
	return (const void *)(g->call->marks + i * beest_gather_mark_size(g->call));
}

/* Closes the gate of the roll call, which names the newcomers, so that they give up. */
static void newcomers_refuse(struct beest_gathering *g, const struct beest_incarnation *newcomers,
			     size_t count)
{
	const struct beest_gather roll = { .registry = g->registry, .name = g->call->roll_name };
	struct beest_barrier_body body = {
		.pass = BEEST_PASS_KNOWN, .roll = g->body.roll, .name = g->call->tag,
	};
	char key[BEEST_KEY_MAX + 1];
	struct beest_registry_record record = {
		.kind = BEEST_KIND_GATE, .key = key, .flags = BEEST_RECORD_CLOSED,
	};

	if (beest_gather_key(&roll, "gate", key) == 0)
		beest_gathering_put(g, &record, &body, newcomers, count * sizeof(*newcomers));
	g->wait.hurry = true;
}

/* 0, or why some of the missing ranks will not come. */
static int missing_judge_each(struct beest_gathering *g, const struct beest_presence_query *queries,
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

	if (g->call->roll_name)
		newcomers_refuse(g, newcomers, restarted);
	beest_presence_text(first->rank, &first->body, who);
	if (restarted == 1)
		return beest_fail(ESTALE, "%s was started again after the run began", who);

	return beest_fail(ESTALE, "%s and %zu more were started again after the run began", who,
			  restarted - 1);
}

static bool any_ended(const struct beest_presence_query *queries, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (queries[i].ret == -ESTALE ||
		    (queries[i].ret > 0 &&
		     beest_presence_ended(queries[i].rank, &queries[i].body) < 0))
			return true;

	return false;
}

/*
 * Has the gate been opened since the records were read?  A rank that came after that may have
 * passed by now, and then left or started again.
 */
static bool gate_has_come(struct beest_gathering *g)
{
	struct beest_look_want want = { .key = g->gate_key, .server = g->server };
	struct beest_look look = {
		.wants = &want, .count = 1, .deadline = beest_gather_deadline(g->call),
	};
	struct beest_barrier_body gate;
	struct beest_record record;
	bool open;

	open = beest_gathering_look(g, &look) == 0 &&
	       beest_gathering_decode(g, g->gate_key, &want.value, &record, &gate) &&
	       beest_gathering_passes(g, &gate);
	beest_look_free(&want, 1);
	g->wait.hurry |= open;

	return open;
}

int beest_attendance_judge(struct beest_gathering *g)
{
	struct beest_presence_query *queries = calloc(g->count, sizeof(*queries));
	struct beest_incarnation *newcomers = calloc(g->count, sizeof(*newcomers));
	size_t i, count = 0;
	int ret;

	for (i = 0; i < g->count && queries; i++) {
		if (beest_attendance_here(g, i, 0))
			continue;
		queries[count].rank = g->call->ranks->id[i];
		queries[count++].incarnation = rank_expected(g, i);
	}
	if (queries && newcomers) {
		beest_presence_query(g->registry, queries, count, beest_gather_deadline(g->call));
		ret = any_ended(queries, count) && gate_has_come(g) ? 0 :
		      missing_judge_each(g, queries, count, newcomers);
	} else {
		ret = beest_fail(ENOMEM, "no memory to ask for %zu ranks", g->count);
	}
	free(newcomers);
	free(queries);

	return ret;
}

/* ------------------------------------------------------------------ missing ranks --- */

static bool is_missing(const struct beest_gathering *g, size_t i)
{
	if (i == g->own)
		return false;

	return !(beest_gathering_calls_roll(g) && g->body.pass == BEEST_PASS_COME ?
		 beest_attendance_has_come(g, i) : beest_attendance_here(g, i, g->body.roll));
}

/* A rank that knows another roll waits, too: for the missing rank, or for that one's heir. */
static bool waits_too(const struct beest_gathering *g, size_t i)
{
	return beest_gathering_calls_roll(g) && beest_attendance_has_come(g, i) &&
	       g->all[i].body.pass == BEEST_PASS_KNOWN;
}

static bool is_absent(const struct beest_gathering *g, size_t i)
{
	return is_missing(g, i) && !waits_too(g, i);
}

static bool anybody_is_absent(const struct beest_gathering *g)
{
	size_t i = 0;

	while (i < g->count && !is_absent(g, i))
		i++;

	return i < g->count;
}

static void missing_report(struct beest_gathering *g)
{
	const bool strictly = anybody_is_absent(g);
	int *missing = calloc(g->count, sizeof(*missing));
	size_t i, count = 0;

	for (i = 0; i < g->count && missing; i++)
		if (strictly ? is_absent(g, i) : is_missing(g, i))
			missing[count++] = g->call->ranks->id[i];
	if (missing && count)
		g->call->progress(g->call->data, g->body.pass == BEEST_PASS_KNOWN, missing, count);
	free(missing);
}

/* A server that does not answer is reported elsewhere. */
void beest_attendance_report(struct beest_gathering *g)
{
	int64_t now = beest_clock_now();

	if (!g->call->progress || now < g->report_at)
		return;
	g->report_at = now + BEEST_REPORT_EACH;
	if (beest_attendance_read(g) == 0)
		missing_report(g);
}

/* ----------------------------------------------------------------- a failed wait --- */

#define NAMED_MAX 4

/* A call that looks once may be repeated at any rate: it reads the records of few ranks only. */
#define ONCE_MAX 32

/* Has it taken a roll to its end, while this process has yet to come to one? */
static bool has_passed_without(const struct beest_gathering *g, size_t i)
{
	return beest_gathering_calls_roll(g) && g->body.pass == BEEST_PASS_COME &&
	       beest_gathering_is_behind(g, &g->all[i].body);
}

/* True: nothing of this rank was ever seen. */
static bool missing_describe(struct beest_text *text, struct beest_gathering *g, size_t i)
{
	const struct beest_attendance *rank = &g->all[i];
	int id = g->call->ranks->id[i];
	struct beest_text began = BEEST_TEXT(BEEST_PRESENCE_TEXT + BEEST_WAITS_MAX);
	char who[BEEST_PRESENCE_TEXT];
	bool without;

	if (rank->here) {
		without = !beest_presence_is_over(g->registry, id, &rank->incarnation, who) &&
			  has_passed_without(g, i);
		g->call->without |= without;
		beest_text_add(text, "rank %d (key %s, last seen as %s%s)", id, rank->key, who,
			       without ? ", which has finished without this process" : "");
	} else if (rank->refused) {
		beest_text_add(text, "rank %d (key %s: %s)", id, rank->key, rank->why);
	} else if (beest_inquiry_fits(g->call->limit) &&
		   beest_inquiry_rank(g->registry, id, &began)) {
		beest_text_add(text, "rank %d (key %s, not there; it began as %s)", id, rank->key,
			       began.buffer);
	} else {
		beest_text_add(text, "rank %d (key %s, never seen)", id, rank->key);
		return beest_gathering_calls_roll(g);
	}
	return false;
}

/* Adds what may be the reason.  @unseen: a missing rank was never seen. */
static void reasons_add(struct beest_text *text, const struct beest_gathering *g, bool unseen)
{
	beest_text_item(text, "server %s answers", beest_kv_label(g->registry->kv, g->server));
	if (beest_inquiry_fits(g->call->limit))
		beest_inquiry_server(g->registry, g->server, BEEST_KIND_ANY, text);
	beest_look_loss_say(g->registry, g->server, g->wait.since, text);
	if (g->newcomer >= 0)
		beest_text_item(text, "rank %d was started again meanwhile", g->newcomer);
	beest_registry_suspicion(g->registry, unseen ? "all ranks" : NULL, text);
}

/* The servers were slow, not the ranks. */
static int all_are_here(struct beest_gathering *g)
{
	const struct beest_limit *limit = g->call->limit;
	int ret = limit->once ? 0 : beest_opening_at_last(g);

	if (ret != 0)
		return BEEST_MIN(ret, 0);

	return beest_fail(beest_limit_errno(limit), "%sall ranks have arrived in the meantime, "
			  "but the last steps need more time: call again",
			  BEEST_LIMIT_TEXT(limit, "after"));
}

int beest_attendance_expired(struct beest_gathering *g)
{
	size_t i, count = 0;
	const bool once = g->call->limit->once;
	bool strictly, unseen = false;
	int ret, refused = 0;
	struct beest_text list = BEEST_TEXT(700), reasons = BEEST_TEXT(500);

	if (once && g->count > ONCE_MAX)
		return beest_fail(EAGAIN, "not all of %zu ranks have arrived; a call with a "
				  "deadline names the missing ones", g->count);
	ret = beest_attendance_read(g);
	if (ret < 0)
		return ret;
	strictly = anybody_is_absent(g);
	for (i = 0; i < g->count; i++) {
		if (strictly ? !is_absent(g, i) : !is_missing(g, i))
			continue;
		refused = refused ? refused : g->all[i].refused;
		if (count++ < NAMED_MAX) {
			beest_text_add(&list, "%s", count > 1 ? ", " : "");
			unseen |= missing_describe(&list, g, i);
		}
	}
	if (count > NAMED_MAX)
		beest_text_add(&list, " and %zu more", count - NAMED_MAX);
	if (!count)
		return all_are_here(g);
	reasons_add(&reasons, g, unseen);

	return beest_fail(once ? EAGAIN : refused ? -refused : ETIMEDOUT,
			  "%s%zu of %zu ranks %s not arrived: %s; %s",
			  BEEST_LIMIT_TEXT(g->call->limit, "after"), count, g->count,
			  count == 1 ? "has" : "have", list.buffer, reasons.buffer);
}
