/* SPDX-License-Identifier: MIT */
/* rank.c - see rank.h */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "tests/support/rank.h"

#define OPTION_MAX 1400
#define OWN_OPTIONS 6

struct arguments {
	char text[OWN_OPTIONS][OPTION_MAX];
	const char *all[OWN_OPTIONS + RANK_MORE + 1];
	int count;
};

static void argument_add(struct arguments *arguments, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void argument_add(struct arguments *arguments, const char *format, ...)
{
	char *text = arguments->text[arguments->count];
	va_list values;

	va_start(values, format);
	vsnprintf(text, OPTION_MAX, format, values);
	va_end(values);
	arguments->all[arguments->count++] = text;
}

int rank_open(struct hartebeest_context **hb, const struct rank_settings *settings)
{
	struct arguments arguments = { .count = 0 };
	int i;

	argument_add(&arguments, "exchange.servers=%s", settings->servers);
	argument_add(&arguments, "exchange.timeout=%s",
		     settings->timeout ? settings->timeout : RANK_PATIENCE);
	if (settings->job)
		argument_add(&arguments, "job.id=%s", settings->job);
	if (settings->size) {
		argument_add(&arguments, "job.rank=%d", settings->rank);
		argument_add(&arguments, "job.nparticipants=%d", settings->size);
	}
	if (settings->device)
		argument_add(&arguments, "device.name=%s", settings->device);
	for (i = 0; i < RANK_MORE && settings->more[i]; i++)
		arguments.all[arguments.count++] = settings->more[i];
	return hartebeest_open(hb, arguments.all);
}
