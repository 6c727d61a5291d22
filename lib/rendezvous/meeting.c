/* SPDX-License-Identifier: MIT */
/* meeting.c - see meeting.h */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/rendezvous/meeting.h"
#include "lib/rendezvous/missing.h"

/*
 * If nobody has come for LATE_FIRST plus LATE_RANK per rank, this rank no longer relies on others:
 * it reads parts that the head lacks, and asks whether those who are missing will come.  It does so
 * again and again, with pauses of at most LATE_MOST, and reads its own part and LATE_PARTS others
 * each time: with many ranks, all of them wait for the same few.  At a server that answers slowly,
 * ranks come as slowly as it answers, so all of this takes longer there.
 */
#define LATE_FIRST (50 * BEEST_MS)
#define LATE_RANK (500 * BEEST_US)
#define LATE_LOOKS 8
#define LATE_MOST BEEST_SECOND
#define LATE_PARTS 2

struct meeting {
	struct beest_meeting *call;
	struct beest_meeting_state *state;
	struct beest_tally roll;	/* of a roll call: who has come */
	struct beest_tally pass;	/* who knows the roll, or has come to a later pass */
	struct beest_wait wait;
	struct beest_wait_get gets[2 * BEEST_TALLY_GETS];
	struct beest_look_extra deletions[2];	/* of a pass that is over */
	char deleted[2][BEEST_KEY_MAX + 1];
	uint64_t prepared;		/* the roll for which this rank has done so; 0: none */
	int64_t began;			/* this call */
	int64_t report_at;		/* when to report the missing ranks next */
	int64_t roll_at;		/* when to look for heirs next */
};

int64_t beest_meeting_deadline(const struct beest_meeting *call)
{
	return beest_limit_look(call->limit);
}

struct beest_tally_place beest_meeting_place(const struct beest_meeting *call, uint64_t run)
{
	return (struct beest_tally_place){
		.registry = call->registry, .ranks = call->ranks, .rank = call->rank,
		.name = call->name, .run = run, .pass = call->run ? call->pass : 0,
		.flags = call->run ? call->flags : 0,
	};
}

static bool calls_roll(const struct meeting *m)
{
	return !m->call->run;
}

/* How long the ranks take to come if they begin at about the same time. */
static int64_t usual_time(const struct meeting *m)
{
	return LATE_FIRST + (int64_t)m->call->ranks->count * LATE_RANK;
}

static int64_t late_after(const struct meeting *m)
{
	const struct beest_tally *any = m->pass.parts ? &m->pass : &m->roll;

	return usual_time(m) +
	       LATE_LOOKS * beest_look_longest(m->call->registry, any->where.server);
}

/* ---------------------------------------------------------------------- the lists --- */

/* Each look reads the lists that matter now. */
static void gets_make(struct meeting *m)
{
	struct beest_tally *const tallies[] = { &m->roll, &m->pass };
	const char *name = m->call->title ? m->call->title : m->call->name;
	size_t i, count = 0;

	for (i = 0; i < BEEST_COUNT(tallies); i++)
		if (tallies[i]->parts)
			count += beest_tally_gets(tallies[i], name, m->call->noun,
						  m->gets + count);
	m->wait.gets = m->gets;
	m->wait.count = count;
}

/*
 * This rank comes to the pass: after a roll call, it knows that roll.  If it has said in an earlier
 * call that it gives that roll up, it does not take that back.
 */
static int pass_come(struct meeting *m, uint64_t run)
{
	const struct beest_tally_place place = beest_meeting_place(m->call, run);
	int ret = beest_tally_start(&m->pass, &place);

	m->began = beest_clock_now();
	m->pass.sample_until = m->began + usual_time(m);
	m->pass.rounds.gives_up = m->state->gives_up;
	if (ret < 0 || m->state->gives_up)
		return ret;

	return beest_tally_say(&m->pass, BEEST_BARRIER_COMES, run);
}

/* The same after the first look. */
static int pass_begin(struct meeting *m, uint64_t run)
{
	int ret;

	beest_tally_end(&m->pass);
	m->state->gives_up = 0;
	ret = pass_come(m, run);
	m->wait.hurry = true;
	gets_make(m);

	return ret;
}

static int roll_come(struct meeting *m)
{
	const struct beest_tally_place place = beest_meeting_place(m->call, 0);
	const struct beest_meeting_state *state = m->state;
	int ret;

	ret = beest_tally_start_roll(&m->roll, &place, m->call->generation, m->call->blob,
				     m->call->blob_size, m->call->marks);
	m->roll.told.roll = state->roll;
	m->roll.sample_until = m->began + usual_time(m);
	if (ret == 0)
		ret = beest_tally_say(&m->roll, BEEST_BARRIER_COMES, 0);
	/* An earlier call of the same roll call may have come further. */
	if (ret == 0 && state->roll)
		ret = pass_come(m, state->roll);

	return ret;
}

