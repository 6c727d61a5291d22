/* SPDX-License-Identifier: MIT */
/*
 * pair.c - everything two processes do with each other, step by step
 *
 *	hartebeest run -n 2 -- ./pair
 *
 * On two hosts, start it twice, with HARTEBEEST_NID=0 and 1, HARTEBEEST_PARTICIPANTS=0,1 and
 * HARTEBEEST_EXC_IP_PORT=host:port of a Memcached server.  Each rank writes into the
 * other's memory, reads from it, and sends it a message; contents are checked.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hartebeest-post.h>
#include <hartebeest.h>

#define BUFFER 65536

/* The buffer's parts. */
#define OWN 0			/* written here, read by the peer */
#define WRITTEN 16384		/* written by the peer */
#define READ 32768		/* read from the peer */
#define RECEIVED 49152		/* sent by the peer */
#define LENGTH 8192

static struct {
	struct hartebeest_context *hb;
	int64_t start;
	int rank;
	char me[32], peer[32];		/* keys */
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct hartebeest_remote_mr there;
} self;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list arguments;

	printf("rank %d, %4d ms: ", self.rank,
	       (int)((hartebeest_clock() - self.start) / 1000000));
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

	fprintf(stderr, "rank %d: %s\n", self.rank, hartebeest_error());
	exit(EXIT_FAILURE);
}

/* Functions of hartebeest-post.h set no sentence; they only return an errno. */
static void posted(int ret)
{
	if (ret == 0)
		return;

	fprintf(stderr, "rank %d: posting: %s\n", self.rank, strerror(-ret));
	exit(EXIT_FAILURE);
}

static void print_log(void *data, int level, const char *text)
{
	(void)data;
	if (level <= HARTEBEEST_LOG_INFO)
		say("%s", text);
}

static char *part(int offset)
{
	return (char *)self.mr->addr + offset;
}

/* Called in INIT, and again whenever the queue pair had to go through RESET. */
static int post_receive(void *data, struct ibv_qp *qp)
{
	(void)data;
	return hartebeest_post_recv(qp, part(RECEIVED), LENGTH, self.mr->lkey, RECEIVED);
}

static void create(void)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct hartebeest_mr_attr mr_attr;
	struct hartebeest_qp_attr attr;

	try(hartebeest_pd_create(self.hb, "pd", NULL));
	try(hartebeest_cq_create(self.hb, "cq", NULL, &self.cq));
	hartebeest_mr_attr_init(&mr_attr);
	mr_attr.pd = "pd";
	mr_attr.length = BUFFER;
	mr_attr.access = access;
	try(hartebeest_mr_create(self.hb, "mr", &mr_attr, &self.mr));
	hartebeest_qp_attr_init(&attr);
	attr.pd = "pd";
	attr.send_cq = "cq";
	attr.type = IBV_QPT_RC;
	try(hartebeest_qp_create(self.hb, "qp", &attr, &self.qp));
	try(hartebeest_qp_refill_set(self.hb, "qp", post_receive, NULL));
}

/* Publishes queue pair and region, finds those of the peer, connects, and is confirmed. */
static void connect(void)
{
	const char *offer[] = { "mr" };
	struct hartebeest_pair pair;
	char who[256];

	hartebeest_pair_init(&pair);
	pair.qp = "qp";
	pair.key = self.me;
	pair.peer_key = self.peer;
	pair.offer = offer;
	pair.offer_count = 1;
	pair.regions = &self.there;
	pair.region_room = 1;
	try(hartebeest_pairs_connect(self.hb, &pair, 1, 0));
	try(hartebeest_peer_text(self.hb, self.peer, who, sizeof(who), 0));
	say("pushed qp '%s': QP %u, offering rkey 0x%x", self.me, self.qp->qp_num, self.mr->rkey);
	say("fetched qp '%s': QP %u, of %s", self.peer, pair.peer.qp_num, who);
	say("RESET -> INIT -> RTR -> RTS, confirmed by the peer, which offers rkey 0x%x",
	    self.there.rkey);
}

static void complete(uint64_t wr_id)
{
	struct ibv_wc wc;
	char text[512];

	if (hartebeest_poll_until(self.cq, 1, &wc,
				  hartebeest_clock() + INT64_C(10000000000)) < 0) {
		fprintf(stderr, "rank %d: no completion within 10 s\n", self.rank);
		exit(EXIT_FAILURE);
	}
	if (wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id)
		return;

	hartebeest_completion_text(self.hb, &wc, text, sizeof(text));
	fprintf(stderr, "rank %d: %s\n", self.rank, text);
	exit(EXIT_FAILURE);
}

/* The contents of the memory of @rank; each byte depends on the rank and on its place. */
static void fill(char *bytes, int rank)
{
	int i;

	for (i = 0; i < LENGTH; i++)
		bytes[i] = (char)(i * 7 + rank * 101);
}

static void check(const char *what, const char *bytes)
{
	static char expected[LENGTH];

	fill(expected, !self.rank);
	if (memcmp(bytes, expected, LENGTH) == 0)
		return;

	fprintf(stderr, "rank %d: %s: the bytes are not the peer's\n", self.rank, what);
	exit(EXIT_FAILURE);
}

static void transfer(void)
{
	uint32_t lkey = self.mr->lkey, rkey = self.there.rkey;
	int64_t start = hartebeest_clock(), wrote, read;

	posted(hartebeest_post_write(self.qp, part(OWN), LENGTH, lkey,
				     self.there.address + WRITTEN, rkey, 1, IBV_SEND_SIGNALED));
	complete(1);
	wrote = hartebeest_clock();
	posted(hartebeest_post_read(self.qp, part(READ), LENGTH, lkey, self.there.address + OWN,
				    rkey, 2, IBV_SEND_SIGNALED));
	complete(2);
	read = hartebeest_clock();
	check("READ", part(READ));
	try(hartebeest_barrier(self.hb, "written", 0));
	check("WRITE", part(WRITTEN));
	say("WRITE %d bytes in %" PRId64 " us, READ %d bytes in %" PRId64 " us: contents right",
	    LENGTH, (wrote - start) / 1000, LENGTH, (read - wrote) / 1000);

	/* Unsignalled, so that its completion cannot be mistaken for that of the receive. */
	posted(hartebeest_post_send(self.qp, part(OWN), LENGTH, lkey, 3, 0));
	complete(RECEIVED);
	check("SEND", part(RECEIVED));
	say("SEND and RECV %d bytes: contents right", LENGTH);
}

int main(void)
{
	self.start = hartebeest_clock();
	try(hartebeest_open(&self.hb, NULL));
	self.rank = try(hartebeest_rank(self.hb));
	snprintf(self.me, sizeof(self.me), "pair-%d", self.rank);
	snprintf(self.peer, sizeof(self.peer), "pair-%d", !self.rank);
	try(hartebeest_log_set(self.hb, HARTEBEEST_LOG_INFO, print_log, NULL));

	create();
	fill(part(OWN), self.rank);
	connect();
	transfer();

	/* A rank that leaves takes its memory with it: wait for each other. */
	try(hartebeest_barrier(self.hb, "done", 0));
	hartebeest_close(self.hb);
	return EXIT_SUCCESS;
}
