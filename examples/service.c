/* SPDX-License-Identifier: MIT */
/*
 * service.c - a key-value store over RDMA, whose clients come, crash and return
 *
 *	service serve
 *	service OPERATION...
 *
 *	add KEY NUMBER     adds to the value of a key of at most 8 characters
 *	get KEY            prints it
 *	sleep SECONDS
 *
 * Both need HARTEBEEST_EXC_IP_PORT=host:port of a Memcached server; neither needs a rank.
 * The server owns the table and does nothing while clients use it: they find a key by READ
 * and COMPARE AND SWAP, and add by FETCH AND ADD.  Kill the server, start it again, and the
 * clients continue with the new one, whose table is empty.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hartebeest-post.h>
#include <hartebeest.h>

#define SERVICE "store"
#define SLOTS 4096
#define CLIENTS 1024
#define MS INT64_C(1000000)

/* How long either end waits for the other to connect, or for an answer. */
#define PATIENCE (30000 * MS)

/* A key is one word, so that one COMPARE AND SWAP claims a slot for it; 0: free. */
struct slot {
	uint64_t key, value;
};

static struct {
	struct hartebeest_context *hb;
	struct ibv_cq *cq;
	struct ibv_mr *mr;		/* the server's table, or a client's buffer */
} self;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
}

/* An example may exit; the library never does that for its user. */
static int try(int ret)
{
	if (ret >= 0)
		return ret;

	fprintf(stderr, "service: %s\n", hartebeest_error());
	exit(EXIT_FAILURE);
}

/* Notices a dead peer after seven tries of 0.5 s; Soft-RoCE treats a count of 7 as endless. */
static void start(size_t bytes, int access)
{
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_cq_attr cq_attr;
	const char *options[] = { "qp_attr.retry_cnt=6", "qp_attr.timeout=17", NULL };

	try(hartebeest_open(&self.hb, options));
	try(hartebeest_pd_create(self.hb, "pd", NULL));
	hartebeest_cq_attr_init(&cq_attr);
	cq_attr.depth = CLIENTS;
	try(hartebeest_cq_create(self.hb, "cq", &cq_attr, &self.cq));
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = bytes;
	mr_attr.access = access;
	try(hartebeest_mr_create(self.hb, "mr", &mr_attr, &self.mr));
}

/* A queue pair for a request; both ends do the same. */
static void prepare(struct hartebeest_pair *pair, const char *name,
		    const struct hartebeest_client *request, struct ibv_qp **qp)
{
	struct hartebeest_qp_attr wanted;

	hartebeest_qp_attr_init(&wanted);
	wanted.pd = "pd";
	wanted.send_cq = "cq";
	wanted.type = IBV_QPT_RC;
	try(hartebeest_qp_create(self.hb, name, &wanted, qp));
	hartebeest_pair_init(pair);
	pair->qp = name;
	pair->key = request->key;
	pair->peer_key = request->peer_key;
}

/* If Memcached does not answer in time, the request of a client goes with its next call. */
static void leave(const struct hartebeest_client *request)
{
	if (hartebeest_service_leave(self.hb, SERVICE, request) < 0)
		fprintf(stderr, "service: %s\n", hartebeest_error());
}

/* ------------------------------------------------------------------ the server --- */

static struct client {
	enum { FREE, ASKED, CONNECTED } state;
	struct hartebeest_client request;
	struct hartebeest_pair pair;
	char name[48];
	struct ibv_qp *qp;
	int64_t since;			/* it asked, or was last checked */
	int pinged;
} clients[CLIENTS];

static volatile sig_atomic_t stopped;

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

static void forget(struct client *client, const char *why)
{
	say("client %" PRIu64 " %s", client->request.number, why);
	leave(&client->request);
	try(hartebeest_qp_destroy(self.hb, client->name));
	client->state = FREE;
}

static void welcome(const struct hartebeest_client *request)
{
	static const char *const offer[] = { "mr" };
	struct client *client = clients;

	while (client < clients + CLIENTS && client->state != FREE)
		client++;
	if (client == clients + CLIENTS) {
		leave(request);
		return;
	}

	say("client %" PRIu64 " %s: pid %" PRIu32 " on %s", request->number,
	    request->again ? "is still there" : "asks", request->pid, request->host);
	client->request = *request;
	/* Each client counts its own requests. */
	snprintf(client->name, sizeof(client->name), "to %" PRIx64 "-%" PRIu64, request->context,
		 request->number);
	prepare(&client->pair, client->name, &client->request, &client->qp);
	client->pair.offer = offer;
	client->pair.offer_count = 1;
	client->state = ASKED;
	client->since = hartebeest_clock();
	client->pinged = 0;
}

