/* SPDX-License-Identifier: MIT */
/*
 * service.c - clients that are on no list, and the process that serves them
 *
 * Clients and servers are contexts over the fake device and the fake servers, each like a process
 * of its own.  A scene is what they do, step by step; most are no more than that.  A step has the
 * number of an end, or of several in a row, a verb, and how the call ends if it does not succeed:
 *
 *	0 listens			to the service "kv"; the first step of an end opens it
 *	1-40 ask			with their numbers as data
 *	1 asks hello			with these data
 *	0 accepts 1-40			these data, in this order, which no listener had before
 *	0 accepts hello again		an earlier listener had it
 *	0 accepts nobody		nobody has asked within ten seconds
 *	0 listens once			with HARTEBEEST_ONCE; late: its deadline has passed
 *	0 stops: ENOENT kv		and the sentence has that text
 *	1 asks while 0 accepts 1	at the same time
 *	1 asks then 1 leaves while ...	one after the other in one of those
 *	9 times 1 asks then 1 leaves	again and again
 *
 * play_verbs has all verbs, also what happens to the Memcached server.  If "a command fails", the
 * scene is played for each command from there on, in each manner.
 *
 * promise: hartebeest_service(3)
 */
#include "config.h"

#include "tests/support/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hartebeest.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/core/context.h"
#include "lib/core/requests.h"
#include "lib/rendezvous/entry.h"
#include "tests/support/crew.h"
#include "tests/support/fake-process.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"
#include "tests/support/registry.h"

#define ENDS 202

/* One process. */
static struct end {
	struct hartebeest_context *hb;
	struct hartebeest_client request;	/* the last that it made or accepted */
} ends[ENDS];

static const char *servers;
static int64_t patience;		/* of calls that ask, listen or accept */

/* By the linker's --wrap, all callers outside of lib/rendezvous/lease.o come here. */
static int puts_fail;			/* that many records of kind_fails find no memory */
static enum beest_record_kind kind_fails;
int __real_beest_lease_put(struct beest_leases *leases, const struct beest_lease_wanted *wanted);
int __wrap_beest_lease_put(struct beest_leases *leases, const struct beest_lease_wanted *wanted);

int __wrap_beest_lease_put(struct beest_leases *leases, const struct beest_lease_wanted *wanted)
{
	if (wanted->kind == kind_fails && puts_fail) {
		puts_fail--;
		return beest_fail(ENOMEM, "no memory, %d to go", puts_fail);
	}
	return __real_beest_lease_put(leases, wanted);
}

/* And all that go through the requests of a list here. */
static size_t requests_named;
struct beest_requests_row *__real_beest_requests_named(const struct beest_requests *requests,
						       size_t i);
struct beest_requests_row *__wrap_beest_requests_named(const struct beest_requests *requests,
						       size_t i);

struct beest_requests_row *__wrap_beest_requests_named(const struct beest_requests *requests,
						       size_t i)
{
	requests_named++;
	return __real_beest_requests_named(requests, i);
}

static int setup(void **state)
{
	(void)state;
	crew_need();
	surroundings_clear();
	registry_start();
	fake_verbs_reset();
	memset(ends, 0, sizeof(ends));
	puts_fail = 0;
	kind_fails = BEEST_KIND_REQUEST;
	servers = "exchange.servers=a:1";
	patience = 10 * BEEST_SECOND;
	return 0;
}

static void must(int ret)
{
	if (ret >= 0)
		return;
	print_error("%s\n", hartebeest_error());
	fail();
}

/* Opens a context that looks like a separate process, without a rank, unless it is open. */
static struct hartebeest_context *open_end(struct end *end)
{
	const char *const options[] = {
		servers, "exchange.ttl=1h", "job.id=job", "exchange.timeout=10s", NULL,
	};

	if (end->hb)
		return end->hb;
	fake_process++;
	must(hartebeest_open(&end->hb, options));
	must(hartebeest_pd_create(end->hb, "pd", NULL));
	must(cq_make(end->hb, "cq", 0, 0, NULL));
	return end->hb;
}

static void close_end(struct end *end)
{
	hartebeest_close(end->hb);
	end->hb = NULL;
}

/* Ends the context as if its process were killed. */
static void kill_end(struct end *end)
{
	if (end->hb && end->hb->registry) {
		registry_kill(end->hb->registry);
		end->hb->registry = NULL;
	}
	close_end(end);
}

static int teardown(void **state)
{
	size_t i;

	(void)state;
	crew_clear();
	fake_kv.hook = NULL;
	fake_kv.hold = NULL;
	for (i = 0; i < ENDS; i++)
		kill_end(&ends[i]);
	registry_end();
	if (fake_verbs.open)
		print_error("%d objects are still open\n", fake_verbs.open);
	return fake_verbs.open;
}

/* Between two turns of a test. */
static void begin_again(void)
{
	assert_int_equal(teardown(NULL), 0);
	setup(NULL);
}

static int64_t soon(int64_t ms)
{
	return beest_clock_now() + ms * BEEST_MS;
}

/* A client that waits for something also looks after its records. */
static int wait_in_vain(struct end *end, int64_t limit)
{
	int ret = hartebeest_msg_wait(end->hb, "nothing", NULL, 0, NULL, limit);

	return ret == -ETIMEDOUT ? 0 : ret;
}

/* ------------------------------------------------- the list, as others see and write it --- */

static const char list_key[] = "hb1/job/service/kv/list";

static const char *key_of(const struct beest_request_id *id)
{
	static char key[BEEST_KEY_MAX + 1];

	snprintf(key, sizeof(key), "hb1/job/service/kv/%016llx-%u", (unsigned long long)id->client,
		 id->number);
	return key;
}

static const char *key_of_request(const struct hartebeest_client *request)
{
	return key_of(&(struct beest_request_id){ request->context, (uint32_t)request->number });
}

static size_t list_size(void)
{
	size_t size = 0;

	fake_kv_get(fake_kv_server("a:1"), list_key, &size);
	return size;
}

/* As somebody does who can write to the server. */
static void list_extend(const void *bytes, size_t size)
{
	static uint8_t all[1 << 20];
	size_t before = list_size();
	const void *value = fake_kv_get(fake_kv_server("a:1"), list_key, NULL);

	if (before)
		memcpy(all, value, before);
	memcpy(all + before, bytes, size);
	fake_kv_put(fake_kv_server("a:1"), list_key, all, before + size, 86400);
}

/* What another process says of these requests. */
static size_t entry_forge(const struct beest_service_body *body, uint8_t entry[BEEST_ENTRY_MAX])
{
	uint8_t bytes[BEEST_SERVICE_MAX];
	struct beest_record record = { .kind = BEEST_KIND_SERVICE, .rank = -1, .body = bytes };

	record.size = (size_t)beest_record_service_encode(body, bytes);
	return (size_t)beest_entry_encode(NULL, &record, list_key, entry);
}

/* Another process says something of that request in the list. */
static void list_forge(enum beest_service_word word, const struct beest_request_id *id)
{
	const struct beest_service_body body = {
		.word = (uint8_t)word, .count = 1, .ids = { *id },
	};
	uint8_t entry[BEEST_ENTRY_MAX];

	list_extend(entry, entry_forge(&body, entry));
}

/* Other processes say this of @each requests at a time, until the list has @size bytes. */
static void list_fill(enum beest_service_word word, size_t each, size_t size)
{
	static uint8_t bytes[1 << 20];
	struct beest_service_body body = { .word = (uint8_t)word, .count = each };
	size_t used = 0, room = size - list_size(), i;
	uint32_t number = 0;

	while (used + 40 + 12 * each < room) {
		for (i = 0; i < each; i++)
			body.ids[i] = (struct beest_request_id){ 7, ++number };
		used += entry_forge(&body, bytes + used);
	}
	list_extend(bytes, used);
}

/* A client of a later version, or of another secret, appends entries that count for it alone. */
static void foreign_fill(size_t size)
{
	static uint8_t bytes[1 << 20];
	const struct beest_service_body body = {
		.word = BEEST_SERVICE_ASKS, .count = 1, .ids = { { 8, 1 } },
	};
	size_t used = 0, entry;

	while (used < size) {
		entry = entry_forge(&body, bytes + used);
		bytes[used + 5]++;		/* its version */
		used += entry;
	}
	list_extend(bytes, used);
}

