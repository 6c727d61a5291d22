/* SPDX-License-Identifier: MIT */
/* plan.c - see plan.h */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "tools/plan.h"

#define HEADER "offer 1"

const char *const plan_ops[] = { "write", "read", "send", "fetch-add", "compare-swap", NULL };
const char *const plan_types[] = { "rc", "uc", "ud", NULL };

/* Which transport carries what, by the order of the words. */
static const bool carried[3][5] = {
	{ true, true, true, true, true },
	{ true, false, true, false, false },
	{ false, false, true, false, false },
};

static const struct field {
	const char *option;
	size_t offset;
	int64_t min, max;		/* limits in a message; PLAN_OPEN is allowed, too */
} fields[] = {
#define FIELD(option, member, min, max) { option, offsetof(struct plan, member), min, max }
	FIELD("--type", type, IBV_QPT_RC, IBV_QPT_UD),
	FIELD("--op", op, PLAN_WRITE, PLAN_COMPARE_SWAP),
	FIELD("--size", first, 0, PLAN_LAST_MAX),
	FIELD("--sweep", last, 1, PLAN_LAST_MAX),
	FIELD("--count", count, 1, PLAN_COUNT_MAX),
	FIELD("--duration", duration, 1, PLAN_TIME_MAX),
	FIELD("--interval", interval, 0, PLAN_TIME_MAX),
	FIELD("--bw", bandwidth, 1, 2),
};

static int64_t *field_of(struct plan *plan, const struct field *field)
{
	return (int64_t *)((char *)plan + field->offset);
}

static int64_t field_value(const struct plan *plan, const struct field *field)
{
	return *field_of((struct plan *)plan, field);
}

void plan_start(struct plan *plan)
{
	size_t i;

	for (i = 0; i < BEEST_COUNT(fields); i++)
		*field_of(plan, &fields[i]) = PLAN_OPEN;
}

int64_t plan_word(const char *const *words, const char *word)
{
	int64_t i;

	for (i = 0; word && words[i]; i++)
		if (!strcmp(words[i], word))
			return words == plan_types ? IBV_QPT_RC + i : i;
	return PLAN_OPEN;
}

/* ----------------------------------------------------------- agreeing --- */

bool plan_merge(struct plan *plan, const struct plan *one, const struct plan *other, char *why,
		size_t size)
{
	struct plan merged;
	size_t i;

	for (i = 0; i < BEEST_COUNT(fields); i++) {
		int64_t a = field_value(one, &fields[i]), b = field_value(other, &fields[i]);

		if (a != PLAN_OPEN && b != PLAN_OPEN && a != b) {
			snprintf(why, size, "the two ends differ in %s: give it at one of them "
				 "only, or the same at both", fields[i].option);
			return false;
		}
		*field_of(&merged, &fields[i]) = a == PLAN_OPEN ? b : a;
	}
	*plan = merged;
	return true;
}

static void set_default(int64_t *field, int64_t value)
{
	if (*field == PLAN_OPEN)
		*field = value;
}

bool plan_finish(struct plan *plan, char *why, size_t size)
{
	bool sweep = plan->last != PLAN_OPEN, timed = plan->duration != PLAN_OPEN, atomic;
	char name[PLAN_NAME];

	set_default(&plan->type, IBV_QPT_RC);
	set_default(&plan->op, plan->type == IBV_QPT_UD ? PLAN_SEND : PLAN_WRITE);
	set_default(&plan->first, 8);
	set_default(&plan->last, plan->first);
	set_default(&plan->duration, sweep && plan->count == PLAN_OPEN ? BEEST_SECOND : 0);
	set_default(&plan->count, timed ? INT64_MAX : 1000);
	set_default(&plan->interval, 0);
	set_default(&plan->bandwidth, 0);
	atomic = plan->op == PLAN_FETCH_ADD || plan->op == PLAN_COMPARE_SWAP;
	if (!carried[plan->type - IBV_QPT_RC][plan->op])
		snprintf(why, size, "there is no %s: --op %s needs --type %s",
			 plan_name(plan, name), plan_ops[plan->op],
			 plan->op == PLAN_WRITE ? "rc or uc" : "rc");
	else if (atomic && (plan->first != 8 || plan->last != 8))
		snprintf(why, size, "an atomic operation has 8 bytes: --op %s takes no --size "
			 "and no --sweep", plan_ops[plan->op]);
	else if (plan->first > plan->last)
		snprintf(why, size, "--size is larger than --sweep");
	else
		return true;
	return false;
}

bool plan_is_echo(const struct plan *plan)
{
	return plan->op == PLAN_SEND || plan->type != IBV_QPT_RC;
}

const char *plan_name(const struct plan *plan, char name[PLAN_NAME])
{
	static const char *const upper[] = { "RC", "UC", "UD" };

	snprintf(name, PLAN_NAME, "%s %s", upper[plan->type - IBV_QPT_RC], plan_ops[plan->op]);
	return name;
}

/* --------------------------------------------------------- as message --- */

void plan_write(const struct plan *plan, char text[PLAN_TEXT])
{
	int used = snprintf(text, PLAN_TEXT, HEADER);
	size_t i;

	for (i = 0; i < BEEST_COUNT(fields); i++)
		used += snprintf(text + used, (size_t)(PLAN_TEXT - used), " %" PRId64,
				 field_value(plan, &fields[i]));
}

bool plan_read(struct plan *plan, const char *text)
{
	struct plan read;
	int64_t value;
	int used;
	size_t i;

	if (strncmp(text, HEADER " ", sizeof(HEADER)))
		return false;
	text += strlen(HEADER);
	for (i = 0; i < BEEST_COUNT(fields); i++, text += used) {
		if (sscanf(text, " %" SCNd64 "%n", &value, &used) < 1)
			return false;
		if (value != PLAN_OPEN && (value < fields[i].min || value > fields[i].max))
			return false;
		*field_of(&read, &fields[i]) = value;
	}
	*plan = read;
	return true;
}