/* Connects all clients that have asked, in one look, so that none waits for a crashed one. */
static void connect_asking(void)
{
	static struct hartebeest_pair pairs[CLIENTS];
	static struct client *whose[CLIENTS];
	size_t i, count = 0;

	for (i = 0; i < CLIENTS; i++)
		if (clients[i].state == ASKED) {
			pairs[count] = clients[i].pair;
			whose[count++] = &clients[i];
		}
	if (count)
		hartebeest_pairs_connect(self.hb, pairs, count, HARTEBEEST_ONCE);
	for (i = 0; i < count; i++) {
		if (pairs[i].result == 0) {
			say("client %" PRIu64 " is connected", whose[i]->request.number);
			whose[i]->state = CONNECTED;
		} else if (pairs[i].result != -EAGAIN) {
			fprintf(stderr, "service: %s\n", pairs[i].reason);
			forget(whose[i], "cannot be connected");
		} else if (hartebeest_clock() - whose[i]->since > PATIENCE) {
			forget(whose[i], "never came");
		}
	}
}

/*
 * A client that leaves says so.  A client that has crashed does not answer: an empty WRITE needs
 * no memory at the other end, and fails if the client is gone.
 */
static void look_after(void)
{
	int64_t now = hartebeest_clock();
	struct client *client;
	struct ibv_wc wc;

	for (client = clients; client < clients + CLIENTS; client++) {
		if (client->state != CONNECTED || now - client->since < 1000 * MS)
			continue;
		client->since = now;
		if (hartebeest_qp_follow(self.hb, client->name, client->pair.peer_key,
					 NULL, HARTEBEEST_ONCE) == -ESHUTDOWN)
			forget(client, "has left");
		else if (!client->pinged)
			client->pinged = hartebeest_post_write(client->qp, self.mr->addr, 0,
							       self.mr->lkey, 0, 0,
							       (uint64_t)(client - clients),
							       IBV_SEND_SIGNALED) == 0;
	}

	while (hartebeest_poll(self.cq, 1, &wc) > 0) {
		client = &clients[wc.wr_id];
		if (client->state != CONNECTED || client->qp->qp_num != wc.qp_num)
			continue;
		client->pinged = 0;
		if (wc.status != IBV_WC_SUCCESS)
			forget(client, "has crashed");
	}
}

static void serve(void)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct hartebeest_client request;
	int ret;

	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	start(SLOTS * sizeof(struct slot), access);
	try(hartebeest_service_listen(self.hb, SERVICE, 0));
	say("serving");
	while (!stopped) {
		ret = hartebeest_service_accept(self.hb, SERVICE, &request, HARTEBEEST_ONCE);
		if (ret == 0) {
			welcome(&request);
			continue;
		}
		/* No client has asked, or the server does not answer at the moment. */
		if (ret != -EAGAIN)
			try(ret);
		connect_asking();
		look_after();
		usleep(10000);
	}
	hartebeest_close(self.hb);
}

/* ------------------------------------------------------------------- a client --- */

static struct {
	struct hartebeest_client request;
	struct hartebeest_pair pair;
	struct hartebeest_remote_mr table;
	struct ibv_qp *qp;
} here;

static void ask(void)
{
	try(hartebeest_service_request(self.hb, SERVICE, NULL, 0, &here.request, 0));
	prepare(&here.pair, "to the server", &here.request, &here.qp);
	here.pair.regions = &here.table;
	here.pair.region_room = 1;
}

/*
 * Called again whenever the server was replaced, and then gets the new table.  If the server gave
 * this client up, it makes a new request.
 */
static void join(void)
{
	while (hartebeest_pairs_connect(self.hb, &here.pair, 1,
					hartebeest_clock() + PATIENCE) < 0) {
		say("asking again: %s", here.pair.reason);
		leave(&here.request);
		try(hartebeest_qp_destroy(self.hb, "to the server"));
		ask();
	}
}

enum operation { READ, ADD, CLAIM };

