/* SPDX-License-Identifier: MIT */
/*
 * plan.h - what two ends of a ping agree to do
 *
 * Owns the operations and which transport carries them, the wishes of one end and of both,
 * and their form as a message.  Knows nothing of how the ends find each other.
 */
#ifndef TOOLS_PLAN_H
#define TOOLS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "lib/base/clock.h"

/* The order is that of plan_ops[]. */
enum plan_op {
	PLAN_WRITE,
	PLAN_READ,
	PLAN_SEND,
	PLAN_FETCH_ADD,
	PLAN_COMPARE_SWAP,
};

/* As in --op and --type, ended by NULL; types from IBV_QPT_RC on. */
extern const char *const plan_ops[], *const plan_types[];

/* What nobody has asked for. */
#define PLAN_OPEN (-1)

struct plan {
	int64_t type;			/* enum ibv_qp_type */
	int64_t op;			/* enum plan_op */
	int64_t first, last;		/* bytes: from, by doubling, to */
	int64_t count;			/* pings of each size */
	int64_t duration;		/* ns, of each size; 0: no limit */
	int64_t interval;		/* ns between two pings */
	int64_t bandwidth;		/* 1: measured, too */
};

/* The limits of the options, and of what a message may bring. */
#define PLAN_LAST_MAX (INT64_C(1) << 30)
#define PLAN_COUNT_MAX INT64_MAX
#define PLAN_TIME_MAX BEEST_DAY

/* Nothing but PLAN_OPEN. */
void plan_start(struct plan *plan);

/* The value of @word in one of the lists above; NULL: PLAN_OPEN. */
int64_t plan_word(const char *const *words, const char *word);

/*
 * What both want, into @plan, which may be either; PLAN_OPEN stays.  False: they differ, and
 * @why says in what.
 */
bool plan_merge(struct plan *plan, const struct plan *one, const struct plan *other, char *why,
		size_t size);

/* Presets for what is open.  False: such a plan cannot be carried out, and @why says why. */
bool plan_finish(struct plan *plan, char *why, size_t size);

/* The other end answers each ping by a message of its own; else its device does. */
bool plan_is_echo(const struct plan *plan);

/* "RC write". */
#define PLAN_NAME 40
const char *plan_name(const struct plan *plan, char name[PLAN_NAME]);

/* As a message and back.  False: it is none, or one of another version. */
#define PLAN_TEXT 256
void plan_write(const struct plan *plan, char text[PLAN_TEXT]);
bool plan_read(struct plan *plan, const char *text);

#endif
