/* SPDX-License-Identifier: MIT */
/*
 * steps.h - what is done one after another, each with its time
 *
 * Owns the lines of a bring-up: a failure shows in which step it stopped, and after how
 * long.  Knows nothing of what the steps do.
 */
#ifndef TOOLS_STEPS_H
#define TOOLS_STEPS_H

#include "tools/out.h"

struct steps {
	struct out *out;
	struct json_object *array;	/* NULL: no object is made */
	bool quiet;			/* failures only */
	const char *name;		/* of the present step */
	int64_t since;			/* when it began */
};

void steps_begin(struct steps *steps, const char *name);

/* It is done, and this came of it. */
void steps_good(struct steps *steps, const char *format, ...) BEEST_PRINTF(2, 3);

/* It failed, @ret < 0, for this reason; @cure may be NULL.  Returns a status. */
int steps_bad(struct steps *steps, int ret, const char *why, const char *cure);

/* "12.3 ms", with three digits in the unit that fits. */
#define STEPS_TIME 16
const char *steps_time(int64_t ns, char text[STEPS_TIME]);

#endif