/* 1: done, 0: the server was not there. */
static int post(enum operation operation, size_t slot, uint64_t number)
{
	uint64_t at = here.table.address + slot * sizeof(struct slot);
	uint32_t rkey = here.table.rkey, lkey = self.mr->lkey;
	uint64_t value = at + offsetof(struct slot, value);
	struct ibv_wc wc;
	int ret;

	if (operation == READ)
		ret = hartebeest_post_read(here.qp, self.mr->addr, sizeof(struct slot), lkey, at,
					   rkey, 1, IBV_SEND_SIGNALED);
	else if (operation == ADD)
		ret = hartebeest_post_fetch_add(here.qp, self.mr->addr, lkey, value, rkey, number,
						1, IBV_SEND_SIGNALED);
	else
		ret = hartebeest_post_compare_swap(here.qp, self.mr->addr, lkey, at, rkey, 0,
						   number, 1, IBV_SEND_SIGNALED);

	return ret == 0 &&
	       hartebeest_poll_until(self.cq, 1, &wc, hartebeest_clock() + PATIENCE) == 1 &&
	       wc.status == IBV_WC_SUCCESS;
}

/* An ADD that failed may still have been carried out; a program that needs better uses CLAIMs. */
static const struct slot *carry_out(enum operation operation, size_t slot, uint64_t number)
{
	while (!post(operation, slot, number)) {
		say("the server does not answer: connecting again");
		join();
	}

	return self.mr->addr;
}

static uint64_t key_of(const char *text)
{
	uint64_t key = 0;

	memcpy(&key, text, strnlen(text, sizeof(key)));

	return key;
}

/* The slot of a key, claimed if @claims; SLOTS: there is none. */
static size_t find(uint64_t key, int claims)
{
	size_t slot = key * UINT64_C(0x9e3779b97f4a7c15) % SLOTS, steps;
	uint64_t found;

	for (steps = 0; steps < SLOTS; steps++, slot = (slot + 1) % SLOTS) {
		found = carry_out(READ, slot, 0)->key;
		if (!found && !claims)
			break;
		if (!found)
			found = carry_out(CLAIM, slot, key)->key;	/* the key there before */
		if (!found || found == key)
			return slot;
	}

	return SLOTS;
}

static void add(const char *text, uint64_t number)
{
	size_t slot = find(key_of(text), 1);

	if (slot < SLOTS)
		carry_out(ADD, slot, number);
	else
		say("there is no room for %s", text);
}

static void get(const char *text)
{
	size_t slot = find(key_of(text), 0);

	if (slot < SLOTS)
		say("%s is %" PRIu64, text, carry_out(READ, slot, 0)->value);
	else
		say("%s is not there", text);
}

/* How many words the first request has; 0: it is not a request. */
static int words_of(int count, char **words)
{
	bool adds = count > 2 && strcmp(words[0], "add") == 0;
	bool gets = count > 1 && strcmp(words[0], "get") == 0;

	if ((adds || gets) && strlen(words[1]) > sizeof(uint64_t))
		return 0;

	return adds ? 3 : gets || (count > 1 && strcmp(words[0], "sleep") == 0) ? 2 : 0;
}

static bool words_are_requests(int count, char **words)
{
	int step;

	for (; count > 0; count -= step, words += step) {
		step = words_of(count, words);
		if (!step)
			return false;
	}

	return true;
}

int main(int argc, char **argv)
{
	int i = 1;

	if (argc == 2 && strcmp(argv[1], "serve") == 0) {
		serve();
		return EXIT_SUCCESS;
	}
	if (!words_are_requests(argc - 1, argv + 1)) {
		fprintf(stderr, "usage: service serve | [add KEY N | get KEY | sleep SECONDS]...\n"
			"a KEY has at most 8 bytes\n");
		return EXIT_FAILURE;
	}

	start(sizeof(struct slot), IBV_ACCESS_LOCAL_WRITE);
	ask();
	join();
	for (; i < argc; i += words_of(argc - i, argv + i)) {
		if (strcmp(argv[i], "add") == 0)
			add(argv[i + 1], strtoull(argv[i + 2], NULL, 10));
		else if (strcmp(argv[i], "get") == 0)
			get(argv[i + 1]);
		else
			sleep((unsigned int)atoi(argv[i + 1]));
	}
	leave(&here.request);
	hartebeest_close(self.hb);
	return EXIT_SUCCESS;
}
