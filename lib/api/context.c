/* SPDX-License-Identifier: MIT */
/*
 * context.c - exported functions of a context: settings, ranks, log, device, events
 *
 * core/context.c logs a failure of hartebeest_open().  Those of rank, size, participant,
 * local_rank, job, origin and option_get are not logged: these are questions.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "include/hartebeest.h"
#include "lib/api/call.h"
#include "lib/base/error.h"
#include "lib/core/context.h"
#include "lib/core/pathquery.h"
#include "lib/verbs/port.h"

/* A choice among all GIDs of all ports, with what was wrong with each. */
#define DEVICE_TEXT_SIZE (128 * 1024)

HARTEBEEST_EXPORT int hartebeest_version(void)
{
	return HARTEBEEST_VERSION;
}

HARTEBEEST_EXPORT int hartebeest_open(struct hartebeest_context **hbp,
				      const char *const *options)
{
	if (!hbp)
		return beest_call_refuse(NULL, __func__, "hbp is NULL");
	return beest_context_open(hbp, NULL, options, NULL, 0);
}

HARTEBEEST_EXPORT int hartebeest_open_verbs(struct hartebeest_context **hbp,
					    const char *const *options,
					    struct ibv_context *verbs, int port)
{
	if (!hbp || !verbs)
		return beest_call_refuse(NULL, __func__, hbp ? "verbs is NULL" : "hbp is NULL");
	if (port < 0 || port > UINT8_MAX)
		return beest_call_refuse(NULL, __func__, "port is not within 0..255");
	return beest_context_open(hbp, NULL, options, verbs, port);
}

HARTEBEEST_EXPORT int hartebeest_close(struct hartebeest_context *hb)
{
	return beest_context_close(hb);
}

HARTEBEEST_EXPORT const char *hartebeest_error(void)
{
	return beest_error_text();
}

/* Names misspelt variables, which may be why; a question logs nothing. */
static int fail_unsaid(const struct hartebeest_context *hb, const char *sentence)
{
	return beest_options_hint(&hb->options,
				  beest_launch_hint(&hb->launch,
						    beest_fail(ENODATA, "%s", sentence)));
}

HARTEBEEST_EXPORT int hartebeest_rank(const struct hartebeest_context *hb)
{
	REQUIRE(hb);
	if (hb->launch.rank < 0)
		return fail_unsaid(hb, "the rank of this process is not known: set "
				   "HARTEBEEST_NID, or start it with hartebeest run, srun or "
				   "mpirun");
	return hb->launch.rank;
}

HARTEBEEST_EXPORT int hartebeest_size(const struct hartebeest_context *hb)
{
	REQUIRE(hb);
	if (hb->launch.participants.count == 0)
		return fail_unsaid(hb, "the number of ranks is not known: set "
				   "HARTEBEEST_NPARTICIPANTS, or start the program with hartebeest "
				   "run, srun or mpirun");
	return (int)hb->launch.participants.count;
}

HARTEBEEST_EXPORT int hartebeest_participant(const struct hartebeest_context *hb, int index)
{
	int size = hartebeest_size(hb);

	if (size < 0)
		return size;
	if (index < 0 || index >= size)
		return beest_fail(ERANGE, "participant %d is not within 0..%d", index, size - 1);
	return hb->launch.participants.id[index];
}

HARTEBEEST_EXPORT int hartebeest_position(const struct hartebeest_context *hb, int rank)
{
	int position, size = hartebeest_size(hb);

	if (size < 0)
		return size;
	position = beest_parse_ids_position(&hb->launch.participants, rank);
	if (position < 0)
		return beest_fail(ENOENT, "rank %d is not among the %d participants", rank, size);
	return position;
}

HARTEBEEST_EXPORT int hartebeest_local_rank(const struct hartebeest_context *hb)
{
	REQUIRE(hb);
	if (hb->launch.local_rank < 0)
		return fail_unsaid(hb, "the rank of this process on its node is not known: "
				   "start it with hartebeest run, srun, mpirun or torchrun");
	return hb->launch.local_rank;
}

HARTEBEEST_EXPORT const char *hartebeest_job(const struct hartebeest_context *hb)
{
	if (!hb) {
		beest_fail(EINVAL, "%s(): hb is NULL", __func__);
		return NULL;
	}
	return hb->launch.job;
}

