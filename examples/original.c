/* SPDX-License-Identifier: MIT */
/*
 * original.c - a program as it is written for the original Hartebeest
 *
 * It uses only functions of hartebeest-c.h, in the original's order.  Node 0 writes a string
 * into node 1's buffer.  Node 1 polls its memory until the string is there and then
 * acknowledges it through Memcached.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hartebeest-c.h"

#define TEXT "a string from node 0"

static const char *const pd[] = { "pd-of-0", "pd-of-1" };
static const char *const mr[] = { "mr-of-0", "mr-of-1" };
static const char *const qp[] = { "qp-of-0", "qp-of-1" };

static int give_up(const char *what)
{
	fprintf(stderr, "original: %s failed\n", what);
	return EXIT_FAILURE;
}

static int write_there(int there)
{
	struct ibv_qp *local_qp = hartebeest_get_local_qp(pd[0], qp[0]);
	struct ibv_mr *local = hartebeest_get_local_mr(pd[0], mr[0]);
	struct ibv_mr *remote = hartebeest_get_remote_mr(mr[there]);

	strcpy(local->addr, TEXT);
	if (!hartebeest_rdma_post_single_fast(local_qp, local->addr, remote->addr, sizeof(TEXT),
					      IBV_WR_RDMA_WRITE, local->lkey, remote->rkey, 7))
		return give_up("posting");
	if (!hartebeest_rdma_poll("send-cq"))
		return give_up("polling");
	if (!hartebeest_memc_wait_general("arrived"))
		return give_up("waiting for the acknowledgement");
	hartebeest_memc_del_general("arrived");
	printf("node 0: acknowledged\n");
	return EXIT_SUCCESS;
}

static int wait_here(void)
{
	const char *text = hartebeest_get_local_mr(pd[1], mr[1])->addr;
	int i;

	for (i = 0; i < 10000 && strcmp(text, TEXT) != 0; i++)
		usleep(1000);
	if (strcmp(text, TEXT) != 0)
		return give_up("waiting for the string");

	printf("node 1: %s\n", text);
	return hartebeest_memc_push_general("arrived") ? EXIT_SUCCESS : give_up("acknowledging");
}

int main(void)
{
	const char *number;
	int here, there;

	hartebeest_init();
	number = hartebeest_get_sysvar("HARTEBEEST_NID");
	if (!number)
		return give_up("reading HARTEBEEST_NID");
	here = atoi(number);
	there = !here;

	hartebeest_create_local_pd(pd[here]);
	hartebeest_create_local_mr(pd[here], mr[here], 8192, IBV_ACCESS_LOCAL_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
	hartebeest_memc_push_local_mr(mr[here], pd[here], mr[here]);
	hartebeest_memc_fetch_remote_mr(mr[there]);

	hartebeest_create_basiccq("send-cq");
	hartebeest_create_basiccq("recv-cq");
	hartebeest_create_local_qp(pd[here], qp[here], IBV_QPT_RC, "send-cq", "recv-cq");
	hartebeest_init_local_qp(pd[here], qp[here]);
	hartebeest_memc_push_local_qp(qp[here], pd[here], qp[here]);
	hartebeest_memc_fetch_remote_qp(qp[there]);
	if (!hartebeest_connect_local_qp(pd[here], qp[here], qp[there]))
		return give_up("connecting");

	return here == 0 ? write_there(there) : wait_here();
}
