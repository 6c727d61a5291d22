/* SPDX-License-Identifier: MIT */
/* meet.c - see meet.h */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "tools/meet.h"

#define SERVICE "ping"
#define TOLD "told "

/* How long an end asks before it listens again: several may have arrived at once. */
#define ASK_TIME (3 * BEEST_SECOND)

/* For the last message of an end that leaves. */
#define LEAVE_TIME BEEST_SECOND

/* -------------------------------------------------------------- plans --- */

static int push_plan(struct meet *meet, const char *key, int64_t deadline)
{
	char text[PLAN_TEXT];

	plan_write(&meet->plan, text);
	return hartebeest_msg_push(meet->hb, key, text, strlen(text), deadline);
}

/* Ranks use one key for both, so what an end sends may replace its plan. */
static bool told_read(const char *text, char *told, size_t size)
{
	if (strncmp(text, TOLD, strlen(TOLD)))
		return false;
	snprintf(told, size, "%s", text + strlen(TOLD));
	return true;
}

const char *meet_reason(const char *told)
{
	const char *blank = strchr(told, ' ');

	return blank ? blank + 1 : "";
}

/* Merges the plans of both ends, which both compute the same result.  Returns 1 or -EINVAL. */
static int agree(struct meet *meet, struct meeting *meeting, const char *text)
{
	struct plan other;
	char told[MEET_TOLD];

	if (told_read(text, told, sizeof(told))) {
		snprintf(meeting->why, sizeof(meeting->why), "the other end: %.600s",
			 meet_reason(told));
		return -EINVAL;
	}
	if (!plan_read(&other, text)) {
		snprintf(meeting->why, sizeof(meeting->why),
			 "the other end runs another version of hartebeest ping");
		return -EINVAL;
	}
	if (!plan_merge(&meeting->plan, &meet->plan, &other, meeting->why,
			sizeof(meeting->why)) ||
	    !plan_finish(&meeting->plan, meeting->why, sizeof(meeting->why)))
		return -EINVAL;
	return 1;
}

static int wait_plan(struct meet *meet, struct meeting *meeting, int64_t deadline)
{
	char text[MEET_TOLD + sizeof(TOLD)] = "";
	int ret;

	ret = hartebeest_msg_wait(meet->hb, meeting->peer_key, text, sizeof(text) - 1, NULL,
				  deadline);
	return ret < 0 ? ret : agree(meet, meeting, text);
}

/* -------------------------------------------------------------- ranks --- */

/* The @index-th of the ranks that this rank meets; false: there are fewer. */
static bool rank_at(const struct meet *meet, int index, struct meeting *meeting)
{
	int own = hartebeest_rank(meet->hb), first = hartebeest_participant(meet->hb, 0);
	int peer = own == first ? hartebeest_participant(meet->hb, index + 1)
				: index == 0 ? first : -ERANGE;

	if (peer < 0)
		return false;
	memset(meeting, 0, sizeof(*meeting));
	meeting->measures = own == first;
	snprintf(meeting->key, sizeof(meeting->key), SERVICE "-%d-%d", own, peer);
	snprintf(meeting->peer_key, sizeof(meeting->peer_key), SERVICE "-%d-%d", peer, own);
	snprintf(meeting->who, sizeof(meeting->who), "rank %d", peer);
	return true;
}

/* Plans replace those of an earlier run.  After the barrier all plans are of this run. */
static int begin_ranks(struct meet *meet, int64_t deadline)
{
	struct meeting meeting;
	int i, ret = 0;

	for (i = 0; ret == 0 && rank_at(meet, i, &meeting); i++)
		ret = push_plan(meet, meeting.key, deadline);
	return ret;
}

static int next_rank(struct meet *meet, struct meeting *meeting, int64_t deadline)
{
	int ret = meet->next ? 0 : hartebeest_barrier(meet->hb, SERVICE, deadline);

	if (ret < 0 || !rank_at(meet, meet->next, meeting))
		return ret;
	meet->next++;
	return wait_plan(meet, meeting, deadline);
}

/* ------------------------------------------------------------ services --- */

static void take_request(struct meeting *meeting)
{
	const struct hartebeest_client *request = &meeting->request;

	memcpy(meeting->key, request->key, sizeof(meeting->key));
	memcpy(meeting->peer_key, request->peer_key, sizeof(meeting->peer_key));
	snprintf(meeting->who, sizeof(meeting->who), "pid %" PRIu32 " on %.64s", request->pid,
		 request->host);
}

