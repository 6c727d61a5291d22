/* SPDX-License-Identifier: MIT */
/*
 * service.c - a server and two hundred clients over a real memcached
 *
 * All are processes with the fake device.  Shared memory has counters of what they have seen.
 *
 * promise: hartebeest_service(3)
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hartebeest.h"
#include "lib/base/clock.h"
#include "lib/base/macro.h"
#include "lib/kv/request.h"
#include "lib/rendezvous/record.h"
#include "tests/support/fake-verbs.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/pause.h"
#include "tests/support/rank.h"
#include "tests/support/ranks.h"
#include "tests/support/raw-kv.h"
#include "tests/support/unit.h"

#define CLIENTS 200
#define PATIENCE_S 3600
#define NOTE_S 60			/* how long the note of a client that has left stays */

static struct cache *cache;

/* Atomic counters. */
static struct seen {
	int here, gone;			/* clients that are connected; that crashed */
	int followed;			/* clients that found the new server */
	int served, again, left;	/* as seen by the present server */
	int stop_clients, stop_server;
} *seen;

#define ADD(counter) __atomic_add_fetch(&(counter), 1, __ATOMIC_SEQ_CST)
#define LOAD(counter) __atomic_load_n(&(counter), __ATOMIC_SEQ_CST)

static int64_t soon(void)
{
	return hartebeest_clock() + PATIENCE_S * BEEST_SECOND;
}

static int setup(void **state)
{
	static const char *const arguments[] = { "-c", "4096", NULL };

	(void)state;
	fake_verbs_reset();
	cache = cache_start(arguments);
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return seen == MAP_FAILED;
}

static int teardown(void **state)
{
	(void)state;
	cache_end(cache);
	return munmap(seen, sizeof(*seen));
}

static struct hartebeest_context *open_process(void)
{
	struct rank_settings settings = {
		.servers = cache_hostport(cache)->text, .job = "crowd",
	};
	struct hartebeest_context *hb;

	EXPECT(rank_open(&hb, &settings) == 0);
	EXPECT(hartebeest_pd_create(hb, "pd", NULL) == 0);
	EXPECT(cq_make(hb, "cq", 0, 0, NULL) == 0);
	return hb;
}

static void make_pair(struct hartebeest_context *hb, struct hartebeest_pair *pair,
		      const char *name, const struct hartebeest_client *request)
{
	EXPECT(qp_make(hb, name, "pd", IBV_QPT_RC, "cq", "cq", NULL) == 0);
	hartebeest_pair_init(pair);
	pair->qp = name;
	pair->key = request->key;
	pair->peer_key = request->peer_key;
}

/* ----------------------------------------------------------------------- the server --- */

static struct served {
	struct hartebeest_client request;
	struct hartebeest_pair pair;
	char name[24];
	bool connected, left;
	int64_t looked_at;
} served[2 * CLIENTS];
static size_t served_count;

static void serve_one(struct hartebeest_context *hb, const struct hartebeest_client *request)
{
	struct served *client = &served[served_count];

	EXPECT(served_count < BEEST_COUNT(served));
	client->request = *request;
	snprintf(client->name, sizeof(client->name), "q%zu", served_count++);
	make_pair(hb, &client->pair, client->name, &client->request);
	if (request->again)
		ADD(seen->again);
	ADD(seen->served);
}

static void connect_pending(struct hartebeest_context *hb)
{
	static struct hartebeest_pair pairs[2 * CLIENTS];
	static struct served *whose[2 * CLIENTS];
	size_t i, count = 0;

	for (i = 0; i < served_count; i++)
		if (!served[i].connected) {
			pairs[count] = served[i].pair;
			whose[count++] = &served[i];
		}
	if (count)	/* a pair may be late or dead, but never be given twice */
		EXPECT(hartebeest_pairs_connect(hb, pairs, count, HARTEBEEST_ONCE) != -EINVAL);
	for (i = 0; i < count; i++)
		if (pairs[i].result == 0) {
			whose[i]->connected = true;
			whose[i]->looked_at = hartebeest_clock();
		}
}

/*
 * Where all are slow, the server may be back at a client when the note that it has left is over:
 * then there is no record, which one that has crashed keeps.
 */
static bool has_left(struct hartebeest_context *hb, struct served *client)
{
	const int64_t before = client->looked_at;
	const char *key = client->pair.peer_key;

	client->looked_at = hartebeest_clock();
	if (hartebeest_qp_follow(hb, client->name, key, NULL, HARTEBEEST_ONCE) == -ESHUTDOWN)
		return true;

	return hartebeest_clock() - before > (NOTE_S - 5) * BEEST_SECOND &&
	       UNTIL_ANSWERED(hartebeest_qp_fetch(hb, key, NULL, HARTEBEEST_ONCE)) == -EAGAIN;
}

