/* SPDX-License-Identifier: MIT */
/* pace.c - see pace.h */
#include "config.h"

#include "lib/base/clock.h"
#include "lib/base/limit.h"
#include "lib/base/macro.h"
#include "lib/rendezvous/pace.h"

/*
 * TCP sends a lost segment or SYN again after up to a second if it knows nothing of the way, and
 * once more after two (RFC 6298, 2.1 and 5.5): a new connection before that would only repeat what
 * the kernel does.
 */
#define PATIENCE_LEAST (3 * BEEST_SECOND)

/*
 * All ranks may ask at once, before anything is known of the server: so long does a link of
 * 10 Mbit/s take for the 12 kB that a rank may get in its first look.
 */
#define PATIENCE_RANK (10 * BEEST_MS)
#define PATIENCE_RANKS (10 * BEEST_SECOND)

/*
 * It doubles with each failure in a row, but only so often: in a small job, a host that returns
 * is found by a new connection after 12 s at the latest, not when the kernel tries again after a
 * minute.
 */
#define PATIENCE_DOUBLES 2

/* An answer that takes so many times as long as any of late will not arrive any more. */
#define PATIENCE_TIMES 4

/* The last look of a call is short, and may meet a moment in which nothing is answered. */
#define SUSPECT_LEAST (500 * BEEST_MS)

/*
 * A program that polls has other things to do.  Where all its looks are too short, none ever shows
 * how long answers take: so one in SINGLE_TIMES is as long as any.
 */
#define SINGLE_TIMES 8
#define SINGLE_MOST (2 * BEEST_SECOND)

/* A look that took less shows nothing: its caller may have had to wait for a processor. */
#define REST_OVER (5 * BEEST_MS)

/* See pace.h.  Measured with bench/slow: a quarter costs as much time as it saves looks. */
#define REST_SHARE 8
#define REST_TIMES 16

/*
 * After a failure: a server that is restarted is found within milliseconds, and one that is started
 * late within a second.
 */
#define FAILED_REST (10 * BEEST_MS)
#define FAILED_REST_MOST BEEST_SECOND

/* A request that no caller waits for can be sent later. */
#define AWAY BEEST_SECOND
#define AWAY_MOST (8 * BEEST_SECOND)

/* More keys than one request ever asks for. */
#define KEYS_MOST 65536

static int64_t doubled(int64_t first, unsigned int times, int64_t most)
{
	while (times-- && first < most)
		first *= 2;

	return BEEST_MIN(first, most);
}

void beest_pace_answered(struct beest_pace *pace, int64_t took)
{
	pace->took = took;
	pace->longest = BEEST_MAX(BEEST_MAX(took, 1), pace->longest - pace->longest / 16);
	pace->failures = 0;
	pace->keys *= 2;
	if (pace->keys > KEYS_MOST)
		pace->keys = 0;
}

void beest_pace_failed(struct beest_pace *pace, size_t keys)
{
	pace->failures++;
	pace->keys = BEEST_MAX(keys / 2, 1);
}

int64_t beest_pace_patience(const struct beest_pace *pace, int ranks)
{
	const int64_t first = PATIENCE_LEAST + BEEST_MIN(ranks * PATIENCE_RANK, PATIENCE_RANKS);
	const int64_t least = first << BEEST_MIN(pace->failures, PATIENCE_DOUBLES);

	return BEEST_MAX(least, PATIENCE_TIMES * pace->longest);
}

/* Neither the number of ranks nor failures count: a closing process must not hang. */
int64_t beest_pace_closing(const struct beest_pace *pace)
{
	return BEEST_MAX(PATIENCE_LEAST, PATIENCE_TIMES * pace->longest);
}

int64_t beest_pace_suspect(const struct beest_pace *pace, int ranks)
{
	return pace->longest ? BEEST_MAX(SUSPECT_LEAST, PATIENCE_TIMES * pace->longest) :
	       beest_pace_patience(pace, ranks);
}

int64_t beest_pace_single(const struct beest_pace *pace)
{
	if (pace->failures % SINGLE_TIMES == SINGLE_TIMES - 1)
		return SINGLE_MOST;

	return BEEST_MIN(BEEST_MAX(2 * pace->longest, BEEST_LIMIT_LOOK), SINGLE_MOST);
}

int64_t beest_pace_rest(const struct beest_pace *pace, int64_t waited)
{
	const int64_t slow = BEEST_MAX(pace->took - REST_OVER, 0);

	if (pace->failures)
		return doubled(FAILED_REST, pace->failures - 1, FAILED_REST_MOST);

	return BEEST_MIN(waited / REST_SHARE, REST_TIMES * slow);
}

int64_t beest_pace_away(const struct beest_pace *pace)
{
	return pace->failures ? doubled(AWAY, pace->failures - 1, AWAY_MOST) : 0;
}
