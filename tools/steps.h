/* SPDX-License-Identifier: MIT */
/*
 * steps.h - steps that are taken one after another, each with its time
 *
 * Owns the lines of a bring-up: after a failure they show in which step it stopped, and after
 * what time.  Knows nothing of what the steps do.
 */
#ifndef TOOLS_STEPS_H
#define TOOLS_STEPS_H

#include "tools/out.h"

struct steps {
	struct out *out;
	struct json_object *array;	/* gets an object for each step; NULL: none */
	bool quiet;			/* show failures only */
	char who[100];			/* "rank 3 on node7: ", before each reason of a failure */
	const char *name;		/* of the current step */
	int64_t since;			/* when this step began */
};

void steps_begin(struct steps *steps, const char *name);

/* The step is done, with this result. */
void steps_good(struct steps *steps, const char *format, ...) BEEST_PRINTF(2, 3);

/* The step failed, @ret < 0, for this reason.  Returns a status. */
int steps_bad(struct steps *steps, int ret, const char *why, const char *cure);

/* The step failed, but that is none of this command: @note is what follows. */
void steps_vain(struct steps *steps, const char *note);

/* "12.3 ms": three digits, in the unit that fits. */
#define STEPS_TIME 16
const char *steps_time(int64_t ns, char text[STEPS_TIME]);

#endif
