/* SPDX-License-Identifier: MIT */
/* call.c - see call.h */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "lib/api/call.h"
#include "lib/base/error.h"
#include "lib/core/context.h"

/* Failures that settings do not cause: a mistake of the program, or an ordinary outcome. */
static const int no_settings[] = {
	EAGAIN, EBUSY, ECANCELED, EEXIST, EINVAL, EISCONN, EMSGSIZE, ENOENT, ENOMEM, ENOMSG,
	ENOTCONN, EOPNOTSUPP, ERANGE,
};

/* A misspelt variable may be why a wait, a publication or opening a device failed. */
static void hint_at_settings(const struct hartebeest_context *hb, int ret)
{
	size_t i = 0;

	while (i < BEEST_COUNT(no_settings) && ret != -no_settings[i])
		i++;
	if (i == BEEST_COUNT(no_settings))
		beest_options_hint(&hb->options, beest_launch_hint(&hb->launch, ret));
}

int beest_call_done(const struct hartebeest_context *hb, int ret)
{
	if (ret < 0 && hb) {
		hint_at_settings(hb, ret);
		beest_log(&hb->log, BEEST_LOG_ERROR, "%s", beest_error_text());
	}
	return ret;
}

int beest_call_waited(const struct hartebeest_context *hb, const struct beest_limit *limit,
		      int ret)
{
	return limit->once || ret == -ECANCELED ? ret : beest_call_done(hb, ret);
}

int beest_call_idled(const struct hartebeest_context *hb, const struct beest_limit *limit,
		     int ret)
{
	return ret == -ETIMEDOUT ? ret : beest_call_waited(hb, limit, ret);
}

int beest_call_refuse(const struct hartebeest_context *hb, const char *function,
		      const char *why)
{
	return beest_call_done(hb, beest_fail(EINVAL, "%s(): %s", function, why));
}

int beest_call_check(const struct hartebeest_context *hb, const char *function,
		     const char *names, const void *const *arguments, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		if (!arguments[i])
			return beest_call_done(hb,
					       beest_fail(EINVAL, "%s(): %.*s is NULL", function,
							      (int)strcspn(names, ","), names));
		names += strcspn(names, ",");
		names += strspn(names, ", ");
	}
	return 0;
}

int beest_call_prefix(const char *function, int ret)
{
	return ret < 0 ? beest_fail_prefix(ret, "%s()", function) : 0;
}

int beest_call_limit(const struct hartebeest_context *hb, const char *function,
		     int64_t deadline, struct beest_limit *limit)
{
	if (deadline < 0 && deadline != HARTEBEEST_ONCE)
		return beest_call_done(hb, beest_fail(EINVAL, "%s(): deadline %" PRId64
						      " is invalid: give 0, HARTEBEEST_ONCE, "
						      "HARTEBEEST_FOREVER, or a time of "
						      "hartebeest_clock()", function, deadline));

	beest_limit_start(limit, &hb->cancel, deadline, hb->options.timeout);
	return 0;
}
