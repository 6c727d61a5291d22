/* SPDX-License-Identifier: MIT */
/*
 * plan.h - what ranks do, what happens to them meanwhile, and what must come of it
 *
 * Owns the form of a plan, as struct and as text, and tables of plans that differ in a few words.
 * A drawn plan is printed in a form that can be kept in a file.  Knows nothing of how a plan is
 * tried (tests/unit/schedules.c).
 *
 * A file of plans has lines; indents do not matter, and # begins a comment:
 *
 *	promise: hartebeest_msg(3)	the page of the manual that promises what follows
 *	plan: one rank is late		begins a plan
 *	3 ranks, limit 10 s		what all ranks have in common, in the words of plan_print()
 *	all: barrier a, barrier b	steps: what ranks do, in this order.  No rank waits for the
 *					others, except in "wait for all".
 *	0,2-3: gather c			only these ranks do it
 *	rank 2 at request 4 dies for good
 *	rank 2 at each request ...	one trial for each request that the rank makes
 *	rank 2 at 500 ms ...		at that time
 *	expect 0-2: ETIMEDOUT "rank 3"	how the step before ends on these ranks: ok, a number, or an
 *					errno and parts of its sentence, also in further lines
 *	| rank | span |			a table: the plan is tried once for each row but the first,
 *	| 2    | 5 s  |			which has names.  <rank> stands for the field of a row.
 *					Of two tables, with a line between them, each row is tried
 *					with each row.
 *
 * An expectation may go on with: not "text"; or ERRNO, as another result; within 2 s of 0,1, as the
 * time since it and these ranks have begun the step; alike, if the step ends in the same way on all
 * of these.  "expect one of 2-3:" is for exactly one of these.  A rank takes its next step after a
 * failure that was expected.  If it might have succeeded as well, it takes no other step instead,
 * and nothing is expected of it there.  Where nothing is expected, the promises of
 * tests/unit/schedules.c hold.
 */
#ifndef TESTS_PLAN_H
#define TESTS_PLAN_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/support/fake-kv.h"

#define PLAN_PROCESSES 256
#define PLAN_SERVERS 3
#define PLAN_STEPS 24
#define PLAN_EVENTS 12
#define PLAN_EXPECTED 24
#define PLAN_TEXTS 6

/* By their numbers; none: all. */
struct plan_ranks {
	uint64_t bits[PLAN_PROCESSES / 64];
};

enum op {
	BARRIER, MESH, MEET, REPAIR, CLOSE, MESSAGE, PUSH, READ, PAIRS, SERVE, WORK, TOGETHER,
	LEAVE, GATHER, RESTORE, AWAIT, FAIL, PAUSE, ALL, KILL,
	OPS,
};

struct step {
	enum op op;
	int name;			/* of a barrier or a mesh; else: messages are deleted,
					   work is long, or the last rank is the listener
					   of the service, not the first */
	int thread;			/* that takes it */
	struct plan_ranks who;
	int64_t span;			/* of a pause */
	bool apart;			/* each rank's pause is longer by that than the one before
					   it has; or, if it is negative, the one behind */
	int bytes;			/* that each rank gives to a gather */
};

enum what {
	HOLD, FAILURE, LATE, RESTART, FLUSH, EVICTION, FORGETTING, AWAY, DEATH, END, LOSS, FLIP,
	CUT, EMPTY,
};

/* Happens before a request of a rank, or at a time. */
struct event {
	enum what what;
	int rank;
	int at;				/* number of the request; of a death: in the last life */
	int64_t time;			/* since the beginning; 0: before that request */
	bool each;			/* at is the request of this trial, of one for each */
	bool pushed;			/* that number counts since the rank's last push */
	int64_t span;			/* of a hold or absence, until late writes are applied,
					   or until a replacement comes; 0: none does */
	int error, command;		/* of a failure */
	enum fake_kv_manner manner;
	int server, item;
	const char *key;		/* of a record */
};

struct expectation {
	int step;
	struct plan_ranks who;
	bool one;			/* of them; else all */
	bool alike;			/* all have the same result */
	int results[2], count;
	const char *texts[PLAN_TEXTS];	/* of the sentence; NULL behind the last */
	const char *absent;		/* no part of it */
	int64_t within;			/* 0: no limit */
	struct plan_ranks after;	/* have begun, too */
};

struct plan {
	const char *title, *source;	/* of a file; NULL: drawn */
	uint64_t seed;
	int size, servers;
	int64_t limit;			/* of each call */
	int64_t noise;			/* each request is held up for less than this */
	int slow;			/* rank with slower requests; -1: none */
	bool scattered;			/* queue pair numbers have gaps */
	enum ibv_qp_type type;		/* of a mesh */
	int per_peer;			/* queue pairs */
	int reach;			/* how far away peers are; 0: all are, with pairs the
					   two neighbours */
	bool sealed;
	bool hosts;			/* deaths are not known, as on other hosts */
	enum { WAITS, POLLS, GIVES_UP, PATIENCES } patience;	/* in barriers and gathers */
	bool twins;			/* two runs under one job id */
	int64_t behind;			/* each rank of the second starts within this time */
	enum { NOTHING, LEFT, KILLED, FORMERS } former;	/* what a run before these left */
	struct step steps[PLAN_STEPS];
	int step_count;
	struct event events[PLAN_EVENTS];
	int event_count;

	/* Only in files. */
	bool usual;			/* the limit is that of HARTEBEEST_TIMEOUT */
	int64_t ttl;			/* of records; 0: the usual one */
	int64_t latency;		/* of requests; 0: the usual one */
	int item_max;			/* bytes of a value that a server stores; 0: all */
	struct plan_ranks pollers;	/* with patience POLLS: these; none: all */
	int odd, odd_size;		/* this rank is one of so many; 0: of as many as others */
	struct expectation expected[PLAN_EXPECTED];
	int expected_count;
};

/* Do they include that number? */
bool plan_ranks_have(const struct plan_ranks *ranks, int number);

/* "barrier a by thread 1", in one of a few buffers in turn. */
const char *plan_step_text(const struct step *step);
const char *plan_event_text(enum what what);

void plan_print(FILE *file, const struct plan *plan);

/* Gives @take each plan of a file, one after the other.  What it has stays valid. */
void plans_read(const char *path, void (*take)(struct plan *plan));

/* Reads one plan without a title or table. */
void plan_parse(const char *text, struct plan *plan);

#endif
