/* SPDX-License-Identifier: MIT */
/*
 * mesh.c - processes that are all connected to each other, with data over every link
 *
 * RC with several queue pairs for each peer, UD, a program's own exchange through shared memory,
 * and a rank that is killed and started again.
 *
 * promise: hartebeest_mesh(3)
 */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hartebeest-mesh.h"
#include "hartebeest-post.h"
#include "tests/support/live.h"
#include "tests/support/make.h"
#include "tests/support/memcached.h"
#include "tests/support/unit.h"

#define RANKS 6			/* in the long run */
#define FEW_RANKS 4
#define PER_PEER 2
#define SLOT 64
#define INBOX (RANKS * PER_PEER * SLOT)
#define GRH 40

static const char *const inbox[] = { "inbox" };

static int count;		/* of ranks in this run */

struct node {
	struct hartebeest_context *hb;
	struct hartebeest_mesh_attr attr;
	struct hartebeest_mesh *mesh;
	struct ibv_mr *in, *out;
	int rank;
};

static void node_open(struct node *node, int rank)
{
	memset(node, 0, sizeof(*node));
	node->rank = rank;
	EXPECT(hartebeest_open(&node->hb, NULL) == 0);
	EXPECT(hartebeest_pd_create(node->hb, "pd", NULL) == 0);
	EXPECT(mr_make(node->hb, "inbox", "pd", INBOX, LIVE_ACCESS, &node->in) == 0);
	EXPECT(mr_make(node->hb, "outbox", "pd", INBOX, LIVE_ACCESS,
		       &node->out) == 0);
	hartebeest_mesh_attr_init(&node->attr);
	node->attr.pd = "pd";
	node->attr.regions = inbox;
	node->attr.region_count = 1;
	node->attr.qps_per_peer = PER_PEER;
}

static void complete(struct node *node, uint64_t wr_id)
{
	struct ibv_wc wc;

	live_await(hartebeest_mesh_cq(node->mesh), &wc);
	EXPECT(wc.status == IBV_WC_SUCCESS);
	EXPECT(wc.wr_id == wr_id);
}

/* Fills in what rank @from writes over its queue pair @index to rank @to. */
static void fill(unsigned char *bytes, int from, int to, int index)
{
	memset(bytes, 1 + from * 17 + to * 5 + index * 3, SLOT);
}

/* Writes another slot over every link of this rank. */
static void write_all(struct node *node)
{
	struct hartebeest_remote_mr there;
	size_t slot;
	int peer, index;

	for (peer = 0; peer < count; peer++)
		for (index = 0; peer != node->rank && index < PER_PEER; index++) {
			slot = (size_t)(node->rank * PER_PEER + index) * SLOT;
			EXPECT(hartebeest_mesh_region(node->mesh, peer, 0, &there) == 0);
			fill(node->out->addr, node->rank, peer, index);
			EXPECT(hartebeest_post_write(hartebeest_mesh_qp(node->mesh, peer, index),
						     node->out->addr, SLOT, node->out->lkey,
						     there.address + slot, there.rkey,
						     (uint64_t)peer, IBV_SEND_SIGNALED) == 0);
			complete(node, (uint64_t)peer);
		}
}

static void check_all(const struct node *node)
{
	unsigned char want[SLOT];
	int peer, index;

	for (peer = 0; peer < count; peer++)
		for (index = 0; peer != node->rank && index < PER_PEER; index++) {
			fill(want, peer, node->rank, index);
			EXPECT(memcmp((char *)node->in->addr +
				      (size_t)(peer * PER_PEER + index) * SLOT, want, SLOT) == 0);
		}
}

static void exchange(struct node *node)
{
	write_all(node);
	EXPECT(hartebeest_mesh_barrier(node->mesh, 0) == 0);
	check_all(node);
}

static int rc_rank(int rank, void *data)
{
	struct hartebeest_mesh_stats stats;
	struct node node;

	(void)data;
	node_open(&node, rank);
	node.attr.threads = 3;
	EXPECT(hartebeest_mesh_connect(node.hb, "rc", &node.attr, &node.mesh, 0) == 0);
	EXPECT(hartebeest_mesh_stats_get(node.mesh, &stats) == 0);
	printf("rank %d: %d queue pairs in %d us: create %d, publish %d, wait %d, fetch %d, "
	       "RTR %d, RTS %d, confirm %d\n", rank, (int)stats.qps, (int)(stats.total / 1000),
	       (int)(stats.create.time / 1000), (int)(stats.publish.time / 1000),
	       (int)(stats.wait.time / 1000), (int)(stats.fetch.time / 1000),
	       (int)(stats.rtr.time / 1000), (int)(stats.rts.time / 1000),
	       (int)(stats.confirm.time / 1000));
	EXPECT(stats.rtr.time > 0 && stats.rts.time > 0);
	exchange(&node);
	hartebeest_close(node.hb);
	return 0;
}

