/* SPDX-License-Identifier: MIT */
/*
 * ordeal.c - the fate of a context's first records, whatever happens to their requests
 *
 * A message of a context that has sent nothing yet takes a few requests.  Each pair of events
 * is tried at each pair of these requests: a restart, a failure at each command, a write that is
 * applied late, another rank, and a machine that stands still.  The call has to end, and to
 * succeed as long as there is time.  If it fails, the sentence names the failure.
 */
#include "config.h"

#include <errno.h>
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/rendezvous/message.h"
#include "tests/support/registry.h"
#include "tests/support/unit.h"

#define TIMEOUT (10 * BEEST_SECOND)
#define COMMANDS 4			/* of one request, at most */
#define TEXT "text"

enum what { NOTHING, RESTART, FAILURE, LATE, NEIGHBOUR, PAUSE, STANDSTILL, WHATS };

struct event {
	enum what what;
	enum fake_kv_manner manner;
	int error, command;
	int at;				/* comes before this request, from 1 */
};

static struct event events[2];
static struct beest_registry *one, *two;
static const char *name;		/* of the message */
static int request;
static int stride, seconds;		/* only each stride-th of the second events is tried */

static const char *event_text(const struct event *event)
{
	static const char *const words[] = {
		"nothing", "restart", "failure", "late writes", "neighbour", "pause", "standstill",
	};
	static char texts[2][128];
	static int turn;
	char *text = texts[turn++ % 2];

	snprintf(text, sizeof(texts[0]), "%s at request %d (%s, manner %d, command %d)",
		 words[event->what], event->at, strerror(event->error), event->manner,
		 event->command);
	return text;
}

static const struct hartebeest_msg_attr plain = { .size = sizeof(plain) };

static void event_happen(const struct event *event, struct fake_kv_server *server)
{
	switch (event->what) {
	case RESTART:
		fake_kv_restart(server);
		break;
	case FAILURE:
		fake_kv_fail(FAKE_KV_COMMAND, event->command, event->error, event->manner);
		break;
	case LATE:
		fake_kv_apply_late();
		break;
	case NEIGHBOUR:
		beest_message_push(two, "other", TEXT, sizeof(TEXT), &plain, REGISTRY_LIMIT(0));
		break;
	case PAUSE:
		registry_stage.now += BEEST_SECOND;
		break;
	case STANDSTILL:	/* past the limit; then a socket's timeout is over at once */
		registry_stage.now += 6 * TIMEOUT;
		fake_kv_fail(FAKE_KV_REQUEST, 1, event->error, event->manner);
		break;
	default:
		break;
	}
}

static void hook(struct beest_kv *kv, const struct beest_kv_request *it)
{
	size_t i;

	request++;
	for (i = 0; i < BEEST_COUNT(events); i++)
		if (events[i].at == request)
			event_happen(&events[i], fake_kv_server(beest_kv_text(kv, it->server)));
}

/*
 * Once the server is healthy and the rank has waited for a moment, all records are there, except a
 * message whose push failed: it is given up, but may have been stored all the same.
 */
static void all_is_there(const char *where, bool pushed)
{
	int64_t soon = beest_clock_deadline(100 * BEEST_MS);

	fake_kv.hook = NULL;
	memset(fake_kv.failures, 0, sizeof(fake_kv.failures));
	assert_int_equal(beest_message_wait(one, "absent", NULL, 0, NULL, REGISTRY_LIMIT(soon)),
			 -ETIMEDOUT);
	if (pushed && (!registry_said(one, BEEST_KIND_MESSAGE, name) ||
		       strcmp(registry_said(one, BEEST_KIND_MESSAGE, name), TEXT) != 0))
		fail_msg("%s: the message is not there", where);
	if (!registry_said(one, BEEST_KIND_RANK, "0"))
		fail_msg("%s: the presence is not there", where);
}

static bool has_standstill(void)
{
	return events[0].what == STANDSTILL || events[1].what == STANDSTILL;
}

