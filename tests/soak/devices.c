/* SPDX-License-Identifier: MIT */
/*
 * devices.c - repeated bring-ups leave nothing in a real device
 *
 * 	devices [COUNT]
 *
 * Eight processes connect each to each, write into each other's memory and close, COUNT times
 * (50).  The processes themselves live on.  After each bring-up the kernel must have the same
 * verbs objects as before, by rdma(8).  In the end, compared with the first bring-ups, no process
 * may have more descriptors, threads or memory, nor the server one more item for each bring-up.
 */
#include "config.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "hartebeest-post.h"
#include "tests/support/holdings.h"
#include "tests/support/live.h"
#include "tests/support/make.h"
#include "tests/support/pause.h"
#include "tests/support/rank.h"

#define RANKS 8
#define FIRST_RUNS 3			/* during these, lasting structures are set up */
#define ITEMS_SLACK (3 * RANKS)		/* long waits, in some runs only, add keys */
#define PATIENCE_MS 10000

static struct cache *cache;
static pthread_barrier_t *barrier;	/* shared by the processes */
static int count = 50;

/* The kernel's verbs objects, one line for each device; the caller frees the text. */
static char *resources(void)
{
	FILE *file = popen("rdma resource show", "r");
	char *text = NULL;
	size_t size = 0;

	EXPECT(file != NULL);
	EXPECT(getdelim(&text, &size, '\0', file) > 0);
	EXPECT(pclose(file) == 0);
	return text;
}

struct rank {
	struct hartebeest_context *hb;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp[RANKS];
	struct hartebeest_remote_mr there[RANKS];
};

static void rank_make(struct rank *own, int rank)
{
	const struct rank_settings settings = {
		.servers = cache_hostport(cache)->text, .job = "devices", .rank = rank,
		.size = RANKS,
	};
	char name[16];
	int peer;

	EXPECT(rank_open(&own->hb, &settings) == 0);
	EXPECT(hartebeest_pd_create(own->hb, "pd", NULL) == 0);
	EXPECT(cq_make(own->hb, "cq", 0, 0, &own->cq) == 0);
	EXPECT(mr_make(own->hb, "mr", "pd", 4096, LIVE_ACCESS, &own->mr) == 0);
	for (peer = 0; peer < RANKS; peer++) {
		snprintf(name, sizeof(name), "qp-%d", peer);
		if (peer != rank)
			EXPECT(qp_make(own->hb, name, "pd", IBV_QPT_RC, "cq", "cq",
				       &own->qp[peer]) == 0);
	}
}

static void rank_connect(struct rank *own, int rank)
{
	static const char *const offer[] = { "mr" };
	struct { char qp[16], key[16], peer_key[16]; } names[RANKS];
	struct hartebeest_pair pairs[RANKS], *pair = pairs;
	int peer;

	for (peer = 0; peer < RANKS; peer++) {
		if (peer == rank)
			continue;
		snprintf(names[peer].qp, sizeof(names[peer].qp), "qp-%d", peer);
		snprintf(names[peer].key, sizeof(names[peer].key), "%d/%d", rank, peer);
		snprintf(names[peer].peer_key, sizeof(names[peer].peer_key), "%d/%d", peer, rank);
		hartebeest_pair_init(pair);
		pair->qp = names[peer].qp;
		pair->key = names[peer].key;
		pair->peer_key = names[peer].peer_key;
		pair->offer = offer;
		pair->offer_count = 1;
		pair->regions = &own->there[peer];
		pair++->region_room = 1;
	}
	EXPECT(hartebeest_pairs_connect(own->hb, pairs, RANKS - 1, 0) == 0);
}

/*
 * Rank @rank writes byte RANKS of its own region into byte @rank of each other one.  The barrier is
 * the context's first, which has the same keys each time; keys of later barriers name the run and
 * stay for their time to live.
 */
static void rank_write(struct rank *own, int rank, int run)
{
	unsigned char *bytes = own->mr->addr, here = (unsigned char)(rank + 10 * run + 1);
	struct ibv_wc wc;
	int peer;

	bytes[RANKS] = here;
	for (peer = 0; peer < RANKS; peer++)
		if (peer != rank)
			EXPECT(hartebeest_post_write(own->qp[peer], bytes + RANKS, 1, own->mr->lkey,
						     own->there[peer].address + (uint64_t)rank,
						     own->there[peer].rkey, 1,
						     IBV_SEND_SIGNALED) == 0);
	for (peer = 0; peer < RANKS - 1; peer++) {
		live_await(own->cq, &wc);
		EXPECT(wc.status == IBV_WC_SUCCESS);
	}
	EXPECT(hartebeest_barrier(own->hb, "written", 0) == 0);
	for (peer = 0; peer < RANKS; peer++)
		EXPECT(peer == rank || bytes[peer] == (unsigned char)(peer + 10 * run + 1));
}

static void bring_up(int rank, int run)
{
	struct rank own = { .hb = NULL };

	rank_make(&own, rank);
	rank_connect(&own, rank);
	rank_write(&own, rank, run);
	EXPECT(hartebeest_close(own.hb) == 0);
}

/* A device may take a moment to free objects.  Nobody makes any meanwhile. */
static void compare_resources(const char *before, int run)
{
	char *now = resources();
	int waited;

	for (waited = 0; strcmp(now, before) && waited < PATIENCE_MS; waited += 50) {
		pause_ms(50);
		free(now);
		now = resources();
	}
	if (strcmp(now, before))
		fprintf(stderr, "before:\n%safter bring-up %d:\n%s", before, run + 1, now);
	EXPECT(!strcmp(now, before));
	free(now);
}

static int soaked_rank(int rank, void *before)
{
	struct holdings first, now;
	int run;

	for (run = 0; run < count; run++) {
		bring_up(rank, run);
		pthread_barrier_wait(barrier);
		if (rank == 0)
			compare_resources(before, run);
		now = holdings_count(cache);
		if (run < FIRST_RUNS)
			first = now;
		pthread_barrier_wait(barrier);
	}
	first.items += ITEMS_SLACK;
	EXPECT(!holdings_have_grown(&first, &now));
	printf("rank %d: %ld descriptors, %ld threads, %ld KB; %ld items\n", rank,
	       now.descriptors, now.threads, now.memory, now.items);
	return 0;
}

int main(int argc, char **argv)
{
	struct ranks ranks = { .count = RANKS };
	pthread_barrierattr_t shared;
	char *before, *after;
	int failed;

	if (argc > 1)
		count = atoi(argv[1]);
	ranks_need_device();
	if (system("rdma resource show >/dev/null 2>&1") != 0) {
		fprintf(stderr, "no rdma(8) that counts resources\n");
		return 77;
	}
	cache_need();
	cache = cache_start(NULL);
	ranks.server = cache_hostport(cache)->text;
	barrier = mmap(NULL, sizeof(*barrier), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(barrier, &shared, RANKS);

	before = resources();
	failed = ranks_run(&ranks, soaked_rank, before);
	after = resources();
	cache_end(cache);
	printf("%d bring-ups of %d ranks, %d ranks failed; before and after:\n%s%s", count, RANKS,
	       failed, before, after);
	free(before);
	free(after);
	return failed != 0;
}