HARTEBEEST_EXPORT const char *hartebeest_origin(const struct hartebeest_context *hb,
						const char **warning)
{
	if (!hb) {
		beest_fail(EINVAL, "%s(): hb is NULL", __func__);
		return NULL;
	}
	if (warning)
		*warning = hb->launch.warning;
	return hb->launch.source;
}

HARTEBEEST_EXPORT int hartebeest_option_get(const struct hartebeest_context *hb,
					    const char *name, char *text, size_t size,
					    const char **source)
{
	REQUIRE(hb, name);
	if (size)
		REQUIRE(text);
	return beest_options_text(&hb->options, name, text, size, source);
}

HARTEBEEST_EXPORT int hartebeest_log_set(struct hartebeest_context *hb, int level,
					 void (*write)(void *data, int level, const char *text),
					 void *data)
{
	if (level < HARTEBEEST_LOG_NONE || level > HARTEBEEST_LOG_DEBUG)
		TRY(beest_fail(EINVAL, "log level %d is not within %d..%d", level,
			       HARTEBEEST_LOG_NONE, HARTEBEEST_LOG_DEBUG));
	if (!hb) {
		beest_context_log_default(level, write, data);
		return 0;
	}

	hb->log.level = level;
	hb->log.write = write;
	hb->log.data = data;
	return 0;
}

HARTEBEEST_EXPORT void hartebeest_cancel(struct hartebeest_context *hb)
{
	if (hb)
		beest_cancel_call(&hb->cancel);
}

HARTEBEEST_EXPORT void hartebeest_cancel_clear(struct hartebeest_context *hb)
{
	if (hb)
		beest_cancel_clear(&hb->cancel);
}

HARTEBEEST_EXPORT int hartebeest_verbs(struct hartebeest_context *hb,
				       struct ibv_context **verbs)
{
	REQUIRE(hb, verbs);
	TRY(beest_call_prefix(__func__, beest_context_need_device(hb, NULL)));
	*verbs = hb->device.verbs;
	return 0;
}

HARTEBEEST_EXPORT int hartebeest_port_num(struct hartebeest_context *hb)
{
	REQUIRE(hb);
	TRY(beest_call_prefix(__func__, beest_context_need_device(hb, NULL)));
	return hb->device.port;
}

HARTEBEEST_EXPORT int hartebeest_device_text(struct hartebeest_context *hb, char *text,
					     size_t size)
{
	static const struct beest_limit now;	/* it describes what is there */
	int64_t pkey;
	char *whole;
	int ret;

	REQUIRE(hb);
	if (size)
		REQUIRE(text);
	TRY(beest_context_need_device(hb, &now));
	pkey = hb->options.qp[BEEST_RC].pkey;
	whole = malloc(DEVICE_TEXT_SIZE);
	if (!whole)
		TRY(beest_fail(ENOMEM, "no memory for a text of %d bytes", DEVICE_TEXT_SIZE));
	ret = beest_port_text(&hb->device, &hb->policy, pkey == BEEST_AUTO ? 0 : (uint16_t)pkey,
			      whole, DEVICE_TEXT_SIZE);
	if (ret == 0)
		ret = snprintf(text, size, "%s", whole);
	free(whole);
	return beest_call_done(hb, ret);
}

HARTEBEEST_EXPORT int hartebeest_resolve(struct hartebeest_context *hb, const char *ip,
					 struct hartebeest_path *path, int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, ip, path);
	return beest_call_waited(hb, &limit, beest_pathquery_ask(hb, ip, &limit, path));
}

HARTEBEEST_EXPORT int hartebeest_event_get(struct hartebeest_context *hb,
					   struct hartebeest_event *event, int64_t deadline)
{
	struct beest_limit limit;

	REQUIRE_LIMIT(hb, event);
	TRY_LIMIT(beest_call_prefix(__func__, beest_context_need_events(hb)));
	return beest_call_idled(hb, &limit, beest_events_get(&hb->events, event, &limit));
}

HARTEBEEST_EXPORT int hartebeest_event_fd(struct hartebeest_context *hb)
{
	REQUIRE(hb);
	TRY(beest_call_prefix(__func__, beest_context_need_events(hb)));
	return beest_call_done(hb, beest_events_fd(&hb->events));
}