/* ------------------------------------------------------------------ steps of a scene --- */

static struct {
	enum fake_kv_manner manner;
	int nth;			/* the command that fails in this turn */
} turn;

/* What one end does in a step. */
struct act {
	const char *step;
	struct end *end;
	int number;			/* of the end, or of what passes */
	const char *what;		/* behind the verb; "": nothing */
	bool again;
	int64_t limit;			/* of the call; 0: patience */
};

static int64_t deadline(const struct act *act)
{
	return act->limit ? act->limit : beest_clock_now() + patience;
}

static void act_wrong(const struct act *act, const char *what, const char *text)
{
	print_error("'%s': %s%s\n", act->step, what, text);
	fail();
}

static int play_open(const struct act *act)
{
	open_end(act->end);
	return 0;
}

static int play_close(const struct act *act)
{
	close_end(act->end);
	return 0;
}

static int play_die(const struct act *act)
{
	kill_end(act->end);
	return 0;
}

static int play_listen(const struct act *act)
{
	return hartebeest_service_listen(open_end(act->end), "kv", deadline(act));
}

static int play_stop(const struct act *act)
{
	return hartebeest_service_close(act->end->hb, "kv");
}

static int play_ask(const struct act *act)
{
	char number[12];
	const char *text = act->what[0] ? act->what : number;

	snprintf(number, sizeof(number), "%d", act->number);
	return hartebeest_service_request(open_end(act->end), "kv", text, strlen(text),
					  &act->end->request, deadline(act));
}

static int accept_one(const struct act *act, const char *wanted)
{
	struct hartebeest_client *request = &act->end->request;
	int ret = hartebeest_service_accept(act->end->hb, "kv", request, deadline(act));

	if (strcmp(wanted, "nobody") == 0 && ret == -ETIMEDOUT)
		return 0;
	if (ret == 0 && (request->length != strlen(wanted) ||
			 memcmp(request->data, wanted, request->length) != 0))
		act_wrong(act, "it was given another request than that of ", wanted);
	if (ret == 0 && request->again != act->again)
		act_wrong(act, "an earlier listener had it or not: ", wanted);
	return ret;
}

static int play_accept(const struct act *act)
{
	int number, last, ret = 0;
	char text[12];

	if (sscanf(act->what, "%d-%d", &number, &last) != 2)
		return accept_one(act, act->what);
	for (; number <= last && ret == 0; number++) {
		snprintf(text, sizeof(text), "%d", number);
		ret = accept_one(act, text);
	}
	return ret;
}

/* The request that it made, or accepted, last. */
static int play_leave(const struct act *act)
{
	return hartebeest_service_leave(act->end->hb, "kv", &act->end->request);
}

static int play_wait(const struct act *act)
{
	return wait_in_vain(act->end, deadline(act));
}

/* A queue pair, under that key or that of its request. */
static int play_publish(const struct act *act)
{
	struct hartebeest_context *hb = open_end(act->end);

	must(qp_make(hb, "qp", "pd", IBV_QPT_RC, "cq", "cq", NULL));
	return hartebeest_qp_publish(hb, "qp",
				     act->what[0] ? act->what : act->end->request.key, 0);
}

static const char *peer_key(const struct act *act)
{
	return act->what[0] ? act->what : act->end->request.peer_key;
}

static int play_fetch(const struct act *act)
{
	return hartebeest_qp_fetch(act->end->hb, peer_key(act), NULL, soon(1000));
}

static int play_connect(const struct act *act)
{
	return hartebeest_qp_connect(act->end->hb, "qp", peer_key(act), 0);
}

static int play_follow(const struct act *act)
{
	return hartebeest_qp_follow(act->end->hb, "qp", peer_key(act), NULL, HARTEBEEST_ONCE);
}

static int play_confirm(const struct act *act)
{
	return hartebeest_qp_confirm(act->end->hb, "qp", peer_key(act), 0);
}

static int play_give_up(const struct act *act)
{
	return hartebeest_fail(act->end->hb, "no more");
}

static int play_pass(const struct act *act)
{
	if (crew_data())
		crew_pass(act->number * BEEST_SECOND);
	else
		registry_stage.now += act->number * BEEST_SECOND;
	return 0;
}

/* The list, or the request of the end with that number. */
static int play_evict(const struct act *act)
{
	const struct end *client = &ends[atoi(act->what)];

	return fake_kv_evict(fake_kv_server("a:1"), client == ends ? list_key :
			     key_of_request(&client->request)) ? 0 : -ENOENT;
}

static int play_has(const struct act *act)
{
	char key[100];

	snprintf(key, sizeof(key), "hb1/job/%s", act->what);
	return fake_kv_get(fake_kv_server("a:1"), key, NULL) ? 0 : -ENOENT;
}

static int play_memcached(const struct act *act)
{
	struct fake_kv_server *server = fake_kv_server("a:1");

	if (strcmp(act->what, "restarts") == 0)
		fake_kv_restart(server);
	else if (strcmp(act->what, "emptied") == 0)
		fake_kv_flush(server);
	else if (strcmp(act->what, "down") == 0)
		server->error = server->probe_error = ECONNREFUSED;
	else if (strcmp(act->what, "up") == 0)
		server->error = server->probe_error = 0;
	else if (strcmp(act->what, "silent") == 0)
		server->silent = true;
	else if (strcmp(act->what, "full") == 0)	/* as memcached -M */
		server->refuses = (server->bytes_max = 1);
	else if (strcmp(act->what, "slow") == 0)	/* a look tries a request at most once */
		fake_kv.latency = 300 * BEEST_MS;
	else if (strcmp(act->what, "writes") == 0)	/* those that came late */
		fake_kv_apply_late();
	else
		act_wrong(act, "no such server: ", act->what);
	return 0;
}

/* Larger values are not stored. */
static int play_takes(const struct act *act)
{
	fake_kv_server("a:1")->item_max = (size_t)atoi(act->what);
	return 0;
}

static int play_requests(const struct act *act)
{
	list_fill(BEEST_SERVICE_ASKS, 1, (size_t)atoi(act->what));
	return 0;
}

static int play_ends(const struct act *act)
{
	list_fill(BEEST_SERVICE_ENDED, 1, (size_t)atoi(act->what));
	return 0;
}

/* Another process says so in the list of the request of an end. */
static int play_word(const struct act *act)
{
	static const char *const words[] = {
		[BEEST_SERVICE_ASKS] = "asked", [BEEST_SERVICE_ACCEPTED] = "accepted",
		[BEEST_SERVICE_ENDED] = "ended", [77] = "unknown",
	};
	const struct hartebeest_client *request = &act->end->request;
	size_t i = 0;

	while (i < BEEST_COUNT(words) && (!words[i] || strcmp(words[i], act->what) != 0))
		i++;
	list_forge((enum beest_service_word)i,
		   &(struct beest_request_id){ request->context, (uint32_t)request->number });
	return i < BEEST_COUNT(words) ? 0 : -ENOENT;
}

static int play_foreign(const struct act *act)
{
	foreign_fill((size_t)atoi(act->what));
	return 0;
}

static int play_size(const struct act *act)
{
	unsigned int least, most;

	assert_int_equal(sscanf(act->what, "%u-%u", &least, &most), 2);
	assert_in_range(list_size(), least, most);
	return 0;
}

static int play_fail(const struct act *act)
{
	(void)act;
	fake_kv_fail(FAKE_KV_COMMAND, turn.nth, ECONNRESET, turn.manner);
	return 0;
}

