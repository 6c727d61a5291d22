/* SPDX-License-Identifier: MIT */
/*
 * service.c - clients that are on no list, and the process that serves them
 *
 * Clients and servers are coroutines with their own contexts, over the fake device and the
 * fake servers.
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

#define CLIENTS 200
#define ENDS (2 * CLIENTS + 8)

static int stride;			/* of unit_stride() */
static size_t crowd_size;		/* CLIENTS, or fewer if each is expensive */

/* One process. */
struct end {
	struct hartebeest_context *hb;
	struct hartebeest_client request;
	int64_t delay;
	int ret;
	char error[400];
};

static struct end ends[ENDS];
static const char *servers;
static const char *ttl;

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
	ttl = "exchange.ttl=1h";
	return 0;
}

static void must(int ret)
{
	if (ret >= 0)
		return;
	print_error("%s\n", hartebeest_error());
	fail();
}

/* Opens a context that looks like a separate process, without a rank. */
static struct hartebeest_context *open_end(struct end *end)
{
	const char *const options[] = { servers, ttl, "job.id=job", "exchange.timeout=10s", NULL };

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
	for (i = 0; i < ENDS; i++)
		kill_end(&ends[i]);
	registry_end();
	if (fake_verbs.open)
		print_error("%d objects are still open\n", fake_verbs.open);
	return fake_verbs.open;
}

static int64_t soon(int64_t ms)
{
	return beest_clock_now() + ms * BEEST_MS;
}

/* Asks for the service "kv" with the data @text. */
static struct hartebeest_client *ask(struct end *end, const char *text)
{
	if (!end->hb)
		open_end(end);
	must(hartebeest_service_request(end->hb, "kv", text, strlen(text), &end->request, 0));
	return &end->request;
}

static struct end *listen_at(struct end *end)
{
	if (!end->hb)
		open_end(end);
	must(hartebeest_service_listen(end->hb, "kv", 0));
	return end;
}

/* The data of the next request; "nobody" if none comes within 5 s. */
static const char *accepted(struct end *end)
{
	static char text[HARTEBEEST_SERVICE_DATA + 1];
	int ret;

	ret = hartebeest_service_accept(end->hb, "kv", &end->request, soon(5000));
	if (ret == -ETIMEDOUT)
		return "nobody";
	must(ret);
	memcpy(text, end->request.data, end->request.length);
	text[end->request.length] = '\0';
	return text;
}

#define NOBODY(end) assert_string_equal(accepted(end), "nobody")

/* A client that waits for something also looks after its records. */
static void wait_in_vain(struct end *end)
{
	char byte[4];

	assert_true(hartebeest_msg_wait(end->hb, "nothing", byte, sizeof(byte), NULL, 0) < 0);
}

/* ------------------------------------------------------------------------- requests --- */

static void asked_and_accepted(void **state)
{
	struct end *server = &ends[0], *client = &ends[1];
	struct hartebeest_client *request, *sight = &server->request;
	static const struct hartebeest_client none;

	(void)state;
	listen_at(server);
	request = ask(client, "hello");
	assert_string_equal(accepted(server), "hello");
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
	NOBODY(server);
	assert_error_has("no client has asked for service 'kv'");
}

/* A request is stored whether or not anybody listens; the oldest is served first. */
static void asked_before_anybody_listens(void **state)
{
	struct end *server = &ends[0];
	char text[16];
	int i;

	(void)state;
	for (i = 1; i <= 100; i++) {
		snprintf(text, sizeof(text), "%d", i);
		ask(&ends[i], text);
	}
	listen_at(server);
	for (i = 1; i <= 100; i++) {
		snprintf(text, sizeof(text), "%d", i);
		assert_string_equal(accepted(server), text);
		assert_int_equal(server->request.again, 0);
	}
	NOBODY(server);
}

static void data_of_all_sizes(void **state)
{
	struct end *server = &ends[0], *client = &ends[1];
	static unsigned char large[1 << 20];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(large); i++)
		large[i] = (unsigned char)(i * 7);
	listen_at(server);
	open_end(client);
	for (i = 0; i <= HARTEBEEST_SERVICE_DATA; i += 256) {
		must(hartebeest_service_request(client->hb, "kv", i ? large : NULL, i,
						&client->request, 0));
		assert_string_not_equal(accepted(server), "nobody");
		assert_int_equal(server->request.length, i);
		assert_memory_equal(server->request.data, large, i);
	}
	assert_int_equal(hartebeest_service_request(client->hb, "kv", large,
						    HARTEBEEST_SERVICE_DATA + 1,
						    &client->request, 0), -EMSGSIZE);
	assert_int_equal(hartebeest_service_request(client->hb, "kv", large, sizeof(large),
						    &client->request, 0), -EMSGSIZE);
	assert_error_has("1048576 bytes");
	NOBODY(server);
}

static void names_and_arguments(void **state)
{
	static const char *const bad[] = {
		"", "a b", "a/b", "a\n", "\xc3\xa4",
		"12345678901234567890123456789012345678901234567890123456789012345",
	};
	struct end *end = &ends[0];
	size_t i;

	(void)state;
	open_end(end);
	for (i = 0; i < BEEST_COUNT(bad); i++) {
		assert_int_equal(hartebeest_service_listen(end->hb, bad[i], 0), -EINVAL);
		assert_int_equal(hartebeest_service_accept(end->hb, bad[i], &end->request, 0),
				 -EINVAL);
		assert_int_equal(hartebeest_service_request(end->hb, bad[i], NULL, 0,
							    &end->request, 0), -EINVAL);
		assert_int_equal(hartebeest_service_close(end->hb, bad[i]), -EINVAL);
	}
	assert_int_equal(hartebeest_service_listen(end->hb, NULL, 0), -EINVAL);
	assert_int_equal(hartebeest_service_accept(end->hb, "kv", NULL, 0), -EINVAL);
	assert_int_equal(hartebeest_service_request(end->hb, "kv", NULL, 1, &end->request, 0),
			 -EINVAL);
	assert_int_equal(hartebeest_service_accept(end->hb, "kv", &end->request, 0), -ENOTCONN);
	assert_int_equal(hartebeest_service_close(end->hb, "kv"), -ENOENT);
	assert_int_equal(hartebeest_service_leave(end->hb, "kv", &end->request), -ENOENT);
	must(hartebeest_service_listen(end->hb, bad[5] + 1, 0));
	listen_at(end);
	assert_int_equal(hartebeest_service_leave(end->hb, "kv", &end->request), -ENOENT);
	assert_error_is("this is no request of service 'kv': it has no number");
	memset(&end->request, 'x', sizeof(end->request));
	assert_int_equal(hartebeest_service_leave(end->hb, "kv", &end->request), -EINVAL);
	assert_error_is("this is no request of service 'kv': its key has no end");
}

static void two_services(void **state)
{
	struct end *one = &ends[0], *other = &ends[1], *client = &ends[2];
	struct hartebeest_client request;

	(void)state;
	listen_at(one);
	open_end(other);
	must(hartebeest_service_listen(other->hb, "log", 0));
	must(hartebeest_service_listen(one->hb, "kv2", 0));
	open_end(client);
	must(hartebeest_service_request(client->hb, "log", "a", 1, &request, 0));
	ask(client, "b");
	must(hartebeest_service_request(client->hb, "log", "c", 1, &request, 0));
	assert_string_equal(accepted(one), "b");
	NOBODY(one);
	must(hartebeest_service_accept(other->hb, "log", &request, soon(100)));
	assert_int_equal(request.data[0], 'a');
	must(hartebeest_service_accept(other->hb, "log", &request, soon(100)));
	assert_int_equal(request.data[0], 'c');
	assert_int_equal(hartebeest_service_accept(one->hb, "kv2", &request, soon(100)),
			 -ETIMEDOUT);
}

/* -------------------------------------------------------------------------- listeners --- */

static void the_last_listener_has_it(void **state)
{
	struct end *first = &ends[0], *second = &ends[1];

	(void)state;
	listen_at(first);
	ask(&ends[2], "one");
	assert_string_equal(accepted(first), "one");
	listen_at(second);
	assert_int_equal(hartebeest_service_accept(first->hb, "kv", &first->request, soon(100)),
			 -EADDRINUSE);
	assert_error_has("service 'kv' is served by pid");
	ask(&ends[3], "two");
	assert_string_equal(accepted(second), "one");
	assert_int_equal(second->request.again, 1);
	assert_string_equal(accepted(second), "two");
	assert_int_equal(second->request.again, 0);
	assert_int_equal(hartebeest_service_accept(first->hb, "kv", &first->request, soon(100)),
			 -EADDRINUSE);

	listen_at(first);		/* listens again */
	assert_string_equal(accepted(first), "one");
	assert_string_equal(accepted(first), "two");
	assert_int_equal(first->request.again, 1);
	NOBODY(first);
	assert_int_equal(hartebeest_service_accept(second->hb, "kv", &first->request, soon(100)),
			 -EADDRINUSE);
}