static void follow_connected(struct hartebeest_context *hb)
{
	struct served *client;

	for (client = served; client < served + served_count; client++)
		if (client->connected && !client->left && has_left(hb, client)) {
			client->left = true;
			ADD(seen->left);
		}
}

static int serve(void)
{
	struct hartebeest_context *hb = open_process();
	struct hartebeest_client request;
	int ret;

	EXPECT(hartebeest_service_listen(hb, "crowd", soon()) == 0);
	while (!LOAD(seen->stop_server)) {
		ret = hartebeest_service_accept(hb, "crowd", &request, HARTEBEEST_ONCE);
		EXPECT(ret == 0 || ret == -EAGAIN);	/* also while memcached is away */
		if (ret == 0) {
			serve_one(hb, &request);
			continue;
		}
		connect_pending(hb);
		follow_connected(hb);
		pause_ms(10);
	}
	hartebeest_close(hb);
	return 0;
}

/* ------------------------------------------------------------------------ a client --- */

struct client {
	struct hartebeest_context *hb;
	struct hartebeest_client request;
};

static void ask(struct client *client)
{
	client->hb = open_process();
	EXPECT(hartebeest_service_request(client->hb, "crowd", "me", 2, &client->request,
					  soon()) == 0);
}

static void join(struct client *client)
{
	struct hartebeest_pair pair;

	make_pair(client->hb, &pair, "qp", &client->request);
	EXPECT(hartebeest_pairs_connect(client->hb, &pair, 1, soon()) == 0);
	ADD(seen->here);
}

/* Memcached may be away just now: the page says to call again. */
static void leave(struct client *client)
{
	const int64_t deadline = soon();
	int ret;

	while ((ret = hartebeest_service_leave(client->hb, "crowd", &client->request)) < 0) {
		EXPECT(beest_kv_transient(-ret) && hartebeest_clock() < deadline);
		pause_ms(10);
	}
	hartebeest_close(client->hb);
}

static void crash(void)
{
	ADD(seen->gone);
	kill(getpid(), SIGKILL);
}

/* With the signal of tests/support/timer blocked, which is for the library, not for sleepers. */
static void rest_ms(long ms)
{
	sigset_t all, before;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	pause_ms(ms);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static void follow(struct client *client)
{
	int ret;

	do {
		rest_ms(50);
		ret = hartebeest_qp_follow(client->hb, "qp", client->request.peer_key, NULL,
					   HARTEBEEST_ONCE);
	} while (ret == 0 && !LOAD(seen->stop_clients));
	if (ret == 0)
		return;
	EXPECT(ret == 1);
	EXPECT(hartebeest_qp_confirm(client->hb, "qp", client->request.peer_key, soon()) == 0);
	ADD(seen->followed);
	while (!LOAD(seen->stop_clients))
		rest_ms(20);
}

/* A third of the clients crash, before or after they connect; a third leave and return. */
static int be_client(int number)
{
	struct client client;

	ask(&client);
	if (number % 6 == 0)
		crash();
	join(&client);
	if (number % 3 == 0)
		crash();
	if (number % 3 == 1) {
		leave(&client);
		ask(&client);
		join(&client);
	}
	follow(&client);
	leave(&client);
	return 0;
}

/* ---------------------------------------------------------------------- the processes --- */

static pid_t start(int (*function)(int number), int number)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);	/* nobody outlives a test that fails */
		exit(function(number));
	}
	assert_true(pid > 0);
	return pid;
}

static int be_server(int number)
{
	(void)number;
	return serve();
}

static void await_count(int *counter, int count, const char *what)
{
	int64_t deadline = soon();

	while (LOAD(*counter) < count) {
		if (hartebeest_clock() > deadline) {
			print_error("%d of %d clients %s\n", LOAD(*counter), count, what);
			fail();
		}
		pause_ms(5);
	}
}