static const struct {
	const char *verb;		/* without an ending */
	int (*play)(const struct act *act);
} play_verbs[] = {
	{ "open", play_open }, { "close", play_close }, { "die", play_die },
	{ "listen", play_listen }, { "stop", play_stop }, { "ask", play_ask },
	{ "accept", play_accept }, { "leave", play_leave },
	{ "refuse", play_leave }, { "wait", play_wait }, { "publish", play_publish },
	{ "fetch", play_fetch }, { "connect", play_connect }, { "follow", play_follow },
	{ "confirm", play_confirm }, { "give", play_give_up }, { "seconds pass", play_pass },
	{ "memcached evicts", play_evict }, { "memcached has", play_has },
	{ "memcached takes", play_takes }, { "memcached", play_memcached },
	{ "is listed", play_word }, { "requests fill", play_requests }, { "ends fill", play_ends },
	{ "foreign entries fill", play_foreign }, { "the list has", play_size },
	{ "a command fail", play_fail },
};

static const struct {
	const char *word;
	int number;
} errors[] = {
	{ "EADDRINUSE", EADDRINUSE }, { "EAGAIN", EAGAIN },
	{ "ECONNABORTED", ECONNABORTED }, { "ECONNREFUSED", ECONNREFUSED },
	{ "EHOSTDOWN", EHOSTDOWN }, { "ENOBUFS", ENOBUFS },
	{ "ENOENT", ENOENT }, { "ENOMEM", ENOMEM }, { "ENOTCONN", ENOTCONN },
	{ "ETIMEDOUT", ETIMEDOUT },
};

/* Ends @text at the first @separator.  Returns what is behind that; NULL: there is none. */
static char *cut(char *text, const char *separator)
{
	char *at = text ? strstr(text, separator) : NULL;

	if (!at)
		return NULL;
	*at = '\0';
	return at + strlen(separator);
}

static void words_read(struct act *act, char *words)
{
	char *next;

	for (; words; words = next) {
		next = cut(words, " ");
		if (strcmp(words, "again") == 0)
			act->again = true;
		else if (strcmp(words, "once") == 0)
			act->limit = HARTEBEEST_ONCE;
		else if (strcmp(words, "late") == 0)
			act->limit = 1;
		else
			act->what = words;
	}
}

/* How the act must end: "ERRNO text". */
static void act_judge(const struct act *act, int ret, char *expected)
{
	const char *text = cut(expected, " ");
	size_t i = 0;

	while (expected && i < BEEST_COUNT(errors) && strcmp(expected, errors[i].word) != 0)
		i++;
	if (expected && i == BEEST_COUNT(errors))
		act_wrong(act, "an unknown errno ", expected);
	if (ret != (expected ? -errors[i].number : 0))
		act_wrong(act, "", ret < 0 ? hartebeest_error() : "it succeeded");
	if (text && !strstr(hartebeest_error(), text))
		act_wrong(act, "its sentence is: ", hartebeest_error());
}

static void act_play(char *text)
{
	char *step = strdup(text), *expected = cut(text, ": "), *at = text;
	struct act act = { .step = step, .what = "" };
	size_t i = 0;
	int last;

	last = act.number = (int)strtol(at, &at, 10);
	if (*at == '-')
		last = (int)strtol(at + 1, &at, 10);
	at += *at == ' ';
	while (i < BEEST_COUNT(play_verbs) &&
	       strncmp(at, play_verbs[i].verb, strlen(play_verbs[i].verb)) != 0)
		i++;
	if (i == BEEST_COUNT(play_verbs))
		act_wrong(&act, "no verb is ", at);
	words_read(&act, cut(at + strlen(play_verbs[i].verb), " "));
	for (; act.number <= last; act.number++) {
		act.end = act.number < ENDS ? &ends[act.number] : NULL;
		act_judge(&act, play_verbs[i].play(&act), expected);
	}
	free(step);
}

static void acts_play(void *acts)
{
	char *act, *next;

	for (act = acts; act; act = next) {
		next = cut(act, " then ");
		act_play(act);
	}
}

static void step_play(char *step)
{
	char *next;

	if (!strstr(step, " while ")) {
		acts_play(step);
		return;
	}
	for (; step; step = next) {
		next = cut(step, " while ");
		crew_start(acts_play, step);
	}
	registry_run();
}

static void step_repeat(const char *step)
{
	const char *times = strstr(step, " times ");
	int count = times ? atoi(step) : 1;
	char *copy;

	for (step = times ? times + strlen(" times ") : step; count; count--) {
		copy = strdup(step);
		step_play(copy);
		free(copy);
	}
}

