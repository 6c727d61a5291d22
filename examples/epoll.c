/* SPDX-License-Identifier: MIT */
/*
 * epoll.c - one thread that sleeps for completions, device events and a timer at once
 *
 *	hartebeest run -n 2 -- ./epoll
 *
 * On two hosts, start it twice, with HARTEBEEST_NID=0 and 1, HARTEBEEST_PARTICIPANTS=0,1 and
 * HARTEBEEST_EXC_IP_PORT=host:port of a Memcached server.  Each rank sends a tick whenever
 * its timer expires, and prints the ticks of the other.  A tick is an immediate value, which
 * needs no memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <hartebeest-post.h>
#include <hartebeest.h>

#define TICKS 5
#define INTERVAL 20000000	/* ns */

static struct hartebeest_context *hb;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static int sent, received;

static int try(int ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "%s\n", hartebeest_error());
	exit(EXIT_FAILURE);
}

/* Called in INIT, and again whenever the queue pair had to go through RESET. */
static int refill(void *data, struct ibv_qp *own)
{
	int i, ret = 0;

	(void)data;
	for (i = 0; ret == 0 && i < TICKS; i++)
		ret = hartebeest_post_recv(own, NULL, 0, 0, 0);
	return ret;
}

static void connect(int rank)
{
	static const char *const keys[] = { "left", "right" };
	struct hartebeest_cq_attr cq_attr;
	struct hartebeest_qp_attr attr;
	struct hartebeest_pair pair;

	try(hartebeest_pd_create(hb, "pd", NULL));
	hartebeest_cq_attr_init(&cq_attr);
	cq_attr.flags = HARTEBEEST_CQ_CHANNEL;
	try(hartebeest_cq_create(hb, "cq", &cq_attr, &cq));
	hartebeest_qp_attr_init(&attr);
	attr.pd = "pd";
	attr.send_cq = "cq";
	attr.type = IBV_QPT_RC;
	try(hartebeest_qp_create(hb, "qp", &attr, &qp));
	try(hartebeest_qp_refill_set(hb, "qp", refill, NULL));
	hartebeest_pair_init(&pair);
	pair.qp = "qp";
	pair.key = keys[rank];
	pair.peer_key = keys[!rank];
	try(hartebeest_pairs_connect(hb, &pair, 1, 0));
}

/* Takes all completions: only an empty queue makes its descriptor readable again. */
static void take_completions(void)
{
	char text[512];
	struct ibv_wc wc;
	int ret;

	while ((ret = hartebeest_cq_wait(hb, cq, 1, &wc, HARTEBEEST_ONCE)) > 0) {
		if (wc.status != IBV_WC_SUCCESS) {
			hartebeest_completion_text(hb, &wc, text, sizeof(text));
			fprintf(stderr, "%s\n", text);
			exit(EXIT_FAILURE);
		}
		if (wc.opcode & IBV_WC_RECV)
			printf("tick %u of the other, and %d of %d\n", hartebeest_wc_imm(&wc),
			       ++received, TICKS);
	}
	if (ret != -EAGAIN)
		try(ret);
}

static void take_events(void)
{
	struct hartebeest_event event;

	while (hartebeest_event_get(hb, &event, HARTEBEEST_ONCE) > 0)
		printf("event: %s\n", event.text);
}

static void send_tick(int timer)
{
	uint64_t expirations;

	if (read(timer, &expirations, sizeof(expirations)) < 0 || sent == TICKS)
		return;
	if (hartebeest_post_send_imm(qp, NULL, 0, 0, (uint32_t)sent++, 0, IBV_SEND_SIGNALED) < 0)
		exit(EXIT_FAILURE);
}

static void watch(int epoll, int fd)
{
	struct epoll_event wanted = { .events = EPOLLIN, .data = { .fd = fd } };

	if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &wanted) < 0)
		exit(EXIT_FAILURE);
}

int main(void)
{
	struct itimerspec interval = { { 0, INTERVAL }, { 0, INTERVAL } };
	int epoll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, 0);
	struct epoll_event got;
	int completions, events;

	try(hartebeest_open(&hb, NULL));
	connect(try(hartebeest_rank(hb)) % 2);
	completions = try(hartebeest_cq_fd(hb, "cq"));
	events = try(hartebeest_event_fd(hb));
	watch(epoll, completions);
	watch(epoll, events);
	watch(epoll, timer);
	timerfd_settime(timer, 0, &interval, NULL);

	take_completions();
	while (sent < TICKS || received < TICKS) {
		if (epoll_wait(epoll, &got, 1, -1) < 1)
			continue;
		if (got.data.fd == completions)
			take_completions();
		else if (got.data.fd == events)
			take_events();
		else
			send_tick(timer);
	}
	try(hartebeest_barrier(hb, "done", 0));
	try(hartebeest_close(hb));
	return EXIT_SUCCESS;
}
