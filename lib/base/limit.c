/* SPDX-License-Identifier: MIT */
/* limit.c - see limit.h */
#include "config.h"

#include <poll.h>
#include <stdio.h>

#include "lib/base/error.h"
#include "lib/base/limit.h"
#include "lib/base/macro.h"

void beest_limit_start(struct beest_limit *limit, const struct beest_cancel *cancel,
		       int64_t deadline, int64_t usual)
{
	limit->began = beest_clock_now();
	limit->once = deadline == HARTEBEEST_ONCE;
	limit->usual = deadline == 0;
	limit->tells = limit->steady = false;
	limit->end = deadline;
	if (limit->once)
		limit->end = limit->began;
	else if (deadline == 0)
		limit->end = usual < INT64_MAX - limit->began ? limit->began + usual : INT64_MAX;
	limit->cancel = cancel;
	limit->cleared = cancel ? __atomic_load_n(&cancel->cleared, __ATOMIC_ACQUIRE) : 0;
}

int64_t beest_limit_span(const struct beest_limit *limit)
{
	return BEEST_MAX(limit->end - limit->began, 0);
}

/* A span below that would be shown as 0. */
#define SPAN_MIN (BEEST_MS / 2)

/* A deadline that passed so long before the call was probably meant as a span. */
#define PAST_LONG (10 * BEEST_SECOND)

const char *beest_limit_text(const struct beest_limit *limit, const char *verb,
			     char text[BEEST_LIMIT_SIZE])
{
	int64_t span = beest_limit_span(limit), past = limit->began - limit->end;

	if (limit->once)
		return "";
	if (past >= PAST_LONG)
		snprintf(text, BEEST_LIMIT_SIZE, "the deadline had passed %s before the call (it "
			 "is a time of hartebeest_clock(), not a span): ", BEEST_SPAN(past));
	else if (span < SPAN_MIN)
		return "the deadline had passed: ";
	else
		snprintf(text, BEEST_LIMIT_SIZE, "%s %s%s: ", verb, BEEST_SPAN(span),
			 limit->usual ? " (HARTEBEEST_TIMEOUT)" : "");

	return text;
}

int64_t beest_limit_left(const struct beest_limit *limit)
{
	return beest_clock_left(limit->end);
}

bool beest_limit_is_short(const struct beest_limit *limit)
{
	return beest_limit_left(limit) < BEEST_LIMIT_LOOK;
}

int64_t beest_limit_look(const struct beest_limit *limit)
{
	return BEEST_MAX(limit->end, beest_clock_deadline(BEEST_LIMIT_LOOK));
}

struct beest_limit beest_limit_within(const struct beest_limit *limit, int64_t time)
{
	struct beest_limit within = *limit;

	within.end = BEEST_MIN(within.end, beest_clock_deadline(time));
	within.usual &= within.end == limit->end;
	return within;
}

/* How long a pause may go on after hartebeest_cancel(). */
#define CANCEL_TIME (50 * BEEST_MS)

static bool is_cancelled(const struct beest_limit *limit)
{
	return limit->cancel &&
	       __atomic_load_n(&limit->cancel->called, __ATOMIC_ACQUIRE) != limit->cleared;
}

void beest_limit_pause(const struct beest_limit *limit, struct beest_backoff *backoff)
{
	const int64_t wake = beest_clock_backoff_wake(backoff, limit->end);

	if (!wake)
		return;
	while (beest_clock_left(wake) > CANCEL_TIME && !is_cancelled(limit))
		beest_clock_sleep(beest_clock_deadline(CANCEL_TIME));
	if (!is_cancelled(limit))
		beest_clock_sleep(wake);
}

/* Rounds up, so that a caller does not spin through the last millisecond. */
void beest_limit_poll(const struct beest_limit *limit, int fd)
{
	struct pollfd input = { .fd = fd, .events = POLLIN };
	int64_t left = BEEST_MIN(beest_limit_left(limit), BEEST_SECOND);

	poll(&input, 1, (int)((left + BEEST_MS - 1) / BEEST_MS));
}

int beest_limit_errno(const struct beest_limit *limit)
{
	return limit->once ? EAGAIN : ETIMEDOUT;
}

int beest_limit_check(const struct beest_limit *limit)
{
	if (!is_cancelled(limit))
		return 0;
	return beest_fail(ECANCELED, "hartebeest_cancel() ended the call");
}

void beest_cancel_call(struct beest_cancel *cancel)
{
	__atomic_add_fetch(&cancel->called, 1, __ATOMIC_RELEASE);
}

void beest_cancel_clear(struct beest_cancel *cancel)
{
	__atomic_store_n(&cancel->cleared, __atomic_load_n(&cancel->called, __ATOMIC_ACQUIRE),
			 __ATOMIC_RELEASE);
}