static void play(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void play(const char *format, ...)
{
	char text[1000], *step, *next;
	va_list arguments;

	va_start(arguments, format);
	assert_in_range(vsnprintf(text, sizeof(text), format, arguments), 1, sizeof(text) - 1);
	va_end(arguments);
	for (step = text; step; step = next) {
		next = cut(step, ", ");
		step_repeat(step);
	}
}

/* ------------------------------------------------------------------------- requests --- */

static void asked_and_accepted(void)
{
	static const struct hartebeest_client none;
	const struct hartebeest_client *request = &ends[1].request, *sight = &ends[0].request;

	play("0 listens, 1 asks hello, 0 accepts hello");
	assert_int_equal(sight->number, 1);
	assert_int_equal(sight->number, request->number);
	assert_int_equal(sight->context, request->context);
	assert_int_not_equal(sight->context, 0);
	assert_string_equal(sight->key, request->peer_key);
	assert_string_equal(sight->peer_key, request->key);
	assert_string_not_equal(sight->key, sight->peer_key);
	assert_int_equal(sight->again, 0);
	assert_int_equal(sight->rank, -1);
	assert_int_equal(sight->pid, getpid());
	assert_string_equal(sight->host, request->host);
	assert_true(sight->host[0] != '\0');
	assert_memory_equal(sight->reserved, none.reserved, sizeof(none.reserved));
	play("0 accepts nobody");
	assert_error_has("no further client has asked for service 'kv'");
}

static void data_of_all_sizes(void)
{
	static unsigned char large[1 << 20];
	struct hartebeest_client *sight = &ends[0].request, *request = &ends[1].request;
	struct hartebeest_context *server = open_end(&ends[0]), *client = open_end(&ends[1]);
	size_t i;

	for (i = 0; i < sizeof(large); i++)
		large[i] = (unsigned char)(i * 7);
	play("0 listens");
	for (i = 0; i <= HARTEBEEST_SERVICE_DATA; i += 256) {
		must(hartebeest_service_request(client, "kv", i ? large : NULL, i, request, 0));
		must(hartebeest_service_accept(server, "kv", sight, 0));
		assert_int_equal(sight->length, i);
		assert_memory_equal(sight->data, large, i);
	}
	assert_int_equal(hartebeest_service_request(client, "kv", large, 1025, request, 0),
			 -EMSGSIZE);
	assert_int_equal(hartebeest_service_request(client, "kv", large, sizeof(large), request, 0),
			 -EMSGSIZE);
	assert_error_has("1048576 bytes");
	play("0 accepts nobody");
}

static void names_and_arguments(void)
{
	static const char *const bad[] = {
		"", "a b", "a/b", "a\n", "\xc3\xa4",
		"12345678901234567890123456789012345678901234567890123456789012345",
	};
	struct hartebeest_client *request = &ends[0].request;
	struct hartebeest_context *hb = open_end(&ends[0]);
	size_t i;

	for (i = 0; i < BEEST_COUNT(bad); i++) {
		assert_int_equal(hartebeest_service_listen(hb, bad[i], 0), -EINVAL);
		assert_int_equal(hartebeest_service_accept(hb, bad[i], request, 0), -EINVAL);
		assert_int_equal(hartebeest_service_request(hb, bad[i], NULL, 0, request, 0),
				 -EINVAL);
		assert_int_equal(hartebeest_service_close(hb, bad[i]), -EINVAL);
	}
	assert_int_equal(hartebeest_service_listen(hb, NULL, 0), -EINVAL);
	assert_int_equal(hartebeest_service_accept(hb, "kv", NULL, 0), -EINVAL);
	assert_int_equal(hartebeest_service_accept(hb, "kv", request, -7), -EINVAL);
	assert_int_equal(hartebeest_service_request(hb, "kv", NULL, 1, request, 0), -EINVAL);
	must(hartebeest_service_listen(hb, bad[5] + 1, 0));
	play("0 accepts: ENOTCONN, 0 stops: ENOENT, 0 leaves: ENOENT, 0 listens, "
	     "0 leaves: ENOENT this is no request of service 'kv': it has no number");
	memset(request, 'x', sizeof(*request));
	assert_int_equal(hartebeest_service_leave(hb, "kv", request), -EINVAL);
	assert_error_is("this is no request of service 'kv': its key has no end");
}

/* No record is stored for a request that no client has made. */
static void a_request_that_was_never_made(void)
{
	struct hartebeest_client *request = &ends[0].request;
	size_t items;

	play("0 listens, 1 asks, 0 accepts 1");
	request->number++;
	items = fake_kv_server("a:1")->items;
	play("0 leaves: ENOENT has accepted none with its number of service 'kv'");
	ends[1].request.number++;
	play("1 leaves: ENOENT this context has no request with the key");
	ends[1].request.number = UINT64_C(1) << 32;
	play("1 leaves: ENOENT this context has no request with the key");
	assert_int_equal(fake_kv_server("a:1")->items, items);
}

/* -------------------------------------------------------------------------- listeners --- */

/* One that cannot listen leaves the service to others. */
static void a_listener_that_fails(void)
{
	int n, ret, failed = 0;
	uint64_t runs;

	for (n = 1; n <= 5; n++) {
		begin_again();
		play("0 listens, 1 opens");
		fake_kv_fail(FAKE_KV_REQUEST, n, EHOSTDOWN, FAKE_KV_REFUSED);
		ret = hartebeest_service_listen(ends[1].hb, "kv", HARTEBEEST_ONCE);
		failed += ret < 0;
		play("2 asks, %s", ret < 0 ? "1 accepts: ENOTCONN, 0 accepts 2, 1 stops: ENOENT" :
		     "1 accepts 2, 1 stops");
	}
	assert_in_range(failed, 2, 4);

	/* a listener that repeats itself in vain still listens */
	play("0 listens, memcached is down");
	runs = fake_kv.runs;
	assert_int_equal(hartebeest_service_listen(ends[0].hb, "kv", soon(100)), -ECONNREFUSED);
	assert_in_range(fake_kv.runs - runs, 1, 200);	/* thousands without pauses */
	play("memcached is up, 0 accepts 2 again, 3 asks, 0 accepts 3");
}

static int requests_until_held;		/* so many requests of end 0 go on; 0: all */

static int64_t hold_first(const struct beest_kv *kv)
{
	const struct hartebeest_context *hb = ends[0].hb;

	if (!hb || !hb->registry || kv != hb->registry->kv || !requests_until_held)
		return 0;
	return --requests_until_held ? 0 : 3 * BEEST_SECOND;
}

/*
 * Wherever others begin to listen, one process does then, and the others hear of it.  The second
 * of them comes after all that its list names, so also after a process of its second.
 */
static void others_listen_meanwhile(void)
{
	int i, at, ret, listening;

	for (at = 1; at <= 6; at++) {
		begin_again();
		play("0-2 open, 0 waits");	/* connects */
		requests_until_held = at;
		fake_kv.hold = hold_first;
		play("0 listens while 1 seconds pass then 1-2 listen");
		requests_until_held = 0;
		for (i = listening = 0; i < 3; i++) {
			ret = hartebeest_service_accept(ends[i].hb, "kv", &ends[i].request,
							soon(100));
			assert_true(ret == -ETIMEDOUT || ret == -EADDRINUSE);
			listening += ret == -ETIMEDOUT;
		}
		assert_int_equal(listening, 1);
	}
}

static const void *failing;		/* the thread whose requests fail since one was held */

static int64_t hold_and_fail(const struct beest_kv *kv)
{
	const int64_t held = hold_first(kv);

	if (held)
		failing = crew_data();
	return held;
}

static void fail_held(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)kv, (void)request;
	fake_kv_server("a:1")->error = failing && crew_data() == failing ? EHOSTDOWN : 0;
}

/* Of two threads, the one that fails does not end what the other has begun. */
static void two_threads_listen(void)
{
	play("0 opens, 0 waits");
	patience = 2 * BEEST_SECOND;
	failing = NULL;
	requests_until_held = 2;
	fake_kv.hold = hold_and_fail;
	fake_kv.hook = fail_held;
	play("0 listens: EHOSTDOWN while 1 seconds pass then 0 listens");
	play("1 asks, 0 accepts 1");
}

/* Wherever another thread stops, the process listens if the call that listens says so. */
static void one_thread_listens_and_another_stops(void)
{
	int at;

	for (at = 1; at <= 2; at++) {
		begin_again();
		play("0 opens, 0 waits");
		requests_until_held = at;
		fake_kv.hold = hold_first;
		play("0 listens while 1 seconds pass then 0 stops%s", at == 1 ? ": ENOENT" : "");
		play("1 asks, 0 accepts 1");
	}
}

static struct hartebeest_client asked[2];

static void leave_both(void *data)
{
	const int64_t *delay = data;
	size_t i;

	crew_pass(*delay);
	for (i = 0; i < BEEST_COUNT(asked); i++)
		assert_int_equal(hartebeest_service_leave(ends[1].hb, "kv", &asked[i]), 0);
}

/* While another thread stores its requests again, a thread leaves: none of them is left. */
static void leaves_while_requests_are_stored_again(void)
{
	static char waits[] = "1 waits";
	char wait[sizeof(waits)];
	int64_t delay;
	size_t i;

	for (delay = 0; delay < 200 * BEEST_MS; delay += 7 * BEEST_MS) {
		begin_again();
		play("0 listens, 1 opens");
		for (i = 0; i < BEEST_COUNT(asked); i++)
			must(hartebeest_service_request(ends[1].hb, "kv", "x", 1, &asked[i], 0));
		play("memcached restarts");
		fake_kv.latency = 30 * BEEST_MS;
		memcpy(wait, waits, sizeof(waits));
		crew_start(acts_play, wait);
		crew_start(leave_both, &delay);
		registry_run();
		play("0 accepts nobody");
		for (i = 0; i < BEEST_COUNT(asked); i++)
			assert_null(fake_kv_get(fake_kv_server("a:1"), key_of_request(&asked[i]),
						NULL));
	}
}

/*
 * From the manual: "A service has one listener: the last process that called this function
 * is it."
 */
static void a_listener_that_stores_late(void)
{
	play("0 listens, 2 asks");
	requests_until_held = 3;
	fake_kv.hold = hold_first;
	play("0 accepts 2 then 0 accepts: EADDRINUSE while "
	     "1 seconds pass then 1 listens then 4 seconds pass then 1 accepts 2 again");
}

/* ---------------------------------------------------------------------------- the list --- */

/* Another process asks, with these bytes as its record; NULL: there is none. */
static void foreign_ask(uint32_t number, const void *bytes, size_t size)
{
	const struct beest_request_id id = { 7, number };

	if (bytes)
		fake_kv_put(fake_kv_server("a:1"), key_of(&id), bytes, size, 600);
	list_forge(BEEST_SERVICE_ASKS, &id);
}

/* Records that are none, or of another client, and entries that are none. */
static void foreign_records(void)
{
	static const uint8_t large[1 << 20];
	struct beest_record record = { .kind = BEEST_KIND_REQUEST, .rank = -1 };
	const struct beest_request_id first = { 7, 1 }, second = { 7, 2 };
	const void *other;
	uint8_t bytes[1024];
	size_t size;

	play("0 listens, 1 asks");
	size = (size_t)beest_record_encode(NULL, &record, key_of(&first), bytes, sizeof(bytes));
	foreign_ask(1, bytes, size);			/* it has no body */
	record.kind = BEEST_KIND_MESSAGE;
	size = (size_t)beest_record_encode(NULL, &record, key_of(&second), bytes, sizeof(bytes));
	foreign_ask(2, bytes, size);
	foreign_ask(3, "garbage", 7);
	foreign_ask(4, large, sizeof(large));
	foreign_ask(5, NULL, 0);
	list_extend("noise", 5);
	list_forge((enum beest_service_word)77, &first);
	play("2 asks, 0 accepts 1-2, 0 accepts nobody");

	/* the record of another request under this key: its sum is that of another key */
	other = fake_kv_get(fake_kv_server("a:1"), key_of_request(&ends[1].request), &size);
	assert_in_range(size, 1, sizeof(bytes));
	foreign_ask(6, memcpy(bytes, other, size), size);
	play("0 accepts nobody, 3 asks, 0 accepts 3");
}