/* After a standstill there is time for one more look, which another event may spoil. */
static bool may_fail(void)
{
	return has_standstill() && events[0].what != NOTHING && events[1].what != NOTHING;
}

/* Returns how many requests the call took. */
static int endure(const char *servers)
{
	char where[400];
	int64_t began;
	int ret;

	registry_start();
	registry_stage.servers = servers;
	registry_stage.timeout = TIMEOUT;
	one = registry_make(0, 2);
	two = registry_make(1, 2);
	snprintf(where, sizeof(where), "servers %s, %s, %s", servers, event_text(&events[0]),
		 event_text(&events[1]));
	request = 0;
	fake_kv.hook = hook;
	began = registry_stage.now;
	ret = beest_message_push(one, name, TEXT, strlen(TEXT), &plain, REGISTRY_LIMIT(0));
	if (ret < 0 && !may_fail())
		fail_msg("%s: %d, %s", where, ret, beest_error_text());
	if (ret < 0 && !strstr(beest_error_text(), "server a:1: ") &&
	    !strstr(beest_error_text(), "server b:1: "))
		fail_msg("%s: the sentence '%s' names no failure", where, beest_error_text());
	if (!has_standstill() && registry_stage.now - began > TIMEOUT)
		fail_msg("%s: it took too long", where);
	all_is_there(where, ret == 0);
	registry_end();
	return request;
}

/* ------------------------------------------------------------------- all of them --- */

static const int errors[] = { ECONNRESET, EHOSTDOWN, ECONNREFUSED };

static bool has_manner(enum what what)
{
	return what == FAILURE || what == STANDSTILL;
}

/* The next event after @event at the same request; false: there are no more. */
static bool event_next(struct event *event)
{
	static const int commands[WHATS] = { [FAILURE] = COMMANDS };
	size_t i = 0;

	if (event->command < commands[event->what]) {
		event->command++;
		return true;
	}
	event->command = 1;
	while (errors[i] != event->error)
		i++;
	if (has_manner(event->what) && ++i < BEEST_COUNT(errors)) {
		event->error = errors[i];
		return true;
	}
	event->error = errors[0];
	if (has_manner(event->what) && event->manner < FAKE_KV_LATE) {
		event->manner++;
		return true;
	}
	event->manner = FAKE_KV_REFUSED;
	return ++event->what < WHATS;
}

static struct event event_first(int at)
{
	return (struct event){ .what = NOTHING, .error = errors[0], .command = 1, .at = at };
}

/* Tries each event at @at as the second one; false: the call takes fewer requests. */
static bool endure_second(const char *servers, int at)
{
	events[1] = event_first(at);
	if (endure(servers) < at)
		return false;
	while (event_next(&events[1]))
		if (seconds++ % stride == 0)
			endure(servers);
	return true;
}

static void endure_all(const char *servers)
{
	int first = 1, second;

	events[1] = event_first(1);
	for (events[0] = event_first(first); endure(servers) >= first;
	     events[0] = event_first(++first))
		do
			for (second = first; endure_second(servers, second); second++)
				;
		while (event_next(&events[0]));
}

static void one_server(void **state)
{
	(void)state;
	name = "m";
	endure_all("a:1");
}

/* The message is not on the server of the presence. */
static void two_servers(void **state)
{
	(void)state;
	registry_start();
	registry_stage.servers = "a:1 b:1";
	one = registry_make(0, 2);
	for (name = "abcdefgh"; registry_home(one, BEEST_KIND_MESSAGE, name) ==
	     registry_home(one, BEEST_KIND_RANK, "0"); name++)
		;
	registry_end();
	endure_all("a:1 b:1");
}

static int teardown(void **state)
{
	(void)state;
	registry_end();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(one_server, teardown),
		cmocka_unit_test_teardown(two_servers, teardown),
	};

	stride = unit_stride(7);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
