/* SPDX-License-Identifier: MIT */
/*
 * plan.h - what two ends of a ping agree to do
 *
 * Owns the operations and which transport carries them, the wishes of an end and how two ends
 * agree, and the form of a plan as a message.  Knows nothing of how the ends find each other.
 */
#ifndef TOOLS_PLAN_H
#define TOOLS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "lib/base/clock.h"

/* In the order of plan_ops[]. */
enum plan_op {
	PLAN_WRITE,
	PLAN_READ,
	PLAN_SEND,
	PLAN_FETCH_ADD,
	PLAN_COMPARE_SWAP,
};

/* The words of --op and --type, ended by NULL.  The first type is IBV_QPT_RC. */
extern const char *const plan_ops[], *const plan_types[];

/* The value of a field that was not set. */
#define PLAN_OPEN (-1)

struct plan {
	int64_t type;			/* enum ibv_qp_type */
	int64_t op;			/* enum plan_op */
	int64_t first, last;		/* smallest and largest size in bytes, by doubling */
	int64_t count;			/* pings of each size */
	int64_t duration;		/* ns for each size; 0: no limit */
	int64_t interval;		/* ns between the beginnings of two pings */
	int64_t bandwidth;		/* 1: measured, too; 2: and both ways at once */
};

/* The limits of the options, and of the fields of a message. */
#define PLAN_LAST_MAX (INT64_C(1) << 30)
#define PLAN_COUNT_MAX INT64_MAX
#define PLAN_TIME_MAX BEEST_DAY

/* Sets all fields to PLAN_OPEN. */
void plan_start(struct plan *plan);

/* The value of @word in one of the lists above; PLAN_OPEN for NULL. */
int64_t plan_word(const char *const *words, const char *word);

/*
 * Sets @plan, which may be one of the two, to what both ends want.  What neither has set stays
 * PLAN_OPEN.  False: they differ, and @why names in what.
 */
bool plan_merge(struct plan *plan, const struct plan *one, const struct plan *other, char *why,
		size_t size);

/* Sets defaults for PLAN_OPEN.  False: the plan cannot be carried out, and @why has the reason. */
bool plan_finish(struct plan *plan, char *why, size_t size);

/* Does the other end answer each ping by a message of its own?  Else its device answers. */
bool plan_is_echo(const struct plan *plan);

/* "RC write". */
#define PLAN_NAME 40
const char *plan_name(const struct plan *plan, char name[PLAN_NAME]);

/* Converts to a message and back.  False: it is not a plan, or of another version. */
#define PLAN_TEXT 256
void plan_write(const struct plan *plan, char text[PLAN_TEXT]);
bool plan_read(struct plan *plan, const char *text);

#endif