static void assert_replaced(struct end *end)
{
	assert_int_equal(hartebeest_service_accept(end->hb, "kv", &end->request, soon(100)),
			 -EADDRINUSE);
}

/* It stays replaced until it listens again, and then replaces the other, even without the list. */
static void a_listener_that_was_replaced(void **state)
{
	struct end *first = &ends[0], *second = &ends[1];

	(void)state;
	listen_at(first);
	listen_at(second);
	assert_replaced(first);
	fake_kv_flush(fake_kv_server("a:1"));
	assert_replaced(first);
	ask(&ends[2], "one");
	assert_string_equal(accepted(second), "one");

	listen_at(first);
	assert_replaced(second);
	fake_kv_flush(fake_kv_server("a:1"));
	listen_at(first);
	assert_replaced(second);
	ask(&ends[3], "two");
	assert_string_equal(accepted(first), "two");
}

/* One that cannot listen leaves the service to others. */
static void a_listener_that_fails(void **state)
{
	struct fake_kv_server *memcached = fake_kv_server("a:1");
	struct end *first = &ends[0], *second = &ends[1];
	int n, ret, failed = 0;
	uint64_t runs;

	for (n = 1; n <= 5; n++) {
		teardown(state);
		setup(state);
		listen_at(first);
		open_end(second);
		fake_kv_fail(FAKE_KV_REQUEST, n, EHOSTDOWN, FAKE_KV_REFUSED);
		ret = hartebeest_service_listen(second->hb, "kv", HARTEBEEST_ONCE);
		ask(&ends[2], "one");
		failed += ret < 0;
		if (ret < 0)
			assert_int_equal(hartebeest_service_accept(second->hb, "kv",
								   &second->request, soon(100)),
					 -ENOTCONN);
		assert_string_equal(accepted(ret < 0 ? first : second), "one");
		assert_int_equal(hartebeest_service_close(second->hb, "kv"), ret < 0 ? -ENOENT : 0);
	}
	assert_in_range(failed, 2, 4);

	/* a listener that repeats itself in vain still listens */
	assert_string_equal(accepted(listen_at(first)), "one");
	memcached->error = EHOSTDOWN;
	runs = fake_kv.runs;
	assert_int_equal(hartebeest_service_listen(first->hb, "kv", soon(100)), -EHOSTDOWN);
	assert_in_range(fake_kv.runs - runs, 1, 200);	/* thousands without pauses */
	memcached->error = 0;
	ask(&ends[2], "two");
	assert_string_equal(accepted(first), "two");
}

static int requests_until_others;

/* The second of them comes after all that its list names, so also after a process of its second. */
static void others_listen(struct beest_kv *kv, const struct beest_kv_request *request)
{
	(void)request;
	if (kv != ends[0].hb->registry->kv || --requests_until_others)
		return;
	listen_at(&ends[1]);
	listen_at(&ends[2]);
}

/* Wherever others begin to listen, one process does then, and the others hear of it. */
static void others_listen_meanwhile(void **state)
{
	int i, at, ret, listening;

	for (at = 1; at <= 6; at++) {
		for (i = 0; i < 3; i++)
			open_end(&ends[i]);
		wait_in_vain(&ends[0]);		/* connects */
		requests_until_others = at;
		fake_kv.hook = others_listen;
		must(hartebeest_service_listen(ends[0].hb, "kv", soon(1000)));
		fake_kv.hook = NULL;
		for (i = listening = 0; i < 3; i++) {
			ret = hartebeest_service_accept(ends[i].hb, "kv", &ends[i].request,
							soon(100));
			assert_true(ret == -ETIMEDOUT || ret == -EADDRINUSE ||
				    requests_until_others > 0);
			listening += ret == -ETIMEDOUT;
		}
		assert_int_equal(listening, 1);
		teardown(state);
		setup(state);
	}
}

static void listening_twice_changes_nothing(void **state)
{
	struct end *server = &ends[0];

	(void)state;
	listen_at(server);
	ask(&ends[1], "one");
	ask(&ends[2], "two");
	assert_string_equal(accepted(server), "one");
	listen_at(server);
	assert_string_equal(accepted(server), "two");
	NOBODY(server);
}

/* Nor if the server has evicted the list. */
static void listening_again_after_an_eviction(void **state)
{
	struct end *server = &ends[0];

	(void)state;
	listen_at(server);
	ask(&ends[1], "one");
	assert_string_equal(accepted(server), "one");
	assert_true(fake_kv_evict(fake_kv_server("a:1"), "hb1/job/service/kv/list"));
	listen_at(server);
	NOBODY(server);
}

/*
 * After it was killed and started again, it gets the requests that are still stored, and new
 * ones.
 */
static void a_listener_that_is_killed(void **state)
{
	struct end *server = &ends[0];
	char text[16];
	int i;

	(void)state;
	listen_at(server);
	for (i = 1; i <= 40; i++) {
		snprintf(text, sizeof(text), "%d", i);
		ask(&ends[i], text);
	}
	for (i = 1; i <= 30; i++)
		assert_string_not_equal(accepted(server), "nobody");
	for (i = 1; i <= 40; i += 2)
		must(hartebeest_service_leave(ends[i].hb, "kv", &ends[i].request));
	kill_end(server);

	listen_at(server);
	for (i = 2; i <= 40; i += 2) {
		snprintf(text, sizeof(text), "%d", i);
		assert_string_equal(accepted(server), text);
		assert_int_equal(server->request.again, i <= 30);
	}
	NOBODY(server);
}

static void a_listener_that_stops(void **state)
{
	struct end *server = &ends[0];

	(void)state;
	listen_at(server);
	ask(&ends[1], "one");
	assert_string_equal(accepted(server), "one");
	must(hartebeest_service_close(server->hb, "kv"));
	assert_int_equal(hartebeest_service_accept(server->hb, "kv", &server->request, soon(100)),
			 -ENOTCONN);
	assert_int_equal(hartebeest_service_close(server->hb, "kv"), -ENOENT);
	ask(&ends[2], "two");
	listen_at(&ends[3]);
	assert_string_equal(accepted(&ends[3]), "one");
	assert_string_equal(accepted(&ends[3]), "two");
}

/* --------------------------------------------------------------------------- leaving --- */

static void a_client_that_left_is_not_accepted(void **state)
{
	struct end *server = &ends[0];

	(void)state;
	ask(&ends[1], "gone");
	ask(&ends[2], "closed");
	ask(&ends[3], "here");
	must(hartebeest_service_leave(ends[1].hb, "kv", &ends[1].request));
	assert_int_equal(hartebeest_service_leave(ends[1].hb, "kv", &ends[1].request), -ENOENT);
	close_end(&ends[2]);
	listen_at(server);
	assert_string_equal(accepted(server), "here");
	NOBODY(server);
	ask(&ends[1], "back");
	assert_string_equal(accepted(server), "back");
}

/* A request that the server refused is given to no later listener, although its client lives. */
static void refused_by_later_listeners(void **state)
{
	struct end *server = &ends[0];
	struct hartebeest_client refused;

	(void)state;
	listen_at(server);
	ask(&ends[1], "no");
	ask(&ends[2], "yes");
	assert_string_equal(accepted(server), "no");
	refused = server->request;
	must(hartebeest_service_leave(server->hb, "kv", &refused));
	assert_string_equal(accepted(server), "yes");
	wait_in_vain(&ends[1]);
	listen_at(&ends[3]);
	assert_string_equal(accepted(&ends[3]), "yes");
	NOBODY(&ends[3]);
}

/* Nor if the client looks only after a long while, since it computes. */
static void refused_after_a_long_while(void **state)
{
	struct end *server = &ends[0];

	(void)state;
	listen_at(server);
	ask(&ends[1], "no");
	assert_string_equal(accepted(server), "no");
	must(hartebeest_service_leave(server->hb, "kv", &server->request));
	registry_stage.now += 120 * BEEST_SECOND;
	wait_in_vain(&ends[1]);
	listen_at(&ends[2]);
	NOBODY(&ends[2]);
}

/* ---------------------------------------------------------------------------- the list --- */

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

