/* SPDX-License-Identifier: MIT */
/* default.c - see default.h */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "include/hartebeest-c.h"
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
	pid_t pid;			/* of the process that opened it; 0: none has */
	struct beest_log log;		/* until there is a context */
	int failed;			/* errno of the last attempt to open it; 0: none failed */
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

/*
 * Functions that only return true or false name no cause, so warnings and errors are logged by
 * default.  Programs written for the original may rely on its 16 elements per request.
 */
static const char *const defaults[] = {
	"log.level=warn", "qp_init_attr.cap.max_send_sge=16", "qp_init_attr.cap.max_recv_sge=16",
	NULL,
};

/*
 * The end of the process.  Programs of the original have detached threads that still read regions
 * and post, so only records go.  They go before static objects of the program are destroyed, which
 * these threads use, too: handlers run in reverse order, and destructors of libraries after them.
 */
static void leave_default(void)
{
	struct hartebeest_context *hb = __atomic_load_n(&own.hb, __ATOMIC_ACQUIRE);

	if (hb)
		beest_context_leave(hb);
}

static void open_default(void)
{
	const char *given = secure_getenv("HARTEBEEST_LOG");
	struct hartebeest_context *hb;
	int64_t level;
	int ret;

	if (given && beest_parse_word(given, beest_log_words, &level) == 0)
		own.log.level = (int)level;
	ret = beest_context_open(&hb, defaults, NULL, NULL, 0);
	if (ret < 0) {
		own.failed = -ret;
		beest_text_copy(own.failure, sizeof(own.failure), beest_error_text());
		return;
	}

	hb->unconfirmed = true;
	own.pid = getpid();
	if (!secure_getenv("HARTEBEEST_CONF_PATH") && access(FORMER_FILE, F_OK) == 0)
		beest_log(&hb->log, BEEST_LOG_WARN, FORMER_FILE " is not read, although the "
			  "original read it: set HARTEBEEST_CONF_PATH=" FORMER_FILE);
	__atomic_store_n(&own.hb, hb, __ATOMIC_RELEASE);
	if (atexit(leave_default) != 0)
		beest_log(&hb->log, BEEST_LOG_WARN, "no memory for a handler of exit(3): records "
			  "stay when the process ends");
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

HARTEBEEST_EXPORT struct hartebeest_context *hartebeest_default_context(void)
{
	struct hartebeest_context *hb = __atomic_load_n(&own.hb, __ATOMIC_ACQUIRE);

	return hb ? hb : open_once(false);
}

/* Tries to open the context again after a failure. */
HARTEBEEST_EXPORT void hartebeest_init(void)
{
	open_once(true);
}