static int status_of(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* How many of the first @clients have number % @of == @rest. */
static int share(int clients, int of, int rest)
{
	int i, count = 0;

	for (i = 0; i < clients; i++)
		count += i % of == rest;
	return count;
}

static void start_crowd(pid_t *pids, int clients)
{
	int i;

	for (i = 0; i < clients; i++)
		pids[i] = start(be_client, i);
}

/* All connections, including those of clients that returned. */
static int meetings(int clients)
{
	return clients - share(clients, 6, 0) + share(clients, 3, 1);
}

static void end_crowd(const pid_t *pids, int clients)
{
	int i;

	__atomic_store_n(&seen->stop_clients, 1, __ATOMIC_SEQ_CST);
	for (i = 0; i < clients; i++)
		assert_int_equal(status_of(pids[i]), i % 3 == 0 ? -SIGKILL : 0);
}

static void end_server(pid_t pid)
{
	__atomic_store_n(&seen->stop_server, 1, __ATOMIC_SEQ_CST);
	assert_int_equal(status_of(pid), 0);
}

/* Fewer come where all are slow, as with a timer in each process. */
static void a_crowd(void **state)
{
	const int clients = CLIENTS / unit_stride(1);
	const int stay = clients - share(clients, 3, 0);
	pid_t server = start(be_server, 0), pids[CLIENTS];

	(void)state;
	start_crowd(pids, clients);
	await_count(&seen->here, meetings(clients), "are connected");
	await_count(&seen->gone, share(clients, 3, 0), "have crashed");
	await_count(&seen->left, share(clients, 3, 1), "are seen to have left");
	await_count(&seen->served, clients + share(clients, 3, 1), "are served");
	assert_int_equal(LOAD(seen->served), clients + share(clients, 3, 1));
	assert_int_equal(LOAD(seen->again), 0);

	kill(server, SIGKILL);
	assert_int_equal(status_of(server), -SIGKILL);
	seen->left = seen->served = 0;
	server = start(be_server, 0);
	await_count(&seen->followed, stay, "have found the new server");
	await_count(&seen->served, clients, "are served again");
	assert_int_equal(LOAD(seen->again), clients);
	end_crowd(pids, clients);
	await_count(&seen->left, stay, "are seen to have left in the end");
	end_server(server);
}

/* Every request made before or after the restart is served, and no connection twice. */
static void a_memcached_that_is_restarted(void **state)
{
	enum { FEW = 30 };
	pid_t server = start(be_server, 0), pids[FEW];

	(void)state;
	start_crowd(pids, FEW);
	await_count(&seen->served, FEW / 3, "are served");
	cache_kill(cache);
	pause_ms(50);
	cache_restart(cache);
	await_count(&seen->here, meetings(FEW), "are connected");
	end_crowd(pids, FEW);
	assert_in_range(LOAD(seen->served), meetings(FEW), FEW + share(FEW, 3, 1));
	end_server(server);
}

static void two_services(void **state)
{
	struct hartebeest_client request;
	pid_t server = start(be_server, 0), client = start(be_client, 2);
	struct hartebeest_context *hb = open_process();

	(void)state;
	assert_int_equal(hartebeest_service_listen(hb, "other", 0), 0);
	assert_int_equal(hartebeest_service_request(hb, "other", "x", 1, &request, 0), 0);
	await_count(&seen->here, 1, "is connected");
	assert_int_equal(hartebeest_service_accept(hb, "other", &request, soon()), 0);
	assert_int_equal(request.data[0], 'x');
	assert_int_equal(UNTIL_ANSWERED(hartebeest_service_accept(hb, "other", &request,
								  HARTEBEEST_ONCE)), -EAGAIN);
	assert_int_equal(LOAD(seen->served), 1);
	hartebeest_close(hb);
	__atomic_store_n(&seen->stop_clients, 1, __ATOMIC_SEQ_CST);
	assert_int_equal(status_of(client), 0);
	end_server(server);
}

/* A server that takes no longer list keeps the old one, which the listener stores again. */
static void a_list_that_is_full(void **state)
{
	static const char key[] = "hb1/crowd/service/crowd/list";
	static char noise[BEEST_VALUE_MAX], append[200], answer[100];
	struct hartebeest_context *server, *client;
	struct hartebeest_client request;
	struct beest_kv *kv;

	(void)state;
	memset(noise, 'x', sizeof(noise));
	snprintf(append, sizeof(append), "append %s 0 0 40\r\n%.40s\r\n", key, noise);
	assert_int_equal(beest_kv_open(&kv, cache_hostport(cache), 1), 0);
	assert_int_equal(raw_kv_put(kv, key, noise, sizeof(noise), 600, soon()), 0);
	beest_kv_close(kv);
	while (!strncmp(cache_talk(cache, append, answer, sizeof(answer)), "STORED", 6))
		;
	assert_string_equal(answer, "NOT_STORED\r\n");

	server = open_process();
	assert_int_equal(hartebeest_service_listen(server, "crowd", soon()), 0);
	client = open_process();
	assert_int_equal(hartebeest_service_request(client, "crowd", "x", 1, &request, soon()), 0);
	assert_int_equal(hartebeest_service_accept(server, "crowd", &request, soon()), 0);
	assert_int_equal(request.data[0], 'x');
	hartebeest_close(client);
	hartebeest_close(server);
}

/* ------------------------------------------------------------- threads of one listener --- */

#define THREADS 3
#define REQUESTS 10			/* of each client */

/* By the linker's --wrap: the library decodes a request before it decides who gets it. */
static int decoded;			/* how many requests, once threads[] run */
int __real_beest_record_request_decode(const struct beest_record *record,
				       struct beest_request_body *body);
int __wrap_beest_record_request_decode(const struct beest_record *record,
				       struct beest_request_body *body);

/* Threads decode in pairs, so that two of them have the same request; if not, nothing is lost. */
int __wrap_beest_record_request_decode(const struct beest_record *record,
				       struct beest_request_body *body)
{
	int tries, count = LOAD(decoded) ? ADD(decoded) : 0;

	for (tries = 0; count % 2 && LOAD(decoded) == count && tries < 100; tries++)
		pause_us(50);
	return __real_beest_record_request_decode(record, body);
}

static struct thread {
	pthread_t id;
	struct hartebeest_context *hb;
	int number;
	int accepted[THREADS][REQUESTS];	/* of each client */
} servers[THREADS], clients[THREADS];

static int accepted_count;

static void connect_thread(struct thread *thread, const char *name,
			   const struct hartebeest_client *request)
{
	struct hartebeest_pair pair;

	make_pair(thread->hb, &pair, name, request);
	EXPECT(hartebeest_pairs_connect(thread->hb, &pair, 1, soon()) == 0);
}

static void *accept_in_thread(void *data)
{
	struct thread *thread = data;
	struct hartebeest_client request;
	char name[24];
	int ret;

	while (LOAD(accepted_count) < THREADS * REQUESTS) {
		ret = hartebeest_service_accept(thread->hb, "crowd", &request, HARTEBEEST_ONCE);
		if (ret < 0) {
			EXPECT(ret == -EAGAIN);
			pause_us(200);
			continue;
		}
		ADD(accepted_count);
		thread->accepted[request.data[0]][request.data[1]]++;
		snprintf(name, sizeof(name), "q%d-%d", request.data[0], request.data[1]);
		connect_thread(thread, name, &request);
		EXPECT(UNTIL_ANSWERED(hartebeest_service_leave(thread->hb, "crowd",
							       &request)) == 0);
		EXPECT(hartebeest_qp_destroy(thread->hb, name) == 0);
	}
	return NULL;
}

static void *ask_in_thread(void *data)
{
	struct thread *thread = data;
	struct hartebeest_client request;
	unsigned char text[2] = { (unsigned char)thread->number, 0 };

	for (; text[1] < REQUESTS; text[1]++) {
		EXPECT(hartebeest_service_request(thread->hb, "crowd", text, sizeof(text),
						  &request, soon()) == 0);
		connect_thread(thread, "qp", &request);
		EXPECT(UNTIL_ANSWERED(hartebeest_service_leave(thread->hb, "crowd",
							       &request)) == 0);
		EXPECT(hartebeest_qp_destroy(thread->hb, "qp") == 0);
	}
	return NULL;
}

/* Each request goes to one thread. */
static void threads_of_a_listener(void **state)
{
	struct hartebeest_context *hb = open_process();
	int i, j, k, sum;

	(void)state;
	decoded = 1;
	assert_int_equal(hartebeest_service_listen(hb, "crowd", soon()), 0);
	for (i = 0; i < THREADS; i++) {
		servers[i].hb = hb;
		clients[i].hb = open_process();
		clients[i].number = i;
		pthread_create(&servers[i].id, NULL, accept_in_thread, &servers[i]);
		pthread_create(&clients[i].id, NULL, ask_in_thread, &clients[i]);
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(servers[i].id, NULL);
		pthread_join(clients[i].id, NULL);
		hartebeest_close(clients[i].hb);
	}
	for (i = 0; i < THREADS; i++)
		for (j = 0; j < REQUESTS; j++) {
			for (k = 0, sum = 0; k < THREADS; k++)
				sum += servers[k].accepted[i][j];
			assert_int_equal(sum, 1);
		}
	hartebeest_close(hb);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(threads_of_a_listener),
		TEST(a_crowd),
		TEST(a_memcached_that_is_restarted),
		TEST(two_services),
		TEST(a_list_that_is_full),
	};

	cache_need();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