/* Records that are none, or of another client, and entries that are none. */
static void foreign_records(void **state)
{
	struct fake_kv_server *memcached = fake_kv_server("a:1");
	struct end *server = &ends[0];
	const struct beest_record records[] = {
		{ .kind = BEEST_KIND_REQUEST, .rank = -1 },
		{ .kind = BEEST_KIND_MESSAGE, .rank = -1 },
	};
	static char large[1 << 20];
	struct beest_request_id id = { 7, 1 };
	uint8_t bytes[64];
	size_t i, size;
	int ret;

	(void)state;
	listen_at(server);
	ask(&ends[1], "1");
	for (i = 0; i < BEEST_COUNT(records); i++, id.number++) {
		ret = beest_record_encode(NULL, &records[i], key_of(&id), bytes, sizeof(bytes));
		fake_kv_put(memcached, key_of(&id), bytes, (size_t)ret, 600);
		list_forge(BEEST_SERVICE_ASKS, &id);
	}
	fake_kv_put(memcached, key_of(&id), "garbage", 7, 600);
	list_forge(BEEST_SERVICE_ASKS, &id);
	id.number++;
	fake_kv_put(memcached, key_of(&id), large, sizeof(large), 600);
	list_forge(BEEST_SERVICE_ASKS, &id);
	list_extend("noise", 5);
	id.number++;
	list_forge(BEEST_SERVICE_ASKS, &id);		/* there is no record */
	list_forge((enum beest_service_word)77, &id);
	ask(&ends[2], "2");
	assert_string_equal(accepted(server), "1");
	assert_string_equal(accepted(server), "2");
	NOBODY(server);

	/* the record of another request under this key: its sum is that of another key */
	id.number++;
	size = 0;
	fake_kv_get(memcached, key_of_request(&ends[1].request), &size);
	memcpy(large, fake_kv_get(memcached, key_of_request(&ends[1].request), NULL), size);
	fake_kv_put(memcached, key_of(&id), large, size, 600);
	list_forge(BEEST_SERVICE_ASKS, &id);
	NOBODY(server);
	ask(&ends[3], "3");
	assert_string_equal(accepted(server), "3");
}

/* A client that was killed between two steps delays nobody, and costs little from then on. */
static void a_request_without_a_record(void **state)
{
	struct beest_request_id id = { 7, 1 };
	struct end *server = &ends[0];
	int64_t begin;
	uint64_t keys;

	(void)state;
	listen_at(server);
	for (; id.number <= 100; id.number++)
		list_forge(BEEST_SERVICE_ASKS, &id);
	ask(&ends[1], "behind");
	begin = beest_clock_now();
	assert_string_equal(accepted(server), "behind");
	assert_true(beest_clock_now() - begin < 100 * BEEST_MS);
	NOBODY(server);
	registry_stage.now += 3600 * BEEST_SECOND;
	NOBODY(server);
	assert_non_null(fake_kv_get(fake_kv_server("a:1"), list_key, NULL));
	keys = fake_kv.keys;
	assert_int_equal(hartebeest_service_accept(server->hb, "kv", &server->request,
						   HARTEBEEST_ONCE), -EAGAIN);
	assert_in_range(fake_kv.keys - keys, 1, 6);
}

