/* SPDX-License-Identifier: MIT */
/* barrier.c - see barrier.h */
#include "config.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/rendezvous/barrier.h"

/* Stands for the barrier's name in the keys of the roll call. */
#define ROLL_NAME "-"

void beest_roll_start(struct beest_roll *roll)
{
	pthread_mutex_init(&roll->lock, NULL);
}

void beest_roll_end(struct beest_roll *roll)
{
	free(roll->marks);
	pthread_mutex_destroy(&roll->lock);
}

const struct beest_kind beest_barrier_kind = {
	.noun = "barrier", .size = sizeof(struct beest_barrier),
};

/*
 * What each rank brings to the roll call: the hash of a barrier's name, big-endian, with all bits
 * inverted if it gathers.
 */
#define TAG_SIZE sizeof(uint64_t)

/* The longest key is that of the head in a later pass, whose number has at most 8 digits here. */
int beest_barrier_check(struct beest_registry *registry, const struct beest_ids *ranks,
			const char *name)
{
	const struct beest_tally_place least = {
		.registry = registry, .ranks = ranks, .name = "x", .run = 1, .pass = UINT32_MAX,
	};
	char key[BEEST_KEY_MAX + 1];
	size_t most;
	int ret;

	ret = beest_registry_key(registry, BEEST_KIND_BARRIER, name, key);
	if (ret == 0)
		ret = beest_tally_key(&least, "head", key);
	if (ret < 0)
		return ret;
	most = BEEST_KEY_MAX + 1 - strlen(key);
	if (strlen(name) > most)
		return beest_fail(ENAMETOOLONG, "the name %s of a barrier has %zu bytes, at most "
				  "%zu are possible", BEEST_QUOTE(name), strlen(name), most);

	return 0;
}

/*
 * Waits for its turn, since one thread at a time calls the roll.  0: this thread does now; 1: the
 * roll is complete already.
 */
static int roll_begin(struct beest_roll *roll, const struct beest_limit *limit)
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
		if (beest_limit_check(limit) < 0)
			return -ECANCELED;
		if (!beest_limit_left(limit))
			return beest_fail(beest_limit_errno(limit),
					  "another thread is still in this context's first "
					  "barrier");
		beest_limit_pause(limit, &backoff);
	}
}

static uint64_t tag_of(const char *name, bool gathers)
{
	const uint64_t hash = beest_hash_text(name);

	return htobe64(gathers ? ~hash : hash);
}

static int roll_take(void *data, uint8_t *marks, uint64_t digest)
{
	struct beest_roll *roll = data;

	(void)digest;
	free(roll->marks);
	roll->marks = marks;

	return 0;
}

/* Also when a log callback of the program throws. */
static void roll_leave(struct beest_roll **roll)
{
	pthread_mutex_lock(&(*roll)->lock);
	(*roll)->calling = false;
	pthread_mutex_unlock(&(*roll)->lock);
}

/* Have all ranks come to the barrier of this @tag? */
static bool tags_are_same(const struct beest_meeting *meeting, const uint8_t *marks,
			  const uint64_t *tag)
{
	size_t i;

	for (i = 0; i < meeting->ranks->count; i++, marks += beest_meeting_mark_size(meeting))
		if (memcmp(marks + BEEST_MARK_HEAD, tag, TAG_SIZE) != 0)
			return false;

	return true;
}

/*
 * If a call of one thread fails, another thread may continue the roll call for another barrier.  It
 * brings the same tag, since all ranks would have to take another roll.
 */
static int roll_call(struct beest_meeting meeting, struct beest_roll *roll, const char *name)
{
	struct beest_roll *called __attribute__((cleanup(roll_leave), unused)) = roll;
	int ret;

	if (!roll->tag)
		roll->tag = tag_of(name, meeting.flags & BEEST_RECORD_GATHERS);
	meeting.name = ROLL_NAME;
	meeting.title = name;
	meeting.blob = &roll->tag;
	meeting.state = &roll->state;
	meeting.take_roll = roll_take;
	meeting.data = roll;
	ret = beest_meeting_run(&meeting);
	pthread_mutex_lock(&roll->lock);
	roll->complete = ret == 0;
	roll->all_same = ret == 0 && tags_are_same(&meeting, roll->marks, &roll->tag);
	roll->digest = meeting.digest;
	pthread_mutex_unlock(&roll->lock);

	return ret;
}

/* Was the roll call the first pass of this barrier, too? */
static bool roll_passes(const struct beest_roll *roll, const struct beest_barrier *barrier,
			bool gathers)
{
	return !barrier->passes && roll->all_same &&
	       roll->tag == tag_of(barrier->node.name, gathers);
}

static int later_pass(struct beest_meeting meeting, const struct beest_roll *roll,
		      struct beest_barrier *barrier)
{
	meeting.name = barrier->node.name;
	meeting.run = roll->digest;
	meeting.roll_name = ROLL_NAME;
	meeting.marks = roll->marks;
	meeting.pass = barrier->passes + 1;
	meeting.state = &barrier->state;

	return beest_meeting_run(&meeting);
}

int beest_barrier_wait(struct beest_registry *registry, struct beest_roll *roll,
		       struct beest_barrier *barrier, bool gathers,
		       const struct beest_ids *ranks, int rank, const struct beest_limit *limit)
{
	const char *name = barrier->node.name, *noun = gathers ? "gather" : "barrier";
	const struct beest_meeting meeting = {
		.registry = registry, .ranks = ranks, .rank = rank, .limit = limit,
		.blob_size = TAG_SIZE, .noun = noun,
		.flags = gathers ? BEEST_RECORD_GATHERS : 0,
	};
	int ret;

	ret = roll_begin(roll, limit);
	if (ret == 0)
		ret = roll_call(meeting, roll, name);
	if (ret >= 0 && !roll_passes(roll, barrier, gathers))
		ret = later_pass(meeting, roll, barrier);
	if (ret == -ESTALE)
		beest_fail(ESTALE, "%s: barriers need all ranks to open new contexts",
			   beest_error_text());
	if (ret < 0)
		return beest_fail_prefix(ret, "%s '%s', pass %" PRIu64, noun, name,
					 barrier->passes + 1);
	barrier->passes++;

	return 0;
}