/* A client that was killed between two steps delays nobody, and costs little from then on. */
static void a_request_without_a_record(void)
{
	uint32_t number;
	int64_t begin;
	uint64_t keys;

	play("0 listens");
	for (number = 1; number <= 100; number++)
		foreign_ask(number, NULL, 0);
	play("1 asks");
	begin = beest_clock_now();
	play("0 accepts 1");
	assert_true(beest_clock_now() - begin < 100 * BEEST_MS);
	play("0 accepts nobody, 3600 seconds pass, 0 accepts nobody");
	assert_in_range(list_size(), 1, SIZE_MAX);
	keys = fake_kv.keys;
	play("0 accepts once: EAGAIN");
	assert_in_range(fake_kv.keys - keys, 1, 6);
}

static void requests_start(struct beest_list *list)
{
	play("0 opens, 0 waits");		/* connects */
	must(beest_list_start(list, ends[0].hb->registry, BEEST_KIND_SERVICE, "kv/list"));
}

static void requests_look(struct beest_requests *requests, const struct beest_list *list)
{
	struct beest_kv_value value = { 0 };
	const void *bytes = fake_kv_get(fake_kv_server("a:1"), list_key, &value.size);
	static uint8_t copy[1 << 16];

	if (bytes)
		value.bytes = memcpy(copy, bytes, value.size);
	assert_int_equal(beest_requests_see(requests, list, &value), 0);
}

/* What a listener remembers of a request that is not open any longer. */
static void requests_are_forgotten(void)
{
	static const struct {
		enum beest_service_word word;	/* the last one in the list; 0: the list is lost */
		enum beest_request_state state;
		int64_t age;
		bool known;
	} rows[] = {
		{ BEEST_SERVICE_ACCEPTED, BEEST_REQUEST_ACCEPTED, 3 * BEEST_SECOND, true },
		{ BEEST_SERVICE_ENDED,    BEEST_REQUEST_ACCEPTED, 1 * BEEST_SECOND, true },
		{ BEEST_SERVICE_ENDED,    BEEST_REQUEST_ACCEPTED, 3 * BEEST_SECOND, false },
		{ 0,                      BEEST_REQUEST_ACCEPTED, 1 * BEEST_SECOND, true },
		{ 0,                      BEEST_REQUEST_ACCEPTED, 3 * BEEST_SECOND, false },
		{ 0,                      BEEST_REQUEST_CLOSED,   1 * BEEST_SECOND, true },
		{ 0,                      BEEST_REQUEST_CLOSED,   3 * BEEST_SECOND, false },
		{ 0,                      BEEST_REQUEST_INHERITED, 0, false },
	}, *row;
	const struct beest_request_id id = { 7, 1 };
	struct beest_requests requests = { 0 };
	struct beest_list list;

	requests_start(&list);
	for (row = rows; row < rows + BEEST_COUNT(rows); row++) {
		list_forge(BEEST_SERVICE_ASKS, &id);
		requests_look(&requests, &list);
		beest_requests_find(&requests, &id)->state = row->state;
		if (row->word)
			list_forge(row->word, &id);
		else
			fake_kv_evict(fake_kv_server("a:1"), list_key);
		registry_stage.now += row->age;
		requests_look(&requests, &list);
		beest_requests_forget(&requests, 2 * BEEST_SECOND);
		assert_int_equal(beest_requests_find(&requests, &id) != NULL, row->known);
		fake_kv_evict(fake_kv_server("a:1"), list_key);
		beest_requests_end(&requests);
	}
}

/* A megabyte is the most that a server takes by default. */
#define LIST_MAX ((1 << 20) - 80)

/* What a listener has had and cannot append gets into the list nevertheless. */
static void a_listener_of_a_full_list(void)
{
	play("0 listens, 1-100 ask");
	fake_kv_server("a:1")->item_max = list_size() + 40;
	play("0 accepts 1-100, 0 accepts nobody, 0 dies, 0 listens, 0 accepts 1-100 again");
}

static char warning[400];

static void keep_warning(void *data, int level, const char *text)
{
	(void)data;
	if (level == HARTEBEEST_LOG_WARN)
		snprintf(warning, sizeof(warning), "%s", text);
}

/* Both ends say which list it is, how large, and what helps. */
static void a_full_list_is_named(void)
{
	static const struct {
		size_t size;
		const char *text;
	} rows[] = {
		{ 32768, "; start server a:1 with a larger memcached -I" },
		{ LIST_MAX, "; end some by hartebeest_service_leave()" },
	}, *row;
	char text[200];

	for (row = rows; row < rows + BEEST_COUNT(rows); row++) {
		begin_again();
		play("0 listens");
		list_fill(BEEST_SERVICE_ACCEPTED, BEEST_SERVICE_IDS, row->size);
		fake_kv_server("a:1")->item_max = list_size() + 40;
		snprintf(text, sizeof(text), "its list is full: %zu bytes, for %zu requests that "
			 "are not over%s", list_size(), (list_size() - 39) / 1569 * 128, row->text);
		play("1 asks once: EAGAIN service 'kv' (key %s) was published", list_key);
		assert_error_has(text);
		play("2 listens once: EAGAIN");
		assert_error_has(text);
	}

	must(hartebeest_log_set(ends[0].hb, HARTEBEEST_LOG_WARN, keep_warning, NULL));
	play("0 accepts once: EAGAIN no further client has asked for service 'kv'; its list is "
	     "full: ");
	assert_error_has("(), or use several services");
	assert_non_null(strstr(warning, rows[1].text));
}

/* What a listener remembers does not make its looks longer. */
static void many_that_came_and_went(void)
{
	play("0 listens, 2 asks, 0 accepts 2, 1000 times 1 asks then 0 accepts 1 then 1 leaves, "
	     "1300 seconds pass, 2 waits, 0 accepts once: EAGAIN");
	requests_named = 0;
	play("0 accepts once: EAGAIN");
	assert_in_range(requests_named, 1, 100);
}

/* ------------------------------------------------------------------ servers that fail --- */

/* A wait ends in time, however many requests its process must make again. */
static void many_requests_and_a_restart(void)
{
	int64_t began;

	play("200 times 1 asks, memcached restarts");
	fake_kv.latency = 20 * BEEST_MS;
	began = beest_clock_now();
	assert_int_equal(wait_in_vain(&ends[1], soon(500)), 0);
	assert_true(beest_clock_now() - began < BEEST_SECOND);
	play("1 waits, 1 waits, 0 listens, 200 times 0 accepts 1, 0 accepts nobody");
}

/* Nor does a request delay a wait when its server is silent. */
static void a_request_and_a_silent_server(void)
{
	struct fake_kv_server *memcached = fake_kv_server("a:1");
	int64_t began;
	int i;

	play("1 asks, 120 seconds pass");		/* it is due */
	memcached->silent = true;
	for (i = 0; i < 3; i++) {
		began = beest_clock_now();
		assert_int_equal(wait_in_vain(&ends[1], soon(500)), -EHOSTDOWN);
		/* its own look, and the one more that follows a look that was held up */
		assert_true(beest_clock_now() - began < 800 * BEEST_MS);
	}
	memcached->silent = false;
	play("1 waits, 0 listens, 0 accepts 1");
}

/*
 * A client whose request failed has not asked for anything, and may ask again.  If the server was
 * silent, this is so from the client's next call on.
 */
