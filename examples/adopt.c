/* SPDX-License-Identifier: MIT */
/*
 * adopt.c - a program that has its own verbs objects, connected by name
 *
 *	hartebeest run -n 2 -- ./adopt
 *
 * On two hosts, start it twice, with HARTEBEEST_NID=0 and 1, HARTEBEEST_PARTICIPANTS=0,1 and
 * HARTEBEEST_EXC_IP_PORT=host:port of a Memcached server.
 *
 * It is examples/pingpong-socket.c without choosing a GID, without sockets and without
 * transitions, in less than a third of its lines.
 */
#include <hartebeest.h>

#include "pingpong.h"

/* Called in INIT, and again whenever the queue pair had to go through RESET. */
static int refill(void *data, struct ibv_qp *qp)
{
	(void)qp;
	return -post_receive(data);
}

static void try(int ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "%s\n", hartebeest_error());
	exit(EXIT_FAILURE);
}

int main(void)
{
	static const char *const keys[] = { "ping", "pong" };
	static struct pingpong self;
	struct hartebeest_context *hb;
	struct hartebeest_pair pair;
	int rank;

	create(&self);
	try(hartebeest_open_verbs(&hb, NULL, self.verbs, 0));
	try(rank = hartebeest_rank(hb));
	try(hartebeest_qp_adopt(hb, "qp", self.qp));
	try(hartebeest_qp_refill_set(hb, "qp", refill, &self));

	hartebeest_pair_init(&pair);
	pair.qp = "qp";
	pair.key = keys[rank % 2];
	pair.peer_key = keys[!(rank % 2)];
	try(hartebeest_pairs_connect(hb, &pair, 1, 0));

	play(&self, rank == 0);
	try(hartebeest_barrier(hb, "played", 0));
	try(hartebeest_close(hb));
	destroy(&self);
	return EXIT_SUCCESS;
}