/*
 * Whoever has passed the last pass knows that all have passed the one before that, which nobody
 * needs any longer.
 */
static void pass_delete(struct meeting *m)
{
	struct beest_tally_place place = beest_meeting_place(m->call, m->call->run);
	size_t count;

	if (m->call->pass <= 2)
		return;
	place.pass -= 2;
	beest_tally_forget(&place);
	count = beest_tally_delete(&place, false, m->deleted[0], &m->deletions[0]);
	count += beest_tally_delete(&place, true, m->deleted[count], &m->deletions[count]);
	m->wait.extras = m->deletions;
	m->wait.extra_count = count;
}

/* ----------------------------------------------------------------------- the roll --- */

/* Takes the roll that was read, and says so.  If it cannot be taken yet, each look tries again. */
static int roll_follow(struct meeting *m, uint64_t digest)
{
	int ret;

	/* All wait for one rank here, and must not keep the server from answering it. */
	m->wait.expected = late_after(m);
	if (m->call->ready && !m->call->ready(m->call->data, digest))
		return 0;
	ret = m->call->take_roll(m->call->data, m->roll.brought.marks, digest);
	if (ret < 0)
		return ret == -EAGAIN ? 0 : ret;
	m->roll.brought.lent = true;
	m->roll.told.roll = m->state->roll = digest;
	m->roll_at = beest_clock_now() + late_after(m);

	return pass_begin(m, digest);
}

/* Reads what others have brought.  One of them may prepare something for all. */
static int roll_see(struct meeting *m)
{
	int ret = beest_tally_each(&m->roll, beest_meeting_deadline(m->call));

	/* Another process's entry may have come behind that of this rank since. */
	if (beest_tally_has_head(&m->roll))
		m->gets[1].got = beest_tally_own_rests(&m->roll);
	if (ret > 0 && m->call->last && beest_tally_is_last(&m->roll) &&
	    m->prepared != beest_tally_digest(&m->roll)) {
		m->prepared = beest_tally_digest(&m->roll);
		m->call->last(m->call->data, m->roll.brought.marks, m->prepared);
	}

	return BEEST_MIN(ret, 0);
}

/* 1: this rank has passed.  One that knows a roll gives it up before it takes another. */
static int roll_decide(struct meeting *m)
{
	const uint64_t known = m->state->roll;
	uint64_t digest;
	int ret;

	if (known && (m->roll.told.passed || beest_tally_is_complete(&m->pass)))
		return 1;
	if (m->roll.told.refused)
		return beest_fail(ESTALE, "rank %d, this process, was started again after the "
				  "run began", m->call->rank);
	/* A roll with another process of this rank is not one that this rank knows. */
	if (!m->roll.own.said || !beest_tally_is_complete(&m->roll))
		return 0;
	digest = beest_tally_digest(&m->roll);
	m->roll.rests = digest == known;
	if (digest == known)
		return beest_tally_has_given_up(&m->pass) ? pass_begin(m, known) : 0;
	if (!known || beest_tally_has_given_up(&m->pass))
		return roll_follow(m, digest);
	m->wait.hurry = true;

	ret = beest_tally_give_up(&m->pass);
	m->state->gives_up = m->pass.rounds.gives_up;

	return ret;
}

/* ------------------------------------------------------------------------- a look --- */

static struct beest_missing missing_of(const struct meeting *m)
{
	const bool knows = calls_roll(m) && m->state->roll;

	return (struct beest_missing){
		.tally = calls_roll(m) && !knows ? &m->roll : &m->pass,
		.came = knows ? &m->roll : NULL, .limit = m->call->limit, .since = m->wait.since,
	};
}

/* 1: all have come by now.  Reading the list also sends what this rank has yet to say. */
static int pass_read(struct meeting *m)
{
	int ret = beest_tally_read(&m->pass, &m->pass, SIZE_MAX,
				   beest_meeting_deadline(m->call));

	return ret < 0 ? ret : beest_tally_is_complete(&m->pass);
}

/*
 * -ESTALE: a rank that is missing has come to a later roll call instead.  Reads a few parts at a
 * time, those that lack a rank, in the same turn as the parts of the pass.
 */
