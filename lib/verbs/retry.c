/* SPDX-License-Identifier: MIT */
/* retry.c - see retry.h */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/error.h"
#include "lib/verbs/retry.h"

static bool may_pass(int ret)
{
	return ret == -ETIMEDOUT || ret == -EHOSTUNREACH || ret == -ENETUNREACH ||
	       ret == -ENETDOWN;
}

int beest_retry_judge(int ret, const struct beest_limit *limit, const struct beest_log *log)
{
	char choice[32];

	if (!may_pass(ret))
		return ret;
	if (limit->once)
		return beest_fail(EAGAIN, "%s", beest_error_text());
	if (beest_limit_is_short(limit))
		return beest_fail(-ret, "%s%s", BEEST_LIMIT_TEXT(limit, "tried for"),
				  beest_error_text());
	snprintf(choice, sizeof(choice), "retry after %d", ret);
	beest_log(log, beest_log_once(log, BEEST_LOG_WARN, choice), "%s; trying again%s%s",
		  beest_error_text(), limit->end == INT64_MAX ? "" : " for up to ",
		  limit->end == INT64_MAX ? "" : BEEST_SPAN(beest_limit_left(limit)));

	return -EAGAIN;
}

bool beest_retry(int *ret, const struct beest_limit *limit, const struct beest_log *log)
{
	*ret = beest_retry_judge(*ret, limit, log);

	return beest_retry_pause(ret, limit);
}

bool beest_retry_pause(int *ret, const struct beest_limit *limit)
{
	struct beest_backoff backoff;
	int cancelled;

	if (*ret != -EAGAIN || limit->once || !beest_limit_left(limit))
		return false;
	beest_clock_backoff_start(&backoff, 1);
	backoff.rest = BEEST_RETRY_PAUSE;
	beest_limit_pause(limit, &backoff);
	cancelled = beest_limit_check(limit);
	*ret = cancelled < 0 ? cancelled : *ret;

	return cancelled == 0;
}
