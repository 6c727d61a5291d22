/* SPDX-License-Identifier: MIT */
/* default.c - see default.h */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/api/default.h"
#include "lib/base/error.h"
#include "lib/base/text.h"
#include "lib/core/context.h"

/* Where the original looked for its settings. */
#define FORMER_FILE "./hb_config.json"

static struct {
	pthread_mutex_t lock;
	struct hartebeest_context *hb;	/* set once */
	pid_t pid;			/* of the process that opened it */
	struct beest_log log;		/* until it is there */
	int failed;			/* why it could not be opened, until the next try */
	char failure[BEEST_ERROR_SIZE];
} own = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.log = { .level = BEEST_LOG_WARN, .rank = -1 },
};

const struct beest_log *beest_default_log(void)
{
	return own.hb ? &own.hb->log : &own.log;
}

bool beest_default_failed(int ret)
{
	if (ret < 0 && own.hb)
		beest_call_done(own.hb, ret);
	else if (ret < 0)
		beest_log(&own.log, BEEST_LOG_ERROR, "%s", beest_error_text());
	return ret < 0;
}

bool beest_default_is_own(void)
{
	return own.pid == getpid();
}

/* What the original made of a setting, by what is said of it here. */
static void explain_refusal(void)
{
	static const struct {
		const char *refused, *taken;
	} habits[] = {
		{ "HARTEBEEST_NID", "took the digits that it began with" },
		{ "HARTEBEEST_PARTICIPANTS", "did not look into that list" },
		{ "expected a whole number", "cut fractions off, and took true for 1" },
		{ "is given twice", "took the last of equal keys" },
		{ "byte order mark", "passed over a byte order mark" },
		{ "unknown ", "passed over keys that it did not know" },
	};
	size_t i;

	for (i = 0; i < BEEST_COUNT(habits); i++)
		if (strstr(own.failure, habits[i].refused))
			break;
	if (i < BEEST_COUNT(habits))
		beest_log(&own.log, BEEST_LOG_ERROR, "the original Hartebeest %s; this library "
			  "refuses what may be a mistake", habits[i].taken);
}

/* hartebeest_open() logs its failure where HARTEBEEST_LOG gives a level. */
static void fail_open(int ret, bool is_logged)
{
	if (!is_logged)
		beest_default_failed(ret);
	own.failed = -ret;
	beest_text_copy(own.failure, sizeof(own.failure), beest_error_text());
	explain_refusal();
}

/*
 * true and false say too little, so warnings and errors are logged by preset.  A program
 * that was written for the original may count on its 16 elements a request.
 */
static void set_presets(struct hartebeest_context *hb)
{
	hb->unconfirmed = true;
	beest_options_preset(&hb->options, "qp_init_attr.cap.max_send_sge", "16");
	beest_options_preset(&hb->options, "qp_init_attr.cap.max_recv_sge", "16");
	beest_options_preset(&hb->options, "log.level", "warn");
	hb->log.level = (int)hb->options.log_level;
}

static void open_default(void)
{
	const char *given = secure_getenv("HARTEBEEST_LOG");
	struct hartebeest_context *hb;
	bool has_level;
	int64_t level;
	int ret;

	has_level = given && beest_log_level(given, &level) == 0;
	if (has_level)
		own.log.level = (int)level;

	ret = hartebeest_open(&hb, NULL);
	if (ret < 0) {
		fail_open(ret, has_level);
		return;
	}

	set_presets(hb);
	own.pid = getpid();
	if (!secure_getenv("HARTEBEEST_CONF_PATH") && access(FORMER_FILE, F_OK) == 0)
		beest_log(&hb->log, BEEST_LOG_WARN, FORMER_FILE " is not read, which the original "
			  "did: set HARTEBEEST_CONF_PATH=" FORMER_FILE);
	__atomic_store_n(&own.hb, hb, __ATOMIC_RELEASE);
}

static struct hartebeest_context *open_once(bool again)
{
	struct hartebeest_context *hb;

	pthread_mutex_lock(&own.lock);
	if (!own.hb && (again || !own.failed))
		open_default();
	hb = own.hb;
	if (!hb)
		beest_fail(own.failed, "%s", own.failure);
	pthread_mutex_unlock(&own.lock);
	return hb;
}

struct hartebeest_context *beest_default_context(void)
{
	struct hartebeest_context *hb = __atomic_load_n(&own.hb, __ATOMIC_ACQUIRE);

	return hb ? hb : open_once(false);
}

struct hartebeest_context *beest_default_open(void)
{
	return open_once(true);
}

void beest_default_close(void)
{
	hartebeest_close(own.hb);
	own.hb = NULL;
}