static void a_request_that_failed(void)
{
	static const struct {
		enum fake_kv_manner manner;
		int error;
	} rows[] = {
		{ FAKE_KV_REFUSED, ECONNRESET }, { FAKE_KV_LOST, ECONNRESET },
		{ FAKE_KV_REFUSED, EHOSTDOWN }, { FAKE_KV_LOST, EHOSTDOWN },
	};
	int n, ret, failed;
	size_t k;

	for (k = 0; k < BEEST_COUNT(rows); k++) {
		for (n = 1, failed = 0; n <= 10; n++) {
			begin_again();
			play("0 listens, 1 opens");
			fake_kv_fail(FAKE_KV_COMMAND, n, rows[k].error, rows[k].manner);
			ret = hartebeest_service_request(ends[1].hb, "kv", "x", 1, &ends[1].request,
							 HARTEBEEST_ONCE);
			if (rows[k].error == EHOSTDOWN)
				wait_in_vain(&ends[1], 0);
			play("0 accepts %s, 1 asks, 0 accepts 1, 0 accepts nobody",
			     ret < 0 ? "nobody" : "x");
			failed += ret < 0;
		}
		assert_in_range(failed, 2, 9);
	}
}

/* A request is stored, but its answer is lost. */
static void append_unanswered(struct beest_kv *kv, const struct beest_kv_request *request)
{
	size_t i;

	(void)kv;
	for (i = 0; i < request->write_count; i++)
		if (request->writes[i].verb == BEEST_KV_ADD &&
		    !strcmp(request->writes[i].key, list_key))
			fake_kv_fail(FAKE_KV_REQUEST, 1, ECONNRESET, FAKE_KV_LOST);
}

/* A client that does not know whether it has asked again deletes that request, too. */
static void closed_while_its_request_moves(void)
{
	play("1 asks, memcached restarts");
	fake_kv.hook = append_unanswered;
	wait_in_vain(&ends[1], 0);
	fake_kv.hook = NULL;
	assert_true(fake_kv.fired > 0);
	play("1 closes, 0 listens, 0 accepts nobody");
}

static int64_t back_at;

/* From the failure until back_at, only the client cannot reach the server. */
static void away_hook(struct beest_kv *kv, const struct beest_kv_request *request)
{
	struct fake_kv_server *memcached = fake_kv_server("a:1");
	bool is_client = ends[1].hb->registry && kv == ends[1].hb->registry->kv;

	(void)request;
	if (fake_kv.fired && !back_at)
		back_at = soon(100000);
	memcached->error = is_client && beest_clock_now() < back_at ? EHOSTDOWN : 0;
}

/* The listener may have accepted the request meanwhile, or closed its number and forgotten it. */
static void an_answer_that_does_not_come(void)
{
	static const enum fake_kv_manner manners[] = { FAKE_KV_REFUSED, FAKE_KV_LOST };
	size_t k;
	int n;

	for (k = 0; k < BEEST_COUNT(manners); k++)
		for (n = 1; n <= 5; n++) {
			begin_again();
			play("0 listens, 1 opens");
			back_at = 0;
			patience = 200 * BEEST_SECOND;
			fake_kv.hook = away_hook;
			fake_kv_fail(FAKE_KV_WRITE, n, ECONNRESET, manners[k]);
			play("1 asks while 0 accepts 1");
			assert_int_equal(fake_kv.fired, 1);
			assert_true(beest_clock_now() >= back_at);
			assert_string_equal(ends[0].request.peer_key, ends[1].request.key);
			play("0 accepts nobody");
		}
}

/* All records of a service are on one server; the others do not matter. */
static void several_servers(void)
{
	static const char *const texts[] = { "a:1", "b:1", "c:1" };
	int refused, homes = 0;
	size_t i;

	servers = "exchange.servers=a:1,b:1,c:1";
	play("0 listens, 1-7 ask, 0 accepts 1-7, 0 accepts nobody");
	for (i = 0; i < BEEST_COUNT(texts); i++) {
		fake_kv_server(texts[i])->error = EHOSTDOWN;
		refused = hartebeest_service_request(ends[1].hb, "kv", NULL, 0, &ends[1].request,
						     HARTEBEEST_ONCE) < 0;
		fake_kv_server(texts[i])->error = 0;
		play("0 accepts %s", refused ? "nobody" : "");
		homes += refused;
	}
	assert_int_equal(homes, 1);
}

/* ------------------------------------------------------------------------------ costs --- */

static int lines;

static void count_line(void *data, int level, const char *text)
{
	(void)data;
	(void)text;
	lines += level <= HARTEBEEST_LOG_INFO;
}

/* Polling is one request for each look, and logs nothing. */
static void looking_once(void)
{
	uint64_t requests;

	play("0 listens once, 0 accepts once: EAGAIN");
	must(hartebeest_log_set(ends[0].hb, HARTEBEEST_LOG_INFO, count_line, NULL));
	lines = 0;
	requests = fake_kv.requests;
	play("100 times 0 accepts once: EAGAIN");
	assert_int_equal(fake_kv.requests - requests, 100);
	assert_int_equal(lines, 0);
}

/* The costs do not depend on the number of clients. */
static void costs_of_a_request(void)
{
	uint64_t trips = 0, most = 0;
	int i;

	play("0 listens");
	for (i = 1; i <= 100; i++) {
		play("%d opens", i);
		fake_kv_count_again();
		play("%d asks", i);
		assert_in_range(fake_kv.round_trips, 1, 2);	/* a new connection */
		assert_in_range(fake_kv.keys, 1, 20);
	}
	for (i = 1; i <= 100; i++) {
		fake_kv_count_again();
		play("0 accepts %d", i);
		trips += fake_kv.round_trips;
		most = BEEST_MAX(most, fake_kv.keys);
	}
	assert_in_range(trips, 100, 105);
	assert_in_range(most, 17, 45);
}

/* ------------------------------------------------------ clients that are connected --- */

static void begin_pair(struct hartebeest_pair *pair, const struct hartebeest_client *request)
{
	hartebeest_pair_init(pair);
	pair->qp = "qp";
	pair->key = request->key;
	pair->peer_key = request->peer_key;
}

/* A server has one UD queue pair for all clients, and an address of each. */
static void clients_with_datagrams(void)
{
	struct hartebeest_client requests[2];	/* as the server has them */
	struct hartebeest_pair pairs[2], pair;
	struct hartebeest_ud_address address;
	struct ibv_qp *qp;
	int i;

	play("0 listens, 1-2 ask");
	for (i = 0; i < 2; i++) {
		play("0 accepts %d", i + 1);
		requests[i] = ends[0].request;
		begin_pair(&pairs[i], &requests[i]);
	}
	for (i = 0; i <= 2; i++)
		must(qp_make(ends[i].hb, "qp", "pd", IBV_QPT_UD, "cq", "cq", NULL));
	assert_int_equal(hartebeest_pairs_connect(ends[0].hb, pairs, 2, HARTEBEEST_ONCE), -EAGAIN);
	for (i = 1; i <= 2; i++) {
		begin_pair(&pair, &ends[i].request);
		must(hartebeest_pairs_connect(ends[i].hb, &pair, 1, 0));
	}
	must(hartebeest_pairs_connect(ends[0].hb, pairs, 2, 0));
	for (i = 0; i < 2; i++) {
		must(hartebeest_qp_get(ends[i + 1].hb, "qp", &qp));
		must(hartebeest_qp_ud_address(ends[0].hb, "qp", requests[i].peer_key, &address));
		assert_int_equal(address.qp_num, qp->qp_num);
	}
	play("1 leaves");
	for (i = 0; i < 2; i++)
		assert_int_equal(hartebeest_qp_follow(ends[0].hb, "qp", requests[i].peer_key, NULL,
						      HARTEBEEST_ONCE), i ? 0 : -ESHUTDOWN);
}

/* -------------------------------------------------------------------- out of memory --- */

static void a_request_that_cannot_be_kept(void)
{
	play("0 listens, 1 opens");
	puts_fail = 1;
	play("1 asks lost: ENOMEM no memory, 1 asks kept, 0 accepts kept, 0 accepts nobody");
	assert_int_equal(puts_fail, 0);
}