static void requests_start(struct beest_list *list)
{
	open_end(&ends[0]);
	wait_in_vain(&ends[0]);			/* connects */
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
static void requests_are_forgotten(void **state)
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

	(void)state;
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

/* The greatest word of a list counts, and what a listener knows outlives the list. */
static void requests_only_go_on(void **state)
{
	enum { ASKS = BEEST_SERVICE_ASKS, ACCEPTED = BEEST_SERVICE_ACCEPTED,
	       ENDED = BEEST_SERVICE_ENDED };
	static const struct {
		uint8_t words[3];	/* in the list, in their order */
		enum beest_request_state before, after;
		int listed, reached;
	} rows[] = {
		{ { ASKS }, BEEST_REQUEST_PENDING, BEEST_REQUEST_PENDING, ASKS, ASKS },
		{ { ACCEPTED, ASKS }, BEEST_REQUEST_PENDING, BEEST_REQUEST_INHERITED, ACCEPTED,
		  ACCEPTED },
		{ { ENDED, ACCEPTED, ASKS }, BEEST_REQUEST_PENDING, BEEST_REQUEST_PENDING, ENDED,
		  ENDED },
		{ { ASKS }, BEEST_REQUEST_INHERITED, BEEST_REQUEST_INHERITED, ASKS, ACCEPTED },
		{ { ASKS }, BEEST_REQUEST_ACCEPTED, BEEST_REQUEST_ACCEPTED, ASKS, ACCEPTED },
		{ { ACCEPTED }, BEEST_REQUEST_ACCEPTED, BEEST_REQUEST_ACCEPTED, ACCEPTED,
		  ACCEPTED },
		{ { ACCEPTED }, BEEST_REQUEST_CLOSED, BEEST_REQUEST_CLOSED, ACCEPTED, ENDED },
		{ { 77 }, BEEST_REQUEST_ACCEPTED, BEEST_REQUEST_ACCEPTED, BEEST_LISTED_NOT,
		  ACCEPTED },
		{ { 0 }, BEEST_REQUEST_CLOSED, BEEST_REQUEST_CLOSED, BEEST_LISTED_NOT, ENDED },
	}, *row;
	const struct beest_request_id id = { 7, 1 };
	struct beest_requests requests = { 0 };
	struct beest_requests_row *request;
	struct beest_list list;
	size_t i;

	(void)state;
	requests_start(&list);
	for (row = rows; row < rows + BEEST_COUNT(rows); row++) {
		list_forge(BEEST_SERVICE_ASKS, &id);
		requests_look(&requests, &list);
		request = beest_requests_find(&requests, &id);
		request->state = row->before;
		fake_kv_evict(fake_kv_server("a:1"), list_key);
		for (i = 0; i < BEEST_COUNT(row->words) && row->words[i]; i++)
			list_forge((enum beest_service_word)row->words[i], &id);
		requests_look(&requests, &list);
		assert_int_equal(request->listed, row->listed);
		assert_int_equal(request->state, row->after);
		assert_int_equal(beest_requests_reached(request), row->reached);
		assert_int_equal(requests.asked, row->reached == ASKS && row->listed);
		assert_int_equal(requests.accepted, row->reached == ACCEPTED && row->listed);
		fake_kv_evict(fake_kv_server("a:1"), list_key);
		beest_requests_end(&requests);
	}
}

/* The list is all that the server lost: its client puts it right while it waits. */
static void an_evicted_list(void **state)
{
	struct end *server = &ends[0];

	(void)state;
	ask(&ends[1], "one");
	assert_true(fake_kv_evict(fake_kv_server("a:1"), list_key));
	listen_at(server);
	NOBODY(server);
	wait_in_vain(&ends[1]);
	assert_string_equal(accepted(server), "one");
	assert_true(fake_kv_evict(fake_kv_server("a:1"), list_key));
	NOBODY(server);
	wait_in_vain(&ends[1]);
	NOBODY(server);
	listen_at(&ends[2]);
	assert_string_equal(accepted(&ends[2]), "one");
	assert_int_equal(ends[2].request.again, 1);
}

/* Whoever comes and goes leaves nothing once a process listens. */
static void a_list_stays_short(void **state)
{
	struct end *server = &ends[0], *client = &ends[1], *stays = &ends[2];
	int listens, i;

	for (listens = 0; listens <= 1; listens++) {
		teardown(state);
		setup(state);
		if (listens)
			listen_at(server);
		ask(stays, "stays");
		for (i = 0; i < 500; i++) {
			ask(client, "goes");
			if (listens)
				assert_string_not_equal(accepted(server), "nobody");
			must(hartebeest_service_leave(client->hb, "kv", &client->request));
		}
		if (listens)
			assert_in_range(list_size(), 80, 16384);
		listen_at(&ends[3]);
		assert_in_range(list_size(), 80, 16384);
		assert_string_equal(accepted(&ends[3]), "stays");
		assert_int_equal(ends[3].request.again, listens);
		NOBODY(&ends[3]);
	}
}

/* A list has 12 bytes for each client that was accepted, and is renewed before it expires. */
static void a_list_of_many(void **state)
{
	struct end *server = &ends[0];
	int i;

	(void)state;
	listen_at(server);
	for (i = 0; i < 4 * CLIENTS; i++) {
		ask(&ends[1 + i % CLIENTS], "x");
		assert_string_equal(accepted(server), "x");
	}
	assert_in_range(list_size(), 12 * 4 * CLIENTS, 4096 + 24 * 4 * CLIENTS);
	for (i = 0; i < 8; i++) {
		registry_stage.now += 600 * BEEST_SECOND;
		wait_in_vain(&ends[1]);
		NOBODY(server);
	}
	assert_true(list_size() > 12 * 4 * CLIENTS);
	listen_at(&ends[ENDS - 1]);
	assert_string_equal(accepted(&ends[ENDS - 1]), "x");
	assert_int_equal(ends[ENDS - 1].request.again, 1);
}

/* A megabyte is the most that a server takes by default. */
#define LIST_MAX ((1 << 20) - 80)

/* The listener writes the list again, with many requests in one entry. */
static void a_list_of_many_that_wait(void **state)
{
	(void)state;
	fake_kv_server("a:1")->item_max = LIST_MAX;
	ask(&ends[1], "first");
	list_fill(BEEST_SERVICE_ASKS, 1, 700000);
	ask(&ends[2], "last");
	listen_at(&ends[0]);
	assert_in_range(list_size(), 12 * 8000, 200000);
	assert_string_equal(accepted(&ends[0]), "first");
}

static void accept_one(void *data);
static void request_one(void *data);

/* While a listener accepts, no client is refused for what is not needed, on a small server too. */
static void a_list_that_is_full(void **state)
{
	static const size_t sizes[] = { 32768, LIST_MAX };
	struct end *server = &ends[0], *client = &ends[2];
	size_t i;

	for (i = 0; i < BEEST_COUNT(sizes); i++) {
		teardown(state);
		setup(state);
		fake_kv_server("a:1")->item_max = sizes[i];
		ask(&ends[1], "one");
		list_fill(BEEST_SERVICE_ASKS, 1, sizes[i]);
		listen_at(server);
		assert_string_equal(accepted(server), "one");
		list_fill(BEEST_SERVICE_ENDED, 1, sizes[i]);
		open_end(client);
		assert_int_equal(hartebeest_service_request(client->hb, "kv", "x", 1,
							    &client->request, HARTEBEEST_ONCE),
				 -EAGAIN);
		assert_error_has("; its listener makes room when it next accepts");
		crew_start(request_one, client);
		crew_start(accept_one, server);
		registry_run();
		assert_int_equal(client->ret, 0);
		assert_int_equal(server->ret, 0);
		assert_string_equal(server->request.peer_key, client->request.key);
		list_fill(BEEST_SERVICE_ENDED, 1, sizes[i]);
		must(hartebeest_service_leave(ends[1].hb, "kv", &ends[1].request));
	}
}

/* What a listener has had and cannot append gets into the list nevertheless. */
static void a_listener_of_a_full_list(void **state)
{
	struct end *server = &ends[0];
	int i;

	(void)state;
	listen_at(server);
	for (i = 1; i <= 100; i++)
		ask(&ends[i], "x");
	fake_kv_server("a:1")->item_max = list_size() + 40;
	for (i = 1; i <= 100; i++)
		assert_string_equal(accepted(server), "x");
	NOBODY(server);
	kill_end(server);
	listen_at(server);
	for (i = 1; i <= 100; i++) {
		assert_string_equal(accepted(server), "x");
		assert_int_equal(server->request.again, 1);
	}
}

static char warning[400];

static void keep_warning(void *data, int level, const char *text)
{
	(void)data;
	if (level == HARTEBEEST_LOG_WARN)
		snprintf(warning, sizeof(warning), "%s", text);
}

/* Both ends say which list it is, how large, and what helps. */
static void a_full_list_is_named(void **state)
{
	static const struct {
		size_t size;
		const char *text;
	} rows[] = {
		{ 32768, "; start server a:1 with a larger memcached -I" },
		{ LIST_MAX, "; end some by hartebeest_service_leave(), or use several services" },
	}, *row;
	struct end *server = &ends[0], *client = &ends[1], *replacement = &ends[2];
	char text[200];

	for (row = rows; row < rows + BEEST_COUNT(rows); row++) {
		teardown(state);
		setup(state);
		listen_at(server);
		list_fill(BEEST_SERVICE_ACCEPTED, BEEST_SERVICE_IDS, row->size);
		fake_kv_server("a:1")->item_max = list_size() + 40;
		snprintf(text, sizeof(text), "its list is full: %zu bytes, for %zu requests that "
			 "are not over%s", list_size(), (list_size() - 39) / 1569 * 128, row->text);
		open_end(client);
		assert_int_equal(hartebeest_service_request(client->hb, "kv", "x", 1,
							    &client->request, HARTEBEEST_ONCE),
				 -EAGAIN);
		assert_error_has("service 'kv' (key hb1/job/service/kv/list) was published, but ");
		assert_error_has(text);
		open_end(replacement);
		assert_int_equal(hartebeest_service_listen(replacement->hb, "kv", HARTEBEEST_ONCE),
				 -EAGAIN);
		assert_error_has(text);
	}

	must(hartebeest_log_set(server->hb, HARTEBEEST_LOG_WARN, keep_warning, NULL));
	assert_int_equal(hartebeest_service_accept(server->hb, "kv", &server->request,
						   HARTEBEEST_ONCE), -EAGAIN);
	assert_error_has("no client has asked for service 'kv'; its list is full: ");
	assert_error_has(rows[1].text);
	assert_non_null(strstr(warning, rows[1].text));
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

static void look_once(struct end *server)
{
	assert_int_equal(hartebeest_service_accept(server->hb, "kv", &server->request,
						   HARTEBEEST_ONCE), -EAGAIN);
}

static void list_renew(struct end *server)
{
	registry_stage.now += 1300 * BEEST_SECOND;
	wait_in_vain(&ends[1]);
	wait_in_vain(&ends[2]);
	look_once(server);
}

/* They are kept up to a limit, the latest ones, and hinder nobody. */
static void a_list_with_foreign_entries(void **state)
{
	struct end *server = &ends[0];
	int i;

	(void)state;
	listen_at(server);
	ask(&ends[1], "one");
	ask(&ends[2], "two");
	assert_string_equal(accepted(server), "one");
	assert_string_equal(accepted(server), "two");
	foreign_fill(10000);
	for (i = 0; i < 4; i++)
		list_renew(server);
	assert_in_range(list_size(), 10000, 10400);
	foreign_fill(100000);
	look_once(server);
	assert_in_range(list_size(), BEEST_REQUESTS_UNREAD, BEEST_REQUESTS_UNREAD + 400);
	for (i = 0; i < 4; i++)
		list_renew(server);
	assert_in_range(list_size(), BEEST_REQUESTS_UNREAD, BEEST_REQUESTS_UNREAD + 400);
	listen_at(&ends[3]);
	assert_string_equal(accepted(&ends[3]), "one");
}

/* Its first client stored it long before anybody listened: nothing else prolongs its life. */
static void a_list_that_is_old(void **state)
{
	struct end *server = &ends[0];
	int i;

	(void)state;
	ask(&ends[1], "one");
	ask(&ends[2], "two");
	for (i = 0; i < 4; i++) {
		registry_stage.now += 860 * BEEST_SECOND;
		wait_in_vain(&ends[1]);
		wait_in_vain(&ends[2]);
	}
	listen_at(server);
	assert_string_equal(accepted(server), "one");
	assert_string_equal(accepted(server), "two");
	NOBODY(server);
	registry_stage.now += 200 * BEEST_SECOND;
	assert_true(list_size() > 0);
	NOBODY(server);
	listen_at(&ends[3]);
	assert_string_equal(accepted(&ends[3]), "one");
	assert_int_equal(ends[3].request.again, 1);
}

/* What a listener remembers does not make its looks longer. */
static void many_that_came_and_went(void **state)
{
	struct end *server = &ends[0], *client = &ends[1];
	int i;

	(void)state;
	listen_at(server);
	ask(&ends[2], "stays");
	assert_string_equal(accepted(server), "stays");
	for (i = 0; i < 1000; i++) {
		ask(client, "goes");
		assert_string_equal(accepted(server), "goes");
		must(hartebeest_service_leave(client->hb, "kv", &client->request));
	}
	list_renew(server);
	requests_named = 0;
	look_once(server);
	assert_in_range(requests_named, 1, 100);
}

/* What was accepted once is not given again, though the server loses it between two looks. */
static void served_once_whatever_is_lost(void **state)
{
	struct end *server = &ends[0];
	int restarts, i;

	(void)state;
	listen_at(server);
	ask(&ends[1], "one");
	assert_string_equal(accepted(server), "one");
	for (restarts = 1; restarts <= 3; restarts++) {
		for (i = 0; i < restarts; i++) {
			fake_kv_restart(fake_kv_server("a:1"));
			wait_in_vain(&ends[1]);
		}
		NOBODY(server);
	}
	ask(&ends[2], "two");
	assert_string_equal(accepted(server), "two");
	NOBODY(server);
}

/* ------------------------------------------------------------------------ a lost server --- */

/* A waiting client asks again; the listener knows which requests it had. */
static void the_server_is_restarted(void **state)
{
	struct end *server = &ends[0];

	(void)state;
	listen_at(server);
	ask(&ends[1], "one");
	ask(&ends[2], "two");
	assert_string_equal(accepted(server), "one");
	fake_kv_restart(fake_kv_server("a:1"));
	ask(&ends[3], "three");
	wait_in_vain(&ends[1]);
	wait_in_vain(&ends[2]);
	assert_string_equal(accepted(server), "two");
	assert_string_equal(accepted(server), "three");
	NOBODY(server);

	kill_end(server);		/* the next listener gets all that are stored */
	listen_at(server);
	assert_string_equal(accepted(server), "one");
	assert_int_equal(server->request.again, 1);
	assert_string_equal(accepted(server), "two");
	assert_int_equal(server->request.again, 1);
	assert_string_equal(accepted(server), "three");
	assert_int_equal(server->request.again, 1);
	NOBODY(server);
	must(hartebeest_service_leave(ends[2].hb, "kv", &ends[2].request));
	listen_at(&ends[4]);
	assert_string_equal(accepted(&ends[4]), "one");
	assert_string_equal(accepted(&ends[4]), "three");
	NOBODY(&ends[4]);
}

/* A new listener gets a request that the old one had before the restart and passed over. */
static void had_before_the_restart(void **state)
{
	struct end *server = &ends[0];

	(void)state;
	listen_at(server);
	ask(&ends[1], "one");
	assert_string_equal(accepted(server), "one");
	fake_kv_restart(fake_kv_server("a:1"));
	wait_in_vain(&ends[1]);
	ask(&ends[2], "two");
	assert_string_equal(accepted(server), "two");
	kill_end(server);
	listen_at(server);
	assert_string_equal(accepted(server), "one");
	assert_int_equal(server->request.again, 1);
	assert_string_equal(accepted(server), "two");
	NOBODY(server);
}

/* A wait ends in time, however many requests its process must make again. */
static void many_requests_and_a_restart(void **state)
{
	struct end *client = &ends[1];
	int64_t began;
	int i;

	(void)state;
	open_end(client);
	for (i = 0; i < CLIENTS; i++)
		ask(client, "x");
	fake_kv_restart(fake_kv_server("a:1"));
	fake_kv.latency = 20 * BEEST_MS;
	began = beest_clock_now();
	assert_int_equal(hartebeest_msg_wait(client->hb, "nothing", NULL, 0, NULL, soon(500)),
			 -ETIMEDOUT);
	assert_true(beest_clock_now() - began < BEEST_SECOND);
	wait_in_vain(client);
	wait_in_vain(client);
	listen_at(&ends[0]);
	for (i = 0; i < CLIENTS; i++)
		assert_string_equal(accepted(&ends[0]), "x");
	NOBODY(&ends[0]);
}

/* Nor does a request delay a wait when its server is silent. */
static void a_request_and_a_silent_server(void **state)
{
	struct fake_kv_server *memcached = fake_kv_server("a:1");
	struct end *client = &ends[1];
	int64_t began;
	int i;

	(void)state;
	ask(client, "x");
	registry_stage.now += 120 * BEEST_SECOND;	/* it is due */
	memcached->silent = true;
	for (i = 0; i < 3; i++) {
		began = beest_clock_now();
		assert_int_equal(hartebeest_msg_wait(client->hb, "nothing", NULL, 0, NULL,
						     soon(500)), -EHOSTDOWN);
		/* its own look, and the one more that follows a look that was held up */
		assert_true(beest_clock_now() - began < 800 * BEEST_MS);
	}
	memcached->silent = false;
	wait_in_vain(client);
	assert_string_equal(accepted(listen_at(&ends[0])), "x");
}

/* What a context had as an earlier listener does not hide what it had later. */
static void two_listeners_and_a_restart(void **state)
{
	struct end *first = &ends[0], *second = &ends[1];

	(void)state;
	listen_at(first);
	listen_at(second);
	listen_at(first);
	ask(&ends[2], "one");
	assert_string_equal(accepted(first), "one");
	fake_kv_restart(fake_kv_server("a:1"));
	wait_in_vain(&ends[2]);
	NOBODY(first);
}

/* ------------------------------------------------------- two threads of one listener --- */

/* Each is a member of the crew that accepts for ends[0]; only its result is used. */
static struct end *const threads = &ends[8];

static void accept_as_thread(void *data)
{
	struct end *thread = data;

	thread->ret = hartebeest_service_accept(ends[0].hb, "kv", &thread->request, soon(3000));
}

static void start_threads(void)
{
	crew_start(accept_as_thread, &threads[0]);
	crew_start(accept_as_thread, &threads[1]);
}

static void leave_meanwhile(void *data)
{
	struct end *end = data;

	crew_pass(100 * BEEST_MS);
	must(hartebeest_service_close(end->hb, "kv"));
}

/* The context no longer listens, so its other threads hear that at once. */
static void a_thread_stops_listening(void **state)
{
	int64_t began;

	(void)state;
	listen_at(&ends[0]);
	start_threads();
	crew_start(leave_meanwhile, &ends[0]);
	began = beest_clock_now();
	registry_run();
	assert_int_equal(threads[0].ret, -ENOTCONN);
	assert_int_equal(threads[1].ret, -ENOTCONN);
	assert_error_has("does not listen to service 'kv'");
	assert_true(beest_clock_now() - began < BEEST_SECOND);
}

/* ------------------------------------------------------------------ servers that fail --- */

/*
 * Whatever happens to one command, a request is accepted once, and its client is told the
 * truth.
 */
static void every_command_fails_once(void **state)
{
	static const enum fake_kv_manner manners[] = {
		FAKE_KV_REFUSED, FAKE_KV_LOST, FAKE_KV_LATE,
	};
	size_t k;
	int n, fired = 1;

	for (k = 0; k < BEEST_COUNT(manners); k++)
		for (n = 1, fired = 1; fired; n++) {
			teardown(state);
			setup(state);
			fake_kv_fail(FAKE_KV_COMMAND, n, ECONNRESET, manners[k]);
			ask(&ends[1], "one");
			listen_at(&ends[0]);
			assert_string_equal(accepted(&ends[0]), "one");
			ask(&ends[2], "two");
			assert_string_equal(accepted(&ends[0]), "two");
			assert_true(hartebeest_service_accept(ends[0].hb, "kv", &ends[0].request,
							      HARTEBEEST_ONCE) < 0);
			must(hartebeest_service_leave(ends[1].hb, "kv", &ends[1].request));
			fake_kv_apply_late();
			fired = fake_kv.fired;
		}
	assert_true(n > 20);
}

static void publish(struct end *end, const char *key)
{
	must(qp_make(end->hb, "qp", "pd", IBV_QPT_RC, "cq", "cq", NULL));
	must(hartebeest_qp_publish(end->hb, "qp", key, 0));
}

/*
 * The same after a server lost everything and its clients ask again.  The server is so slow that
 * each look tries a request at most once.
 */
static void every_command_fails_once_after_a_restart(void **state)
{
	static const enum fake_kv_manner manners[] = {
		FAKE_KV_REFUSED, FAKE_KV_LOST, FAKE_KV_LATE,
	};
	struct fake_kv_server *memcached = fake_kv_server("a:1");
	size_t k;
	int n;

	for (k = 0; k < BEEST_COUNT(manners); k++)
		for (n = 1; n <= 60; n++) {
			teardown(state);
			setup(state);
			listen_at(&ends[0]);
			ask(&ends[1], "one");
			ask(&ends[2], "two");
			publish(&ends[2], "end");
			assert_string_equal(accepted(&ends[0]), "one");
			fake_kv_restart(memcached);
			fake_kv.latency = 300 * BEEST_MS;
			fake_kv_fail(FAKE_KV_COMMAND, n, ECONNRESET, manners[k]);
			wait_in_vain(&ends[2]);
			wait_in_vain(&ends[1]);
			assert_int_equal(fake_kv.fired, 1);
			fake_kv_apply_late();
			assert_string_equal(accepted(&ends[0]), "two");
			NOBODY(&ends[0]);
			assert_non_null(fake_kv_get(memcached, "hb1/job/qp/end", NULL));
		}
}

/*
 * A client whose request failed has not asked for anything, and may ask again.  If the server was
 * silent, this is so from the client's next call on.
 */
static void a_request_that_failed(void **state)
{
	static const struct {
		enum fake_kv_manner manner;
		int error;
	} rows[] = {
		{ FAKE_KV_REFUSED, ECONNRESET }, { FAKE_KV_LOST, ECONNRESET },
		{ FAKE_KV_REFUSED, EHOSTDOWN }, { FAKE_KV_LOST, EHOSTDOWN },
	};
	struct end *server = &ends[0], *client = &ends[1];
	int n, ret, failed;
	size_t k;

	for (k = 0; k < BEEST_COUNT(rows); k++) {
		for (n = 1, failed = 0; n <= 10; n++) {
			teardown(state);
			setup(state);
			listen_at(server);
			open_end(client);
			fake_kv_fail(FAKE_KV_COMMAND, n, rows[k].error, rows[k].manner);
			ret = hartebeest_service_request(client->hb, "kv", "x", 1,
							 &client->request, HARTEBEEST_ONCE);
			if (rows[k].error == EHOSTDOWN)
				wait_in_vain(client);
			assert_string_equal(accepted(server), ret < 0 ? "nobody" : "x");
			ask(client, "y");
			assert_string_equal(accepted(server), "y");
			NOBODY(server);
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
static void closed_while_its_request_moves(void **state)
{
	struct end *server = &ends[0], *client = &ends[1];

	(void)state;
	ask(client, "one");
	fake_kv_restart(fake_kv_server("a:1"));
	fake_kv.hook = append_unanswered;
	wait_in_vain(client);
	fake_kv.hook = NULL;
	assert_true(fake_kv.fired > 0);
	close_end(client);
	listen_at(server);
	NOBODY(server);
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

static void accept_one(void *data)
{
	struct end *end = data;

	end->ret = hartebeest_service_accept(end->hb, "kv", &end->request, soon(200000));
}

static void request_one(void *data)
{
	struct end *end = data;

	end->ret = hartebeest_service_request(end->hb, "kv", "x", 1, &end->request, soon(200000));
}

/* The listener may have accepted the request meanwhile, or closed its number and forgotten it. */
static void an_answer_that_does_not_come(void **state)
{
	static const enum fake_kv_manner manners[] = { FAKE_KV_REFUSED, FAKE_KV_LOST };
	struct end *server = &ends[0], *client = &ends[1];
	size_t k;
	int n;

	for (k = 0; k < BEEST_COUNT(manners); k++)
		for (n = 1; n <= 5; n += stride) {
			teardown(state);
			setup(state);
			listen_at(server);
			open_end(client);
			back_at = 0;
			fake_kv.hook = away_hook;
			fake_kv_fail(FAKE_KV_WRITE, n, ECONNRESET, manners[k]);
			crew_start(request_one, client);
			crew_start(accept_one, server);
			registry_run();
			assert_int_equal(fake_kv.fired, 1);
			assert_true(beest_clock_now() >= back_at);
			assert_int_equal(client->ret, 0);
			assert_int_equal(server->ret, 0);
			assert_string_equal(server->request.peer_key, client->request.key);
			NOBODY(server);
		}
}

static void a_server_that_is_away(void **state)
{
	struct fake_kv_server *memcached = fake_kv_server("a:1");
	struct end *end = &ends[0];

	(void)state;
	open_end(end);
	memcached->error = memcached->probe_error = ECONNREFUSED;
	assert_int_equal(hartebeest_service_request(end->hb, "kv", NULL, 0, &end->request,
						    soon(1000)), -ECONNREFUSED);
	assert_error_has("tried for 1 s: server a:1");
	assert_int_equal(hartebeest_service_listen(end->hb, "kv", soon(1000)), -ECONNREFUSED);
	memcached->error = memcached->probe_error = 0;
	listen_at(end);
	memcached->error = memcached->probe_error = ECONNREFUSED;
	assert_int_equal(hartebeest_service_accept(end->hb, "kv", &end->request, soon(1000)),
			 -ECONNREFUSED);
	assert_int_equal(hartebeest_service_accept(end->hb, "kv", &end->request,
						   HARTEBEEST_ONCE), -EAGAIN);
	assert_error_has("server a:1");
	memcached->error = memcached->probe_error = 0;
	ask(&ends[1], "back");
	assert_string_equal(accepted(end), "back");
}

static void visit_key(const char *key, const void *value, size_t size, void *data)
{
	size_t *count = data;

	(void)value;
	(void)size;
	*count += strstr(key, "/service/kv/") != NULL;
}

/* All records of a service are on one server; the others do not matter. */
static void several_servers(void **state)
{
	static const char *const texts[] = { "a:1", "b:1", "c:1" };
	size_t i, count, homes = 0;

	(void)state;
	servers = "exchange.servers=a:1,b:1,c:1";
	listen_at(&ends[0]);
	for (i = 1; i < 8; i++)
		ask(&ends[i], "x");
	for (i = 1; i < 8; i++)
		assert_string_equal(accepted(&ends[0]), "x");
	NOBODY(&ends[0]);
	for (i = 0; i < BEEST_COUNT(texts); i++) {
		count = 0;
		fake_kv_visit(fake_kv_server(texts[i]), visit_key, &count);
		homes += count > 0;
		if (!count)
			fake_kv_server(texts[i])->error = EHOSTDOWN;
	}
	assert_int_equal(homes, 1);
	must(hartebeest_service_request(ends[1].hb, "kv", "y", 1, &ends[1].request, 0));
	assert_string_equal(accepted(&ends[0]), "y");
}

/* Evicted records are stored again by the waits of their processes. */
static void evicted_records(void **state)
{
	struct fake_kv_server *memcached = fake_kv_server("a:1");

	(void)state;
	listen_at(&ends[0]);
	ask(&ends[1], "one");
	assert_true(fake_kv_evict(memcached, key_of_request(&ends[1].request)));
	NOBODY(&ends[0]);
	wait_in_vain(&ends[1]);
	assert_string_equal(accepted(&ends[0]), "one");
	assert_true(fake_kv_evict(memcached, list_key));
	ask(&ends[2], "two");
	assert_string_equal(accepted(&ends[0]), "two");
	NOBODY(&ends[0]);
	assert_true(fake_kv_evict(memcached, key_of_request(&ends[2].request)));
	wait_in_vain(&ends[2]);
	wait_in_vain(&ends[1]);
	listen_at(&ends[3]);
	assert_string_equal(accepted(&ends[3]), "two");
	assert_string_equal(accepted(&ends[3]), "one");
}

static int lines;

static void count_line(void *data, int level, const char *text)
{
	(void)data;
	(void)text;
	lines += level <= HARTEBEEST_LOG_INFO;
}

/* A single look suffices, or a deadline that has passed. */
static void the_shortest_limits(void **state)
{
	static const int64_t limits[] = { HARTEBEEST_ONCE, 1 };
	struct end *server = &ends[0];
	size_t i;

	for (i = 0; i < BEEST_COUNT(limits); i++) {
		teardown(state);
		setup(state);
		open_end(server);
		must(hartebeest_service_listen(server->hb, "kv", limits[i]));
		open_end(&ends[1]);
		must(hartebeest_service_request(ends[1].hb, "kv", NULL, 0, &ends[1].request,
						limits[i]));
		must(hartebeest_service_accept(server->hb, "kv", &server->request, limits[i]));
	}
}

/* Polling is one request for each look, and logs nothing. */
static void looking_once(void **state)
{
	struct end *server = &ends[0];
	uint64_t requests;
	int i;

	(void)state;
	open_end(server);
	must(hartebeest_service_listen(server->hb, "kv", HARTEBEEST_ONCE));
	assert_int_equal(hartebeest_service_accept(server->hb, "kv", &server->request,
						   HARTEBEEST_ONCE), -EAGAIN);
	must(hartebeest_log_set(server->hb, HARTEBEEST_LOG_INFO, count_line, NULL));
	lines = 0;
	requests = fake_kv.requests;
	for (i = 0; i < 100; i++)
		assert_int_equal(hartebeest_service_accept(server->hb, "kv", &server->request,
							   HARTEBEEST_ONCE), -EAGAIN);
	assert_int_equal(fake_kv.requests - requests, 100);
	assert_int_equal(lines, 0);
	assert_int_equal(hartebeest_service_accept(server->hb, "kv", &server->request, -7),
			 -EINVAL);
}

/* The costs do not depend on the number of clients. */
static void costs_of_a_request(void **state)
{
	uint64_t trips = 0, most = 0;
	int i;

	(void)state;
	listen_at(&ends[0]);
	for (i = 1; i <= 100; i++) {
		open_end(&ends[i]);
		fake_kv_count_again();
		ask(&ends[i], "x");
		assert_in_range(fake_kv.round_trips, 1, 2);	/* a new connection */
		assert_in_range(fake_kv.keys, 1, 20);
	}
	for (i = 1; i <= 100; i++) {
		fake_kv_count_again();
		assert_string_equal(accepted(&ends[0]), "x");
		trips += fake_kv.round_trips;
		most = BEEST_MAX(most, fake_kv.keys);
	}
	assert_in_range(trips, 100, 105);
	assert_in_range(most, 17, 45);
}

/* --------------------------------------------------------------------------- a crowd --- */

/* A server's knowledge of a client. */
struct served {
	struct hartebeest_client request;
	struct hartebeest_pair pair;
	char qp[24];
	bool connected, left;
};

static struct {
	struct served clients[ENDS];
	size_t count, again, left;
	bool stop;
} serving;

static struct {
	size_t here, gone;		/* clients that are connected, clients that have ended */
	int64_t longest;		/* time until a client was served */
} crowd;

static void begin_pair(struct hartebeest_pair *pair, const char *qp,
			const struct hartebeest_client *request)
{
	hartebeest_pair_init(pair);
	pair->qp = qp;
	pair->key = request->key;
	pair->peer_key = request->peer_key;
}

static void serve_one(struct end *end, const struct hartebeest_client *request)
{
	struct served *client = &serving.clients[serving.count];

	assert_true(serving.count < ENDS);
	client->request = *request;
	snprintf(client->qp, sizeof(client->qp), "q%zu", serving.count++);
	must(qp_make(end->hb, client->qp, "pd", IBV_QPT_RC, "cq", "cq", NULL));
	begin_pair(&client->pair, client->qp, &client->request);
	serving.again += request->again;
}

/* Tries all clients that are not connected yet in one call, which does not wait. */
static void connect_pending(struct end *end)
{
	static struct hartebeest_pair pairs[ENDS];
	static struct served *whose[ENDS];
	size_t i, count = 0;

	for (i = 0; i < serving.count; i++)
		if (!serving.clients[i].connected) {
			pairs[count] = serving.clients[i].pair;
			whose[count++] = &serving.clients[i];
		}
	if (count)
		hartebeest_pairs_connect(end->hb, pairs, count, HARTEBEEST_ONCE);
	for (i = 0; i < count; i++)
		whose[i]->connected = pairs[i].result == 0;
}

static void follow_connected(struct end *end)
{
	struct served *client;

	for (client = serving.clients; client < serving.clients + serving.count; client++)
		if (client->connected && !client->left &&
		    hartebeest_qp_follow(end->hb, client->qp, client->request.peer_key,
					 NULL, HARTEBEEST_ONCE) == -ESHUTDOWN) {
			client->left = true;
			serving.left++;
			must(hartebeest_qp_destroy(end->hb, client->qp));
		}
}

static void serve(void *data)
{
	struct end *end = data;
	int64_t follow_at = 0;
	int ret;

	memset(&serving, 0, sizeof(serving));
	listen_at(end);
	while (!serving.stop) {
		ret = hartebeest_service_accept(end->hb, "kv", &end->request, soon(2));
		if (ret == 0)
			serve_one(end, &end->request);
		else
			assert_int_equal(ret, -ETIMEDOUT);
		if (ret)
			connect_pending(end);
		if (beest_clock_now() >= follow_at) {
			follow_connected(end);
			follow_at = soon(500);
		}
	}
}

static void come(struct end *end)
{
	struct hartebeest_pair pair;
	int64_t begin = beest_clock_now();

	ask(end, "me");
	must(qp_make(end->hb, "qp", "pd", IBV_QPT_RC, "cq", "cq", NULL));
	begin_pair(&pair, "qp", &end->request);
	must(hartebeest_pairs_connect(end->hb, &pair, 1, soon(60000)));
	crowd.longest = BEEST_MAX(crowd.longest, beest_clock_now() - begin);
	crowd.here++;
}

/* A third of the clients crash, before or after connecting; a third leave and come back. */
static void be_client(void *data)
{
	struct end *end = data;
	size_t i = (size_t)(end - ends);

	crew_pass(end->delay);
	if (i % 6 == 0)
		ask(end, "who is never seen");
	else
		come(end);
	crew_pass(BEEST_SECOND);
	if (i % 3 == 0) {
		kill_end(end);
	} else if (i % 3 == 1) {
		must(hartebeest_service_leave(end->hb, "kv", &end->request));
		crew_pass(BEEST_SECOND);
		close_end(end);
		come(end);
	}
	crowd.gone++;
}

/* Stops the server once all clients have ended. */
static void stop_serving(void *data)
{
	const size_t *clients = data;

	while (crowd.gone < *clients)
		crew_pass(100 * BEEST_MS);
	crew_pass(2 * BEEST_SECOND);
	serving.stop = true;
}

static size_t clients_of(size_t remainder, size_t of)
{
	size_t i, count = 0;

	for (i = 0; i < crowd_size; i++)
		count += i % of == remainder;
	return count;
}

static void a_crowd_comes(int64_t pause)
{
	struct end *server = &ends[crowd_size];
	size_t i;

	memset(&crowd, 0, sizeof(crowd));
	for (i = 0; i < crowd_size; i++) {
		ends[i].delay = (int64_t)i * pause;
		crew_start(be_client, &ends[i]);
	}
	crew_start(serve, server);
	crew_start(stop_serving, &crowd_size);
	registry_run();
	assert_int_equal(crowd.gone, crowd_size);
	assert_int_equal(crowd.here, crowd_size - clients_of(0, 6) + clients_of(1, 3));
	assert_int_equal(serving.count, crowd_size + clients_of(1, 3));
	assert_int_equal(serving.left, clients_of(1, 3));
	assert_int_equal(serving.again, 0);
}

/* Two clients of one server, which waits for both. */
static struct hartebeest_pair two[2];

static void connect_two(void *data)
{
	struct end *end = data;

	end->ret = hartebeest_pairs_connect(end->hb, two, BEEST_COUNT(two), soon(10000));
}

static void connect_one(void *data)
{
	struct end *end = data;
	struct hartebeest_pair pair;

	crew_pass(6 * BEEST_SECOND);
	begin_pair(&pair, "qp", &end->request);
	end->ret = hartebeest_pairs_connect(end->hb, &pair, 1, soon(3000));
}

static void give_up(void *data)
{
	struct end *end = data;

	crew_pass(2 * BEEST_SECOND);
	must(hartebeest_fail(end->hb, "no more"));
}

/* A client without a rank ends only the waits for its own records. */
static void a_client_that_gives_up(void **state)
{
	static const char *const names[] = { "q0", "q1" };
	static struct hartebeest_client requests[2];
	struct end *server = &ends[0], *clients = &ends[1];
	int i;

	(void)state;
	listen_at(server);
	for (i = 0; i < 2; i++) {
		ask(&clients[i], "x");
		publish(&clients[i], clients[i].request.key);
		assert_string_equal(accepted(server), "x");
		requests[i] = server->request;
		must(qp_make(server->hb, names[i], "pd", IBV_QPT_RC, "cq", "cq", NULL));
		begin_pair(&two[i], names[i], &requests[i]);
	}
	crew_start(connect_two, server);
	crew_start(give_up, &clients[0]);
	crew_start(connect_one, &clients[1]);
	registry_run();
	assert_int_equal(server->ret, -ECONNABORTED);
	assert_int_equal(two[0].result, -ECONNABORTED);
	assert_non_null(strstr(two[0].reason, "has failed: no more"));
	assert_int_equal(two[1].result, 0);
	assert_int_equal(clients[1].ret, 0);
}

static void connect_datagrams(void *data)
{
	struct end *end = data;
	struct hartebeest_pair pair;

	must(qp_make(end->hb, "qp", "pd", IBV_QPT_UD, "cq", "cq", NULL));
	begin_pair(&pair, "qp", &end->request);
	end->ret = hartebeest_pairs_connect(end->hb, &pair, 1, soon(10000));
}

/* A server has one UD queue pair for all clients, and an address of each. */
static void clients_with_datagrams(void **state)
{
	static struct hartebeest_client requests[2];
	struct end *server = &ends[0], *clients = &ends[1];
	struct hartebeest_ud_address address;
	struct ibv_qp *qp;
	int i;

	(void)state;
	listen_at(server);
	must(qp_make(server->hb, "ud", "pd", IBV_QPT_UD, "cq", "cq", NULL));
	for (i = 0; i < 2; i++) {
		ask(&clients[i], "x");
		assert_string_equal(accepted(server), "x");
		requests[i] = server->request;
		begin_pair(&two[i], "ud", &requests[i]);
		crew_start(connect_datagrams, &clients[i]);
	}
	crew_start(connect_two, server);
	registry_run();
	assert_int_equal(server->ret, 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(clients[i].ret, 0);
		must(hartebeest_qp_get(clients[i].hb, "qp", &qp));
		must(hartebeest_qp_ud_address(server->hb, "ud", requests[i].peer_key, &address));
		assert_int_equal(address.qp_num, qp->qp_num);
	}
	must(hartebeest_service_leave(clients[0].hb, "kv", &clients[0].request));
	assert_int_equal(hartebeest_qp_follow(server->hb, "ud", requests[0].peer_key, NULL,
					      HARTEBEEST_ONCE), -ESHUTDOWN);
	assert_int_equal(hartebeest_qp_follow(server->hb, "ud", requests[1].peer_key, NULL,
					      HARTEBEEST_ONCE), 0);
}

/* Each client notices that its server was replaced, and connects to the new one. */
static void follow_server(void *data)
{
	struct end *end = data;

	assert_int_equal(hartebeest_qp_follow(end->hb, "qp", end->request.peer_key, NULL,
					      soon(60000)), 1);
	must(hartebeest_qp_confirm(end->hb, "qp", end->request.peer_key, soon(60000)));
	crowd.gone++;
}

static void a_crowd(void **state)
{
	static size_t living;
	struct end *server = &ends[crowd_size];
	size_t i;

	(void)state;
	a_crowd_comes(BEEST_MS);
	assert_true(crowd.longest < BEEST_SECOND);	/* no client was held up */

	kill_end(server);
	memset(&crowd, 0, sizeof(crowd));
	living = 0;
	for (i = 0; i < crowd_size; i++)
		if (ends[i].hb) {
			crew_start(follow_server, &ends[i]);
			living++;
		}
	assert_int_equal(living, crowd_size - clients_of(0, 3));
	crew_start(serve, server);
	crew_start(stop_serving, &living);
	registry_run();
	assert_int_equal(crowd.gone, living);
	assert_int_equal(serving.again, crowd_size);
	/* The server cannot know that some have crashed. */
	assert_int_equal(serving.count, crowd_size);
}

static void all_at_once(void **state)
{
	(void)state;
	a_crowd_comes(0);
	assert_true(crowd.longest < 2 * BEEST_SECOND);
}

static void server_restart(void *data)
{
	(void)data;
	crew_pass(50 * BEEST_MS);
	fake_kv_restart(fake_kv_server("a:1"));
}

/* The server restarts while they come or, in a small crowd, when all are here. */
static void a_crowd_and_a_restart(void **state)
{
	(void)state;
	crew_start(server_restart, NULL);
	a_crowd_comes(BEEST_MS);
}

static void a_request_that_cannot_be_kept(void **state)
{
	struct end *server = &ends[0], *client = &ends[1];

	(void)state;
	listen_at(server);
	open_end(client);
	puts_fail = 1;
	assert_int_equal(hartebeest_service_request(client->hb, "kv", "lost", 4,
						    &client->request, 0), -ENOMEM);
	assert_int_equal(puts_fail, 0);
	assert_error_is("no memory, 0 to go");
	ask(client, "kept");
	assert_string_equal(accepted(server), "kept");
	NOBODY(server);
}

/* Others find this process later. */
static void a_presence_that_cannot_be_kept(void **state)
{
	struct end *end = &ends[0];

	(void)state;
	open_end(end);
	kind_fails = BEEST_KIND_RANK;
	puts_fail = 1;
	assert_int_equal(hartebeest_msg_push(end->hb, "m", "x", 1, 0), -ENOMEM);
	assert_int_equal(puts_fail, 0);
	must(hartebeest_msg_push(end->hb, "m", "x", 1, 0));
	assert_non_null(fake_kv_get(fake_kv_server("a:1"),
				    end->hb->registry->keys[BEEST_KEY_RANK], NULL));
}

/* Publishes the queue pair "qp" under @key. */
static void enter(struct end *end, const char *key)
{
	open_end(end);
	publish(end, key);
}

static void meet(struct end *end, const char *peer_key)
{
	must(hartebeest_qp_fetch(end->hb, peer_key, NULL, 0));
	must(hartebeest_qp_connect(end->hb, "qp", peer_key, 0));
}

/* The echo reaches the peer by the next call at this end. */
static void an_echo_that_cannot_be_kept(void **state)
{
	struct end *one = &ends[0], *other = &ends[1], *replacement = &ends[2];

	(void)state;
	enter(one, "one");
	enter(other, "other");
	meet(one, "other");
	kill_end(other);
	enter(replacement, "other");
	meet(replacement, "one");

	kind_fails = BEEST_KIND_QP;
	puts_fail = 1;
	assert_int_equal(hartebeest_qp_follow(one->hb, "qp", "other", NULL, HARTEBEEST_ONCE),
			 -ENOMEM);
	assert_int_equal(puts_fail, 0);
	must(hartebeest_qp_confirm(one->hb, "qp", "other", soon(1000)));
	must(hartebeest_qp_confirm(replacement->hb, "qp", "one", soon(1000)));
}

/* The server fails for a moment, but works again when the client leaves. */
static void leaving_after_a_failure(void **state)
{
	struct fake_kv_server *memcached = fake_kv_server("a:1");
	struct end *server = &ends[0], *client = &ends[1];
	char byte;

	(void)state;
	ask(client, "one");
	memcached->error = ECONNREFUSED;
	assert_int_equal(hartebeest_msg_wait(client->hb, "nothing", &byte, 1, NULL,
					     HARTEBEEST_ONCE), -EAGAIN);
	memcached->error = 0;
	must(hartebeest_service_leave(client->hb, "kv", &client->request));
	listen_at(server);
	NOBODY(server);
}

static int requests_of_first;		/* the first listener is held up at its third request */

static int64_t hold_store(const struct beest_kv *kv)
{
	const struct hartebeest_context *hb = ends[0].hb;

	return hb && hb->registry && kv == hb->registry->kv && ++requests_of_first == 3 ?
	       300 * BEEST_MS : 0;
}

static void accept_and_go_on(void *data)
{
	struct end *end = data;

	assert_string_equal(accepted(end), "one");	/* stored late */
	end->ret = hartebeest_service_accept(end->hb, "kv", &end->request, soon(3000));
}

static void listen_meanwhile(void *data)
{
	struct end *end = data;

	crew_pass(100 * BEEST_MS);
	listen_at(end);
	crew_pass(BEEST_SECOND);
	end->ret = hartebeest_service_accept(end->hb, "kv", &end->request, soon(1000));
}

/*
 * From the manual: "A service has one listener: the last process that called this function
 * is it."
 */
static void a_listener_that_stores_late(void **state)
{
	(void)state;
	listen_at(&ends[0]);
	ask(&ends[2], "one");
	requests_of_first = 0;
	fake_kv.hold = hold_store;
	crew_start(accept_and_go_on, &ends[0]);
	crew_start(listen_meanwhile, &ends[1]);
	registry_run();
	fake_kv.hold = NULL;
	assert_int_equal(ends[1].ret, 0);
	assert_int_equal(ends[0].ret, -EADDRINUSE);
}

/* The client knows that it was refused, and does not ask again on an empty server. */
static void refused_after_a_restart(void **state)
{
	struct end *server = &ends[0];

	(void)state;
	listen_at(server);
	ask(&ends[1], "no");
	ask(&ends[2], "yes");
	assert_string_equal(accepted(server), "no");
	must(hartebeest_service_leave(server->hb, "kv", &server->request));
	wait_in_vain(&ends[1]);
	fake_kv_restart(fake_kv_server("a:1"));
	wait_in_vain(&ends[2]);
	wait_in_vain(&ends[1]);
	assert_string_equal(accepted(server), "yes");
	listen_at(&ends[3]);
	assert_string_equal(accepted(&ends[3]), "yes");
	NOBODY(&ends[3]);
	must(hartebeest_service_leave(ends[1].hb, "kv", &ends[1].request));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

/* What a client hears that waits for the queue pair of the service's end. */
static void waits_for_nothing(struct end *client, const char *text)
{
	const char *key = client->request.peer_key;

	assert_int_equal(hartebeest_qp_fetch(client->hb, key, NULL, soon(1000)), -ETIMEDOUT);
	if (!strstr(hartebeest_error(), text))
		print_error("%s\n", hartebeest_error());
	assert_non_null(strstr(hartebeest_error(), text));
}

static void a_client_that_is_not_served(void **state)
{
	struct end *server = &ends[0], *client = &ends[1];

	(void)state;
	ask(client, "x");
	waits_for_nothing(client, "; no process listens to service 'kv'; ");
	listen_at(server);
	waits_for_nothing(client, " listens to service 'kv' and has not accepted this request; ");
	assert_string_equal(accepted(server), "x");
	wait_in_vain(server);
	waits_for_nothing(client, " listens to service 'kv' and has accepted this request; ");
	must(hartebeest_service_close(server->hb, "kv"));
	waits_for_nothing(client, ", which has stopped; ");
	listen_at(server);
	waits_for_nothing(client, " listens to service 'kv' and has accepted this request; ");
	close_end(server);
	waits_for_nothing(client, "; the last to listen to service 'kv' is pid ");
	waits_for_nothing(client, ", which has left; ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(asked_and_accepted),
		TEST(a_client_that_is_not_served),
		TEST(asked_before_anybody_listens),
		TEST(data_of_all_sizes),
		TEST(names_and_arguments),
		TEST(two_services),
		TEST(the_last_listener_has_it),
		TEST(a_listener_that_was_replaced),
		TEST(a_listener_that_fails),
		TEST(others_listen_meanwhile),
		TEST(listening_twice_changes_nothing),
		TEST(listening_again_after_an_eviction),
		TEST(a_listener_that_is_killed),
		TEST(a_listener_that_stops),
		TEST(a_client_that_left_is_not_accepted),
		TEST(refused_by_later_listeners),
		TEST(refused_after_a_long_while),
		TEST(foreign_records),
		TEST(a_request_without_a_record),
		TEST(requests_are_forgotten),
		TEST(requests_only_go_on),
		TEST(an_evicted_list),
		TEST(a_list_stays_short),
		TEST(a_list_of_many),
		TEST(a_list_of_many_that_wait),
		TEST(a_list_that_is_full),
		TEST(a_listener_of_a_full_list),
		TEST(a_full_list_is_named),
		TEST(a_list_with_foreign_entries),
		TEST(a_list_that_is_old),
		TEST(many_that_came_and_went),
		TEST(served_once_whatever_is_lost),
		TEST(the_server_is_restarted),
		TEST(had_before_the_restart),
		TEST(many_requests_and_a_restart),
		TEST(a_request_and_a_silent_server),
		TEST(two_listeners_and_a_restart),
		TEST(a_thread_stops_listening),
		TEST(every_command_fails_once),
		TEST(every_command_fails_once_after_a_restart),
		TEST(a_request_that_failed),
		TEST(a_request_that_cannot_be_kept),
		TEST(a_presence_that_cannot_be_kept),
		TEST(an_echo_that_cannot_be_kept),
		TEST(closed_while_its_request_moves),
		TEST(an_answer_that_does_not_come),
		TEST(a_server_that_is_away),
		TEST(several_servers),
		TEST(evicted_records),
		TEST(the_shortest_limits),
		TEST(looking_once),
		TEST(costs_of_a_request),
		TEST(a_client_that_gives_up),
		TEST(clients_with_datagrams),
		TEST(refused_after_a_restart),
		TEST(a_listener_that_stores_late),
		TEST(leaving_after_a_failure),
		TEST(a_crowd),
		TEST(all_at_once),
		TEST(a_crowd_and_a_restart),
	};

	stride = unit_stride(7);
	crowd_size = CLIENTS / stride;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