/* Each rank sends a letter to all others, and receives theirs. */
static int ud_rank(int rank, void *data)
{
	struct hartebeest_ud_address address;
	struct node node;
	bool seen[RANKS] = { false };
	unsigned char *slot;
	int peer;

	(void)data;
	node_open(&node, rank);
	node.attr.type = IBV_QPT_UD;
	node.attr.region_count = 0;
	EXPECT(hartebeest_mesh_connect(node.hb, "ud", &node.attr, &node.mesh, 0) == 0);
	for (peer = 0; peer < count - 1; peer++)
		EXPECT(hartebeest_post_recv(hartebeest_mesh_qp(node.mesh, !rank, 0),
					    (char *)node.in->addr + peer * 2 * SLOT, 2 * SLOT,
					    node.in->lkey, 100) == 0);
	EXPECT(hartebeest_mesh_barrier(node.mesh, 0) == 0);
	memset(node.out->addr, 'a' + rank, SLOT);
	for (peer = 0; peer < count; peer++) {
		if (peer == rank)
			continue;
		EXPECT(hartebeest_mesh_ud_address(node.mesh, peer, &address) == 0);
		EXPECT(hartebeest_post_send_ud(hartebeest_mesh_qp(node.mesh, peer, 0),
					       node.out->addr, SLOT, node.out->lkey, address.ah,
					       address.qp_num, address.qkey, 7, 0) == 0);
	}
	for (peer = 0; peer < count - 1; peer++) {
		complete(&node, 100);
		slot = (unsigned char *)node.in->addr + peer * 2 * SLOT + GRH;
		EXPECT(slot[0] >= 'a' && slot[0] < 'a' + count && slot[SLOT - 1] == slot[0]);
		EXPECT(!seen[slot[0] - 'a']);
		seen[slot[0] - 'a'] = true;
	}
	EXPECT(!seen[rank]);
	EXPECT(hartebeest_mesh_barrier(node.mesh, 0) == 0);
	hartebeest_close(node.hb);
	return 0;
}

/* ------------------------------------------------------------- a program's own exchange --- */

/* Shared by all ranks: each rank's bytes, and a count of arrivals, two a rank and round. */
static struct hall {
	char bytes[RANKS][4096];
	int arrived;
} *hall;

struct visit {
	int rank, round;
};

static int hall_gather(void *data, const void *mine, void *all, size_t length)
{
	struct visit *visit = data;
	int i;

	/* No rank still reads the old bytes: the second wait of the last round ensured that. */
	memcpy(hall->bytes[visit->rank], mine, length);
	__atomic_add_fetch(&hall->arrived, 1, __ATOMIC_SEQ_CST);
	visit->round++;
	while (__atomic_load_n(&hall->arrived, __ATOMIC_SEQ_CST) < (2 * visit->round - 1) * count)
		usleep(200);
	for (i = 0; i < count; i++)
		memcpy((char *)all + (size_t)i * length, hall->bytes[i], length);
	__atomic_add_fetch(&hall->arrived, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&hall->arrived, __ATOMIC_SEQ_CST) < 2 * visit->round * count)
		usleep(200);
	return 0;
}

static int gather_rank(int rank, void *data)
{
	struct visit visit = { .rank = rank };
	struct node node;

	(void)data;
	unsetenv("HARTEBEEST_EXC_IP_PORT");
	node_open(&node, rank);
	node.attr.gather = hall_gather;
	node.attr.gather_data = &visit;
	node.attr.rank_count = (unsigned int)count;
	node.attr.own_rank = rank;
	EXPECT(hartebeest_mesh_connect(node.hb, "own", &node.attr, &node.mesh, 0) == 0);
	exchange(&node);
	hartebeest_close(node.hb);
	return 0;
}

/* ------------------------------------------------------------ a rank that comes again --- */

#define MORTAL 2

static void repair_and_exchange(struct node *node)
{
	EXPECT(hartebeest_mesh_repair(node->mesh, 0) == 1);
	memset(node->in->addr, 0, INBOX);
	EXPECT(hartebeest_mesh_barrier(node->mesh, 0) == 0);
	exchange(node);
}

/* The first process of this rank is killed. */
static int mortal_rank(struct node *node)
{
	pid_t first = fork();
	int status;

	if (first == 0) {
		node_open(node, MORTAL);
		EXPECT(hartebeest_mesh_connect(node->hb, "again", &node->attr, &node->mesh,
					       0) == 0);
		exchange(node);
		raise(SIGKILL);
	}
	EXPECT(waitpid(first, &status, 0) == first);
	EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	node_open(node, MORTAL);
	EXPECT(hartebeest_mesh_connect(node->hb, "again", &node->attr, &node->mesh, 0) == 0);
	EXPECT(hartebeest_mesh_barrier(node->mesh, 0) == 0);
	exchange(node);
	hartebeest_close(node->hb);
	return 0;
}

static int repair_rank(int rank, void *data)
{
	struct node node;

	(void)data;
	if (rank == MORTAL)
		return mortal_rank(&node);
	node_open(&node, rank);
	EXPECT(hartebeest_mesh_connect(node.hb, "again", &node.attr, &node.mesh, 0) == 0);
	exchange(&node);
	repair_and_exchange(&node);
	hartebeest_close(node.hb);
	return 0;
}

static void all(int (*function)(int rank, void *data))
{
	struct ranks ranks = { .count = count };
	struct cache *cache;
	int failed;

	cache_need();
	cache = cache_start(NULL);
	ranks.server = cache_hostport(cache)->text;
	failed = ranks_run(&ranks, function, NULL);
	cache_end(cache);
	assert_int_equal(failed, 0);
}

static void over_rc(void **state)
{
	(void)state;
	all(rc_rank);
}

static void over_ud(void **state)
{
	(void)state;
	all(ud_rank);
}

static void by_its_own_exchange(void **state)
{
	(void)state;
	hall = mmap(NULL, sizeof(*hall), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(hall != MAP_FAILED);
	all(gather_rank);
	munmap(hall, sizeof(*hall));
}

static void a_rank_comes_again(void **state)
{
	(void)state;
	all(repair_rank);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_rc),
		cmocka_unit_test(over_ud),
		cmocka_unit_test(by_its_own_exchange),
		cmocka_unit_test(a_rank_comes_again),
	};

	ranks_need_device();
	count = unit_whole() ? RANKS : FEW_RANKS;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
