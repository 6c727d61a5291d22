/* SPDX-License-Identifier: MIT */
/* session.c - see session.h */
#include "config.h"

#include <signal.h>
#include <string.h>

#include "lib/base/parse.h"
#include "tools/command.h"
#include "tools/session.h"

#define ARGUMENT "argument"

static struct args_list settings;

const struct args_option session_options[] = {
	{ "option", 'o', ARGS_LIST, &settings, .value = "SECTION.KEY=VALUE",
	  .help = "a setting as in hartebeest.json(5); may be repeated" },
	{ .name = NULL },
};

static struct hartebeest_context *volatile session;
static volatile sig_atomic_t caught;

static void note_signal(int number)
{
	caught = number;
	hartebeest_cancel(session);
}

/* A second signal ends the program at once.  Ignored signals stay ignored, as by nohup(1). */
static void watch_signals(void (*handler)(int))
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction action, before;
	size_t i;

	memset(&action, 0, sizeof(action));
	action.sa_handler = handler;
	action.sa_flags = SA_RESETHAND;
	for (i = 0; i < BEEST_COUNT(numbers); i++)
		if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
}

int session_try(struct hartebeest_context **hb, const char *const *more)
{
	const char *all[ARGS_LIST_MAX + SESSION_MORE + 1] = { NULL };
	int i;

	memcpy(all, settings.text, settings.count * sizeof(all[0]));
	for (i = 0; more[i]; i++)
		all[settings.count + i] = more[i];
	return hartebeest_open(hb, all);
}

static int open_with(struct out *out, const char *const *more, struct hartebeest_context **hb)
{
	struct hartebeest_context *opened;
	int ret = session_try(&opened, more);

	if (ret < 0) {
		ret = out_failed(out, ret);
		return strncmp(hartebeest_error(), ARGUMENT, strlen(ARGUMENT)) ? ret :
		       STATUS_MISUSED;
	}

	*hb = opened;
	session = opened;
	watch_signals(note_signal);
	if (caught)
		hartebeest_cancel(opened);
	return STATUS_GOOD;
}

int session_open(struct out *out, struct hartebeest_context **hb)
{
	return open_with(out, (const char *const[]){ NULL }, hb);
}

int session_open_unranked(struct out *out, struct hartebeest_context **hb)
{
	return open_with(out, (const char *const[]){ "job.rank=none", NULL }, hb);
}

void session_close(struct hartebeest_context *hb)
{
	if (hb && hb == session) {
		watch_signals(SIG_DFL);
		session = NULL;
	}
	hartebeest_close(hb);
}

int64_t session_duration(const struct hartebeest_context *hb, const char *option)
{
	char text[32] = "";
	int64_t ns = 0;

	hartebeest_option_get(hb, option, text, sizeof(text), NULL);
	beest_parse_duration(text, &ns);
	return ns;
}

int session_signal(void)
{
	return caught;
}

void session_caught(int number)
{
	caught = number;
}

void session_die(void)
{
	signal(caught, SIG_DFL);
	raise(caught);
}