static int missing_went(struct meeting *m)
{
	const struct beest_tally_place place = beest_meeting_place(m->call, 0);
	const size_t stride = beest_meeting_mark_size(m->call);
	struct beest_tally roll;
	size_t i;
	int ret;

	ret = beest_tally_start_roll(&roll, &place, 0, NULL, m->call->blob_size, NULL);
	if (ret < 0)
		return ret;
	roll.turn = m->pass.turn;
	ret = beest_tally_read(&roll, &m->pass, LATE_PARTS, beest_meeting_deadline(m->call));
	for (i = 0; i < m->call->ranks->count && ret == 0; i++)
		if (!beest_tally_is_here(&m->pass, i) && beest_tally_is_here(&roll, i) &&
		    beest_tally_comes_again(&roll, i, m->call->marks + i * stride))
			ret = beest_fail(ESTALE, "rank %d has come to a later call for all ranks",
					 m->call->ranks->id[i]);
	beest_tally_end(&roll);

	return ret;
}

/* 1: all have come.  Newcomers are told that they will not be let in: nobody waits for them. */
static int missing_judge(struct meeting *m)
{
	struct beest_incarnation late[BEEST_MISSING_ASKED];
	struct beest_tally_place roll = beest_meeting_place(m->call, 0);
	const struct beest_missing missing = missing_of(m);
	char sentence[BEEST_ERROR_SIZE];
	size_t count;
	int ret = beest_tally_check(missing.tally), read;

	/* Whoever has found that calls differ may have left by now. */
	if (ret < 0)
		return ret;
	ret = beest_missing_judge(&missing, m->call->marks, beest_meeting_mark_size(m->call),
				  &m->state->turn, beest_meeting_deadline(m->call), late, &count);
	if (ret == 0 && !m->call->roll_name)
		ret = missing_went(m);
	if (ret == 0)
		return 0;
	beest_text_copy(sentence, sizeof(sentence), beest_error_text());
	/* Whoever is missing may have come, passed, and ended since its list was read. */
	read = pass_read(m);
	if (read != 0)
		return read;
	roll.name = m->call->roll_name;
	if (ret == -ESTALE && roll.name) {
		beest_tally_refuse(&roll, m->call->run, late, count);
		pass_read(m);
	}

	return beest_fail(-ret, "%s", sentence);
}

/* Reads parts that lack a rank. */
static int lacking_read(struct meeting *m, size_t most)
{
	const struct beest_missing missing = missing_of(m);
	const int64_t deadline = beest_meeting_deadline(m->call);
	int ret = 0;

	if (!beest_tally_has_head(missing.tally))
		return 0;
	if (calls_roll(m))
		ret = beest_tally_read(&m->roll, missing.tally, most, deadline);
	if (ret == 0 && m->pass.parts)
		ret = beest_tally_read(&m->pass, &m->pass, most, deadline);

	return ret;
}

static void missing_report(struct meeting *m)
{
	const struct beest_missing missing = missing_of(m);

	m->report_at = beest_clock_now() + BEEST_MAX(BEEST_SECOND, late_after(m));
	beest_missing_report(&missing, m->call->progress, m->call->data);
}

/* A rank that knows the roll looks now and then whether there is an heir, and then in each look. */
static void roll_look(struct meeting *m)
{
	int64_t now = beest_clock_now();

	if (m->roll.rests && now < m->roll_at)
		return;
	m->roll_at = now + late_after(m);
	m->gets[0].got = false;
}

/* A server that does not answer is left for the wait: further looks would prolong the call. */
static int late_each(struct meeting *m)
{
	struct beest_meeting_state *state = m->state;
	int64_t now = beest_clock_now(), elapsed = now - state->began_at;
	const int64_t after = late_after(m), moved_at = missing_of(m).tally->top.moved_at;
	bool reports = m->call->progress && now >= m->report_at;
	int ret;

	if (!reports && (now < BEEST_MAX(state->began_at, moved_at) + after ||
			 now < state->due_at))
		return 0;
	state->due_at = now + BEEST_MAX(BEEST_MIN(elapsed / 4, LATE_MOST), after);
	ret = lacking_read(m, reports ? SIZE_MAX : LATE_PARTS);
	if (reports && ret == 0)
		missing_report(m);
	if (ret == 0 && m->call->doubt && !m->state->roll)
		m->call->doubt(m->call->data, m->roll.brought.marks, m->roll.states);
	if (ret == 0 && !calls_roll(m) && !beest_tally_is_complete(&m->pass))
		ret = missing_judge(m);

	return beest_kv_transient(ret) ? 0 : ret < 0 ? ret : 1;
}