static int accept_one(struct meet *meet, struct meeting *meeting, int64_t deadline)
{
	char text[PLAN_TEXT] = "";
	int ret;

	ret = hartebeest_service_accept(meet->hb, meet->service, &meeting->request, deadline);
	if (ret < 0)
		return ret;
	take_request(meeting);
	ret = push_plan(meet, meeting->key, 0);
	if (ret < 0)
		return ret;
	memcpy(text, meeting->request.data,
	       BEEST_MIN(meeting->request.length, sizeof(text) - 1));
	return agree(meet, meeting, text);
}

static int ask(struct meet *meet, struct meeting *meeting, int64_t deadline)
{
	char text[PLAN_TEXT];
	int ret;

	plan_write(&meet->plan, text);
	ret = hartebeest_service_request(meet->hb, meet->service, text, strlen(text),
					 &meeting->request, deadline);
	if (ret < 0)
		return ret;
	take_request(meeting);
	snprintf(meeting->who, sizeof(meeting->who), "the listener");
	meeting->measures = true;
	return wait_plan(meet, meeting, deadline);
}

/* An end that loses the service to another becomes that listener's client. */
static int meet_anybody(struct meet *meet, struct meeting *meeting, int64_t deadline)
{
	int64_t until;
	int ret;

	for (;;) {
		memset(meeting, 0, sizeof(*meeting));
		ret = hartebeest_service_listen(meet->hb, meet->service, deadline);
		if (ret == 0)
			ret = accept_one(meet, meeting, deadline);
		if (ret != -EADDRINUSE)
			return ret;

		until = BEEST_MIN(deadline, hartebeest_clock() + ASK_TIME);
		ret = ask(meet, meeting, until);
		if (ret != -ETIMEDOUT || until == deadline)
			return ret;
		meet_part(meet, meeting);
	}
}

/* --------------------------------------------------------------- both --- */

int meet_begin(struct meet *meet, int64_t deadline)
{
	bool named = meet->way == MEET_LISTEN || meet->way == MEET_ASK;

	snprintf(meet->service, sizeof(meet->service), SERVICE "%s%s", named ? "." : "",
		 named ? meet->name : "");
	if (meet->way == MEET_RANKS)
		return begin_ranks(meet, deadline);
	if (meet->way == MEET_ASK)
		return 0;
	return hartebeest_service_listen(meet->hb, meet->service, deadline);
}

int meet_next(struct meet *meet, struct meeting *meeting, int64_t deadline)
{
	memset(meeting, 0, sizeof(*meeting));
	switch (meet->way) {
	case MEET_RANKS:
		return next_rank(meet, meeting, deadline);
	case MEET_ANYBODY:
		return meet_anybody(meet, meeting, deadline);
	case MEET_LISTEN:
		return accept_one(meet, meeting, deadline);
	case MEET_ASK:
		return ask(meet, meeting, deadline);
	}
	return -EINVAL;
}

int meet_tell(struct meet *meet, const struct meeting *meeting, const char *text)
{
	char told[MEET_TOLD + sizeof(TOLD)];

	snprintf(told, sizeof(told), TOLD "%s", text);
	hartebeest_cancel_clear(meet->hb);
	return hartebeest_msg_push(meet->hb, meeting->key, told, strlen(told),
				   hartebeest_clock() + LEAVE_TIME);
}

/* Servers that did not take the first message do not delay the end once for each rank. */
void meet_tell_ranks(struct meet *meet, const char *text)
{
	struct meeting meeting;
	int i, ret = 0;

	for (i = 0; ret == 0 && rank_at(meet, i, &meeting); i++)
		ret = meet_tell(meet, &meeting, text);
}

int meet_told(struct meet *meet, const struct meeting *meeting, char *text, size_t size)
{
	char told[MEET_TOLD + sizeof(TOLD)] = "";

	return hartebeest_msg_wait(meet->hb, meeting->peer_key, told, sizeof(told) - 1, NULL,
				   HARTEBEEST_ONCE) == 0 && told_read(told, text, size);
}

void meet_part(struct meet *meet, struct meeting *meeting)
{
	if (meeting->request.key[0])
		hartebeest_service_leave(meet->hb, meet->service, &meeting->request);
	meeting->request.key[0] = '\0';
}