/* The echo reaches the peer by the next call at this end. */
static void an_echo_that_cannot_be_kept(void)
{
	play("0 publishes one, 1 publishes other, 0 connects other, 1 dies, 2 publishes other, "
	     "2 connects one");
	kind_fails = BEEST_KIND_QP;
	puts_fail = 1;
	play("0 follows other: ENOMEM, 0 confirms other, 2 confirms one");
	assert_int_equal(puts_fail, 0);
}

/* Others find this process later. */
static void a_presence_that_cannot_be_kept(void)
{
	struct hartebeest_context *hb = open_end(&ends[0]);

	kind_fails = BEEST_KIND_RANK;
	puts_fail = 1;
	assert_int_equal(hartebeest_msg_push(hb, "m", "x", 1, 0), -ENOMEM);
	assert_int_equal(puts_fail, 0);
	must(hartebeest_msg_push(hb, "m", "x", 1, 0));
	assert_non_null(fake_kv_get(fake_kv_server("a:1"), hb->registry->keys[BEEST_KEY_RANK],
				    NULL));
}

/* ----------------------------------------------------------------------------- scenes --- */

#define STEPS(title, steps) { title, steps, NULL }
#define SCENE(name) { #name, NULL, name }

static const struct scene {
	const char *title;
	const char *steps;		/* NULL: function() plays it */
	void (*function)(void);
} scenes[] = {
	STEPS("whether or not anybody listens, a request is stored; the oldest is served first",
	  "1-100 ask, 0 listens, 0 accepts 1-100, 0 accepts nobody"),
	STEPS("a client is told why it is not served",
	  "1 asks, 1 fetches: ETIMEDOUT no process listens to service 'kv', 0 listens, "
	  "1 fetches: ETIMEDOUT listens to service 'kv' and has not accepted this request, "
	  "0 accepts 1, 0 waits, "
	  "1 fetches: ETIMEDOUT listens to service 'kv' and has accepted this request, "
	  "0 stops, 1 fetches: ETIMEDOUT which has stopped, 0 listens, "
	  "1 fetches: ETIMEDOUT listens to service 'kv' and has accepted this request, "
	  "0 closes, 1 fetches: ETIMEDOUT the last to listen to service 'kv' is pid, "
	  "1 fetches: ETIMEDOUT which has left"),
	STEPS("the shortest limits suffice",
	  "0 listens once, 1 asks once, 0 accepts 1 once, 2 listens late, 3 asks late, "
	  "2 accepts 1 again late, 2 accepts 3 late"),

	/* listeners */
	STEPS("the last listener has the service",
	  "0 listens, 2 asks, 0 accepts 2, 1 listens, "
	  "0 accepts: EADDRINUSE service 'kv' is served by pid, 3 asks, 1 accepts 2 again, "
	  "1 accepts 3, 0 accepts: EADDRINUSE, 0 listens, 0 accepts 2-3 again, 0 accepts nobody, "
	  "1 accepts: EADDRINUSE"),
	STEPS("a listener stays replaced until it listens again, and then replaces the other, even "
	  "without the list",
	  "0 listens, 1 listens, 0 accepts: EADDRINUSE, memcached is emptied, "
	  "0 accepts: EADDRINUSE, 2 asks, 1 accepts 2, 0 listens, 1 accepts: EADDRINUSE, "
	  "memcached is emptied, 0 listens, 1 accepts: EADDRINUSE, 3 asks, 0 accepts 3"),
	/* Those before them have taken all seconds that the clock may reach meanwhile. */
	STEPS("of two that begin in the same second, the greater incarnation listens",
	  "200 times 2 listens then 3 listens, 0 listens while 1 listens, 4 asks, 0 accepts 4, "
	  "1 accepts: EADDRINUSE"),
	STEPS("listening twice changes nothing",
	  "0 listens, 1-2 ask, 0 accepts 1, 0 listens, 0 accepts 2, 0 accepts nobody"),
	STEPS("listening twice changes nothing, even if the list was evicted",
	  "0 listens, 1 asks, 0 accepts 1, memcached evicts list, 0 listens, 0 accepts nobody"),
	STEPS("a listener that was killed and begins again gets all requests that are still stored",
	  "0 listens, 1-40 ask, 0 accepts 1-30, 1-10 leave, 21-35 leave, 0 dies, 0 listens, "
	  "0 accepts 11-20 again, 0 accepts 36-40, 0 accepts nobody"),
	STEPS("a listener stops",
	  "0 listens, 1 asks, 0 accepts 1, 0 stops, 0 accepts: ENOTCONN, 0 stops: ENOENT, "
	  "2 asks, 3 listens, 3 accepts 1 again, 3 accepts 2"),
	STEPS("a thread stops listening while two others accept",
	  "0 listens, 0 accepts: ENOTCONN does not listen to service 'kv' while "
	  "0 accepts: ENOTCONN while 1 seconds pass then 0 stops"),
	STEPS("what a context had as an earlier listener does not hide what it had later",
	  "0 listens, 1 listens, 0 listens, 2 asks, 0 accepts 2, memcached restarts, 2 waits, "
	  "0 accepts nobody"),

	/* what a list and a listener know */
	STEPS("the greatest word of the list counts, whatever their order",
	  "1-4 ask, memcached evicts list, 1 is listed accepted, 1 is listed asked, "
	  "2 is listed ended, 2 is listed accepted, 2 is listed asked, 3 is listed unknown, "
	  "4 is listed asked, 0 listens, 0 accepts 1 again, 0 accepts 4, 0 accepts nobody"),
	STEPS("what a listener knows outlives the list",
	  "0 listens, 1-3 ask, 0 accepts 1-3, 0 refuses, memcached evicts list, "
	  "1 is listed asked, 2 is listed accepted, 3 is listed accepted, 0 accepts nobody, "
	  "4 listens, 4 accepts 1-2 again, 4 accepts nobody"),

	/* leaving */
	STEPS("a client that has left is not accepted",
	  "1-3 ask, 1 leaves, 1 leaves, 2 closes, 0 listens, 0 accepts 3, "
	  "0 accepts nobody, 1 asks, 0 accepts 1"),
	STEPS("a request that was refused is given to no later listener, although its client lives",
	  "0 listens, 1-2 ask, 0 accepts 1, 0 refuses, 0 accepts 2, 1 waits, 3 listens, "
	  "3 accepts 2 again, 3 accepts nobody"),
	STEPS("nor if the list is evicted, and its client computes and looks after a long while",
	  "0 listens, 1 asks, 0 accepts 1, 0 refuses, memcached evicts list, 120 seconds pass, "
	  "1 waits, 2 listens, 2 accepts nobody"),
	STEPS("nor on an empty server, as the client knows that it was refused",
	  "0 listens, 1-2 ask, 0 accepts 1, 0 refuses, 1 waits, memcached restarts, 2 waits, "
	  "1 waits, 0 accepts 2, 3 listens, 3 accepts 2 again, 3 accepts nobody, 1 leaves"),
	STEPS("a client that leaves learns that its server has not, which then learns it later",
	  "0 listens, 1 asks, memcached is down, 1 leaves: ECONNREFUSED, "
	  "memcached is up, 1 waits, 0 accepts nobody"),
	STEPS("or at once, if the client calls again",
	  "0 listens, 1 asks, memcached is down, 1 leaves: ECONNREFUSED, 1 leaves: ECONNREFUSED, "
	  "memcached is up, 1 leaves, 0 accepts nobody"),
	STEPS("the same at a silent server",
	  "0 listens, 1 asks, memcached is silent, 1 leaves: EHOSTDOWN"),
	STEPS("a listener that refuses learns that its server stores no more",
	  "0 listens, 1 asks, 0 accepts 1, memcached is full, 0 refuses: ENOBUFS"),
	STEPS("a server fails for a moment, but works again when the client leaves",
	  "1 asks, memcached is down, 1 waits once: EAGAIN server a:1, memcached is up, "
	  "1 leaves, 0 listens, 0 accepts nobody"),
	STEPS("a client without a rank that gives up ends only the waits for its own records",
	  "0 listens, 1 asks, 0 accepts 1, 0-1 publish, 0 connects, 1 gives up, "
	  "0 confirms: ECONNABORTED has failed: no more, 0 waits, 2 asks, 0 accepts 2"),

	/* a server that loses something, or is away */
	STEPS("a client that waits stores the list, which is all that was evicted",
	  "1 asks, memcached evicts list, 0 listens, 0 accepts nobody, 1 waits, 0 accepts 1, "
	  "memcached evicts list, 0 accepts nobody, 1 waits, 0 accepts nobody, 2 listens, "
	  "2 accepts 1 again"),
	STEPS("clients that wait store their requests, which were evicted",
	  "0 listens, 1 asks, memcached evicts 1, 0 accepts nobody, 1 waits, 0 accepts 1, "
	  "memcached evicts list, 2 asks, 0 accepts 2, 0 accepts nobody, memcached evicts 2, "
	  "2 waits, 1 waits, 0 accepts nobody, 3 listens, 3 accepts 2 again, 3 accepts 1 again"),
	STEPS("a request is served once, however often the server is restarted",
	  "0 listens, 1 asks, 0 accepts 1, memcached restarts, 1 waits, 0 accepts nobody, "
	  "memcached restarts, 1 waits, memcached restarts, 1 waits, 0 accepts nobody, "
	  "2 asks, 0 accepts 2, 0 accepts nobody"),
	STEPS("clients that wait ask again on an empty server, and the next listener gets them all",
	  "0 listens, 1-2 ask, 0 accepts 1, memcached restarts, 3 asks, 1-2 wait, 0 accepts 2-3, "
	  "0 accepts nobody, 0 dies, 0 listens, 0 accepts 1-3 again, 0 accepts nobody, "
	  "2 leaves, 4 listens, 4 accepts 1 again, 4 accepts 3 again, 4 accepts nobody"),
	STEPS("a listener gets a request that the former one had before a restart, and passed over",
	  "0 listens, 1 asks, 0 accepts 1, memcached restarts, 1 waits, 2 asks, 0 accepts 2, "
	  "0 dies, 0 listens, 0 accepts 1-2 again, 0 accepts nobody"),
	STEPS("a server is away",
	  "0 opens, memcached is down, 0 asks: ECONNREFUSED tried for 10 s: server a:1, "
	  "0 listens: ECONNREFUSED, memcached is up, 0 listens, memcached is down, "
	  "0 accepts: ECONNREFUSED, 0 accepts once: EAGAIN server a:1, memcached is up, "
	  "1 asks, 0 accepts 1"),
	STEPS("a request is accepted once, and its client is told the truth",
	  "a command fails, 1 asks, 0 listens, 0 accepts 1, 2 asks, 0 accepts 2, "
	  "0 accepts once: EAGAIN, 1 leaves, memcached makes late writes"),
	STEPS("the same after a server lost everything and its clients ask again",
	  "0 listens, 1-2 ask, 2 publishes end, 0 accepts 1, memcached restarts, "
	  "memcached is slow, a command fails, 2 waits, 1 waits, memcached makes late writes, "
	  "0 accepts 2, 0 accepts nobody, memcached has qp/end"),

	/* the list */
	STEPS("whoever comes and goes leaves nothing in the list",
	  "0 listens, 2 asks, 0 accepts 2, 500 times 1 asks then 0 accepts 1 then 1 leaves, "
	  "the list has 80-16384, 3 listens, the list has 80-16384, 3 accepts 2 again, "
	  "3 accepts nobody"),
	STEPS("whoever comes and goes leaves nothing in the list once a process listens",
	  "2 asks, 500 times 1 asks then 1 leaves, 3 listens, the list has 80-16384, "
	  "3 accepts 2, 3 accepts nobody"),
	STEPS("a list has 12 bytes for each client that was accepted, and is renewed in time",
	  "0 listens, 4 times 1-200 ask then 0 accepts 1-200, the list has 9600-23296, "
	  "8 times 600 seconds pass then 1 waits then 0 accepts nobody, "
	  "the list has 9600-23296, 201 listens, 201 accepts 1 again"),
	STEPS("a listener writes a list of many that wait again, with many of them in one entry",
	  "memcached takes 1048496, 1 asks, requests fill 700000, 2 asks, 0 listens, "
	  "the list has 96000-200000, 0 accepts 1"),
	STEPS("while a listener accepts, no client is refused for what the list does not need",
	  "memcached takes 1048496, 1 asks, requests fill 1048496, 0 listens, 0 accepts 1, "
	  "ends fill 1048496, "
	  "2 asks once: EAGAIN ; its listener makes room when it next accepts, "
	  "2 asks while 0 accepts 2, ends fill 1048496, 1 leaves"),
	STEPS("nor on a small server",
	  "memcached takes 32768, 1 asks, requests fill 32768, 0 listens, 0 accepts 1, "
	  "ends fill 32768, "
	  "2 asks once: EAGAIN ; its listener makes room when it next accepts, "
	  "2 asks while 0 accepts 2, ends fill 32768, 1 leaves"),
	STEPS("the latest foreign entries are kept, up to a limit, and hinder nobody",
	  "0 listens, 1-2 ask, 0 accepts 1-2, foreign entries fill 10000, "
	  "4 times 1300 seconds pass then 1-2 wait then 0 accepts once: EAGAIN, "
	  "the list has 10000-10400, foreign entries fill 100000, 0 accepts once: EAGAIN, "
	  "the list has 16384-16784, "
	  "4 times 1300 seconds pass then 1-2 wait then 0 accepts once: EAGAIN, "
	  "the list has 16384-16784, 3 listens, 3 accepts 1 again"),
	STEPS("a list lives on that its first client stored long before anybody listened",
	  "1-2 ask, 4 times 860 seconds pass then 1-2 wait, 0 listens, 0 accepts 1-2, "
	  "0 accepts nobody, 200 seconds pass, the list has 1-400, 0 accepts nobody, "
	  "3 listens, 3 accepts 1 again"),

	SCENE(asked_and_accepted),
	SCENE(data_of_all_sizes),
	SCENE(names_and_arguments),
	SCENE(a_request_that_was_never_made),
	SCENE(a_listener_that_fails),
	SCENE(others_listen_meanwhile),
	SCENE(two_threads_listen),
	SCENE(one_thread_listens_and_another_stops),
	SCENE(leaves_while_requests_are_stored_again),
	SCENE(a_listener_that_stores_late),
	SCENE(foreign_records),
	SCENE(a_request_without_a_record),
	SCENE(requests_are_forgotten),
	SCENE(a_listener_of_a_full_list),
	SCENE(a_full_list_is_named),
	SCENE(many_that_came_and_went),
	SCENE(many_requests_and_a_restart),
	SCENE(a_request_and_a_silent_server),
	SCENE(a_request_that_failed),
	SCENE(closed_while_its_request_moves),
	SCENE(an_answer_that_does_not_come),
	SCENE(several_servers),
	SCENE(looking_once),
	SCENE(costs_of_a_request),
	SCENE(clients_with_datagrams),
	SCENE(a_request_that_cannot_be_kept),
	SCENE(a_presence_that_cannot_be_kept),
	SCENE(an_echo_that_cannot_be_kept),
};

static void scene_play(void **state)
{
	static const enum fake_kv_manner manners[] = {
		FAKE_KV_REFUSED, FAKE_KV_LOST, FAKE_KV_LATE,
	};
	const struct scene *scene = *state;
	size_t k;

	if (scene->function) {
		scene->function();
		return;
	}
	if (!strstr(scene->steps, "a command fails")) {
		play("%s", scene->steps);
		return;
	}
	for (k = 0; k < BEEST_COUNT(manners); k++) {
		turn.manner = manners[k];
		for (turn.nth = 1, fake_kv.fired = 1; fake_kv.fired && turn.nth <= 60; turn.nth++) {
			begin_again();
			play("%s", scene->steps);
		}
		assert_true(turn.nth > 20);
	}
}

int main(void)
{
	struct CMUnitTest tests[BEEST_COUNT(scenes)];
	size_t i;

	for (i = 0; i < BEEST_COUNT(scenes); i++)
		tests[i] = (struct CMUnitTest){
			scenes[i].title, scene_play, setup, teardown, (void *)&scenes[i],
		};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