/* Names in the heads of the lists what has become complete.  1: the next look says so. */
static int parts_name(struct meeting *m, bool late)
{
	struct beest_tally *const tallies[] = { &m->roll, &m->pass };
	size_t i;
	int ret = 0, one;

	for (i = 0; i < BEEST_COUNT(tallies) && ret >= 0; i++) {
		one = tallies[i]->parts ? beest_tally_name(tallies[i], late) : 0;
		ret = one < 0 ? one : ret | one;
	}
	m->wait.hurry |= ret > 0;

	return ret;
}

/*
 * The share of ranks that have come hints at how long the others will take.  The first few hint at
 * little; so a rank never expects to wait longer than it has waited already.
 */
static int64_t expect(const struct meeting *m)
{
	double share = beest_tally_share(missing_of(m).tally);
	int64_t elapsed = beest_clock_now() - m->began;

	return share > 0.5 ? (int64_t)((double)elapsed * (1 - share) / share) :
	       share > 0 ? elapsed : 0;
}

/* Others wait for what this rank has to say: so it says that before it goes on. */
static int meeting_each(void *data)
{
	struct meeting *m = data;
	int ret, late;

	if (calls_roll(m) && m->call->waits && !m->state->roll)
		m->call->waits(m->call->data);
	if (m->wait.failing)
		return 0;
	roll_look(m);
	ret = late = late_each(m);
	if (ret >= 0)
		ret = beest_tally_check(calls_roll(m) && !m->state->roll ? &m->roll : &m->pass);
	if (ret >= 0 && calls_roll(m))
		ret = roll_see(m);
	if (ret >= 0)
		ret = parts_name(m, late);
	m->wait.expected = expect(m);
	if (ret != 0)
		return BEEST_MIN(ret, 0);

	return calls_roll(m) ? roll_decide(m) : beest_tally_is_complete(&m->pass);
}

/* ---------------------------------------------------------------------- the whole --- */

static int meeting_start(struct meeting *m)
{
	const struct beest_meeting *call = m->call;
	int ret;

	m->began = beest_clock_now();
	m->report_at = m->began + BEEST_SECOND;
	if (!m->state->began_at)
		m->state->began_at = m->began;
	pass_delete(m);
	ret = calls_roll(m) ? roll_come(m) : pass_come(m, call->run);
	gets_make(m);
	m->wait.most = BEEST_COUNT(m->gets);
	m->wait.each = meeting_each;
	m->wait.data = m;
	m->wait.meets = calls_roll(m);
	m->wait.limit = call->limit;

	return ret;
}

/*
 * The wait has ended, but by the lists just read, all have come: nobody else is to blame if this
 * rank was not in time to see so.
 */
static int meeting_expired(struct meeting *m)
{
	struct beest_missing missing = missing_of(m);
	const struct beest_limit *limit = m->call->limit;
	int ret = lacking_read(m, SIZE_MAX);

	if (limit->once && beest_kv_transient(ret))
		return -EAGAIN;
	if (ret == 0)
		ret = beest_tally_check(missing.tally);
	if (ret < 0)
		return ret;
	if (missing.tally == &m->pass && beest_tally_is_complete(&m->pass))
		return 0;
	if (limit->once && beest_tally_has_head(missing.tally))
		return beest_fail(EAGAIN, "not all of %zu ranks have arrived; a call with a "
				  "deadline names the missing ones", m->call->ranks->count);
	ret = beest_missing_fail(&missing);
	m->call->without = missing.returned;

	return ret < 0 ? ret : beest_fail(beest_limit_errno(limit), "%sall ranks have arrived in "
					  "the meantime, but the last steps need more time: call "
					  "again", BEEST_LIMIT_TEXT(limit, "after"));
}

static void meeting_finish(struct meeting *m, int ret)
{
	const struct beest_tally_place place = beest_meeting_place(m->call, m->state->roll);

	if (ret == 0 && calls_roll(m)) {
		m->call->digest = m->state->roll;
		beest_tally_forget_runs(&place);
		beest_tally_shorten(&m->roll);
		if (m->call->again)
			beest_tally_say(&m->roll, BEEST_BARRIER_PASSED, m->state->roll);
	}
	if (ret == 0)
		memset(m->state, 0, sizeof(*m->state));
	beest_tally_end(&m->roll);
	beest_tally_end(&m->pass);
}

int beest_meeting_run(struct beest_meeting *call)
{
	struct meeting m = { .call = call, .state = call->state };
	int ret;

	ret = meeting_start(&m);
	if (ret == 0)
		ret = beest_wait_run(call->registry, &m.wait);
	if ((ret == -ETIMEDOUT || ret == -EAGAIN) && !m.wait.failing)
		ret = meeting_expired(&m);
	meeting_finish(&m, ret);

	return ret;
}
