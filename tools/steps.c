/* SPDX-License-Identifier: MIT */
/* steps.c - see steps.h */
#include "config.h"

#include <errno.h>
#include <stdarg.h>

#include <hartebeest.h>

#include "tools/command.h"
#include "tools/steps.h"

#define WHAT_SIZE 512

const char *steps_time(int64_t ns, char text[STEPS_TIME])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	double value = (double)ns;
	int unit = 0, digits;

	for (; value >= 999.5 && unit < 3; unit++)
		value /= 1000;
	digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
	snprintf(text, STEPS_TIME, "%.*f %s", digits, value, units[unit]);
	return text;
}

void steps_begin(struct steps *steps, const char *name)
{
	steps->name = name;
	steps->since = hartebeest_clock();
}

static void step_object(struct steps *steps, bool good)
{
	struct json_object *item = out_json_item(steps->array);

	out_json_text(item, "step", steps->name);
	out_json_bool(item, "good", good);
	out_json_int(item, "ns", hartebeest_clock() - steps->since);
}

void steps_good(struct steps *steps, const char *format, ...)
{
	char what[WHAT_SIZE], time[STEPS_TIME];
	va_list arguments;

	out_waiting_end(steps->out);
	step_object(steps, true);
	if (steps->quiet)
		return;
	va_start(arguments, format);
	vsnprintf(what, sizeof(what), format, arguments);
	va_end(arguments);
	out_line(steps->out, OUT_OK, steps->name, "%8s  %s",
		 steps_time(hartebeest_clock() - steps->since, time), what);
}

void steps_vain(struct steps *steps, const char *note)
{
	char time[STEPS_TIME];

	out_waiting_end(steps->out);
	step_object(steps, false);
	out_line(steps->out, OUT_NOTE, steps->name, "%8s  %s",
		 steps_time(hartebeest_clock() - steps->since, time), note);
}

int steps_bad(struct steps *steps, int ret, const char *why, const char *cure)
{
	char time[STEPS_TIME];

	out_waiting_end(steps->out);
	step_object(steps, false);
	steps_time(hartebeest_clock() - steps->since, time);
	if (ret == -ECANCELED) {
		out_line(steps->out, OUT_NOTE, steps->name, "%8s  %sinterrupted", time,
			 steps->who);
		return STATUS_FAILED;
	}
	out_line(steps->out, OUT_FAILURE, steps->name, "%8s  %s%s", time, steps->who, why);
	out_cure(steps->out, "%s", cure);
	return ret == -ETIMEDOUT || ret == -EAGAIN ? STATUS_TIMEOUT : STATUS_FAILED;
}
